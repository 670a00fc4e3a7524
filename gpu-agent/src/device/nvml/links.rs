//! NVLinks and the ways between GPUs.

use std::collections::BTreeMap;

use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus, TopologyLevel};
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::{Device, Nvml};

use super::gather::Gather;
use super::inventory::Place;
use super::raw::{self, Field};
use super::session::Slot;
use crate::device::error::{DeviceError, Reaction};
use crate::device::model::{PcieAncestor, PeerLink};
use crate::device::reading::Link;
use crate::device::sentinel::known_u64;

/// `NVML_NVLINK_MAX_LINKS`: no GPU has more.
pub(super) const LINKS_MAX: u32 = 18;

/// Readings between two looks at the links' error counters, which cost four calls for each link.
const ERROR_COUNTER_PERIOD: u32 = 10;

/// The links' error counters as they were last seen.
#[derive(Debug, Default)]
pub(super) struct LinkErrors {
    readings_left: u32,
    by_link: BTreeMap<u32, Link>,
}

/// Every active link of a GPU.
pub(super) fn read(nvml: &Nvml, device: &Device<'_>, errors: &mut LinkErrors, g: &mut Gather) -> Vec<Link> {
    let active = active_links(device, g);
    if active.is_empty() {
        return Vec::new();
    }
    if errors.readings_left == 0 {
        errors.by_link = active.iter().map(|link| (*link, error_counters(device, *link, g))).collect();
        errors.readings_left = ERROR_COUNTER_PERIOD;
    }
    errors.readings_left -= 1;
    let wanted: Vec<Field> = active
        .iter()
        .flat_map(|link| {
            [field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX]
                .map(|id| Field { id, scope: *link })
        })
        .collect();
    let traffic =
        g.get("nvmlDeviceGetFieldValues", || raw::field_values(nvml, device, &wanted)).unwrap_or_default();
    let bytes = |position: usize| {
        let kib = traffic.get(position).copied().flatten().and_then(known_u64)?;
        kib.checked_mul(1024)
    };
    active
        .iter()
        .enumerate()
        .map(|(position, link)| Link {
            link: *link,
            transmitted_bytes: bytes(2 * position),
            received_bytes: bytes(2 * position + 1),
            ..errors.by_link.get(link).copied().unwrap_or_default()
        })
        .collect()
}

fn active_links(device: &Device<'_>, g: &mut Gather) -> Vec<u32> {
    let mut active = Vec::new();
    for link in 0..LINKS_MAX {
        match g.get("nvmlDeviceGetNvLinkState", || device.link_wrapper_for(link).is_active()) {
            Some(true) => active.push(link),
            Some(false) => {}
            // The GPU has no link of this number, and so none above it.
            None => break,
        }
    }
    active
}

fn error_counters(device: &Device<'_>, link: u32, g: &mut Gather) -> Link {
    let mut counter = |which: ErrorCounter| {
        g.get("nvmlDeviceGetNvLinkErrorCounter", || device.link_wrapper_for(link).error_counter(which))
            .and_then(known_u64)
    };
    Link {
        link,
        replay_errors: counter(ErrorCounter::DlReplay),
        recovery_errors: counter(ErrorCounter::DlRecovery),
        crc_flit_errors: counter(ErrorCounter::DlCrcFlit),
        crc_data_errors: counter(ErrorCounter::DlCrcData),
        ..Link::default()
    }
}

/// The ways from the GPU in one slot to those in the others.
///
/// A call about two GPUs that fails may be the other one's fault, so that it only costs the value. A GPU that is lost says so
/// at its own next reading.
pub(super) fn peers(
    nvml: &Nvml,
    slots: &[Option<Slot<'_>>],
    from: usize,
) -> Result<Vec<PeerLink>, DeviceError> {
    let Some(slot) = slots.get(from).and_then(Option::as_ref) else { return Ok(Vec::new()) };
    let mut own = Gather::default();
    let speed = common_link_speed(nvml, &slot.device, &mut own);
    let peers = slots.iter().enumerate().filter(|(position, _)| *position != from);
    let mut links = Vec::new();
    for peer in peers.filter_map(|(_, slot)| slot.as_ref()) {
        let mut pair = Gather::default();
        let pcie =
            pair.get("nvmlDeviceGetTopologyCommonAncestor", || ancestor(nvml, slot, peer)).map(pcie_ancestor);
        let peer_read = pair
            .get("nvmlDeviceGetP2PStatus", || {
                slot.device.p2p_status(&peer.device, P2pCapabilitiesIndex::Read)
            })
            .map(|status| matches!(status, P2pStatus::Ok));
        if let Err(error) = pair.finish("nvmlDeviceGetTopologyCommonAncestor")
            && error.class.reaction() == Reaction::Reinitialise
        {
            return Err(error);
        }
        let nvlinks = slot.far_ends.links_to(&peer.far_ends, peer.pci);
        links.push(PeerLink {
            from: slot.uuid.clone(),
            to: peer.uuid.clone(),
            pcie,
            nvlinks: nvlinks.map(|(links, _)| links),
            through_switch: nvlinks.is_some_and(|(_, through_switch)| through_switch),
            nvlink_bytes_per_second: nvlinks.zip(speed).map(|((links, _), speed)| u64::from(links) * speed),
            peer_read,
        });
    }
    Ok(links)
}

fn ancestor(nvml: &Nvml, slot: &Slot<'_>, peer: &Slot<'_>) -> Result<TopologyLevel, NvmlError> {
    // The wrapper takes the other device by value, and `Device` is not `Copy`.
    let other = nvml.device_by_uuid(peer.uuid.as_str())?;
    slot.device.topology_common_ancestor(other)
}

fn pcie_ancestor(level: TopologyLevel) -> PcieAncestor {
    match level {
        TopologyLevel::Internal => PcieAncestor::Internal,
        TopologyLevel::Single => PcieAncestor::SingleSwitch,
        TopologyLevel::Multiple => PcieAncestor::MultipleSwitches,
        TopologyLevel::HostBridge => PcieAncestor::HostBridge,
        TopologyLevel::Node => PcieAncestor::NumaNode,
        TopologyLevel::System => PcieAncestor::System,
    }
}

/// What is at the other end of each active link of a GPU; `None` where the GPU did not say whether it has links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FarEnds(Option<Vec<FarEnd>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FarEnd {
    Switch,
    Place(Place),
}

