//! The process's use of the driver, and each thread's session on one device.

use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use super::{
    Options, WorkloadError,
    api::Api,
    kinds,
    log::{Log, Name, UNKNOWN},
};
use crate::{scenario::format_uuid, truth::CallClass};

/// The initialised driver.
pub(super) struct Process {
    pub(super) api: Api,
    pub(super) log: Arc<Log>,
    /// Written while a stream is captured: no other thread may synchronise a context meanwhile.
    pub(super) capturing: RwLock<()>,
    /// References to primary contexts, by ordinal.
    retained: Mutex<HashMap<i32, u32>>,
}

/// One thread's work on one device.
pub(super) struct Session<'a> {
    pub(super) process: &'a Process,
    /// Number of the thread, from 0 on.
    pub(super) number: u32,
    pub(super) ordinal: i32,
    /// Index of the GPU in the log.
    pub(super) gpu: usize,
    pub(super) context: u64,
    /// The kernel that the workload launches.
    pub(super) function: u64,
    module: u64,
}

impl Process {
    /// Calls cuInit.
    pub(super) fn start(api: Api, log: Arc<Log>) -> Result<Self, WorkloadError> {
        let process = Self { api, log, capturing: RwLock::default(), retained: Mutex::default() };
        // SAFETY: the call takes no pointers.
        let code = unsafe { (process.api.init)(0) };
        process.check(UNKNOWN, CallClass::Context, "cuInit", code)?;
        Ok(process)
    }

    /// Logs a failed call.
    pub(super) fn check(
        &self,
        gpu: usize,
        class: CallClass,
        call: &'static str,
        code: u32,
    ) -> Result<(), WorkloadError> {
        if code == 0 {
            return Ok(());
        }
        let name = Self::error_name(&self.api, code);
        self.log.failed(gpu, class, &name);
        Err(WorkloadError::Call { call, name, code })
    }

    /// Name of a result.
    pub(super) fn error_name(api: &Api, code: u32) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the call stores a pointer to a constant string, or fails.
        let result = unsafe { (api.get_error_name)(code, &raw mut name) };
        if result != 0 || name.is_null() {
            return format!("CUDA_ERROR_{code}");
        }
        // SAFETY: a terminated string that lives as long as the library.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// UUID of a device, as NVML prints it.
    pub(super) fn uuid(&self, ordinal: i32) -> Result<String, WorkloadError> {
        let mut device = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.api.device_get)(&raw mut device, ordinal) };
        self.check(UNKNOWN, CallClass::Query, "cuDeviceGet", code)?;
        let mut bytes = [0; 16];
        // SAFETY: the call stores 16 bytes to the variable.
        let code = unsafe { (self.api.device_get_uuid)(&raw mut bytes, device) };
        self.check(UNKNOWN, CallClass::Query, "cuDeviceGetUuid", code)?;
        Ok(format_uuid(bytes))
    }

    /// One session for each thread, each with the primary context of its device.
    pub(super) fn open_sessions(&self, options: &Options) -> Result<Vec<Session<'_>>, WorkloadError> {
        let devices = if options.devices.is_empty() { &[0][..] } else { &options.devices };
        let ordinals = devices.iter().cycle().zip(0..options.threads.max(devices.len() as u32));
        ordinals.map(|(ordinal, number)| self.open_session(*ordinal, number, options)).collect()
    }

    fn open_session(
        &self,
        ordinal: i32,
        number: u32,
        options: &Options,
    ) -> Result<Session<'_>, WorkloadError> {
        let gpu = self.log.gpu(&self.uuid(ordinal)?);
        let mut context = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.api.primary_retain)(&raw mut context, ordinal) };
        self.check(gpu, CallClass::Context, "cuDevicePrimaryCtxRetain", code)?;
        *self.retained.lock().unwrap_or_else(PoisonError::into_inner).entry(ordinal).or_default() += 1;
        // SAFETY: the call takes no pointers.
        let code = unsafe { (self.api.ctx_set_current)(context) };
        self.check(gpu, CallClass::Context, "cuCtxSetCurrent", code)?;
        Session::with_context(self, number, ordinal, context, options)
    }

    /// Frees what is held and gives the contexts back.
    pub(super) fn clean_up(&self, sessions: &[Session<'_>], ending: Ending) -> Result<(), WorkloadError> {
        for session in sessions {
            session.enter()?;
            for (name, held) in self.log.all_held() {
                let with_context = matches!(name, Name::Address(_) | Name::Array(_));
                if held.context == session.context && !(with_context && ending != Ending::Free) {
                    session.free_any(name, held)?;
                }
            }
        }
        for session in sessions {
            let first_on_device = sessions.iter().find(|other| other.ordinal == session.ordinal);
            if ending == Ending::Reset && first_on_device.is_some_and(|first| first.number == session.number)
            {
                session.reset_primary()?;
            }
            session.release()?;
        }
        Ok(())
    }
}

