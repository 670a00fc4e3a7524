use std::time::SystemTime;

use gpu_api::metric::attribute::{ERROR_TYPE, GPU_AGENT_MAP_NAME, HW_GPU_TASK, HW_ID};
use gpu_api::metric::{Descriptor, agent, device};

use super::{Attributes, Histogram, Snapshot, Value};

/// The message with which adding one point panics, `None` where it is taken.
#[cfg(debug_assertions)]
fn refusal(descriptor: &'static Descriptor, attributes: Attributes, value: Value) -> Option<String> {
    let panic = std::panic::catch_unwind(|| {
        let mut builder = Snapshot::builder(SystemTime::UNIX_EPOCH);
        builder.point(descriptor, attributes, value);
        builder.build()
    })
    .err()?;
    Some(panic.downcast_ref::<String>().expect("the checks format their message").clone())
}

#[cfg(debug_assertions)]
#[test]
fn points_that_differ_from_their_descriptor_are_refused() {
    let id = || (&HW_ID, "GPU-0".into());
    let message = |descriptor, attributes, value| refusal(descriptor, attributes, value).unwrap_or_default();

    assert_eq!(refusal(&device::MEMORY_USAGE, vec![id()], Value::U64(1)), None);
    assert_eq!(
        message(&device::MEMORY_USAGE, vec![], Value::U64(1)),
        "hw.gpu.memory.usage: attribute hw.id is missing"
    );
    assert_eq!(
        message(&device::MEMORY_USAGE, vec![id(), id()], Value::U64(1)),
        "hw.gpu.memory.usage: attribute hw.id given twice"
    );
    assert_eq!(
        message(&device::MEMORY_USAGE, vec![id(), (&ERROR_TYPE, "x".into())], Value::U64(1)),
        "hw.gpu.memory.usage: attribute error.type is not in the catalogue"
    );
    assert_eq!(
        message(&device::UTILIZATION, vec![id(), (&HW_GPU_TASK, "gaming".into())], Value::F64(1.0)),
        "hw.gpu.utilization: hw.gpu.task has no value \"gaming\""
    );
    assert_eq!(
        message(&device::MEMORY_USAGE, vec![id()], Value::F64(1.0)),
        "hw.gpu.memory.usage is a UpDownCounter of Int, not F64(1.0)"
    );
    assert_eq!(
        message(&device::MEMORY_UTILIZATION, vec![id()], Value::F64(f64::NAN)),
        "hw.gpu.memory.utilization: NaN is not a number; unknown is absent"
    );
    let histogram = Histogram { bounds: &[1.0], bucket_counts: vec![1, 1], sum: 2.0, count: 2 };
    assert!(refusal(&device::POWER, vec![id()], Value::Histogram(histogram)).is_some());
}

#[cfg(debug_assertions)]
#[test]
fn two_points_of_one_series_are_refused() {
    let twice = std::panic::catch_unwind(|| {
        let mut builder = Snapshot::builder(SystemTime::UNIX_EPOCH);
        builder.point(&device::MEMORY_USAGE, vec![(&HW_ID, "GPU-0".into())], Value::U64(1));
        builder.point(&device::MEMORY_USAGE, vec![(&HW_ID, String::from("GPU-0").into())], Value::U64(2));
        builder.build()
    });
    assert!(twice.is_err());
}

#[test]
fn families_come_in_the_order_of_the_catalogue() {
    let mut builder = Snapshot::builder(SystemTime::UNIX_EPOCH);
    builder.point(&agent::MAP_ENTRIES, vec![(&GPU_AGENT_MAP_NAME, "calls".into())], Value::U64(3));
    builder.point(&device::MEMORY_LIMIT, vec![(&HW_ID, "GPU-0".into())], Value::U64(1));
    builder.point(&agent::MAP_ENTRIES, vec![(&GPU_AGENT_MAP_NAME, "ring".into())], Value::U64(4));
    let snapshot = builder.build();

    let shape: Vec<_> =
        snapshot.families.iter().map(|family| (family.descriptor.name, family.points.len())).collect();
    assert_eq!(shape, [("hw.gpu.memory.limit", 1), ("gpu.agent.map.entries", 2)]);
    assert_eq!(snapshot.point_count(), 3);
}
