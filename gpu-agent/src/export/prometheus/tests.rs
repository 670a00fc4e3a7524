use super::{Format, render};
use crate::export::sample;

#[test]
fn a_scraper_gets_the_format_that_it_ranks_first() {
    // The header of Prometheus 3.
    let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                      application/openmetrics-text;version=0.0.1;q=0.5,\
                      text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    for (accept, expected) in [
        (None, Format::Text),
        (Some(""), Format::Text),
        (Some("*/*"), Format::Text),
        (Some("text/html, nonsense;;q=x, application/json"), Format::Text),
        (Some(prometheus), Format::OpenMetrics),
        (Some("application/openmetrics-text"), Format::OpenMetrics),
        (Some("application/openmetrics-text; version=\"1.0.0\""), Format::OpenMetrics),
        (Some("application/openmetrics-text; version=2.0.0"), Format::Text),
        (Some("application/openmetrics-text;q=0.1, text/plain;q=0.9"), Format::Text),
        (Some("text/plain;q=0.1, application/openmetrics-text;q=0.9"), Format::OpenMetrics),
        (Some("application/openmetrics-text;q=0"), Format::Text),
    ] {
        assert_eq!(Format::from_accept(accept), expected, "{accept:?}");
    }
}

#[test]
fn plain_text() {
    insta::assert_snapshot!(render(sample::snapshot(), Format::Text).unwrap());
}

#[test]
fn open_metrics() {
    insta::assert_snapshot!(render(sample::snapshot(), Format::OpenMetrics).unwrap());
}

#[test]
fn every_metric_has_its_documented_name_in_both_formats() {
    for format in [Format::Text, Format::OpenMetrics] {
        let text = render(sample::catalogue(), format).unwrap();
        for descriptor in gpu_api::metric::all() {
            let mut name = gpu_api::metric::prometheus_name(descriptor);
            if descriptor.kind == gpu_api::metric::Kind::Histogram {
                name += "_count";
            }
            let sample =
                |line: &str| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['{', ' ']));
            assert_eq!(text.lines().filter(|line| sample(line)).count(), 1, "{name} in {format:?}");
        }
    }
}
