//! Kernel launches.

use std::ptr::null_mut;

use crate::{
    truth::CallClass::Launch,
    workload::{WorkloadError, session::Session},
};

type Result<T = ()> = std::result::Result<T, WorkloadError>;

impl Session<'_> {
    pub(in crate::workload) fn launch(&self, stream: u64) -> Result {
        self.launch_function(self.function, 1, stream)
    }

    /// Launches a function (which may be an invalid handle) with a grid of `grid` (0 is invalid) blocks.
    pub(in crate::workload) fn launch_function(&self, function: u64, grid: u32, stream: u64) -> Result {
        // SAFETY: the kernel has no parameters, so both arrays may be null.
        let code = unsafe {
            (self.process.api.launch_kernel)(
                function,
                grid,
                1,
                1,
                256,
                1,
                1,
                0,
                stream,
                null_mut(),
                null_mut(),
            )
        };
        self.check(Launch, "cuLaunchKernel", code)?;
        self.launched();
        Ok(())
    }

    pub(in crate::workload) fn launch_ex(&self, stream: u64) -> Result {
        // CUlaunchConfig: grid 2 x 1 x 1, block 128 x 1 x 1, no shared memory, stream, no attributes.
        let config = [2 | 1 << 32, 1 | 128 << 32, 1 | 1 << 32, 0, stream, 0, 0];
        // SAFETY: the configuration outlives the call; the kernel has no parameters.
        let code = unsafe {
            (self.process.api.launch_kernel_ex)(&raw const config, self.function, null_mut(), null_mut())
        };
        self.check(Launch, "cuLaunchKernelEx", code)?;
        self.launched();
        Ok(())
    }

    pub(in crate::workload) fn launch_cooperative(&self, stream: u64) -> Result {
        // SAFETY: the kernel has no parameters, so the array may be null.
        let code = unsafe {
            (self.process.api.launch_cooperative)(self.function, 4, 1, 1, 64, 1, 1, 0, stream, null_mut())
        };
        self.check(Launch, "cuLaunchCooperativeKernel", code)?;
        self.launched();
        Ok(())
    }

    fn launched(&self) {
        self.process.log.count(self.gpu, |truth| truth.launches += 1);
    }
}
