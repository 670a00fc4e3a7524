//! NVLinks and the ways between GPUs.

use std::collections::BTreeMap;

use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus, TopologyLevel};
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::{Device, Nvml};

use super::fields::{self, Field};
use super::gather::Gather;
use super::inventory::Place;
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
        g.get("nvmlDeviceGetFieldValues", || fields::values(nvml, device, &wanted)).unwrap_or_default();
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
pub(super) fn peers(
    nvml: &Nvml,
    slots: &[Option<Slot<'_>>],
    from: usize,
) -> Result<Vec<PeerLink>, DeviceError> {
    let Some(slot) = slots.get(from).and_then(Option::as_ref) else { return Ok(Vec::new()) };
    let mut gather = Gather::default();
    let own = Remotes::of(&slot.device, &mut gather);
    let speed = common_link_speed(nvml, &slot.device, &mut gather);
    let mut links = Vec::new();
    for peer in slots
        .iter()
        .enumerate()
        .filter(|(position, _)| *position != from)
        .filter_map(|(_, slot)| slot.as_ref())
    {
        let pcie = gather
            .get("nvmlDeviceGetTopologyCommonAncestor", || ancestor(nvml, slot, peer))
            .map(pcie_ancestor);
        let peer_read = gather
            .get("nvmlDeviceGetP2PStatus", || {
                slot.device.p2p_status(&peer.device, P2pCapabilitiesIndex::Read)
            })
            .map(|status| matches!(status, P2pStatus::Ok));
        let theirs = Remotes::of(&peer.device, &mut gather);
        let (nvlinks, through_switch) = own.to(&theirs, peer.pci, &known_places(slots));
        links.push(PeerLink {
            from: slot.uuid.clone(),
            to: peer.uuid.clone(),
            pcie,
            nvlinks,
            through_switch,
            nvlink_bytes_per_second: nvlinks.zip(speed).map(|(links, speed)| u64::from(links) * speed),
            peer_read,
        });
    }
    gather.finish("nvmlDeviceGetTopologyCommonAncestor").map(|_errors| links).or_else(|error| {
        // A GPU that is alone on its machine, or whose driver answers none of this, has no known ways.
        if links_are_optional(&error) { Ok(Vec::new()) } else { Err(error) }
    })
}

fn links_are_optional(error: &DeviceError) -> bool {
    !matches!(error.class.reaction(), Reaction::Reinitialise | Reaction::LoseDevice)
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

fn known_places(slots: &[Option<Slot<'_>>]) -> Vec<Place> {
    slots.iter().flatten().filter_map(|slot| slot.pci).collect()
}

/// What is at the other end of each active link of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Remotes {
    /// Whether the GPU can have links at all.
    known: bool,
    places: Vec<Place>,
}

impl Remotes {
    fn of(device: &Device<'_>, g: &mut Gather) -> Self {
        let known = g
            .get("nvmlDeviceGetNvLinkState", || match device.link_wrapper_for(0).is_active() {
                // A card without NVLink has none, which is a known number.
                Ok(_) | Err(NvmlError::NotSupported) => Ok(()),
                Err(error) => Err(error),
            })
            .is_some();
        let places = active_links(device, g)
            .into_iter()
            .filter_map(|link| {
                g.get("nvmlDeviceGetNvLinkRemotePciInfo_v2", || {
                    device.link_wrapper_for(link).remote_pci_info()
                })
            })
            .map(|pci| (pci.domain, pci.bus, pci.device))
            .collect();
        Self { known, places }
    }

    /// The number of links to a peer, and whether they go through a switch.
    ///
    /// A remote end that is no GPU of this machine is a switch, and a switch connects everything that is attached to it.
    fn to(&self, peer: &Self, peer_place: Option<Place>, gpus: &[Place]) -> (Option<u32>, bool) {
        if !self.known {
            return (None, false);
        }
        let direct = self.places.iter().filter(|place| Some(**place) == peer_place).count();
        let to_switch = |remotes: &Self| remotes.places.iter().filter(|place| !gpus.contains(place)).count();
        let switched = to_switch(self).min(to_switch(peer));
        let (links, through_switch) = if direct > 0 { (direct, false) } else { (switched, switched > 0) };
        (u32::try_from(links).ok(), through_switch)
    }
}

/// Bytes per second of one link in each direction.
fn common_link_speed(nvml: &Nvml, device: &Device<'_>, g: &mut Gather) -> Option<u64> {
    let wanted = [Field { id: field_id::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, scope: 0 }];
    let values = g.get("nvmlDeviceGetFieldValues", || fields::values(nvml, device, &wanted))?;
    // The field is in MB/s in spite of its name (`nvml.h`: "Common NVLink Speed in MBps for active links").
    let megabytes = values.first().copied().flatten().and_then(known_u64).filter(|speed| *speed > 0)?;
    megabytes.checked_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Place = (0, 1, 0);
    const B: Place = (0, 2, 0);
    const C: Place = (0, 3, 0);
    const SWITCH: Place = (0, 0xc0, 0);

    fn remotes(places: &[Place]) -> Remotes {
        Remotes { known: true, places: places.to_vec() }
    }

    #[test]
    fn direct_links_are_counted_for_each_peer() {
        let gpus = [A, B, C];
        let a = remotes(&[B, B, C]);
        assert_eq!(a.to(&remotes(&[A, A]), Some(B), &gpus), (Some(2), false));
        assert_eq!(a.to(&remotes(&[A]), Some(C), &gpus), (Some(1), false));
        assert_eq!(remotes(&[A, A]).to(&remotes(&[A]), Some(C), &gpus), (Some(0), false));
    }

    #[test]
    fn a_switch_connects_with_as_many_links_as_the_lesser_side_has() {
        let gpus = [A, B];
        assert_eq!(remotes(&[SWITCH; 18]).to(&remotes(&[SWITCH; 16]), Some(B), &gpus), (Some(16), true));
        assert_eq!(remotes(&[SWITCH; 18]).to(&remotes(&[]), Some(B), &gpus), (Some(0), false));
    }

    #[test]
    fn a_gpu_that_does_not_answer_has_an_unknown_number_of_links() {
        assert_eq!(Remotes::default().to(&remotes(&[A]), Some(B), &[A, B]), (None, false));
    }
}
