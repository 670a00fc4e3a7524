//! From a cgroup's id to its path.
//!
//! `bpf_get_current_cgroup_id()` gives the inode of the cgroup's directory in the v2 hierarchy. Ids are never used
//! twice and cgroups cannot be renamed there, so what was once learned stays true, also after the cgroup is gone:
//! a process that ended before anyone looked still gets its name.

pub(super) mod kernfs;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use super::host::HostFiles;

/// Bounds on what the index keeps and does. Tenants create cgroups, so each is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Paths kept; beyond that the ones not seen for longest are dropped.
    pub max_entries: usize,
    /// Directories read in one walk.
    pub max_directories: usize,
    /// Shortest time between two walks that unknown ids cause.
    pub min_walk_interval: Duration,
    /// How long a removed cgroup keeps its name.
    pub retention: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_entries: 65_536,
            max_directories: 20_000,
            min_walk_interval: Duration::from_secs(1),
            retention: Duration::from_secs(600),
        }
    }
}

/// What the index did since it was made; each is a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Walks through the hierarchy.
    pub walks: u64,
    /// Walks that stopped at [`Limits::max_directories`].
    pub truncated_walks: u64,
    /// Ids for which no path was found.
    pub unknown_ids: u64,
    /// Paths dropped to make room while their cgroup may still exist.
    pub evicted: u64,
}

/// Paths by id.
#[derive(Debug, Default)]
pub struct CgroupIndex {
    limits: Limits,
    entries: HashMap<u64, Entry>,
    last_walk: Option<Instant>,
    stats: IndexStats,
}

#[derive(Debug)]
struct Entry {
    path: Arc<str>,
    /// When the cgroup was last asked for, or last found to exist.
    seen: Instant,
}

impl CgroupIndex {
    /// An empty index.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What the index did so far.
    pub fn stats(&self) -> IndexStats {
        self.stats
    }

    /// Number of paths that are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no path is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The path of a cgroup, relative to the hierarchy's root. An unknown id is looked up in the kernel, and by a
    /// walk where the kernel does not answer.
    pub fn lookup(&mut self, host: &impl HostFiles, id: u64, now: Instant) -> Option<Arc<str>> {
        if let Some(path) = self.hit(id, now) {
            return Some(path);
        }
        match host.cgroup_by_id(id) {
            Ok(path) => {
                let path = display_path(&path);
                self.learn(id, &path, now);
            }
            // The kernel's own answer; a walk would find nothing either.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) if self.may_walk(now) => self.walk(host, now),
            Err(_) => {}
        }
        let found = self.hit(id, now);
        if found.is_none() {
            self.stats.unknown_ids += 1;
        }
        found
    }

    /// Remembers a path that was learned elsewhere.
    pub fn learn(&mut self, id: u64, path: &str, now: Instant) {
        if self.entries.len() >= self.limits.max_entries && !self.entries.contains_key(&id) {
            self.evict_oldest();
        }
        self.entries.insert(id, Entry { path: Arc::from(path), seen: now });
    }

    /// Learns the cgroups that exist and forgets those that have been gone for longer than the retention. To be
    /// called from time to time, so that short-lived cgroups are known before they are asked for.
    pub fn refresh(&mut self, host: &impl HostFiles, now: Instant) {
        self.walk(host, now);
        let retention = self.limits.retention;
        self.entries.retain(|_, entry| now.saturating_duration_since(entry.seen) <= retention);
    }

    fn hit(&mut self, id: u64, now: Instant) -> Option<Arc<str>> {
        let entry = self.entries.get_mut(&id)?;
        entry.seen = now;
        Some(Arc::clone(&entry.path))
    }

    fn may_walk(&self, now: Instant) -> bool {
        let interval = self.limits.min_walk_interval;
        self.last_walk.is_none_or(|last| now.saturating_duration_since(last) >= interval)
    }

    /// Breadth first, so that a tenant with a deep tree cannot hide the others.
    fn walk(&mut self, host: &impl HostFiles, now: Instant) {
        self.stats.walks += 1;
        self.last_walk = Some(now);
        let Ok(root) = host.cgroup_id(Path::new("/")) else { return };
        self.learn(root, "/", now);
        let mut queue = VecDeque::from([PathBuf::from("/")]);
        let mut directories = 0;
        while let Some(directory) = queue.pop_front() {
            if directories == self.limits.max_directories {
                self.stats.truncated_walks += 1;
                return;
            }
            directories += 1;
            // A cgroup may go at any time; what is below it went before.
            let children: Vec<(OsString, u64)> = host.cgroup_children(&directory).unwrap_or_default();
            for (name, id) in children {
                let path = directory.join(name);
                self.learn(id, &display_path(&path), now);
                queue.push_back(path);
            }
        }
    }

    /// Drops a sixteenth, so that a full index is not searched for each new entry.
    fn evict_oldest(&mut self) {
        let count = (self.limits.max_entries / 16).max(1).min(self.entries.len());
        let mut seen: Vec<(Instant, u64)> =
            self.entries.iter().map(|(id, entry)| (entry.seen, *id)).collect();
        seen.sort_unstable();
        let oldest: HashSet<u64> = seen.into_iter().take(count).map(|(_, id)| id).collect();
        self.entries.retain(|id, _| !oldest.contains(id));
        self.stats.evicted += u64::try_from(oldest.len()).unwrap_or(u64::MAX);
    }
}

/// A path for people and patterns; the kernel marks removed cgroups, and names need not be UTF-8.
fn display_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.strip_suffix(" (deleted)").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests;
