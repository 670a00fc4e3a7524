//! All series at one moment: what the ledger produces and what the exporters consume.
//!
//! A snapshot is made anew for each scrape and push, so the series of an ended tenant end by not being in it.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use gpu_api::metric::{Attribute, Descriptor};

mod check;

/// Every series of the agent at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When the values were read.
    pub time: SystemTime,
    /// At most one family for each metric, in the order of the catalogue.
    pub families: Vec<Family>,
}

/// The points of one metric.
#[derive(Clone, Debug)]
pub struct Family {
    pub descriptor: &'static Descriptor,
    /// No two have the same attributes.
    pub points: Vec<Point>,
}

/// What distinguishes a series within its metric.
pub type Attributes = Vec<(&'static Attribute, Text)>;

/// The value of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub attributes: Attributes,
    /// When a sum or histogram was zero: the start of the tenant, or of the agent. `None` for gauges, and for
    /// sums that began before anyone could know (the driver's energy counter).
    pub start: Option<SystemTime>,
    pub value: Value,
}

/// The value of a point, of the type that its metric asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    U64(u64),
    I64(i64),
    F64(f64),
    Histogram(Histogram),
}

/// A cumulative distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Upper bounds of all buckets but the last, ascending, in the unit of the metric; a bound is in its bucket.
    pub bounds: &'static [f64],
    /// Counts of the buckets, each for itself: one more than there are bounds.
    pub bucket_counts: Vec<u64>,
    /// Sum of all values in the unit of the metric.
    pub sum: f64,
    /// Number of values: the sum of `bucket_counts`.
    pub count: u64,
}

impl Snapshot {
    /// Starts a snapshot of the values as they are at `time`.
    pub fn builder(time: SystemTime) -> Builder {
        Builder { time, families: HashMap::new() }
    }

    /// The number of points in all families.
    pub fn point_count(&self) -> usize {
        self.families.iter().map(|family| family.points.len()).sum()
    }

    /// The family of `descriptor`, where it has points.
    pub fn family(&self, descriptor: &Descriptor) -> Option<&Family> {
        self.families.iter().find(|family| family.descriptor.name == descriptor.name)
    }
}

/// Collects points in any order.
///
/// In debug builds each point is checked against its descriptor, and the program panics where they differ.
#[derive(Debug)]
pub struct Builder {
    time: SystemTime,
    families: HashMap<&'static str, Family>,
}

impl Builder {
    /// Adds a point of a gauge, or of a sum whose start is not known.
    pub fn point(&mut self, descriptor: &'static Descriptor, attributes: Attributes, value: Value) {
        self.add(descriptor, Point { attributes, start: None, value });
    }

    /// Adds a point of a sum or histogram that was zero at `start`.
    pub fn since(
        &mut self,
        descriptor: &'static Descriptor,
        attributes: Attributes,
        start: SystemTime,
        value: Value,
    ) {
        self.add(descriptor, Point { attributes, start: Some(start), value });
    }

    fn add(&mut self, descriptor: &'static Descriptor, point: Point) {
        #[cfg(debug_assertions)]
        check::point(descriptor, &point);
        self.families
            .entry(descriptor.name)
            .or_insert_with(|| Family { descriptor, points: Vec::new() })
            .points
            .push(point);
    }

    /// Ends the snapshot, with its families in the order of the catalogue.
    pub fn build(mut self) -> Snapshot {
        let families: Vec<_> =
            gpu_api::metric::all().filter_map(|descriptor| self.families.remove(descriptor.name)).collect();
        #[cfg(debug_assertions)]
        {
            check::all_known(&self.families);
            families.iter().for_each(check::distinct);
        }
        Snapshot { time: self.time, families }
    }
}

/// An attribute value: a constant, or text shared by the many points of one tenant or device.
#[derive(Clone)]
pub enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Text {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::Static(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}

impl From<std::borrow::Cow<'static, str>> for Text {
    fn from(text: std::borrow::Cow<'static, str>) -> Self {
        match text {
            std::borrow::Cow::Borrowed(text) => Self::Static(text),
            std::borrow::Cow::Owned(text) => text.into(),
        }
    }
}

#[cfg(test)]
mod tests;