/// How memory ends that a workload still holds after its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Each allocation is freed.
    Free,
    /// With the last reference to the primary context.
    Release,
    /// With a reset of the primary context.
    Reset,
}

impl<'a> Session<'a> {
    /// A session in a context that is current.
    pub(super) fn with_context(
        process: &'a Process,
        number: u32,
        ordinal: i32,
        context: u64,
        options: &Options,
    ) -> Result<Self, WorkloadError> {
        let gpu = process.log.gpu(&process.uuid(ordinal)?);
        let mut session = Self { process, number, ordinal, gpu, context, function: 0, module: 0 };
        session.load(options.kernel.as_deref().unwrap_or(kinds::default_kernel(options.kind)))?;
        Ok(session)
    }

    /// The same session in another context, which is current.
    pub(super) fn in_context(&self, context: u64) -> Result<Self, WorkloadError> {
        let mut session = Self { context, ..*self };
        session.load(kinds::SHORT_KERNEL)?;
        Ok(session)
    }

    /// Makes the session's context current in the calling thread.
    pub(super) fn enter(&self) -> Result<(), WorkloadError> {
        // SAFETY: the call takes no pointers.
        let code = unsafe { (self.process.api.ctx_set_current)(self.context) };
        self.check(CallClass::Context, "cuCtxSetCurrent", code)
    }

    /// Logs a failed call on this session's GPU.
    pub(super) fn check(&self, class: CallClass, call: &'static str, code: u32) -> Result<(), WorkloadError> {
        self.process.check(self.gpu, class, call, code)
    }

    /// Loads a module with one kernel.
    fn load(&mut self, kernel: &str) -> Result<(), WorkloadError> {
        let image = c"an image that nobody looks at";
        // SAFETY: the image outlives the call, which stores to the field.
        let code =
            unsafe { (self.process.api.module_load_data)(&raw mut self.module, image.as_ptr().cast()) };
        self.check(CallClass::Module, "cuModuleLoadData", code)?;
        self.function = self.get_function(kernel)?;
        Ok(())
    }

    /// Finds a kernel in the session's module.
    pub(super) fn get_function(&self, kernel: &str) -> Result<u64, WorkloadError> {
        let name = CString::new(kernel).unwrap_or_default();
        let mut function = 0;
        // SAFETY: the name is a terminated string, and the call stores to the variable.
        let code =
            unsafe { (self.process.api.module_get_function)(&raw mut function, self.module, name.as_ptr()) };
        self.check(CallClass::Module, "cuModuleGetFunction", code)?;
        Ok(function)
    }

    /// Gives the primary context back; with the last reference everything in it is freed.
    fn release(&self) -> Result<(), WorkloadError> {
        let release = || {
            // SAFETY: the call takes no pointers.
            let code = unsafe { (self.process.api.primary_release)(self.ordinal) };
            self.check(CallClass::Context, "cuDevicePrimaryCtxRelease", code)
        };
        let mut retained = self.process.retained.lock().unwrap_or_else(PoisonError::into_inner);
        let references = retained.entry(self.ordinal).or_default();
        *references = references.saturating_sub(1);
        if *references == 0 { self.process.log.end_context(self.context, release) } else { release() }
    }
}
