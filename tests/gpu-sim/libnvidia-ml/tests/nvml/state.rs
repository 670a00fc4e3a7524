//! What changes while the machine runs.

use std::sync::atomic::Ordering::Relaxed;

use gpu_sim::machine::published::{ListedProcess, ProcessKind};
use gpu_sim::machine::samples::Sample;
use gpu_sim::machine::{Fault, MachineFault};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, PcieUtilCounter, Sampling};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;

use crate::support::install;

fn process(pid: u32, kind: ProcessKind, used_bytes: u64) -> ListedProcess {
    ListedProcess { pid, kind, used_bytes }
}

fn sample(pid: u32, timestamp_us: u64, sm_percent: u32) -> Sample {
    Sample { pid, timestamp_us, visible_ns: 0, sm_percent, memory_percent: 3, power_mw: 90_000 }
}

#[test]
fn process_lists_in_both_forms() {
    let installation = install("2xA10");
    let nvml = installation.nvml();
    let device = nvml.device_by_index(1).unwrap();
    assert!(device.running_compute_processes().unwrap().is_empty());
    let list = [
        process(4242, ProcessKind::Compute, 300 << 20),
        process(17, ProcessKind::Graphics, 40 << 20),
        process(4243, ProcessKind::Compute, 6 << 30),
    ];
    installation.machine.gpu(1).unwrap().process_list.publish(&list);
    let compute = device.running_compute_processes().unwrap();
    let seen: Vec<_> = compute.iter().map(|entry| (entry.pid, entry.used_gpu_memory.clone())).collect();
    assert_eq!(seen, [(4242, UsedGpuMemory::Used(300 << 20)), (4243, UsedGpuMemory::Used(6 << 30))]);
    assert_eq!(compute, device.running_compute_processes_v2().unwrap());
    assert_eq!(compute[0].gpu_instance_id, None);
    assert_eq!(device.running_graphics_processes().unwrap().len(), 1);
    assert!(device.mps_running_compute_processes().unwrap().is_empty());
    let first = nvml.device_by_index(0).unwrap();
    assert!(first.running_compute_processes().unwrap().is_empty(), "each GPU has its own list");
}

#[test]
fn utilisation_samples_of_processes() {
    let installation = install("1xT4");
    let nvml = installation.nvml();
    let device = nvml.device_by_index(0).unwrap();
    assert!(matches!(device.process_utilization_stats(0), Err(NvmlError::NotFound)), "an idle GPU has none");
    let samples = &installation.machine.gpu(0).unwrap().process_samples;
    for (pid, timestamp_us, sm_percent) in [(7, 1_000, 10), (8, 1_000, 20), (7, 2_000, 30)] {
        samples.push(&sample(pid, timestamp_us, sm_percent));
    }
    let late = Sample { visible_ns: u64::MAX, ..sample(7, 3_000, 40) };
    samples.push(&late);
    let read = |since: u64| {
        let mut seen: Vec<_> = device
            .process_utilization_stats(since)
            .unwrap()
            .iter()
            .map(|entry| (entry.pid, entry.timestamp, entry.sm_util))
            .collect();
        seen.sort_unstable();
        seen
    };
    assert_eq!(read(0), [(7, 2_000, 30), (8, 1_000, 20)], "the newest of each process that is handed out");
    assert_eq!(read(1_000), [(7, 2_000, 30)]);
    assert!(matches!(device.process_utilization_stats(2_000), Err(NvmlError::NotFound)));
}

#[test]
fn samples_of_the_device() {
    let installation = install("1xT4");
    let nvml = installation.nvml();
    let device = nvml.device_by_index(0).unwrap();
    assert!(matches!(device.samples(Sampling::Power, None), Err(NvmlError::NotFound)));
    installation.machine.gpu(0).unwrap().device_samples.push(&sample(0, 1_000, 55));
    let read = device.samples(Sampling::GpuUtilization, None).unwrap();
    assert_eq!((read.len(), read[0].timestamp, &read[0].value), (1, 1_000, &SampleValue::U32(55)));
    assert!(matches!(device.samples(Sampling::ProcessorClock, None), Err(NvmlError::NotSupported)));
}

#[test]
fn gpm_measures_between_two_samples() {
    let installation = install("8xH100-nvswitch");
    let nvml = installation.nvml();
    let device = nvml.device_by_index(2).unwrap();
    let state = installation.machine.gpu(2).unwrap();
    let before = device.gpm_sample().unwrap();
    // More busy time than can have passed: a GPU that was busy all the time, exactly.
    state.busy_ns.fetch_add(1 << 50, Relaxed);
    state.nvlink_tx_bytes[5].fetch_add(1 << 40, Relaxed);
    let after = device.gpm_sample().unwrap();
    let wanted = [
        GpmMetricId::SmUtil,
        GpmMetricId::DramBwUtil,
        GpmMetricId::Fp32Util,
        GpmMetricId::PcieTxPerSec,
        GpmMetricId::NvlinkL5TxPerSec,
        GpmMetricId::NvlinkTotalTxPerSec,
        GpmMetricId::NvlinkL5RxPerSec,
        GpmMetricId::Nvdec0Util,
    ];
    let metrics = gpm_metrics_get(&nvml, &before, &after, &wanted).unwrap();
    let value = |position: usize| metrics[position].as_ref().unwrap().value;
    let near =
        |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    near(value(0), 100.0);
    near(value(1), 40.0);
    near(value(2), 20.0);
    near(value(3), 0.0);
    assert!(value(4) > 0.0);
    near(value(4), value(5));
    near(value(6), 0.0);
    assert!(matches!(metrics[7], Err(NvmlError::NotSupported)));
    assert_eq!(metrics[0].as_ref().unwrap().metric_info.unit, "%");
    assert!(matches!(gpm_metrics_get(&nvml, &after, &before, &wanted), Err(NvmlError::InvalidArg)));
}

