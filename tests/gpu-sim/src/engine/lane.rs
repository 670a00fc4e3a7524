//! One lane: the work of one channel that the GPU has taken in, in order.

use std::collections::VecDeque;

use crate::machine::channel::{Work, WorkKind};

/// A first-in-first-out queue of work.
#[derive(Debug)]
pub struct Lane {
    channel: usize,
    queue: VecDeque<Work>,
    /// How long the kernel at the head has run.
    progress_ns: u64,
    /// Time that all queued kernels and copies still take.
    backlog_ns: u64,
    completed: u64,
}

impl Lane {
    pub(super) fn new(channel: usize, completed: u64) -> Self {
        Self { channel, queue: VecDeque::new(), progress_ns: 0, backlog_ns: 0, completed }
    }

    /// Number of the channel.
    pub fn channel(&self) -> usize {
        self.channel
    }

    /// Entries completed since the channel was claimed.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Entries taken in since the channel was claimed.
    pub fn accepted(&self) -> u64 {
        self.completed + self.queue.len() as u64
    }

    /// Appends work.
    pub fn push(&mut self, work: Work) {
        self.backlog_ns = self.backlog_ns.saturating_add(work.duration_ns);
        self.queue.push_back(work);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn backlog_ns(&self) -> u64 {
        self.backlog_ns
    }

    pub(super) fn ready_head(&self, now_ns: u64) -> Option<&Work> {
        self.queue.front().filter(|work| work.submitted_ns <= now_ns)
    }

    pub(super) fn head_is(&self, kind: WorkKind) -> bool {
        self.queue.front().is_some_and(|work| work.kind == kind)
    }

    pub(super) fn head_submitted_ns(&self) -> u64 {
        self.queue.front().map_or(u64::MAX, |work| work.submitted_ns)
    }

    pub(super) fn has_ready_kernel(&self, now_ns: u64) -> bool {
        self.ready_head(now_ns).is_some_and(|work| work.kind == WorkKind::Kernel)
    }

    /// When the head arrives, if that is still to come.
    pub(super) fn arrival_after(&self, now_ns: u64) -> Option<u64> {
        self.queue.front().map(|work| work.submitted_ns).filter(|at_ns| *at_ns > now_ns)
    }

    /// Time that the entries up to number `count` take when nothing else is served.
    pub(super) fn time_until(&self, count: u64) -> u64 {
        let entries = usize::try_from(count.saturating_sub(self.completed)).unwrap_or(usize::MAX);
        if entries >= self.queue.len() {
            return self.backlog_ns;
        }
        let durations = self.queue.iter().take(entries).map(|work| work.duration_ns);
        let total = durations.fold(0, u64::saturating_add);
        total.saturating_sub(self.progress_ns)
    }

    /// Runs the kernel at the head for at most `limit_ns`, and completes it when that suffices. Returns the time it ran.
    pub(super) fn run_head(&mut self, limit_ns: u64) -> u64 {
        let Some(work) = self.queue.front() else { return 0 };
        let rest_ns = work.duration_ns.saturating_sub(self.progress_ns);
        if rest_ns > limit_ns {
            self.progress_ns += limit_ns;
            self.backlog_ns = self.backlog_ns.saturating_sub(limit_ns);
            return limit_ns;
        }
        self.complete_head();
        rest_ns
    }

    /// Removes the head as completed.
    pub(super) fn complete_head(&mut self) -> Option<Work> {
        let work = self.queue.pop_front()?;
        self.backlog_ns =
            self.backlog_ns.saturating_sub(work.duration_ns - self.progress_ns.min(work.duration_ns));
        self.progress_ns = 0;
        self.completed += 1;
        Some(work)
    }
}
