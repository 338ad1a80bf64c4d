//! Functions and frames, each once.

use crate::found::{Found, FoundFunction};
use prof_abi::CpuMode;
use prof_profile::{
    DsoId, DsoKind, Frame, FrameRange, Function, FunctionId, NameId, Names, Svma, UnnamedReason,
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
    /// A function of a JIT compiler, which may put its code in several
    /// places; the first that samples have stands for all.
    Jit(DsoId, NameId),
    /// An address without a name.
    Address(DsoId, u64, CpuMode),
}

/// What is said of all functions at a location.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionPlace {
    pub(crate) dso: DsoId,
    pub(crate) kind: DsoKind,
    pub(crate) mode: CpuMode,
}

/// A function without a name, or an address in one of which no more is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unnamed {
    pub(crate) dso: DsoId,
    pub(crate) mode: CpuMode,
    /// Its first address; the live one where there is no file.
    pub(crate) start: Svma,
    /// Its length in bytes; 0 of an address.
    pub(crate) size: u64,
    /// Why there is no name.
    pub(crate) reason: UnnamedReason,
}

/// Collects functions and frames while locations are resolved.
#[derive(Debug, Default)]
pub(crate) struct FunctionTable {
    pub(crate) functions: Vec<Function>,
    pub(crate) frames: Vec<Frame>,
    index: FxHashMap<Identity, FunctionId>,
    shared: SharedNames,
}

/// What was found together on its way into the tables: the numbers that it
/// has there, as far as it was put in.
pub(crate) struct Numbers<'a> {
    found: &'a Found,
    /// Where its texts go.
    pub(crate) names: &'a mut Names,
    functions: Vec<Option<FunctionId>>,
    files: Vec<Option<NameId>>,
}

impl<'a> Numbers<'a> {
    pub(crate) fn new(found: &'a Found, names: &'a mut Names) -> Self {
        Self {
            found,
            names,
            functions: vec![None; found.functions.len()],
            files: vec![None; found.files.len()],
        }
    }
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
    pub(crate) fn add_found(
        &mut self,
        place: FunctionPlace,
        numbers: &mut Numbers<'_>,
        frames: FrameRange,
    ) -> FrameRange {
        let start = self.frames.len();
        let range = frames.start as usize..(frames.start + frames.len) as usize;
        for frame in numbers.found.frames.get(range).unwrap_or_default() {
            let Some(found) = numbers.found.functions.get(frame.function as usize) else {
                continue;
            };
            let known = numbers.functions.get(frame.function as usize);
            let function = known.copied().flatten().unwrap_or_else(|| {
                let id = self.function(place, numbers, found);
                if let Some(slot) = numbers.functions.get_mut(frame.function as usize) {
                    *slot = Some(id);
                }
                id
            });
            let file = frame.file;
            let file = file.and_then(|file| self.file(numbers, file));
            self.frames.push(Frame {
                function,
                file,
                line: frame.line,
                is_inline: found.extent.is_none(),
            });
        }
        self.range_since(start)
    }

    fn function(
        &mut self,
        FunctionPlace { dso, kind, mode }: FunctionPlace,
        numbers: &mut Numbers<'_>,
        found: &FoundFunction,
    ) -> FunctionId {
        let name = self.shared.intern(numbers.names, &found.name);
        let identity = match found.extent {
            Some(_) if kind == DsoKind::Jit => Identity::Jit(dso, name),
            Some((first, _)) => Identity::Symbol(dso, first, name),
            None => Identity::Inline(dso, name),
        };
        let (start, size) = found.extent.unwrap_or_default();
        let defined_at = found
            .defined_at
            .and_then(|(file, line)| Some((self.file(numbers, file)?, line)));
        self.intern(identity, || Function {
            name,
            dso,
            start,
            size,
            mode,
            unnamed: None,
            defined_at,
        })
    }

    fn file(&mut self, numbers: &mut Numbers<'_>, file: u32) -> Option<NameId> {
        let slot = numbers.files.get_mut(file as usize)?;
        if slot.is_none() {
            let path = numbers.found.files.get(file as usize)?;
            *slot = Some(self.shared.intern(numbers.names, path));
        }
        *slot
    }

    /// Adds the one frame of an address without a name: the function that it
    /// is in, if that is known, or itself. `name` is asked for what to call a
    /// new one.
    pub(crate) fn add_unnamed(
        &mut self,
        unnamed: Unnamed,
        name: impl FnOnce() -> NameId,
    ) -> FrameRange {
        let start = self.frames.len();
        let Unnamed { dso, mode, .. } = unnamed;
        let Svma(at) = unnamed.start;
        let id = self.intern(Identity::Address(dso, at, mode), || Function {
            name: name(),
            dso,
            start: unnamed.start,
            size: unnamed.size,
            mode,
            unnamed: Some(unnamed.reason),
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
