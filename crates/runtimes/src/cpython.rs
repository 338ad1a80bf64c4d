//! CPython: which functions a thread is in.
//!
//! Since 3.11 a call of one Python function by another runs in the same call
//! of the interpreter's C function. A thread's frames are a list; one that
//! was entered from C ends a part of it, so each part belongs to one such C
//! frame of the native stack, which has something of the list in itself:
//!
//! ```text
//!  native stack            the thread's list
//!  C function
//!  eval              ◄──   leaf ─► caller ─► entered from C
//!  C function
//!  eval              ◄──   main ─► entered from C
//! ```
//!
//! Where a thread has several stacks and switches between them (greenlets), its list is
//! of the one that it is on.
//!
//! Layouts: `Include/internal/pycore_frame.h` and `Include/cpython` of 3.11 to
//! 3.15, 64 bits; from 3.13 on also builds without a global lock.

use crate::elf::Exports;
use crate::memory::{LinkedList, Memory, int, slice, word};
use std::ops::Range;

/// Most interpreters, threads of all of them, and frames that are looked at.
const MAX_INTERPRETERS: usize = 16;
const MAX_THREADS: usize = 4096;
const MAX_FRAMES: usize = 4096;
/// Pieces of memory in which a thread has its frames, and their largest sum.
const MAX_CHUNKS: usize = 16;
const MAX_BYTES: u64 = 1 << 20;
/// No frame is larger, without its variables, and no thread's state, bytes.
const MAX_FRAME: u64 = 1024;
const MAX_THREAD: u64 = 4096;
/// From this on, what a frame belongs to says that it is of no function.
const NO_FUNCTIONS: u8 = 3;

/// Where a version has things, bytes.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Interpreters in `_PyRuntime`, threads in an interpreter.
    interpreters: u64,
    next_interpreter: u64,
    threads: u64,
    /// In a thread: its id, its pieces of memory, what leads to its frame.
    native_id: u64,
    chunk: u64,
    current: Current,
    /// In a frame: its code object, with bits that are no part of the address, the frame
    /// that called it, and where its variables begin.
    code: u64,
    code_tags: u64,
    previous: u64,
    frame: u64,
    boundary: Boundary,
    /// The head of a text of ASCII.
    text: u64,
    /// Bits of its state.
    ascii: u32,
    /// How much longer the head of each object is than of builds with a global lock.
    longer_heads: u64,
}

/// What leads from a thread to its innermost frame.
#[derive(Debug, Clone, Copy)]
enum Current {
    /// A pointer to a structure in the C frame of the evaluation loop, which has it there,
    /// and behind it a pointer to that of the loop further out.
    OnStack { at: u64, frame: u64 },
    /// A pointer to it.
    Direct(u64),
}

/// What ends a part of the list.
#[derive(Debug, Clone, Copy)]
enum Boundary {
    /// The last frame of it says so, in a byte there.
    Flag(u64),
    /// A frame of no function, which a byte there tells.
    OwnFrame(u64),
    /// The same, and behind the last part stands another that ends none.
    OwnFrames(u64),
}

const V3_11: Layout = Layout {
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    native_id: 160,
    chunk: 296,
    current: Current::OnStack { at: 56, frame: 8 },
    code: 32,
    code_tags: 0,
    previous: 48,
    frame: 72,
    boundary: Boundary::Flag(68),
    text: 48,
    ascii: 0b110_0000,
    longer_heads: 0,
};
const V3_12: Layout = Layout {
    threads: 72,
    native_id: 144,
    chunk: 232,
    current: Current::OnStack { at: 56, frame: 0 },
    code: 0,
    previous: 8,
    boundary: Boundary::OwnFrame(70),
    text: 40,
    ..V3_11
};
const V3_13: Layout = Layout {
    interpreters: 632,
    next_interpreter: 0x1c60,
    threads: 0x1cb0,
    native_id: 160,
    chunk: 232,
    current: Current::Direct(72),
    ..V3_12
};
const V3_14: Layout = Layout {
    interpreters: 0x328,
    next_interpreter: 0x1c68,
    threads: 0x1cb0,
    native_id: 0xa0,
    code_tags: 3,
    frame: 80,
    boundary: Boundary::OwnFrames(74),
    ..V3_13
};
/// As 3.14 has it; where the rest is, it tells itself.
const V3_15: Layout = V3_14;

