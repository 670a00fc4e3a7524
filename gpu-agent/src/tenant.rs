//! Who a GPU call belongs to, from what the kernel says alone.
//!
//! A call arrives with the id of its cgroup, which is the inode of a directory in the cgroup v2 mount.
//! [`cgroup_id`] finds the path, [`cgroup_path`] and [`unit`] read what a container runtime or systemd wrote
//! into it, [`rule`] applies the names that the node's owner configured, and [`Resolver`] puts them together.
//! A path below a container, pod or unit is under its tenant's control, so the outermost name decides.

pub mod cgroup_id;
pub mod cgroup_path;
pub mod glob;
pub mod host;
pub mod mountinfo;
pub mod name;
pub mod proc_cgroup;
pub mod resolver;
pub mod rule;
pub mod unit;

pub use self::{
    host::{Host, HostFiles},
    name::{Tenant, TenantKind},
    resolver::{ProcessRef, Resolver, Unresolved},
};
