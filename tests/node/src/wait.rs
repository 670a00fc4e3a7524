//! Waiting for a condition rather than for time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long anything may take on a slow machine before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is `Some`.
///
/// # Errors
/// Names what was waited for when it has not come within [`PATIENCE`].
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if Instant::now() >= deadline {
            bail!("{what}: not within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(PAUSE);
    }
}
