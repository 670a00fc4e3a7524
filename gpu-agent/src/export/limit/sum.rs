//! Sums and increases of values of one metric.

use crate::export::snapshot::{Histogram, Value};

/// Adds `value` to `total`. Values of different types do not meet in one metric; if they did, the first stays.
pub(super) fn add(total: &mut Option<Value>, value: Value) {
    match (total, value) {
        (Some(Value::U64(total)), Value::U64(value)) => *total = total.saturating_add(value),
        (Some(Value::I64(total)), Value::I64(value)) => *total = total.saturating_add(value),
        (Some(Value::F64(total)), Value::F64(value)) => *total += value,
        (Some(Value::Histogram(total)), Value::Histogram(value)) => {
            for (total, value) in total.bucket_counts.iter_mut().zip(value.bucket_counts) {
                *total += value;
            }
            total.sum += value.sum;
            total.count += value.count;
        }
        (Some(_), _) => {}
        (total @ None, value) => *total = Some(value),
    }
}

/// By how much a sum grew since it was `last`: all of it where it is new or began again.
pub(super) fn increase(value: &Value, last: Option<&Value>) -> Value {
    match (value, last) {
        (Value::U64(value), Some(Value::U64(last))) => Value::U64(value.checked_sub(*last).unwrap_or(*value)),
        (Value::I64(value), Some(Value::I64(last))) if value >= last => Value::I64(value - last),
        (Value::F64(value), Some(Value::F64(last))) if value >= last => Value::F64(value - last),
        (Value::Histogram(value), Some(Value::Histogram(last))) if value.count >= last.count => {
            Value::Histogram(Histogram {
                bounds: value.bounds,
                bucket_counts: value
                    .bucket_counts
                    .iter()
                    .zip(&last.bucket_counts)
                    .map(|(value, last)| value.saturating_sub(*last))
                    .collect(),
                sum: value.sum - last.sum,
                count: value.count - last.count,
            })
        }
        (value, _) => value.clone(),
    }
}
