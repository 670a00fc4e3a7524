//! Contexts besides the primary one.

use crate::{
    truth::CallClass::Context,
    workload::{WorkloadError, session::Session},
};

type Result<T = ()> = std::result::Result<T, WorkloadError>;

impl Session<'_> {
    /// Makes a context on the session's device and makes it current.
    pub(in crate::workload) fn create_context(&self) -> Result<u64> {
        let mut context = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.process.api.ctx_create)(&raw mut context, 0, self.ordinal) };
        self.check(Context, "cuCtxCreate", code)?;
        Ok(context)
    }

    /// Destroys a context; everything in it is freed.
    pub(in crate::workload) fn destroy_context(&self, context: u64) -> Result {
        self.process.log.end_context(context, || {
            // SAFETY: the call takes no pointers.
            let code = unsafe { (self.process.api.ctx_destroy)(context) };
            self.check(Context, "cuCtxDestroy", code)
        })
    }

    pub(in crate::workload) fn push_context(&self, context: u64) -> Result {
        // SAFETY: the call takes no pointers.
        let code = unsafe { (self.process.api.ctx_push_current)(context) };
        self.check(Context, "cuCtxPushCurrent", code)
    }

    pub(in crate::workload) fn pop_context(&self) -> Result {
        let mut context = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.process.api.ctx_pop_current)(&raw mut context) };
        self.check(Context, "cuCtxPopCurrent", code)
    }

    /// Destroys what the primary context holds, whoever retains it.
    pub(in crate::workload) fn reset_primary(&self) -> Result {
        self.process.log.end_context(self.context, || {
            // SAFETY: the call takes no pointers.
            let code = unsafe { (self.process.api.primary_reset)(self.ordinal) };
            self.check(Context, "cuDevicePrimaryCtxReset", code)
        })
    }
}
