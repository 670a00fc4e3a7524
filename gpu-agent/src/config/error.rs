//! What is wrong with a configuration: every mistake at once, each with its place and its remedy.

use std::{error::Error, fmt, path::PathBuf, sync::Arc};

use thiserror::Error as ThisError;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: the built-in default holds.
    Default,
    /// The configuration file; line and column count from 1.
    File {
        /// The file.
        path: Arc<PathBuf>,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { path, line, column } => write!(formatter, "{}:{line}:{column}", path.display()),
            Self::Variable(name) => write!(formatter, "environment variable {name}"),
            Self::Flag(name) => write!(formatter, "flag {name}"),
        }
    }
}

/// One mistake in the configuration.
#[derive(Debug, ThisError)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration file `{}`: give a readable TOML file with --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{origin}: not valid TOML: {problem}")]
    Syntax {
        /// Where.
        origin: Origin,
        /// The parser's message.
        problem: String,
    },
    /// The file has a key that does not exist.
    #[error("{origin}: unknown key `{key}`: {remedy}")]
    UnknownKey {
        /// The key as written, with its tables.
        key: String,
        /// Where.
        origin: Origin,
        /// What to do.
        remedy: String,
    },
    /// A value is not acceptable.
    #[error("{origin}: `{key}` is {value}, expected {expected}: {remedy}")]
    BadValue {
        /// The key.
        key: String,
        /// The value as written, or a note that it is a secret.
        value: String,
        /// Where.
        origin: Origin,
        /// What is accepted.
        expected: String,
        /// What to do.
        remedy: String,
    },
    /// Two values exclude each other.
    #[error("{origin}: `{key}` is {value}, which {conflict}: {remedy}")]
    Conflict {
        /// The key.
        key: String,
        /// The value in effect.
        value: String,
        /// Where it was given.
        origin: Origin,
        /// What it contradicts.
        conflict: String,
        /// What to do.
        remedy: String,
    },
}

impl ConfigError {
    /// The key that the mistake concerns, where it concerns one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Unreadable { .. } | Self::Syntax { .. } => None,
            Self::UnknownKey { key, .. } | Self::BadValue { key, .. } | Self::Conflict { key, .. } => {
                Some(key)
            }
        }
    }
}

/// Every mistake that was found, in the order of the keys.
#[derive(Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(super) fn new(errors: Vec<ConfigError>) -> Self {
        Self(errors)
    }

    /// The mistakes.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a ConfigErrors {
    type Item = &'a ConfigError;
    type IntoIter = std::slice::Iter<'a, ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// One line for each mistake.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(formatter, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl Error for ConfigErrors {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.iter().find_map(Error::source)
    }
}
