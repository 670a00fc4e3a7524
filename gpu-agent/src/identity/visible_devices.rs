//! Which GPUs a process sees, in the order of its CUDA ordinals.
//!
//! Sources: the CUDA programming guide's chapter on environment variables (a value that names no device hides
//! that and every later entry; the default order is FASTEST_FIRST), the MIG user guide's chapter on
//! CUDA_VISIBLE_DEVICES (a process enumerates at most one MIG device), the container toolkit's guide for
//! NVIDIA_VISIBLE_DEVICES, and nvitop's observations of the driver: an empty value hides all, a device that is
//! named twice hides all, numbers are read like C's atoi, and an index of a GPU with MIG gives its first MIG
//! device. NVML numbers GPUs by PCI address.

mod entry;

use thiserror::Error;

use self::entry::Entry;

/// A GPU of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// NVML's UUID, `GPU-…`.
    pub uuid: String,
    /// NVML's index.
    pub index: u32,
    /// PCI address, `domain:bus:device.function` in hexadecimal.
    pub pci_bus_id: String,
    /// Model name.
    pub model: String,
    /// MIG devices by NVML's index; `None` while MIG is off.
    pub mig: Option<Vec<MigDevice>>,
}

/// A MIG device: a compute instance of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigDevice {
    /// NVML's UUID, `MIG-…`.
    pub uuid: String,
    /// GPU instance.
    pub gpu_instance_id: u32,
    /// Compute instance within the GPU instance.
    pub compute_instance_id: u32,
}

/// What a process's environment says. All of it can be changed by the tenant, and by the process after its start
/// without our seeing it, so a result is a hypothesis until NVML agrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Environment<'a> {
    /// `CUDA_VISIBLE_DEVICES`; absent and empty differ.
    pub cuda_visible_devices: Option<&'a str>,
    /// `CUDA_DEVICE_ORDER`.
    pub cuda_device_order: Option<&'a str>,
    /// `NVIDIA_VISIBLE_DEVICES` of the process's container; `None` for a process outside containers, where it
    /// has no effect.
    pub container_devices: Option<&'a str>,
}

/// Why the visible GPUs cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotKnowable {
    /// CUDA orders different models by a measure of its own.
    #[error("the node has different GPU models and CUDA_DEVICE_ORDER is not PCI_BUS_ID")]
    FastestFirst,
    /// An entry names a device that the node does not have, as far as is known.
    #[error("`{0}` names no known GPU")]
    UnknownDevice(String),
    /// An abbreviated UUID fits several devices.
    #[error("`{0}` fits several GPUs")]
    Ambiguous(String),
    /// The container got its devices by other means than the variable.
    #[error("NVIDIA_VISIBLE_DEVICES is `{0}`, which does not list the container's GPUs")]
    ContainerDevices(String),
}

/// The UUIDs that the process's ordinals 0, 1, … stand for.
///
/// # Errors
///
/// The rules do not determine it.
pub fn visible_devices(environment: &Environment<'_>, gpus: &[Gpu]) -> Result<Vec<String>, NotKnowable> {
    let present = in_container(environment.container_devices, gpus)?;
    let order = Order::of(environment.cuda_device_order, &present);
    let listed = match environment.cuda_visible_devices {
        None => {
            order.check()?;
            present.iter().map(Device::gpu).collect()
        }
        Some(list) => listed(list, &present, order)?,
    };
    Ok(enumerated(&listed))
}

/// A GPU as a container sees it.
#[derive(Clone, Debug)]
struct Present<'g> {
    gpu: &'g Gpu,
    /// The MIG devices that are there; `None` while MIG is off.
    mig: Option<Vec<&'g MigDevice>>,
}

/// What an entry of the list stands for.
#[derive(Clone, Copy, Debug)]
enum Device<'p> {
    Gpu(&'p Present<'p>),
    Mig(&'p MigDevice),
}

impl<'p> Device<'p> {
    fn gpu(present: &'p Present<'p>) -> Self {
        Self::Gpu(present)
    }

    fn uuid(self) -> &'p str {
        match self {
            Self::Gpu(present) => &present.gpu.uuid,
            Self::Mig(mig) => &mig.uuid,
        }
    }
}

/// Whether indices mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Pci,
    Unspecified,
}

