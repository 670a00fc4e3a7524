//! The agent's NVML backend and worker on the built library, with real threads. Nothing depends on how long things take:
//! each test waits for the snapshot in which what it expects has happened.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use gpu_agent::device::nvml::NvmlBackend;
use gpu_agent::device::{
    DeviceConfig, DeviceSnapshot, ErrorClass, GpuCondition, GpuState, Handle, PcieAncestor, ProcessKind,
    SourceState, spawn,
};
use gpu_sim::machine::channel::{Channel, Work, WorkKind};
use gpu_sim::machine::process::Slot;
use gpu_sim::machine::published::ListedProcess;
use gpu_sim::machine::{Fault, MachineFault};
use gpu_sim::scenario::PciePath;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::{Installation, install, serve};

/// An agent that is quick, so that a test ends soon. The deadline only matters to the tests of hanging calls.
struct Agent {
    handle: Handle,
    _stop: DropGuard,
}

impl Agent {
    fn start(installation: &Installation) -> Self {
        let config = DeviceConfig {
            reading_interval: Duration::from_millis(20),
            process_interval: Duration::from_millis(10),
            call_deadline: Duration::from_secs(1),
            retry_initial: Duration::from_millis(10),
            retry_max: Duration::from_millis(100),
            ..DeviceConfig::default()
        };
        let backend = Arc::new(NvmlBackend::new(Some(installation.library.clone().into_os_string())));
        let stop = CancellationToken::new();
        let (handle, worker) = spawn(backend, config, stop.clone());
        tokio::spawn(worker);
        Self { handle, _stop: stop.drop_guard() }
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&DeviceSnapshot) -> bool) -> Arc<DeviceSnapshot> {
        let wait = async {
            loop {
                let snapshot = self.handle.changed().await.expect("the worker runs");
                if holds(&snapshot) {
                    return snapshot;
                }
            }
        };
        let outcome = timeout(Duration::from_secs(60), wait).await;
        outcome.unwrap_or_else(|_elapsed| panic!("never: {what}; last seen {:#?}", self.handle.snapshot()))
    }

    async fn until_read(&mut self, gpus: usize) -> Arc<DeviceSnapshot> {
        self.until("all GPUs are read", |snapshot| {
            snapshot.gpus.len() == gpus
                && snapshot.gpus.iter().all(|gpu| {
                    gpu.condition == GpuCondition::Ok && gpu.reading.is_some() && gpu.processes.is_some()
                })
        })
        .await
    }
}

fn used_bytes(gpu: &GpuState) -> Option<u64> {
    gpu.reading.as_ref().and_then(|(_, reading)| reading.memory.used_bytes)
}

