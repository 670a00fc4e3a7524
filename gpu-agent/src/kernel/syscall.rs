//! The few `bpf(2)` commands that aya 0.14 does not offer: `uprobe_multi` links, batched reads,
//! atomic look-up-and-delete, and pinning of raw descriptors.
//!
//! Layouts are those of `union bpf_attr` in `include/uapi/linux/bpf.h`; the kernel accepts a shorter
//! union and takes the rest as zero.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use aya_obj::generated::bpf_insn;

const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_MAP_GET_NEXT_KEY: libc::c_int = 4;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_OBJ_PIN: libc::c_int = 6;
const BPF_OBJ_GET: libc::c_int = 7;
const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_MAP_LOOKUP_AND_DELETE_ELEM: libc::c_int = 21;
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
const BPF_LINK_CREATE: libc::c_int = 28;

const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_TRACE_UPROBE_MULTI: u32 = 48;
const BPF_F_UPROBE_MULTI_RETURN: u32 = 1;

/// Room for the verifier's explanation of a refusal.
const VERIFIER_LOG_BYTES: usize = 1 << 20;

fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attributes` is a live `repr(C)` prefix of `union bpf_attr` of the stated size; the pointers
    // inside it were made from slices that outlive the call, by the functions of this module only.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            libc::c_uint::try_from(size_of::<T>()).unwrap_or(libc::c_uint::MAX),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: the kernel has just returned this descriptor to us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr().addr() as u64
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

/// Loads a program that can be attached by [`link_uprobe_multi`].
///
/// # Errors
/// The kernel's refusal; the verifier's log, where it wrote one, is the message.
pub fn load_uprobe_multi(name: &str, license: &str, instructions: &[bpf_insn]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        expected_attach_type: u32,
    }
    let license = CString::new(license)?;
    let mut short_name = [0; 16];
    for (slot, byte) in short_name.iter_mut().take(15).zip(name.bytes()) {
        *slot = byte;
    }
    let mut attributes = Attributes {
        program_type: BPF_PROG_TYPE_KPROBE,
        instruction_count: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        instructions: address(instructions),
        license: license.as_ptr().addr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: short_name,
        interface: 0,
        expected_attach_type: BPF_TRACE_UPROBE_MULTI,
    };
    match bpf(BPF_PROG_LOAD, &mut attributes) {
        Ok(descriptor) => owned(descriptor),
        Err(error) => {
            // Once more with the verifier's log, which costs too much to ask for always.
            let log = vec![0_u8; VERIFIER_LOG_BYTES];
            attributes.log_level = 1;
            attributes.log_size = u32::try_from(log.len()).unwrap_or(0);
            attributes.log = address(&log);
            if let Ok(descriptor) = bpf(BPF_PROG_LOAD, &mut attributes) {
                return owned(descriptor);
            }
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let text = String::from_utf8_lossy(&log[..end]);
            let tail: Vec<&str> = text.lines().rev().take(8).collect();
            if tail.is_empty() {
                return Err(error);
            }
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            Err(io::Error::new(error.kind(), format!("{error}: {}", tail.join("; "))))
        }
    }
}

/// Attaches a program to many functions of one file at once.
///
/// # Minimum kernel version
/// 6.6.
///
/// # Errors
/// The kernel's refusal: `EINVAL` also where the kernel does not know this kind of link.
pub fn link_uprobe_multi(
    program: BorrowedFd<'_>,
    file: &Path,
    offsets: &[u64],
    cookies: &[u64],
    at_return: bool,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        target: u32,
        attach_type: u32,
        flags: u32,
        path: u64,
        offsets: u64,
        reference_counters: u64,
        cookies: u64,
        count: u32,
        multi_flags: u32,
        process: u32,
        pad: u32,
    }
    if offsets.len() != cookies.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let path = c_path(file)?;
    let mut attributes = Attributes {
        program: raw(program),
        target: 0,
        attach_type: BPF_TRACE_UPROBE_MULTI,
        flags: 0,
        path: path.as_ptr().addr() as u64,
        offsets: address(offsets),
        reference_counters: 0,
        cookies: address(cookies),
        count: u32::try_from(offsets.len()).unwrap_or(u32::MAX),
        multi_flags: if at_return { BPF_F_UPROBE_MULTI_RETURN } else { 0 },
        process: 0,
        pad: 0,
    };
    owned(bpf(BPF_LINK_CREATE, &mut attributes)?)
}

#[repr(C)]
struct ObjectAttributes {
    path: u64,
    descriptor: u32,
    flags: u32,
}

/// Pins a program, map or link.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let mut attributes =
        ObjectAttributes { path: path.as_ptr().addr() as u64, descriptor: raw(object), flags: 0 };
    bpf(BPF_OBJ_PIN, &mut attributes).map(drop)
}

/// Opens a pinned program, map or link.
pub fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let mut attributes = ObjectAttributes { path: path.as_ptr().addr() as u64, descriptor: 0, flags: 0 };
    owned(bpf(BPF_OBJ_GET, &mut attributes)?)
}

/// Shape of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    pub map_type: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub max_entries: u32,
}

/// Reads a map's shape.
pub fn map_shape(map: BorrowedFd<'_>) -> io::Result<MapShape> {
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        map_type: u32,
        id: u32,
        key_bytes: u32,
        value_bytes: u32,
        max_entries: u32,
        flags: u32,
    }
    let mut info = Info::default();
    object_info(map, &mut info)?;
    Ok(MapShape {
        map_type: info.map_type,
        key_bytes: info.key_bytes,
        value_bytes: info.value_bytes,
        max_entries: info.max_entries,
    })
}

/// How often a program ran, as far as the kernel keeps count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRuns {
    /// Time spent, in nanoseconds, and runs: only counted while `kernel.bpf_stats_enabled` is set.
    pub run_time_ns: u64,
    pub run_count: u64,
    /// Runs skipped because a program was already running on that CPU; 0 before kernel 5.12, which does not count.
    pub recursion_misses: u64,
}

/// Reads a program's statistics out of `struct bpf_prog_info`.
pub fn program_runs(program: BorrowedFd<'_>) -> io::Result<ProgramRuns> {
    /// `run_time_ns`, `run_cnt` and `recursion_misses` are consecutive words at this index.
    const RUNS: usize = 24;
    let mut info = [0_u64; 32];
    object_info(program, &mut info)?;
    Ok(ProgramRuns { run_time_ns: info[RUNS], run_count: info[RUNS + 1], recursion_misses: info[RUNS + 2] })
}

/// Opens the program that a link runs.
pub fn link_program(link: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        link_type: u32,
        id: u32,
        program: u32,
        pad: u32,
    }
    #[repr(C)]
    struct Attributes {
        id: u32,
        next: u32,
        flags: u32,
    }
    let mut info = Info::default();
    object_info(link, &mut info)?;
    owned(bpf(BPF_PROG_GET_FD_BY_ID, &mut Attributes { id: info.program, next: 0, flags: 0 })?)
}

fn object_info<T>(object: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        descriptor: u32,
        length: u32,
        info: u64,
    }
    let mut attributes = Attributes {
        descriptor: raw(object),
        length: u32::try_from(size_of::<T>()).unwrap_or(0),
        info: std::ptr::from_mut(info).addr() as u64,
    };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes).map(drop)
}

#[repr(C)]
struct ElementAttributes {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element(map: BorrowedFd<'_>, key: &[u8], value: u64) -> ElementAttributes {
    ElementAttributes { map: raw(map), pad: 0, key: address(key), value, flags: 0 }
}

/// Reads one element into `value`; `false` if there is none.
///
/// The caller passes buffers of the map's key size and of its value size times, for per-CPU maps, the
/// number of possible CPUs.
pub fn lookup(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    let mut attributes = element(map, key, value.as_mut_ptr().addr() as u64);
    found(bpf(BPF_MAP_LOOKUP_ELEM, &mut attributes))
}

/// Reads and removes one element in one step; `false` if there is none.
///
/// # Minimum kernel version
/// 5.14 for hash maps.
pub fn lookup_and_delete(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    let mut attributes = element(map, key, value.as_mut_ptr().addr() as u64);
    found(bpf(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &mut attributes))
}

/// Writes one element.
pub fn update(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    let mut attributes = element(map, key, address(value));
    bpf(BPF_MAP_UPDATE_ELEM, &mut attributes).map(drop)
}

/// Removes one element; `false` if there is none.
pub fn delete(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<bool> {
    found(bpf(BPF_MAP_DELETE_ELEM, &mut element(map, key, 0)))
}

/// Finds the key after `key` (the first one for `None`) into `next`; `false` at the end.
pub fn next_key(map: BorrowedFd<'_>, key: Option<&[u8]>, next: &mut [u8]) -> io::Result<bool> {
    let mut attributes = ElementAttributes {
        map: raw(map),
        pad: 0,
        key: key.map_or(0, address),
        value: next.as_mut_ptr().addr() as u64,
        flags: 0,
    };
    found(bpf(BPF_MAP_GET_NEXT_KEY, &mut attributes))
}

fn found(result: io::Result<libc::c_long>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where a batched read goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchPosition(Option<u64>);

/// One step of a batched read: how many elements were read, and where to go on; `None` at the end.
pub struct Batch {
    pub elements: usize,
    pub next: Option<BatchPosition>,
}

/// Reads up to `capacity` elements into `keys` and `values`, which the caller has sized for them.
///
/// # Minimum kernel version
/// 5.6.
///
/// # Errors
/// `ENOSPC` when a single hash bucket holds more elements than `capacity`.
pub fn lookup_batch(
    map: BorrowedFd<'_>,
    position: BatchPosition,
    keys: &mut [u8],
    values: &mut [u8],
    capacity: usize,
) -> io::Result<Batch> {
    #[repr(C)]
    struct Attributes {
        from: u64,
        to: u64,
        keys: u64,
        values: u64,
        count: u32,
        map: u32,
        element_flags: u64,
        flags: u64,
    }
    // Hash maps write the number of the next bucket, four bytes, into the position.
    let mut next = 0_u64;
    let from = position.0;
    let mut attributes = Attributes {
        from: from.as_ref().map_or(0, |from| std::ptr::from_ref(from).addr() as u64),
        to: std::ptr::from_mut(&mut next).addr() as u64,
        keys: keys.as_mut_ptr().addr() as u64,
        values: values.as_mut_ptr().addr() as u64,
        count: u32::try_from(capacity).unwrap_or(u32::MAX),
        map: raw(map),
        element_flags: 0,
        flags: 0,
    };
    let done = match bpf(BPF_MAP_LOOKUP_BATCH, &mut attributes) {
        Ok(_) => false,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
        Err(error) => return Err(error),
    };
    // A read through a pointer in `attributes` is invisible to the compiler.
    let next = std::hint::black_box(next);
    Ok(Batch {
        elements: usize::try_from(attributes.count).unwrap_or(0).min(capacity),
        next: (!done).then_some(BatchPosition(Some(next))),
    })
}
