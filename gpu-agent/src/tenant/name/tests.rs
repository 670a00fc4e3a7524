//! Which tenant a path belongs to.

use super::*;
use crate::tenant::{
    glob::Glob,
    rule::{Claims, TenantMatch},
};

const UID: &str = "0b7d6c1e-91aa-4c3f-8f52-d2c9e8a7b614";
const ID: &str = "aa10bb20cc30dd40ee50ff60aa10bb20cc30dd40ee50ff60aa10bb20cc30dd40";

fn of_path(path: &str) -> Tenant {
    Tenant::of_path(path, &ProcessClaims::default(), &[])
}

fn rule(name: &str, matches: TenantMatch) -> TenantRule {
    TenantRule { name: name.to_owned(), matches }
}

#[test]
fn the_root_is_the_host() {
    assert_eq!(of_path("/"), Tenant::host());
    assert_eq!(of_path(""), Tenant::host());
}

#[test]
fn each_kind_of_path_has_its_name() {
    let cases = [
        (format!("/kubepods/burstable/pod{UID}/{ID}/nested"), TenantKind::Pod, UID),
        (format!("/system.slice/docker-{ID}.scope/init"), TenantKind::Container, "aa10bb20cc30"),
        ("/system.slice/train.service/worker".to_owned(), TenantKind::Systemd, "train.service"),
        ("/jobs/a".to_owned(), TenantKind::Cgroup, "/jobs/a"),
        ("/jobs/a/".to_owned(), TenantKind::Cgroup, "/jobs/a"),
    ];
    for (path, kind, name) in cases {
        let tenant = of_path(&path);
        assert_eq!((tenant.kind, tenant.name.as_str()), (kind, name), "{path}");
    }
}

#[test]
fn cgroups_below_a_container_are_the_containers() {
    let container = format!("/kubepods/pod{UID}/{ID}");
    let nested = of_path(&format!("{container}/a/b"));
    assert_eq!(nested, of_path(&container));
    assert_eq!(nested.cgroup_path, Some(container));
}

#[test]
fn a_pod_made_up_below_a_user_manager_is_the_users() {
    let manager = "/user.slice/user-1000.slice/user@1000.service";
    let tenant = of_path(&format!("{manager}/kubepods.slice/x.scope/pod{UID}/{ID}"));
    assert_eq!((tenant.kind, tenant.pod_uid), (TenantKind::Systemd, None));
    assert_eq!(tenant.name, "user@1000.service/x.scope");
}

#[test]
fn a_pod_made_up_directly_below_a_user_manager_is_the_users() {
    let manager = "/user.slice/user-1000.slice/user@1000.service";
    let tenant = of_path(&format!("{manager}/kubepods/pod{UID}/{ID}"));
    assert_eq!((tenant.kind, tenant.pod_uid), (TenantKind::Systemd, None));
    assert_eq!(tenant.cgroup_path.as_deref(), Some(manager));
}

#[test]
fn cgroups_with_one_configured_name_are_one_tenant() {
    let matches = |pattern| TenantMatch { cgroup: Glob::new(pattern).ok(), ..TenantMatch::default() };
    let rules = [rule("team", matches("/jobs/a")), rule("team", matches("/jobs/b"))];
    let named = |path| Tenant::of_path(path, &ProcessClaims::default(), &rules);
    assert_eq!(named("/jobs/a/1"), named("/jobs/b"));
    assert_eq!(named("/jobs/a").kind, TenantKind::Configured);
    assert_eq!(named("/jobs/c").kind, TenantKind::Cgroup);
}

#[test]
fn rules_see_the_unit_the_pod_and_the_container() {
    let rules = [
        rule("by-unit", TenantMatch { unit: Glob::new("train-*.service").ok(), ..TenantMatch::default() }),
        rule("by-pod", TenantMatch { pod_uid: Some(UID.to_owned()), ..TenantMatch::default() }),
        rule(
            "by-container",
            TenantMatch { container_id: Some("aa10bb20".to_owned()), ..TenantMatch::default() },
        ),
        rule("by-user", TenantMatch { unit: Glob::new("user@1000.service").ok(), ..TenantMatch::default() }),
    ];
    let name = |path: &str| Tenant::of_path(path, &ProcessClaims::default(), &rules).name;
    assert_eq!(name("/system.slice/train-1.service/x"), "by-unit");
    assert_eq!(name(&format!("/kubepods/pod{UID}/{ID}")), "by-pod");
    assert_eq!(name(&format!("/docker/{ID}")), "by-container");
    let manager = "/user.slice/user-1000.slice/user@1000.service";
    assert_eq!(name(&format!("{manager}/app.slice/train-1.service")), "by-user");
    assert_eq!(name(&format!("{manager}/app.slice/libpod-{ID}.scope")), "by-user");
}

#[test]
fn claims_may_name_processes_of_the_root_cgroup() {
    let claims = Claims { uid: Some(1000), ..Claims::default() };
    let rules = [rule("alice", TenantMatch { claims, ..TenantMatch::default() })];
    let of_uid = |uid| Tenant::of_path("/", &ProcessClaims { exe: None, uid }, &rules).name;
    assert_eq!(of_uid(Some(1000)), "alice");
    assert_eq!(of_uid(Some(1001)), "host");
    assert_eq!(of_uid(None), "host");
}
