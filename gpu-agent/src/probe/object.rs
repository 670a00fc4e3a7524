//! The BPF programs' object file, as it was when the agent was built.

/// The ELF file with the BPF programs, aligned as its readers need it; `None` where the agent was built without
/// one (`cargo xtask build-ebpf` makes it).
pub const BPF_OBJECT: Option<&[u8]> = EMBEDDED;

#[cfg(bpf_object)]
const EMBEDDED: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/gpu-ebpf-programs")));

#[cfg(not(bpf_object))]
const EMBEDDED: Option<&[u8]> = None;

#[cfg(test)]
#[cfg(bpf_object)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_an_aligned_elf_file_for_bpf() {
        const EM_BPF: u16 = 247;
        let object = BPF_OBJECT.expect("built with an object");
        assert_eq!(object.as_ptr().addr() % align_of::<u64>(), 0);
        assert_eq!(&object[..4], b"\x7fELF");
        assert_eq!(u16::from_le_bytes([object[18], object[19]]), EM_BPF);
    }
}
