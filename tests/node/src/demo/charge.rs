//! What the driver charges against what the workloads hold: all that can be compared where no call is seen.

use std::collections::BTreeMap;

use gpu_sim::truth::{GpuTruth, MemoryKind, UNKNOWN_GPU};

use super::{
    crew::Logs,
    paint::{Paint, Tone},
    rates,
    table::{
        Align::{Left, Right},
        Cell, Table,
    },
    units,
};
use crate::{compare::Lives, metrics::Metrics};

/// The driver hands out memory in blocks of this size.
const BLOCK_BYTES: u64 = 2 << 20;

/// Kinds that take a GPU's memory; managed memory moves, and host memory is the host's.
const ON_GPU: [MemoryKind; 4] =
    [MemoryKind::Device, MemoryKind::Pool, MemoryKind::Virtual, MemoryKind::Array];

/// One tenant on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Charge {
    tenant: &'static str,
    gpu: String,
    /// Held and contexts.
    at_least_bytes: u64,
    /// The same with every allocation rounded up.
    at_most_bytes: u64,
    charged_bytes: Option<f64>,
}

impl Charge {
    #[expect(clippy::cast_precision_loss, reason = "sizes of memory are below 2^53")]
    pub(super) fn agrees(&self) -> bool {
        let Self { at_least_bytes, at_most_bytes, charged_bytes, .. } = self;
        charged_bytes
            .is_some_and(|charged| charged >= *at_least_bytes as f64 && charged <= *at_most_bytes as f64)
    }
}

impl std::fmt::Display for Charge {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tenant, gpu, at_least_bytes, at_most_bytes, charged_bytes } = self;
        let charged = charged_bytes.map_or("nothing".to_owned(), |value| value.to_string());
        write!(
            formatter,
            "{tenant} on {gpu}: expected {at_least_bytes} to {at_most_bytes} bytes, charged {charged}"
        )
    }
}

/// Compares while every process in the logs that runs still holds what it logged.
pub(super) fn compare(metrics: &Metrics, logs: &Logs, context_bytes: u64) -> Vec<Charge> {
    let mut charges = Vec::new();
    for (tenant, truths) in logs {
        let mut bounds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (truth, _) in truths.iter().filter(|(_, lives)| *lives == Lives::Running) {
            for (gpu, truth) in truth.gpus.iter().filter(|(gpu, _)| *gpu != UNKNOWN_GPU) {
                let (held_bytes, allocations) = on_gpu(truth);
                let bound = bounds.entry(gpu).or_default();
                bound.0 += context_bytes + held_bytes;
                bound.1 += context_bytes + held_bytes + allocations * BLOCK_BYTES;
            }
        }
        charges.extend(bounds.into_iter().map(|(gpu, (at_least_bytes, at_most_bytes))| {
            Charge {
                tenant,
                gpu: gpu.to_owned(),
                at_least_bytes,
                at_most_bytes,
                charged_bytes: metrics
                    .sum("gpu_tenant_memory_footprint_bytes", &[("gpu_tenant_name", tenant), ("hw_id", gpu)]),
            }
        }));
    }
    charges
}

/// Bytes that are held, and in how many allocations.
fn on_gpu(truth: &GpuTruth) -> (u64, u64) {
    let kinds = ON_GPU.iter().filter_map(|kind| truth.memory.get(kind));
    kinds.fold((0, 0), |(bytes, allocations), memory| {
        (bytes + memory.held_bytes, allocations + memory.allocations.saturating_sub(memory.frees))
    })
}

/// The table, with a mark for each line.
pub(super) fn lines(charges: &[Charge], indices: &[(String, u32)], paint: Paint) -> Vec<String> {
    let mut table = Table::new(&[
        ("TENANT", Left),
        ("GPU", Left),
        ("HELD AND CONTEXTS", Right),
        ("ROUNDED UP, AT MOST", Right),
        ("CHARGED BY THE DRIVER", Right),
        ("", Left),
    ]);
    let mut sorted: Vec<&Charge> = charges.iter().collect();
    sorted.sort_by_key(|charge| {
        let tenant = charges.iter().position(|other| other.tenant == charge.tenant);
        (tenant, indices.iter().position(|(uuid, _)| *uuid == charge.gpu))
    });
    for charge in sorted {
        let (mark, tone) = if charge.agrees() { ("\u{2713}", Tone::Good) } else { ("\u{2717}", Tone::Bad) };
        table.push(vec![
            Cell::new(charge.tenant),
            Cell::new(rates::short_name(indices, &charge.gpu)),
            Cell::new(units::grouped(charge.at_least_bytes)),
            Cell::new(units::grouped(charge.at_most_bytes)),
            Cell::new(charge.charged_bytes.map_or_else(|| "-".to_owned(), units::grouped_value)),
            Cell::toned(mark, tone),
        ]);
    }
    table.lines(paint)
}

#[cfg(test)]
mod tests {
    use gpu_sim::truth::Truth;

    use super::*;

    #[test]
    fn a_charge_is_what_is_held_with_contexts_and_rounding_and_no_more() {
        let mut gpu = GpuTruth::default();
        gpu.allocated(MemoryKind::Device, 1000);
        gpu.allocated(MemoryKind::Host, 5000);
        let truth = Truth { gpus: [("GPU-1".to_owned(), gpu)].into(), ..Truth::default() };
        let logs: Logs = vec![("a", vec![(truth.clone(), Lives::Running), (truth, Lives::Ended)])];
        let agrees = |charged: u64| {
            let text = format!(
                "gpu_tenant_memory_footprint_bytes{{gpu_tenant_name=\"a\",hw_id=\"GPU-1\"}} {charged}"
            );
            let charges = compare(&Metrics::parse(&text).unwrap(), &logs, 300);
            assert_eq!(charges.len(), 1);
            charges[0].agrees()
        };
        assert!(!agrees(1299));
        assert!(agrees(1300));
        assert!(agrees(1300 + BLOCK_BYTES));
        assert!(!agrees(1301 + BLOCK_BYTES));
        assert!(!compare(&Metrics::default(), &logs, 300)[0].agrees());
    }
}
