//! JavaScript functions of a process, by the objects that they are.
//!
//! Objects move and go, and others come where they were. A function is believed
//! where the same was there in an earlier drain, too; and at once where the
//! frame has the bytecode of just this function.

use prof_runtimes::{JsFunction, Memory, V8};
use rustc_hash::FxHashMap;

/// Most functions that are remembered.
const MAX_FUNCTIONS: usize = 1 << 16;

/// A function as it was found.
#[derive(Debug)]
struct Found {
    /// `None` if there is no function.
    is: Option<JsFunction>,
    /// The drain in which that was read first, and the latest in which it was.
    since: u64,
    seen: u64,
    name: Option<Box<str>>,
}

/// An engine, and its functions.
#[derive(Debug)]
pub(crate) struct Scripts {
    engine: V8,
    functions: FxHashMap<u64, Found>,
}

/// What a frame says: the object that is its function, and its bytecode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsFrame {
    pub(crate) function: u64,
    pub(crate) bytecode: Option<u64>,
    /// Whether it runs compiled code, which needs no bytecode.
    pub(crate) is_compiled: bool,
}

impl Scripts {
    pub(crate) fn new(engine: V8) -> Self {
        Self {
            engine,
            functions: FxHashMap::default(),
        }
    }

    pub(crate) fn engine(&self) -> &V8 {
        &self.engine
    }

    /// The name of the function of a frame, as of a drain.
    pub(crate) fn name(
        &mut self,
        frame: JsFrame,
        drain: u64,
        memory: &mut impl Memory,
    ) -> Option<&str> {
        if self.functions.len() >= MAX_FUNCTIONS {
            self.functions.clear();
        }
        let found = self.functions.entry(frame.function).or_insert(Found {
            is: None,
            since: drain,
            seen: drain.wrapping_sub(1),
            name: None,
        });
        if found.seen != drain {
            found.seen = drain;
            let is = self.engine.function(frame.function, memory);
            if !found.is.zip(is).is_some_and(|(was, is)| was.is_same(&is)) {
                found.since = drain;
                let name = is.and_then(|is| self.engine.name(&is, memory));
                found.name = name.map(String::into_boxed_str);
            }
            found.is = is;
        }
        let is = found.is?;
        let is_proven = frame.bytecode.is_some() && frame.bytecode == is.bytecode;
        let is_old = frame.is_compiled && found.since < drain;
        found.name.as_deref().filter(|_| is_proven || is_old)
    }
}
