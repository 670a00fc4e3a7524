//! Colours, where a person is looking at them.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};

/// Paints text for standard output, or leaves it plain: off a terminal, on a dumb one, and where `NO_COLOR` is set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn for_stdout() -> Self {
        let (no_color, term) = (env::var_os("NO_COLOR"), env::var_os("TERM"));
        Self { on: wants_colour(io::stdout().is_terminal(), no_color.as_deref(), term.as_deref()) }
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub(crate) fn doubtful(self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `NO_COLOR` counts when it is present and not empty.
fn wants_colour(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_person_at_a_terminal_sees_colours() {
        let some = |text: &'static str| Some(OsStr::new(text));
        assert!(wants_colour(true, None, some("xterm")));
        assert!(wants_colour(true, some(""), None));
        assert!(!wants_colour(true, some("1"), some("xterm")));
        assert!(!wants_colour(true, None, some("dumb")));
        assert!(!wants_colour(false, None, some("xterm")));
    }

    #[test]
    fn paint_off_leaves_text_alone() {
        assert_eq!(Paint { on: false }.bad("text"), "text");
        assert_eq!(Paint { on: true }.bad("text"), "\x1b[31mtext\x1b[0m");
    }
}