#[tokio::test]
async fn inventory_and_readings_are_those_of_the_scenario() {
    for preset in gpu_sim::scenario::PRESETS {
        let installation = install(preset.name);
        let scenario = installation.scenario();
        let mut agent = Agent::start(&installation);
        let snapshot = agent.until_read(scenario.gpus.len()).await;
        assert_eq!(snapshot.source, SourceState::Ok);
        let platform = snapshot.platform.as_ref().unwrap();
        assert_eq!(platform.driver_version.as_deref(), Some(scenario.driver_version.as_str()));
        assert_eq!(platform.cuda_version, Some((13, 0)));
        assert_eq!(snapshot.counters.errors.len(), 0, "{:?}", snapshot.counters);
        for (state, expected) in snapshot.gpus.iter().zip(&scenario.gpus) {
            let (gpu, model) = (&state.gpu, &expected.model);
            assert_eq!(gpu.uuid.as_str(), expected.uuid);
            assert_eq!(gpu.uuid.to_bytes(), Some(expected.uuid_bytes()));
            assert_eq!(gpu.name.as_deref(), Some(model.name.as_str()));
            assert_eq!(gpu.minor_number, Some(expected.minor));
            assert_eq!(gpu.pci_bus_id, Some(expected.pci.bus_id()));
            assert_eq!(gpu.memory_total_bytes, Some(model.memory.total_bytes));
            assert_eq!(gpu.compute_capability, Some(model.compute_capability));
            assert_eq!(gpu.numa_node, Some(expected.numa_node));
            assert_eq!(gpu.serial.as_deref(), Some(expected.serial.as_str()));
            assert_eq!(gpu.mig_enabled, model.mig_capable.then_some(false));
            let reading = &state.reading.as_ref().unwrap().1;
            assert_eq!(reading.utilization.gpu, Some(0.0));
            assert_eq!(reading.utilization.encoder, (model.encoder_count > 0).then_some(0.0));
            assert_eq!(reading.memory.used_bytes, Some(0));
            assert_eq!(reading.memory.reserved_bytes, Some(model.memory.reserved_bytes));
            assert_eq!(reading.power.usage_watts, Some(f64::from(model.power.idle_mw) / 1000.0));
            assert_eq!(reading.temperature.gpu_celsius, Some(model.temperature.idle_celsius));
            assert_eq!(reading.clocks.sm_hertz, Some(u64::from(model.clocks.idle_sm_mhz) * 1_000_000));
            assert_eq!(reading.fan_ratios.len(), model.fan_count as usize);
            assert_eq!(reading.pcie.width, Some(model.pcie.width));
            assert_eq!(reading.ecc.uncorrected, model.ecc.then_some(0));
            assert_eq!(reading.rows.failed, (model.architecture >= 7).then_some(false));
            assert_eq!(reading.links.len(), expected.nvlink_peers.len());
            assert_eq!(state.fresh_processes(Instant::now(), Duration::MAX), Some(&[][..]));
        }
    }
}

#[tokio::test]
async fn ways_between_gpus_are_those_of_the_scenario() {
    for preset in gpu_sim::scenario::PRESETS {
        let installation = install(preset.name);
        let scenario = installation.scenario();
        let mut agent = Agent::start(&installation);
        let snapshot = agent.until_read(scenario.gpus.len()).await;
        assert_eq!(snapshot.topology.len(), scenario.gpus.len() * (scenario.gpus.len() - 1));
        for link in &*snapshot.topology {
            let index = |uuid: &str| scenario.gpu_index(uuid).unwrap();
            let (from, to) = (index(link.from.as_str()), index(link.to.as_str()));
            let nvlinks = scenario.nvlinks_between(from, to);
            assert_eq!(link.nvlinks, Some(u32::try_from(nvlinks).unwrap()), "{from} to {to}");
            assert_eq!(link.through_switch, preset.name == "8xH100-nvswitch");
            if nvlinks > 0 {
                assert_eq!(link.nvlink_bytes_per_second, Some(nvlinks as u64 * 25_000_000_000));
            }
            assert_eq!(
                link.pcie,
                Some(match scenario.pcie_path(from, to).unwrap() {
                    PciePath::Switch => PcieAncestor::SingleSwitch,
                    PciePath::Node => PcieAncestor::NumaNode,
                    PciePath::System => PcieAncestor::System,
                })
            );
        }
    }
}

#[tokio::test]
async fn pipes_are_known_on_hopper_and_absent_elsewhere() {
    let installation = install("8xH100-nvswitch");
    let mut agent = Agent::start(&installation);
    let snapshot = agent
        .until("two GPM samples", |snapshot| {
            snapshot
                .gpus
                .first()
                .and_then(|gpu| gpu.reading.as_ref())
                .is_some_and(|(_, r)| r.pipes.tensor.is_some())
        })
        .await;
    let reading = &snapshot.gpus[0].reading.as_ref().unwrap().1;
    assert_eq!(reading.pipes.memory_bandwidth, Some(0.0));
    assert_eq!(reading.pcie.transmit_bytes_per_second, Some(0.0));
    assert_eq!(reading.links[17].receive_bytes_per_second, Some(0.0));
    assert_eq!(reading.links[17].received_bytes, Some(0));

    let installation = install("2xA10");
    let mut agent = Agent::start(&installation);
    agent.until_read(2).await;
    let counted = agent.handle.snapshot().gpus[0].reading.as_ref().unwrap().0;
    let later = agent
        .until("a further reading", |snapshot| {
            snapshot.gpus[0].reading.as_ref().is_some_and(|(at, _)| *at > counted)
        })
        .await;
    let reading = &later.gpus[0].reading.as_ref().unwrap().1;
    assert_eq!(reading.pipes, gpu_agent::device::reading::Pipes::default());
    assert_eq!(reading.pcie.transmit_bytes_per_second, Some(0.0), "the driver's own measurement");
    assert_eq!(reading.temperature.memory_celsius, None);
}

