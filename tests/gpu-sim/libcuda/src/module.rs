//! Modules and functions. Images are not looked at: a function is what its name says.

use crate::{
    context,
    driver::driver,
    error::{CudaError, Result},
    kernel::Duration,
};

/// A name that no module has, so that programs can meet CUDA_ERROR_NOT_FOUND.
const MISSING: &str = "sim_missing";

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Module {
    /// Handle of the context.
    pub(crate) context: u64,
}

/// A kernel.
#[derive(Debug)]
pub(crate) struct Function {
    /// Handle of the module.
    module: u64,
    /// Handle of the context.
    pub(crate) context: u64,
    pub(crate) duration: Duration,
}

/// cuModuleLoadData.
pub(crate) fn load() -> Result<u64> {
    let context = context::current()?.handle;
    Ok(driver()?.modules.insert(Module { context }))
}

/// cuModuleUnload.
pub(crate) fn unload(handle: u64) -> Result {
    context::current()?;
    let driver = driver()?;
    driver.modules.remove(handle)?;
    driver.functions.retain(|function| function.module != handle);
    Ok(())
}

/// cuModuleGetFunction.
pub(crate) fn function(module: u64, name: &str) -> Result<u64> {
    context::current()?;
    let driver = driver()?;
    let context = driver.modules.get(module)?.context;
    if name.is_empty() || name == MISSING {
        return Err(CudaError::NotFound);
    }
    Ok(driver.functions.insert(Function { module, context, duration: Duration::from_name(name) }))
}
