//! From a cgroup path to the tenant that it belongs to.

use serde::{Deserialize, Serialize};

use super::{
    cgroup_path::outermost,
    rule::{Origin, TenantRule, first_match},
    unit::unit,
};

/// Digits of a container id that stand for it in a name, as container tools print it.
const SHORT_ID_DIGITS: usize = 12;

/// Whom GPU calls are counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tenant {
    /// Name for people: configured, or the unit's, the pod's UID, the container's short id, the path, `host`.
    pub name: String,
    /// What the name stands for.
    pub kind: TenantKind,
    /// Path below the cgroup root of the pod's container, the unit or the cgroup itself; absent for configured
    /// tenants, which may span several, and where only another hierarchy has a path.
    pub cgroup_path: Option<String>,
    /// Container id.
    pub container_id: Option<String>,
    /// Pod UID as it stands in the path; see [`super::cgroup_path::CgroupPath::pod_uid`].
    pub pod_uid: Option<String>,
    /// systemd unit; see [`super::unit::Unit::name`].
    pub unit: Option<String>,
}

/// What a tenant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TenantKind {
    /// Named by a `[[tenant]]` entry.
    Configured,
    /// A systemd unit or slice.
    Systemd,
    /// A container outside Kubernetes.
    Container,
    /// A container of a pod, or a pod.
    Pod,
    /// Any other cgroup.
    Cgroup,
    /// The root cgroup.
    Root,
    /// Nobody can be named: cgroup and process were gone before they were looked at.
    Unknown,
}

impl TenantKind {
    /// The kind as a label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Systemd => "systemd",
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Cgroup => "cgroup",
            Self::Root => "root",
            Self::Unknown => "unknown",
        }
    }
}

/// What is known about a process beyond its cgroup, for rules with claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessClaims {
    /// Path of its executable.
    pub exe: Option<String>,
    /// Its real user id.
    pub uid: Option<u32>,
}

impl Tenant {
    /// The tenant of everything in the root cgroup.
    pub fn host() -> Self {
        Self {
            name: "host".to_owned(),
            kind: TenantKind::Root,
            cgroup_path: Some("/".to_owned()),
            container_id: None,
            pod_uid: None,
            unit: None,
        }
    }

    /// What the path and the rules say. A rule goes before the path, and the outermost name in the path before
    /// the ones inside it.
    pub fn of_path(path: &str, claims: &ProcessClaims, rules: &[TenantRule]) -> Self {
        let unruled = Self::of_path_alone(path);
        let origin = Origin {
            cgroup_path: Some(path),
            unit: unruled.unit.as_deref(),
            container_id: unruled.container_id.as_deref(),
            pod_uid: unruled.pod_uid.as_deref(),
            exe: claims.exe.as_deref(),
            uid: claims.uid,
        };
        match first_match(rules, &origin) {
            Some(rule) => Self {
                name: rule.name.clone(),
                kind: TenantKind::Configured,
                cgroup_path: None,
                container_id: None,
                pod_uid: None,
                unit: None,
            },
            None => unruled,
        }
    }

    fn of_path_alone(path: &str) -> Self {
        let trimmed = path.trim_end_matches('/');
        if trimmed.is_empty() {
            return Self::host();
        }
        let unit = unit(trimmed);
        // A user can create any cgroup below its manager, so a pod or container there is whatever it says.
        if let Some(unit) = unit.as_ref().filter(|unit| unit.of_user) {
            return Self::of_unit(trimmed, &unit.name, unit.path_len);
        }
        let named = outermost(trimmed);
        let owner_path = || trimmed.get(..named.owner_len).map(str::to_owned);
        let unit_name = unit.as_ref().map(|unit| unit.name.clone());
        match (&named.pod_uid, &named.container_id) {
            (Some(uid), container_id) => Self {
                name: uid.clone(),
                kind: TenantKind::Pod,
                cgroup_path: owner_path(),
                container_id: container_id.clone(),
                pod_uid: Some(uid.clone()),
                unit: unit_name,
            },
            (None, Some(id)) => Self {
                name: id.get(..SHORT_ID_DIGITS).unwrap_or(id).to_owned(),
                kind: TenantKind::Container,
                cgroup_path: owner_path(),
                container_id: Some(id.clone()),
                pod_uid: None,
                unit: unit_name,
            },
            (None, None) => match unit {
                Some(unit) => Self::of_unit(trimmed, &unit.name, unit.path_len),
                None => Self {
                    name: trimmed.to_owned(),
                    kind: TenantKind::Cgroup,
                    cgroup_path: Some(trimmed.to_owned()),
                    container_id: None,
                    pod_uid: None,
                    unit: None,
                },
            },
        }
    }

    fn of_unit(path: &str, name: &str, path_len: usize) -> Self {
        Self {
            name: name.to_owned(),
            kind: TenantKind::Systemd,
            cgroup_path: path.get(..path_len).map(str::to_owned),
            container_id: None,
            pod_uid: None,
            unit: Some(name.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
