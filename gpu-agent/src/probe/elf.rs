//! The functions of a libcuda file that can be probed.
//!
//! The file may be a tenant's own, made to cost as much as it can. Of it only the headers and the dynamic
//! symbol table are read, each of a bounded size; names are compared up to a bounded length.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
};

use gpu_ebpf::{call::Call, symbols::SYMBOLS};
use object::{
    Endianness, ReadRef,
    elf::{FileHeader64, PT_LOAD, SHT_DYNSYM, SectionHeader64, Sym64},
    read::{
        ReadCache,
        elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _},
    },
};
use thiserror::Error;

use super::library::AttachPoint;

/// No libcuda is larger; anything that is, is not read.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// No libcuda has a dynamic symbol table or names for it that are larger, by two orders of magnitude.
const MAX_TABLE_BYTES: u64 = 32 << 20;

/// No libcuda has more segments or sections, by an order of magnitude.
const MAX_HEADERS: usize = 1024;

/// Why a file offers no functions.
#[derive(Debug, Error)]
pub enum ElfError {
    #[error("the file cannot be read")]
    Read(#[source] io::Error),
    #[error("the file is not a regular file of at most {MAX_FILE_BYTES} bytes")]
    NotALibrary,
    #[error("the file is not a readable 64-bit ELF file")]
    Parse(#[source] object::read::Error),
    #[error("the file has {count} {what}, at most {MAX_HEADERS} are read")]
    TooManyHeaders { what: &'static str, count: usize },
    #[error("the file's {what} has {bytes} bytes, at most {MAX_TABLE_BYTES} are read")]
    TooLarge { what: &'static str, bytes: u64 },
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

/// Reads the dynamic symbol table of an open file.
pub fn functions(file: &File) -> Result<Functions, ElfError> {
    let metadata = file.metadata().map_err(ElfError::Read)?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(ElfError::NotALibrary);
    }
    let functions = choose(&exported(&ReadCache::new(file))?);
    if functions.points.is_empty() {
        return Err(ElfError::NoFunctions);
    }
    Ok(functions)
}

/// File offsets of the known functions that the file exports, by name.
fn exported(data: &ReadCache<&File>) -> Result<BTreeMap<String, u64>, ElfError> {
    let header = FileHeader64::<Endianness>::parse(data).map_err(ElfError::Parse)?;
    let endian = header.endian().map_err(ElfError::Parse)?;
    at_most("segments", header.phnum(endian, data).map_err(ElfError::Parse)?)?;
    at_most("sections", header.shnum(endian, data).map_err(ElfError::Parse)?)?;
    let segments: Vec<Segment> = header
        .program_headers(endian, data)
        .map_err(ElfError::Parse)?
        .iter()
        .filter(|segment| segment.p_type(endian) == PT_LOAD)
        .map(|segment| Segment {
            address: segment.p_vaddr(endian),
            file_offset: segment.p_offset(endian),
            file_bytes: segment.p_filesz(endian),
        })
        .collect();
    let sections = header.section_headers(endian, data).map_err(ElfError::Parse)?;
    let Some(table) = sections.iter().find(|section| section.sh_type(endian) == SHT_DYNSYM) else {
        return Err(ElfError::NoFunctions);
    };
    let names = sections.get(table.sh_link(endian) as usize).ok_or(ElfError::NoFunctions)?;
    let names = read("dynamic string table", names, endian, data)?;
    let symbols = read("dynamic symbol table", table, endian, data)?;
    let count = symbols.len() / size_of::<Sym64<Endianness>>();
    // The only way that this fails is a table whose bytes are not aligned, which the format forbids.
    let (symbols, _) = object::pod::slice_from_bytes::<Sym64<Endianness>>(symbols, count)
        .map_err(|()| ElfError::NoFunctions)?;

    let known: BTreeSet<String> = SYMBOLS
        .iter()
        .flat_map(|symbol| symbol.variant.suffixes().iter().map(|suffix| format!("{}{suffix}", symbol.name)))
        .collect();
    let longest = known.iter().map(String::len).max().unwrap_or(0);
    // Offsets come last: a name that is repeated a million times is looked up in the segments once.
    let addresses: BTreeMap<&str, u64> = symbols
        .iter()
        .filter(|symbol| symbol.is_definition(endian))
        .filter_map(|symbol| {
            let name = name_at(names, symbol.st_name(endian) as usize, longest)?;
            Some((known.get(name)?.as_str(), symbol.st_value(endian)))
        })
        .collect();
    Ok(addresses
        .into_iter()
        .filter_map(|(name, address)| Some((name.to_owned(), file_offset(&segments, address)?)))
        .collect())
}

fn at_most(what: &'static str, count: usize) -> Result<(), ElfError> {
    if count > MAX_HEADERS { Err(ElfError::TooManyHeaders { what, count }) } else { Ok(()) }
}

/// The contents of a section, if it is of a size that a library has.
fn read<'data>(
    what: &'static str,
    section: &SectionHeader64<Endianness>,
    endian: Endianness,
    data: impl ReadRef<'data>,
) -> Result<&'data [u8], ElfError> {
    let bytes = section.sh_size(endian);
    if bytes > MAX_TABLE_BYTES {
        return Err(ElfError::TooLarge { what, bytes });
    }
    section.data(endian, data).map_err(ElfError::Parse)
}

/// The name at an offset, unless it is longer than `longest` bytes.
fn name_at(names: &[u8], offset: usize, longest: usize) -> Option<&str> {
    let rest = names.get(offset..)?;
    let rest = rest.get(..=longest).unwrap_or(rest);
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(rest.get(..end)?).ok()
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
fn choose(exported: &BTreeMap<String, u64>) -> Functions {
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
        let exported = [
            ("cuLaunchKernel", 0x100),
            ("cuLaunchKernel_ptsz", 0x200),
            ("cuLaunchKernelEx", 0x100),
            ("cuMemAlloc_v2", 0x300),
            ("cuMemFree_v2", 0x300),
            ("cuSomethingElse", 0x400),
        ];
        let functions =
            choose(&exported.into_iter().map(|(name, offset)| (name.to_owned(), offset)).collect());
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

    /// A file of two sections: a symbol table of `symbol_bytes` and names of `name_bytes`.
    fn file_with_tables(symbol_bytes: u64, name_bytes: u64) -> File {
        let mut elf = Vec::new();
        elf.extend(b"\x7fELF\x02\x01\x01");
        elf.resize(16, 0);
        elf.extend([3, 0, 62, 0, 1, 0, 0, 0]);
        // Entry point, program headers, section headers.
        elf.extend([0, 0, 64].map(u64::to_le_bytes).concat());
        // Flags, then the sizes and numbers of the headers.
        elf.extend([0_u8; 4]);
        elf.extend([64, 56, 0, 64, 2, 0].map(u16::to_le_bytes).concat());
        for (kind, bytes) in [(SHT_DYNSYM, symbol_bytes), (object::elf::SHT_STRTAB, name_bytes)] {
            elf.extend([0, kind].map(u32::to_le_bytes).concat());
            elf.extend([0, 0, 256, bytes].map(u64::to_le_bytes).concat());
            // The names are in section 1.
            elf.extend([1_u32, 0].map(u32::to_le_bytes).concat());
            elf.extend([8, 24].map(u64::to_le_bytes).concat());
        }
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &elf, 0).unwrap();
        // A sparse file costs its owner nothing.
        file.set_len(MAX_FILE_BYTES).unwrap();
        file
    }

    #[test]
    fn tables_that_no_library_has_are_not_read() {
        let refusal = |symbols, names| functions(&file_with_tables(symbols, names)).unwrap_err().to_string();
        assert_eq!(refusal(240, 100), "the file exports none of the CUDA driver functions");
        assert_eq!(
            refusal((1 << 29) + 24, 100),
            "the file's dynamic symbol table has 536870936 bytes, at most 33554432 are read"
        );
        assert_eq!(
            refusal(240, 1 << 29),
            "the file's dynamic string table has 536870912 bytes, at most 33554432 are read"
        );
    }

    #[test]
    fn headers_that_no_library_has_are_not_read() {
        let file = file_with_tables(240, 100);
        std::os::unix::fs::FileExt::write_all_at(&file, &2000_u16.to_le_bytes(), 60).unwrap();
        assert_eq!(
            functions(&file).unwrap_err().to_string(),
            "the file has 2000 sections, at most 1024 are read"
        );
    }

    #[test]
    fn names_are_compared_up_to_the_longest_known_one() {
        assert_eq!(name_at(b"\0cuInit\0x", 1, 6), Some("cuInit"));
        assert_eq!(name_at(b"\0cuInit\0x", 1, 5), None, "longer than any");
        assert_eq!(name_at(b"\0cuInit", 1, 6), None, "without an end");
        assert_eq!(name_at(b"\0", 7, 6), None, "outside");
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
