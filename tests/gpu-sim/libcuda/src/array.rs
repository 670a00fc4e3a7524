//! Arrays: device memory with a shape, behind a handle.

use gpu_sim::machine::counters::MemoryKind;

use crate::{
    context,
    driver::driver,
    error::{CudaError, Result},
    memory,
};

/// An array or a mipmapped array.
#[derive(Debug)]
pub(crate) struct Array {
    /// Number of the context.
    pub(crate) context: u32,
    address: u64,
}

/// The shape of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: u32,
    pub(crate) channels: u32,
}

/// cuArrayCreate, cuArray3DCreate, cuMipmappedArrayCreate.
pub(crate) fn create(shape: Shape) -> Result<u64> {
    let context = context::current()?;
    let address = memory::allocate_in(&context, MemoryKind::Array, shape.bytes()?, None)?;
    Ok(driver()?.arrays.insert(Array { context: context.number, address }))
}

/// cuArrayDestroy, cuMipmappedArrayDestroy.
pub(crate) fn destroy(handle: u64) -> Result {
    context::current()?;
    let driver = driver()?;
    let array = driver.arrays.remove(handle)?;
    driver.memory().release(driver, array.address);
    Ok(())
}

/// Checks that a handle is an array.
pub(crate) fn check(handle: u64) -> Result {
    driver()?.arrays.get(handle).map(drop)
}

impl Shape {
    /// Bytes of all elements.
    fn bytes(self) -> Result<u64> {
        // CUarray_format of cuda.h.
        let format_bytes = match self.format {
            0x01 | 0x08 => 1,
            0x02 | 0x09 | 0x10 => 2,
            0x03 | 0x0a | 0x20 => 4,
            _ => return Err(CudaError::InvalidValue),
        };
        if self.width == 0 || !matches!(self.channels, 1 | 2 | 4) {
            return Err(CudaError::InvalidValue);
        }
        [self.height.max(1), self.depth.max(1), self.channels as usize, format_bytes]
            .into_iter()
            .try_fold(self.width as u64, |product, factor| product.checked_mul(factor as u64))
            .ok_or(CudaError::InvalidValue)
    }
}
