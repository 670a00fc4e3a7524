//! cuGetProcAddress.

use std::ffi::c_char;

use super::device::text;
use crate::{
    abi::Out,
    entry::exports,
    error::{CudaError, Result},
    proc_address::{Query, find},
};

exports! {
    /// CUDA 11.3.
    fn cuGetProcAddress(symbol: *const c_char, out: *mut usize, version: i32, flags: u64) =
        look_up(text(symbol), Out::new(out), version, flags).and_then(|query| match query {
            Query::Success => Ok(()),
            Query::SymbolNotFound | Query::VersionNotSufficient => Err(CudaError::NotFound),
        });

    /// CUDA 12.0: also says why nothing was found. The last argument may be left out.
    fn cuGetProcAddress_v2(
        symbol: *const c_char, out: *mut usize, version: i32, flags: u64, status: *mut u32,
    ) = look_up(text(symbol), Out::new(out), version, flags).and_then(|query| {
        match Out::optional(status) {
            Some(status) => status.set(query as u32),
            None if query != Query::Success => return Err(CudaError::NotFound),
            None => {}
        }
        Ok(())
    });
}

fn look_up(symbol: Result<&str>, out: Result<Out<usize>>, version: i32, flags: u64) -> Result<Query> {
    let (symbol, out) = (symbol?, out?);
    let (address, query) = find(symbol, version, flags)?;
    out.set(address);
    Ok(query)
}
