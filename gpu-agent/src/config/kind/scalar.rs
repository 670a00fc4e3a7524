//! Durations, sizes, counts, switches and choices.

use std::time::Duration;

use super::{Kind, Refusal, text};
use crate::config::{
    units::{parse_bytes, parse_duration, render_bytes, render_duration},
    value::{Node, Value, quote},
};

/// A duration within bounds.
pub(in crate::config) struct Length {
    pub(in crate::config) min: Duration,
    pub(in crate::config) max: Duration,
}

impl Kind for Length {
    type Target = Duration;

    fn expected(&self) -> String {
        format!("a duration from {} to {}", render_duration(self.min), render_duration(self.max))
    }

    fn read(&self, given: &Node) -> Result<Duration, Vec<Refusal>> {
        if let Value::Integer(_) = given.value {
            return Err(Refusal::whole("write a number and a unit in double quotes, such as \"2s\""));
        }
        let duration = parse_duration(text(given)?).map_err(Refusal::whole)?;
        if duration < self.min {
            return Err(Refusal::whole(format!("use {} or more", render_duration(self.min))));
        }
        if duration > self.max {
            return Err(Refusal::whole(format!("use {} or less", render_duration(self.max))));
        }
        Ok(duration)
    }

    fn render(&self, value: &Duration) -> Option<String> {
        Some(quote(&render_duration(*value)))
    }
}

/// A size in bytes that is a power of two, within bounds.
pub(in crate::config) struct Bytes {
    pub(in crate::config) min: u64,
    pub(in crate::config) max: u64,
}

impl Kind for Bytes {
    type Target = u64;

    fn expected(&self) -> String {
        format!("a power of two from {} to {}", render_bytes(self.min), render_bytes(self.max))
    }

    fn read(&self, given: &Node) -> Result<u64, Vec<Refusal>> {
        if let Value::Integer(_) = given.value {
            return Err(Refusal::whole("write a number and a unit in double quotes, such as \"256KiB\""));
        }
        let bytes = parse_bytes(text(given)?).map_err(Refusal::whole)?;
        if bytes < self.min {
            return Err(Refusal::whole(format!("use {} or more", render_bytes(self.min))));
        }
        if bytes > self.max {
            return Err(Refusal::whole(format!("use {} or less", render_bytes(self.max))));
        }
        if !bytes.is_power_of_two() {
            let below = render_bytes(1 << bytes.ilog2());
            return Err(Refusal::whole(format!("use the power of two below it, {below}, or the one above")));
        }
        Ok(bytes)
    }

    fn render(&self, value: &u64) -> Option<String> {
        Some(quote(&render_bytes(*value)))
    }
}

/// A whole number within bounds.
pub(in crate::config) struct Count {
    pub(in crate::config) min: u32,
    pub(in crate::config) max: u32,
}

impl Kind for Count {
    type Target = u32;

    fn expected(&self) -> String {
        format!("a whole number from {} to {}", self.min, self.max)
    }

    fn read(&self, given: &Node) -> Result<u32, Vec<Refusal>> {
        let number = match &given.value {
            Value::Integer(number) => *number,
            Value::Word(word) => word
                .parse()
                .map_err(|_unparsed: std::num::ParseIntError| Refusal::whole("write digits only"))?,
            _ => return Err(Refusal::whole("write digits without quotes")),
        };
        u32::try_from(number)
            .ok()
            .filter(|number| (self.min..=self.max).contains(number))
            .ok_or_else(|| Refusal::whole("use a number within these bounds"))
    }

    fn render(&self, value: &u32) -> Option<String> {
        Some(value.to_string())
    }
}

/// A number of entries; 0 leaves it to the agent.
pub(in crate::config) struct AutoCount {
    pub(in crate::config) min: u32,
    pub(in crate::config) max: u32,
}

impl Kind for AutoCount {
    type Target = Option<u32>;

    fn expected(&self) -> String {
        format!("0 for automatic, or a whole number from {} to {}", self.min, self.max)
    }

    fn read(&self, given: &Node) -> Result<Option<u32>, Vec<Refusal>> {
        match (Count { min: 0, max: self.max }).read(given)? {
            0 => Ok(None),
            count if count < self.min => Err(Refusal::whole(format!("use 0, or {} or more", self.min))),
            count => Ok(Some(count)),
        }
    }

    fn render(&self, value: &Option<u32>) -> Option<String> {
        Some(value.unwrap_or(0).to_string())
    }
}

/// `true` or `false`.
pub(in crate::config) struct Switch;

impl Kind for Switch {
    type Target = bool;

    fn expected(&self) -> String {
        "true or false".to_owned()
    }

    fn read(&self, given: &Node) -> Result<bool, Vec<Refusal>> {
        match &given.value {
            Value::Boolean(switch) => Ok(*switch),
            Value::Word(word) => word.parse().map_err(|_unparsed: std::str::ParseBoolError| {
                Refusal::whole("write `true` or `false` in lower case")
            }),
            _ => Err(Refusal::whole("write `true` or `false` without quotes")),
        }
    }

    fn render(&self, value: &bool) -> Option<String> {
        Some(value.to_string())
    }
}

/// One of a few names.
pub(in crate::config) struct Choice<T: 'static>(pub(in crate::config) &'static [(&'static str, T)]);

impl<T> Choice<T> {
    pub(super) fn names(&self) -> String {
        self.0.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    }
}

impl<T: Copy + PartialEq> Kind for Choice<T> {
    type Target = T;

    fn expected(&self) -> String {
        format!("one of {}", self.names())
    }

    fn read(&self, given: &Node) -> Result<T, Vec<Refusal>> {
        let written = text(given)?;
        self.0
            .iter()
            .find(|(name, _)| *name == written)
            .map(|(_, choice)| *choice)
            .ok_or_else(|| Refusal::whole("write one of these names, in lower case"))
    }

    fn render(&self, value: &T) -> Option<String> {
        self.0.iter().find(|(_, choice)| choice == value).map(|(name, _)| quote(name))
    }
}
