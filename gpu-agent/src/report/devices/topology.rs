//! The ways between the GPUs of a node.
//!
//! Bandwidth is given for NVLink, where the driver states it. The driver names only the nearest common ancestor of two GPUs
//! on PCIe, and what that path can carry depends on switches and bridges of which it says nothing: that way has a type
//! and no bandwidth.

use std::sync::Arc;
use std::time::Duration;

use gpu_api::metric::attribute::{GPU_LINK_TYPE, GPU_PEER_ID};
use gpu_api::metric::device;
use gpu_api::metric::value::{DeviceCondition, LinkType};
use tokio::time::Instant;

use super::points::{Extra, Labels, Points, as_f64};
use super::state;
use crate::device::{DeviceSnapshot, GpuUuid, PcieAncestor, PeerLink};
use crate::export::snapshot::{Builder, Text};

/// `labels` are those of the snapshot's GPUs, in their order. A GPU that does not answer has no ways, nor have the others
/// to it.
pub(super) fn add(
    builder: &mut Builder,
    devices: &DeviceSnapshot,
    labels: &[Labels],
    now: Instant,
    max_age: Duration,
) {
    let answering = |uuid: &GpuUuid| {
        let mut gpus = devices.gpus.iter().zip(labels);
        let (state, labels) = gpus.find(|(state, _)| state.gpu.uuid == *uuid)?;
        (state::condition(state, now, max_age) == DeviceCondition::Ok).then_some(labels)
    };
    for link in devices.topology.iter() {
        if let Some((from, to)) = answering(&link.from).zip(answering(&link.to)) {
            add_way(&mut Points::new(builder, from), link, to.id());
        }
    }
}

fn add_way(points: &mut Points<'_>, link: &PeerLink, peer: &Arc<str>) {
    let peer = || -> Extra { (&GPU_PEER_ID, Text::Shared(Arc::clone(peer))) };
    let way = |link_type: LinkType| [peer(), (&GPU_LINK_TYPE, link_type.as_str().into())];
    points.int(&device::TOPOLOGY_LINKS, way(LinkType::NvLink), link.nvlinks.map(u64::from));
    if let Some(ancestor) = link.pcie {
        points.int(&device::TOPOLOGY_LINKS, way(link_type(ancestor)), Some(1));
    }
    let bandwidth = link.nvlink_bytes_per_second.filter(|_| link.nvlinks.is_some_and(|links| links > 0));
    points.double(&device::TOPOLOGY_BANDWIDTH, way(LinkType::NvLink), bandwidth.map(as_f64));
    points.flag(&device::TOPOLOGY_PEER_ACCESS, [peer()], link.peer_read);
}

fn link_type(ancestor: PcieAncestor) -> LinkType {
    match ancestor {
        PcieAncestor::Internal => LinkType::Internal,
        PcieAncestor::SingleSwitch => LinkType::PcieSwitch,
        PcieAncestor::MultipleSwitches => LinkType::PcieSwitches,
        PcieAncestor::HostBridge => LinkType::HostBridge,
        PcieAncestor::NumaNode => LinkType::NumaNode,
        PcieAncestor::System => LinkType::System,
    }
}
