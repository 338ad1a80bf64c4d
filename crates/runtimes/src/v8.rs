//! V8: which JavaScript function a frame is of.
//!
//! A frame of JavaScript has the function that runs in it, a pointer to an
//! object, at a fixed place below its frame pointer, and the interpreter's
//! frames the bytecode, too:
//!
//! ```text
//!  frame pointer ─► caller's frame pointer
//!                   context
//!                   function ─► shared information ─► name or scope, script
//!                   …
//!                   bytecode (interpreter and baseline code)
//! ```
//!
//! Where objects have what, node's programs tell debuggers by exported numbers
//! (`v8dbg_…`, made by V8's `gen-postmortem-metadata.py`). Pointers to objects
//! are odd; numbers are even, their value in the upper half. Builds whose
//! pointers are compressed, as browsers' are, are not read.

use crate::elf::Exports;
use crate::memory::{Memory, bytes, int, word};
use rustc_hash::FxHashMap;

/// What a pointer to an object is larger than its address, and the bits that
/// are so.
const TAG: u64 = 1;
const TAG_MASK: u64 = 3;
/// Place of an object's first field.
const FIRST: u64 = 8;
/// Longest name and path, bytes: both are in one path of a mapping.
const LONGEST: usize = 512;
/// Deepest text that is made of texts.
const DEEPEST: u32 = 8;
/// Names of a scope's variables that stand in itself, at most.
const MOST_LOCALS: u64 = 75;
/// Slots behind them that may hold the function's name and place.
const SLOTS: usize = 8;
/// Largest source whose lines are counted, bytes; most sources that are
/// remembered, and most lines of all of them.
const LARGEST_SOURCE: usize = 8 << 20;
const MOST_SOURCES: usize = 1 << 10;
const MOST_LINES: usize = 1 << 21;
/// Bytes of a source that are read at once.
const PIECE: usize = 1 << 16;

/// Types of objects, as their maps have them.
#[derive(Debug, Clone, Copy)]
struct Types {
    shared: u16,
    script: u16,
    scope: u16,
    bytecode: u16,
    /// Code that was compiled without looking at types, if there is such a type
    /// and the object tells its bytecode.
    code: Option<(u16, u64)>,
    /// The interpreter's data of functions that are debugged or measured.
    interpreter: Option<u16>,
}

/// Where objects have what, bytes from their address.
#[derive(Debug, Clone, Copy)]
struct Layout {
    shared: u64,
    name_or_scope: u64,
    script: u64,
    data: u64,
    script_name: u64,
    script_source: u64,
    map_type: u64,
    string_length: u64,
    /// Slots of a scope: how many variables, and where their names begin.
    locals: u64,
    first_local: u64,
    types: Types,
}

/// An engine in a process.
#[derive(Debug)]
pub struct V8 {
    layout: Layout,
    function: i32,
    bytecode: i32,
    lines: Sources,
}

/// What a function object says of itself: equal for the same function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsFunction {
    shared: u64,
    name_or_scope: u64,
    script: u64,
    /// The bytecode that it runs as long as it is not compiled, if any.
    pub bytecode: Option<u64>,
}

impl JsFunction {
    /// Whether it is the same function; it may be compiled by now.
    pub fn is_same(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.shared, it.name_or_scope, it.script);
        of(self) == of(other)
    }
}

/// Numbers that a program exports.
struct Told<'a, M> {
    exports: Exports,
    memory: &'a mut M,
}

