use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::time::Instant;

use super::{Delivery, Failure, GivenUp, Policy, Retry, SendError, Transport};

const POLICY: Policy = Policy {
    timeout: Duration::from_secs(10),
    initial_backoff: Duration::from_secs(1),
    max_backoff: Duration::from_secs(30),
    max_elapsed: Duration::from_secs(300),
};

/// Answers in turn; the last answer is repeated. `None` never comes.
struct Script {
    answers: Mutex<VecDeque<Option<Retry>>>,
    attempts: Mutex<Vec<Duration>>,
    start: Instant,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Option<Retry>>) -> Self {
        Self {
            answers: Mutex::new(answers.into_iter().collect()),
            attempts: Mutex::default(),
            start: Instant::now(),
        }
    }

    fn attempts(&self) -> Vec<f64> {
        self.attempts.lock().unwrap().iter().map(Duration::as_secs_f64).collect()
    }

    async fn deliver(&self) -> Result<Delivery, GivenUp> {
        POLICY.deliver(self, Bytes::new(), || 0.5, |_| {}).await
    }
}

impl Transport for Script {
    async fn send(&self, _request: Bytes) -> Result<Delivery, Failure> {
        self.attempts.lock().unwrap().push(self.start.elapsed());
        let answer = {
            let mut answers = self.answers.lock().unwrap();
            if answers.len() > 1 { answers.pop_front() } else { answers.front().copied() }
        };
        match answer {
            None => Ok(Delivery::default()),
            Some(None) => std::future::pending().await,
            Some(Some(retry)) => Err(Failure {
                error: SendError::Http { status: StatusCode::SERVICE_UNAVAILABLE, message: String::new() },
                retry,
            }),
        }
    }
}

#[test]
fn the_back_off_doubles_up_to_its_bound_and_spreads() {
    let seconds = |attempt, jitter| POLICY.backoff(attempt, jitter).as_secs_f64();
    let expected = [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0];
    for (attempt, expected) in (1..).zip(expected) {
        assert!((seconds(attempt, 0.5) - expected).abs() < 1e-9, "{attempt}");
    }
    assert!((seconds(1, 0.0) - 0.5).abs() < 1e-9);
    assert!((seconds(1, 1.0) - 1.5).abs() < 1e-9);
    assert!((seconds(u32::MAX, 0.5) - 30.0).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_may_pass_is_repeated_after_the_back_off() {
    let script =
        Script::new([Some(Retry::Yes), Some(Retry::Yes), Some(Retry::After(Duration::from_secs(7)))]);
    let outcome = tokio::time::timeout(Duration::from_secs(4), script.deliver()).await;
    assert!(outcome.is_err(), "the third answer makes it wait for longer than this");
    assert_eq!(script.attempts(), [0.0, 1.0, 3.0]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_repeated() {
    let script = Script::new([Some(Retry::Yes), Some(Retry::Never)]);
    assert!(matches!(script.deliver().await, Err(GivenUp::Refused(_))));
    assert_eq!(script.attempts(), [0.0, 1.0]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_is_a_failure_that_may_pass() {
    let script = Script::new([None, Some(Retry::Never)]);
    assert!(matches!(script.deliver().await, Err(GivenUp::Refused(_))));
    assert_eq!(script.attempts(), [0.0, 11.0]);
}

#[tokio::test(start_paused = true)]
async fn after_the_elapsed_time_the_request_is_given_up() {
    let script = Script::new([Some(Retry::Yes)]);
    assert!(matches!(script.deliver().await, Err(GivenUp::RetriesExhausted(_))));
    // 1 + 2 + 4 + 8 + 16 = 31, then one each 30 s.
    assert_eq!(
        script.attempts(),
        [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 61.0, 91.0, 121.0, 151.0, 181.0, 211.0, 241.0, 271.0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_asks_for_longer_than_that_is_not_waited_for() {
    let script = Script::new([Some(Retry::After(Duration::from_secs(301)))]);
    assert!(matches!(script.deliver().await, Err(GivenUp::RetriesExhausted(_))));
    assert_eq!(script.attempts(), [0.0]);
}
