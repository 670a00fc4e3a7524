//! Counters of what each process did on each GPU, kept by the libcuda double for cross-checks.
//!
//! The truth about a workload is the workload's own log. These counters exist so that the tests of the double can show
//! that both agree; nothing that the agent reads is derived from them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// Kinds of memory that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum MemoryKind {
    /// cuMemAlloc, cuMemAllocPitch.
    Device,
    /// cuMemAllocAsync, cuMemAllocFromPoolAsync.
    Pool,
    /// cuMemCreate.
    Virtual,
    /// cuMemAllocManaged.
    Managed,
    /// cuArrayCreate, cuArray3DCreate, cuMipmappedArrayCreate.
    Array,
    /// cuMemHostAlloc, cuMemAllocHost, cuMemHostRegister.
    Host,
}

/// Kinds of copies that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum CopyKind {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    /// cuMemcpyPeer and relatives: between two contexts.
    Peer,
    HostToHost,
    /// Copies whose call does not name a direction: cuMemcpy, cuMemcpyAsync, batch copies.
    Unified,
    /// To, from or between arrays by the calls that name arrays.
    Array,
}

impl MemoryKind {
    pub const ALL: [Self; 6] =
        [Self::Device, Self::Pool, Self::Virtual, Self::Managed, Self::Array, Self::Host];
}

impl CopyKind {
    pub const ALL: [Self; 7] = [
        Self::HostToDevice,
        Self::DeviceToHost,
        Self::DeviceToDevice,
        Self::Peer,
        Self::HostToHost,
        Self::Unified,
        Self::Array,
    ];
}

/// Calls and bytes of one kind.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Traffic {
    pub calls: AtomicU64,
    pub bytes: AtomicU64,
}

/// Allocations and frees of one kind of memory. Bytes are what was requested.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Allocations {
    pub allocations: AtomicU64,
    pub allocated_bytes: AtomicU64,
    pub frees: AtomicU64,
    pub freed_bytes: AtomicU64,
}

/// What one process did on one GPU.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Counters {
    pub launches: AtomicU64,
    pub graph_launches: AtomicU64,
    pub synchronizes: AtomicU64,
    /// Failed calls of every kind.
    pub errors: AtomicU64,
    pub memory: [Allocations; MemoryKind::ALL.len()],
    pub copies: [Traffic; CopyKind::ALL.len()],
    pub memset: Traffic,
}

impl Traffic {
    /// Counts one call.
    pub fn count(&self, bytes: u64) {
        self.calls.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

impl Counters {
    /// Counts one successful allocation.
    pub fn allocated(&self, kind: MemoryKind, bytes: u64) {
        let memory = &self.memory[kind as usize];
        memory.allocations.fetch_add(1, Relaxed);
        memory.allocated_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts one free of an allocation that was requested with `bytes`.
    pub fn freed(&self, kind: MemoryKind, bytes: u64) {
        let memory = &self.memory[kind as usize];
        memory.frees.fetch_add(1, Relaxed);
        memory.freed_bytes.fetch_add(bytes, Relaxed);
    }

    /// Every counter, in a fixed order.
    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        let scalars = [&self.launches, &self.graph_launches, &self.synchronizes, &self.errors];
        let memory =
            self.memory.iter().flat_map(|m| [&m.allocations, &m.allocated_bytes, &m.frees, &m.freed_bytes]);
        let traffic = self.copies.iter().chain([&self.memset]).flat_map(|t| [&t.calls, &t.bytes]);
        scalars.into_iter().chain(memory).chain(traffic)
    }

    /// Adds all counters of `other`, and sets those to zero: an ended process's share moves to the GPU's totals.
    pub fn absorb(&self, other: &Self) {
        for (total, part) in self.words().zip(other.words()) {
            total.fetch_add(part.swap(0, Relaxed), Relaxed);
        }
    }
}
