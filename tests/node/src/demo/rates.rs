//! What happened between two scrapes, for each tenant and GPU.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::metrics::Metrics;

/// A tenant on a GPU. What the agent does not say is absent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TenantLine {
    pub(super) tenant: String,
    /// UUID.
    pub(super) gpu: String,
    pub(super) launches_per_second: Option<f64>,
    pub(super) graph_launches_per_second: Option<f64>,
    pub(super) held_bytes: Option<f64>,
    /// By the driver, contexts and rounding included.
    pub(super) charged_bytes: Option<f64>,
    pub(super) to_gpu_bytes_per_second: Option<f64>,
    pub(super) from_gpu_bytes_per_second: Option<f64>,
    pub(super) other_copied_bytes_per_second: Option<f64>,
    /// Seconds per second in synchronise calls and in launches; above 1 where several threads wait.
    pub(super) waiting_share: Option<f64>,
    /// Since the start.
    pub(super) errors: Option<f64>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GpuLine {
    pub(super) gpu: String,
    pub(super) model: String,
    pub(super) utilization: Option<f64>,
    pub(super) used_bytes: Option<f64>,
    pub(super) total_bytes: Option<f64>,
    pub(super) power_watts: Option<f64>,
    pub(super) temperature_celsius: Option<f64>,
}

/// The lines of these tenants, in this order. Where nothing was done and nothing is charged there is no line.
pub(super) fn tenants(before: &Metrics, now: &Metrics, elapsed: Duration, names: &[&str]) -> Vec<TenantLine> {
    let pairs = names.iter().flat_map(|name| gpus_of(now, name).into_iter().map(move |gpu| (*name, gpu)));
    pairs
        .map(|(tenant, gpu)| Pair { before, now, elapsed, tenant, gpu: &gpu }.line())
        .filter(|line| {
            let alive = [line.launches_per_second, line.held_bytes, line.charged_bytes, line.errors];
            alive.into_iter().flatten().any(|value| value > 0.0)
        })
        .collect()
}

/// The lines of the node's GPUs, in the order of their indices.
pub(super) fn gpus(now: &Metrics) -> Vec<GpuLine> {
    indices(now)
        .into_iter()
        .map(|(gpu, _)| {
            let value = |name: &str| now.sum(name, &[("hw_id", &gpu)]);
            let info =
                now.series("gpu_device_info").iter().find(|(labels, _)| labels.get("hw_id") == Some(&gpu));
            GpuLine {
                model: info.and_then(|(labels, _)| labels.get("hw_model").cloned()).unwrap_or_default(),
                utilization: now
                    .sum("hw_gpu_utilization_ratio", &[("hw_id", &gpu), ("hw_gpu_task", "general")]),
                used_bytes: value("hw_gpu_memory_usage_bytes"),
                total_bytes: value("hw_gpu_memory_limit_bytes"),
                power_watts: value("hw_power_watts"),
                temperature_celsius: now
                    .sum("hw_temperature_celsius", &[("hw_id", &gpu), ("hw_sensor_location", "gpu")]),
                gpu,
            }
        })
        .collect()
}

/// UUIDs with their indices, in the order of the indices.
pub(super) fn indices(metrics: &Metrics) -> Vec<(String, u32)> {
    let mut indices: Vec<_> = metrics
        .series("gpu_device_info")
        .iter()
        .filter_map(|(labels, _)| {
            Some((labels.get("hw_id")?.clone(), labels.get("gpu_index")?.parse().ok()?))
        })
        .collect();
    indices.sort_by_key(|(_, index)| *index);
    indices
}

/// A GPU's index and the beginning of its UUID.
pub(super) fn short_name(indices: &[(String, u32)], gpu: &str) -> String {
    let digits: String = gpu.trim_start_matches("GPU-").chars().take(8).collect();
    match indices.iter().find(|(uuid, _)| uuid == gpu) {
        Some((_, index)) => format!("{index} {digits}"),
        None => digits,
    }
}

/// The GPUs on which a tenant has any series, known ones first in the order of their indices.
fn gpus_of(metrics: &Metrics, tenant: &str) -> Vec<String> {
    let order: BTreeMap<String, u32> = indices(metrics).into_iter().collect();
    let names =
        ["gpu_tenant_launches_total", "gpu_tenant_memory_usage_bytes", "gpu_tenant_memory_footprint_bytes"];
    let gpus: BTreeSet<(u32, String)> = names
        .into_iter()
        .flat_map(|name| metrics.series(name))
        .filter(|(labels, _)| labels.get("gpu_tenant_name").map(String::as_str) == Some(tenant))
        .filter_map(|(labels, _)| labels.get("hw_id"))
        .map(|gpu| (order.get(gpu).copied().unwrap_or(u32::MAX), gpu.clone()))
        .collect();
    gpus.into_iter().map(|(_, gpu)| gpu).collect()
}

/// One tenant on one GPU in two scrapes.
struct Pair<'a> {
    before: &'a Metrics,
    now: &'a Metrics,
    elapsed: Duration,
    tenant: &'a str,
    gpu: &'a str,
}

