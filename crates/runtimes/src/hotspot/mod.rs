//! Code of a Java virtual machine: where frames of interpreter and compilers
//! end, and which method they are of.
//!
//! ```text
//!  code heap   ┌ block ┬ block ┬ free ┬ block ─────────────┐
//!  segment map   0 1 2   0 1     ff     0 1 2 3    steps back to the block
//!  block       ┌ length, used │ CodeBlob: frame size, code, method │ code ┐
//! ```
//!
//! Source: `share/runtime/vmStructs.cpp` and `share/code` of OpenJDK; what
//! the tables name is taken from them.

mod blob;
mod interpreter;
mod names;
mod tables;

use crate::memory::{Memory, int, text, word};
use interpreter::Interpreter;
use rustc_hash::FxHashMap;
use std::ops::Range;
use tables::Tables;

/// Heaps of a code cache: three, or one.
const MAX_HEAPS: u32 = 16;
/// Steps through the segment map to the start of a block: 64 times 254
/// segments.
const MAX_STEPS: usize = 64;
/// Kinds of blobs.
const MAX_KINDS: usize = 256;

/// What a runtime says of code that it made, as far as unwinding needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuntimeCode {
    /// Compiled code. At offsets from `complete` on its frame is set up: `size`
    /// bytes with the return address; the caller's frame pointer is right below
    /// that.
    Compiled {
        /// The first instruction.
        start: u64,
        /// The first one behind the code.
        end: u64,
        /// The first one with the whole frame.
        complete: u64,
        /// Bytes of the frame.
        size: u64,
        /// Where callees return to instead, once its assumptions failed; or 0.
        deopt: u64,
        /// The method; 0 if it is a part of the runtime.
        method: u64,
    },
    /// HotSpot's interpreter. Its frames keep a frame pointer; 8 bytes below
    /// it is the stack pointer of the caller, 24 below the method.
    Interpreter {
        /// First address of this piece.
        start: u64,
        /// Methods are entered here, before they have a frame.
        is_entry: bool,
    },
    /// Code without a frame that ends in a jump: the return address is on top
    /// of the stack.
    Frameless,
    /// Hand-written assembly, with or without a frame.
    Stub {
        /// First address of the block that it is in.
        start: u64,
    },
    /// Such assembly, which moves frames of virtual threads between the stack and the
    /// heap. A frame whose caller is still in the heap returns to it, to an address that
    /// no call stands before.
    Continuation {
        /// First address of the block that it is in.
        start: u64,
        /// Bytes that the frame which entered a virtual thread holds of that
        /// (`ContinuationEntry`), a multiple of 8; 0 where the virtual machine does not
        /// tell (JDK 21).
        entry: u64,
    },
}

/// A part of the memory for code.
#[derive(Debug)]
struct Heap {
    code: Range<u64>,
    segments: u64,
    log2_segment: u32,
}

/// What a blob's name says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Method,
    Frameless,
    Continuation,
    Other,
}

/// A Java virtual machine in a process.
#[derive(Debug)]
pub struct HotSpot {
    heaps: Vec<Heap>,
    blob: blob::Fields,
    interpreter: Interpreter,
    names: names::Fields,
    /// See [`RuntimeCode::Continuation`].
    entry: u64,
    /// By address of the text.
    kinds: FxHashMap<u64, Kind>,
}

impl HotSpot {
    /// The virtual machine whose libjvm is loaded at `base`; `None` if it is
    /// none, is not ready yet, or cannot be read.
    pub fn open(base: u64, memory: &mut impl Memory) -> Option<Self> {
        let tables = Tables::read(base, memory)?;
        let heaps = heaps(&tables, memory)?;
        let interpreter = Interpreter::of(&tables, memory)?;
        if heaps.is_empty() || interpreter.is_empty() {
            return None;
        }
        Some(Self {
            heaps,
            blob: blob::Fields::of(&tables)?,
            interpreter,
            names: names::Fields::of(&tables)?,
            entry: tables.size("ContinuationEntry").unwrap_or(0) & !7,
            kinds: FxHashMap::default(),
        })
    }

    /// Whether an address is in the code cache.
    pub fn has(&self, pc: u64) -> bool {
        self.heaps.iter().any(|heap| heap.code.contains(&pc))
    }

    /// The kind of code at an address.
    pub fn code_at(&mut self, pc: u64, memory: &mut impl Memory) -> Option<RuntimeCode> {
        if let Some(codelet) = self.interpreter.codelet(pc, memory) {
            return Some(RuntimeCode::Interpreter {
                start: codelet.code.start,
                is_entry: codelet.is_entry,
            });
        }
        let heap = self.heaps.iter().find(|heap| heap.code.contains(&pc))?;
        let block = heap.block(pc, memory)?;
        self.blob_at(block, pc, memory)
    }

    /// The name of a method, `java.util.HashMap.put`.
    pub fn method_name(&self, method: u64, memory: &mut impl Memory) -> Option<String> {
        self.names.method(method, memory)
    }

