//! Configured tenants: which cgroups and processes bear a name that the node's owner chose.

use super::glob::Glob;

/// One `[[tenant]]` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantRule {
    /// The tenant's name; entries with the same name add up to one tenant.
    pub name: String,
    /// What a call must come from.
    pub matches: TenantMatch,
}

/// Conditions of a `[[tenant]]` entry; all that are present must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantMatch {
    /// Pattern over the cgroup path below the cgroup root; cgroups below a matching one match too.
    pub cgroup: Option<Glob>,
    /// Pattern over the systemd unit's name; `user@1000.service` also takes the units of that user manager.
    pub unit: Option<Glob>,
    /// How the container's id begins.
    pub container_id: Option<String>,
    /// The pod's UID, exactly.
    pub pod_uid: Option<String>,
    /// What the process says about itself.
    pub claims: Claims,
}

/// Conditions on things that a tenant may choose freely: whoever runs code on the node can meet them, so they
/// name a tenant for convenience only and have to be asked for explicitly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Pattern over the path of the executable.
    pub exe: Option<Glob>,
    /// The real user id; inside a user namespace, as the host sees it.
    pub uid: Option<u32>,
}

/// What is known about the origin of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// Path below the cgroup root, beginning with `/`.
    pub cgroup_path: Option<&'a str>,
    /// Name of the systemd unit.
    pub unit: Option<&'a str>,
    /// Container id, 64 hexadecimal digits.
    pub container_id: Option<&'a str>,
    /// Pod UID, as in the path with `-`.
    pub pod_uid: Option<&'a str>,
    /// Path of the executable.
    pub exe: Option<&'a str>,
    /// Real user id.
    pub uid: Option<u32>,
}

impl TenantMatch {
    /// Whether no condition is present at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether every condition that is present holds. A condition on something unknown does not hold.
    pub fn holds(&self, origin: &Origin<'_>) -> bool {
        let Self { cgroup, unit, container_id, pod_uid, claims: Claims { exe, uid } } = self;
        !self.is_empty()
            && condition(cgroup.as_ref(), origin.cgroup_path, |glob, path| {
                path != "/" && glob.matches_path_or_ancestor(path)
            })
            && condition(unit.as_ref(), origin.unit, Glob::matches_path_or_ancestor)
            && condition(container_id.as_ref(), origin.container_id, |prefix, id| id.starts_with(prefix))
            && condition(pod_uid.as_ref(), origin.pod_uid, |wanted, uid| wanted == uid)
            && condition(exe.as_ref(), origin.exe, Glob::matches)
            && condition(*uid, origin.uid, |wanted, uid| wanted == uid)
    }

    /// Whether a process must be looked at to decide.
    pub fn needs_process(&self) -> bool {
        self.claims != Claims::default()
    }
}

/// The first entry whose conditions hold.
pub fn first_match<'r>(rules: &'r [TenantRule], origin: &Origin<'_>) -> Option<&'r TenantRule> {
    rules.iter().find(|rule| rule.matches.holds(origin))
}

fn condition<W, F>(wanted: Option<W>, found: Option<F>, holds: impl Fn(W, F) -> bool) -> bool {
    match (wanted, found) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wanted), Some(found)) => holds(wanted, found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, matches: TenantMatch) -> TenantRule {
        TenantRule { name: name.to_owned(), matches }
    }

    fn cgroup(pattern: &str) -> TenantMatch {
        TenantMatch { cgroup: Glob::new(pattern).ok(), ..TenantMatch::default() }
    }

    #[test]
    fn the_first_of_several_matching_rules_wins() {
        let rules = [rule("narrow", cgroup("/jobs/a")), rule("wide", cgroup("/jobs/*"))];
        let origin = |path| Origin { cgroup_path: Some(path), ..Origin::default() };
        let name = |path| first_match(&rules, &origin(path)).map(|rule| rule.name.as_str());
        assert_eq!(name("/jobs/a"), Some("narrow"));
        assert_eq!(name("/jobs/b/nested"), Some("wide"));
        assert_eq!(name("/other"), None);
    }

    #[test]
    fn all_conditions_of_a_rule_must_hold() {
        let both = TenantMatch { unit: Glob::new("train*.service").ok(), ..cgroup("/system.slice/**") };
        let matching = Origin {
            cgroup_path: Some("/system.slice/train-1.service"),
            unit: Some("train-1.service"),
            ..Origin::default()
        };
        assert!(both.holds(&matching));
        assert!(!both.holds(&Origin { unit: Some("web.service"), ..matching }));
        assert!(!both.holds(&Origin { unit: None, ..matching }));
    }

    #[test]
    fn container_ids_match_by_prefix_and_pod_uids_exactly() {
        let container = TenantMatch { container_id: Some("4bae4a".to_owned()), ..TenantMatch::default() };
        assert!(container.holds(&Origin { container_id: Some("4bae4a8e74"), ..Origin::default() }));
        assert!(!container.holds(&Origin { container_id: Some("04bae4a8e7"), ..Origin::default() }));
        let pod = TenantMatch { pod_uid: Some("9c64c5bf".to_owned()), ..TenantMatch::default() };
        assert!(!pod.holds(&Origin { pod_uid: Some("9c64c5bf-298f"), ..Origin::default() }));
        assert!(pod.holds(&Origin { pod_uid: Some("9c64c5bf"), ..Origin::default() }));
    }

    #[test]
    fn claims_hold_only_for_known_processes() {
        let claims = Claims { exe: Glob::new("/usr/bin/python*").ok(), uid: Some(1000) };
        let claimed = TenantMatch { claims, ..TenantMatch::default() };
        assert!(claimed.needs_process());
        assert!(claimed.holds(&Origin {
            exe: Some("/usr/bin/python3.12"),
            uid: Some(1000),
            ..Origin::default()
        }));
        assert!(!claimed.holds(&Origin { exe: Some("/usr/bin/python3.12"), ..Origin::default() }));
    }

    #[test]
    fn a_cgroup_pattern_never_takes_the_root_and_an_empty_match_takes_nothing() {
        let root = Origin { cgroup_path: Some("/"), ..Origin::default() };
        assert!(!cgroup("/**").holds(&root));
        assert!(!TenantMatch::default().holds(&root));
    }
}