impl Order {
    /// The guide leaves the order of FASTEST_FIRST open; among equal models it is the PCI order.
    fn of(cuda_device_order: Option<&str>, present: &[Present<'_>]) -> Self {
        let same_model = present.windows(2).all(|pair| match pair {
            [a, b] => a.gpu.model == b.gpu.model,
            _ => true,
        });
        if same_model || cuda_device_order == Some("PCI_BUS_ID") { Self::Pci } else { Self::Unspecified }
    }

    fn check(self) -> Result<(), NotKnowable> {
        match self {
            Self::Pci => Ok(()),
            Self::Unspecified => Err(NotKnowable::FastestFirst),
        }
    }
}

/// The GPUs of the container, by PCI address.
fn in_container<'g>(devices: Option<&str>, gpus: &'g [Gpu]) -> Result<Vec<Present<'g>>, NotKnowable> {
    let mut sorted: Vec<&Gpu> = gpus.iter().collect();
    sorted.sort_by_key(|gpu| (pci_address(&gpu.pci_bus_id), gpu.index));
    let all =
        || sorted.iter().map(|gpu| Present { gpu, mig: gpu.mig.as_ref().map(|mig| mig.iter().collect()) });
    let all: Vec<Present<'g>> = all().collect();
    let list = match devices {
        None | Some("all") => return Ok(all),
        Some("none") => return Ok(Vec::new()),
        // The device plugin sets `void`, or a path of mounts, when it hands devices over by CDI or volumes.
        Some(other) if other.is_empty() || other == "void" || other.starts_with('/') => {
            return Err(NotKnowable::ContainerDevices(other.to_owned()));
        }
        Some(list) => list,
    };
    let mut wanted = Vec::new();
    for text in list.split(',').map(str::trim) {
        // A time-sliced replica is `UUID::N`.
        let text = text.split_once("::").map_or(text, |(uuid, _)| uuid);
        wanted.push(entry::of_container(text, &all)?);
    }
    let chosen = all.iter().filter_map(|present| restrict(present, &wanted));
    Ok(chosen.collect())
}

/// The GPU with those of its MIG devices that are wanted; `None` when nothing of it is.
fn restrict<'g>(present: &Present<'g>, wanted: &[Device<'_>]) -> Option<Present<'g>> {
    if wanted.iter().any(|device| device.uuid() == present.gpu.uuid) {
        return Some(present.clone());
    }
    let mig =
        present.mig.as_ref()?.iter().filter(|mig| wanted.iter().any(|device| device.uuid() == mig.uuid));
    let mig: Vec<&MigDevice> = mig.copied().collect();
    (!mig.is_empty()).then_some(Present { gpu: present.gpu, mig: Some(mig) })
}

/// The devices of a CUDA_VISIBLE_DEVICES list.
fn listed<'p>(list: &str, present: &'p [Present<'p>], order: Order) -> Result<Vec<Device<'p>>, NotKnowable> {
    let mut devices: Vec<Device<'p>> = Vec::new();
    let mut by_index = None;
    for text in list.split(',') {
        let entry = Entry::parse(text);
        let is_index = matches!(entry, Entry::Index(_));
        let device = match entry {
            // An entry that is no device, or of another kind than the first, ends the list.
            Entry::Invalid => break,
            _ if *by_index.get_or_insert(is_index) != is_index => break,
            Entry::Index(index) => match usize::try_from(index).ok().and_then(|index| present.get(index)) {
                Some(present) => {
                    order.check()?;
                    Device::Gpu(present)
                }
                None => break,
            },
            Entry::Uuid(uuid) => uuid.find(present)?,
        };
        if devices.iter().any(|known| known.uuid() == device.uuid()) {
            return Ok(Vec::new());
        }
        devices.push(device);
    }
    Ok(devices)
}

/// What CUDA enumerates of the listed devices: GPUs, or one MIG device and nothing else.
fn enumerated(listed: &[Device<'_>]) -> Vec<String> {
    let named = listed.iter().find_map(|device| match device {
        Device::Mig(mig) => Some(*mig),
        Device::Gpu(_) => None,
    });
    let first_child = || {
        listed.iter().find_map(|device| match device {
            Device::Gpu(present) => present.mig.as_ref()?.first().copied(),
            Device::Mig(_) => None,
        })
    };
    if let Some(mig) = named.or_else(first_child) {
        return vec![mig.uuid.clone()];
    }
    // A GPU with MIG on and no MIG device cannot be used.
    let without_mig =
        listed.iter().filter(|device| !matches!(device, Device::Gpu(present) if present.mig.is_some()));
    without_mig.map(|device| device.uuid().to_owned()).collect()
}

/// Domain, bus, device and function; `None` sorts first, and the index decides then.
fn pci_address(text: &str) -> Option<[u32; 4]> {
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let mut address = [0; 4];
    for (number, digits) in address.iter_mut().zip([domain, bus, device, function]) {
        *number = u32::from_str_radix(digits, 16).ok()?;
    }
    Some(address)
}

#[cfg(test)]
mod tests;
