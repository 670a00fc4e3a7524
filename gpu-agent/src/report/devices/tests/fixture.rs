//! Device snapshots made by hand. No two values are alike, so that a value under a wrong name is seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::device::reading::{
    Clocks, Ecc, Link, Memory, Pcie, Pipes, Power, Reading, Rows, Temperature, ThrottleReason, ThrottledTime,
    Utilization,
};
use crate::device::snapshot::{DeviceCounters, XidCount};
use crate::device::{
    DeviceError, DeviceSnapshot, ErrorClass, Gpu, GpuCondition, GpuState, GpuUuid, PcieAncestor, PeerLink,
    Platform, SourceState,
};

pub(super) const MAX_AGE: Duration = Duration::from_secs(5);

pub(super) fn uuid(number: u8) -> GpuUuid {
    GpuUuid::from_bytes([number; 16])
}

/// A GPU of which nothing is known but that it exists and answers.
pub(super) fn bare(number: u8, now: Instant) -> GpuState {
    GpuState {
        gpu: Arc::new(Gpu::new(uuid(number), u32::from(number))),
        condition: GpuCondition::Ok,
        last_seen: now,
        reading: None,
        processes: None,
        utilization: Arc::new([]),
        xids: BTreeMap::new(),
    }
}

/// A GPU of which everything is known, read at `now`.
pub(super) fn complete(number: u8, now: Instant) -> GpuState {
    GpuState {
        gpu: Arc::new(gpu(number)),
        reading: Some((now, Arc::new(reading()))),
        xids: BTreeMap::from([
            (79, XidCount { count: 1, last_seen: now }),
            (13, XidCount { count: 4, last_seen: now }),
        ]),
        ..bare(number, now)
    }
}

pub(super) fn snapshot(now: Instant, gpus: Vec<GpuState>) -> DeviceSnapshot {
    DeviceSnapshot { source: SourceState::Ok, gpus, ..DeviceSnapshot::empty(now) }
}

/// Two GPUs, of which the first is known completely, with a way between them and everything that goes wrong beside.
pub(super) fn everything(now: Instant) -> DeviceSnapshot {
    let error = |class| DeviceError::bare("nvmlDeviceGetUUID", class);
    DeviceSnapshot {
        platform: Some(Arc::new(Platform {
            driver_version: Some("570.86.15".to_owned()),
            library_version: Some("12.570.86.15".to_owned()),
            cuda_version: Some((12, 8)),
            gpu_count: 5,
        })),
        unidentified: vec![
            (2, error(ErrorClass::DeviceLost)),
            (3, error(ErrorClass::Hung)),
            (4, error(ErrorClass::DeviceLost)),
        ],
        topology: Arc::new([nvlink(0, 1), pcie(1, 0)]),
        counters: DeviceCounters {
            timeouts: 3,
            errors: BTreeMap::from([(ErrorClass::Denied, 7), (ErrorClass::Transient, 2)]),
            ..DeviceCounters::default()
        },
        ..snapshot(now, vec![complete(0, now), bare(1, now)])
    }
}

pub(super) fn nvlink(from: u8, to: u8) -> PeerLink {
    PeerLink {
        from: uuid(from),
        to: uuid(to),
        pcie: Some(PcieAncestor::NumaNode),
        nvlinks: Some(18),
        through_switch: true,
        nvlink_bytes_per_second: Some(450_000_000_000),
        peer_read: Some(true),
    }
}

pub(super) fn pcie(from: u8, to: u8) -> PeerLink {
    PeerLink {
        pcie: Some(PcieAncestor::SingleSwitch),
        nvlinks: Some(0),
        through_switch: false,
        nvlink_bytes_per_second: Some(0),
        peer_read: Some(false),
        ..nvlink(from, to)
    }
}

fn gpu(number: u8) -> Gpu {
    Gpu {
        minor_number: Some(6),
        name: Some("NVIDIA H100 80GB HBM3".to_owned()),
        pci_bus_id: Some("00000000:3B:00.0".to_owned()),
        memory_total_bytes: Some(85_520_809_984),
        compute_capability: Some((9, 0)),
        architecture: Some("Hopper".to_owned()),
        numa_node: Some(1),
        cpu_affinity: Some(vec![0, 1]),
        serial: Some("1654922002041".to_owned()),
        vbios_version: Some("96.00.74.00.1A".to_owned()),
        pcie_generation_max: Some(5),
        pcie_width_max: Some(16),
        sm_clock_max_hertz: Some(1_980_000_000),
        mig_enabled: Some(false),
        parent: Some(uuid(0xee)),
        ..Gpu::new(uuid(number), u32::from(number))
    }
}

pub(super) fn reading() -> Reading {
    Reading {
        utilization: Utilization {
            gpu: Some(0.93),
            memory: Some(0.41),
            encoder: Some(0.02),
            decoder: Some(0.03),
        },
        memory: Memory {
            total_bytes: Some(1 << 36),
            used_bytes: Some(1 << 34),
            free_bytes: Some((1 << 36) - (1 << 34) - (1 << 29)),
            reserved_bytes: Some(1 << 29),
            bar1_used_bytes: Some(1 << 20),
            bar1_total_bytes: Some(1 << 37),
        },
        power: Power { usage_watts: Some(612.5), limit_watts: Some(700.0), energy_joules: Some(123_456.75) },
        temperature: Temperature {
            gpu_celsius: Some(61),
            memory_celsius: Some(72),
            slowdown_celsius: Some(87),
            shutdown_celsius: Some(92),
        },
        fan_ratios: vec![0.33, 0.34],
        throttle_reasons: Some(vec![ThrottleReason::PowerCap]),
        performance_state: Some(0),
        errors: BTreeMap::new(),
        ..transfers()
    }
}

fn transfers() -> Reading {
    Reading {
        clocks: Clocks {
            graphics_hertz: Some(1_755_000_000),
            sm_hertz: Some(1_740_000_000),
            memory_hertz: Some(2_619_000_000),
            video_hertz: Some(1_545_000_000),
        },
        pcie: Pcie {
            generation: Some(4),
            width: Some(8),
            transmit_bytes_per_second: Some(1_500.0),
            receive_bytes_per_second: Some(2_500.0),
            transmitted_bytes: Some(15_000),
            received_bytes: Some(25_000),
            replays: Some(9),
        },
        links: vec![Link {
            link: 17,
            transmitted_bytes: Some(1_017),
            received_bytes: Some(2_017),
            transmit_bytes_per_second: Some(17.5),
            receive_bytes_per_second: Some(27.5),
            replay_errors: Some(31),
            recovery_errors: Some(32),
            crc_flit_errors: Some(33),
            crc_data_errors: Some(34),
        }],
        ecc: Ecc {
            corrected: Some(11),
            uncorrected: Some(12),
            corrected_lifetime: Some(111),
            uncorrected_lifetime: Some(112),
        },
        rows: Rows {
            remapped_corrected: Some(21),
            remapped_uncorrected: Some(22),
            pending: Some(true),
            failed: Some(false),
        },
        pipes: Pipes {
            graphics: Some(0.91),
            sm_active: Some(0.81),
            sm_occupancy: Some(0.51),
            integer: Some(0.11),
            tensor: Some(0.61),
            fp16: Some(0.12),
            fp32: Some(0.13),
            fp64: Some(0.14),
            memory_bandwidth: Some(0.71),
        },
        throttled_time: ThrottledTime {
            power_ns: Some(1_500_000_000),
            thermal_ns: Some(2_500_000_000),
            board_ns: Some(3_500_000_000),
            reliability_ns: Some(4_500_000_000),
        },
        ..Reading::default()
    }
}
