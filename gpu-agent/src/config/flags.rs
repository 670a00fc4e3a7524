//! Command-line flags: one for each key, and those that say what to do with the configuration.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};

use super::schema::keys;

/// The flags of the configuration; a command takes them with `#[command(flatten)]`.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    config: Option<PathBuf>,
    check_config: bool,
    print_config: bool,
    values: BTreeMap<&'static str, String>,
}

impl Flags {
    /// The file that `--config` names.
    pub fn config_path(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Whether only to validate the configuration (`--check-config`).
    pub fn check_config(&self) -> bool {
        self.check_config
    }

    /// Whether only to print the effective configuration (`--print-config`).
    pub fn print_config(&self) -> bool {
        self.print_config
    }

    /// What was given for a key.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }
}

// Written by hand in place of the derive, so that the flags follow from the schema.
impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let command = command
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .help("TOML file [env: GPU_AGENT_CONFIG] [default: /etc/gpu-agent/config.toml if it exists]"),
            )
            .arg(
                Arg::new("check-config")
                    .long("check-config")
                    .action(ArgAction::SetTrue)
                    .help("Validates the configuration, prints `ok` or every mistake, and exits"),
            )
            .arg(
                Arg::new("print-config")
                    .long("print-config")
                    .action(ArgAction::SetTrue)
                    .conflicts_with("check-config")
                    .help("Prints the effective configuration and where each value comes from, and exits"),
            );
        keys().into_iter().fold(command, |command, key| {
            let default = key.default.map_or_else(String::new, |default| format!(" [default: {default}]"));
            let action = if key.separator.is_some() { ArgAction::Append } else { ArgAction::Set };
            command.arg(
                Arg::new(key.name)
                    .long(key.flag.trim_start_matches('-').to_owned())
                    .value_name("VALUE")
                    .action(action)
                    .hide_short_help(key.name.contains('.'))
                    .help_heading("Configuration")
                    .help(format!("{} Takes {}. [env: {}]{default}", key.help, key.expected, key.variable)),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        if let Some(path) = matches.get_one::<PathBuf>("config") {
            self.config = Some(path.clone());
        }
        self.check_config |= matches.get_flag("check-config");
        self.print_config |= matches.get_flag("print-config");
        for key in keys() {
            if let Some(given) = matches.get_many::<String>(key.name) {
                let separator = key.separator.map_or_else(String::new, String::from);
                let words: Vec<&str> = given.map(String::as_str).collect();
                self.values.insert(key.name, words.join(&separator));
            }
        }
        Ok(())
    }
}
