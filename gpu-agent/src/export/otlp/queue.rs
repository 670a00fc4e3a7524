//! Requests that wait for the receiver, bounded by their size.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::payload::Payload;

/// A queue between the snapshots and the receiver. What was taken counts as in flight until [`Queue::done`].
#[derive(Debug)]
pub(super) struct Queue {
    limit_bytes: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Payload>,
    bytes: usize,
    points_in_flight: u64,
    closed: bool,
}

impl Queue {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, state: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a request and returns the number of points in the oldest ones, which made room for it.
    ///
    /// A request that alone exceeds the bound waits alone.
    pub(super) fn push(&self, payload: Payload) -> u64 {
        let mut state = self.lock();
        let mut dropped = 0;
        while state.bytes + payload.bytes.len() > self.limit_bytes {
            let Some(oldest) = state.waiting.pop_front() else { break };
            state.bytes -= oldest.bytes.len();
            dropped += oldest.points;
        }
        state.bytes += payload.bytes.len();
        state.waiting.push_back(payload);
        drop(state);
        self.changed.notify_one();
        dropped
    }

    /// Says that nothing more will be pushed.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Takes the oldest request, waiting for one; `None` after the last. For one consumer only.
    ///
    /// Cancellation safe: a request is taken in the same poll in which it is returned.
    pub(super) async fn next(&self) -> Option<Payload> {
        loop {
            {
                let mut state = self.lock();
                if let Some(payload) = state.waiting.pop_front() {
                    state.bytes -= payload.bytes.len();
                    state.points_in_flight = payload.points;
                    return Some(payload);
                }
                if state.closed {
                    return None;
                }
            }
            // A change between the check and the wait leaves a permit, so it is not missed.
            self.changed.notified().await;
        }
    }

    /// Says that the request taken last needs no more account.
    pub(super) fn done(&self) {
        self.lock().points_in_flight = 0;
    }

    /// Empties the queue and returns the number of points in it and in flight.
    pub(super) fn abandon(&self) -> u64 {
        let state = std::mem::take(&mut *self.lock());
        state.points_in_flight + state.waiting.iter().map(|payload| payload.points).sum::<u64>()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements above, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Payload, Queue};

    fn payload(bytes: usize, points: u64) -> Payload {
        Payload { bytes: vec![0; bytes].into(), points }
    }

    #[tokio::test]
    async fn the_oldest_make_room_and_their_points_are_told() {
        let queue = Queue::new(100);
        assert_eq!(queue.push(payload(40, 1)), 0);
        assert_eq!(queue.push(payload(40, 2)), 0);
        assert_eq!(queue.push(payload(20, 4)), 0);
        assert_eq!(queue.push(payload(50, 8)), 3);
        queue.close();
        assert_eq!(queue.next().await, Some(payload(20, 4)));
        assert_eq!(queue.next().await, Some(payload(50, 8)));
        assert_eq!(queue.next().await, None);
    }

    #[tokio::test]
    async fn a_request_over_the_bound_waits_alone() {
        let queue = Queue::new(100);
        assert_eq!(queue.push(payload(10, 1)), 0);
        assert_eq!(queue.push(payload(500, 2)), 1);
        assert_eq!(queue.next().await, Some(payload(500, 2)));
        assert_eq!(queue.push(payload(100, 4)), 0, "what was taken takes no room");
    }

    #[tokio::test]
    async fn what_is_in_flight_is_accounted_until_it_is_done() {
        let queue = Queue::new(100);
        queue.push(payload(10, 1));
        queue.push(payload(10, 2));
        queue.push(payload(10, 4));
        queue.next().await;
        queue.done();
        queue.next().await;
        assert_eq!(queue.abandon(), 6);
        assert_eq!(queue.abandon(), 0);
    }

    #[tokio::test]
    async fn a_waiting_consumer_is_woken() {
        let queue = Queue::new(100);
        let (taken, ()) = tokio::join!(queue.next(), async {
            queue.push(payload(10, 1));
        });
        assert_eq!(taken, Some(payload(10, 1)));
    }
}