impl<M: Memory> Told<'_, M> {
    /// The number of one of these names; versions differ in how they write the
    /// type of a field.
    fn number(&mut self, names: &[&str]) -> Option<i32> {
        let found = names.iter().find_map(|name| {
            let name = format!("v8dbg_{name}");
            self.exports.find(&name, self.memory)
        });
        Some(int(self.memory, found?)?.cast_signed())
    }

    fn place(&mut self, names: &[&str]) -> Option<u64> {
        u64::try_from(self.number(names)?).ok()
    }

    fn object_type(&mut self, names: &[&str]) -> Option<u16> {
        u16::try_from(self.number(names)?).ok()
    }

    fn types(&mut self) -> Option<Types> {
        let bytecode_of_code = self.place(&[
            "class_Code__bytecode_or_interpreter_data__HeapObject",
            "class_Code__bytecode_or_interpreter_data__Tagged_HeapObject_",
        ]);
        let code = self.object_type(&["type_Code__CODE_TYPE", "type_CodeT__CODET_TYPE"]);
        Some(Types {
            shared: self.object_type(&["type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"])?,
            script: self.object_type(&["type_Script__SCRIPT_TYPE"])?,
            scope: self.object_type(&["type_ScopeInfo__SCOPE_INFO_TYPE"])?,
            bytecode: self.object_type(&["type_BytecodeArray__BYTECODE_ARRAY_TYPE"])?,
            code: code.zip(bytecode_of_code),
            interpreter: self.object_type(&["type_InterpreterData__INTERPRETER_DATA_TYPE"]),
        })
    }

    fn layout(&mut self) -> Option<Layout> {
        const SHARED: &str = "class_SharedFunctionInfo";
        let of_shared = |field: &str| format!("{SHARED}__{field}");
        Some(Layout {
            shared: self.place(&["class_JSFunction__shared__SharedFunctionInfo"])?,
            name_or_scope: self.place(&[
                &of_shared("name_or_scope_info__Object"),
                &of_shared("name_or_scope_info__Tagged_Object_"),
                &of_shared("name_or_scope_info__Tagged_NameOrScopeInfoT_"),
            ])?,
            script: self.place(&[
                &of_shared("script_or_debug_info__HeapObject"),
                &of_shared("script_or_debug_info__Object"),
                &of_shared("script_or_debug_info__Tagged_HeapObject_"),
                &of_shared("script__Tagged_HeapObject_"),
                &of_shared("raw_script__Tagged_Object_"),
            ])?,
            // Versions that keep it to themselves have it in the same place.
            data: self
                .place(&[
                    &of_shared("function_data__Object"),
                    &of_shared("function_data__Tagged_Object_"),
                ])
                .unwrap_or(FIRST),
            script_name: self.place(&["class_Script__name__Object"])?,
            script_source: self.place(&["class_Script__source__Object"])?,
            map_type: self.place(&["class_Map__instance_type__uint16_t"])?,
            string_length: self.place(&["class_String__length__int32_t"])?,
            locals: self.place(&["scopeinfo_idx_ncontextlocals"])?,
            first_local: self.place(&["scopeinfo_idx_first_vars"])?,
            types: self.types()?,
        })
    }
}

impl V8 {
    /// Finds the engine in the file loaded at `base`; `None` if there is none
    /// or it tells debuggers nothing.
    pub fn open(base: u64, memory: &mut impl Memory) -> Option<Self> {
        const WHOLE_POINTERS: i32 = 31;
        let exports = Exports::open(base, memory)?;
        let mut told = Told { exports, memory };
        if told.number(&["SmiShiftSize"])? != WHOLE_POINTERS {
            return None;
        }
        Some(Self {
            layout: told.layout()?,
            function: told.number(&["off_fp_function"])?,
            bytecode: told.number(&["off_fp_bytecode_array"])?,
            lines: Sources::default(),
        })
    }

    /// Where a frame has its context, its function, and its bytecode if it is
    /// of the interpreter, by its frame pointer.
    pub fn slots(&self, fp: u64) -> [u64; 3] {
        const CONTEXT: i32 = -8;
        [CONTEXT, self.function, self.bytecode].map(|at| fp.wrapping_add_signed(at.into()))
    }

    /// Whether a word is a pointer to an object.
    pub fn is_object(word: u64) -> bool {
        word & TAG_MASK == TAG
    }

    /// What a word that points to an object says of the function it is; `None`
    /// if it is none.
    pub fn function(&self, object: u64, memory: &mut impl Memory) -> Option<JsFunction> {
        let layout = &self.layout;
        let shared = field(object, layout.shared, memory)?;
        if self.type_of(shared, memory)? != layout.types.shared {
            return None;
        }
        Some(JsFunction {
            shared,
            name_or_scope: field(shared, layout.name_or_scope, memory)?,
            script: field(shared, layout.script, memory)?,
            bytecode: self.bytecode(field(shared, layout.data, memory)?, memory),
        })
    }

