//! Which processes have a libcuda mapped.
//!
//! libcuda is loaded with `dlopen` long after a process starts, so processes are looked at again and again.
//! Reading `/proc/<pid>/maps` of every process each second would be the agent's largest cost; its address
//! space size, one short read, tells whether anything was mapped since the last look.
//!
//! A process decides how many mappings it has and what they are called, so `maps` is read line by line and
//! only so much is kept of it.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::identity::process::Stat;

/// Libraries that are looked at in one process; no program has use for more than one.
pub const MAX_LIBRARIES_PER_PROCESS: usize = 16;

/// The longest line of `maps` that is read: a path of `PATH_MAX` bytes, each of them escaped, and the columns
/// before it.
const MAX_LINE_BYTES: u64 = 4 * 4096 + 128;

/// One mapped library of one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    pub pid: u32,
    /// Start of the process after boot, in clock ticks.
    pub start_ticks: u64,
    pub library: MappedFile,
}

/// A file as `/proc/<pid>/maps` shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MappedFile {
    /// Path in the process's own mount namespace, when the file still has it.
    pub path: PathBuf,
    /// Device and inode as shown; under an overlay they may be those of either file.
    pub file: String,
    /// The addresses of its first executable mapping, as its name in `/proc/<pid>/map_files`.
    pub addresses: String,
}

/// What the mappings of a process come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Libraries {
    found: Vec<MappedFile>,
    /// There are more than are looked at.
    too_many: bool,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    start_ticks: u64,
    address_space_bytes: u64,
    libraries: Libraries,
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
                seen.libraries.found.iter().map(move |library| Mapping {
                    pid,
                    start_ticks: seen.start_ticks,
                    library: library.clone(),
                })
            })
            .collect()
    }

    /// Processes with more libraries than [`MAX_LIBRARIES_PER_PROCESS`] at the last scan.
    pub fn overfull(&self) -> impl Iterator<Item = u32> {
        self.seen.iter().filter(|(_, seen)| seen.libraries.too_many).map(|(pid, _)| *pid)
    }

    fn look_at(&mut self, pid: u32, directory: &Path) {
        let Some(stat) = fs::read(directory.join("stat")).ok().and_then(|stat| Stat::parse(&stat)) else {
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
            Libraries::default()
        } else {
            File::open(directory.join("maps"))
                .and_then(|maps| libraries(BufReader::new(maps)))
                .unwrap_or_default()
        };
    }
}

/// The distinct executable mappings of files called `libcuda.so*` in `/proc/<pid>/maps`.
fn libraries(mut maps: impl BufRead) -> io::Result<Libraries> {
    let mut libraries = Libraries::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if maps.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(libraries);
        }
        if line.pop_if(|byte| *byte == b'\n').is_none() && line.len() as u64 == MAX_LINE_BYTES {
            maps.skip_until(b'\n')?;
            continue;
        }
        let Some(library) = library(&line) else { continue };
        let known = |found: &MappedFile| (&found.path, &found.file) == (&library.path, &library.file);
        if libraries.found.iter().any(known) {
            continue;
        }
        if libraries.found.len() == MAX_LIBRARIES_PER_PROCESS {
            libraries.too_many = true;
            return Ok(libraries);
        }
        libraries.found.push(library);
    }
}

/// `7f00-7f10 r-xp 00001000 fe:00 11      /path`, if it is an executable mapping of a libcuda.
fn library(line: &[u8]) -> Option<MappedFile> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let addresses = fields.next()?;
    let permissions = fields.next()?;
    let (device, inode) = (fields.nth(1)?, fields.next()?);
    let path = fields.next()?.trim_ascii_start();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if permissions.get(2) != Some(&b'x') || !name.starts_with(b"libcuda.so") {
        return None;
    }
    Some(MappedFile {
        path: PathBuf::from(OsStr::from_bytes(path)),
        file: format!("{} {}", std::str::from_utf8(device).ok()?, std::str::from_utf8(inode).ok()?),
        addresses: map_file(addresses)?,
    })
}

