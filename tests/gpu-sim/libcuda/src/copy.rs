//! Copies and memsets.

use gpu_sim::machine::{
    channel::WorkKind,
    counters::{CopyKind, MemoryKind},
};

use crate::{
    abi::{MEMORY_TYPE_ARRAY, MEMORY_TYPE_DEVICE, MEMORY_TYPE_HOST, MEMORY_TYPE_UNIFIED, Memcpy2D, Memcpy3D},
    capture,
    context::{self, Context},
    driver::driver,
    entry::DefaultStream,
    error::{CudaError, Result},
    graph::NodeKind,
    memory,
    stream::{Target, target},
};

/// Time that every copy takes besides its bytes.
const SETUP_NS: u64 = 2_000;

/// Whether the caller waits for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Returns when the copy is done.
    Synchronous(DefaultStream),
    /// Returns when the copy is queued in this stream.
    Queued(u64, DefaultStream),
}

/// One end of a linear copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Host(u64),
    Device(u64),
    /// Either, to be found out from the address.
    Unified(u64),
    /// An array, which has been looked up.
    Array,
}

/// A copy of contiguous bytes.
pub(crate) fn linear(kind: CopyKind, dst: End, src: End, bytes: usize, wait: Wait) -> Result {
    let context = context::current()?;
    let bytes = bytes as u64;
    let (to, from) = (resolve(dst, bytes)?, resolve(src, bytes)?);
    if let (Some(to), Some(from)) = (host_address(to), host_address(from)) {
        move_bytes(to, from, bytes);
    }
    let engine = match (to, from) {
        (Place::Device(_) | Place::Array, Place::Host(_)) => WorkKind::HostToDevice,
        (Place::Host(_), _) => WorkKind::DeviceToHost,
        (Place::Device(_) | Place::Array, Place::Device(_) | Place::Array) => WorkKind::DeviceToDevice,
    };
    run(&context, engine, bytes, 0, wait)?;
    context.counters()?.copies[kind as usize].count(bytes);
    Ok(())
}

/// A copy between two contexts.
pub(crate) fn peer(dst: u64, dst_context: u64, src: u64, src_context: u64, bytes: u64, wait: Wait) -> Result {
    let context = context::current()?;
    let driver = driver()?;
    let [to, from] = [dst_context, src_context].map(|handle| {
        if handle == 0 { Ok(context.gpu) } else { driver.contexts.get(handle).map(|context| context.gpu) }
    });
    let (to, from) =
        (to.map_err(|_| CudaError::InvalidContext)?, from.map_err(|_| CudaError::InvalidContext)?);
    resolve(End::Device(dst), bytes)?;
    resolve(End::Device(src), bytes)?;
    let other = if to == context.gpu { from } else { to };
    run(&context, WorkKind::Peer, bytes, other, wait)?;
    context.counters()?.copies[CopyKind::Peer as usize].count(bytes);
    Ok(())
}

/// cuMemcpyBatchAsync and relatives: several copies in one call.
pub(crate) fn batch(sizes: &[usize], stream: u64, mode: DefaultStream) -> Result {
    // The default streams are not allowed here.
    if stream == 0 || sizes.is_empty() {
        return Err(CudaError::InvalidValue);
    }
    let context = context::current()?;
    let bytes = sizes.iter().fold(0_u64, |sum, size| sum.saturating_add(*size as u64));
    run(&context, WorkKind::DeviceToDevice, bytes, 0, Wait::Queued(stream, mode))?;
    context.counters()?.copies[CopyKind::Unified as usize].count(bytes);
    Ok(())
}

/// cuMemcpy2D and relatives.
pub(crate) fn rectangle(copy: &Memcpy2D, wait: Wait) -> Result {
    let bytes = product(&[copy.width_bytes, copy.height])?;
    shaped(copy.dst_memory_type, copy.src_memory_type, bytes, wait)
}

/// cuMemcpy3D and relatives.
pub(crate) fn cuboid(copy: &Memcpy3D, wait: Wait) -> Result {
    let bytes = product(&[copy.width_bytes, copy.height, copy.depth])?;
    shaped(copy.dst_memory_type, copy.src_memory_type, bytes, wait)
}