    /// The bytecode that a function's data is, or leads to.
    fn bytecode(&self, data: u64, memory: &mut impl Memory) -> Option<u64> {
        let types = &self.layout.types;
        let mut at = data;
        // Code leads to the interpreter's data, and that to bytecode.
        for _ in 0..3 {
            let found = self.type_of(at, memory)?;
            if found == types.bytecode {
                return Some(at);
            }
            at = match (types.code, types.interpreter) {
                (Some((code, place)), _) if found == code => field(at, place, memory)?,
                (_, Some(interpreter)) if found == interpreter => field(at, FIRST, memory)?,
                _ => return None,
            };
        }
        None
    }

    /// The name of a function as V8's own perf map has it, without the mark of
    /// how it was compiled: `JS:NAME FILE:LINE:COLUMN`.
    pub fn name(&mut self, function: &JsFunction, memory: &mut impl Memory) -> Option<String> {
        let (name, start) = self.name_and_start(function.name_or_scope, memory)?;
        let name = match cut(&name) {
            "" => "(anonymous)",
            name => name,
        };
        if self.type_of(function.script, memory) != Some(self.layout.types.script) {
            return Some(format!("JS:{name}"));
        }
        let path = field(function.script, self.layout.script_name, memory)?;
        let path = self.text(path, memory, DEEPEST).unwrap_or_default();
        let path = cut(&path);
        let place = start.and_then(|start| self.place(function.script, start, memory));
        Some(match place {
            Some((line, column)) => format!("JS:{name} {path}:{line}:{column}"),
            None => format!("JS:{name} {path}"),
        })
    }

    /// The name of a function, and which character of its script it begins at.
    fn name_and_start(
        &self,
        name_or_scope: u64,
        memory: &mut impl Memory,
    ) -> Option<(String, Option<u64>)> {
        if self.type_of(name_or_scope, memory)? != self.layout.types.scope {
            return Some((self.text(name_or_scope, memory, DEEPEST)?, None));
        }
        let slot = |number: u64| Some(FIRST + number.checked_mul(8)?);
        let locals = number(field(name_or_scope, slot(self.layout.locals)?, memory)?)?;
        // Each variable has a name and a number; the names of many stand elsewhere.
        let names = if locals < MOST_LOCALS { locals } else { 1 };
        let first = self.layout.first_local;
        let behind = first.checked_add(names)?.checked_add(locals)?;
        let mut slots = [0; SLOTS];
        for (at, slot_word) in slots.iter_mut().enumerate() {
            let at = slot(behind.checked_add(at as u64)?)?;
            *slot_word = field(name_or_scope, at, memory).unwrap_or_default();
        }
        let texts = slots.iter().filter(|&&word| Self::is_object(word));
        let mut texts = texts.filter_map(|&word| self.text(word, memory, DEEPEST));
        let name = texts.find(|text| !text.is_empty()).unwrap_or_default();
        // Newer versions have the place before the variables.
        let before = first.checked_sub(2)?;
        let start = match before > self.layout.locals {
            true => number(field(name_or_scope, slot(before)?, memory)?),
            false => start_among(&slots),
        };
        Some((name, start))
    }

    /// Line and column, from 1, of a character of a script.
    fn place(
        &mut self,
        script: u64,
        start: u64,
        memory: &mut impl Memory,
    ) -> Option<(usize, usize)> {
        let source = field(script, self.layout.script_source, memory)?;
        let start = usize::try_from(start).ok()?;
        let key = (script, source);
        if !self.lines.by_script.contains_key(&key) {
            let ends = self.line_ends(source, memory);
            self.lines.remember(key, ends);
        }
        let ends = self.lines.by_script.get(&key)?.as_ref()?;
        let before = ends.partition_point(|&end| (end as usize) < start);
        let line_start = match before {
            0 => 0,
            _ => *ends.get(before - 1)? as usize + 1,
        };
        Some((before + 1, start.checked_sub(line_start)? + 1))
    }

