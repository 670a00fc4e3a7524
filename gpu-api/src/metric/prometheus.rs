//! Prometheus names, by the translation that OpenTelemetry defines and Prometheus applies to OTLP by default.
//!
//! Both ways of delivery must give the same series, so this is the translation "underscore escaping with
//! suffixes" of the OpenTelemetry to Prometheus compatibility specification.

use super::{Descriptor, Kind};

/// The name under which Prometheus knows `descriptor`, of the sample line for a counter.
///
/// A histogram's samples add `_bucket`, `_sum` and `_count` to it.
pub fn prometheus_name(descriptor: &Descriptor) -> String {
    translate(descriptor.name, descriptor.unit, descriptor.kind)
}

/// The name of a label for an attribute key.
pub fn prometheus_label(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

fn translate(name: &str, unit: &str, kind: Kind) -> String {
    let mut tokens: Vec<&str> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|t| !t.is_empty()).collect();

    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    for suffix in [main_unit(main), per_unit(per)].into_iter().flatten() {
        if !tokens.contains(&suffix) {
            tokens.push(suffix);
        }
    }
    match kind {
        Kind::Counter => move_to_end(&mut tokens, "total"),
        Kind::Gauge if unit == "1" => move_to_end(&mut tokens, "ratio"),
        Kind::Gauge | Kind::UpDownCounter | Kind::Histogram => {}
    }
    tokens.join("_")
}

fn move_to_end<'a>(tokens: &mut Vec<&'a str>, suffix: &'a str) {
    tokens.retain(|token| *token != suffix);
    tokens.push(suffix);
}

/// The word for a UCUM unit; annotations (`{launch}`) and the bare `1` have none.
fn main_unit(unit: &str) -> Option<&str> {
    Some(match unit {
        "" | "1" => return None,
        _ if unit.starts_with('{') => return None,
        "d" => "days",
        "h" => "hours",
        "min" => "minutes",
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "ns" => "nanoseconds",
        "By" => "bytes",
        "KiBy" => "kibibytes",
        "MiBy" => "mebibytes",
        "GiBy" => "gibibytes",
        "m" => "meters",
        "V" => "volts",
        "A" => "amperes",
        "J" => "joules",
        "W" => "watts",
        "g" => "grams",
        "Cel" => "celsius",
        "Hz" => "hertz",
        "%" => "percent",
        other => other,
    })
}

/// The words for a unit that something is divided by; those that the translation does not know have none.
fn per_unit(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "s" => "per_second",
        "m" => "per_minute",
        "h" => "per_hour",
        "d" => "per_day",
        "w" => "per_week",
        "mo" => "per_month",
        "y" => "per_year",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Kind, prometheus_label, translate};

    #[test]
    fn names_follow_the_opentelemetry_translation() {
        for (name, unit, kind, expected) in [
            ("hw.gpu.utilization", "1", Kind::Gauge, "hw_gpu_utilization_ratio"),
            ("hw.gpu.memory.usage", "By", Kind::UpDownCounter, "hw_gpu_memory_usage_bytes"),
            ("hw.energy", "J", Kind::Counter, "hw_energy_joules_total"),
            ("hw.gpu.io", "By", Kind::Counter, "hw_gpu_io_bytes_total"),
            ("hw.power", "W", Kind::Gauge, "hw_power_watts"),
            ("hw.temperature", "Cel", Kind::Gauge, "hw_temperature_celsius"),
            ("hw.fan.speed_ratio", "1", Kind::Gauge, "hw_fan_speed_ratio"),
            ("hw.status", "1", Kind::UpDownCounter, "hw_status"),
            ("gpu.tenant.launches", "{launch}", Kind::Counter, "gpu_tenant_launches_total"),
            ("gpu.tenant.sync.duration", "s", Kind::Histogram, "gpu_tenant_sync_duration_seconds"),
            ("gpu.pcie.throughput", "By/s", Kind::Gauge, "gpu_pcie_throughput_bytes_per_second"),
            ("gpu.clock.frequency", "Hz", Kind::Gauge, "gpu_clock_frequency_hertz"),
            ("gpu.agent.build.info", "", Kind::Gauge, "gpu_agent_build_info"),
            // A unit or suffix that the name already has is not repeated.
            ("a.bytes.read", "By", Kind::Counter, "a_bytes_read_total"),
            ("a.total.reads", "{read}", Kind::Counter, "a_reads_total"),
            ("a.rate", "{packet}/s", Kind::Gauge, "a_rate_per_second"),
        ] {
            assert_eq!(translate(name, unit, kind), expected, "{name}");
        }
    }

    #[test]
    fn labels_keep_only_what_prometheus_allows() {
        assert_eq!(prometheus_label("k8s.pod.name"), "k8s_pod_name");
        assert_eq!(prometheus_label("hw.sensor_location"), "hw_sensor_location");
    }
}