#[tokio::test]
async fn processes_and_counters_arrive() {
    let installation = install("2xA10");
    let mut agent = Agent::start(&installation);
    let state = installation.machine.gpu(1).unwrap();
    let kind = gpu_sim::machine::published::ProcessKind::Compute;
    state.process_list.publish(&[ListedProcess { pid: 4242, kind, used_bytes: 300 << 20 }]);
    state.energy_uj.store(7_000_000, Relaxed);
    installation.machine.set_fault(1, Fault::EccCorrected, 5);
    let snapshot = agent
        .until("the process and the counters", |snapshot| {
            snapshot.gpus.get(1).is_some_and(|gpu| {
                gpu.processes.as_ref().is_some_and(|(_, list)| !list.is_empty())
                    && gpu.reading.as_ref().is_some_and(|(_, reading)| reading.ecc.corrected == Some(5))
            })
        })
        .await;
    let process = &snapshot.gpus[1].processes.as_ref().unwrap().1[0];
    assert_eq!(
        (process.pid, process.kind, process.used_memory_bytes),
        (4242, ProcessKind::Compute, Some(300 << 20))
    );
    assert_eq!(process.gpu, snapshot.gpus[1].gpu.uuid);
    assert_eq!(snapshot.gpus[1].reading.as_ref().unwrap().1.power.energy_joules, Some(7.0));
    assert!(snapshot.gpus[0].processes.as_ref().unwrap().1.is_empty());
}

#[tokio::test]
async fn a_process_that_works_is_seen_at_work() {
    let installation = install("2xA10");
    let _daemon = serve(&installation);
    let slot = Slot::claim(&installation.machine).unwrap();
    slot.gpu(1).contexts.store(1, Relaxed);
    slot.claim_memory(1, 300 << 20).unwrap();
    let channel = Channel::claim(&slot, 1, 0).unwrap();
    let one_second = Work {
        kind: WorkKind::Kernel,
        duration_ns: 1_000_000_000,
        bytes: 0,
        argument: 0,
        count: 0,
        submitted_ns: 0,
    };
    for _ in 0..60 {
        channel.submit(one_second).unwrap();
    }
    let mut agent = Agent::start(&installation);
    let pid = std::process::id();
    let snapshot = agent
        .until("full use, and a sample that says whose", |snapshot| {
            snapshot.gpus.get(1).is_some_and(|gpu| {
                gpu.reading.as_ref().is_some_and(|(_, reading)| reading.utilization.gpu == Some(1.0))
                    && gpu.utilization.iter().any(|sample| sample.pid == pid && sample.sm_ratio > 0.99)
            })
        })
        .await;
    let gpu = &snapshot.gpus[1];
    let processes = gpu.fresh_processes(Instant::now(), Duration::MAX).unwrap();
    assert_eq!(processes.len(), 1);
    assert_eq!((processes[0].pid, processes[0].used_memory_bytes), (pid, Some(300 << 20)));
    assert_eq!(used_bytes(gpu), Some(300 << 20));
    let reading = &gpu.reading.as_ref().unwrap().1;
    assert_eq!(reading.performance_state, Some(0));
    assert_eq!(reading.throttle_reasons.as_deref(), Some(&[][..]));
    assert!(snapshot.gpus[0].utilization.is_empty());
    assert_eq!(snapshot.gpus[0].reading.as_ref().unwrap().1.performance_state, Some(8));
}

