//! Which processes have a libcuda mapped.
//!
//! libcuda is loaded with `dlopen` long after a process starts, so processes are looked at again and again.
//! Reading `/proc/<pid>/maps` of every process each second would be the agent's largest cost; its address
//! space size, one short read, tells whether anything was mapped since the last look.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// One mapped library of one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    pub pid: u32,
    /// Start of the process after boot, in clock ticks.
    pub start_ticks: u64,
    /// Path in the process's own mount namespace.
    pub path: PathBuf,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    start_ticks: u64,
    address_space_bytes: u64,
    libraries: Vec<PathBuf>,
    /// Looked at in the current pass.
    pass: u64,
}

/// Remembers what each process looked like.
#[derive(Debug)]
pub struct Scanner {
    proc: PathBuf,
    seen: BTreeMap<u32, Seen>,
    pass: u64,
}

impl Scanner {
    /// A scanner over a `/proc` file system.
    pub fn new(proc: PathBuf) -> Self {
        Self { proc, seen: BTreeMap::new(), pass: 0 }
    }

    /// Every mapped libcuda, read anew for processes that started or changed their address space.
    pub fn scan(&mut self) -> Vec<Mapping> {
        self.pass += 1;
        let Ok(entries) = fs::read_dir(&self.proc) else { return Vec::new() };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
                self.look_at(pid, &entry.path());
            }
        }
        let pass = self.pass;
        self.seen.retain(|_, seen| seen.pass == pass);
        self.seen
            .iter()
            .flat_map(|(&pid, seen)| {
                seen.libraries.iter().map(move |path| Mapping {
                    pid,
                    start_ticks: seen.start_ticks,
                    path: path.clone(),
                })
            })
            .collect()
    }

    fn look_at(&mut self, pid: u32, directory: &Path) {
        let Some(stat) = fs::read(directory.join("stat")).ok().and_then(|stat| parse_stat(&stat)) else {
            return;
        };
        let seen = self.seen.entry(pid).or_default();
        seen.pass = self.pass;
        if (seen.start_ticks, seen.address_space_bytes) == (stat.start_ticks, stat.address_space_bytes) {
            return;
        }
        seen.start_ticks = stat.start_ticks;
        seen.address_space_bytes = stat.address_space_bytes;
        // A kernel thread has no address space and nothing to read.
        seen.libraries = if stat.address_space_bytes == 0 {
            Vec::new()
        } else {
            fs::read(directory.join("maps")).map(|maps| libraries(&maps)).unwrap_or_default()
        };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    start_ticks: u64,
    address_space_bytes: u64,
}

/// Reads fields 22 and 23 of `/proc/<pid>/stat`; the command, field 2, may hold anything.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let after_command = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(stat.get(after_command..)?).ok()?;
    let mut fields = text.split_ascii_whitespace().skip(19);
    Some(Stat {
        start_ticks: fields.next()?.parse().ok()?,
        address_space_bytes: fields.next()?.parse().ok()?,
    })
}

/// The distinct executable mappings of files called `libcuda.so*` in `/proc/<pid>/maps`.
fn libraries(maps: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;

    let mut found: Vec<PathBuf> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let (Some(permissions), Some(path)) = (fields.nth(1), fields.nth(3)) else { continue };
        let Some(start) = path.iter().position(|byte| *byte != b' ') else { continue };
        let path = &path[start..];
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if permissions.get(2) == Some(&b'x') && name.starts_with(b"libcuda.so") {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAPS: &[u8] = b"\
7f0000000000-7f0000001000 r--p 00000000 fe:00 11 /usr/lib/libcuda.so.1\n\
7f0000001000-7f0000002000 r-xp 00001000 fe:00 11 /usr/lib/libcuda.so.1\n\
7f0000003000-7f0000004000 r-xp 00001000 fe:00 12                         /a path/libcuda.so.550.54 (deleted)\n\
7f0000005000-7f0000006000 r-xp 00001000 fe:00 13 /usr/lib/libcudart.so.12\n\
7f0000007000-7f0000008000 rw-p 00000000 00:00 0 \n\
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0 [vdso]\n";

    #[test]
    fn only_executable_mappings_of_libcuda_count() {
        assert_eq!(
            libraries(MAPS),
            [PathBuf::from("/usr/lib/libcuda.so.1"), PathBuf::from("/a path/libcuda.so.550.54")]
        );
    }

    #[test]
    fn a_command_may_look_like_fields() {
        let stat = b"7 (a) R 1 2) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 8192 100 0";
        assert_eq!(parse_stat(stat), Some(Stat { start_ticks: 4242, address_space_bytes: 8192 }));
        assert_eq!(parse_stat(b"7 (a) S 1"), None);
    }

    #[test]
    fn a_process_is_read_again_when_its_address_space_changes() {
        let proc = tempfile::tempdir().unwrap();
        let process = proc.path().join("7");
        fs::create_dir(&process).unwrap();
        let stat = |bytes: u64| {
            let stat = format!("7 (x) S 1 7 7 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 42 {bytes} 0");
            fs::write(process.join("stat"), stat).unwrap();
        };
        let mut scanner = Scanner::new(proc.path().to_owned());
        stat(4096);
        fs::write(process.join("maps"), b"").unwrap();
        assert_eq!(scanner.scan(), []);

        fs::write(process.join("maps"), MAPS).unwrap();
        assert_eq!(scanner.scan(), [], "nothing tells that the maps changed");
        stat(8192);
        assert_eq!(scanner.scan().len(), 2);
        assert_eq!(
            scanner.scan()[0],
            Mapping { pid: 7, start_ticks: 42, path: "/usr/lib/libcuda.so.1".into() }
        );

        fs::remove_dir_all(&process).unwrap();
        assert_eq!(scanner.scan(), []);
    }

    proptest! {
        #[test]
        fn anything_may_stand_in_maps_and_stat(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = libraries(&data);
            let _ = parse_stat(&data);
        }
    }
}