impl FarEnds {
    pub(super) fn of(nvml: &Nvml, device: &Device<'_>) -> Self {
        match device.link_wrapper_for(0).is_active() {
            // A card without NVLink has none, which is a known number.
            Ok(_) | Err(NvmlError::NotSupported) => {}
            Err(_) => return Self(None),
        }
        let mut g = Gather::default();
        let mut ends = Vec::new();
        for link in active_links(device, &mut g) {
            let is_switch =
                g.get("nvmlDeviceGetNvLinkRemoteDeviceType", || raw::leads_to_switch(nvml, device, link));
            if is_switch == Some(true) {
                ends.push(FarEnd::Switch);
                continue;
            }
            let remote = g.get("nvmlDeviceGetNvLinkRemotePciInfo_v2", || {
                device.link_wrapper_for(link).remote_pci_info()
            });
            ends.extend(remote.map(|pci| FarEnd::Place((pci.domain, pci.bus, pci.device))));
        }
        Self(Some(ends))
    }

    /// The number of links to a peer, and whether they go through a switch, which connects all that is attached to it.
    fn links_to(&self, peer: &Self, peer_place: Option<Place>) -> Option<(u32, bool)> {
        let ends = self.0.as_ref()?;
        let direct =
            ends.iter().filter(|end| peer_place.is_some_and(|place| **end == FarEnd::Place(place))).count();
        if direct > 0 {
            return Some((u32::try_from(direct).ok()?, false));
        }
        let switched = self.switched()?.min(peer.switched()?);
        Some((u32::try_from(switched).ok()?, switched > 0))
    }

    fn switched(&self) -> Option<usize> {
        Some(self.0.as_ref()?.iter().filter(|end| **end == FarEnd::Switch).count())
    }
}

/// Bytes per second of one link in each direction.
fn common_link_speed(nvml: &Nvml, device: &Device<'_>, g: &mut Gather) -> Option<u64> {
    let wanted = [Field { id: field_id::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, scope: 0 }];
    let values = g.get("nvmlDeviceGetFieldValues", || raw::field_values(nvml, device, &wanted))?;
    // The field is in MB/s in spite of its name (`nvml.h`: "Common NVLink Speed in MBps for active links").
    let megabytes = values.first().copied().flatten().and_then(known_u64).filter(|speed| *speed > 0)?;
    megabytes.checked_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FarEnd = FarEnd::Place((0, 1, 0));
    const B: FarEnd = FarEnd::Place((0, 2, 0));
    const AT_B: Option<Place> = Some((0, 2, 0));
    const AT_C: Option<Place> = Some((0, 3, 0));

    fn ends(ends: &[FarEnd]) -> FarEnds {
        FarEnds(Some(ends.to_vec()))
    }

    #[test]
    fn direct_links_are_counted_for_each_peer() {
        let a = ends(&[B, B, FarEnd::Place((0, 3, 0))]);
        assert_eq!(a.links_to(&ends(&[A, A]), AT_B), Some((2, false)));
        assert_eq!(a.links_to(&ends(&[A]), AT_C), Some((1, false)));
        assert_eq!(ends(&[B, B]).links_to(&ends(&[B]), AT_C), Some((0, false)));
    }

    #[test]
    fn a_switch_connects_with_as_many_links_as_the_lesser_side_has() {
        assert_eq!(
            ends(&[FarEnd::Switch; 18]).links_to(&ends(&[FarEnd::Switch; 16]), AT_B),
            Some((16, true))
        );
        assert_eq!(ends(&[FarEnd::Switch; 18]).links_to(&ends(&[]), AT_B), Some((0, false)));
    }

    #[test]
    fn a_link_to_a_gpu_that_is_not_there_leads_to_nobody() {
        let (lost_peer, other) = (ends(&[B]), ends(&[B]));
        assert_eq!(
            lost_peer.links_to(&other, AT_C),
            Some((0, false)),
            "it is no switch between those that are left"
        );
    }

    #[test]
    fn a_gpu_that_does_not_answer_has_an_unknown_number_of_links() {
        assert_eq!(FarEnds(None).links_to(&ends(&[A]), AT_B), None);
        assert_eq!(ends(&[FarEnd::Switch]).links_to(&FarEnds(None), AT_B), None);
    }
}
