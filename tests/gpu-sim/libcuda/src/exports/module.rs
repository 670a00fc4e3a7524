//! Modules and functions.

use std::ffi::{c_char, c_void};

use super::device::text;
use crate::{
    abi::{CUfunction, CUmodule, Out},
    driver::driver,
    entry::exports,
    error::{CudaError, Result},
    module,
};

exports! {
    fn cuModuleLoadData(out: *mut CUmodule, image: *const c_void) =
        load(Out::new(out), image);

    fn cuModuleLoadDataEx(
        out: *mut CUmodule, image: *const c_void, _count: u32, _options: *mut u32, _values: *mut *mut c_void,
    ) = load(Out::new(out), image);

    fn cuModuleLoadFatBinary(out: *mut CUmodule, image: *const c_void) =
        load(Out::new(out), image);

    fn cuModuleUnload(module: CUmodule) = module::unload(module);

    fn cuModuleGetFunction(out: *mut CUfunction, module: CUmodule, name: *const c_char) = (|| {
        let out = Out::new(out)?;
        out.set(module::function(module, text(name)?)?);
        Ok(())
    })();

    fn cuFuncGetAttribute(out: *mut i32, attribute: i32, function: CUfunction) = (|| {
        let out = Out::new(out)?;
        driver()?.functions.get(function)?;
        // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK; the sizes of memory that nothing needs are 0.
        out.set(if attribute == 0 { 1024 } else { 0 });
        Ok(())
    })();

    fn cuFuncSetAttribute(function: CUfunction, _attribute: i32, _value: i32) = (|| {
        driver()?.functions.get(function)?;
        Ok(())
    })();
}

fn load(out: Result<Out<CUmodule>>, image: *const c_void) -> Result {
    let out = out?;
    if image.is_null() {
        return Err(CudaError::InvalidValue);
    }
    out.set(module::load()?);
    Ok(())
}
