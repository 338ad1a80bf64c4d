//! The identity of one build of an ELF file.

use std::fmt;

/// The bytes of an ELF `NT_GNU_BUILD_ID` note: 1 to 64 bytes, usually 20.
///
/// The kernel keeps at most 20 bytes in its records, so a longer note and its
/// recorded form compare with [`BuildId::matches`], not with `==`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId {
    len: u8,
    bytes: [u8; Self::MAX],
}

impl BuildId {
    /// The longest build-id accepted, in bytes.
    pub const MAX: usize = 64;
    /// What a perf record has room for, in bytes.
    pub const RECORDED_MAX: usize = 20;

    /// A build-id of these bytes; `None` when empty, longer than
    /// [`BuildId::MAX`], or all zero (which tools write for "none").
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() > Self::MAX || bytes.iter().all(|&byte| byte == 0) {
            return None;
        }
        let mut own = [0; Self::MAX];
        own.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self {
            len: bytes.len() as u8,
            bytes: own,
        })
    }

    /// Reads lower or upper case hex digits, as `readelf -n` prints them.
    ///
    /// ```
    /// use prof_abi::BuildId;
    /// let id = BuildId::from_hex("00FF10").unwrap();
    /// assert_eq!(id.as_bytes(), [0, 0xff, 0x10]);
    /// ```
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if !digits.len().is_multiple_of(2) || digits.len() > Self::MAX * 2 {
            return None;
        }
        let mut bytes = Vec::with_capacity(digits.len() / 2);
        for pair in digits.chunks_exact(2) {
            let &[high, low] = pair else { return None };
            let nibble = |digit: u8| char::from(digit).to_digit(16);
            bytes.push((nibble(high)? * 16 + nibble(low)?) as u8);
        }
        Self::new(&bytes)
    }

    /// The bytes themselves.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Whether both name the same build: equal, or equal in the first 20
    /// bytes where one of them was cut to 20 by the kernel, or filled up to 20
    /// with zeros, as in records that do not tell its length.
    pub fn matches(&self, other: &Self) -> bool {
        let recorded = |id: &Self| usize::from(id.len) == Self::RECORDED_MAX;
        // What is behind its length is 0.
        let first = |id: &Self| id.bytes.first_chunk::<{ Self::RECORDED_MAX }>().copied();
        self.as_bytes() == other.as_bytes()
            || ((recorded(self) || recorded(other)) && first(self) == first(other))
    }
}

/// Lower-case hex without separators.
impl fmt::Display for BuildId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "BuildId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::BuildId;

    #[test]
    fn hex_goes_both_ways_and_zeros_are_no_build_id() {
        let id = BuildId::from_hex("00ff10").expect("three bytes");
        assert_eq!(id.to_string(), "00ff10");
        assert_eq!(BuildId::new(&[0; 20]), None);
        assert_eq!(BuildId::from_hex("0g"), None);
        assert_eq!(BuildId::from_hex("abc"), None);
    }

    #[test]
    fn a_long_note_matches_its_recorded_first_twenty_bytes() {
        let long = BuildId::new(&[7; 32]).expect("32 bytes");
        let cut = BuildId::new(&[7; 20]).expect("20 bytes");
        let short = BuildId::new(&[7; 16]).expect("16 bytes");
        assert!(long.matches(&cut) && cut.matches(&long));
        assert!(!short.matches(&cut) && !short.matches(&long));
        let mut bytes = [7; 20];
        bytes[16..].fill(0);
        let filled = BuildId::new(&bytes).expect("20 bytes");
        assert!(short.matches(&filled) && filled.matches(&short));
        assert!(!filled.matches(&long) && !filled.matches(&cut));
        bytes[15] = 8;
        assert!(!short.matches(&BuildId::new(&bytes).expect("20 bytes")));
    }
}
