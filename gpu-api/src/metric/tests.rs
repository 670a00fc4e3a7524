use std::collections::{HashMap, HashSet};

use super::{Descriptor, Kind, Number, Requirement, Status, all, markdown_table, prometheus_name};

#[test]
fn names_are_unique_in_both_worlds() {
    let mut dotted = HashSet::new();
    let mut translated = HashMap::new();
    for metric in all() {
        assert!(dotted.insert(metric.name), "{} is in the catalogue twice", metric.name);
        let name = prometheus_name(metric);
        if let Some(other) = translated.insert(name.clone(), metric.name) {
            panic!("{other} and {} are both {name} in Prometheus", metric.name);
        }
    }
    // A histogram's samples must not meet another metric either.
    for metric in all().filter(|metric| metric.kind == Kind::Histogram) {
        for suffix in ["_bucket", "_sum", "_count"] {
            let sample = prometheus_name(metric) + suffix;
            assert!(!translated.contains_key(&sample), "{sample} is a metric of its own");
        }
    }
}

#[test]
fn names_have_the_form_that_opentelemetry_asks_for() {
    for name in all().map(|metric| metric.name).chain(attributes().map(|attribute| attribute.key)) {
        assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '_'),
            "{name}"
        );
        assert!(!name.contains("..") && !name.ends_with('.'), "{name}");
    }
}

#[test]
fn no_attribute_is_also_the_name_space_of_another() {
    // The conventions allow no name that is both a leaf and a prefix, because it cannot be shown as a tree.
    let keys: HashSet<_> = attributes().map(|attribute| attribute.key).collect();
    for key in &keys {
        let prefix = format!("{key}.");
        assert_eq!(keys.iter().find(|other| other.starts_with(&prefix)), None, "{key}");
    }
}

#[test]
fn attributes_of_a_metric_are_distinct_and_one_key_means_one_thing() {
    let mut meaning = HashMap::new();
    for metric in all() {
        let mut keys = HashSet::new();
        for used in metric.attributes() {
            let key = used.attribute.key;
            assert!(keys.insert(key), "{} has {key} twice", metric.name);
            let known = *meaning.entry(key).or_insert(used.attribute.description);
            assert_eq!(known, used.attribute.description, "{key}");
        }
    }
}

#[test]
fn every_metric_says_what_it_is() {
    for metric in all() {
        assert!(metric.description.ends_with('.'), "{}", metric.name);
        assert!(!metric.description.contains(['\n', '\\', '|']), "{}: a table and a text line", metric.name);
        assert_eq!(metric.status == Status::Convention, metric.name.starts_with("hw."), "{}", metric.name);
        if metric.kind == Kind::Histogram {
            assert_eq!(metric.number, Number::Double, "{}", metric.name);
        }
    }
}

#[test]
fn tenant_series_name_the_tenant() {
    for metric in super::tenant::ALL {
        let required: Vec<_> = metric
            .attributes()
            .filter(|used| used.requirement == Requirement::Required)
            .map(|used| used.attribute.key)
            .collect();
        assert!(required.contains(&"gpu.tenant.name"), "{}", metric.name);
        assert!(required.contains(&"gpu.tenant.kind"), "{}", metric.name);
    }
}

#[test]
fn the_table_has_a_row_for_every_metric_and_attribute() {
    let table = markdown_table();
    for name in all().map(|metric| metric.name).chain(attributes().map(|attribute| attribute.key)) {
        let row = format!("\n| `{name}` | ");
        assert_eq!(table.matches(&row).count(), 1, "{name}");
    }
}

fn attributes() -> impl Iterator<Item = &'static super::Attribute> {
    all().flat_map(Descriptor::attributes).map(|used| used.attribute)
}
