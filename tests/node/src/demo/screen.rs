//! Where the demo talks to: a terminal, a pipe, or nobody but for progress.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use super::paint::{Paint, Tone};

/// How often a table is redrawn in place, and how often it is repeated where it cannot be.
const REDRAWN_EVERY: Duration = Duration::from_secs(1);
const REPEATED_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Terminal,
    Plain,
    /// Standard output is for the summary alone; progress goes to standard error.
    Quiet,
}

/// The place to talk to.
#[derive(Debug)]
pub(super) struct Screen {
    kind: Kind,
    paint: Paint,
    /// Lines of the table that the next one replaces.
    drawn_lines: usize,
    drawn_at: Instant,
}

impl Screen {
    /// Standard output, or with `quiet` only progress on standard error.
    pub(super) fn new(quiet: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let kind = match (quiet, terminal) {
            (true, _) => Kind::Quiet,
            (false, true) if std::env::var_os("TERM").is_none_or(|term| term != "dumb") => Kind::Terminal,
            (false, _) => Kind::Plain,
        };
        Self { kind, paint: Paint::new(kind == Kind::Terminal), drawn_lines: 0, drawn_at: Instant::now() }
    }

    pub(super) fn paint(&self) -> Paint {
        self.paint
    }

    /// Says something that stays.
    pub(super) fn say(&mut self, line: &str) -> io::Result<()> {
        self.drawn_lines = 0;
        match self.kind {
            Kind::Quiet => writeln!(io::stderr(), "{line}"),
            Kind::Terminal | Kind::Plain => writeln!(io::stdout(), "{line}"),
        }
    }

    /// Says what the result is, which in quiet mode is for the summary to say.
    pub(super) fn conclude(&mut self, lines: &[String]) -> io::Result<()> {
        if self.kind == Kind::Quiet {
            return Ok(());
        }
        lines.iter().try_for_each(|line| self.say(line))
    }

    /// Begins to wait for the next table.
    pub(super) fn rest(&mut self, now: Instant) {
        self.drawn_at = now;
    }

    /// Whether it is time for the next table.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let pause = match self.kind {
            Kind::Terminal => REDRAWN_EVERY,
            Kind::Plain => REPEATED_EVERY,
            Kind::Quiet => return false,
        };
        now.duration_since(self.drawn_at) >= pause
    }

    /// Shows a table in place of the last one, or below it.
    pub(super) fn show(&mut self, now: Instant, title: &str, lines: &[String]) -> io::Result<()> {
        self.drawn_at = now;
        let mut text = String::new();
        if self.kind == Kind::Terminal {
            // Long lines are cut rather than wrapped, so that the number of lines to go back over is known.
            text.push_str("\x1b[?7l");
            if self.drawn_lines > 0 {
                text.extend(["\x1b[", &self.drawn_lines.to_string(), "A\x1b[J"]);
            }
        }
        text.push('\n');
        text.push_str(&self.paint.apply(Tone::Faint, title));
        text.push('\n');
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        if self.kind == Kind::Terminal {
            text.push_str("\x1b[?7h");
        }
        self.drawn_lines = lines.len() + 2;
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}
