//! The functions of a libcuda file that can be probed.

use std::{collections::BTreeMap, fs::File, io};

use gpu_ebpf::{call::Call, symbols::SYMBOLS};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, read::ReadCache};
use thiserror::Error;

use super::library::AttachPoint;

/// No libcuda is larger; anything that is, is not read.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Why a file offers no functions.
#[derive(Debug, Error)]
pub enum ElfError {
    #[error("the file cannot be read")]
    Read(#[source] io::Error),
    #[error("the file is not a regular file of at most {MAX_FILE_BYTES} bytes")]
    NotALibrary,
    #[error("the file is not a readable ELF file")]
    Parse(#[source] object::read::Error),
    #[error("the file exports none of the CUDA driver functions")]
    NoFunctions,
}

/// What a file offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// One point for each distinct offset.
    pub points: Vec<AttachPoint>,
    /// Known functions that the file does not export, as an older or newer driver may not.
    pub missing: Vec<String>,
    /// Exports that share their code with an earlier one of another kind, which is counted instead.
    pub conflicting: Vec<String>,
}

/// Reads the dynamic symbol table of an open file; the file may be a tenant's own.
pub fn functions(file: &File) -> Result<Functions, ElfError> {
    let metadata = file.metadata().map_err(ElfError::Read)?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(ElfError::NotALibrary);
    }
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).map_err(ElfError::Parse)?;
    let segments: Vec<Segment> = elf
        .segments()
        .map(|segment| {
            let (file_offset, file_bytes) = segment.file_range();
            Segment { address: segment.address(), file_offset, file_bytes }
        })
        .collect();
    let exported: BTreeMap<&str, u64> = elf
        .dynamic_symbols()
        .filter(object::ObjectSymbol::is_definition)
        .filter_map(|symbol| Some((symbol.name().ok()?, file_offset(&segments, symbol.address())?)))
        .collect();
    let functions = choose(&exported);
    if functions.points.is_empty() {
        return Err(ElfError::NoFunctions);
    }
    Ok(functions)
}

struct Segment {
    address: u64,
    file_offset: u64,
    file_bytes: u64,
}

fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    segments.iter().find_map(|segment| {
        let within = address.checked_sub(segment.address)?;
        (within < segment.file_bytes).then(|| segment.file_offset.checked_add(within))?
    })
}

/// Picks the known functions out of the exports (name → file offset).
fn choose(exported: &BTreeMap<&str, u64>) -> Functions {
    let mut functions = Functions::default();
    let mut taken: BTreeMap<u64, Call> = BTreeMap::new();
    for symbol in SYMBOLS {
        for suffix in symbol.variant.suffixes() {
            let name = format!("{}{suffix}", symbol.name);
            let Some(&offset) = exported.get(name.as_str()) else {
                functions.missing.push(name);
                continue;
            };
            match taken.get(&offset) {
                None => {
                    taken.insert(offset, symbol.call);
                    functions.points.push(AttachPoint { offset, call: symbol.call });
                }
                Some(call) if *call == symbol.call => {}
                Some(_) => functions.conflicting.push(name),
            }
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_found_and_aliases_probed_once() {
        let exported = BTreeMap::from([
            ("cuLaunchKernel", 0x100),
            ("cuLaunchKernel_ptsz", 0x200),
            ("cuLaunchKernelEx", 0x100),
            ("cuMemAlloc_v2", 0x300),
            ("cuMemFree_v2", 0x300),
            ("cuSomethingElse", 0x400),
        ]);
        let functions = choose(&exported);
        assert_eq!(
            functions.points,
            [
                AttachPoint { offset: 0x100, call: Call::Launch },
                AttachPoint { offset: 0x200, call: Call::Launch },
                AttachPoint { offset: 0x300, call: Call::Allocate },
            ]
        );
        assert_eq!(functions.conflicting, ["cuMemFree_v2"]);
        assert!(functions.missing.contains(&"cuLaunchKernelEx_ptsz".to_owned()));
        assert!(!functions.missing.contains(&"cuLaunchKernelEx".to_owned()));
    }

    #[test]
    fn addresses_become_file_offsets() {
        let segments = [
            Segment { address: 0, file_offset: 0, file_bytes: 0x1000 },
            Segment { address: 0x3000, file_offset: 0x1000, file_bytes: 0x500 },
        ];
        assert_eq!(file_offset(&segments, 0x3010), Some(0x1010));
        assert_eq!(file_offset(&segments, 0x3500), None, "behind the segment");
        assert_eq!(file_offset(&segments, 0x2000), None, "between segments");
    }

    #[test]
    fn a_file_without_cuda_is_refused() {
        let own = File::open("/proc/self/exe").unwrap();
        assert!(matches!(functions(&own), Err(ElfError::NoFunctions)));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libcuda.so.1");
        std::fs::write(&path, b"not an ELF file").unwrap();
        assert!(matches!(functions(&File::open(&path).unwrap()), Err(ElfError::Parse(_))));
        assert!(matches!(functions(&File::open(directory.path()).unwrap()), Err(ElfError::NotALibrary)));
    }
}
