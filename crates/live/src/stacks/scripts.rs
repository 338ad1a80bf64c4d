//! JavaScript functions of a process, by the objects that they are.
//!
//! Objects move and go, and others come where they were. A function is believed
//! where the same was there in an earlier drain, too; and at once where the
//! frame has the bytecode of just this function.

use super::compiled_scripts::CompiledScripts;
use prof_runtimes::{JsFunction, Memory, V8};
use rustc_hash::FxHashMap;

/// Most functions that are remembered, and most return addresses.
const MAX_FUNCTIONS: usize = 1 << 16;
/// When a frame had so often no objects where those of JavaScript have them, its
/// return address is one of native code.
const NATIVE: u8 = 16;
/// Of one that had a function.
const SCRIPT: u8 = u8::MAX;

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
    pub(crate) natives: Natives,
    pub(crate) compiled: CompiledScripts,
}

/// Frames without JavaScript functions.
#[derive(Debug, Default)]
pub(crate) struct Natives {
    /// By return address into a file: how often its frame had no objects, up to
    /// [`NATIVE`], or [`SCRIPT`].
    seen: FxHashMap<u64, u8>,
}

impl Natives {
    /// Whether a frame with this return address need not be asked for a function.
    pub(crate) fn has(&self, pc: u64) -> bool {
        self.seen.get(&pc) == Some(&NATIVE)
    }

    /// The frame with this return address into a file has a function, or no
    /// objects in its place.
    pub(crate) fn saw(&mut self, pc: u64, has_function: bool) {
        if self.seen.len() >= MAX_FUNCTIONS {
            self.seen.clear();
        }
        let seen = self.seen.entry(pc).or_default();
        *seen = match (has_function, *seen) {
            (true, _) => SCRIPT,
            (false, ..NATIVE) => *seen + 1,
            (false, seen) => seen,
        };
    }
}

/// What a frame says: the object that is its function, and its bytecode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsFrame {
    pub(crate) function: u64,
    pub(crate) bytecode: Option<u64>,
    /// Whether it runs compiled code, which needs no bytecode.
    pub(crate) is_compiled: bool,
    /// Where in its code it was interrupted, or returns to.
    pub(crate) at: u64,
}

impl Scripts {
    pub(crate) fn new(engine: V8) -> Self {
        Self {
            engine,
            functions: FxHashMap::default(),
            natives: Natives::default(),
            compiled: CompiledScripts::default(),
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
        let name = found.name.as_deref().filter(|_| is_proven || is_old);
        if let Some(name) = name.filter(|_| frame.is_compiled) {
            self.compiled.saw(frame.at, name, drain);
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::{NATIVE, Natives};

    #[test]
    fn a_frame_that_never_has_objects_is_native_and_one_that_had_a_function_never() {
        let mut natives = Natives::default();
        natives.saw(7, true);
        for _ in 0..NATIVE {
            assert!(!natives.has(5));
            natives.saw(5, false);
            natives.saw(7, false);
        }
        assert!(natives.has(5) && !natives.has(7) && !natives.has(6));
        // Other code may be there by now.
        natives.saw(5, true);
        assert!(!natives.has(5));
    }
}
