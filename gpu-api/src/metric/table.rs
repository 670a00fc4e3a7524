//! The reference of metrics and attributes as Markdown.

use std::fmt;

use super::{Attribute, AttributeUse, Descriptor, Requirement, agent, device, prometheus_name, tenant};

/// Renders `docs/metrics.md`.
pub fn markdown_table() -> String {
    Reference.to_string()
}

const INTRODUCTION: &str = "\
# Metrics

Generated from the catalogue in `gpu-api` by `cargo run -p gpu-api --bin metrics-table`; do not edit.

A metric that a GPU, driver or kernel cannot give is absent, never 0.
`convention` names are defined by the OpenTelemetry semantic conventions for hardware, `stable` ones here;
an `estimate` is good for comparing, not for billing.
Attributes in *italics* are on a point when they are known, those in (brackets) when the configuration asks for them.
";

struct Reference;

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(INTRODUCTION)?;
        section(f, "Devices", device::ALL)?;
        section(f, "Tenants", tenant::ALL)?;
        section(f, "The agent", agent::ALL)?;
        attributes(f)
    }
}

fn section(f: &mut fmt::Formatter<'_>, title: &str, metrics: &[&Descriptor]) -> fmt::Result {
    write!(f, "\n## {title}\n\n")?;
    let on_every = |used: &AttributeUse| {
        metrics.iter().all(|metric| metric.attributes().any(|other| other.attribute == used.attribute))
    };
    let shared: Vec<String> =
        metrics[0].attributes().filter(|used| on_every(used)).map(|used| marked(*used)).collect();
    if !shared.is_empty() {
        write!(f, "Attributes of every metric in this section: {}.\n\n", shared.join(", "))?;
    }
    f.write_str("| metric | Prometheus | kind, unit | more attributes | meaning |\n|---|---|---|---|---|\n")?;
    for metric in metrics {
        let more: Vec<String> =
            metric.attributes().filter(|used| !on_every(used)).map(|used| marked(*used)).collect();
        let (name, translated) = (metric.name, prometheus_name(metric));
        write!(f, "| `{name}` | `{translated}` | {}", metric.kind.as_str())?;
        if !metric.unit.is_empty() {
            write!(f, ", `{}`", metric.unit)?;
        }
        writeln!(f, " | {} | {} ({}) |", more.join(", "), metric.description, metric.status.as_str())?;
    }
    Ok(())
}

fn marked(used: AttributeUse) -> String {
    let key = used.attribute.key;
    match used.requirement {
        Requirement::Required => format!("`{key}`"),
        Requirement::Known => format!("*`{key}`*"),
        Requirement::OptIn => format!("(`{key}`)"),
    }
}

fn attributes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\n## Attributes\n\n| attribute | meaning | values |\n|---|---|---|\n")?;
    let mut seen: Vec<&'static Attribute> = Vec::new();
    let used = super::all().flat_map(Descriptor::attributes).map(|used| used.attribute);
    for attribute in used.chain([&super::attribute::OTEL_METRIC_OVERFLOW]) {
        if seen.contains(&attribute) {
            continue;
        }
        seen.push(attribute);
        let values: Vec<String> = attribute.values.iter().map(|value| format!("`{value}`")).collect();
        writeln!(f, "| `{}` | {} | {} |", attribute.key, attribute.description, values.join(", "))?;
    }
    Ok(())
}
