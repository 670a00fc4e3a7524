//! From the origin of a call to its tenant.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use thiserror::Error;

use super::{
    cgroup_id::{CgroupIndex, IndexStats, Limits},
    cgroup_path::innermost,
    host::HostFiles,
    name::{ProcessClaims, Tenant},
    proc_cgroup::{self, ConflictingPods, ProcCgroup},
    rule::TenantRule,
};
use crate::identity::process::{is_same_start, real_uid, start_time_ticks};

/// Processes and paths that are remembered; what does not fit is read again when it is needed.
const MAX_REMEMBERED: usize = 65_536;

/// A process, told apart from others that had or will have its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessRef {
    /// Process id (tgid) in the host's pid namespace.
    pub pid: u32,
    /// Start time in nanoseconds since boot, as the kernel has it (`start_boottime`).
    pub start_time_ns: u64,
}

/// Why a call has no tenant. It is then reported as of an unknown tenant, never as somebody's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unresolved {
    /// The cgroup's path was never seen, and process and cgroup are gone.
    #[error("cgroup {cgroup_id} was removed before its path was read")]
    UnknownCgroup {
        /// Id of the cgroup.
        cgroup_id: u64,
    },
    /// The process is in two pods at once.
    #[error("cgroup hierarchies disagree about process {pid}")]
    Conflict {
        /// Process id.
        pid: u32,
        /// Which pods.
        #[source]
        source: ConflictingPods,
    },
}

/// Names tenants, and remembers them.
#[derive(Debug)]
pub struct Resolver<H> {
    host: H,
    rules: Vec<TenantRule>,
    needs_claims: bool,
    retention: Duration,
    index: CgroupIndex,
    /// Tenants of paths, where no claim decides.
    tenants: HashMap<Arc<str>, Arc<Tenant>>,
    processes: HashMap<ProcessRef, ProcessFacts>,
}

/// What was read about a process while it lived.
#[derive(Clone, Debug)]
struct ProcessFacts {
    claims: ProcessClaims,
    cgroup: Result<ProcCgroup, ConflictingPods>,
    last_used: Instant,
}

impl<H: HostFiles> Resolver<H> {
    /// A resolver that has seen nothing yet. Rules are tried in their order.
    pub fn new(host: H, rules: Vec<TenantRule>, limits: Limits) -> Self {
        let needs_claims = rules.iter().any(|rule| rule.matches.needs_process());
        Self {
            host,
            rules,
            needs_claims,
            retention: limits.retention,
            index: CgroupIndex::new(limits),
            tenants: HashMap::new(),
            processes: HashMap::new(),
        }
    }

    /// The tenant of a call from this cgroup, made by this process if it is known. `/proc` is read only where the
    /// cgroup alone does not tell: for rules with claims, for cgroup v1, and for cgroups that are already gone.
    ///
    /// # Errors
    ///
    /// Nothing certain can be said; the same call may be answered later only if the process still runs.
    pub fn resolve(
        &mut self,
        cgroup_id: u64,
        process: Option<ProcessRef>,
        now: Instant,
    ) -> Result<Arc<Tenant>, Unresolved> {
        let indexed = self.index.lookup(&self.host, cgroup_id, now);
        let cgroup_tells = indexed.as_deref().is_some_and(|path| path != "/");
        let facts = match process {
            Some(process) if self.needs_claims || !cgroup_tells => self.facts(process, now),
            _ => None,
        };
        let path = match indexed {
            Some(path) if cgroup_tells => path,
            indexed => self.path_by_process(cgroup_id, indexed, process, facts.as_ref(), now)?,
        };
        let claims = facts.map(|facts| facts.claims).unwrap_or_default();
        if claims != ProcessClaims::default() {
            return Ok(Arc::new(Tenant::of_path(&path, &claims, &self.rules)));
        }
        Ok(self.tenant_of_path(&path))
    }

    /// The tenant of a process by its current cgroup, for what is not reported by the kernel's probes.
    ///
    /// # Errors
    ///
    /// The process is gone, or its cgroups contradict each other.
    pub fn resolve_process(&mut self, process: ProcessRef, now: Instant) -> Result<Arc<Tenant>, Unresolved> {
        let gone = Unresolved::UnknownCgroup { cgroup_id: 0 };
        let facts = self.facts(process, now).ok_or_else(|| gone.clone())?;
        let cgroup = facts.cgroup.map_err(|source| Unresolved::Conflict { pid: process.pid, source })?;
        let telling = cgroup.telling.filter(|path| {
            let named = innermost(path);
            named.pod_uid.is_some() || named.container_id.is_some() || cgroup.unified.is_none()
        });
        let path: Arc<str> = telling.or(cgroup.unified).map(Arc::from).ok_or(gone)?;
        if facts.claims != ProcessClaims::default() {
            return Ok(Arc::new(Tenant::of_path(&path, &facts.claims, &self.rules)));
        }
        Ok(self.tenant_of_path(&path))
    }