/// What one call of the evaluation loop runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The code objects of its functions, innermost first.
    pub code: Vec<u64>,
    /// An address in the loop's C frame.
    pub in_frame: u64,
}

/// Where a version tells debuggers about its layout (`_Py_DebugOffsets`): places of
/// members of a thread and of a frame.
#[derive(Debug, Clone, Copy)]
struct Told {
    current: u64,
    native_id: u64,
    chunk: u64,
    previous: u64,
    code: u64,
    variables: u64,
    owner: u64,
    /// Not told: the state of a text of ASCII without a global lock.
    ascii_unlocked: u32,
}

const TOLD_3_13: Told = Told {
    current: 184,
    native_id: 200,
    chunk: 208,
    previous: 232,
    code: 240,
    variables: 256,
    owner: 264,
    ascii_unlocked: 0b110_0000,
};
const TOLD_3_14: Told = Told {
    current: 208,
    native_id: 224,
    chunk: 232,
    previous: 256,
    code: 264,
    variables: 280,
    owner: 288,
    ascii_unlocked: 0b1_1000_0000_0000,
};
const TOLD_3_15: Told = Told {
    current: 208,
    native_id: 248,
    chunk: 256,
    previous: 320,
    code: 328,
    variables: 344,
    owner: 352,
    ascii_unlocked: 0b1_1000_0000_0000,
};

impl Layout {
    /// With the places that a version itself tells debuggers, at the start of
    /// `_PyRuntime`.
    fn told_by(self, runtime: u64, told: Told, memory: &mut impl Memory) -> Option<Self> {
        let cookie: [u8; 8] = crate::memory::bytes(memory, runtime)?;
        let mut at = |at: u64| word(memory, runtime.checked_add(at)?);
        if &cookie != b"xdebugpy" {
            return None;
        }
        // Without a global lock objects begin with the thread that owns them, a lock and
        // a second count of references.
        let longer_heads = if at(16)? == 0 { 0 } else { 16 };
        let (frame, owner) = (at(told.variables)?, at(told.owner)?);
        if frame > MAX_FRAME || owner >= frame {
            return None;
        }
        Some(Self {
            ascii: match longer_heads {
                0 => self.ascii,
                _ => told.ascii_unlocked,
            },
            longer_heads,
            interpreters: at(40)?,
            next_interpreter: at(64)?,
            threads: at(72)?,
            native_id: at(told.native_id)?,
            chunk: at(told.chunk)?,
            current: Current::Direct(at(told.current)?),
            previous: at(told.previous)?,
            code: at(told.code)?,
            frame,
            boundary: match self.boundary {
                Boundary::Flag(_) => Boundary::Flag(owner),
                Boundary::OwnFrame(_) => Boundary::OwnFrame(owner),
                Boundary::OwnFrames(_) => Boundary::OwnFrames(owner),
            },
            ..self
        })
    }
}

/// An interpreter in a process.
#[derive(Debug)]
pub struct CPython {
    layout: Layout,
    /// The first interpreter stands here.
    interpreters: u64,
    code_type: u64,
    /// The evaluation loop, and what its compiler put elsewhere of it: all but its start
    /// in some builds.
    eval: Range<u64>,
    cold_eval: Option<Range<u64>>,
}

impl CPython {
    /// Size of a piece of memory for frames, unless one frame needs more, bytes.
    pub const CHUNK: u64 = 16 << 10;

    /// Finds the interpreter in the file loaded at `base`; `None` if there is
    /// none or its version is not supported.
    pub fn open(base: u64, memory: &mut impl Memory) -> Option<Self> {
        let exports = Exports::open(base, memory)?;
        let version = exports.find("Py_Version", memory)?;
        let runtime = exports.find("_PyRuntime", memory)?;
        let layout = match int(memory, version)? >> 16 {
            0x030b => V3_11,
            0x030c => V3_12,
            0x030d => V3_13.told_by(runtime, TOLD_3_13, memory)?,
            0x030e => V3_14.told_by(runtime, TOLD_3_14, memory)?,
            0x030f => V3_15.told_by(runtime, TOLD_3_15, memory)?,
            _ => return None,
        };
        let (eval, length) = exports.find_sized("_PyEval_EvalFrameDefault", memory)?;
        let eval = eval..eval.checked_add(length)?;
        let index = exports.unwind_index();
        Some(Self {
            layout,
            cold_eval: index.and_then(|index| index.cold_part(&eval, memory)),
            interpreters: runtime.checked_add(layout.interpreters)?,
            code_type: exports.find("PyCode_Type", memory)?,
            eval,
        })
    }

