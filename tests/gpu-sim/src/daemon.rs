//! The daemon that is the GPUs: it takes in queued work, lets time pass, and publishes what the driver would know.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use crate::machine::{
    Machine, MachineError, clock, layout::SleepDepth, published::PUBLISH_INTERVAL_NS, samples,
};

mod device;
mod physics;
mod reaper;
mod sampler;

use device::Device;
use reaper::Reaper;
use sampler::Sampler;

/// How often the daemon looks at busy GPUs for which nobody waits: often enough for queries, rarely enough to be cheap.
const TICK_NS: u64 = 4_000_000;

/// How often it looks whether processes have ended.
const REAP_INTERVAL_NS: u64 = 20_000_000;

/// The longest sleep.
const IDLE_NS: u64 = REAP_INTERVAL_NS;

/// Why a machine could not be served.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error("another daemon already serves the machine in `{directory}`; stop it first")]
    AlreadyServed { directory: String },
    #[error("cannot use the machine")]
    Machine(#[from] MachineError),
}

/// The daemon of one machine.
#[derive(Debug)]
pub struct Daemon {
    machine: Arc<Machine>,
    devices: Vec<Device>,
    reaper: Reaper,
    sampler: Sampler,
    channels_epoch: u32,
    processes_epoch: u32,
    next_reap_ns: u64,
    next_publish_ns: u64,
    next_sample_ns: u64,
}

impl Daemon {
    /// Takes charge of a machine. Programs can use it from here on.
    pub fn start(machine: Arc<Machine>) -> Result<Self, DaemonError> {
        if !machine.lock()?.acquire_daemon()? {
            return Err(DaemonError::AlreadyServed { directory: machine.directory().display().to_string() });
        }
        let now_ns = clock::monotonic_ns();
        let count = machine.scenario().gpus.len();
        let devices = (0..count).map(|index| Device::new(index, now_ns)).collect();
        let header = &machine.shared().header;
        header.served.store(1, SeqCst);
        Ok(Self {
            devices,
            reaper: Reaper::default(),
            sampler: Sampler::new(&machine, now_ns),
            // One less than now: the first turn looks at everything.
            channels_epoch: header.channels_epoch.load(SeqCst).wrapping_sub(1),
            processes_epoch: header.processes_epoch.load(SeqCst).wrapping_sub(1),
            next_reap_ns: now_ns,
            next_publish_ns: now_ns,
            next_sample_ns: now_ns + samples::SAMPLE_INTERVAL_NS,
            machine,
        })
    }

    /// Runs the GPUs until `stop` is set.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), DaemonError> {
        while !stop.load(Relaxed) {
            self.turn()?;
            self.sleep();
        }
        Ok(())
    }

    /// One turn: brings everything up to the present.
    fn turn(&mut self) -> Result<(), DaemonError> {
        let machine = Arc::clone(&self.machine);
        let header = &machine.shared().header;
        let now_ns = clock::monotonic_ns();
        let processes_epoch = header.processes_epoch.load(SeqCst);
        if processes_epoch != self.processes_epoch || now_ns >= self.next_reap_ns {
            self.processes_epoch = processes_epoch;
            self.next_reap_ns = now_ns + REAP_INTERVAL_NS;
            self.reaper.look(&machine)?;
        }
        let channels_epoch = header.channels_epoch.load(SeqCst);
        if channels_epoch != self.channels_epoch {
            self.channels_epoch = channels_epoch;
            for device in &mut self.devices {
                device.adopt_channels(&machine);
            }
        }
        for device in &mut self.devices {
            device.advance(&machine, now_ns);
        }
        if now_ns >= self.next_publish_ns {
            self.next_publish_ns = now_ns + PUBLISH_INTERVAL_NS;
            sampler::publish_processes(&machine);
        }
        if now_ns >= self.next_sample_ns {
            self.next_sample_ns += samples::SAMPLE_INTERVAL_NS;
            self.sampler.sample(&machine, now_ns);
        }
        Ok(())
    }

    /// Sleeps until the next thing that somebody waits for, unless something arrives before.
    fn sleep(&self) {
        let header = &self.machine.shared().header;
        let doorbell = header.doorbell.load(SeqCst);
        let has_work = self.devices.iter().any(Device::has_work);
        let depth = if has_work { SleepDepth::Ticking } else { SleepDepth::Idle };
        header.armed.store(depth as u32, SeqCst);
        // A caller stores its work or its wish before it looks whether the daemon sleeps, so one of both sees the other.
        let arrived = header.channels_epoch.load(SeqCst) != self.channels_epoch
            || header.processes_epoch.load(SeqCst) != self.processes_epoch
            || (!has_work && self.devices.iter().any(|device| device.has_arrivals(&self.machine)));
        if !arrived {
            let now_ns = clock::monotonic_ns();
            let limit_ns = now_ns + if has_work { TICK_NS } else { IDLE_NS };
            let wake_ns = self
                .devices
                .iter()
                .filter_map(|device| device.next_wake_ns(&self.machine, now_ns))
                .chain([self.next_reap_ns, self.next_publish_ns, self.next_sample_ns])
                .fold(limit_ns, u64::min);
            if wake_ns > now_ns {
                crate::machine::sleep_on(&header.doorbell, doorbell, Duration::from_nanos(wake_ns - now_ns));
            }
        }
        header.armed.store(0, SeqCst);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.machine.shared().header.served.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests;