    /// Whether a tenant's cgroup is still there; false for tenants that have no single one.
    pub fn exists(&self, tenant: &Tenant) -> bool {
        tenant.cgroup_path.as_deref().is_some_and(|path| self.host.cgroup_id(path.as_ref()).is_ok())
    }

    /// Reads what can be read about a process while it runs, so that it can still be named after its end. To be
    /// called when a process makes its first GPU call.
    pub fn note_process(&mut self, process: ProcessRef, now: Instant) {
        // The facts are kept; what they say is asked for later.
        drop(self.facts(process, now));
    }

    /// Learns the cgroups that exist and forgets what has not been needed for [`Limits::retention`]. To be called
    /// from time to time.
    pub fn refresh(&mut self, now: Instant) {
        let retention = self.retention;
        self.index.refresh(&self.host, now);
        self.processes.retain(|_, facts| now.saturating_duration_since(facts.last_used) <= retention);
        self.tenants.clear();
    }

    /// What the cgroup index did so far.
    pub fn index_stats(&self) -> IndexStats {
        self.index.stats()
    }

    /// A path for a cgroup that is unknown, or that is the root although the process is in a container by another
    /// hierarchy.
    fn path_by_process(
        &mut self,
        cgroup_id: u64,
        indexed: Option<Arc<str>>,
        process: Option<ProcessRef>,
        facts: Option<&ProcessFacts>,
        now: Instant,
    ) -> Result<Arc<str>, Unresolved> {
        let unknown = || Unresolved::UnknownCgroup { cgroup_id };
        let Some((process, facts)) = process.zip(facts) else { return indexed.ok_or_else(unknown) };
        let cgroup = facts
            .cgroup
            .as_ref()
            .map_err(|source| Unresolved::Conflict { pid: process.pid, source: source.clone() })?;
        if let Some(telling) = cgroup.telling.as_deref() {
            let named = innermost(telling);
            if named.pod_uid.is_some() || named.container_id.is_some() {
                return Ok(Arc::from(telling));
            }
        }
        if let Some(path) = indexed {
            return Ok(path);
        }
        // The process may have moved since the call, so its path counts only if it is that cgroup's.
        let unified = cgroup.unified.as_deref().filter(|_| !cgroup.removed);
        let confirmed =
            unified.filter(|path| self.host.cgroup_id(path.as_ref()).is_ok_and(|found| found == cgroup_id));
        if let Some(path) = confirmed {
            self.index.learn(cgroup_id, path, now);
            return Ok(Arc::from(path));
        }
        // Without a v2 hierarchy the id means nothing, and the other hierarchies are all there is.
        let alone = cgroup.telling.as_deref().filter(|_| cgroup.unified.is_none());
        alone.map(Arc::from).ok_or_else(unknown)
    }

    fn tenant_of_path(&mut self, path: &Arc<str>) -> Arc<Tenant> {
        if let Some(tenant) = self.tenants.get(path) {
            return Arc::clone(tenant);
        }
        let tenant = Arc::new(Tenant::of_path(path, &ProcessClaims::default(), &self.rules));
        if self.tenants.len() < MAX_REMEMBERED {
            self.tenants.insert(Arc::clone(path), Arc::clone(&tenant));
        }
        tenant
    }

    fn facts(&mut self, process: ProcessRef, now: Instant) -> Option<ProcessFacts> {
        if let Some(facts) = self.processes.get_mut(&process) {
            facts.last_used = now;
            return Some(facts.clone());
        }
        let facts = self.read_facts(process, now)?;
        if self.processes.len() < MAX_REMEMBERED {
            self.processes.insert(process, facts.clone());
        }
        Some(facts)
    }

    /// Reads a process's files; `None` unless they are all of this very process.
    fn read_facts(&self, process: ProcessRef, now: Instant) -> Option<ProcessFacts> {
        let ProcessRef { pid, start_time_ns } = process;
        let is_same = || {
            let ticks = self.host.proc_stat(pid).ok().and_then(|stat| start_time_ticks(&stat));
            ticks.is_some_and(|ticks| is_same_start(start_time_ns, ticks))
        };
        if !is_same() {
            return None;
        }
        let cgroup = self.host.proc_cgroup(pid).ok()?;
        let claims = if self.needs_claims {
            ProcessClaims {
                exe: self.host.proc_exe(pid).ok().map(|exe| exe.to_string_lossy().into_owned()),
                uid: self.host.proc_status(pid).ok().and_then(|status| real_uid(&status)),
            }
        } else {
            ProcessClaims::default()
        };
        // The id may have been reused between the reads.
        is_same().then(|| ProcessFacts {
            claims,
            cgroup: proc_cgroup::parse(&String::from_utf8_lossy(&cgroup)),
            last_used: now,
        })
    }
}

#[cfg(test)]
mod tests;
