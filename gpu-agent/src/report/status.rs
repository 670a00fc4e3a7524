//! The answer to "what does this node look like": JSON for programs, a table for people.

use std::{collections::BTreeMap, fmt::Write as _, time::SystemTime};

use serde::{Deserialize, Serialize};

use gpu_ebpf::call::{CopyDirection, MemoryKind};

use super::tenants::{direction_label, kind_label, memory_label};
use crate::{
    collect::view::{KernelState, View},
    device::{DeviceSnapshot, GpuState},
};

/// The whole answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    /// Seconds since the epoch at which the values were read; absent before the first reading.
    pub time_unix_seconds: Option<f64>,
    pub gpus: Vec<GpuStatus>,
    pub tenants: Vec<TenantStatus>,
    pub probes: Option<ProbeStatus>,
    /// Time without any probe before this agent, in seconds.
    pub blind_seconds: f64,
    /// Where the device library stands, in words.
    pub devices: String,
}

/// One GPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GpuStatus {
    pub uuid: String,
    pub index: u32,
    pub name: Option<String>,
    pub state: String,
    pub utilization_ratio: Option<f64>,
    pub memory_used_bytes: Option<u64>,
    pub memory_total_bytes: Option<u64>,
    pub temperature_celsius: Option<f64>,
    pub power_watts: Option<f64>,
}

/// One tenant on one GPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TenantStatus {
    pub tenant: String,
    pub kind: String,
    pub cgroup_path: Option<String>,
    /// Absent where it could not be established.
    pub gpu: Option<String>,
    pub processes: usize,
    pub launches: u64,
    pub graph_launches: u64,
    pub launch_seconds: f64,
    pub synchronize_calls: u64,
    pub synchronize_seconds: f64,
    /// Bytes held, by memory kind.
    pub held_bytes: BTreeMap<String, u64>,
    pub allocated_bytes: BTreeMap<String, u64>,
    pub freed_bytes: BTreeMap<String, u64>,
    pub reclaimed_bytes: BTreeMap<String, u64>,
    /// Bytes copied, by direction.
    pub copied_bytes: BTreeMap<String, u64>,
    pub memset_bytes: u64,
    /// Failed calls.
    pub errors: u64,
    /// What the driver charges, contexts and rounding included.
    pub footprint_bytes: Option<u64>,
}

/// The kernel's probes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeStatus {
    pub mechanism: String,
    pub mechanism_reason: Option<String>,
    pub outlive_agent: bool,
    pub adopted: bool,
    pub libraries: Vec<LibraryStatus>,
    pub refused: Vec<RefusedStatus>,
    /// What was lost or seen in part, where it is not zero.
    pub losses: BTreeMap<String, u64>,
}

/// A probed library.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LibraryStatus {
    pub id: String,
    pub path: String,
    pub functions: usize,
    pub missing: Vec<String>,
}

/// A library that is not probed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RefusedStatus {
    pub path: String,
    pub reason: String,
}

/// Puts the answer together.
pub fn status(view: Option<&View>, devices: Option<&DeviceSnapshot>) -> Status {
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time_unix_seconds: view.and_then(|view| {
            view.time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
        }),
        gpus: devices.map(|devices| devices.gpus.iter().map(gpu).collect()).unwrap_or_default(),
        tenants: view.map(tenants).unwrap_or_default(),
        probes: view.and_then(|view| view.kernel.as_ref()).map(probes),
        blind_seconds: view.map_or(0.0, |view| view.blind.as_secs_f64()),
        devices: devices.map_or("not in use", |devices| devices.source.as_str()).to_owned(),
    }
}

fn gpu(state: &GpuState) -> GpuStatus {
    let reading = state.reading.as_ref().map(|(_, reading)| reading);
    GpuStatus {
        uuid: state.gpu.uuid.as_str().to_owned(),
        index: state.gpu.index,
        name: state.gpu.name.clone(),
        state: state.condition.as_str().to_owned(),
        utilization_ratio: reading.and_then(|reading| reading.utilization.gpu),
        memory_used_bytes: reading.and_then(|reading| reading.memory.used_bytes),
        memory_total_bytes: state.gpu.memory_total_bytes,
        temperature_celsius: reading.and_then(|reading| reading.temperature.gpu_celsius.map(f64::from)),
        power_watts: reading.and_then(|reading| reading.power.usage_watts),
    }
}

fn tenants(view: &View) -> Vec<TenantStatus> {
    view.series
        .iter()
        .map(|(key, current)| {
            let totals = &current.totals;
            let by_kind = |bytes: &dyn Fn(MemoryKind) -> u64| -> BTreeMap<String, u64> {
                MemoryKind::ALL
                    .into_iter()
                    .filter(|kind| totals.flow(*kind).allocations > 0)
                    .map(|kind| (memory_label(kind).as_str().to_owned(), bytes(kind)))
                    .collect()
            };
            let footprint = view
                .footprints
                .iter()
                .find(|footprint| footprint.tenant == key.tenant && Some(&footprint.gpu) == key.gpu.as_ref());
            TenantStatus {
                tenant: key.tenant.name.clone(),
                kind: kind_label(key.tenant.kind).as_str().to_owned(),
                cgroup_path: key.tenant.cgroup_path.clone(),
                gpu: key.gpu.as_deref().map(str::to_owned),
                processes: current.processes.len(),
                launches: totals.counters.launch.calls,
                graph_launches: totals.counters.graph_launch.calls,
                launch_seconds: seconds(totals.counters.launch.total_ns),
                synchronize_calls: totals.counters.synchronize.calls,
                synchronize_seconds: seconds(totals.counters.synchronize.total_ns),
                held_bytes: by_kind(&|kind| totals.held(kind).bytes),
                allocated_bytes: by_kind(&|kind| totals.flow(kind).allocated_bytes),
                freed_bytes: by_kind(&|kind| totals.freed_bytes(kind)),
                reclaimed_bytes: by_kind(&|kind| totals.reclaimed[kind as usize].bytes),
                copied_bytes: CopyDirection::ALL
                    .into_iter()
                    .zip(totals.counters.copies)
                    .filter(|(_, transfer)| transfer.calls > 0)
                    .map(|(direction, transfer)| {
                        (direction_label(direction).as_str().to_owned(), transfer.bytes)
                    })
                    .collect(),
                memset_bytes: totals.counters.memset.bytes,
                errors: totals.errors.values().sum(),
                footprint_bytes: footprint.and_then(|footprint| footprint.bytes),
            }
        })
        .collect()
}

