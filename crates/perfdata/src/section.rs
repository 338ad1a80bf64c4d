//! Parts of a file.

/// Offset and length of a section as the file states them, in bytes; the file
/// may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Section {
    /// From the start of the file.
    pub offset: u64,
    /// Length.
    pub size: u64,
}

impl Section {
    /// Offset of the first byte after the section; `u64::MAX` if that
    /// overflows.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}
