//! UUIDs and serial numbers that follow from a machine's name and a GPU's index, so that every run has the same.

/// A UUID of version 4 form for GPU `index` of the machine `name`.
pub(super) fn uuid(name: &str, index: usize) -> String {
    let high = hash(name, index, "uuid-high");
    let low = hash(name, index, "uuid-low");
    let time_high = 0x4000 | (high & 0x0fff);
    let sequence = 0x8000 | ((low >> 48) & 0x3fff);
    format!(
        "GPU-{:08x}-{:04x}-{time_high:04x}-{sequence:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        low & 0xffff_ffff_ffff
    )
}

/// A 13-digit board serial number for GPU `index` of the machine `name`.
pub(super) fn serial(name: &str, index: usize) -> String {
    format!("13{:011}", hash(name, index, "serial") % 100_000_000_000)
}

/// Whether the text has the form in which NVML prints a GPU's UUID.
pub(super) fn is_uuid(text: &str) -> bool {
    let Some(digits) = text.strip_prefix("GPU-") else { return false };
    let groups: Vec<&str> = digits.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.concat().bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The raw bytes behind a UUID that [`is_uuid`] accepts; zeros stand for digits that are not there.
pub(super) fn uuid_bytes(text: &str) -> [u8; 16] {
    let mut digits = text.bytes().skip(4).filter_map(|byte| char::from(byte).to_digit(16));
    std::array::from_fn(|_| {
        let (high, low) = (digits.next().unwrap_or(0), digits.next().unwrap_or(0));
        (high * 16 + low) as u8
    })
}

/// How NVML prints a UUID.
pub fn format_uuid(bytes: [u8; 16]) -> String {
    let value = u128::from_be_bytes(bytes);
    format!(
        "GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        value >> 96,
        value >> 80 & 0xffff,
        value >> 64 & 0xffff,
        value >> 48 & 0xffff,
        value & 0xffff_ffff_ffff
    )
}

/// FNV-1a over the parts, finished with the splitmix64 mixer so that neighbouring indices differ in every digit.
fn hash(name: &str, index: usize, purpose: &str) -> u64 {
    let mut value = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes().chain(index.to_string().bytes()).chain(purpose.bytes()) {
        value = (value ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
