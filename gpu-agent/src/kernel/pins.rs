//! What is pinned, where, and under which names.
//!
//! `<bpffs>/gpu-agent/v<abi>/maps/<map>` and `…/links/<object>-<what>`. The directory carries the ABI version,
//! so an agent never adopts maps that it would misread; a link's name carries a hash of the object it was
//! made from, so an agent with other programs attaches its own before it removes the old ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use gpu_ebpf::abi;

use crate::probe::library::LibraryId;

/// The pin directory of this ABI version.
#[derive(Clone, Debug)]
pub struct Pins {
    directory: PathBuf,
}

/// What a pinned link is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// A raw tracepoint program, by its name in the object.
    Tracepoint(String),
    /// One of several links on a library.
    Library {
        library: LibraryId,
        program: String,
        /// Number of the link among those of its program.
        index: usize,
        /// Links of all programs that the library has when all are attached.
        total: usize,
    },
}

/// A pinned link found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedLink {
    pub object: u32,
    pub target: LinkTarget,
    pub path: PathBuf,
}

impl Pins {
    /// Names the directories under a mounted BPF file system and makes them.
    ///
    /// # Errors
    /// When a directory cannot be made.
    pub fn at(bpffs: &Path) -> io::Result<Self> {
        let directory = Self::root(bpffs).join(format!("v{}", abi::VERSION));
        let pins = Self { directory };
        pins.make()?;
        Ok(pins)
    }

    /// Makes the directories.
    ///
    /// # Errors
    /// When a directory cannot be made.
    pub fn make(&self) -> io::Result<()> {
        fs::create_dir_all(self.maps())?;
        fs::create_dir_all(self.links())
    }

    /// The directory above those of every ABI version, which `gpu-agent cleanup` removes.
    pub fn root(bpffs: &Path) -> PathBuf {
        bpffs.join("gpu-agent")
    }

    fn maps(&self) -> PathBuf {
        self.directory.join("maps")
    }

    fn links(&self) -> PathBuf {
        self.directory.join("links")
    }

    /// Where a map is pinned.
    pub fn map(&self, name: &str) -> PathBuf {
        self.maps().join(name)
    }

    /// Where a link is pinned.
    pub fn link(&self, object: u32, target: &LinkTarget) -> PathBuf {
        self.links().join(match target {
            LinkTarget::Tracepoint(program) => format!("{object:08x}-tracepoint-{program}"),
            LinkTarget::Library { library, program, index, total } => {
                let LibraryId { device, inode } = library;
                format!("{object:08x}-{device:x}-{inode:x}-{program}-{index}-of-{total}")
            }
        })
    }

    /// Every pinned link; files with other names are left alone.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn existing_links(&self) -> io::Result<Vec<PinnedLink>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.links())? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some((object, target)) = name.to_str().and_then(parse_link_name) {
                found.push(PinnedLink { object, target, path: entry.path() });
            }
        }
        Ok(found)
    }

    /// Removes everything of this ABI version.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        remove_tree(&self.directory)
    }
}

/// Removes a directory with everything in it; the BPF file system supports no other way than one by one.
///
/// # Errors
/// When something cannot be removed; a directory that is not there is no error.
pub fn remove_tree(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(directory)
}

fn parse_link_name(name: &str) -> Option<(u32, LinkTarget)> {
    let (object, rest) = name.split_once('-')?;
    let object = u32::from_str_radix(object, 16).ok()?;
    if let Some(program) = rest.strip_prefix("tracepoint-") {
        return Some((object, LinkTarget::Tracepoint(program.to_owned())));
    }
    let mut parts = rest.split('-');
    let device = u64::from_str_radix(parts.next()?, 16).ok()?;
    let inode = u64::from_str_radix(parts.next()?, 16).ok()?;
    let program = parts.next()?.to_owned();
    let index = parts.next()?.parse().ok()?;
    let total = match (parts.next(), parts.next(), parts.next()) {
        (Some("of"), Some(total), None) => total.parse().ok()?,
        _ => return None,
    };
    Some((object, LinkTarget::Library { library: LibraryId { device, inode }, program, index, total }))
}

/// The libraries that have all their links to programs of `object`. An agent that was killed while it attached
/// leaves a library with some of them; which of them depends on the library, so each link tells their number.
pub fn complete(links: &[PinnedLink], object: u32) -> BTreeSet<LibraryId> {
    let mut present: BTreeMap<LibraryId, BTreeMap<usize, usize>> = BTreeMap::new();
    for link in links.iter().filter(|link| link.object == object) {
        if let LinkTarget::Library { library, total, .. } = &link.target {
            *present.entry(*library).or_default().entry(*total).or_default() += 1;
        }
    }
    let is_complete = |counts: &BTreeMap<usize, usize>| {
        counts.len() == 1 && counts.iter().all(|(total, count)| total == count)
    };
    present.into_iter().filter(|(_, counts)| is_complete(counts)).map(|(library, _)| library).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_names_are_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let pins = Pins::at(directory.path()).unwrap();
        let targets = [
            LinkTarget::Tracepoint("process_exit".to_owned()),
            LinkTarget::Library {
                library: LibraryId { device: 0xfd00, inode: 4711 },
                program: "enter_launch".to_owned(),
                index: 3,
                total: 12,
            },
        ];
        for target in &targets {
            let path = pins.link(0xdead_beef, target);
            fs::write(&path, "").unwrap();
            assert!(!path.file_name().unwrap().to_str().unwrap().contains('.'), "bpffs refuses dots");
        }
        fs::write(pins.links().join("something else"), "").unwrap();
        let mut found = pins.existing_links().unwrap();
        found.sort_by_key(|link| matches!(link.target, LinkTarget::Library { .. }));
        assert_eq!(found.iter().map(|link| link.target.clone()).collect::<Vec<_>>(), targets);
        assert!(found.iter().all(|link| link.object == 0xdead_beef));
    }

    #[test]
    fn a_library_without_all_its_links_is_not_complete() {
        let link = |object, inode, program: &str, index, total| PinnedLink {
            object,
            target: LinkTarget::Library {
                library: LibraryId { device: 1, inode },
                program: program.to_owned(),
                index,
                total,
            },
            path: PathBuf::new(),
        };
        let links = [
            // Without any function of a third program.
            link(7, 1, "enter_call", 0, 2),
            link(7, 1, "leave_work", 0, 2),
            // Killed while attaching the points of one program.
            link(7, 2, "enter_call", 0, 3),
            link(7, 2, "enter_call", 1, 3),
            // Attached twice with different numbers of functions.
            link(7, 3, "enter_call", 0, 1),
            link(7, 3, "enter_call", 0, 2),
            // Of another version, which has all its links.
            link(8, 4, "enter_call", 0, 1),
            PinnedLink {
                object: 7,
                target: LinkTarget::Tracepoint("process_exit".to_owned()),
                path: PathBuf::new(),
            },
        ];
        assert_eq!(complete(&links, 7), BTreeSet::from([LibraryId { device: 1, inode: 1 }]));
        assert_eq!(complete(&links[..1], 7), BTreeSet::new());
    }

    #[test]
    fn removing_leaves_nothing_and_may_be_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let pins = Pins::at(directory.path()).unwrap();
        fs::write(pins.map("COUNTERS"), "").unwrap();
        remove_tree(&Pins::root(directory.path())).unwrap();
        assert!(!Pins::root(directory.path()).exists());
        remove_tree(&Pins::root(directory.path())).unwrap();
    }
}