#[tokio::test]
async fn traffic_on_links_is_counted_by_link_and_direction() {
    let installation = install("8xV100-hybrid-cube-mesh");
    installation.machine.gpu(3).unwrap().nvlink_tx_bytes[4].store(8192, Relaxed);
    installation.machine.gpu(3).unwrap().nvlink_rx_bytes[5].store(4096, Relaxed);
    installation.machine.set_fault(3, Fault::NvlinkReplays, 9);
    installation.machine.set_fault(3, Fault::NvlinkDown, 0b1);
    let mut agent = Agent::start(&installation);
    let snapshot = agent.until_read(8).await;
    let links = &snapshot.gpus[3].reading.as_ref().unwrap().1.links;
    assert_eq!(links.iter().map(|link| link.link).collect::<Vec<_>>(), [1, 2, 3, 4, 5], "link 0 is down");
    let bytes: Vec<_> = links.iter().map(|link| (link.transmitted_bytes, link.received_bytes)).collect();
    let zero = (Some(0), Some(0));
    assert_eq!(bytes, [zero, zero, zero, (Some(8192), Some(0)), (Some(0), Some(4096))]);
    assert!(links.iter().all(|link| link.replay_errors == Some(9)));
}

#[tokio::test]
async fn one_of_eight_gpus_is_lost_and_comes_back() {
    let installation = install("8xH100-nvswitch");
    let mut agent = Agent::start(&installation);
    agent.until_read(8).await;
    installation.machine.set_fault(5, Fault::NvmlReturn, 15);
    let lost = agent.until("lost", |snapshot| snapshot.gpus[5].condition == GpuCondition::Lost).await;
    let seen = lost.gpus[0].reading.as_ref().unwrap().0;
    let snapshot = agent
        .until("the others go on", |snapshot| {
            snapshot.gpus[0].reading.as_ref().is_some_and(|(at, _)| *at > seen)
                && snapshot.counters.reinitialisations > 0
        })
        .await;
    assert_eq!(snapshot.gpus[5].condition, GpuCondition::Lost);
    assert!(snapshot.counters.errors[&ErrorClass::DeviceLost] > 0);
    installation.machine.set_fault(5, Fault::NvmlReturn, 0);
    agent.until_read(8).await;
}

#[tokio::test]
async fn a_gpu_that_is_lost_from_the_start_changes_no_way_between_the_others() {
    let installation = install("8xV100-hybrid-cube-mesh");
    installation.machine.set_fault(5, Fault::NvmlReturn, 15);
    let mut agent = Agent::start(&installation);
    let snapshot = agent.until_read(7).await;
    assert_eq!(snapshot.unidentified.len(), 1);
    assert_eq!(snapshot.topology.len(), 7 * 6);
    let scenario = installation.scenario();
    for link in &*snapshot.topology {
        let index = |uuid: &str| scenario.gpu_index(uuid).unwrap();
        let nvlinks = scenario.nvlinks_between(index(link.from.as_str()), index(link.to.as_str()));
        assert_eq!((link.nvlinks, link.through_switch), (Some(u32::try_from(nvlinks).unwrap()), false));
    }
}

#[tokio::test]
async fn a_call_that_hangs_stops_one_gpu_only() {
    let installation = install("2xA10");
    let mut agent = Agent::start(&installation);
    agent.until_read(2).await;
    installation.machine.set_fault(0, Fault::NvmlHang, 1);
    let hung = agent.until("hung", |snapshot| snapshot.gpus[0].condition == GpuCondition::Hung).await;
    assert_eq!((hung.counters.timeouts, hung.counters.hung_threads), (1, 1));
    let seen = hung.gpus[1].reading.as_ref().unwrap().0;
    agent
        .until("the other goes on", |snapshot| {
            snapshot.gpus[1].reading.as_ref().is_some_and(|(at, _)| *at > seen)
        })
        .await;
    installation.machine.set_fault(0, Fault::NvmlHang, 0);
    let snapshot = agent.until_read(2).await;
    assert_eq!((snapshot.counters.late_returns, snapshot.counters.hung_threads), (1, 0));
}