    /// Where the lines of a source end, characters from its beginning.
    fn line_ends(&self, source: u64, memory: &mut impl Memory) -> Option<Vec<u32>> {
        let (at, characters, width) = self.characters(source, memory)?;
        let size = characters.checked_mul(width)?;
        if size > LARGEST_SOURCE {
            return None;
        }
        let mut ends = Vec::new();
        let mut piece = vec![0; PIECE.min(size)];
        let mut done = 0;
        while done < size {
            let room = piece.get_mut(..PIECE.min(size - done))?;
            if memory.read(at.checked_add(done as u64)?, room) != room.len() {
                return None;
            }
            for (index, character) in room.chunks_exact(width).enumerate() {
                if character.first() == Some(&b'\n') && character.get(1).is_none_or(|&it| it == 0) {
                    ends.push(u32::try_from(done / width + index).ok()?);
                }
            }
            done += room.len();
        }
        Some(ends)
    }

    /// Where the characters of a text that is in one piece are, how many, and
    /// the bytes of each.
    fn characters(&self, text: u64, memory: &mut impl Memory) -> Option<(u64, usize, usize)> {
        const NOT_TEXT: u16 = 0x80;
        const SHAPE: u16 = 7;
        const ONE_BYTE: u16 = 8;
        let found = self.type_of(text, memory).filter(|it| *it < NOT_TEXT)?;
        let length = int(memory, address(text, self.layout.string_length)?)?;
        let length = usize::try_from(length.cast_signed()).ok()?;
        let width = if found & ONE_BYTE != 0 { 1 } else { 2 };
        let behind = self.layout.string_length.checked_add(4)?;
        let at = match found & SHAPE {
            0 => address(text, behind)?,
            // Outside of the heap: what manages it, then where it is.
            2 => word(memory, address(text, behind.checked_add(8)?)?)?,
            _ => return None,
        };
        Some((at, length, width))
    }

    /// A text, whatever it is made of; what is longer than names are is cut.
    fn text(&self, text: u64, memory: &mut impl Memory, depth: u32) -> Option<String> {
        const CONS: u16 = 1;
        const SLICED: u16 = 3;
        const THIN: u16 = 5;
        let depth = depth.checked_sub(1)?;
        let behind = self.layout.string_length.checked_add(4)?;
        let found = self.type_of(text, memory).filter(|it| *it < 0x80)?;
        match found & 7 {
            CONS => {
                let first = field(text, behind, memory)?;
                let mut all = self.text(first, memory, depth)?;
                let second = field(text, behind.checked_add(8)?, memory)?;
                if all.len() < LONGEST {
                    all.push_str(&self.text(second, memory, depth)?);
                }
                return Some(all);
            }
            SLICED => {
                let length = int(memory, address(text, self.layout.string_length)?)?;
                let parent = field(text, behind, memory)?;
                let from = number(field(text, behind.checked_add(8)?, memory)?)?;
                let (at, characters, width) = self.characters(parent, memory)?;
                let (from, length) = (usize::try_from(from).ok()?, usize::try_from(length).ok()?);
                let fits = from.checked_add(length)? <= characters;
                let at = at.checked_add(from.checked_mul(width)? as u64)?;
                return fits
                    .then(|| read_text((at, length, width), memory))
                    .flatten();
            }
            THIN => return self.text(field(text, behind, memory)?, memory, depth),
            _ => {}
        }
        read_text(self.characters(text, memory)?, memory)
    }

    /// The type of the object that a word points to.
    fn type_of(&self, object: u64, memory: &mut impl Memory) -> Option<u16> {
        if !Self::is_object(object) {
            return None;
        }
        let map = field(object, 0, memory).filter(|map| Self::is_object(*map))?;
        bytes(memory, address(map, self.layout.map_type)?).map(u16::from_le_bytes)
    }
}

/// As much of a text as names have.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Lines of scripts.
#[derive(Debug, Default)]
struct Sources {
    /// By script and source: where lines end; `None` if that is not known.
    by_script: FxHashMap<(u64, u64), Option<Vec<u32>>>,
    lines: usize,
}

