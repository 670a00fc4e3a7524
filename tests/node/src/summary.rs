//! The one shape of every `--json` output.

use std::collections::BTreeMap;

use serde::Serialize;

/// What a command found out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// False when a budget is missed.
    pub ok: bool,
    /// The unit is in the name.
    pub figures: BTreeMap<String, u64>,
    pub skipped: Vec<Skipped>,
    pub notes: Vec<String>,
}

/// Something that was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub what: String,
    pub why: String,
}