    /// Whether a native frame (its pc, or the address of its call) is in the
    /// interpreter's evaluation loop.
    pub fn is_eval(&self, at: u64) -> bool {
        self.eval.contains(&at) || self.cold_eval.as_ref().is_some_and(|it| it.contains(&at))
    }

    /// The address of the interpreter's thread state of a thread.
    pub fn thread(&self, tid: i32, memory: &mut impl Memory) -> Option<u64> {
        let layout = &self.layout;
        let mut interpreter = word(memory, self.interpreters)?;
        let mut left = MAX_THREADS;
        for _ in 0..MAX_INTERPRETERS {
            let mut thread = word(memory, interpreter.checked_add(layout.threads)?)?;
            while thread != 0 {
                left = left.checked_sub(1)?;
                let id = word(memory, thread.checked_add(layout.native_id)?)?;
                if i32::try_from(id) == Ok(tid) {
                    return Some(thread);
                }
                thread = word(memory, thread.checked_add(8)?)?;
            }
            interpreter = word(memory, interpreter.checked_add(layout.next_interpreter)?)?;
            if interpreter == 0 {
                break;
            }
        }
        None
    }

    /// The memory ranges besides the stack that [`CPython::functions`] will
    /// read, as far as they are known by now, and where in them it stands where such
    /// a range begins: of a thread that switches stacks, each has one of its own.
    pub fn ranges(&self, thread: u64, memory: &mut impl Memory) -> Option<(Vec<Range<u64>>, u64)> {
        let (Current::OnStack { at, .. } | Current::Direct(at)) = self.layout.current;
        let newest = thread.checked_add(self.layout.chunk)?;
        // One range is read faster than two.
        let (first, last) = (at.min(self.layout.chunk), at.max(self.layout.chunk));
        let in_thread = thread.checked_add(first)?..thread.checked_add(last)?.checked_add(8)?;
        if last - first > MAX_THREAD {
            return None;
        }
        let mut ranges = Vec::new();
        ranges.push(in_thread);
        let mut chunk = word(memory, newest)?;
        let mut left = MAX_BYTES;
        for _ in 0..MAX_CHUNKS {
            // A chunk: the one before, its size, then frames.
            if chunk == 0 {
                break;
            }
            let size = word(memory, chunk.checked_add(8)?)?.min(left);
            left -= size;
            ranges.push(chunk..chunk.checked_add(size)?);
            chunk = word(memory, chunk)?;
        }
        Some((ranges, newest))
    }

    /// Where the frames of a thread stand, each of which leads to its caller's: in the
    /// ranges as a rule, and those of generators and coroutines in themselves.
    pub fn frames(&self, thread: u64) -> Option<LinkedList> {
        let (at, via) = match self.layout.current {
            Current::Direct(at) => (at, None),
            Current::OnStack { at, frame } => (at, Some(frame)),
        };
        Some(LinkedList {
            head: thread.checked_add(at)?,
            via,
            size: self.layout.frame,
            next: Some(self.layout.previous),
        })
    }

