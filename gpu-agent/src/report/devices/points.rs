//! Points of one GPU: its labels are made once and shared by all of them.

use std::sync::Arc;
use std::time::SystemTime;

use gpu_api::metric::attribute::{HW_ID, HW_NAME, HW_PARENT, HW_TYPE};
use gpu_api::metric::{Attribute, Descriptor};

use crate::device::Gpu;
use crate::export::snapshot::{Attributes, Builder, Text, Value};

/// An attribute of a point beside those of its GPU.
pub(super) type Extra = (&'static Attribute, Text);

/// `hw.type`, for the metrics of the conventions that ask for it.
pub(super) fn typed() -> Extra {
    (&HW_TYPE, Text::Static("gpu"))
}

/// The attributes that every point of a GPU has.
#[derive(Debug)]
pub(super) struct Labels {
    id: Arc<str>,
    name: Option<Arc<str>>,
    parent: Option<Arc<str>>,
}

impl Labels {
    pub(super) fn of(gpu: &Gpu) -> Self {
        Self {
            id: gpu.uuid.as_str().into(),
            name: gpu.minor_number.map(|minor| format!("nvidia{minor}").into()),
            parent: gpu.parent.as_ref().map(|parent| parent.as_str().into()),
        }
    }

    /// The value of `hw.id`.
    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    fn with(&self, extra: impl ExactSizeIterator<Item = Extra>) -> Attributes {
        let shared = |text: &Arc<str>| Text::Shared(Arc::clone(text));
        let mut attributes = Vec::with_capacity(3 + extra.len());
        attributes.push((&HW_ID, shared(&self.id)));
        attributes.extend(self.name.as_ref().map(|name| (&HW_NAME, shared(name))));
        attributes.extend(self.parent.as_ref().map(|parent| (&HW_PARENT, shared(parent))));
        attributes.extend(extra);
        attributes
    }
}

/// Adds points of one GPU. A value that is `None` is not known and gives no point.
#[derive(Debug)]
pub(super) struct Points<'a> {
    builder: &'a mut Builder,
    labels: &'a Labels,
}

impl<'a> Points<'a> {
    pub(super) fn new(builder: &'a mut Builder, labels: &'a Labels) -> Self {
        Self { builder, labels }
    }

    /// A whole number: a gauge, or a sum whose start is not known.
    pub(super) fn int<const N: usize>(
        &mut self,
        descriptor: &'static Descriptor,
        extra: [Extra; N],
        value: Option<u64>,
    ) {
        if let Some(value) = value {
            self.builder.point(descriptor, self.labels.with(extra.into_iter()), Value::U64(value));
        }
    }

    /// A double: a gauge, or a sum whose start is not known.
    pub(super) fn double<const N: usize>(
        &mut self,
        descriptor: &'static Descriptor,
        extra: [Extra; N],
        value: Option<f64>,
    ) {
        if let Some(value) = value {
            self.builder.point(descriptor, self.labels.with(extra.into_iter()), Value::F64(value));
        }
    }

    /// Yes or no, as 1 or 0.
    pub(super) fn flag<const N: usize>(
        &mut self,
        descriptor: &'static Descriptor,
        extra: [Extra; N],
        value: Option<bool>,
    ) {
        self.int(descriptor, extra, value.map(u64::from));
    }

    /// A count that was zero at `start`.
    pub(super) fn count_since<const N: usize>(
        &mut self,
        descriptor: &'static Descriptor,
        extra: [Extra; N],
        start: SystemTime,
        count: u64,
    ) {
        self.builder.since(descriptor, self.labels.with(extra.into_iter()), start, Value::U64(count));
    }

    /// Always 1; the attributes are the message.
    pub(super) fn info(&mut self, descriptor: &'static Descriptor, extra: Vec<Extra>) {
        self.builder.point(descriptor, self.labels.with(extra.into_iter()), Value::U64(1));
    }
}

/// A value for a metric that is a double.
#[expect(clippy::cast_precision_loss, reason = "a metric's value: 53 bits of a size are more than enough")]
pub(super) fn as_f64(value: u64) -> f64 {
    value as f64
}