impl Pair<'_> {
    fn line(&self) -> TenantLine {
        let held = self.value("gpu_tenant_memory_usage_bytes", &[]);
        let of_host = self.value("gpu_tenant_memory_usage_bytes", &[("gpu_memory_kind", "host")]);
        let copied =
            |direction| self.rate("gpu_tenant_memcpy_io_bytes_total", &[("gpu_memcpy_direction", direction)]);
        let (to_gpu, from_gpu) = (copied("host_to_device"), copied("device_to_host"));
        let all = self.rate("gpu_tenant_memcpy_io_bytes_total", &[]);
        let named = to_gpu.unwrap_or_default() + from_gpu.unwrap_or_default();
        let waits = [
            self.rate("gpu_tenant_sync_duration_seconds_sum", &[]),
            self.rate("gpu_tenant_launch_blocked_duration_seconds_sum", &[]),
        ];
        TenantLine {
            tenant: self.tenant.to_owned(),
            gpu: self.gpu.to_owned(),
            launches_per_second: self.rate("gpu_tenant_launches_total", &[]),
            graph_launches_per_second: self.rate("gpu_tenant_graph_launches_total", &[]),
            held_bytes: held.map(|held| held - of_host.unwrap_or_default()),
            charged_bytes: self.value("gpu_tenant_memory_footprint_bytes", &[]),
            to_gpu_bytes_per_second: to_gpu,
            from_gpu_bytes_per_second: from_gpu,
            other_copied_bytes_per_second: all.map(|all| all - named),
            waiting_share: waits.into_iter().flatten().reduce(|sum, wait| sum + wait),
            errors: self.value("gpu_tenant_errors_total", &[]).or_else(|| {
                // An error's series begins with the first one; where launches are counted, errors are too.
                self.value("gpu_tenant_launches_total", &[]).map(|_| 0.0)
            }),
        }
    }

    fn value(&self, name: &str, further: &[(&str, &str)]) -> Option<f64> {
        self.now.sum(name, &self.labels(further))
    }

    /// A counter that was absent before has risen from 0.
    fn rate(&self, name: &str, further: &[(&str, &str)]) -> Option<f64> {
        let labels = self.labels(further);
        let rise = self.now.sum(name, &labels)? - self.before.sum(name, &labels).unwrap_or_default();
        (!self.elapsed.is_zero()).then(|| rise / self.elapsed.as_secs_f64())
    }

    fn labels<'a>(&'a self, further: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut labels = vec![("gpu_tenant_name", self.tenant), ("hw_id", self.gpu)];
        labels.extend(further);
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "gpu_tenant_launches_total{gpu_tenant_name=\"a\",hw_id=\"GPU-2\"} 100\n";
    const NOW: &str = concat!(
        "gpu_device_info{hw_id=\"GPU-1\",gpu_index=\"1\",hw_model=\"M\"} 1\n",
        "gpu_device_info{hw_id=\"GPU-2\",gpu_index=\"0\",hw_model=\"M\"} 1\n",
        "gpu_tenant_launches_total{gpu_tenant_name=\"a\",hw_id=\"GPU-2\"} 300\n",
        "gpu_tenant_launches_total{gpu_tenant_name=\"b\",hw_id=\"GPU-1\"} 0\n",
        "gpu_tenant_memory_usage_bytes{gpu_tenant_name=\"a\",hw_id=\"GPU-2\",gpu_memory_kind=\"device\"} 70\n",
        "gpu_tenant_memory_usage_bytes{gpu_tenant_name=\"a\",hw_id=\"GPU-2\",gpu_memory_kind=\"host\"} 5\n",
        "gpu_tenant_memcpy_io_bytes_total{gpu_tenant_name=\"a\",hw_id=\"GPU-2\",gpu_memcpy_direction=\"peer\"} 20\n",
        "gpu_tenant_memory_footprint_bytes{gpu_tenant_name=\"a\",hw_id=\"GPU-1\"} 9\n",
        "hw_power_watts{hw_id=\"GPU-2\"} 50\n",
    );

    #[test]
    fn rates_are_differences_and_idle_pairs_are_left_out() {
        let (before, now) = (Metrics::parse(BEFORE).unwrap(), Metrics::parse(NOW).unwrap());
        let lines = tenants(&before, &now, Duration::from_secs(2), &["a", "b"]);
        let keys: Vec<_> = lines.iter().map(|line| (line.tenant.as_str(), line.gpu.as_str())).collect();
        assert_eq!(keys, [("a", "GPU-2"), ("a", "GPU-1")]);
        let first = &lines[0];
        assert_eq!(first.launches_per_second, Some(100.0));
        assert_eq!(first.held_bytes, Some(70.0));
        assert_eq!(first.charged_bytes, None);
        assert_eq!(first.to_gpu_bytes_per_second, None);
        assert_eq!(first.other_copied_bytes_per_second, Some(10.0));
        assert_eq!(first.errors, Some(0.0));
        assert_eq!((lines[1].charged_bytes, lines[1].errors), (Some(9.0), None));
    }

    #[test]
    fn gpus_come_in_the_order_of_their_indices() {
        let now = Metrics::parse(NOW).unwrap();
        let lines = gpus(&now);
        assert_eq!(lines.iter().map(|line| line.gpu.as_str()).collect::<Vec<_>>(), ["GPU-2", "GPU-1"]);
        assert_eq!(lines[0].power_watts, Some(50.0));
        assert_eq!(lines[1].power_watts, None);
        let indices = indices(&now);
        assert_eq!(short_name(&indices, "GPU-2"), "0 2");
        assert_eq!(short_name(&indices, "GPU-0123456789"), "01234567");
    }
}
