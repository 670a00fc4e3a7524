//! The identity of a GPU: the text that NVML prints, also made from the 16 raw bytes that the kernel driver uses.

use std::fmt;
use std::sync::Arc;

/// The exact text by which a GPU is known to its vendor's library: `GPU-` or `MIG-` and a UUID for NVIDIA.
///
/// It is compared as text, because the older form of a MIG identity (`MIG-GPU-<uuid>/<gi>/<ci>`) has no 16-byte form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuUuid(Arc<str>);

/// Why a text is not a GPU's identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "GPU identity `{text}` is not accepted: expected `GPU-` or `MIG-` followed by a UUID or a vendor's own suffix"
)]
pub struct ParseGpuUuidError {
    text: String,
}

impl GpuUuid {
    /// The identity of a physical GPU from its 16 raw bytes, in the order in which the driver stores them.
    ///
    /// A zero byte is an ordinary byte: these are not C strings.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(format!("GPU-{}", hyphenated(bytes)).into())
    }

    /// The identity of a MIG device from its 16 raw bytes.
    pub fn mig_from_bytes(bytes: [u8; 16]) -> Self {
        Self(format!("MIG-{}", hyphenated(bytes)).into())
    }

    /// Takes the text that the vendor's library printed, unchanged.
    pub fn parse(text: &str) -> Result<Self, ParseGpuUuidError> {
        let suffix = text.strip_prefix("GPU-").or_else(|| text.strip_prefix("MIG-"));
        match suffix {
            Some(suffix) if !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(Self(text.into()))
            }
            _ => Err(ParseGpuUuidError { text: text.to_owned() }),
        }
    }

    /// The text, as NVML prints it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 16 raw bytes, or `None` for an identity that is not a UUID with a prefix.
    pub fn to_bytes(&self) -> Option<[u8; 16]> {
        let text = self.0.get(4..)?;
        let groups: Vec<&str> = text.split('-').collect();
        if groups.iter().map(|group| group.len()).ne([8, 4, 4, 4, 12]) {
            return None;
        }
        let digits = groups.concat();
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(bytes)
    }
}

fn hyphenated(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (position, byte) in bytes.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for nibble in [byte >> 4, byte & 0xf] {
            text.push(char::from(b"0123456789abcdef"[usize::from(nibble)]));
        }
    }
    text
}

impl fmt::Display for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_zero_byte_does_not_end_the_text() {
        let bytes = [0x18, 0xef, 0x14, 0xe9, 0, 0x2a, 0x4b, 0, 0x80, 0, 0, 1, 2, 3, 4, 0];
        let uuid = GpuUuid::from_bytes(bytes);
        assert_eq!(uuid.as_str(), "GPU-18ef14e9-002a-4b00-8000-000102030400");
        assert_eq!(uuid.to_bytes(), Some(bytes));
    }

    #[test]
    fn the_text_of_the_library_is_kept_as_it_is() {
        for text in
            ["GPU-18ef14e9-002a-4b00-8000-000102030400", "MIG-GPU-18ef14e9-002a-4b00-8000-000102030400/13/0"]
        {
            assert_eq!(GpuUuid::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn the_old_form_of_a_mig_identity_has_no_bytes() {
        let uuid = GpuUuid::parse("MIG-GPU-18ef14e9-002a-4b00-8000-000102030400/13/0").unwrap();
        assert_eq!(uuid.to_bytes(), None);
    }

    #[test]
    fn what_is_no_identity_is_refused_by_name() {
        for text in ["", "GPU-", "0", "GPU-a\0b", "gpu-18ef14e9"] {
            let error = GpuUuid::parse(text).unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn bytes_survive_the_text(bytes: [u8; 16]) {
            prop_assert_eq!(GpuUuid::from_bytes(bytes).to_bytes(), Some(bytes));
            prop_assert_eq!(GpuUuid::parse(GpuUuid::mig_from_bytes(bytes).as_str()).unwrap().to_bytes(), Some(bytes));
        }
    }
}
