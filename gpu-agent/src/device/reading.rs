//! What a GPU says about itself at one instant. Base units; a value that it does not have is `None`.

use std::collections::BTreeMap;

use super::error::ErrorClass;

/// One sample of one GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// Share of time in which a unit was busy.
    pub utilization: Utilization,
    /// Device memory.
    pub memory: Memory,
    /// Power and energy.
    pub power: Power,
    /// Temperatures.
    pub temperature: Temperature,
    /// Clock rates.
    pub clocks: Clocks,
    /// Each fan's speed as a ratio of its maximum; empty where the card has no fan of its own.
    pub fan_ratios: Vec<f64>,
    /// The PCIe link.
    pub pcie: Pcie,
    /// Each active NVLink.
    pub links: Vec<Link>,
    /// ECC errors.
    pub ecc: Ecc,
    /// Memory rows taken out of use.
    pub rows: Rows,
    /// Use of single pipes and of memory bandwidth.
    pub pipes: Pipes,
    /// Why the clocks are held back; an empty list is "they are not".
    pub throttle_reasons: Option<Vec<ThrottleReason>>,
    /// For how long they were.
    pub throttled_time: ThrottledTime,
    /// 0 (fastest) to 15.
    pub performance_state: Option<u8>,
    /// Values that should have been there and were not, by cause. Values that the GPU does not have are not counted.
    pub errors: BTreeMap<ErrorClass, u32>,
}

/// Ratios from 0 to 1, each over a window that the driver chooses (1/6 s to 1 s).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Utilization {
    /// A kernel was running. Says nothing about how much of the GPU it used.
    pub gpu: Option<f64>,
    /// Device memory was being read or written: not how full it is.
    pub memory: Option<f64>,
    /// Video encoder.
    pub encoder: Option<f64>,
    /// Video decoder.
    pub decoder: Option<f64>,
}

/// Bytes of device memory and of the window through which the CPU reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// All of it.
    pub total_bytes: Option<u64>,
    /// Held by processes and contexts.
    pub used_bytes: Option<u64>,
    /// Not held.
    pub free_bytes: Option<u64>,
    /// Kept by driver and firmware, neither used nor free.
    pub reserved_bytes: Option<u64>,
    /// BAR1 window in use.
    pub bar1_used_bytes: Option<u64>,
    /// BAR1 window.
    pub bar1_total_bytes: Option<u64>,
}

/// Power and energy.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Power {
    /// Draw of the board, averaged by the driver (1 s from Ampere on).
    pub usage_watts: Option<f64>,
    /// The limit in force.
    pub limit_watts: Option<f64>,
    /// Counter since the driver was loaded.
    pub energy_joules: Option<f64>,
}

/// Degrees Celsius.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Temperature {
    /// The GPU.
    pub gpu_celsius: Option<u32>,
    /// Its memory.
    pub memory_celsius: Option<u32>,
    /// Where the clocks are lowered.
    pub slowdown_celsius: Option<u32>,
    /// Where the card switches off.
    pub shutdown_celsius: Option<u32>,
}

/// Clock rates in hertz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clocks {
    /// Graphics domain.
    pub graphics_hertz: Option<u64>,
    /// Streaming multiprocessors.
    pub sm_hertz: Option<u64>,
    /// Memory.
    pub memory_hertz: Option<u64>,
    /// Video encoder and decoder.
    pub video_hertz: Option<u64>,
}

/// The PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pcie {
    /// Generation at this instant; falls when idle.
    pub generation: Option<u32>,
    /// Lanes at this instant.
    pub width: Option<u32>,
    /// From the GPU, over a window of 20 ms or between two GPM samples.
    pub transmit_bytes_per_second: Option<f64>,
    /// To the GPU.
    pub receive_bytes_per_second: Option<f64>,
    /// Counter, where the driver has it.
    pub transmitted_bytes: Option<u64>,
    /// Counter, where the driver has it.
    pub received_bytes: Option<u64>,
    /// Counter of packets sent again.
    pub replays: Option<u64>,
}

