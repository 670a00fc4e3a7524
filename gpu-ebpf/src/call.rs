//! What a probed function does, independent of which of its exported variants was called.

/// A kind of call. The value is the attach cookie of the entry probe.
///
/// Functions share a kind when their arguments mean the same to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Call {
    /// Kernel launches of every form.
    Launch = 1,
    GraphLaunch = 2,
    /// Waits for a stream, an event or a context.
    Synchronize = 3,

    /// `(dst, src, n)`, by direction.
    CopyHostToDevice = 10,
    CopyDeviceToHost = 11,
    CopyDeviceToDevice = 12,
    /// `cuMemcpy`: the direction follows from the addresses, which we do not know.
    CopyUnified = 13,
    /// `(dst, dstContext, src, srcContext, n)`.
    CopyPeer = 14,
    /// `(dst, offset, src, n)` and `(dst, src, offset, n)`: one side is an array.
    CopyArrayLinear = 15,
    /// `(dst, offset, src, offset, n)`: both sides are arrays.
    CopyArrayToArray = 16,
    /// `(const CUDA_MEMCPY2D *)`.
    Copy2d = 17,
    /// `(const CUDA_MEMCPY3D *)`.
    Copy3d = 18,
    /// `(const CUDA_MEMCPY3D_PEER *)`.
    Copy3dPeer = 19,
    /// `(dsts, srcs, sizes, count, …)`.
    CopyBatch = 20,
    /// `(count, operations, …)`.
    Copy3dBatch = 21,

    /// `(dst, value, n)` with elements of 1, 2 and 4 bytes.
    Memset8 = 30,
    Memset16 = 31,
    Memset32 = 32,
    /// `(dst, pitch, value, width, height)`.
    Memset2d8 = 33,
    Memset2d16 = 34,
    Memset2d32 = 35,

    /// `(out, bytes)`.
    Allocate = 40,
    /// `(out, pitch out, width in bytes, height, element size)`.
    AllocatePitch = 41,
    AllocateManaged = 42,
    /// Stream-ordered, from the default or a named pool.
    AllocatePool = 43,
    /// `cuMemCreate(handle out, bytes, …)`: physical memory without an address.
    AllocatePhysical = 44,
    /// `(out, const CUDA_ARRAY_DESCRIPTOR *)`.
    AllocateArray = 45,
    /// `(out, const CUDA_ARRAY3D_DESCRIPTOR *)`.
    AllocateArray3d = 46,
    /// `(out, const CUDA_ARRAY3D_DESCRIPTOR *, levels)`.
    AllocateMipmap = 47,
    /// `(out, bytes)`: pinned host memory.
    AllocateHost = 48,
    /// `(pointer, bytes)`: host memory that existed before.
    RegisterHost = 49,
    /// `(handle out, …)`: another process's memory, which costs nothing here.
    ImportPhysical = 50,

    /// `(device pointer)`.
    Free = 60,
    /// `(handle)`.
    ReleasePhysical = 61,
    /// `(array)`.
    FreeArray = 62,
    /// `(host pointer)`, allocated or registered.
    FreeHost = 63,
    /// `(address, size, offset, handle)`.
    Map = 64,
    /// `(address, size)`.
    Unmap = 65,
    /// `(handle out, address)`: one more handle to what is mapped there, to be released as well.
    RetainPhysical = 66,

    /// `cuInit`.
    Initialize = 80,
    /// `(context out, flags, device)`.
    ContextCreate = 81,
    /// `(context out, parameters, count, flags, device)`.
    ContextCreateAffinity = 82,
    /// `(context out, parameters, flags, device)`.
    ContextCreateParameters = 83,
    ContextDestroy = 84,
    ContextSetCurrent = 85,
    ContextPush = 86,
    ContextPop = 87,
    /// `(context out, device)`.
    PrimaryRetain = 88,
    /// `(device)`.
    PrimaryRelease = 89,
    PrimaryReset = 90,
}

/// Groups of calls, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Class {
    Launch = 0,
    GraphLaunch = 1,
    Synchronize = 2,
    Copy = 3,
    Memset = 4,
    Allocate = 5,
    Free = 6,
    Context = 7,
}

impl Class {
    /// Reads a class from the wire.
    pub const fn from_wire(value: u32) -> Option<Self> {
        Some(match value {
            0 => Self::Launch,
            1 => Self::GraphLaunch,
            2 => Self::Synchronize,
            3 => Self::Copy,
            4 => Self::Memset,
            5 => Self::Allocate,
            6 => Self::Free,
            7 => Self::Context,
            _ => return None,
        })
    }
}

/// Where a copy goes, as far as the call says. The value is an index into [`crate::abi::Counters::copies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CopyDirection {
    HostToDevice = 0,
    DeviceToHost = 1,
    DeviceToDevice = 2,
    HostToHost = 3,
    Peer = 4,
    /// At least one side is a unified address: the call does not say where it lies.
    Unified = 5,
    /// At least one side is a CUDA array.
    Array = 6,
}

impl CopyDirection {
    /// Number of directions.
    pub const COUNT: usize = 7;

    /// All directions, in index order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::HostToDevice,
        Self::DeviceToHost,
        Self::DeviceToDevice,
        Self::HostToHost,
        Self::Peer,
        Self::Unified,
        Self::Array,
    ];
}

