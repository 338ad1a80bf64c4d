//! What was found at the addresses of one dso, each function once.
//!
//! Made by the threads that look addresses up, so that putting it into the
//! profile's tables, which is one thread's work, is little more than
//! numbering.

use prof_profile::{FrameRange, Svma, UnnamedReason};
use prof_symbolize::{Lookup, SourceFrame};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// An address with what was found there.
pub(crate) struct Resolved {
    /// As in the file's address space.
    pub(crate) address: u64,
    pub(crate) lookup: Lookup,
}

/// A function that stands in a file, or is only inlined there.
#[derive(Debug)]
pub(crate) struct FoundFunction {
    pub(crate) name: Arc<str>,
    /// First address and length in bytes; `None` for an inlined body.
    pub(crate) extent: Option<(Svma, u64)>,
    /// Where it is defined, if known: an index into [`Found::files`], and the
    /// line.
    pub(crate) defined_at: Option<(u32, u32)>,
}

/// A function at an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundFrame {
    /// Index into [`Found::functions`].
    pub(crate) function: u32,
    /// Index into [`Found::files`].
    pub(crate) file: Option<u32>,
    /// 0 if unknown.
    pub(crate) line: u32,
}

/// What stands at one address.
#[derive(Debug)]
pub(crate) struct FoundPlace {
    /// As in the file's address space.
    pub(crate) address: u64,
    /// In [`Found::frames`], innermost first; none without a name.
    pub(crate) frames: FrameRange,
    /// Why there is no name.
    pub(crate) reason: Option<UnnamedReason>,
    /// First address and length in bytes of a function without a name.
    pub(crate) extent: Option<(Svma, u64)>,
}

/// What was found at a list of addresses, in their order.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In the order in which `frames` name them first.
    pub(crate) functions: Vec<FoundFunction>,
    /// Paths of source files.
    pub(crate) files: Vec<Arc<str>>,
    pub(crate) frames: Vec<FoundFrame>,
    pub(crate) places: Vec<FoundPlace>,
}

/// Collects what was found.
#[derive(Default)]
struct Finder {
    found: Found,
    /// By where its name is and, unless it is inlined, its first address.
    function_ids: FxHashMap<(usize, Option<Svma>), u32>,
    /// By where the path is.
    file_ids: FxHashMap<usize, u32>,
}

/// Texts are told apart by where they are: a file's tables share them, and
/// two of the same content are one name in the end.
fn place_of(text: &Arc<str>) -> usize {
    Arc::as_ptr(text).cast::<u8>() as usize
}

impl Found {
    /// What was found at addresses in this order.
    pub(crate) fn of(all: impl IntoIterator<Item = Resolved>) -> Self {
        let mut finder = Finder::default();
        // What is told apart by its place must keep it until the end.
        let all: Vec<Resolved> = all.into_iter().collect();
        all.iter().for_each(|resolved| finder.add(resolved));
        finder.found
    }
}

impl Finder {
    fn add(&mut self, resolved: &Resolved) {
        let Lookup {
            symbol,
            frames,
            reason,
            extent: unnamed_extent,
        } = &resolved.lookup;
        let extent = symbol.as_ref().map(|symbol| (symbol.start, symbol.size));
        let start = self.found.frames.len() as u32;
        for frame in frames {
            let found = FoundFrame {
                function: self.function(frame, extent.unwrap_or_default()),
                file: frame.file.as_ref().map(|file| self.file(file)),
                line: frame.line,
            };
            self.found.frames.push(found);
        }
        self.found.places.push(FoundPlace {
            address: resolved.address,
            frames: FrameRange {
                start,
                len: frames.len() as u32,
            },
            reason: *reason,
            extent: *unnamed_extent,
        });
    }

    fn function(&mut self, frame: &SourceFrame, extent: (Svma, u64)) -> u32 {
        let extent = (!frame.is_inline).then_some(extent);
        let key = (place_of(&frame.name), extent.map(|(start, _)| start));
        if let Some(&known) = self.function_ids.get(&key) {
            return known;
        }
        let defined_at = frame.defined_at.as_ref();
        let defined_at = defined_at.map(|(file, line)| (self.file(file), *line));
        let id = self.found.functions.len() as u32;
        self.found.functions.push(FoundFunction {
            name: Arc::clone(&frame.name),
            extent,
            defined_at,
        });
        self.function_ids.insert(key, id);
        id
    }

    fn file(&mut self, file: &Arc<str>) -> u32 {
        let files = &mut self.found.files;
        *self.file_ids.entry(place_of(file)).or_insert_with(|| {
            files.push(Arc::clone(file));
            files.len() as u32 - 1
        })
    }
}
