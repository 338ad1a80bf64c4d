//! Parts of a file.

/// A section of a file: where it starts and how long it is, in bytes. As
/// found; nothing says that the file has these bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Section {
    /// From the start of the file.
    pub offset: u64,
    /// Length.
    pub size: u64,
}

impl Section {
    /// The first byte behind it; the largest number if that is none.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}
