//! Repeating an attempt: when, and for how long.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::config::Settings;
use super::response::{Delivery, Failure, Retry, SendError};

/// One way to carry a request to the receiver.
pub(super) trait Transport {
    /// Makes one attempt. Dropping the future gives it up.
    fn send(&self, request: Bytes) -> impl Future<Output = Result<Delivery, Failure>> + Send;
}

/// Why a request was given up.
#[derive(Debug)]
pub(super) enum GivenUp {
    Refused(SendError),
    RetriesExhausted(SendError),
}

/// Limits of one attempt and of all of them together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) timeout: Duration,
    pub(super) initial_backoff: Duration,
    pub(super) max_backoff: Duration,
    pub(super) max_elapsed: Duration,
}

impl From<&Settings> for Policy {
    fn from(settings: &Settings) -> Self {
        Self {
            timeout: settings.timeout,
            initial_backoff: settings.initial_backoff,
            max_backoff: settings.max_backoff,
            max_elapsed: settings.max_elapsed,
        }
    }
}

impl Policy {
    /// The wait before attempt `attempt` (the second is 1); `jitter` is evenly distributed from 0 to 1.
    ///
    /// It is between half and one and a half of the exponential back-off, so that agents that lost the receiver at
    /// the same moment do not come back together.
    fn backoff(&self, attempt: u32, jitter: f64) -> Duration {
        let doubled = 2_u32.checked_pow(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.initial_backoff.saturating_mul(doubled).min(self.max_backoff).mul_f64(0.5 + jitter)
    }

    /// Sends `request` until the receiver has taken or refused it, or the time is up.
    ///
    /// `jitter` gives the numbers for the back-off, `failed` hears of each failure that is repeated.
    pub(super) async fn deliver(
        &self,
        transport: &impl Transport,
        request: Bytes,
        mut jitter: impl FnMut() -> f64,
        mut failed: impl FnMut(&SendError),
    ) -> Result<Delivery, GivenUp> {
        let deadline = Instant::now() + self.max_elapsed;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let failure = match tokio::time::timeout(self.timeout, transport.send(request.clone())).await {
                Ok(Ok(delivery)) => return Ok(delivery),
                Ok(Err(failure)) => failure,
                Err(_elapsed) => Failure::timeout(self.timeout),
            };
            let wait = match failure.retry {
                Retry::Never => return Err(GivenUp::Refused(failure.error)),
                Retry::Yes => self.backoff(attempt, jitter()),
                Retry::After(delay) => delay,
            };
            // A receiver that names a time beyond the deadline would only hold up what waits behind.
            if deadline.saturating_duration_since(Instant::now()) < wait {
                return Err(GivenUp::RetriesExhausted(failure.error));
            }
            failed(&failure.error);
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests;