/// What kind of memory an allocation is. The value is an index into [`crate::abi::Counters::memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MemoryKind {
    /// Plain and pitched device memory.
    Device = 0,
    /// Stream-ordered memory: a free gives it back to the pool, not to the device.
    Pool = 1,
    /// Physical memory of the virtual memory management calls.
    Virtual = 2,
    /// Managed memory: where it resides is the driver's choice.
    Managed = 3,
    /// Arrays, by their nominal size.
    Array = 4,
    /// Pinned or registered host memory.
    Host = 5,
}

impl MemoryKind {
    /// Number of kinds.
    pub const COUNT: usize = 6;

    /// All kinds, in index order.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Device, Self::Pool, Self::Virtual, Self::Managed, Self::Array, Self::Host];

    /// The wire value of memory that belongs to another process and is not counted.
    pub const IMPORTED: u32 = 0xff;
}

/// Which number space an address or handle is from: equal values in different spaces are different
/// things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AddressSpace {
    Device = 0,
    PhysicalHandle = 1,
    Array = 2,
    Host = 3,
    /// Start of a mapping of physical memory.
    Mapping = 4,
}

macro_rules! calls {
    ($($call:ident),* $(,)?) => {
        impl Call {
            /// All calls.
            pub const ALL: &'static [Self] = &[$(Self::$call),*];

            /// Reads a call from a cookie.
            #[inline(always)]
            pub const fn from_wire(value: u32) -> Option<Self> {
                $(if value == Self::$call as u32 { return Some(Self::$call); })*
                None
            }
        }
    };
}

calls!(
    Launch,
    GraphLaunch,
    Synchronize,
    CopyHostToDevice,
    CopyDeviceToHost,
    CopyDeviceToDevice,
    CopyUnified,
    CopyPeer,
    CopyArrayLinear,
    CopyArrayToArray,
    Copy2d,
    Copy3d,
    Copy3dPeer,
    CopyBatch,
    Copy3dBatch,
    Memset8,
    Memset16,
    Memset32,
    Memset2d8,
    Memset2d16,
    Memset2d32,
    Allocate,
    AllocatePitch,
    AllocateManaged,
    AllocatePool,
    AllocatePhysical,
    AllocateArray,
    AllocateArray3d,
    AllocateMipmap,
    AllocateHost,
    RegisterHost,
    ImportPhysical,
    Free,
    ReleasePhysical,
    FreeArray,
    FreeHost,
    Map,
    Unmap,
    RetainPhysical,
    Initialize,
    ContextCreate,
    ContextCreateAffinity,
    ContextCreateParameters,
    ContextDestroy,
    ContextSetCurrent,
    ContextPush,
    ContextPop,
    PrimaryRetain,
    PrimaryRelease,
    PrimaryReset,
);

/// Calls that share a return program: small programs keep the verifier's work bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Nothing is called more often than launches, so their programs do nothing else.
    Launch,
    /// Graphs, waits, copies and memsets.
    Work,
    /// Allocations, frees and mappings.
    Memory,
    /// Contexts.
    Context,
}

impl Call {
    /// The programs that the call is handled by.
    #[inline(always)]
    pub const fn family(self) -> Family {
        match self as u32 {
            1 => Family::Launch,
            2..40 => Family::Work,
            40..80 => Family::Memory,
            _ => Family::Context,
        }
    }

    /// The class under which a failure is counted.
    #[inline(always)]
    pub const fn class(self) -> Class {
        match self as u32 {
            1 => Class::Launch,
            2 => Class::GraphLaunch,
            3 => Class::Synchronize,
            10..30 => Class::Copy,
            30..40 => Class::Memset,
            40..60 => Class::Allocate,
            60..80 => Class::Free,
            _ => Class::Context,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_survives_the_cookie() {
        for &call in Call::ALL {
            assert_eq!(Call::from_wire(call as u32), Some(call));
        }
        assert_eq!(Call::from_wire(0), None);
        assert_eq!(Call::from_wire(u32::MAX), None);
    }

    #[test]
    fn classes_follow_from_the_calls() {
        assert_eq!(Call::Launch.class(), Class::Launch);
        assert_eq!(Call::Copy3dBatch.class(), Class::Copy);
        assert_eq!(Call::Memset2d32.class(), Class::Memset);
        assert_eq!(Call::ImportPhysical.class(), Class::Allocate);
        assert_eq!(Call::Unmap.class(), Class::Free);
        assert_eq!(Call::PrimaryReset.class(), Class::Context);
        assert_eq!(Call::Launch.family(), Family::Launch);
        assert_eq!(Call::GraphLaunch.family(), Family::Work);
        assert_eq!(Call::Memset2d32.family(), Family::Work);
        assert_eq!(Call::Allocate.family(), Family::Memory);
        assert_eq!(Call::Unmap.family(), Family::Memory);
        assert_eq!(Call::Initialize.family(), Family::Context);
        for value in 0..8 {
            assert_eq!(Class::from_wire(value).map(|class| class as u32), Some(value));
        }
        assert_eq!(Class::from_wire(8), None);
    }

    #[test]
    fn labels_stand_in_index_order() {
        for (index, direction) in CopyDirection::ALL.iter().enumerate() {
            assert_eq!(*direction as usize, index);
        }
        for (index, kind) in MemoryKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }
}
