//! Synchronisation, streams and events.

use std::sync::PoisonError;

use crate::{
    truth::CallClass::{Query, Synchronize},
    workload::{WorkloadError, session::Session},
};

type Result<T = ()> = std::result::Result<T, WorkloadError>;

/// CU_STREAM_NON_BLOCKING.
const NON_BLOCKING: u32 = 1;

impl Session<'_> {
    pub(in crate::workload) fn synchronize(&self) -> Result {
        let _guard = self.process.capturing.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the call takes no arguments.
        let code = unsafe { (self.process.api.ctx_synchronize)() };
        self.check(Synchronize, "cuCtxSynchronize", code)?;
        self.synchronized();
        Ok(())
    }

    pub(in crate::workload) fn synchronize_stream(&self, stream: u64) -> Result {
        // SAFETY: the call takes no pointers.
        let code = unsafe { (self.process.api.stream_synchronize)(stream) };
        self.check(Synchronize, "cuStreamSynchronize", code)?;
        self.synchronized();
        Ok(())
    }

    /// Records an event in one stream, lets the other wait for it, and waits for it.
    pub(in crate::workload) fn event_between(&self, stream: u64, other: u64) -> Result {
        let api = &self.process.api;
        let mut event = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (api.event_create)(&raw mut event, 0) };
        self.check(Query, "cuEventCreate", code)?;
        // SAFETY: the call takes no pointers.
        let code = unsafe { (api.event_record)(event, stream) };
        self.check(Query, "cuEventRecord", code)?;
        // SAFETY: the call takes no pointers.
        let code = unsafe { (api.stream_wait_event)(other, event, 0) };
        self.check(Query, "cuStreamWaitEvent", code)?;
        // SAFETY: the call takes no pointers.
        let code = unsafe { (api.event_synchronize)(event) };
        self.check(Synchronize, "cuEventSynchronize", code)?;
        self.synchronized();
        // SAFETY: the call takes no pointers.
        let code = unsafe { (api.event_destroy)(event) };
        self.check(Query, "cuEventDestroy", code)
    }

    pub(in crate::workload) fn create_stream(&self) -> Result<u64> {
        let mut stream = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.process.api.stream_create)(&raw mut stream, NON_BLOCKING) };
        self.check(Query, "cuStreamCreate", code)?;
        Ok(stream)
    }

    pub(in crate::workload) fn destroy_stream(&self, stream: u64) -> Result {
        // SAFETY: the call takes no pointers.
        let code = unsafe { (self.process.api.stream_destroy)(stream) };
        self.check(Query, "cuStreamDestroy", code)
    }

    fn synchronized(&self) {
        self.process.log.count(self.gpu, |truth| truth.synchronize.calls += 1);
    }
}
