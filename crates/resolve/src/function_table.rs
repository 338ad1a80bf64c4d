//! Functions and frames, each once.

use prof_abi::CpuMode;
use prof_profile::{
    DsoId, Frame, FrameRange, Function, FunctionId, NameId, Names, Svma, UnnamedReason,
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What makes two frames the same function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Identity {
    /// A symbol of the file: its first address and name (aliases differ).
    Symbol(DsoId, Svma, NameId),
    /// A function known only by name, inlined everywhere.
    Inline(DsoId, NameId),
    /// An address without a name.
    Address(DsoId, u64, CpuMode),
}

/// A function as looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundFunction<'a> {
    pub(crate) name: &'a Arc<str>,
    /// First address and length in bytes; `None` for an inlined body.
    pub(crate) extent: Option<(Svma, u64)>,
    pub(crate) file: Option<&'a Arc<str>>,
    pub(crate) line: u32,
    /// Where it is defined, if known.
    pub(crate) defined_at: Option<(&'a Arc<str>, u32)>,
}

/// Collects functions and frames while locations are resolved.
#[derive(Debug, Default)]
pub(crate) struct FunctionTable {
    pub(crate) functions: Vec<Function>,
    pub(crate) frames: Vec<Frame>,
    index: FxHashMap<Identity, FunctionId>,
    shared: SharedNames,
}

/// Handles of texts that a file's tables share among their answers: by where
/// the text is, so that it is hashed once. Keeping it keeps its place.
#[derive(Debug, Default)]
struct SharedNames(FxHashMap<usize, (Arc<str>, NameId)>);

impl SharedNames {
    fn intern(&mut self, names: &mut Names, text: &Arc<str>) -> NameId {
        if Arc::strong_count(text) == 1 {
            // No other answer has it.
            return names.intern(text);
        }
        let place = Arc::as_ptr(text).cast::<u8>() as usize;
        let new = || (Arc::clone(text), names.intern(text));
        self.0.entry(place).or_insert_with(new).1
    }
}

impl FunctionTable {
    /// Adds the frames of one location, innermost first; the last is the
    /// function that stands in the file.
    pub(crate) fn add_found<'a>(
        &mut self,
        names: &mut Names,
        (dso, mode): (DsoId, CpuMode),
        found: impl Iterator<Item = FoundFunction<'a>>,
    ) -> FrameRange {
        let start = self.frames.len();
        for function in found {
            let name = self.shared.intern(names, function.name);
            let identity = match function.extent {
                Some((first, _)) => Identity::Symbol(dso, first, name),
                None => Identity::Inline(dso, name),
            };
            let (first, size) = function.extent.unwrap_or_default();
            let defined_at = function
                .defined_at
                .map(|(file, line)| (self.shared.intern(names, file), line));
            let id = self.intern(identity, || Function {
                name,
                dso,
                start: first,
                size,
                mode,
                unnamed: None,
                defined_at,
            });
            let file = function.file.map(|file| self.shared.intern(names, file));
            let is_inline = function.extent.is_none();
            self.frames.push(Frame {
                function: id,
                file,
                line: function.line,
                is_inline,
            });
        }
        self.range_since(start)
    }

    /// Adds the one frame of an address without a name; `offset` is in bytes
    /// of the file, or the live address where there is no file.
    pub(crate) fn add_unnamed(
        &mut self,
        names: &mut Names,
        (dso, mode): (DsoId, CpuMode),
        (module, offset): (&str, u64),
        reason: UnnamedReason,
    ) -> FrameRange {
        let start = self.frames.len();
        let id = self.intern(Identity::Address(dso, offset, mode), || Function {
            name: names.intern(&format!("{module}+{offset:#x}")),
            dso,
            start: Svma(offset),
            size: 0,
            mode,
            unnamed: Some(reason),
            defined_at: None,
        });
        self.frames.push(Frame {
            function: id,
            file: None,
            line: 0,
            is_inline: false,
        });
        self.range_since(start)
    }

    /// Adds the one frame of an address that no mapping holds. Recordings
    /// with broken frame pointers have hundreds of thousands of them, so they
    /// share a name and are told apart by address.
    pub(crate) fn add_unmapped(
        &mut self,
        name: NameId,
        dso: DsoId,
        mode: CpuMode,
        address: u64,
    ) -> FrameRange {
        let start = self.frames.len();
        let id = self.intern(Identity::Address(dso, address, mode), || Function {
            name,
            dso,
            start: Svma(address),
            size: 0,
            mode,
            unnamed: Some(UnnamedReason::NoMapping),
            defined_at: None,
        });
        self.frames.push(Frame {
            function: id,
            file: None,
            line: 0,
            is_inline: false,
        });
        self.range_since(start)
    }

    fn intern(&mut self, identity: Identity, make: impl FnOnce() -> Function) -> FunctionId {
        let functions = &mut self.functions;
        *self.index.entry(identity).or_insert_with(|| {
            let id = FunctionId(u32::try_from(functions.len()).expect("fewer than 2^32 functions"));
            functions.push(make());
            id
        })
    }

    fn range_since(&self, start: usize) -> FrameRange {
        FrameRange {
            start: u32::try_from(start).expect("fewer than 2^32 frames"),
            len: (self.frames.len() - start) as u32,
        }
    }
}
