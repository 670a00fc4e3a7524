//! Event sets: critical errors (XIDs) of the GPUs that a caller has registered for.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_ulonglong};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::{nvmlEventSet_t, nvmlEventTypeXidCriticalError};

use crate::abi::{Answer, Handle, Out, code};
use crate::library;

/// How often a waiting call looks for an event.
const POLL: Duration = Duration::from_millis(5);

const XID_EVENTS: c_ulonglong = nvmlEventTypeXidCriticalError as c_ulonglong;

/// `gpuInstanceId` of an event that concerns the whole GPU.
const NO_INSTANCE: c_uint = u32::MAX;

/// `nvmlEventSet_t`: an opaque number to callers.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetHandle(usize);

const _: () = assert!(size_of::<SetHandle>() == size_of::<nvmlEventSet_t>());

/// `nvmlEventData_t`, with the handle as this library has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EventData {
    device: Handle,
    kind: c_ulonglong,
    detail: c_ulonglong,
    gpu_instance_id: c_uint,
    compute_instance_id: c_uint,
}

const _: () = assert!(size_of::<EventData>() == size_of::<nvml_wrapper_sys::bindings::nvmlEventData_t>());

static SETS: Mutex<Sets> = Mutex::new(Sets { next: 0x4556_5400, open: BTreeMap::new() });

struct Sets {
    next: usize,
    open: BTreeMap<usize, EventSet>,
}

/// For each GPU, the number of the next XID to hand out.
#[derive(Default)]
struct EventSet {
    gpus: BTreeMap<usize, u64>,
}

export! {
    fn nvmlEventSetCreate(set: Out<SetHandle>) {
        library::machine()?;
        let mut sets = sets();
        let handle = sets.next;
        sets.next += 1;
        sets.open.insert(handle, EventSet::default());
        set.set(SetHandle(handle))
    }

    fn nvmlEventSetFree(set: SetHandle) {
        library::machine()?;
        sets().open.remove(&set.0).map(drop).ok_or(code::INVALID_ARGUMENT)
    }

    fn nvmlDeviceGetSupportedEventTypes(device: Handle, types: Out<c_ulonglong>) {
        device.device()?;
        types.set(XID_EVENTS)
    }

    fn nvmlDeviceRegisterEvents(device: Handle, types: c_ulonglong, set: SetHandle) {
        let device = device.device()?;
        if types & !XID_EVENTS != 0 {
            return Err(code::NOT_SUPPORTED);
        }
        let mut sets = sets();
        let set = sets.open.get_mut(&set.0).ok_or(code::INVALID_ARGUMENT)?;
        // What was reported before the registration is not handed out.
        set.gpus.entry(device.index).or_insert_with(|| device.machine.xid_count(device.index));
        Ok(())
    }

    fn nvmlEventSetWait(set: SetHandle, data: Out<EventData>, timeout_ms: c_uint) {
        wait(set, data, timeout_ms)
    }

    fn nvmlEventSetWait_v2(set: SetHandle, data: Out<EventData>, timeout_ms: c_uint) {
        wait(set, data, timeout_ms)
    }
}

/// Called when the library is shut down.
pub(crate) fn forget_all() {
    sets().open.clear();
}

fn sets() -> MutexGuard<'static, Sets> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait(set: SetHandle, data: Out<EventData>, timeout_ms: c_uint) -> Answer {
    let end = Instant::now() + Duration::from_millis(u64::from(timeout_ms));
    loop {
        if let Some(event) = take(set)? {
            return data.set(event);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(code::TIMEOUT);
        }
        std::thread::sleep(POLL.min(left));
    }
}

fn take(set: SetHandle) -> Result<Option<EventData>, c_uint> {
    let machine = library::machine()?;
    let mut sets = sets();
    let set = sets.open.get_mut(&set.0).ok_or(code::INVALID_ARGUMENT)?;
    for (gpu, next) in &mut set.gpus {
        if let Some((number, xid)) = machine.xid_from(*gpu, *next) {
            *next = number + 1;
            return Ok(Some(EventData {
                device: Handle::of(*gpu),
                kind: XID_EVENTS,
                detail: xid,
                gpu_instance_id: NO_INSTANCE,
                compute_instance_id: NO_INSTANCE,
            }));
        }
    }
    Ok(None)
}