fn probes(kernel: &KernelState) -> ProbeStatus {
    let mut losses: BTreeMap<String, u64> = kernel
        .stats
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(label, count)| ((*label).to_owned(), *count))
        .collect();
    let further = [("recursion_misses", kernel.recursion_misses), ("undecodable", kernel.undecodable)];
    losses.extend(
        further.into_iter().filter(|(_, count)| *count > 0).map(|(label, count)| (label.to_owned(), count)),
    );
    ProbeStatus {
        mechanism: kernel.mechanism.as_str().to_owned(),
        mechanism_reason: kernel.mechanism_reason.clone(),
        outlive_agent: kernel.pinned,
        adopted: kernel.adopted,
        libraries: kernel
            .libraries
            .iter()
            .map(|library| LibraryStatus {
                id: library.id.clone(),
                path: library.path.clone(),
                functions: library.functions,
                missing: library.missing.clone(),
            })
            .collect(),
        refused: kernel
            .refused
            .iter()
            .map(|(path, reason)| RefusedStatus { path: path.clone(), reason: reason.clone() })
            .collect(),
        losses,
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to people and rounded")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl Status {
    /// The answer for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        _ = self.write_table(&mut text);
        text
    }

    fn write_table(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "GPUs ({})", self.devices)?;
        writeln!(text, "  {:>3}  {:<24} {:<9} {:>5} {:>19}  UUID", "#", "NAME", "STATE", "UTIL", "MEMORY")?;
        for gpu in &self.gpus {
            let name = gpu.name.as_deref().unwrap_or("-");
            let utilization =
                gpu.utilization_ratio.map_or("-".to_owned(), |ratio| format!("{:.0}%", ratio * 100.0));
            let memory = format!("{} / {}", or_dash(gpu.memory_used_bytes), or_dash(gpu.memory_total_bytes));
            writeln!(
                text,
                "  {:>3}  {name:<24} {:<9} {utilization:>5} {memory:>19}  {}",
                gpu.index, gpu.state, gpu.uuid
            )?;
        }
        writeln!(text, "\nTenants")?;
        writeln!(
            text,
            "  {:<28} {:<10} {:>5} {:>12} {:>10} {:>10} {:>10} {:>7}",
            "TENANT", "GPU", "PROCS", "LAUNCHES", "HELD", "CHARGED", "COPIED", "ERRORS"
        )?;
        for tenant in &self.tenants {
            let gpu = tenant.gpu.as_deref().unwrap_or("unknown");
            writeln!(
                text,
                "  {:<28} {:<10} {:>5} {:>12} {:>10} {:>10} {:>10} {:>7}",
                tenant.tenant,
                gpu.get(..10).unwrap_or(gpu),
                tenant.processes,
                tenant.launches,
                size(tenant.held_bytes.values().sum()),
                or_dash(tenant.footprint_bytes),
                size(tenant.copied_bytes.values().sum()),
                tenant.errors
            )?;
        }
        match &self.probes {
            None => writeln!(text, "\nProbes: none; see `gpu-agent check`")?,
            Some(probes) => probes.write_table(text)?,
        }
        if self.blind_seconds > 0.0 {
            writeln!(text, "Without probes before this agent: {:.1} s", self.blind_seconds)?;
        }
        Ok(())
    }
}

impl ProbeStatus {
    fn write_table(&self, text: &mut String) -> std::fmt::Result {
        let fate = if self.outlive_agent { "outlive the agent" } else { "end with the agent" };
        writeln!(text, "\nProbes ({}, {fate})", self.mechanism)?;
        if let Some(reason) = &self.mechanism_reason {
            writeln!(text, "  not by uprobe_multi: {reason}")?;
        }
        for library in &self.libraries {
            let (functions, missing) = (library.functions, library.missing.len());
            writeln!(
                text,
                "  {functions:>4} functions, {missing} not exported  {} ({})",
                library.path, library.id
            )?;
        }
        for refused in &self.refused {
            writeln!(text, "  not probed: {}: {}", refused.path, refused.reason)?;
        }
        for (what, count) in &self.losses {
            writeln!(text, "  {what}: {count}")?;
        }
        Ok(())
    }
}

fn or_dash(bytes: Option<u64>) -> String {
    bytes.map_or("-".to_owned(), size)
}

/// A size for people, in binary units.
#[expect(clippy::cast_precision_loss, reason = "shown to people and rounded")]
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{value:.0}{unit}") } else { format!("{value:.1}{unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1}TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(size(0), "0B");
        assert_eq!(size(1023), "1023B");
        assert_eq!(size(1536), "1.5KiB");
        assert_eq!(size(3 << 30), "3.0GiB");
        assert_eq!(size(u64::MAX), "16777216.0TiB");
    }

    #[test]
    fn an_agent_that_has_read_nothing_yet_says_so() {
        let status = status(None, None);
        assert_eq!(status.time_unix_seconds, None);
        assert!(status.table().contains("Probes: none"));
    }
}
