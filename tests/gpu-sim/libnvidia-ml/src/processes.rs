//! Who uses a GPU. Pids are those of the PID namespace in which the machine's daemon runs.

use std::ffi::{c_uint, c_ulonglong};

use gpu_sim::machine::published::{ListedProcess, ProcessKind};
use gpu_sim::machine::{Fault, clock};
use nvml_wrapper_sys::bindings::{
    nvmlEnableState_t, nvmlProcessInfo_t, nvmlProcessInfo_v1_t, nvmlProcessUtilizationSample_t,
};

use crate::abi::{Answer, Device, Handle, InOut, Items, Out, code};

/// `gpuInstanceId` and `computeInstanceId` of a process on a GPU without MIG.
const NO_INSTANCE: c_uint = u32::MAX;

/// Processes that accounting would remember; it is off, so that none is.
const ACCOUNTING_BUFFER: c_uint = 4000;

export! {
    fn nvmlDeviceGetComputeRunningProcesses(device: Handle, count: InOut<c_uint>, list: Items<nvmlProcessInfo_v1_t>) {
        first_form(device, Some(ProcessKind::Compute), &count, list)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2(device: Handle, count: InOut<c_uint>, list: Items<nvmlProcessInfo_t>) {
        current_form(device, Some(ProcessKind::Compute), &count, list)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(device: Handle, count: InOut<c_uint>, list: Items<nvmlProcessInfo_t>) {
        current_form(device, Some(ProcessKind::Compute), &count, list)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses(device: Handle, count: InOut<c_uint>, list: Items<nvmlProcessInfo_v1_t>) {
        first_form(device, Some(ProcessKind::Graphics), &count, list)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2(device: Handle, count: InOut<c_uint>, list: Items<nvmlProcessInfo_t>) {
        current_form(device, Some(ProcessKind::Graphics), &count, list)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: Handle, count: InOut<c_uint>, list: Items<nvmlProcessInfo_t>) {
        current_form(device, Some(ProcessKind::Graphics), &count, list)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses(device: Handle, count: InOut<c_uint>, list: Items<nvmlProcessInfo_v1_t>) {
        first_form(device, None, &count, list)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(device: Handle, count: InOut<c_uint>, list: Items<nvmlProcessInfo_t>) {
        current_form(device, None, &count, list)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(device: Handle, count: InOut<c_uint>, list: Items<nvmlProcessInfo_t>) {
        current_form(device, None, &count, list)
    }

    /// The newest sample of each process that is newer than `last_seen_us`.
    fn nvmlDeviceGetProcessUtilization(
        device: Handle,
        list: Items<nvmlProcessUtilizationSample_t>,
        count: InOut<c_uint>,
        last_seen_us: c_ulonglong,
    ) {
        let samples = utilization(&device.device()?, last_seen_us);
        if samples.is_empty() {
            return Err(code::NOT_FOUND);
        }
        if list.is_null() {
            count.set(c_uint::try_from(samples.len()).map_err(|_too_many| code::UNKNOWN)?)?;
            return Err(code::INSUFFICIENT_SIZE);
        }
        list.fill(&count, &samples)
    }

    fn nvmlDeviceGetAccountingMode(device: Handle, mode: Out<nvmlEnableState_t>) {
        device.device()?;
        mode.set(0)
    }

    fn nvmlDeviceGetAccountingBufferSize(device: Handle, size: Out<c_uint>) {
        device.device()?;
        size.set(ACCOUNTING_BUFFER)
    }

    fn nvmlDeviceGetAccountingPids(device: Handle, count: InOut<c_uint>, pids: Items<c_uint>) {
        device.device()?;
        pids.fill(&count, &[])
    }
}

fn first_form(
    device: Handle,
    kind: Option<ProcessKind>,
    count: &InOut<c_uint>,
    list: Items<nvmlProcessInfo_v1_t>,
) -> Answer {
    let device = device.device()?;
    let entries: Vec<nvmlProcessInfo_v1_t> = listed(&device, kind)
        .map(|process| nvmlProcessInfo_v1_t { pid: process.pid, usedGpuMemory: used(&device, &process) })
        .collect();
    list.fill(count, &entries)
}

fn current_form(
    device: Handle,
    kind: Option<ProcessKind>,
    count: &InOut<c_uint>,
    list: Items<nvmlProcessInfo_t>,
) -> Answer {
    let device = device.device()?;
    let entries: Vec<nvmlProcessInfo_t> = listed(&device, kind)
        .map(|process| nvmlProcessInfo_t {
            pid: process.pid,
            usedGpuMemory: used(&device, &process),
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        })
        .collect();
    list.fill(count, &entries)
}

/// The driver's list; nothing in the simulation uses MPS, whose list has no kind here.
fn listed(device: &Device, kind: Option<ProcessKind>) -> impl Iterator<Item = ListedProcess> {
    device.state().process_list.read().into_iter().filter(move |process| Some(process.kind) == kind)
}

fn used(device: &Device, process: &ListedProcess) -> c_ulonglong {
    if device.fault(Fault::NotAvailable) != 0 { u64::MAX } else { process.used_bytes }
}

fn utilization(device: &Device, last_seen_us: u64) -> Vec<nvmlProcessUtilizationSample_t> {
    let mut newest: Vec<nvmlProcessUtilizationSample_t> = Vec::new();
    for sample in device.state().process_samples.read(last_seen_us, clock::monotonic_ns()) {
        let entry = entry(sample.pid, sample.timestamp_us, sample.sm_percent, sample.memory_percent);
        match newest.iter_mut().find(|known| known.pid == sample.pid) {
            Some(known) => *known = entry,
            None => newest.push(entry),
        }
    }
    if device.fault(Fault::GarbageSamples) != 0 {
        let now_us = clock::realtime_ns() / 1000;
        newest.push(entry(4_194_303, now_us, 4_294_967, 12));
        newest.push(entry(0, now_us, 7, 0));
        newest.push(entry(4_194_303, 1, 7, 0));
    }
    newest
}

fn entry(
    pid: u32,
    timestamp_us: u64,
    sm_percent: u32,
    memory_percent: u32,
) -> nvmlProcessUtilizationSample_t {
    nvmlProcessUtilizationSample_t {
        pid,
        timeStamp: timestamp_us,
        smUtil: sm_percent,
        memUtil: memory_percent,
        encUtil: 0,
        decUtil: 0,
    }
}
