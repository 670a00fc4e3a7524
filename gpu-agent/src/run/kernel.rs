//! The kernel side as the configuration wants it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use gpu_ebpf::abi::{Counters, maps};
use tracing::warn;

use crate::{
    chain::Chain,
    collect::{kernel_side::KernelSide, processes::ProcessReader},
    config::{Config, Feature, LogLevel},
    kernel::{
        loader::{Kernel, KernelError, Options},
        mounts::ensure_bpffs,
        pins::Pins,
        reader::Reader,
    },
    probe::{manager::Manager, object::BPF_OBJECT},
};

/// Kernel memory that the per-CPU counters may take unless configured otherwise.
const COUNTER_BYTES: usize = 64 << 20;
/// Bounds of the automatic number of rows.
const COUNTER_ROWS: (usize, usize) = (512, 8192);

/// Loads or adopts the programs.
///
/// # Errors
/// Why the node has no kernel probes, in words for an operator.
pub(super) fn load(config: &Config) -> anyhow::Result<KernelSide> {
    anyhow::ensure!(!config.disable.contains(&Feature::Bpf), "disabled by configuration");
    let object = BPF_OBJECT.context(
        "this agent was built without the BPF object: run `cargo xtask build-ebpf`, then build again",
    )?;
    let reader = Reader::new(!config.disable.contains(&Feature::BatchRead))
        .context("cannot read the number of possible CPUs")?;
    let options = Options {
        object,
        pins: pins(config),
        uprobe_multi: !config.disable.contains(&Feature::UprobeMulti),
        tracepoints: !config.disable.contains(&Feature::Tracepoints),
        diagnostics: matches!(config.log.level, LogLevel::Debug | LogLevel::Trace),
        map_entries: map_entries(config, reader.cpus()),
    };
    let kernel = match Kernel::load(&options) {
        Err(error @ KernelError::Tracepoint { .. }) => {
            warn!(error = %Chain(&error), "process ends are found by looking");
            Kernel::load(&Options { tracepoints: false, ..options })?
        }
        loaded => loaded?,
    };
    let manager = Manager::new(config.proc_root.clone(), config.probe.library_paths.clone());
    let processes = ProcessReader::new(config.proc_root.clone());
    Ok(KernelSide::new(kernel, reader, manager, processes)?)
}

fn pins(config: &Config) -> Option<Pins> {
    if config.disable.contains(&Feature::Pinning) {
        return None;
    }
    let pins = ensure_bpffs(&config.bpffs).and_then(|()| Pins::at(&config.bpffs));
    match pins {
        Ok(pins) => Some(pins),
        Err(error) => {
            warn!(path = %config.bpffs.display(), %error, "nothing can be pinned: observation stops with the agent");
            None
        }
    }
}

fn map_entries(config: &Config, cpus: usize) -> BTreeMap<&'static str, u32> {
    let sizes = &config.probe.maps;
    let rows = sizes.counters.unwrap_or_else(|| automatic_rows(cpus));
    let ring = u32::try_from(config.probe.ring_bytes).unwrap_or(u32::MAX);
    let configured = [
        (maps::THREADS, sizes.threads),
        (maps::PROCESSES, sizes.processes),
        (maps::CONTEXTS, sizes.contexts),
        (maps::ALLOCATIONS, sizes.allocations),
        (maps::COUNTERS, Some(rows)),
        (maps::RETURNED, Some(rows)),
        (maps::ERRORS, sizes.errors),
        (maps::EVENTS, Some(ring)),
        (maps::EXITS, Some(ring)),
    ];
    configured.into_iter().filter_map(|(map, entries)| Some((map, entries?))).collect()
}

/// Rows of counters so that they take a bounded amount of memory on any number of CPUs.
fn automatic_rows(cpus: usize) -> u32 {
    let rows = COUNTER_BYTES / (cpus.max(1) * size_of::<Counters>());
    u32::try_from(rows.clamp(COUNTER_ROWS.0, COUNTER_ROWS.1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_take_a_bounded_amount_of_memory() {
        assert_eq!(automatic_rows(2), 8192);
        assert_eq!(automatic_rows(128), 697);
        assert_eq!(automatic_rows(4096), 512);
        assert_eq!(automatic_rows(0), 8192);
    }
}