impl Sources {
    fn remember(&mut self, key: (u64, u64), ends: Option<Vec<u32>>) {
        let count = ends.as_ref().map_or(0, Vec::len);
        if self.by_script.len() >= MOST_SOURCES || self.lines + count > MOST_LINES {
            self.by_script.clear();
            self.lines = 0;
        }
        self.lines += count;
        self.by_script.insert(key, ends);
    }
}

/// The function's first character, of slots that hold its names, numbers, and
/// at last first and last character: what precedes what is neither.
fn start_among(slots: &[u64]) -> Option<u64> {
    let is_number = |word: &u64| number(*word).is_some();
    let runs = slots.chunk_by(|one, other| is_number(one) == is_number(other));
    let run = runs
        .filter(|run| run.first().is_some_and(is_number))
        .find(|run| run.len() >= 2)?;
    let [.., start, end] = run else { return None };
    let (start, end) = (number(*start)?, number(*end)?);
    (start <= end).then_some(start)
}

/// The value of a word that is a number and not negative.
fn number(word: u64) -> Option<u64> {
    const LARGEST: u64 = i32::MAX as u64;
    (word & 0xffff_ffff == 0)
        .then_some(word >> 32)
        .filter(|it| *it <= LARGEST)
}

fn address(object: u64, at: u64) -> Option<u64> {
    object.checked_sub(TAG)?.checked_add(at)
}

/// A field of the object that a word points to.
fn field(object: u64, at: u64, memory: &mut impl Memory) -> Option<u64> {
    match V8::is_object(object) {
        true => word(memory, address(object, at)?),
        false => None,
    }
}

