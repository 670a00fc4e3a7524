//! The levels of tests, and what came of each.

use std::fmt;

use clap::ValueEnum;

use super::tally::Tally;

/// A kind of tests, by what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Pure logic and single crates; runs everywhere.
    Unit,
    /// Real BPF programs on this kernel, real cgroups and processes; needs root.
    Node,
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Unit => "unit",
            Self::Node => "node",
        })
    }
}

/// What came of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ran(Tally),
    /// It cannot run on this machine, and why.
    Skipped(String),
    /// It could not run although it should have, and why.
    Broken(String),
}

impl Outcome {
    /// The outcome where the level was required: being skipped is then a failure.
    pub(crate) fn required(self) -> Self {
        match self {
            Self::Skipped(why) => Self::Broken(format!("required, but {why}")),
            Self::Ran(Tally { passed: 0, failed: 0, .. }) => {
                Self::Broken("required, but ran no test".to_owned())
            }
            other => other,
        }
    }

    /// The level as a part of the totals; one that did not run counts as one test.
    pub(crate) fn tally(&self) -> Tally {
        match self {
            Self::Ran(tally) => *tally,
            Self::Skipped(_) => Tally { skipped: 1, ..Tally::default() },
            Self::Broken(_) => Tally { failed: 1, ..Tally::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_level_may_not_be_skipped_or_empty() {
        let skipped = Outcome::Skipped("it needs root".to_owned());
        assert_eq!(skipped.tally(), Tally { passed: 0, failed: 0, skipped: 1 });
        let required = skipped.required();
        assert_eq!(required, Outcome::Broken("required, but it needs root".to_owned()));
        assert_eq!(required.tally(), Tally { passed: 0, failed: 1, skipped: 0 });

        let empty = Outcome::Ran(Tally { passed: 0, failed: 0, skipped: 4 });
        assert_eq!(empty.required(), Outcome::Broken("required, but ran no test".to_owned()));
        let ran = Outcome::Ran(Tally { passed: 1, failed: 0, skipped: 4 });
        assert_eq!(ran.clone().required(), ran);
    }
}
