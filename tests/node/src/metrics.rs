//! What `/metrics` says, as numbers.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

/// The labels of one series.
pub type Labels = BTreeMap<String, String>;

/// A scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    samples: BTreeMap<String, Vec<(Labels, f64)>>,
}

impl Metrics {
    /// Reads the Prometheus text format.
    ///
    /// # Errors
    /// Names the line that is not in it.
    pub fn parse(text: &str) -> Result<Self> {
        let mut metrics = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, labels, value) = sample(line).with_context(|| format!("not a sample: `{line}`"))?;
            metrics.samples.entry(name).or_default().push((labels, value));
        }
        Ok(metrics)
    }

    /// The series of one metric.
    pub fn series(&self, name: &str) -> &[(Labels, f64)] {
        self.samples.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether any series of any metric has this label.
    pub fn mention(&self, key: &str, value: &str) -> bool {
        self.samples.values().flatten().any(|(labels, _)| labels.get(key).is_some_and(|found| found == value))
    }

    /// The names of all metrics.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.samples.keys().map(String::as_str)
    }

    /// The sum over series that have all of these labels; `None` if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let matching: Vec<f64> = self
            .series(name)
            .iter()
            .filter(|(found, _)| {
                labels.iter().all(|(key, value)| found.get(*key).map(String::as_str) == Some(*value))
            })
            .map(|(_, value)| *value)
            .collect();
        (!matching.is_empty()).then(|| matching.iter().sum())
    }
}

impl FromIterator<(String, Labels, f64)> for Metrics {
    fn from_iter<I: IntoIterator<Item = (String, Labels, f64)>>(samples: I) -> Self {
        let mut metrics = Self::default();
        for (name, labels, value) in samples {
            metrics.samples.entry(name).or_default().push((labels, value));
        }
        metrics
    }
}

fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let name_end = line.find(['{', ' '])?;
    let name = line[..name_end].to_owned();
    let rest = &line[name_end..];
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    let value = value.split_whitespace().next()?.parse().ok()?;
    Some((name, labels, value))
}

/// Reads `key="value",…}` and returns what follows.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (key, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.insert(key.to_owned(), value);
        rest = &after[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels() {
        let text =
            "# HELP a b\na_total{x=\"1\",y=\"q\\\"\\n\"} 5\na_total{x=\"2\",y=\"\"} 7\nplain 1.5 123\n";
        let metrics = Metrics::parse(text).unwrap();
        assert_eq!(metrics.sum("a_total", &[]), Some(12.0));
        assert_eq!(metrics.sum("a_total", &[("x", "2")]), Some(7.0));
        assert_eq!(metrics.sum("a_total", &[("y", "q\"\n")]), Some(5.0));
        assert_eq!(metrics.sum("a_total", &[("x", "3")]), None);
        assert_eq!(metrics.sum("plain", &[]), Some(1.5));
        assert!(Metrics::parse("nonsense").is_err());
    }
}