    /// The Python functions that a thread is executing, innermost first, one part for
    /// each native frame of the interpreter; of those on the stack that it is on.
    /// `None` where `memory`, a snapshot, lacks some of it.
    pub fn functions(&self, thread: u64, memory: &mut impl Memory) -> Option<Vec<Part>> {
        let layout = &self.layout;
        // What the loop's C frame has, as far as it is followed.
        let mut on_stack = None;
        let mut frame = match layout.current {
            Current::Direct(at) => word(memory, thread.checked_add(at)?)?,
            Current::OnStack { at, frame } => {
                let of_loop = word(memory, thread.checked_add(at)?)?;
                on_stack = Some((of_loop, frame));
                word(memory, of_loop.checked_add(frame)?)?
            }
        };
        let (mut parts, mut code) = (Vec::new(), Vec::new());
        for _ in 0..MAX_FRAMES {
            if frame == 0 {
                return code.is_empty().then_some(parts);
            }
            let (Boundary::Flag(at) | Boundary::OwnFrame(at) | Boundary::OwnFrames(at)) =
                layout.boundary;
            // A snapshot has whole words.
            let mut field = |at: u64| word(memory, frame.wrapping_add(at));
            let (function, previous) = (field(layout.code)?, field(layout.previous)?);
            let told = field(at & !7)?;
            let told = told.to_le_bytes().get((at & 7) as usize).copied()?;
            let is_boundary = match layout.boundary {
                Boundary::Flag(_) => told != 0,
                Boundary::OwnFrame(_) | Boundary::OwnFrames(_) => told >= NO_FUNCTIONS,
            };
            let is_flagged = matches!(layout.boundary, Boundary::Flag(_));
            if !is_boundary || is_flagged {
                code.push(function & !layout.code_tags);
            }
            let is_base = matches!(layout.boundary, Boundary::OwnFrames(_)) && previous == 0;
            if is_base && is_boundary && code.is_empty() {
                return Some(parts);
            }
            if is_boundary {
                let in_frame = match on_stack {
                    Some((of_loop, at)) if is_flagged => {
                        let outer = word(memory, of_loop.checked_add(at + 8)?)?;
                        // The outermost is not on the stack.
                        if previous != 0 && word(memory, outer.checked_add(at)?)? != previous {
                            return None;
                        }
                        on_stack = Some((outer, at));
                        of_loop
                    }
                    _ => frame,
                };
                let code = std::mem::take(&mut code);
                parts.push(Part { code, in_frame });
            }
            frame = previous;
        }
        None
    }

    /// Number of words in [`CPython::identity`].
    pub const IDENTITY: usize = 17;