    /// Range and name of a code block that is no method (a stub or the
    /// interpreter), as the virtual machine calls it.
    pub fn block_name(&self, pc: u64, memory: &mut impl Memory) -> Option<(Range<u64>, String)> {
        let heap = self.heaps.iter().find(|heap| heap.code.contains(&pc))?;
        let block = heap.block(pc, memory)?;
        let blob = self.blob.read(block, memory)?;
        let name = text(memory, blob.name).filter(|name| blob.has(pc) && !name.is_empty())?;
        Some((blob.start..blob.end, name))
    }

    fn blob_at(&mut self, block: u64, pc: u64, memory: &mut impl Memory) -> Option<RuntimeCode> {
        let blob = self.blob.read(block, memory)?;
        if !blob.is_used || !blob.has(pc) {
            return None;
        }
        let kind = self.kind(blob.name, memory)?;
        let start = blob.start;
        let size = u64::try_from(blob.frame_size).ok()?.checked_mul(8)?;
        match kind {
            Kind::Frameless => Some(RuntimeCode::Frameless),
            Kind::Continuation => {
                let entry = self.entry;
                Some(RuntimeCode::Continuation { start, entry })
            }
            _ if size < 16 => Some(RuntimeCode::Stub { start }),
            kind => {
                let complete = u64::try_from(blob.frame_complete).unwrap_or(0);
                let is_method = kind == Kind::Method;
                Some(RuntimeCode::Compiled {
                    start,
                    end: blob.end,
                    complete: start.checked_add(complete)?,
                    size,
                    deopt: if is_method { blob.deopt } else { 0 },
                    method: if is_method { blob.method } else { 0 },
                })
            }
        }
    }

    /// What the name at an address says.
    fn kind(&mut self, name: u64, memory: &mut impl Memory) -> Option<Kind> {
        if let Some(known) = self.kinds.get(&name) {
            return Some(*known);
        }
        let kind = match text(memory, name)?.as_str() {
            "nmethod" | "native nmethod" => Kind::Method,
            "vtable chunks" | "I2C/C2I adapters" => Kind::Frameless,
            name if name.starts_with("StubRoutines (continuation") => Kind::Continuation,
            _ => Kind::Other,
        };
        if self.kinds.len() < MAX_KINDS {
            self.kinds.insert(name, kind);
        }
        Some(kind)
    }
}

impl Heap {
    /// The block that an address is in.
    fn block(&self, pc: u64, memory: &mut impl Memory) -> Option<u64> {
        const FREE: u8 = 0xff;
        let mut segment = (pc - self.code.start) >> self.log2_segment;
        for _ in 0..MAX_STEPS {
            let mut step = [0];
            if memory.read(self.segments.checked_add(segment)?, &mut step) != 1 {
                return None;
            }
            match step {
                [0] => return Some(self.code.start + (segment << self.log2_segment)),
                [FREE] => return None,
                [back] => segment = segment.checked_sub(back.into())?,
            }
        }
        None
    }
}

/// The parts of the code cache.
fn heaps(tables: &Tables, memory: &mut impl Memory) -> Option<Vec<Heap>> {
    let field = |name: &str| tables.field(name);
    let (space, map) = (field("CodeHeap::_memory")?, field("CodeHeap::_segmap")?);
    let (low, high) = (
        field("VirtualSpace::_low_boundary")?,
        field("VirtualSpace::_high_boundary")?,
    );
    let mut heaps = Vec::new();
    for heap in heap_addresses(tables, memory)? {
        let mut at =
            |first: u64, second: u64| word(memory, heap.checked_add(first)?.checked_add(second)?);
        let code = at(space, low)?..at(space, high)?;
        let segments = at(map, low)?;
        let log2 = heap.checked_add(field("CodeHeap::_log2_segment_size")?)?;
        heaps.push(Heap {
            code,
            segments,
            log2_segment: int(memory, log2)?.min(31),
        });
    }
    Some(heaps)
}

/// Where the virtual machine describes them: in a list, or in JDK 8 the only one.
fn heap_addresses(tables: &Tables, memory: &mut impl Memory) -> Option<Vec<u64>> {
    let field = |name: &str| tables.field(name);
    let Some(list) = field("CodeCache::_heaps") else {
        let only = word(memory, field("CodeCache::_heap")?)?;
        return (only != 0).then(|| vec![only]);
    };
    let list = word(memory, list)?;
    // Until JDK 13 by another name.
    let length = field("GrowableArrayBase::_len").or_else(|| field("GenericGrowableArray::_len"));
    let count = int(memory, list.checked_add(length?)?)?;
    let data = list.checked_add(field("GrowableArray<int>::_data")?)?;
    let data = word(memory, data)?;
    let mut each = (0..count.min(MAX_HEAPS)).map(|number| data.checked_add(u64::from(number) * 8));
    each.try_fold(Vec::new(), |mut heaps, at| {
        heaps.push(word(memory, at?)?);
        Some(heaps)
    })
}
