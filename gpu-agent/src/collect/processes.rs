//! What `/proc` says about a process that makes CUDA calls, read while it lives.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use crate::{
    device::DeviceSnapshot,
    identity::{
        self,
        process::{GpuEnvironment, gpu_environment, is_same_start, nanoseconds, start_time_ticks},
    },
    tenant::cgroup_path::innermost,
};

/// An environment is at most a quarter of the stack limit; what is beyond this is not read.
const MAX_ENVIRONMENT_BYTES: u64 = 1 << 20;

/// What was read about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    gpu_environment: GpuEnvironment,
    in_container: bool,
}

impl Facts {
    /// The variables that decide on visible devices.
    pub fn environment(&self) -> identity::Environment<'_> {
        let GpuEnvironment { cuda_visible_devices, cuda_device_order, nvidia_visible_devices } =
            &self.gpu_environment;
        identity::Environment {
            cuda_visible_devices: cuda_visible_devices.as_deref(),
            cuda_device_order: cuda_device_order.as_deref(),
            container_devices: nvidia_visible_devices.as_deref().filter(|_| self.in_container),
        }
    }
}

/// Reads a `/proc` file system.
#[derive(Clone, Debug)]
pub struct ProcessReader {
    proc: PathBuf,
}

impl ProcessReader {
    /// A reader of the host's `/proc`.
    pub fn new(proc: PathBuf) -> Self {
        Self { proc }
    }

    /// Facts about a process; `None` if it is gone or another one has its id.
    pub fn facts(&self, pid: u32, start_ns: Option<u64>) -> Option<Facts> {
        if !self.is_alive(pid, start_ns) {
            return None;
        }
        let environ = read_bounded(&self.file(pid, "environ"))?;
        let cgroup = fs::read_to_string(self.file(pid, "cgroup")).unwrap_or_default();
        let in_container = cgroup.lines().any(|line| line.splitn(3, ':').nth(2).is_some_and(names_container));
        // The id may have been reused between the reads.
        self.is_alive(pid, start_ns)
            .then(|| Facts { gpu_environment: gpu_environment(&environ), in_container })
    }

    /// Whether the process still runs; without a known start, whether any process has the id.
    pub fn is_alive(&self, pid: u32, start_ns: Option<u64>) -> bool {
        let ticks = self.ticks(pid);
        match start_ns {
            Some(start_ns) => ticks.is_some_and(|ticks| is_same_start(start_ns, ticks)),
            None => ticks.is_some(),
        }
    }

    /// Whether the process has the thread.
    pub fn has_thread(&self, pid: u32, tid: u32) -> bool {
        self.file(pid, "task").join(tid.to_string()).is_dir()
    }

    /// When a process started, in nanoseconds after boot, as precisely as `/proc` says.
    pub fn start_time_ns(&self, pid: u32) -> Option<u64> {
        self.ticks(pid).map(nanoseconds)
    }

    fn ticks(&self, pid: u32) -> Option<u64> {
        fs::read(self.file(pid, "stat")).ok().and_then(|stat| start_time_ticks(&stat))
    }

    fn file(&self, pid: u32, name: &str) -> PathBuf {
        self.proc.join(pid.to_string()).join(name)
    }
}

fn names_container(path: &str) -> bool {
    innermost(path).container_id.is_some()
}

fn read_bounded(path: &Path) -> Option<Vec<u8>> {
    let mut contents = Vec::new();
    fs::File::open(path).ok()?.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut contents).ok()?;
    Some(contents)
}

/// The node's GPUs in the form that the rules for visible devices take; empty while they are not all known.
pub fn visible_gpus(devices: &DeviceSnapshot) -> Vec<identity::visible_devices::Gpu> {
    if !devices.unidentified.is_empty() {
        return Vec::new();
    }
    devices
        .gpus
        .iter()
        .filter(|state| state.gpu.parent.is_none())
        .filter_map(|state| {
            Some(identity::visible_devices::Gpu {
                uuid: state.gpu.uuid.as_str().to_owned(),
                index: state.gpu.index,
                pci_bus_id: state.gpu.pci_bus_id.clone()?,
                model: state.gpu.name.clone()?,
                mig: None,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_of_this_very_process() {
        let proc = tempfile::tempdir().unwrap();
        let directory = proc.path().join("7");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("stat"), "7 (x) S 1 7 7 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 42 4096 0").unwrap();
        fs::write(directory.join("environ"), b"A=b\0CUDA_VISIBLE_DEVICES=1,0\0NVIDIA_VISIBLE_DEVICES=all\0")
            .unwrap();
        fs::write(directory.join("cgroup"), "0::/user.slice\n").unwrap();
        let reader = ProcessReader::new(proc.path().to_owned());
        let facts = reader.facts(7, Some(421_234_567)).unwrap();
        assert_eq!(facts.environment().cuda_visible_devices, Some("1,0"));
        assert_eq!(facts.environment().container_devices, None, "it has no effect outside containers");
        assert_eq!(reader.facts(7, Some(431_234_567)), None, "an earlier process with this id");
        assert_eq!(reader.facts(8, None), None);
    }
}
