//! Puts the configuration together: a flag goes before a variable, a variable before the file, the file before
//! the default.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    Config, ConfigError, ConfigErrors, ConfigFile, Flags, Origin,
    kind::{Kind, Refusal},
    schema::{Visitor, flag_name, keys, variable_name, visit},
    value::{Node, Position},
};

/// A valid configuration, and where each of its values came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Every key with its value, in the order in which the keys are documented.
    pub settings: Vec<Setting>,
}

impl Loaded {
    /// Whether a key was given anywhere, rather than left at its default.
    pub fn is_set(&self, key: &str) -> bool {
        self.settings.iter().any(|setting| setting.key == key && setting.origin != Origin::Default)
    }
}

/// One key's value in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: &'static str,
    /// The value as TOML; `None` when absent. Secrets are masked.
    pub value: Option<String>,
    /// Where it was given.
    pub origin: Origin,
}

/// Builds the configuration. `env` looks up an environment variable; an empty one counts as absent.
///
/// # Errors
///
/// Every mistake in the flags, the variables and the file that are in effect. A value that another one
/// overrides is not looked at.
pub fn load(
    flags: &Flags,
    env: impl Fn(&str) -> Option<String>,
    file: Option<&ConfigFile>,
) -> Result<Loaded, ConfigErrors> {
    let (file_values, errors) = file.map(|file| file.values(&keys())).unwrap_or_default();
    let mut loader = Loader { flags, env, file_values, settings: Vec::new(), errors };
    let mut config = Config::default();
    visit(&mut config, &mut loader);
    if loader.errors.is_empty() {
        loader.errors = conflicts(&config, &loader.settings);
    }
    if loader.errors.is_empty() {
        Ok(Loaded { config, settings: loader.settings })
    } else {
        Err(ConfigErrors::new(loader.errors))
    }
}

/// Looks a variable up in the environment of this process, for [`load`].
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Variables among `names` that look like the agent's and are not: probably misspelt. They are no error,
/// because others may set variables with this prefix; Kubernetes does for a Service named `gpu-agent`.
pub fn unknown_variables(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let known = keys();
    let is_known = |name: &str| name == "GPU_AGENT_CONFIG" || known.iter().any(|key| key.variable == name);
    let is_service_link = |name: &str| {
        name == "GPU_AGENT_PORT"
            || name.starts_with("GPU_AGENT_PORT_")
            || name.starts_with("GPU_AGENT_SERVICE_")
    };
    let mut unknown: Vec<String> = names
        .into_iter()
        .filter(|name| name.starts_with("GPU_AGENT_") && !is_known(name) && !is_service_link(name))
        .collect();
    unknown.sort();
    unknown
}

struct Loader<'f, E> {
    flags: &'f Flags,
    env: E,
    file_values: BTreeMap<&'static str, (Origin, Node)>,
    settings: Vec<Setting>,
    errors: Vec<ConfigError>,
}

impl<E: Fn(&str) -> Option<String>> Visitor for Loader<'_, E> {
    fn key<K: Kind>(&mut self, name: &'static str, _help: &'static str, kind: K, field: &mut K::Target) {
        let origin = match self.given(name) {
            None => Origin::Default,
            Some((origin, node)) => {
                match kind.read(&node) {
                    Ok(value) => *field = value,
                    Err(refusals) => {
                        self.errors.extend(
                            refusals.into_iter().map(|refusal| refused(name, &kind, &origin, &node, refusal)),
                        );
                    }
                }
                origin
            }
        };
        self.settings.push(Setting { key: name, value: kind.render(field), origin });
    }
}

impl<E: Fn(&str) -> Option<String>> Loader<'_, E> {
    fn given(&mut self, key: &str) -> Option<(Origin, Node)> {
        if let Some(word) = self.flags.value(key) {
            return Some((Origin::Flag(flag_name(key)), Node::word(word)));
        }
        let variable = variable_name(key);
        if let Some(word) = (self.env)(&variable).filter(|word| !word.is_empty()) {
            return Some((Origin::Variable(variable), Node::word(&word)));
        }
        self.file_values.remove(key)
    }
}

fn refused<K: Kind>(name: &str, kind: &K, origin: &Origin, given: &Node, refusal: Refusal) -> ConfigError {
    let origin = match (origin, refusal.position) {
        (Origin::File { path, .. }, Some(Position { line, column })) => {
            Origin::File { path: Arc::clone(path), line, column }
        }
        _ => origin.clone(),
    };
    let value = if kind.is_secret() {
        "a value that is not shown".to_owned()
    } else {
        refusal.value.unwrap_or_else(|| given.value.to_string())
    };
    ConfigError::BadValue {
        key: format!("{name}{}", refusal.part),
        value,
        origin,
        expected: refusal.expected.unwrap_or_else(|| kind.expected()),
        remedy: refusal.remedy,
    }
}

/// Values that are acceptable alone and not together.
fn conflicts(config: &Config, settings: &[Setting]) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    let mut conflict = |key: &str, with: &str, remedy: &str| {
        let setting = settings.iter().find(|setting| setting.key == key);
        errors.push(ConfigError::Conflict {
            key: key.to_owned(),
            value: setting.and_then(|setting| setting.value.clone()).unwrap_or_else(|| "absent".to_owned()),
            origin: setting.map_or(Origin::Default, |setting| setting.origin.clone()),
            conflict: with.to_owned(),
            remedy: remedy.to_owned(),
        });
    };
    let otlp = &config.otlp;
    if otlp.endpoint.is_some() && otlp.interval < config.interval {
        conflict("otlp.interval", "is shorter than `interval`", "push no oftener than metrics are refreshed");
    }
    if otlp.tls.cert_file.is_some() && otlp.tls.key_file.is_none() {
        conflict("otlp.tls.cert_file", "needs a private key", "set `otlp.tls.key_file` too");
    }
    if otlp.tls.key_file.is_some() && otlp.tls.cert_file.is_none() {
        conflict("otlp.tls.key_file", "needs a certificate", "set `otlp.tls.cert_file` too");
    }
    if otlp.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://")) {
        let tls = [
            ("otlp.tls.ca_file", &otlp.tls.ca_file),
            ("otlp.tls.cert_file", &otlp.tls.cert_file),
            ("otlp.tls.key_file", &otlp.tls.key_file),
        ];
        for (key, _) in tls.into_iter().filter(|(_, file)| file.is_some()) {
            conflict(
                key,
                "needs an `https://` endpoint",
                "begin `otlp.endpoint` with `https://`, or remove this key",
            );
        }
    }
    errors
}

/// The effective configuration as TOML, each line with where its value came from.
impl fmt::Display for Loaded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Setting { key, value, origin } in &self.settings {
            match value {
                Some(value) => writeln!(formatter, "{key} = {value} # {origin}")?,
                None => writeln!(formatter, "# {key} is absent # {origin}")?,
            }
        }
        Ok(())
    }
}