/// cuMemcpy3DPeer.
pub(crate) fn cuboid_peer(copy: &Memcpy3D, wait: Wait) -> Result {
    let bytes = product(&[copy.width_bytes, copy.height, copy.depth])?;
    peer(copy.dst_device, copy.dst_context, copy.src_device, copy.src_context, bytes, wait)
}

/// A copy whose ends are described by memory types.
fn shaped(dst_type: u32, src_type: u32, bytes: u64, wait: Wait) -> Result {
    let context = context::current()?;
    let known = MEMORY_TYPE_HOST..=MEMORY_TYPE_UNIFIED;
    if !known.contains(&dst_type) || !known.contains(&src_type) {
        return Err(CudaError::InvalidValue);
    }
    let (kind, engine) = match (dst_type, src_type) {
        (MEMORY_TYPE_ARRAY, _) | (_, MEMORY_TYPE_ARRAY) => (CopyKind::Array, WorkKind::DeviceToDevice),
        (MEMORY_TYPE_UNIFIED, _) | (_, MEMORY_TYPE_UNIFIED) => (CopyKind::Unified, WorkKind::DeviceToDevice),
        (MEMORY_TYPE_DEVICE, MEMORY_TYPE_HOST) => (CopyKind::HostToDevice, WorkKind::HostToDevice),
        (MEMORY_TYPE_HOST, MEMORY_TYPE_DEVICE) => (CopyKind::DeviceToHost, WorkKind::DeviceToHost),
        (MEMORY_TYPE_DEVICE, _) => (CopyKind::DeviceToDevice, WorkKind::DeviceToDevice),
        _ => (CopyKind::HostToHost, WorkKind::DeviceToHost),
    };
    run(&context, engine, bytes, 0, wait)?;
    context.counters()?.copies[kind as usize].count(bytes);
    Ok(())
}

/// A memset of `width` x `height` elements.
pub(crate) fn set(dst: u64, element_bytes: usize, width: usize, height: usize, wait: Wait) -> Result {
    let context = context::current()?;
    let bytes = product(&[element_bytes, width, height])?;
    if !dst.is_multiple_of(element_bytes as u64) {
        return Err(CudaError::InvalidValue);
    }
    resolve(End::Device(dst), bytes.min(1))?;
    let (stream, mode) = match wait {
        Wait::Synchronous(mode) => (0, mode),
        Wait::Queued(stream, mode) => (stream, mode),
    };
    let Target { stream, .. } = target(stream, mode)?;
    let duration_ns = duration_ns(&context, WorkKind::DeviceToDevice, bytes, 0)?;
    if !capture::record(&stream, NodeKind::Kernel { duration_ns }) {
        stream.submit(WorkKind::Kernel, duration_ns, 0, 0, 0)?;
    }
    memory::count_memset(&context, bytes)
}

/// A node that copies, for a graph.
pub(crate) fn node(copy: &Memcpy3D) -> Result<NodeKind> {
    let context = context::current()?;
    let bytes = product(&[copy.width_bytes, copy.height, copy.depth])?;
    let kind = match (copy.dst_memory_type, copy.src_memory_type) {
        (MEMORY_TYPE_HOST, _) => WorkKind::DeviceToHost,
        (_, MEMORY_TYPE_HOST) => WorkKind::HostToDevice,
        _ => WorkKind::DeviceToDevice,
    };
    Ok(NodeKind::Copy { kind, duration_ns: duration_ns(&context, kind, bytes, 0)?, bytes })
}

/// A node that sets memory, for a graph.
pub(crate) fn set_node(element_bytes: usize, width: usize, height: usize) -> Result<NodeKind> {
    let context = context::current()?;
    let bytes = product(&[element_bytes, width, height])?;
    Ok(NodeKind::Kernel { duration_ns: duration_ns(&context, WorkKind::DeviceToDevice, bytes, 0)? })
}

