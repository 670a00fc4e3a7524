//! What container runtimes and the kubelet write into a cgroup path.
//!
//! The path shapes are those of the kubelet's cgroupfs and systemd drivers with containerd, CRI-O, Docker and
//! Podman, nested in other containers or not.

/// Digits of a container id.
const CONTAINER_ID_DIGITS: usize = 64;
/// Lengths of the groups of a pod UID.
const UID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
/// Digits of a static pod's UID, which is a hash of its manifest.
const STATIC_UID_DIGITS: usize = 32;

/// What a cgroup path says about its container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupPath {
    /// UID of the pod, `8-4-4-4-12` digits, or 32 digits without dashes for a static pod (then it is the
    /// annotation `kubernetes.io/config.hash`, not `metadata.uid`).
    pub pod_uid: Option<String>,
    /// Id of the container, 64 digits.
    pub container_id: Option<String>,
    /// The runtime, where the path names it.
    pub runtime: Option<Runtime>,
    /// Quality of service class of the pod, where the path tells it.
    pub qos: Option<Qos>,
    /// Bytes of the path up to the end of the segment that names the container, or else the pod.
    pub owner_len: usize,
}

/// Container runtimes whose prefix appears in paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// `docker-`, or below a cgroup called `docker`.
    Docker,
    /// `cri-containerd-`.
    Containerd,
    /// `crio-`.
    CriO,
    /// `libpod-`.
    Podman,
}

/// Kubernetes' quality of service classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    /// Requests equal limits.
    Guaranteed,
    /// Some requests.
    Burstable,
    /// No requests.
    BestEffort,
}

/// Reads the innermost pod and the innermost container in it: the one that the process itself runs in.
pub fn innermost(path: &str) -> CgroupPath {
    let names: Vec<Named<'_>> = named(path).collect();
    let pod = names.iter().rposition(|name| matches!(name.what, What::Pod { .. }));
    let containers = names.get(pod.map_or(0, |pod| pod + 1)..).unwrap_or_default();
    let container = containers.iter().rev().find(|name| matches!(name.what, What::Container { .. }));
    assemble(pod.and_then(|pod| names.get(pod)), container)
}

/// Reads the outermost pod and the outermost container in it: the one whose tenant answers for everything
/// below, whatever cgroups it creates there. A container outside the pod (a node that is a container itself)
/// does not count.
pub fn outermost(path: &str) -> CgroupPath {
    let names: Vec<Named<'_>> = named(path).collect();
    let pod = names.iter().position(|name| matches!(name.what, What::Pod { .. }));
    let containers = names.get(pod.map_or(0, |pod| pod + 1)..).unwrap_or_default();
    let container = containers.iter().take_while(|name| matches!(name.what, What::Container { .. })).next();
    assemble(pod.and_then(|pod| names.get(pod)), container)
}

/// A part of a path that names a pod or a container.
struct Named<'p> {
    what: What<'p>,
    /// Where its path segment ends.
    end: usize,
}

enum What<'p> {
    Pod { uid: String, qos: Option<Qos> },
    Container { id: &'p str, runtime: Option<Runtime> },
}

fn assemble(pod: Option<&Named<'_>>, container: Option<&Named<'_>>) -> CgroupPath {
    let mut read = CgroupPath::default();
    for name in [pod, container].into_iter().flatten() {
        read.owner_len = name.end;
        match &name.what {
            What::Pod { uid, qos } => {
                read.pod_uid = Some(uid.clone());
                read.qos = *qos;
            }
            What::Container { id, runtime } => {
                read.container_id = Some((*id).to_owned());
                read.runtime = *runtime;
            }
        }
    }
    read
}

/// The names in a path, from the root down. A colon separates like a slash, because containerd under a wrongly
/// set systemd driver makes one segment `…-pod<uid>.slice:cri-containerd:<id>`.
fn named(path: &str) -> impl Iterator<Item = Named<'_>> {
    let mut above = Above::default();
    let mut end = 0;
    path.split('/').flat_map(move |segment| {
        end += segment.len();
        let segment_end = end;
        end += 1;
        let mut names = Vec::new();
        for part in segment.split(':') {
            let what = pod(part, &above).or_else(|| container(part, &above));
            names.extend(what.map(|what| Named { what, end: segment_end }));
            above = Above::of(part, &above);
        }
        names
    })
}

/// What the parts above say about the one that follows.
#[derive(Clone, Copy, Default)]
struct Above<'p> {
    part: &'p str,
    qos: Option<Qos>,
}

impl<'p> Above<'p> {
    fn of(part: &'p str, before: &Self) -> Self {
        Self { part, qos: qos_of(part).or(before.qos) }
    }
}

fn qos_of(part: &str) -> Option<Qos> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    name.split('-').rev().find_map(|word| match word {
        "besteffort" => Some(Qos::BestEffort),
        "burstable" => Some(Qos::Burstable),
        "kubepods" => Some(Qos::Guaranteed),
        _ => None,
    })
}

/// `pod<uid>`, or `<slice>-pod<uid>.slice`.
fn pod<'p>(part: &'p str, above: &Above<'_>) -> Option<What<'p>> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let start =
        name.match_indices("pod").map(|(at, _)| at).find(|at| *at == 0 || name[..*at].ends_with('-'))?;
    let uid = pod_uid(name.get(start + "pod".len()..)?)?;
    let qos = qos_of(name.get(..start).unwrap_or_default().trim_end_matches('-')).or(above.qos);
    Some(What::Pod { uid, qos })
}

/// A pod UID in the kubelet's (`-`) or systemd's (`_`) spelling, which may be mixed.
fn pod_uid(text: &str) -> Option<String> {
    if text.len() == STATIC_UID_DIGITS && text.bytes().all(is_hex) {
        return Some(text.to_owned());
    }
    let uid = text.replace('_', "-");
    let mut groups = uid.split('-');
    let well_formed = UID_GROUPS
        .iter()
        .all(|digits| groups.next().is_some_and(|group| group.len() == *digits && group.bytes().all(is_hex)));
    (well_formed && groups.next().is_none()).then_some(uid)
}

/// `<id>`, `<runtime>-<id>` or `<runtime>-<id>.scope`.
fn container<'p>(part: &'p str, above: &Above<'_>) -> Option<What<'p>> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id_start = name.len().checked_sub(CONTAINER_ID_DIGITS)?;
    let id = name.get(id_start..).filter(|id| id.bytes().all(is_hex))?;
    let prefix = name.get(..id_start)?;
    // conmon watches the container from outside; what it does is not the container's doing.
    if prefix.ends_with("conmon-") || !(prefix.is_empty() || prefix.ends_with('-')) {
        return None;
    }
    let runtime = match (prefix, above.part) {
        ("docker-", _) | ("", "docker") => Some(Runtime::Docker),
        ("cri-containerd-", _) | ("", "cri-containerd") => Some(Runtime::Containerd),
        ("crio-", _) | ("", "crio") => Some(Runtime::CriO),
        ("libpod-", _) | ("", "libpod") => Some(Runtime::Podman),
        _ => None,
    };
    Some(What::Container { id, runtime })
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests;
