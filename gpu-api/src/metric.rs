//! Every metric that this system exports: one catalogue, from which exporters, documentation, dashboards
//! and their tests take names, units and attributes.
//!
//! Names follow the OpenTelemetry semantic conventions for hardware (`hw.*`); what they lack is under `gpu.`.

pub mod agent;
pub mod attribute;
pub mod device;
pub mod prometheus;
pub mod table;
pub mod tenant;
pub mod value;

pub use attribute::{Attribute, AttributeUse, Requirement};
pub use prometheus::prometheus_name;
pub use table::markdown_table;

/// What a metric is and how its points may be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sum that only grows while the series lives; it starts again from zero with a new start time.
    Counter,
    /// A sum that grows and shrinks; adding it over attributes has a meaning.
    UpDownCounter,
    /// A reading; adding it over attributes has none.
    Gauge,
    /// A cumulative distribution with explicit bucket bounds.
    Histogram,
}

impl Kind {
    /// The OpenTelemetry name of the instrument.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::UpDownCounter => "updowncounter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The type of a point's value; a histogram's sum has it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// A whole number, exact over its whole range up to 2^63.
    Int,
    /// A double.
    Double,
}

/// How much users can rely on a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Defined by the OpenTelemetry semantic conventions, whose `hw.*` group is itself in development.
    Convention,
    /// Defined here; a change of name or meaning is a breaking change of this product.
    Stable,
    /// Defined here and derived by a heuristic: good for comparing, not for billing.
    Estimate,
}

impl Status {
    /// The word that the reference table shows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Convention => "convention",
            Self::Stable => "stable",
            Self::Estimate => "estimate",
        }
    }
}

/// One metric: everything about it but its points.
#[derive(Debug)]
pub struct Descriptor {
    /// OpenTelemetry name, with dots.
    pub name: &'static str,
    /// UCUM unit; annotations in braces count things.
    pub unit: &'static str,
    pub kind: Kind,
    pub number: Number,
    /// One sentence, with what is left out.
    pub description: &'static str,
    /// Attributes in groups that metrics share; [`Descriptor::attributes`] walks them.
    pub attribute_groups: &'static [&'static [AttributeUse]],
    pub status: Status,
}

impl Descriptor {
    const fn new(
        name: &'static str,
        unit: &'static str,
        kind: Kind,
        number: Number,
        attribute_groups: &'static [&'static [AttributeUse]],
        description: &'static str,
    ) -> Self {
        Self { name, unit, kind, number, description, attribute_groups, status: Status::Stable }
    }

    const fn counter(
        name: &'static str,
        unit: &'static str,
        number: Number,
        attribute_groups: &'static [&'static [AttributeUse]],
        description: &'static str,
    ) -> Self {
        Self::new(name, unit, Kind::Counter, number, attribute_groups, description)
    }

    const fn up_down_counter(
        name: &'static str,
        unit: &'static str,
        attribute_groups: &'static [&'static [AttributeUse]],
        description: &'static str,
    ) -> Self {
        Self::new(name, unit, Kind::UpDownCounter, Number::Int, attribute_groups, description)
    }

    const fn gauge(
        name: &'static str,
        unit: &'static str,
        number: Number,
        attribute_groups: &'static [&'static [AttributeUse]],
        description: &'static str,
    ) -> Self {
        Self::new(name, unit, Kind::Gauge, number, attribute_groups, description)
    }

    const fn histogram(
        name: &'static str,
        unit: &'static str,
        attribute_groups: &'static [&'static [AttributeUse]],
        description: &'static str,
    ) -> Self {
        Self::new(name, unit, Kind::Histogram, Number::Double, attribute_groups, description)
    }

    const fn status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// The attributes in the order in which they are documented.
    pub fn attributes(&self) -> impl Iterator<Item = &'static AttributeUse> + use<> {
        self.attribute_groups.iter().copied().flatten()
    }
}

/// The whole catalogue, in the order in which exporters and documentation list it: devices, tenants, agent.
pub fn all() -> impl Iterator<Item = &'static Descriptor> {
    [device::ALL, tenant::ALL, agent::ALL].into_iter().flatten().copied()
}

#[cfg(test)]
mod tests;
