//! Handles by which processes share memory. What is shared is counted in the process that allocated it.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    os::fd::{BorrowedFd, IntoRawFd as _},
};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::{
    abi::IpcHandle,
    driver::driver,
    error::{CudaError, Result},
    virtual_memory,
};

/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
const FILE_DESCRIPTOR: u32 = 1;

/// Marks the handles and files that were made here.
const MARK: [u8; 8] = *b"gpu-sim\x01";

/// What a handle says: mark, GPU, bytes.
const CONTENT_BYTES: usize = 24;

/// cuIpcGetMemHandle.
pub(crate) fn export_memory(address: u64) -> Result<IpcHandle> {
    let memory = driver()?.memory();
    let (_, allocation) = memory.containing(address).ok_or(CudaError::InvalidValue)?;
    let mut bytes = [0; 64];
    bytes[..CONTENT_BYTES].copy_from_slice(&encode(allocation.gpu, allocation.bytes));
    Ok(IpcHandle { bytes })
}

/// cuIpcOpenMemHandle.
pub(crate) fn open_memory(handle: &IpcHandle) -> Result<u64> {
    let (_, bytes) = decode(&handle.bytes)?;
    virtual_memory::open_ipc(bytes)
}

/// cuMemExportToShareableHandle: the number of a file descriptor that the caller owns.
pub(crate) fn export_physical(handle: u64, kind: u32) -> Result<i32> {
    if kind != FILE_DESCRIPTOR {
        return Err(CudaError::NotSupported);
    }
    let physical = virtual_memory::find(handle)?;
    let descriptor =
        memfd_create("gpu-sim-memory", MemfdFlags::CLOEXEC).map_err(|_| CudaError::OperatingSystem)?;
    let mut file = File::from(descriptor);
    file.write_all(&encode(physical.gpu, physical.bytes)).map_err(|_| CudaError::OperatingSystem)?;
    Ok(file.into_raw_fd())
}

/// cuMemImportFromShareableHandle.
pub(crate) fn import_physical(os_handle: usize, kind: u32) -> Result<u64> {
    let number =
        i32::try_from(os_handle).ok().filter(|number| *number >= 0).ok_or(CudaError::InvalidValue)?;
    if kind != FILE_DESCRIPTOR {
        return Err(CudaError::NotSupported);
    }
    // SAFETY: the descriptor is the caller's and stays open during this call, as the driver API demands.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let mut file = File::from(descriptor.try_clone_to_owned().map_err(|_| CudaError::InvalidValue)?);
    let mut content = [0; CONTENT_BYTES];
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.read_exact(&mut content))
        .map_err(|_| CudaError::InvalidValue)?;
    let (gpu, bytes) = decode(&content)?;
    virtual_memory::import(gpu, bytes)
}

fn encode(gpu: usize, bytes: u64) -> [u8; CONTENT_BYTES] {
    let mut content = [0; CONTENT_BYTES];
    content[..8].copy_from_slice(&MARK);
    content[8..16].copy_from_slice(&(gpu as u64).to_le_bytes());
    content[16..].copy_from_slice(&bytes.to_le_bytes());
    content
}

fn decode(content: &[u8]) -> Result<(usize, u64)> {
    let word = |at: usize| -> Result<u64> {
        let bytes = content.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_le_bytes).ok_or(CudaError::InvalidValue)
    };
    if content.get(..8) != Some(&MARK) {
        return Err(CudaError::InvalidValue);
    }
    Ok((usize::try_from(word(8)?).map_err(|_| CudaError::InvalidValue)?, word(16)?))
}
