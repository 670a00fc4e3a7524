//! Runs cargo's test runners, shows what they print and counts their tests.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use xshell::Cmd;

use super::tally::{Tally, closing_line};

/// Where a runner prints its closing lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closes {
    OnStdout,
    OnStderr,
}

/// Runs a test runner to its end.
///
/// # Errors
///
/// When it cannot be started, or fails without having counted a failed test: then something did not build.
pub(crate) fn run(command: Cmd<'_>, closes: Closes) -> Result<Tally> {
    run_showing(command, closes, &mut io::stdout())
}

fn run_showing(command: Cmd<'_>, closes: Closes, shown: &mut impl Write) -> Result<Tally> {
    let text = command.to_string();
    let mut command = Command::from(command);
    command.stdin(Stdio::null());
    match closes {
        Closes::OnStdout => command.stdout(Stdio::piped()),
        Closes::OnStderr => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().with_context(|| format!("failed to start `{text}`"))?;
    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        copy_and_count(BufReader::new(stdout), shown, &mut tally)
    } else if let Some(stderr) = child.stderr.take() {
        copy_and_count(BufReader::new(stderr), shown, &mut tally)
    } else {
        Ok(())
    }
    .with_context(|| format!("failed to read what `{text}` prints"))?;

    let status = child.wait().with_context(|| format!("failed to wait for `{text}`"))?;
    ensure!(status.success() || tally.failed > 0, "`{text}` ended with {status}");
    Ok(tally)
}

fn copy_and_count(mut output: impl BufRead, shown: &mut impl Write, tally: &mut Tally) -> io::Result<()> {
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 {
        shown.write_all(&line)?;
        if let Some(part) = closing_line(&String::from_utf8_lossy(&line)) {
            *tally += part;
        }
        line.clear();
    }
    shown.flush()
}

#[cfg(test)]
mod tests {
    use xshell::{Shell, cmd};

    use super::*;

    /// Runs a script in a runner's place, showing nothing: its closing lines would count in the run of these tests.
    fn run_script(script: &str, closes: Closes) -> Result<Tally> {
        let shell = Shell::new().unwrap();
        run_showing(cmd!(shell, "sh -c {script}"), closes, &mut io::sink())
    }

    #[test]
    fn the_counts_of_all_programs_add_up() {
        let script = "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured'
            echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured'; exit 101";
        assert_eq!(run_script(script, Closes::OnStdout).unwrap(), Tally { passed: 4, failed: 2, skipped: 1 });
    }

    #[test]
    fn standard_error_is_read_where_the_runner_closes_there() {
        let script = "echo 'Summary [ 0.1s] 2 tests run: 2 passed, 0 skipped' >&2";
        assert_eq!(run_script(script, Closes::OnStderr).unwrap(), Tally { passed: 2, failed: 0, skipped: 0 });
    }

    #[test]
    fn a_runner_that_fails_without_a_failed_test_is_an_error() {
        let error = run_script("exit 101", Closes::OnStdout).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c \"exit 101\"` ended with exit status: 101");
    }
}
