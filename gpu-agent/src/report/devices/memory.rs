//! A GPU's memory: how much of it there is, and what is wrong with it.

use gpu_api::metric::attribute::ERROR_TYPE;
use gpu_api::metric::device;
use gpu_api::metric::value::EccError;

use super::points::{Points, as_f64, typed};
use crate::device::reading::{Ecc, Memory, Rows};

/// `total_bytes` is what the GPU said of its size when it was identified.
pub(super) fn add(points: &mut Points<'_>, memory: &Memory, total_bytes: Option<u64>) {
    let limit = memory.total_bytes.or(total_bytes);
    points.int(&device::MEMORY_LIMIT, [], limit);
    points.int(&device::MEMORY_USAGE, [], memory.used_bytes);
    let ratio = memory.used_bytes.zip(limit.filter(|limit| *limit > 0));
    points.double(&device::MEMORY_UTILIZATION, [], ratio.map(|(used, limit)| as_f64(used) / as_f64(limit)));
    points.int(&device::MEMORY_RESERVED, [], memory.reserved_bytes);
    points.int(&device::BAR1_LIMIT, [], memory.bar1_total_bytes);
    points.int(&device::BAR1_USAGE, [], memory.bar1_used_bytes);
}

pub(super) fn add_ecc(points: &mut Points<'_>, ecc: &Ecc) {
    let Ecc { corrected, uncorrected, corrected_lifetime, uncorrected_lifetime } = *ecc;
    for (error, since_load, lifetime) in [
        (EccError::Corrected, corrected, corrected_lifetime),
        (EccError::Uncorrected, uncorrected, uncorrected_lifetime),
    ] {
        let error = (&ERROR_TYPE, error.as_str().into());
        points.int(&device::ERRORS, [typed(), error.clone()], since_load);
        points.int(&device::ECC_LIFETIME_ERRORS, [error], lifetime);
    }
}

pub(super) fn add_rows(points: &mut Points<'_>, rows: &Rows) {
    let Rows { remapped_corrected, remapped_uncorrected, pending, failed } = *rows;
    for (error, count) in
        [(EccError::Corrected, remapped_corrected), (EccError::Uncorrected, remapped_uncorrected)]
    {
        points.int(&device::ROW_REMAPS, [(&ERROR_TYPE, error.as_str().into())], count);
    }
    points.flag(&device::ROW_REMAP_PENDING, [], pending);
    points.flag(&device::ROW_REMAP_FAILED, [], failed);
}
