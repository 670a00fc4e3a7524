//! What was written for a key, before it is known to be acceptable.

use std::fmt;

use toml::{Spanned, de::DeValue};

/// Line and column in the configuration file, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Position {
    /// The position of a byte offset; offsets past the end mean the end.
    pub(super) fn of_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset.min(text.len())).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before.get(line_start..).map_or(0, |line| line.chars().count()) + 1,
        }
    }
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    /// Absent for values from flags and variables.
    pub(super) position: Option<Position>,
}

/// A value as written.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// From a flag or a variable, where everything is text.
    Word(String),
    /// A TOML string.
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
    /// A TOML value of a type that no key takes (float, date, integer beyond 64 bits), as written.
    Other(String),
}

impl Node {
    /// A value from a flag or a variable.
    pub(super) fn word(text: &str) -> Self {
        Self { value: Value::Word(text.to_owned()), position: None }
    }

    /// A value from the file; `text` is the whole file.
    pub(super) fn from_toml(text: &str, toml: &Spanned<DeValue<'_>>) -> Self {
        let value = match toml.get_ref() {
            DeValue::String(string) => Value::Text(string.to_string()),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(number) => Value::Integer(number),
                Err(_) => Value::Other(integer.to_string()),
            },
            DeValue::Float(float) => Value::Other(float.to_string()),
            DeValue::Boolean(boolean) => Value::Boolean(*boolean),
            DeValue::Datetime(datetime) => Value::Other(datetime.to_string()),
            DeValue::Array(items) => {
                Value::List(items.iter().map(|item| Self::from_toml(text, item)).collect())
            }
            DeValue::Table(table) => Value::Table(
                table
                    .iter()
                    .map(|(key, value)| (key.get_ref().to_string(), Self::from_toml(text, value)))
                    .collect(),
            ),
        };
        Self { value, position: Some(Position::of_offset(text, toml.span().start)) }
    }
}

/// Writes a value the way TOML would, except that a flag's or variable's text stands in quotes.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) | Self::Text(text) => formatter.write_str(&quote(text)),
            Self::Integer(number) => number.fmt(formatter),
            Self::Boolean(boolean) => boolean.fmt(formatter),
            Self::Other(text) => formatter.write_str(text),
            Self::List(items) => {
                formatter.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(formatter, "{separator}{}", item.value)?;
                }
                formatter.write_str("]")
            }
            Self::Table(entries) => {
                formatter.write_str("{")?;
                for (index, (key, node)) in entries.iter().enumerate() {
                    let separator = if index == 0 { " " } else { ", " };
                    write!(formatter, "{separator}{key} = {}", node.value)?;
                }
                formatter.write_str(" }")
            }
        }
    }
}

/// A TOML basic string.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                quoted.extend(format!("\\u{:04x}", u32::from(control)).chars());
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "a = 1\nü = 2\n";
        assert_eq!(Position::of_offset(text, 0), Position { line: 1, column: 1 });
        assert_eq!(Position::of_offset(text, 4), Position { line: 1, column: 5 });
        assert_eq!(Position::of_offset(text, 8), Position { line: 2, column: 2 });
        assert_eq!(Position::of_offset(text, 999), Position { line: 3, column: 1 });
    }

    #[test]
    fn quoted_text_is_a_toml_string() {
        let odd = "a\"b\\c\nd\te\u{1}f";
        let document = format!("key = {}", quote(odd));
        let parsed: toml::Table = document.parse().expect("quoted text parses");
        assert_eq!(parsed.get("key").and_then(toml::Value::as_str), Some(odd));
    }
}