#[tokio::test]
async fn the_driver_is_upgraded_under_the_agent() {
    let installation = install("1xT4");
    let mut agent = Agent::start(&installation);
    agent.until_read(1).await;
    installation.machine.set_machine_fault(MachineFault::NvmlReturn, 18);
    let mismatch = GpuCondition::Unavailable(ErrorClass::VersionMismatch);
    let snapshot = agent.until("unavailable", |snapshot| snapshot.gpus[0].condition == mismatch).await;
    assert_eq!(snapshot.gpus[0].fresh_reading(Instant::now(), Duration::MAX), None);
    installation.machine.set_machine_fault(MachineFault::NvmlReturn, 0);
    let snapshot = agent.until_read(1).await;
    assert!(snapshot.counters.reinitialisations >= 1);
}

#[tokio::test]
async fn the_library_and_then_the_driver_appear_after_the_agent() {
    let installation = install("1xT4");
    let machine_file = installation.directory.path().join("machine");
    let (away, library_away) =
        (installation.directory.path().join("away"), installation.directory.path().join("library-away"));
    std::fs::rename(&machine_file, &away).unwrap();
    std::fs::rename(&installation.library, &library_away).unwrap();
    let mut agent = Agent::start(&installation);
    let failed_with = |class| move |snapshot: &DeviceSnapshot| matches!(&snapshot.source, SourceState::Unavailable { error, .. } if error.class == class);
    agent.until("no library", failed_with(ErrorClass::LibraryAbsent)).await;
    std::fs::rename(&library_away, &installation.library).unwrap();
    agent.until("no driver", failed_with(ErrorClass::DriverNotLoaded)).await;
    std::fs::rename(&away, &machine_file).unwrap();
    agent.until_read(1).await;
}

#[tokio::test]
async fn what_is_not_available_is_absent_and_never_a_number() {
    let installation = install("1xT4");
    let kind = gpu_sim::machine::published::ProcessKind::Compute;
    let state = installation.machine.gpu(0).unwrap();
    state.process_list.publish(&[ListedProcess { pid: 4242, kind, used_bytes: 1 << 20 }]);
    installation.machine.set_fault(0, Fault::NotAvailable, 1);
    let mut agent = Agent::start(&installation);
    let snapshot = agent.until_read(1).await;
    let gpu = &snapshot.gpus[0];
    assert_eq!(used_bytes(gpu), None);
    assert_eq!(gpu.gpu.memory_total_bytes, None);
    assert_eq!(gpu.reading.as_ref().unwrap().1.power.usage_watts, None);
    assert_eq!(gpu.processes.as_ref().unwrap().1[0].used_memory_bytes, None);
}

#[tokio::test]
async fn garbage_samples_are_dropped_and_counted() {
    let installation = install("1xT4");
    installation.machine.set_fault(0, Fault::GarbageSamples, 1);
    let mut agent = Agent::start(&installation);
    let snapshot = agent
        .until("all kinds of garbage", |snapshot| {
            let dropped = snapshot.counters.dropped_samples;
            dropped.out_of_range > 0 && dropped.without_process > 0 && dropped.stale > 0
        })
        .await;
    assert_eq!(*snapshot.gpus[0].utilization, []);
}

#[tokio::test]
async fn xids_are_counted_by_gpu_and_code() {
    let installation = install("2xA10");
    let mut agent = Agent::start(&installation);
    agent.until_read(2).await;
    for xid in [79, 48, 79] {
        installation.machine.report_xid(1, xid);
    }
    let snapshot = agent.until("three events", |snapshot| snapshot.gpus[1].xids.len() == 2).await;
    let counts: Vec<(u64, u64)> =
        snapshot.gpus[1].xids.iter().map(|(xid, count)| (*xid, count.count)).collect();
    assert_eq!(counts, [(48, 1), (79, 2)]);
    assert!(snapshot.gpus[0].xids.is_empty());
}
