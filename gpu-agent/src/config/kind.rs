//! Kinds of values: what each accepts, what it says when it refuses, and how it is written back.

mod collection;
mod network;
mod path;
mod scalar;

pub(super) use self::{
    collection::{Choices, Headers, Many},
    network::{Endpoint, Listen},
    path::{AbsolutePath, LibraryPath},
    scalar::{AutoCount, Bytes, Choice, Count, Length, Switch},
};
use super::value::{Node, Position, Value};

/// How a value is read from what was written, and written back.
pub(super) trait Kind {
    type Target;

    /// What is accepted; completes "expected …".
    fn expected(&self) -> String;

    /// Takes what was written.
    ///
    /// # Errors
    ///
    /// Every part that is not acceptable.
    fn read(&self, given: &Node) -> Result<Self::Target, Vec<Refusal>>;

    /// TOML text that reads back as the same value; `None` for an absent one.
    fn render(&self, value: &Self::Target) -> Option<String>;

    /// What stands between the items of a list in a flag or variable; `None` where there is one value only.
    fn separator(&self) -> Option<char> {
        None
    }

    /// Whether what was written must not be repeated in a message.
    fn is_secret(&self) -> bool {
        false
    }
}

/// Why a value, or one part of it, is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Appended to the key, for example `[2].match.uid`; empty for the whole value.
    pub(super) part: String,
    /// Where the part stands, if not where the value does.
    pub(super) position: Option<Position>,
    /// The part as written; `None` for the whole value.
    pub(super) value: Option<String>,
    /// What the part accepts; `None` for what the whole value accepts.
    pub(super) expected: Option<String>,
    /// What to do.
    pub(super) remedy: String,
}

impl Refusal {
    /// Refuses the whole value.
    pub(super) fn whole(remedy: impl Into<String>) -> Vec<Self> {
        vec![Self { part: String::new(), position: None, value: None, expected: None, remedy: remedy.into() }]
    }

    /// Says that this refusal concerns one part of a larger value.
    pub(super) fn within(self, part: &str, node: &Node, expected: &str) -> Self {
        Self {
            part: format!("{part}{}", self.part),
            position: self.position.or(node.position),
            value: self.value.or_else(|| Some(node.value.to_string())),
            expected: self.expected.or_else(|| Some(expected.to_owned())),
            remedy: self.remedy,
        }
    }
}

/// A value that may be absent; empty text means absent.
pub(super) struct Maybe<K>(pub(super) K);

impl<K: Kind> Kind for Maybe<K> {
    type Target = Option<K::Target>;

    fn expected(&self) -> String {
        self.0.expected()
    }

    fn read(&self, given: &Node) -> Result<Self::Target, Vec<Refusal>> {
        match &given.value {
            Value::Word(text) | Value::Text(text) if text.is_empty() => Ok(None),
            _ => self.0.read(given).map(Some),
        }
    }

    fn render(&self, value: &Self::Target) -> Option<String> {
        value.as_ref().and_then(|value| self.0.render(value))
    }

    fn separator(&self) -> Option<char> {
        self.0.separator()
    }

    fn is_secret(&self) -> bool {
        self.0.is_secret()
    }
}

/// The text of a value that has to be text.
pub(super) fn text(given: &Node) -> Result<&str, Vec<Refusal>> {
    match &given.value {
        Value::Word(text) | Value::Text(text) => Ok(text),
        _ => Err(Refusal::whole("write it in double quotes")),
    }
}
