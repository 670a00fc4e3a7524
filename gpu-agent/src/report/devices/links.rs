//! Traffic and errors of a GPU's links: PCIe and NVLink.

use std::sync::Arc;

use gpu_api::metric::attribute::{ERROR_TYPE, GPU_LINK_ID, NETWORK_IO_DIRECTION};
use gpu_api::metric::device;
use gpu_api::metric::value::{IoDirection, LinkError};

use super::points::{Extra, Points};
use crate::device::Gpu;
use crate::device::reading::{Link, Pcie};
use crate::export::snapshot::Text;

fn direction(direction: IoDirection) -> Extra {
    (&NETWORK_IO_DIRECTION, direction.as_str().into())
}

pub(super) fn add_pcie(points: &mut Points<'_>, pcie: &Pcie, gpu: &Gpu) {
    for (way, bytes, rate) in [
        (IoDirection::Receive, pcie.received_bytes, pcie.receive_bytes_per_second),
        (IoDirection::Transmit, pcie.transmitted_bytes, pcie.transmit_bytes_per_second),
    ] {
        points.int(&device::IO, [direction(way)], bytes);
        points.double(&device::PCIE_THROUGHPUT, [direction(way)], rate);
    }
    points.int(&device::PCIE_LINK_GENERATION, [], pcie.generation.map(u64::from));
    points.int(&device::PCIE_LINK_GENERATION_LIMIT, [], gpu.pcie_generation_max.map(u64::from));
    points.int(&device::PCIE_LINK_WIDTH, [], pcie.width.map(u64::from));
    points.int(&device::PCIE_LINK_WIDTH_LIMIT, [], gpu.pcie_width_max.map(u64::from));
    points.int(&device::PCIE_REPLAYS, [], pcie.replays);
}

pub(super) fn add_nvlinks(points: &mut Points<'_>, links: &[Link]) {
    for link in links {
        let number: Arc<str> = link.link.to_string().into();
        let id = || (&GPU_LINK_ID, Text::Shared(Arc::clone(&number)));
        for (way, bytes, rate) in [
            (IoDirection::Receive, link.received_bytes, link.receive_bytes_per_second),
            (IoDirection::Transmit, link.transmitted_bytes, link.transmit_bytes_per_second),
        ] {
            points.int(&device::LINK_IO, [id(), direction(way)], bytes);
            points.double(&device::LINK_THROUGHPUT, [id(), direction(way)], rate);
        }
        for (error, count) in [
            (LinkError::Replay, link.replay_errors),
            (LinkError::Recovery, link.recovery_errors),
            (LinkError::CrcFlit, link.crc_flit_errors),
            (LinkError::CrcData, link.crc_data_errors),
        ] {
            points.int(&device::LINK_ERRORS, [id(), (&ERROR_TYPE, error.as_str().into())], count);
        }
    }
}
