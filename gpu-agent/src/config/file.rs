//! The TOML file: read, parsed, and taken apart into the keys that it sets.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use toml::de::{DeTable, DeValue};

use super::{
    ConfigError, ConfigErrors, Flags, KeyInfo, Origin,
    value::{Node, Position},
};

/// Read when neither a flag nor a variable names a file, if it exists.
const DEFAULT_PATH: &str = "/etc/gpu-agent/config.toml";

/// A configuration file's text.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Where it was read from; named in messages.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl ConfigFile {
    /// Reads the file that `--config` or `GPU_AGENT_CONFIG` names, or else `/etc/gpu-agent/config.toml` if it
    /// exists.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn read(flags: &Flags, env: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, ConfigErrors> {
        let named = flags
            .config_path()
            .map(Path::to_path_buf)
            .or_else(|| env("GPU_AGENT_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from));
        let path = named.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_PATH));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => Ok(None),
            Err(source) => Err(ConfigErrors::new(vec![ConfigError::Unreadable { path, source }])),
        }
    }

    /// The values that the file gives, by key, and what is wrong with its form.
    pub(super) fn values(
        &self,
        keys: &[KeyInfo],
    ) -> (BTreeMap<&'static str, (Origin, Node)>, Vec<ConfigError>) {
        let (document, syntax_errors) = DeTable::parse_recoverable(&self.text);
        let mut reader = Reader {
            file: self,
            path: Arc::new(self.path.clone()),
            keys,
            values: BTreeMap::new(),
            errors: Vec::new(),
        };
        for error in &syntax_errors {
            let origin = reader.origin(error.span().map_or(0, |span| span.start));
            reader.errors.push(ConfigError::Syntax { origin, problem: error.message().to_owned() });
        }
        // What a parser makes of a broken file is not what was meant, so its keys are left alone.
        if reader.errors.is_empty() {
            reader.table("", document.get_ref());
        }
        (reader.values, reader.errors)
    }
}

struct Reader<'f> {
    file: &'f ConfigFile,
    path: Arc<PathBuf>,
    keys: &'f [KeyInfo],
    values: BTreeMap<&'static str, (Origin, Node)>,
    errors: Vec<ConfigError>,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            let origin = self.origin(key.span().start);
            if let Some(known) = self.keys.iter().find(|known| known.name == name) {
                let node = Node::from_toml(&self.file.text, value);
                let origin = self.origin(value.span().start);
                self.values.insert(known.name, (origin, node));
                continue;
            }
            let section = format!("{name}.");
            let is_section = self.keys.iter().any(|known| known.name.starts_with(&section));
            match (is_section, value.get_ref()) {
                (true, DeValue::Table(inner)) => self.table(&section, inner),
                (true, _) => {
                    let value = Node::from_toml(&self.file.text, value).value.to_string();
                    let expected = "a table".to_owned();
                    let remedy = format!("write a `[{name}]` section");
                    self.errors.push(ConfigError::BadValue { key: name, value, origin, expected, remedy });
                }
                (false, _) => {
                    let remedy = suggestion(&name, self.keys);
                    self.errors.push(ConfigError::UnknownKey { key: name, origin, remedy });
                }
            }
        }
    }

    fn origin(&self, offset: usize) -> Origin {
        let Position { line, column } = Position::of_offset(&self.file.text, offset);
        Origin::File { path: Arc::clone(&self.path), line, column }
    }
}

/// What to do about an unknown key.
fn suggestion(unknown: &str, keys: &[KeyInfo]) -> String {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().replace('-', "_");
    let nearest = keys
        .iter()
        .map(|key| {
            let whole = edit_distance(unknown, key.name);
            // The right word in the wrong section is the commonest mistake.
            let word = if last(unknown) == last(key.name) { 1 } else { usize::MAX };
            (whole.min(word), key.name)
        })
        .min();
    match nearest {
        Some((distance, name)) if distance <= 3 => {
            format!("write `{name}` if that is what is meant, or remove it")
        }
        _ => "remove it; docs/configuration.md lists the keys".to_owned(),
    }
}

/// Number of single-character changes between two words (Levenshtein).
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