/// Queues a copy of `bytes`, and waits for it where the call does.
fn run(context: &Context, engine: WorkKind, bytes: u64, peer: usize, wait: Wait) -> Result {
    let (handle, mode) = match wait {
        Wait::Synchronous(mode) => (0, mode),
        Wait::Queued(stream, mode) => (stream, mode),
    };
    let Target { stream, .. } = target(handle, mode)?;
    let duration_ns = duration_ns(context, engine, bytes, peer)?;
    if capture::record(&stream, NodeKind::Copy { kind: engine, duration_ns, bytes }) {
        return Ok(());
    }
    let peer = u32::try_from(peer).map_err(|_| CudaError::InvalidDevice)?;
    let count = stream.submit(engine, duration_ns, bytes, peer, 0)?;
    if matches!(wait, Wait::Synchronous(_)) {
        stream.channel.wait(count)?;
    }
    Ok(())
}

/// Time that a copy takes on its engine.
fn duration_ns(context: &Context, engine: WorkKind, bytes: u64, peer: usize) -> Result<u64> {
    let driver = driver()?;
    let scenario = driver.slot.machine().scenario();
    let model = &driver.facts(context.ordinal)?.model;
    let mb_per_s = match engine {
        WorkKind::DeviceToDevice => model.memory.bandwidth_mb_per_s / 2,
        WorkKind::Peer => {
            let links = u32::try_from(scenario.nvlinks_between(context.gpu, peer)).unwrap_or(0);
            if links > 0 { links * model.nvlink_link_mb_per_s } else { model.pcie.copy_mb_per_s }
        }
        _ => model.pcie.copy_mb_per_s,
    };
    Ok(SETUP_NS.saturating_add(bytes.saturating_mul(1000) / u64::from(mb_per_s.max(1))))
}

/// Where the bytes of one end are.
#[derive(Clone, Copy, Debug)]
enum Place {
    Host(u64),
    Device(u64),
    Array,
}

fn resolve(end: End, bytes: u64) -> Result<Place> {
    let driver = driver()?;
    let known = |address: u64| -> Option<bool> {
        let last = address.checked_add(bytes.max(1) - 1)?;
        let memory = driver.memory();
        let inside = |address| memory.containing(address).map(|(start, allocation)| (start, allocation.kind));
        if let (Some(first), Some(last)) = (inside(address), inside(last)) {
            return (first.0 == last.0).then_some(on_device(first.1));
        }
        drop(memory);
        driver.address_space().is_mapped(address, bytes).then_some(true)
    };
    match end {
        End::Array => Ok(Place::Array),
        End::Host(0) | End::Device(0) | End::Unified(0) if bytes > 0 => Err(CudaError::InvalidValue),
        End::Host(address) => Ok(Place::Host(address)),
        End::Device(address) if bytes == 0 => Ok(Place::Device(address)),
        End::Device(address) => known(address).map(|_| Place::Device(address)).ok_or(CudaError::InvalidValue),
        End::Unified(address) => Ok(match known(address) {
            Some(true) => Place::Device(address),
            _ => Place::Host(address),
        }),
    }
}

/// The address, where the bytes really exist: on the host and in managed memory.
fn host_address(place: Place) -> Option<u64> {
    match place {
        Place::Host(address) => Some(address),
        Place::Device(address) => {
            let memory = driver().ok()?.memory();
            memory.containing(address).filter(|(_, allocation)| !on_device(allocation.kind)).map(|_| address)
        }
        Place::Array => None,
    }
}

fn move_bytes(to: u64, from: u64, bytes: u64) {
    if bytes == 0 {
        return;
    }
    // SAFETY: both addresses are the caller's own host memory, or managed memory whose bounds were checked; the caller
    // of cuMemcpy promises that `bytes` can be read from the one and written to the other.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
}

fn product(factors: &[usize]) -> Result<u64> {
    factors
        .iter()
        .try_fold(1_u64, |product, factor| product.checked_mul(*factor as u64))
        .ok_or(CudaError::InvalidValue)
}

/// Whether memory of a kind has its bytes on the device.
fn on_device(kind: MemoryKind) -> bool {
    !matches!(kind, MemoryKind::Managed | MemoryKind::Host)
}