    /// The fixed part of a code object: equal for equal functions. `None` if
    /// there is no code object at the address.
    pub fn identity(&self, code: u64, memory: &mut impl Memory) -> Option<[u64; Self::IDENTITY]> {
        let at = code.checked_add(self.layout.longer_heads)?;
        let bytes: [u8; 8 * Self::IDENTITY] = crate::memory::bytes(memory, at)?;
        let mut words = [0; Self::IDENTITY];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
        }
        // References to it are counted in the first.
        if let Some(first) = words.first_mut() {
            *first = 0;
        }
        (words.get(1) == Some(&self.code_type)).then_some(words)
    }

    /// The name of a function as CPython's own perf map has it, of its code
    /// object: `py::NAME:FILE`.
    pub fn name(&self, code: u64, memory: &mut impl Memory) -> Option<String> {
        const FILE: u64 = 0x70;
        const QUALIFIED_NAME: u64 = 0x80;
        let code = code.checked_add(self.layout.longer_heads)?;
        if word(memory, code.checked_add(8)?)? != self.code_type {
            return None;
        }
        let mut text = |at: u64| {
            let text = word(memory, code.checked_add(at)?)?;
            self.text(text, memory)
        };
        Some(format!("py::{}:{}", text(QUALIFIED_NAME)?, text(FILE)?))
    }

    /// A text; what is not of ASCII is told as that.
    fn text(&self, text: u64, memory: &mut impl Memory) -> Option<String> {
        let text = text.checked_add(self.layout.longer_heads)?;
        let length = word(memory, text.checked_add(16)?)?;
        let state = int(memory, text.checked_add(32)?)?;
        if state & self.layout.ascii != self.layout.ascii {
            return Some("(not ASCII)".into());
        }
        let length = usize::try_from(length).ok()?;
        let bytes = slice(memory, text.checked_add(self.layout.text)?, length)?;
        let is_text = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
        is_text.then(|| String::from_utf8(bytes).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Boundary, CPython, Current, Part, TOLD_3_13, TOLD_3_14, TOLD_3_15, V3_11, V3_12, V3_13,
        V3_14, V3_15,
    };
    use crate::memory::tests::Image;

    #[test]
    fn since_3_14_a_frame_of_no_function_is_behind_the_last_part() {
        // Code, caller, and behind eight words and two bytes more what it belongs to.
        let frame = |at: u64, code: u64, previous: u64, owner: u8| {
            let mut frame = words(at, &[code, previous, 0, 0, 0, 0, 0, 0, 0, 0]);
            frame.1[74] = owner;
            frame
        };
        let mut image = Image(vec![
            words(0x1000 + 72, &[0x3000]),
            // The lowest bits are a mark.
            frame(0x3000, 0x101, 0x4000, 1),
            frame(0x4000, 0x200, 0x5000, 0),
            frame(0x5000, 9, 0x6000, 3),
            frame(0x6000, 0x300, 0x7000, 0),
            frame(0x7000, 9, 0x8000, 4),
            frame(0x8000, 0, 0, 3),
        ]);
        let found = python(V3_14).functions(0x1000, &mut image);
        assert_eq!(
            found,
            Some(parts([(&[0x100, 0x200], 0x5000), (&[0x300], 0x7000)]))
        );
        image.0.pop();
        let found = python(V3_14).functions(0x1000, &mut image);
        assert_eq!(found, None);
    }

    #[test]
    fn without_a_global_lock_objects_have_longer_heads() {
        let text = words(
            0x500,
            &[0, 0, 0, 0, 2, 0, 0x1900, u64::from_le_bytes(*b"f0      ")],
        );
        let mut code = vec![0x77, 1, 2, 0x900];
        code.resize(20, 7);
        code[(0x70 + 16) / 8] = 0x500;
        code[(0x80 + 16) / 8] = 0x500;
        let python = CPython {
            code_type: 0x900,
            ..python(super::Layout {
                longer_heads: 16,
                ascii: TOLD_3_14.ascii_unlocked,
                ..V3_14
            })
        };
        let mut image = Image(vec![text.clone(), words(0x200, &code)]);
        assert_eq!(python.name(0x200, &mut image).as_deref(), Some("py::f0:f0"));
        let identity = python.identity(0x200, &mut image).expect("one");
        // Who owns it and how often it is referred to may change.
        (code[0], code[1], code[2]) = (0x78, 2, 3);
        let mut image = Image(vec![text, words(0x200, &code)]);
        assert_eq!(python.identity(0x200, &mut image), Some(identity));
    }

    /// A frame whose code, callers' frame and last fields are these.
    fn frame(
        at: u64,
        (code_at, previous_at): (usize, usize),
        values: (u64, u64, u64),
    ) -> (u64, Vec<u8>) {
        let mut bytes = vec![0; 72];
        bytes[code_at..code_at + 8].copy_from_slice(&values.0.to_le_bytes());
        bytes[previous_at..previous_at + 8].copy_from_slice(&values.1.to_le_bytes());
        bytes[64..72].copy_from_slice(&values.2.to_le_bytes());
        (at, bytes)
    }

    fn words(at: u64, words: &[u64]) -> (u64, Vec<u8>) {
        (
            at,
            words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        )
    }

    fn parts(of: [(&[u64], u64); 2]) -> Vec<Part> {
        let part = |(code, in_frame): (&[u64], u64)| Part {
            code: code.to_vec(),
            in_frame,
        };
        of.map(part).to_vec()
    }

    fn python(layout: super::Layout) -> CPython {
        CPython {
            layout,
            interpreters: 0,
            code_type: 0,
            eval: 0..0,
            cold_eval: None,
        }
    }

    impl CPython {
        /// One of each version, whose interpreters are listed at an address.
        pub(crate) fn of_each_layout(interpreters: u64) -> [Self; 5] {
            [V3_11, V3_12, V3_13, V3_14, V3_15].map(|layout| Self {
                interpreters,
                ..python(layout)
            })
        }
    }

    #[test]
    fn a_version_tells_where_its_members_are() {
        // As `_Py_DebugOffsets` of the headers has them: interpreters, the next one and its
        // threads, then current_frame, native_thread_id, datastack_chunk, previous,
        // executable, owner and localsplus.
        let of_3_13 = [184, 200, 208, 232, 240, 264, 256];
        let of_3_14 = [208, 224, 232, 256, 264, 288, 280];
        let of_3_15 = [208, 248, 256, 320, 328, 352, 344];
        for (version, told, places) in [
            (V3_13, TOLD_3_13, of_3_13),
            (V3_14, TOLD_3_14, of_3_14),
            (V3_15, TOLD_3_15, of_3_15),
        ] {
            let mut offsets = vec![0; 64];
            offsets[0] = u64::from_le_bytes(*b"xdebugpy");
            let all = [40, 64, 72].into_iter().chain(places);
            for (number, at) in all.enumerate() {
                offsets[at / 8] = 100 + number as u64;
            }
            let mut image = Image(vec![words(0x1000, &offsets)]);
            let layout = version.told_by(0x1000, told, &mut image).expect("told");
            let first = [layout.interpreters, layout.next_interpreter, layout.threads];
            assert_eq!(first, [100, 101, 102]);
            assert!(matches!(layout.current, Current::Direct(103)));
            let rest = [layout.native_id, layout.chunk, layout.previous, layout.code];
            assert_eq!(rest, [104, 105, 106, 107]);
            assert_eq!((layout.frame, layout.longer_heads), (109, 0));
            let (Boundary::OwnFrame(owner) | Boundary::OwnFrames(owner)) = layout.boundary else {
                panic!("{layout:?}");
            };
            assert_eq!(owner, 108);
            // Without a global lock.
            offsets[2] = 1;
            let mut image = Image(vec![words(0x1000, &offsets)]);
            let layout = version.told_by(0x1000, told, &mut image).expect("told");
            assert_eq!(layout.longer_heads, 16);
            // A frame of gigabytes is none.
            offsets[told.variables as usize / 8] = 1 << 32;
            let mut image = Image(vec![words(0x1000, &offsets)]);
            assert!(version.told_by(0x1000, told, &mut image).is_none());
            offsets[told.variables as usize / 8] = 109;
            offsets[0] += 1;
            let mut image = Image(vec![words(0x1000, &offsets)]);
            assert!(version.told_by(0x1000, told, &mut image).is_none());
        }
    }

    #[test]
    fn functions_are_parted_where_c_called_them() {
        let entry = 1 << 32;
        let at = (32, 48);
        let mut image = Image(vec![
            words(0x1000 + 56, &[0x2000]),
            words(0x2008, &[0x3000, 0x2100]),
            words(0x2108, &[0x5000, 0x2200]),
            words(0x2208, &[0, 0]),
            frame(0x3000, at, (1, 0x4000, 0)),
            frame(0x4000, at, (2, 0x5000, entry)),
            frame(0x5000, at, (3, 0, entry)),
        ]);
        let found = python(V3_11).functions(0x1000, &mut image);
        assert_eq!(found, Some(parts([(&[1, 2], 0x2000), (&[3], 0x2100)])));
        // The structure further out has another function.
        let of_outer = std::mem::replace(&mut image.0[2], words(0x2108, &[0x4000, 0x2200]));
        let found = python(V3_11).functions(0x1000, &mut image);
        assert_eq!(found, None);
        image.0[2] = of_outer;
        // A generator's frame is elsewhere.
        image.0.pop();
        let found = python(V3_11).functions(0x1000, &mut image);
        assert_eq!(found, None);
    }

    #[test]
    fn frames_on_the_c_stack_part_them_since_3_12() {
        let boundary = 3 << 48;
        let at = (0, 8);
        let mut image = Image(vec![
            words(0x1000 + 56, &[0x2000]),
            words(0x2000, &[0x3000]),
            frame(0x3000, at, (1, 0x4000, 0)),
            frame(0x4000, at, (9, 0x5000, boundary)),
            frame(0x5000, at, (2, 0x6000, 0)),
            frame(0x6000, at, (9, 0, boundary)),
        ]);
        let found = python(V3_12).functions(0x1000, &mut image);
        assert_eq!(found, Some(parts([(&[1], 0x4000), (&[2], 0x6000)])));
        // A list that comes back to itself comes to an end.
        image.0.pop();
        image.0.push(frame(0x6000, at, (9, 0x3000, boundary)));
        let found = python(V3_12).functions(0x1000, &mut image);
        assert_eq!(found, None);
    }
}
