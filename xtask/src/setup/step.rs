//! A command that installs something: the same text is run where that is allowed, and printed where it is not.

use std::fmt;
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use xshell::Shell;

/// One command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    needs_root: bool,
    environment: Vec<(&'static str, String)>,
    folder: Option<PathBuf>,
    program: String,
    arguments: Vec<String>,
}

impl Step {
    /// A command for anybody.
    pub(crate) fn new<S: Into<String>>(program: &str, arguments: impl IntoIterator<Item = S>) -> Self {
        Self {
            needs_root: false,
            environment: Vec::new(),
            folder: None,
            program: program.to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// Adds arguments.
    pub(crate) fn and<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Says that only root may run the command.
    pub(crate) fn for_root(mut self) -> Self {
        self.needs_root = true;
        self
    }

    /// Sets an environment variable for the command.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Sets the folder that the command runs in; it is created first.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
    }

    pub(crate) fn needs_root(&self) -> bool {
        self.needs_root
    }

    /// The command as it is typed into a shell, by root or by a user for whom root's commands need `sudo`.
    pub(crate) fn command_line(&self, by_root: bool) -> String {
        let Self { needs_root, environment, folder, program, arguments } = self;
        let mut line = String::new();
        if let Some(folder) = folder {
            let folder = quoted(&folder.to_string_lossy());
            line.extend(["mkdir -p ", &folder, " && cd ", &folder, " && "]);
        }
        let sudo = (*needs_root && !by_root).then(|| "sudo".to_owned());
        let settings = environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = iter::once(program).chain(arguments).map(|word| quoted(word));
        line.push_str(&sudo.into_iter().chain(settings).chain(words).collect::<Vec<_>>().join(" "));
        line
    }

    /// Runs the command, with its output shown.
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let Self { needs_root: _, environment, folder, program, arguments } = self;
        let _return = match folder {
            Some(folder) => {
                shell.create_dir(folder)?;
                Some(shell.push_dir(folder))
            }
            None => None,
        };
        let mut command = shell.cmd(program).args(arguments).quiet();
        for (name, value) in environment {
            command = command.env(name, value);
        }
        // The libraries of the toolchain that runs this command are none of the installers' business.
        command.env_remove("LD_LIBRARY_PATH").run().with_context(|| format!("failed to run `{self}`"))
    }
}

impl fmt::Display for Step {
    /// The command as an ordinary user types it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.command_line(false))
    }
}

/// The text as one word of a POSIX shell.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=+,@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_prints_as_the_command_that_it_runs() {
        let step = Step::new("apt-get", ["install", "-y", "rustc-web"])
            .for_root()
            .with("DEBIAN_FRONTEND", "noninteractive");
        assert_eq!(step.to_string(), "sudo DEBIAN_FRONTEND=noninteractive apt-get install -y rustc-web");
    }

    #[test]
    fn words_that_a_shell_would_take_apart_are_quoted() {
        let step = Step::new("cargo", ["install", "bpf linker"])
            .with("RUSTFLAGS", "-L /usr/lib/it's")
            .within(Path::new("/tmp/a b"));
        let text = r"mkdir -p '/tmp/a b' && cd '/tmp/a b' && RUSTFLAGS='-L /usr/lib/it'\''s' cargo install 'bpf linker'";
        assert_eq!(step.to_string(), text);
    }

    #[test]
    fn a_step_runs_in_its_folder_with_its_environment() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let step = Step::new("sh", ["-c", "printf %s \"$WORD\" > out"]).with("WORD", "a 'b'").within(&inner);
        step.run(&Shell::new().unwrap()).unwrap();
        assert_eq!(std::fs::read_to_string(inner.join("out")).unwrap(), "a 'b'");
    }

    #[test]
    fn a_failing_step_names_its_command() {
        let error = Step::new("false", ["--now"]).run(&Shell::new().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "failed to run `false --now`");
    }
}