/// The name in `map_files`, which unlike `maps` pads its addresses with no zeros.
fn map_file(addresses: &[u8]) -> Option<String> {
    let (start, end) = std::str::from_utf8(addresses).ok()?.split_once('-')?;
    let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).ok());
    Some(format!("{:x}-{:x}", start?, end?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAPS: &[u8] = b"\
7f0000000000-7f0000001000 r--p 00000000 fe:00 11 /usr/lib/libcuda.so.1\n\
7f0000001000-7f0000002000 r-xp 00001000 fe:00 11 /usr/lib/libcuda.so.1\n\
7f0000002000-7f0000003000 r-xp 00002000 fe:00 11 /usr/lib/libcuda.so.1\n\
00003000-00004000 r-xp 00001000 fe:00 12                         /a path/libcuda.so.550.54 (deleted)\n\
7f0000005000-7f0000006000 r-xp 00001000 fe:00 13 /usr/lib/libcudart.so.12\n\
7f0000007000-7f0000008000 rw-p 00000000 00:00 0 \n\
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0 [vdso]\n";

    fn mapped(path: &str, file: &str, addresses: &str) -> MappedFile {
        MappedFile { path: path.into(), file: file.to_owned(), addresses: addresses.to_owned() }
    }

    #[test]
    fn only_executable_mappings_of_libcuda_count() {
        assert_eq!(
            libraries(MAPS).unwrap(),
            Libraries {
                found: vec![
                    mapped("/usr/lib/libcuda.so.1", "fe:00 11", "7f0000001000-7f0000002000"),
                    mapped("/a path/libcuda.so.550.54", "fe:00 12", "3000-4000"),
                ],
                too_many: false
            }
        );
    }

    #[test]
    fn a_file_that_replaced_another_is_a_second_one() {
        let maps =
            b"1000-2000 r-xp 0 fe:00 11 /libcuda.so.1 (deleted)\n3000-4000 r-xp 0 fe:00 12 /libcuda.so.1";
        let found = libraries(&maps[..]).unwrap().found;
        assert_eq!(
            found,
            [
                mapped("/libcuda.so.1", "fe:00 11", "1000-2000"),
                mapped("/libcuda.so.1", "fe:00 12", "3000-4000")
            ]
        );
    }

    #[test]
    fn a_process_with_too_many_libraries_is_told() {
        let lines = |count: usize| -> String {
            let line = |index| format!("1000-2000 r-xp 0 fe:00 {index} /libcuda.so.1");
            (0..count).map(line).collect::<Vec<_>>().join("\n")
        };
        let enough = libraries(lines(MAX_LIBRARIES_PER_PROCESS).as_bytes()).unwrap();
        assert_eq!((enough.found.len(), enough.too_many), (MAX_LIBRARIES_PER_PROCESS, false));
        let more = libraries(lines(MAX_LIBRARIES_PER_PROCESS + 1).as_bytes()).unwrap();
        assert_eq!((more.found.len(), more.too_many), (MAX_LIBRARIES_PER_PROCESS, true));
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_whole() {
        let folder = "libcuda.so/".repeat(10_000);
        let maps = format!(
            "1000-2000 r-xp 0 fe:00 11 /{folder}libcuda.so.1\n3000-4000 r-xp 0 fe:00 12 /libcuda.so.1\n"
        );
        let found = libraries(maps.as_bytes()).unwrap().found;
        assert_eq!(found, [mapped("/libcuda.so.1", "fe:00 12", "3000-4000")]);
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
        let found = scanner.scan();
        assert_eq!(found.len(), 2);
        let library = mapped("/usr/lib/libcuda.so.1", "fe:00 11", "7f0000001000-7f0000002000");
        assert_eq!(found[0], Mapping { pid: 7, start_ticks: 42, library });

        fs::remove_dir_all(&process).unwrap();
        assert_eq!(scanner.scan(), []);
    }

    proptest! {
        #[test]
        fn anything_may_stand_in_maps(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            let found = libraries(&data[..]).unwrap().found;
            prop_assert!(found.len() <= MAX_LIBRARIES_PER_PROCESS);
        }
    }
}