/// One active NVLink. All but the rates are counters since the driver was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Link {
    /// Position on this GPU.
    pub link: u32,
    /// Payload sent.
    pub transmitted_bytes: Option<u64>,
    /// Payload received.
    pub received_bytes: Option<u64>,
    /// Between two GPM samples.
    pub transmit_bytes_per_second: Option<f64>,
    /// Between two GPM samples.
    pub receive_bytes_per_second: Option<f64>,
    /// Packets sent again.
    pub replay_errors: Option<u64>,
    /// Times that the link had to be trained again.
    pub recovery_errors: Option<u64>,
    /// Flits with a wrong checksum.
    pub crc_flit_errors: Option<u64>,
    /// Data with a wrong checksum.
    pub crc_data_errors: Option<u64>,
}

/// ECC errors of all memories together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ecc {
    /// Corrected, since the driver was loaded.
    pub corrected: Option<u64>,
    /// Not corrected, since the driver was loaded.
    pub uncorrected: Option<u64>,
    /// Corrected, over the card's life.
    pub corrected_lifetime: Option<u64>,
    /// Not corrected, over the card's life.
    pub uncorrected_lifetime: Option<u64>,
}

/// Memory rows taken out of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rows {
    /// After corrected errors.
    pub remapped_corrected: Option<u64>,
    /// After uncorrected errors.
    pub remapped_uncorrected: Option<u64>,
    /// A reset is needed before a row is taken out.
    pub pending: Option<bool>,
    /// No spare row was left: the card should be replaced.
    pub failed: Option<bool>,
}

/// Ratios from 0 to 1 between two samples, from GPM (NVIDIA Hopper and later); all absent elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pipes {
    /// The graphics or compute engine was busy.
    pub graphics: Option<f64>,
    /// Share of SMs with at least one warp.
    pub sm_active: Option<f64>,
    /// Share of warp slots in use.
    pub sm_occupancy: Option<f64>,
    /// Integer pipe.
    pub integer: Option<f64>,
    /// Any tensor pipe.
    pub tensor: Option<f64>,
    /// FP16 pipe.
    pub fp16: Option<f64>,
    /// FP32 pipe.
    pub fp32: Option<f64>,
    /// FP64 pipe.
    pub fp64: Option<f64>,
    /// Share of the memory bandwidth, reads and writes together.
    pub memory_bandwidth: Option<f64>,
}

/// A reason for lower clocks, as NVML's `nvmlClocksEventReasons` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThrottleReason {
    /// Nothing runs.
    Idle,
    /// Set by an administrator.
    ApplicationClocks,
    /// The power limit.
    PowerCap,
    /// The hardware protects itself (power or temperature).
    HardwareSlowdown,
    /// Held to the clocks of a group of GPUs.
    SyncBoost,
    /// The driver protects the card from heat.
    SoftwareThermal,
    /// The hardware protects the card from heat.
    HardwareThermal,
    /// The power supply asks for less.
    HardwarePowerBrake,
    /// A display limits the clocks.
    Display,
}

impl ThrottleReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Idle,
        Self::ApplicationClocks,
        Self::PowerCap,
        Self::HardwareSlowdown,
        Self::SyncBoost,
        Self::SoftwareThermal,
        Self::HardwareThermal,
        Self::HardwarePowerBrake,
        Self::Display,
    ];

    /// The value of an attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::ApplicationClocks => "application_clocks",
            Self::PowerCap => "power_cap",
            Self::HardwareSlowdown => "hardware_slowdown",
            Self::SyncBoost => "sync_boost",
            Self::SoftwareThermal => "software_thermal",
            Self::HardwareThermal => "hardware_thermal",
            Self::HardwarePowerBrake => "hardware_power_brake",
            Self::Display => "display",
        }
    }
}

/// Nanoseconds for which the clocks were held back, counters since the driver was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThrottledTime {
    /// By the power limit.
    pub power_ns: Option<u64>,
    /// By temperature.
    pub thermal_ns: Option<u64>,
    /// By the board's own limits.
    pub board_ns: Option<u64>,
    /// By the reliability limit of the voltage.
    pub reliability_ns: Option<u64>,
}
