//! Lists, sets of names, and headers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Choice, Kind, Refusal};
use crate::config::value::{Node, Value, quote};

/// A list; in a flag or variable, separated by commas.
pub(in crate::config) struct Many<K>(pub(in crate::config) K);

impl<K: Kind> Kind for Many<K> {
    type Target = Vec<K::Target>;

    fn expected(&self) -> String {
        format!("a list, each item {}", self.0.expected())
    }

    fn read(&self, given: &Node) -> Result<Self::Target, Vec<Refusal>> {
        let items = items(given)?;
        let mut read = Vec::with_capacity(items.len());
        let mut refused = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match self.0.read(item) {
                Ok(value) => read.push(value),
                Err(refusals) => refused.extend(
                    refusals.into_iter().map(|it| it.within(&format!("[{index}]"), item, &self.0.expected())),
                ),
            }
        }
        if refused.is_empty() { Ok(read) } else { Err(refused) }
    }

    fn render(&self, value: &Self::Target) -> Option<String> {
        let items: Vec<String> = value.iter().filter_map(|item| self.0.render(item)).collect();
        Some(format!("[{}]", items.join(", ")))
    }

    fn separator(&self) -> Option<char> {
        Some(',')
    }
}

/// A set of names out of a few.
pub(in crate::config) struct Choices<T: 'static>(pub(in crate::config) Choice<T>);

impl<T: Copy + Ord> Kind for Choices<T> {
    type Target = BTreeSet<T>;

    fn expected(&self) -> String {
        format!("a list of any of {}", self.0.names())
    }

    fn read(&self, given: &Node) -> Result<BTreeSet<T>, Vec<Refusal>> {
        let mut chosen = BTreeSet::new();
        let mut refused = Vec::new();
        for (index, item) in items(given)?.iter().enumerate() {
            match self.0.read(item) {
                Ok(choice) => {
                    chosen.insert(choice);
                }
                Err(refusals) => refused.extend(
                    refusals.into_iter().map(|it| it.within(&format!("[{index}]"), item, &self.0.expected())),
                ),
            }
        }
        if refused.is_empty() { Ok(chosen) } else { Err(refused) }
    }

    fn render(&self, value: &BTreeSet<T>) -> Option<String> {
        let items: Vec<String> = value.iter().filter_map(|item| self.0.render(item)).collect();
        Some(format!("[{}]", items.join(", ")))
    }

    fn separator(&self) -> Option<char> {
        Some(',')
    }
}

/// Request headers; in a flag or variable `name=value,name=value`. The values may be credentials, so neither
/// messages nor the printed configuration repeat them.
pub(in crate::config) struct Headers;

impl Kind for Headers {
    type Target = BTreeMap<String, String>;

    fn expected(&self) -> String {
        "a table of header names and printable ASCII values".to_owned()
    }

    fn read(&self, given: &Node) -> Result<Self::Target, Vec<Refusal>> {
        let mut headers = BTreeMap::new();
        for (name, value) in header_pairs(given)? {
            let name = name.to_ascii_lowercase();
            if name.is_empty() || !name.bytes().all(is_token_byte) {
                return Err(Refusal::whole(format!(
                    "use letters, digits and dashes in header name {}",
                    quote(&name)
                )));
            }
            if !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
                return Err(Refusal::whole(format!("use printable ASCII only in the value of `{name}`")));
            }
            if headers.insert(name.clone(), value).is_some() {
                return Err(Refusal::whole(format!("give `{name}` once")));
            }
        }
        Ok(headers)
    }

    fn render(&self, value: &Self::Target) -> Option<String> {
        let entries: Vec<String> = value.keys().map(|name| format!("{name} = \"<secret>\"")).collect();
        Some(if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) })
    }

    fn separator(&self) -> Option<char> {
        Some(',')
    }

    fn is_secret(&self) -> bool {
        true
    }
}

fn header_pairs(given: &Node) -> Result<Vec<(String, String)>, Vec<Refusal>> {
    match &given.value {
        Value::Word(word) if word.is_empty() => Ok(Vec::new()),
        Value::Word(word) => word
            .split(',')
            .map(|pair| match pair.split_once('=') {
                Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
                None => Err(Refusal::whole("write `name=value`, separated by commas")),
            })
            .collect(),
        Value::Table(entries) => entries
            .iter()
            .map(|(name, node)| match &node.value {
                Value::Text(value) => Ok((name.clone(), value.clone())),
                _ => Err(Refusal::whole(format!("write the value of `{name}` in double quotes"))),
            })
            .collect(),
        _ => Err(Refusal::whole("write a table: `[otlp.headers]`, then `name = \"value\"` lines")),
    }
}

/// Bytes that a header name may have (RFC 9110 §5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The items of a list.
fn items(given: &Node) -> Result<Vec<Node>, Vec<Refusal>> {
    match &given.value {
        Value::List(items) => Ok(items.clone()),
        Value::Word(word) if word.is_empty() => Ok(Vec::new()),
        Value::Word(word) => Ok(word.split(',').map(|item| Node::word(item.trim())).collect()),
        _ => Err(Refusal::whole("write a list: `[\"…\", \"…\"]`")),
    }
}
