//! A snapshot with every kind of metric and of value, for the exporters' tests.

use std::time::{Duration, SystemTime};

use gpu_api::metric::attribute::{
    ERROR_TYPE, GPU_AGENT_VERSION, GPU_CALL, GPU_MEMORY_KIND, GPU_TENANT_KIND, GPU_TENANT_NAME, HW_GPU_TASK,
    HW_ID, HW_STATE, HW_TYPE,
};
use gpu_api::metric::{Descriptor, Kind, Number, Requirement, agent, device, tenant};

use super::snapshot::{Attributes, Histogram, Snapshot, Value};

/// One microsecond, one millisecond, one second.
pub(crate) const BOUNDS: &[f64] = &[1e-6, 1e-3, 1.0];

pub(crate) fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

/// The tenant began at second 0, the snapshot is of second 60.
pub(crate) fn snapshot() -> Snapshot {
    let gpu = || -> Attributes { vec![(&HW_ID, "GPU-5f0e9c0a-0000-4000-8000-000000000001".into())] };
    let typed = || -> Attributes { [gpu(), vec![(&HW_TYPE, "gpu".into())]].concat() };
    let who = || -> Attributes {
        let name = String::from("team \"a\"\\b");
        [gpu(), vec![(&GPU_TENANT_NAME, name.into()), (&GPU_TENANT_KIND, "configured".into())]].concat()
    };
    let with = |mut attributes: Attributes, more: Attributes| {
        attributes.extend(more);
        attributes
    };

    let mut builder = Snapshot::builder(time(60));
    builder.point(&device::STATUS, with(typed(), vec![(&HW_STATE, "ok".into())]), Value::U64(1));
    builder.point(
        &device::UTILIZATION,
        with(gpu(), vec![(&HW_GPU_TASK, "general".into())]),
        Value::F64(0.25),
    );
    builder.point(&device::MEMORY_LIMIT, gpu(), Value::U64(85_899_345_920));
    builder.point(&device::ENERGY, typed(), Value::F64(1_234.5));
    builder.since(&tenant::LAUNCHES, who(), time(0), Value::U64(u64::from(u32::MAX) + 1));
    builder.since(
        &tenant::SYNC_DURATION,
        who(),
        time(0),
        Value::Histogram(Histogram { bounds: BOUNDS, bucket_counts: vec![1, 0, 2, 1], sum: 3.5, count: 4 }),
    );
    builder.since(
        &tenant::MEMORY_USAGE,
        with(who(), vec![(&GPU_MEMORY_KIND, "device".into())]),
        time(0),
        Value::U64(1 << 30),
    );
    builder.since(
        &tenant::ERRORS,
        with(who(), vec![(&GPU_CALL, "alloc".into()), (&ERROR_TYPE, "CUDA_ERROR_OUT_OF_MEMORY".into())]),
        time(0),
        Value::U64(2),
    );
    builder.point(&agent::BUILD_INFO, vec![(&GPU_AGENT_VERSION, "0.1.0".into())], Value::U64(1));
    builder.since(&agent::BLIND_DURATION, vec![], time(0), Value::F64(0.5));
    builder.point(&agent::LEDGER_DISCREPANCY, who(), Value::I64(-4096));
    builder.build()
}

/// One point of every metric in the catalogue, with all the attributes that it requires.
pub(crate) fn catalogue() -> Snapshot {
    let mut builder = Snapshot::builder(time(60));
    for descriptor in gpu_api::metric::all() {
        let required = descriptor.attributes().filter(|used| used.requirement == Requirement::Required);
        let attributes = required
            .map(|used| (used.attribute, used.attribute.values.first().copied().unwrap_or("some").into()))
            .collect();
        builder.since(descriptor, attributes, time(0), one(descriptor));
    }
    builder.build()
}

fn one(descriptor: &Descriptor) -> Value {
    match (descriptor.kind, descriptor.number) {
        (Kind::Histogram, _) => Value::Histogram(Histogram {
            bounds: BOUNDS,
            bucket_counts: vec![0, 1, 0, 0],
            sum: 1e-4,
            count: 1,
        }),
        (_, Number::Int) => Value::U64(1),
        (_, Number::Double) => Value::F64(1.0),
    }
}
