//! Interned text: symbol names, paths, thread names.

use crate::visible;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

/// A handle to a text in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);

/// Every text of a profile, once.
///
/// Texts are valid UTF-8. Bytes that were not are kept as visible `\xNN`
/// (see [`Names::intern_bytes`]); control characters stay and are escaped by
/// each view for the place they go to.
#[derive(Debug, Default, Clone)]
pub struct Names {
    text: String,
    /// End of each text in `text`; its start is the end of the one before.
    ends: Vec<usize>,
    index: HashTable<u32>,
}

impl Names {
    /// The handle of `text`, the same for equal texts.
    pub fn intern(&mut self, text: &str) -> NameId {
        let hash = FxBuildHasher.hash_one(text);
        let found = self
            .index
            .find(hash, |&id| Self::at(&self.text, &self.ends, id) == text);
        if let Some(&id) = found {
            return NameId(id);
        }
        let id = u32::try_from(self.ends.len()).expect("fewer than 2^32 names");
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (all, ends) = (&self.text, &self.ends);
        self.index.insert_unique(hash, id, |&id| {
            FxBuildHasher.hash_one(Self::at(all, ends, id))
        });
        NameId(id)
    }

    /// Like [`Names::intern`] for bytes of a file: those that are not UTF-8
    /// become `\xNN`.
    pub fn intern_bytes(&mut self, bytes: &[u8]) -> NameId {
        self.intern(&visible(bytes))
    }

    /// The text of a handle.
    pub fn get(&self, id: NameId) -> &str {
        Self::at(&self.text, &self.ends, id.0)
    }

    /// How many different texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether nothing was interned.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn at<'a>(text: &'a str, ends: &[usize], id: u32) -> &'a str {
        let index = id as usize;
        let start = index
            .checked_sub(1)
            .and_then(|before| ends.get(before))
            .copied()
            .unwrap_or(0);
        ends.get(index)
            .and_then(|&end| text.get(start..end))
            .unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn equal_texts_share_a_handle_and_bad_bytes_stay_visible() {
        let mut names = Names::default();
        let first = names.intern("main");
        let other = names.intern("");
        assert_eq!(names.intern("main"), first);
        assert_eq!(names.get(first), "main");
        assert_eq!(names.get(other), "");
        let bad = names.intern_bytes(b"a\xffb");
        assert_eq!(names.get(bad), "a\\xffb");
        assert_eq!(names.len(), 3);
    }
}