/// Characters as text, those that would control a terminal left out.
fn read_text(
    (at, characters, width): (u64, usize, usize),
    memory: &mut impl Memory,
) -> Option<String> {
    let mut bytes = vec![0; characters.min(LONGEST) * width];
    if memory.read(at, &mut bytes) != bytes.len() {
        return None;
    }
    let code = |bytes: &[u8]| match *bytes {
        [one] => u16::from(one),
        [low, high] => u16::from_le_bytes([low, high]),
        _ => 0,
    };
    let codes: Vec<u16> = bytes.chunks_exact(width.max(1)).map(code).collect();
    let text = String::from_utf16_lossy(&codes);
    Some(text.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use super::{Layout, Sources, Types, V8, start_among};
    use crate::memory::tests::Image;

    /// What node 20 tells.
    const NODE_20: Layout = Layout {
        shared: 24,
        name_or_scope: 16,
        script: 32,
        data: 8,
        script_name: 16,
        script_source: 8,
        map_type: 12,
        string_length: 12,
        locals: 2,
        first_local: 3,
        types: Types {
            shared: 262,
            script: 167,
            scope: 261,
            bytecode: 191,
            code: Some((245, 16)),
            interpreter: Some(159),
        },
    };
    /// What node 26 tells, as far as it is used here.
    const NODE_26: Layout = Layout {
        first_local: 5,
        ..NODE_20
    };

    impl V8 {
        /// One of each way in which scopes are laid out.
        pub(crate) fn of_each_layout() -> [Self; 2] {
            [NODE_20, NODE_26].map(|layout| Self {
                layout,
                function: -16,
                bytecode: -32,
                lines: Sources::default(),
            })
        }
    }

    /// Objects, each at an address of its own.
    #[derive(Default)]
    struct Heap {
        image: Image,
        next: u64,
    }

    impl Heap {
        /// A pointer to bytes at a new address.
        fn put(&mut self, bytes: Vec<u8>) -> u64 {
            self.next += 0x1000;
            self.image.0.push((self.next, bytes));
            self.next + 1
        }

        /// An object of a type, with these words behind its map.
        fn object(&mut self, kind: u16, words: &[u64]) -> u64 {
            let mut map = vec![0; 16];
            map[12..14].copy_from_slice(&kind.to_le_bytes());
            let map = self.put(map);
            let words = [&[map], words].concat();
            self.put(words.iter().flat_map(|word| word.to_le_bytes()).collect())
        }

        fn text(&mut self, text: &str) -> u64 {
            const ONE_BYTE: u16 = 8;
            let length = (text.len() as u64) << 32;
            let mut bytes: Vec<u64> = vec![length];
            for piece in text.as_bytes().chunks(8) {
                let mut word = [0; 8];
                word[..piece.len()].copy_from_slice(piece);
                bytes.push(u64::from_le_bytes(word));
            }
            self.object(ONE_BYTE, &bytes)
        }

        /// A function of a scope with these slots.
        fn function(&mut self, scope: &[u64], data: u64) -> u64 {
            let source = self.text("one\ntwo\n  three(x) {}\n");
            let path = self.text("/app/main.js");
            let script = self.object(167, &[source, path]);
            let scope = self.object(261, scope);
            let shared = self.object(262, &[data, scope, 0, script]);
            self.object(2066, &[0, 0, shared])
        }
    }

    fn small(number: u64) -> u64 {
        number << 32
    }

    #[test]
    fn functions_have_name_file_line_and_column() {
        let mut heap = Heap::default();
        let (three, local) = (heap.text("three"), heap.text("local"));
        let bytecode = heap.object(191, &[]);
        let code = heap.object(245, &[0, bytecode]);
        let outer = heap.object(261, &[]);
        let one = [small(0), small(1), small(1)];
        let old = [
            &one[..],
            &[
                local,
                small(7),
                three,
                small(0),
                small(15),
                small(20),
                outer,
            ],
        ];
        let old = heap.function(&old.concat(), code);
        let new = [
            &one[..],
            &[
                small(15),
                small(20),
                local,
                small(7),
                three,
                small(0),
                outer,
            ],
        ];
        let new = heap.function(&new.concat(), code);
        for (mut engine, function) in V8::of_each_layout().into_iter().zip([old, new]) {
            let found = engine.function(function, &mut heap.image).expect("found");
            assert_eq!(found.bytecode, Some(bytecode));
            let name = engine.name(&found, &mut heap.image);
            assert_eq!(name.as_deref(), Some("JS:three /app/main.js:3:8"));
            // What is no function is none.
            assert_eq!(engine.function(code, &mut heap.image), None);
            assert_eq!(engine.function(function - 1, &mut heap.image), None);
        }
    }

    #[test]
    fn names_are_made_of_pieces_and_may_be_missing() {
        let mut heap = Heap::default();
        let (one, two, empty) = (heap.text("Module."), heap.text("load"), heap.text(""));
        let cons = heap.object(0x29, &[small(11), one, two]);
        let thin = heap.object(0x2d, &[small(11), cons]);
        let sliced = heap.object(0x2b, &[small(3), one, small(1)]);
        let outer = heap.object(261, &[]);
        let [mut engine, _] = V8::of_each_layout();
        let mut name = |text: u64| {
            let scope = [0, 0, 0, empty, small(9), text, small(4), small(9), outer];
            let function = heap.function(&scope, 0);
            let found = engine.function(function, &mut heap.image)?;
            assert_eq!(found.bytecode, None);
            engine.name(&found, &mut heap.image)
        };
        assert_eq!(
            name(cons).as_deref(),
            Some("JS:Module.load /app/main.js:2:1")
        );
        assert_eq!(
            name(thin).as_deref(),
            Some("JS:Module.load /app/main.js:2:1")
        );
        assert_eq!(name(sliced).as_deref(), Some("JS:odu /app/main.js:2:1"));
        assert_eq!(
            name(empty).as_deref(),
            Some("JS:(anonymous) /app/main.js:2:1")
        );
    }

    #[test]
    fn the_place_is_the_last_two_numbers_of_the_first_run() {
        let object = 0x1001;
        let slots = [
            object,
            small(3),
            object,
            small(10),
            small(20),
            object,
            small(1),
        ];
        assert_eq!(start_among(&slots), Some(10));
        assert_eq!(
            start_among(&[object, u64::MAX << 32, small(10), small(20), 3]),
            Some(10)
        );
        assert_eq!(start_among(&[small(20), small(10)]), None);
        assert_eq!(start_among(&[object, small(3), object]), None);
    }
}
