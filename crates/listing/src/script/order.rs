//! Lines in the order of time, or of the file.

use super::Shown;

/// In which order what is printed comes out.
pub(super) enum Order {
    /// As it is printed: by time.
    Time,
    /// As it lies in the file: kept until the end, by offset.
    File(Vec<(u64, Vec<u8>)>),
}

impl Order {
    pub(super) fn new(shown: &Shown) -> Self {
        if shown.in_file_order() {
            Self::File(Vec::new())
        } else {
            Self::Time
        }
    }

    /// `text` was printed of the record at `offset`.
    pub(super) fn printed(&mut self, offset: u64, text: &mut Vec<u8>) {
        if let Self::File(kept) = self
            && !text.is_empty()
        {
            kept.push((offset, text.as_slice().into()));
            text.clear();
        }
    }

    /// Gives what was kept.
    pub(super) fn finish(self, text: &mut Vec<u8>) {
        if let Self::File(mut kept) = self {
            kept.sort_by_key(|&(offset, _)| offset);
            for (_, piece) in kept {
                text.extend(piece);
            }
        }
    }
}
