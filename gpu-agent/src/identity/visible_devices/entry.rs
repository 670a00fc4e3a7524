//! One entry of a device list: an index, a UUID or the beginning of one, or a MIG device in either form.

use super::{Device, NotKnowable, Present};

/// An entry as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry<'t> {
    Index(u64),
    Uuid(Uuid<'t>),
    Invalid,
}

/// A device by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Uuid<'t> {
    /// `GPU-…`, possibly abbreviated.
    Gpu(&'t str),
    /// `MIG-…`, possibly abbreviated.
    Mig(&'t str),
    /// `MIG-GPU-…/<GPU instance>/<compute instance>`, the form of drivers before 470.
    MigOfGpu { text: &'t str, gpu: &'t str, gpu_instance_id: u32, compute_instance_id: u32 },
}

impl<'t> Entry<'t> {
    pub(super) fn parse(text: &'t str) -> Self {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix("MIG-GPU-") {
            let gpu = text.strip_prefix("MIG-").unwrap_or(text);
            let mut parts = rest.split('/');
            let (uuid, instances) = (parts.next(), [parts.next(), parts.next()]);
            let gpu = gpu.get(.."GPU-".len() + uuid.map_or(0, str::len)).unwrap_or(gpu);
            let [gpu_instance, compute_instance] =
                instances.map(|part| part.and_then(|part| part.parse().ok()));
            return match (gpu_instance, compute_instance, parts.next()) {
                (Some(gpu_instance_id), Some(compute_instance_id), None) => {
                    Self::Uuid(Uuid::MigOfGpu { text, gpu, gpu_instance_id, compute_instance_id })
                }
                _ => Self::Invalid,
            };
        }
        if text.starts_with("MIG-") {
            return Self::Uuid(Uuid::Mig(text));
        }
        if text.starts_with("GPU-") {
            return Self::Uuid(Uuid::Gpu(text));
        }
        index(text).map_or(Self::Invalid, Self::Index)
    }
}

/// Reads a number like C's atoi: a sign, digits, and whatever follows is ignored. A negative one is no index.
fn index(text: &str) -> Option<u64> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    unsigned.get(..digits)?.parse().ok()
}

impl Uuid<'_> {
    /// The one device that this names.
    pub(super) fn find<'p>(&self, present: &'p [Present<'p>]) -> Result<Device<'p>, NotKnowable> {
        match *self {
            Self::Gpu(prefix) => {
                let fitting = present.iter().filter(|present| begins(&present.gpu.uuid, prefix));
                only(prefix, fitting.map(Device::Gpu))
            }
            Self::Mig(prefix) => {
                let all = present.iter().filter_map(|present| present.mig.as_ref()).flatten().copied();
                only(prefix, all.filter(|mig| begins(&mig.uuid, prefix)).map(Device::Mig))
            }
            Self::MigOfGpu { text, gpu, gpu_instance_id, compute_instance_id } => {
                let parents = present.iter().filter(|present| begins(&present.gpu.uuid, gpu));
                let children = parents.filter_map(|present| present.mig.as_ref()).flatten().copied();
                let fitting = children.filter(|mig| {
                    mig.gpu_instance_id == gpu_instance_id && mig.compute_instance_id == compute_instance_id
                });
                only(text, fitting.map(Device::Mig))
            }
        }
    }
}

/// An entry of NVIDIA_VISIBLE_DEVICES, where an index is NVML's and `<GPU>:<MIG>` is a pair of NVML indices.
pub(super) fn of_container<'p>(text: &str, present: &'p [Present<'p>]) -> Result<Device<'p>, NotKnowable> {
    if let Entry::Uuid(uuid) = Entry::parse(text) {
        return uuid.find(present);
    }
    let unknown = || NotKnowable::UnknownDevice(text.to_owned());
    let number = |digits: &str| digits.parse::<u32>().map_err(|_no_index| unknown());
    let gpu_at = |index| present.iter().find(|present| present.gpu.index == index).ok_or_else(unknown);
    match text.split_once(':') {
        None => Ok(Device::Gpu(gpu_at(number(text)?)?)),
        Some((gpu, mig)) => {
            let (children, at) = (&gpu_at(number(gpu)?)?.mig, number(mig)?);
            let child = children.as_ref().zip(usize::try_from(at).ok()).and_then(|(all, at)| all.get(at));
            child.map(|mig| Device::Mig(mig)).ok_or_else(unknown)
        }
    }
}

fn only<'p>(text: &str, mut fitting: impl Iterator<Item = Device<'p>>) -> Result<Device<'p>, NotKnowable> {
    let first = fitting.next().ok_or_else(|| NotKnowable::UnknownDevice(text.to_owned()))?;
    match fitting.next() {
        Some(_) => Err(NotKnowable::Ambiguous(text.to_owned())),
        None => Ok(first),
    }
}

fn begins(uuid: &str, prefix: &str) -> bool {
    uuid.get(..prefix.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix))
}
