//! Offsets of kernel structure members, out of the kernel's own type information.
//!
//! A few dozen lines instead of CO-RE relocations, which Rust BPF programs cannot express: the loader looks
//! the members up and hands their offsets to the programs as constants.

use std::path::Path;

use thiserror::Error;

/// Why a member's offset is not known.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BtfError {
    /// The data does not begin like type information of this machine's byte order.
    #[error("not type information: the header is {0}")]
    Header(&'static str),
    /// A record runs past the end.
    #[error("truncated at byte {0}")]
    Truncated(usize),
    /// A kind that this reader cannot step over.
    #[error("type {id} has the unknown kind {kind}")]
    Kind { id: u32, kind: u32 },
}

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;

/// Offsets that the programs read kernel structures by, in bytes; 0 is "unknown".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskOffsets {
    pub group_leader: u32,
    pub start_boottime: u32,
    pub signal: u32,
    pub tgid: u32,
    pub signal_live: u32,
}

impl TaskOffsets {
    /// Reads them from the running kernel; all zero where it has no type information.
    pub fn of_running_kernel() -> Self {
        let path = Path::new("/sys/kernel/btf/vmlinux");
        match std::fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|data| Self::from_btf(&data).map_err(|error| error.to_string()))
        {
            Ok(offsets) => offsets,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "no kernel type information: process ends are found by looking");
                Self::default()
            }
        }
    }

    fn from_btf(data: &[u8]) -> Result<Self, BtfError> {
        let mut offsets = Self::default();
        for_each_struct_member(data, |structure, member, offset| {
            let slot = match (structure, member) {
                (b"task_struct", b"group_leader") => &mut offsets.group_leader,
                (b"task_struct", b"start_boottime") => &mut offsets.start_boottime,
                (b"task_struct", b"signal") => &mut offsets.signal,
                (b"task_struct", b"tgid") => &mut offsets.tgid,
                (b"signal_struct", b"live") => &mut offsets.signal_live,
                _ => return,
            };
            *slot = offset;
        })?;
        Ok(offsets)
    }
}

/// Calls `found(structure, member, offset in bytes)` for each named, byte-aligned member.
fn for_each_struct_member(data: &[u8], mut found: impl FnMut(&[u8], &[u8], u32)) -> Result<(), BtfError> {
    let u32_at = |at: usize| -> Result<u32, BtfError> {
        let bytes = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or(BtfError::Truncated(at))
    };
    let magic = data.get(..2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    if magic != Some(MAGIC) {
        return Err(BtfError::Header("of another kind"));
    }
    let header = u32_at(4)? as usize;
    let types = header.saturating_add(u32_at(8)? as usize);
    let types_end = types.saturating_add(u32_at(12)? as usize);
    let strings = header.saturating_add(u32_at(16)? as usize);
    if types_end > data.len() || strings > data.len() {
        return Err(BtfError::Header("longer than the data"));
    }
    let name = |offset: u32| -> &[u8] {
        let rest = data.get(strings.saturating_add(offset as usize)..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    };

    let mut at = types;
    let mut id = 1;
    while at < types_end {
        let (type_name, info) = (u32_at(at)?, u32_at(at + 4)?);
        let (kind, count, bitfields) = ((info >> 24) & 0x1f, (info & 0xffff) as usize, info >> 31 == 1);
        at += 12;
        if kind == KIND_STRUCT {
            for member in 0..count {
                let record = at + member * 12;
                let offset = u32_at(record + 8)?;
                let bits = if bitfields { offset & 0x00ff_ffff } else { offset };
                if bits % 8 == 0 {
                    found(name(type_name), name(u32_at(record)?), bits / 8);
                }
            }
        }
        at += match kind {
            // Integers, variables and declaration tags carry one word more.
            1 | 14 | 17 => 4,
            // Arrays.
            3 => 12,
            // Structures and unions; data sections; 64-bit enumerations.
            4 | 5 | 15 | 19 => count * 12,
            // Enumerations; parameters of a function prototype.
            6 | 13 => count * 8,
            // Pointers, forwards, typedefs, qualifiers, functions, floats, type tags.
            2 | 7..=12 | 16 | 18 => 0,
            kind => return Err(BtfError::Kind { id, kind }),
        };
        id += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Type information with one integer and `struct task_struct { …; signal @ 64 bits; tgid @ 128 bits }`.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0task_struct\0signal\0tgid\0";
        let words: &[u32] = &[
            // int: name 1, kind 1, 4 bytes, encoding.
            1,
            1 << 24,
            4,
            32,
            // struct: name 5, two members, 24 bytes.
            5,
            (4 << 24) | 2,
            24,
            17,
            1,
            64,
            24,
            1,
            128,
        ];
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut data = Vec::new();
        data.extend_from_slice(&MAGIC.to_ne_bytes());
        data.extend_from_slice(&[1, 0]);
        for word in [24, 0, types.len(), types.len(), strings.len()] {
            data.extend_from_slice(&u32::try_from(word).unwrap().to_ne_bytes());
        }
        data.extend_from_slice(&types);
        data.extend_from_slice(strings);
        data
    }

    #[test]
    fn members_are_found_by_name() {
        let offsets = TaskOffsets::from_btf(&sample()).unwrap();
        assert_eq!(offsets, TaskOffsets { signal: 8, tgid: 16, ..TaskOffsets::default() });
    }

    #[test]
    fn other_data_is_refused() {
        assert_eq!(TaskOffsets::from_btf(b"\x7fELF"), Err(BtfError::Header("of another kind")));
    }

    proptest! {
        #[test]
        fn damaged_data_never_panics(at in 0_usize..90, value in any::<u8>(), length in 0_usize..100) {
            let mut data = sample();
            if let Some(byte) = data.get_mut(at) {
                *byte = value;
            }
            data.truncate(length);
            drop(TaskOffsets::from_btf(&data));
        }
    }
}
