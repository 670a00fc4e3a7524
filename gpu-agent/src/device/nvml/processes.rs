//! Who uses a GPU.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use super::gather::Gather;
use crate::device::backend::Activity;
use crate::device::error::DeviceError;
use crate::device::model::{ProcessKind, ProcessOnGpu};
use crate::device::sentinel::known_u64;
use crate::device::utilization::RawUtilization;
use crate::device::uuid::GpuUuid;

/// Attempts at a list that grows between the call for its length and the call for its content.
const LIST_ATTEMPTS: u32 = 3;

pub(super) fn activity(
    device: &Device<'_>,
    uuid: &GpuUuid,
    since_us: u64,
    now_us: u64,
) -> Result<Activity, DeviceError> {
    let mut gather = Gather::default();
    let compute = gather.get("nvmlDeviceGetComputeRunningProcesses_v3", || {
        listed(|| device.running_compute_processes(), || device.running_compute_processes_v2())
    });
    let mps = gather.get("nvmlDeviceGetMPSComputeRunningProcesses_v3", || {
        settled(|| device.mps_running_compute_processes())
    });
    let graphics = gather.get("nvmlDeviceGetGraphicsRunningProcesses_v3", || {
        listed(|| device.running_graphics_processes(), || device.running_graphics_processes_v2())
    });
    let samples = gather
        .get("nvmlDeviceGetProcessUtilization", || {
            match settled(|| device.process_utilization_stats(since_us)) {
                // An idle GPU has no samples.
                Err(NvmlError::NotFound) => Ok(Vec::new()),
                other => other,
            }
        })
        .unwrap_or_default();
    // Without the compute list the others say nothing about who works; without the others it is complete for most GPUs.
    let processes = compute.map(|compute| {
        let lists = [
            (ProcessKind::Compute, Some(compute)),
            (ProcessKind::Mps, mps),
            (ProcessKind::Graphics, graphics),
        ];
        let entries = lists.into_iter().flat_map(|(kind, list)| {
            list.unwrap_or_default().into_iter().map(move |process| (kind, process))
        });
        merge(uuid, entries)
    });
    let samples = samples
        .into_iter()
        .map(|sample| RawUtilization {
            pid: sample.pid,
            timestamp_us: sample.timestamp,
            sm_percent: sample.sm_util,
            memory_percent: sample.mem_util,
            encoder_percent: sample.enc_util,
            decoder_percent: sample.dec_util,
        })
        .collect();
    let errors = gather.finish("nvmlDeviceGetComputeRunningProcesses_v3")?;
    Ok(Activity { processes, samples, errors, now_us })
}

/// The newest form of a list, or the one before: libraries before R510 lack `_v3`.
///
/// `_v2` and `_v3` have one layout. The entry points without a suffix have another and are not used.
fn listed(
    newest: impl Fn() -> Result<Vec<ProcessInfo>, NvmlError>,
    older: impl Fn() -> Result<Vec<ProcessInfo>, NvmlError>,
) -> Result<Vec<ProcessInfo>, NvmlError> {
    match settled(newest) {
        Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => settled(older),
        other => other,
    }
}

fn settled<T>(list: impl Fn() -> Result<T, NvmlError>) -> Result<T, NvmlError> {
    let mut outcome = list();
    for _ in 1..LIST_ATTEMPTS {
        if !matches!(outcome, Err(NvmlError::InsufficientSize(_))) {
            break;
        }
        outcome = list();
    }
    outcome
}

/// One entry for each process. A process in several lists (compute and graphics) has the same memory in each, so that
/// adding them up would count it twice; the first list that has it names its kind.
fn merge(uuid: &GpuUuid, listed: impl Iterator<Item = (ProcessKind, ProcessInfo)>) -> Vec<ProcessOnGpu> {
    let mut merged: BTreeMap<u32, ProcessOnGpu> = BTreeMap::new();
    for (kind, process) in listed {
        let used_memory_bytes = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => known_u64(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        match merged.entry(process.pid) {
            Entry::Vacant(entry) => {
                entry.insert(ProcessOnGpu { gpu: uuid.clone(), pid: process.pid, kind, used_memory_bytes });
            }
            Entry::Occupied(mut entry) => {
                let known = &mut entry.get_mut().used_memory_bytes;
                *known = known.or(used_memory_bytes);
            }
        }
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn process(pid: u32, used_gpu_memory: UsedGpuMemory) -> ProcessInfo {
        ProcessInfo { pid, used_gpu_memory, gpu_instance_id: None, compute_instance_id: None }
    }

    #[test]
    fn an_old_library_is_asked_by_its_older_name() {
        let missing =
            || Err(NvmlError::FailedToLoadSymbol("nvmlDeviceGetComputeRunningProcesses_v3".to_owned()));
        let list = listed(missing, || Ok(vec![process(7, UsedGpuMemory::Used(1))])).unwrap();
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn the_older_name_is_not_tried_when_the_newest_one_fails() {
        let older = || -> Result<Vec<ProcessInfo>, NvmlError> { unreachable!("the function is there") };
        assert!(matches!(listed(|| Err(NvmlError::GpuLost), older), Err(NvmlError::GpuLost)));
    }

    #[test]
    fn a_list_that_grows_is_asked_again_but_not_for_ever() {
        let calls = Cell::new(0);
        let grows = |times| {
            calls.set(calls.get() + 1);
            if calls.get() <= times { Err(NvmlError::InsufficientSize(None)) } else { Ok(calls.get()) }
        };
        assert!(matches!(settled(|| grows(2)), Ok(3)));
        calls.set(0);
        assert!(matches!(settled(|| grows(100)), Err(NvmlError::InsufficientSize(None))));
        assert_eq!(calls.get(), LIST_ATTEMPTS);
    }

    #[test]
    fn a_process_in_two_lists_is_counted_once() {
        let uuid = GpuUuid::from_bytes([1; 16]);
        let lists = [
            (ProcessKind::Compute, process(7, UsedGpuMemory::Unavailable)),
            (ProcessKind::Compute, process(5, UsedGpuMemory::Used(0x7fff_ffff_ffff_fff2))),
            (ProcessKind::Graphics, process(7, UsedGpuMemory::Used(4096))),
        ];
        let merged = merge(&uuid, lists.into_iter());
        let seen: Vec<_> = merged.iter().map(|p| (p.pid, p.kind, p.used_memory_bytes)).collect();
        assert_eq!(seen, [(5, ProcessKind::Compute, None), (7, ProcessKind::Compute, Some(4096))]);
    }
}
