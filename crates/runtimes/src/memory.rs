//! Reading numbers and texts from a process's memory.

use rustc_hash::FxHashMap;

/// The memory of a process.
pub trait Memory {
    /// Copies memory from `address` on, as much as there is; how many bytes.
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize;
}

/// Objects in the memory of a process, each of which has the address of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedList {
    /// Where the address of the first one stands.
    pub head: u64,
    /// If given, that stands so many bytes behind the address there.
    pub via: Option<u64>,
    /// Bytes of each that are wanted.
    pub size: u64,
    /// Where in them the address of the next stands; `None` if there is one only.
    pub next: Option<u64>,
}

/// The longest text that is read, bytes.
const LONGEST_TEXT: usize = 1024;

pub(crate) fn bytes<const N: usize>(memory: &mut impl Memory, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (memory.read(at, &mut bytes) == N).then_some(bytes)
}

pub(crate) fn word(memory: &mut impl Memory, at: u64) -> Option<u64> {
    bytes(memory, at).map(u64::from_le_bytes)
}

pub(crate) fn int(memory: &mut impl Memory, at: u64) -> Option<u32> {
    bytes(memory, at).map(u32::from_le_bytes)
}

/// `len` bytes; `None` if they are not all there, or more than a text has.
pub(crate) fn slice(memory: &mut impl Memory, at: u64, len: usize) -> Option<Vec<u8>> {
    if len > LONGEST_TEXT {
        return None;
    }
    let mut bytes = vec![0; len];
    (memory.read(at, &mut bytes) == len).then_some(bytes)
}

/// A text that ends with a NUL; `None` if it is longer than any real one.
pub(crate) fn text(memory: &mut impl Memory, at: u64) -> Option<String> {
    let mut text = Vec::new();
    while text.len() < LONGEST_TEXT {
        let mut piece = [0; 64];
        let got = memory.read(at.checked_add(text.len() as u64)?, &mut piece);
        let piece = piece.get(..got)?;
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            text.extend_from_slice(piece.get(..end)?);
            return String::from_utf8(text).ok();
        }
        if got == 0 {
            return None;
        }
        text.extend_from_slice(piece);
    }
    None
}

/// Bytes read at once.
const PAGE: u64 = 4096;
/// Most pages that are kept, and that are read: no runtime's tables have as
/// many.
const MAX_PAGES: usize = 1024;
const MAX_READ: usize = 8 * MAX_PAGES;

/// Memory of which each page is read once: for tables with many texts.
pub(crate) struct Pages<'a, M> {
    memory: &'a mut M,
    pages: FxHashMap<u64, Vec<u8>>,
    /// Pages that may still be read.
    left: usize,
}

impl<'a, M: Memory> Pages<'a, M> {
    pub(crate) fn new(memory: &'a mut M) -> Self {
        Self {
            memory,
            pages: FxHashMap::default(),
            left: MAX_READ,
        }
    }
}

impl<M: Memory> Memory for Pages<'_, M> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let mut done = 0;
        while done < out.len() {
            let Some(at) = address.checked_add(done as u64) else {
                break;
            };
            if self.pages.len() >= MAX_PAGES {
                self.pages.clear();
            }
            let start = at - at % PAGE;
            if self.left == 0 {
                break;
            }
            let (memory, left) = (&mut self.memory, &mut self.left);
            let page = self.pages.entry(start).or_insert_with(|| {
                *left -= 1;
                let mut page = vec![0; PAGE as usize];
                let got = memory.read(start, &mut page);
                page.truncate(got);
                page
            });
            let from = page.get((at - start) as usize..).unwrap_or_default();
            let out = out.get_mut(done..).unwrap_or_default();
            let len = from.len().min(out.len());
            if len == 0 {
                break;
            }
            for (to, from) in out.iter_mut().zip(from) {
                *to = *from;
            }
            done += len;
        }
        done
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Memory, Pages, text, word};

    /// Memory made of pieces.
    #[derive(Default)]
    pub(crate) struct Image(pub(crate) Vec<(u64, Vec<u8>)>);

    impl Memory for Image {
        fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
            let found = self.0.iter().find_map(|(start, bytes)| {
                let from = usize::try_from(address.checked_sub(*start)?).ok()?;
                bytes.get(from..).filter(|rest| !rest.is_empty())
            });
            let from = found.unwrap_or_default();
            let len = from.len().min(out.len());
            out[..len].copy_from_slice(&from[..len]);
            len
        }
    }

    #[test]
    fn texts_end_and_pages_join() {
        let mut bytes = vec![b'x'; 5000];
        bytes.extend(b"end\0");
        let mut image = Image(vec![(0x1000, bytes)]);
        assert_eq!(text(&mut image, 0x1000), None, "too long");
        let mut pages = Pages::new(&mut image);
        assert_eq!(text(&mut pages, 0x1000 + 4990).map(|it| it.len()), Some(13));
        let across = word(&mut pages, 0x1000 + 4092).map(u64::to_le_bytes);
        assert_eq!(across, Some([b'x'; 8]));
        assert_eq!(word(&mut pages, 0x1000 + 5000), None);
        assert_eq!(text(&mut pages, u64::MAX - 3), None);
    }
}