#[test]
fn counters_and_reasons() {
    let installation = install("2xA10");
    let nvml = installation.nvml();
    let device = nvml.device_by_index(0).unwrap();
    let state = installation.machine.gpu(0).unwrap();
    state.energy_uj.store(12_345_678, Relaxed);
    state.pcie_tx_kb_per_s.store(77, Relaxed);
    state.gpu_utilization_percent.store(64, Relaxed);
    assert_eq!(device.total_energy_consumption().unwrap(), 12_345);
    assert_eq!(device.pcie_throughput(PcieUtilCounter::Send).unwrap(), 77);
    assert_eq!(device.pcie_throughput(PcieUtilCounter::Receive).unwrap(), 0);
    assert_eq!(device.utilization_rates().unwrap().gpu, 64);
    assert_eq!(device.current_throttle_reasons().unwrap(), ThrottleReasons::empty());
    installation.machine.set_fault(0, Fault::ThrottleReasons, ThrottleReasons::SW_POWER_CAP.bits());
    assert_eq!(device.current_throttle_reasons().unwrap(), ThrottleReasons::SW_POWER_CAP);
    installation.machine.set_fault(0, Fault::EccUncorrected, 3);
    assert_eq!(device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).unwrap(), 3);
    assert_eq!(device.total_ecc_errors(MemoryError::Corrected, EccCounter::Aggregate).unwrap(), 0);
}

#[test]
fn field_values_have_return_codes_of_their_own() {
    let installation = install("8xV100-hybrid-cube-mesh");
    let nvml = installation.nvml();
    let device = nvml.device_by_index(0).unwrap();
    installation.machine.gpu(0).unwrap().nvlink_tx_bytes[0].store(10 * 1024, Relaxed);
    let wanted = [
        field_id::NVML_FI_DEV_NVLINK_LINK_COUNT,
        field_id::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON,
        field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        field_id::NVML_FI_DEV_REMAPPED_COR,
    ]
    .map(FieldId);
    let values: Vec<_> =
        device.field_values_for(&wanted).unwrap().into_iter().map(|field| field.unwrap().value).collect();
    assert!(matches!(values[0], Ok(SampleValue::U32(6))));
    assert!(matches!(values[1], Ok(SampleValue::U32(25_000))));
    assert!(matches!(values[2], Ok(SampleValue::U64(10))), "in KiB");
    assert!(matches!(values[3], Err(NvmlError::NotSupported)), "Volta retires pages");
}

#[test]
fn xids_are_delivered_to_those_who_registered() {
    let installation = install("2xA10");
    let nvml = installation.nvml();
    installation.machine.report_xid(1, 13);
    let mut set = nvml.create_event_set().unwrap();
    for index in 0..2 {
        let device = nvml.device_by_index(index).unwrap();
        set = device.register_events(EventTypes::CRITICAL_XID_ERROR, set).unwrap();
    }
    assert!(matches!(set.wait(0), Err(NvmlError::Timeout)), "what was before the registration is past");
    installation.machine.report_xid(1, 79);
    let event = set.wait(0).unwrap();
    assert_eq!(event.device.index().unwrap(), 1);
    assert_eq!(event.event_data, Some(XidError::Value(79)));
    assert!(matches!(set.wait(0), Err(NvmlError::Timeout)), "each is delivered once");
}

#[test]
fn faults_of_one_gpu_leave_the_other_alone() {
    let installation = install("2xA10");
    let nvml = installation.nvml();
    let (first, second) = (nvml.device_by_index(0).unwrap(), nvml.device_by_index(1).unwrap());
    installation.machine.set_fault(1, Fault::NvmlReturn, 15);
    assert!(matches!(second.power_usage(), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_index(1), Err(NvmlError::GpuLost)));
    assert_eq!(nvml.device_count().unwrap(), 2);
    first.power_usage().unwrap();
    installation.machine.set_fault(1, Fault::NvmlReturn, 0);
    second.power_usage().unwrap();
}

#[test]
fn a_fault_of_the_driver_concerns_every_call() {
    let installation = install("1xT4");
    let nvml = installation.nvml();
    let device = nvml.device_by_index(0).unwrap();
    installation.machine.set_machine_fault(MachineFault::NvmlReturn, 18);
    assert!(matches!(device.power_usage(), Err(NvmlError::LibRmVersionMismatch)));
    assert!(matches!(nvml.sys_driver_version(), Err(NvmlError::LibRmVersionMismatch)));
    let again = nvml_wrapper::Nvml::builder().lib_path(installation.library.as_os_str()).init();
    assert!(matches!(again.unwrap_err(), NvmlError::LibRmVersionMismatch));
}

#[test]
fn amounts_can_be_not_available() {
    let installation = install("1xT4");
    let nvml = installation.nvml();
    let device = nvml.device_by_index(0).unwrap();
    installation.machine.set_fault(0, Fault::NotAvailable, 1);
    assert_eq!(device.power_usage().unwrap(), u32::MAX);
    assert_eq!(device.memory_info().unwrap().used, u64::MAX);
}
