//! Compiled code of LuaJIT: where the C frame is that a trace runs in.
//!
//! The interpreter enters a trace with a jump, so a trace has no frame and no
//! return address of its own: it runs below the C frame that the interpreter
//! made for `lua_call` and its like. How far below is a number that the
//! compiler keeps with each trace, and traces stand in an array:
//!
//! ```text
//!  dispatch table (r14) + traces ─► array ─► GCtrace ┌ … size, code, …, spadjust, number ┐
//!
//!  C frame + 72   return address into lua_call, lua_pcall …
//!          + 40   r14, r15, rbx, rbp of the caller
//!          + 16   the state (coroutine) that runs
//!  C frame        r12 of the caller      ◄─ rsp of the interpreter
//!          -  8   r13 of the caller
//!          - 16 - spadjust               ◄─ rsp of the trace
//! ```
//!
//! Where the array is and which field holds the code differs from build to
//! build; the instruction of the interpreter that enters traces (`BC_JLOOP`)
//! tells both. Source: LuaJIT 2.1, `vm_x64.dasc`, `lj_jit.h`, `lj_asm.c`, for
//! x86-64 with 64-bit addresses (`LJ_GC64`, the default).

use crate::memory::{Memory, bytes};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Traces of one state that are remembered; LuaJIT itself keeps 1000 unless
/// it is told otherwise.
const MAX_TRACES: usize = 1 << 14;
/// Traces that are read for one question.
const MAX_READ: usize = 1 << 12;
/// States of one process that are remembered: one for each of its threads.
const MAX_STATES: usize = 1 << 8;
/// Bytes from the C frame to the registers that the interpreter saved.
const CFRAME_SPACE: u64 = 40;

/// `mov disp32(%r14),%rcx; mov (%rcx,%rax,8),%rax; mov disp8(%rax),%rax;
/// mov 16(%rsp),%rbp`: the trace of a number, and its code.
const FINDS_TRACE: [Option<u8>; 20] = {
    const fn is(byte: u8) -> Option<u8> {
        Some(byte)
    }
    [
        is(0x49),
        is(0x8b),
        is(0x8e),
        None,
        None,
        None,
        None, // mov disp32(%r14),%rcx
        is(0x48),
        is(0x8b),
        is(0x04),
        is(0xc1), // mov (%rcx,%rax,8),%rax
        is(0x48),
        is(0x8b),
        is(0x40),
        None, // mov disp8(%rax),%rax
        is(0x48),
        is(0x8b),
        is(0x6c),
        is(0x24),
        is(0x10), // mov 16(%rsp),%rbp
    ]
};
/// Two stores of seven bytes each follow, then `sub $16,%rsp;
/// mov %r12,16(%rsp); mov %r13,8(%rsp); jmp *%rax`.
const STORES: usize = 14;
/// Bytes of the first of these.
const MAKES_ROOM: usize = 4;
const ENTERS_TRACE: [u8; 16] = [
    0x48, 0x83, 0xec, 0x10, 0x4c, 0x89, 0x64, 0x24, 0x10, 0x4c, 0x89, 0x6c, 0x24, 0x08, 0xff, 0xe0,
];

/// How code that leaves a trace begins: `push %r13` and on to `%rbp`,
/// `lea 88(%rsp),%rbp`, and five more.
const LEAVES_TRACE: [u8; 25] = [
    0x41, 0x55, 0x41, 0x54, 0x41, 0x53, 0x41, 0x52, 0x41, 0x51, 0x41, 0x50, 0x57, 0x56, 0x55, 0x48,
    0x8d, 0x6c, 0x24, 0x58, 0x55, 0x53, 0x52, 0x51, 0x50,
];
/// Where it goes on behind a trace that ended: `lea 16(%rsp),%rcx;
/// mov -8(%rcx),%r13; mov (%rcx),%r12; mov %rcx,%rsp`.
const BEHIND_TRACE: [u8; 15] = [
    0x48, 0x8d, 0x4c, 0x24, 0x10, 0x4c, 0x8b, 0x69, 0xf8, 0x4c, 0x8b, 0x21, 0x48, 0x89, 0xcc,
];

/// Code of the interpreter that runs below a C frame as traces do
/// (`lj_vm_exit_handler`), as offsets in the code that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LuaJitExit {
    /// Its first instruction. What led here has pushed [`LuaJitExit::PUSHED`].
    pub start: usize,
    /// The instruction to which a trace goes that has given back its own room.
    pub behind: usize,
}

impl LuaJitExit {
    /// Bytes that are pushed before it, the number of the exit.
    pub const PUSHED: u64 = 16;
    /// From [`LuaJitExit::behind`] on, bytes to the instruction before which rcx
    /// is the C frame, and behind which the stack pointer is.
    pub const FRAME_IN_RCX: usize = 5;
    /// The first such.
    pub const IN_FRAME: usize = BEHIND_TRACE.len();

    /// Finds it; `None` unless it is there once.
    pub fn in_code(code: &[u8]) -> Option<Self> {
        let start = only(code, &LEAVES_TRACE)?;
        let behind = only(code, &BEHIND_TRACE)?;
        (start < behind).then_some(Self { start, behind })
    }
}

/// The place of a piece of code that is there once.
fn only(code: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut places = code.windows(wanted.len()).enumerate();
    let mut places = places.by_ref().filter(|(_, bytes)| *bytes == wanted);
    let (place, _) = places.next()?;
    places.next().is_none().then_some(place)
}

/// What the code of the interpreter tells of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LuaJitVm {
    /// From the dispatch table to the address of the array of traces, bytes.
    traces: i32,
    /// Offset in a trace of the address of its code, bytes.
    code: u8,
    /// Where traces are entered, as offsets in the code that was looked at: from
    /// the instruction on behind which the stack pointer is as in traces.
    entering: (usize, usize),
}

impl LuaJitVm {
    /// How far before a function that enters the interpreter, and behind it, the
    /// interpreter's code is, bytes: it has 16 KiB.
    pub const AROUND: (u64, u64) = (0x6000, 0x2000);

    /// Finds the instructions that enter traces; `None` unless they are there
    /// once.
    pub fn in_code(code: &[u8]) -> Option<Self> {
        let whole = FINDS_TRACE.len() + STORES + ENTERS_TRACE.len();
        let is_it = |code: &&[u8]| {
            let found = code.iter().zip(FINDS_TRACE);
            let mut found = found.map(|(byte, is)| is.is_none_or(|is| is == *byte));
            found.all(|is| is) && code.ends_with(&ENTERS_TRACE)
        };
        let places = code.windows(whole).enumerate();
        let mut places = places.filter(|(_, code)| is_it(code));
        let (at, place) = places.next()?;
        if places.next().is_some() {
            return None;
        }
        let traces = place.get(3..)?.first_chunk().copied();
        let room_made = ENTERS_TRACE.len() - MAKES_ROOM;
        Some(Self {
            traces: i32::from_le_bytes(traces?),
            code: *place.get(14)?,
            entering: (at + whole - room_made, at + whole),
        })
    }

    /// As some build has it.
    #[cfg(test)]
    pub(crate) fn of_any_build() -> Self {
        Self {
            traces: -8,
            code: 0x58,
            entering: (0, 0),
        }
    }

    /// Where the interpreter has already made the room that traces have below
    /// the C frame, as offsets in the code that was looked at.
    pub fn entering(&self) -> Range<usize> {
        self.entering.0..self.entering.1
    }
}

/// How a function enters the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LuaJitEntry {
    /// Bytes from the C frame to the return address.
    pub to_return: u64,
}

impl LuaJitEntry {
    /// The kinds of entries: of usual builds, and of those that save all
    /// registers (`LUAJIT_NO_UNWIND`).
    pub const KINDS: [Self; 2] = [
        Self {
            to_return: CFRAME_SPACE + 4 * 8,
        },
        Self {
            to_return: CFRAME_SPACE + 6 * 8,
        },
    ];
    /// Bytes of code that tell.
    pub const CODE: usize = 20;

    /// Of the function whose code begins so.
    pub fn of_code(code: &[u8]) -> Option<Self> {
        let (pushed, rest) = pushes(code);
        let [four, six] = Self::KINDS;
        let entry = match pushed.as_slice() {
            [RBP, RBX, R15, R14] => four,
            [RBP, RBX, R15, R14, R13, R12] => six,
            _ => return None,
        };
        rest.starts_with(&SPACE).then_some(entry)
    }

    /// How many registers such a function has saved where the code before and
    /// from there on is this; `None` if it is elsewhere, or has its frame.
    pub fn saved_at((before, from): (&[u8], &[u8])) -> Option<usize> {
        let (left, rest) = pushes(from);
        let behind = before.get(before.len().checked_sub(2)?..)?;
        let last = left.last().copied().or_else(|| pushes(behind).0.pop());
        let all: usize = match last {
            Some(R14) => 4,
            Some(R12) => 6,
            _ => return None,
        };
        let saved = all.checked_sub(left.len());
        saved.filter(|_| rest.starts_with(&SPACE))
    }
}

/// Registers by number.
const RBX: u8 = 3;
const RBP: u8 = 5;
const R12: u8 = 12;
const R13: u8 = 13;
const R14: u8 = 14;
const R15: u8 = 15;
/// `sub $40,%rsp`.
const SPACE: [u8; 4] = [0x48, 0x83, 0xec, CFRAME_SPACE as u8];

/// The registers that code pushes first, and what follows.
fn pushes(code: &[u8]) -> (Vec<u8>, &[u8]) {
    const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let mut rest = code.strip_prefix(&ENDBR).unwrap_or(code);
    let mut pushed = Vec::new();
    loop {
        let (register, behind) = match rest {
            [0x41, push @ 0x50..=0x57, behind @ ..] => (push - 0x50 + 8, behind),
            [push @ 0x50..=0x57, behind @ ..] => (push - 0x50, behind),
            _ => return (pushed, rest),
        };
        pushed.push(register);
        rest = behind;
    }
}

/// A piece of compiled code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LuaJitTrace {
    /// Its first instruction.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// Bytes that the trace adds to the stack itself: behind its head and
    /// before its tail, the stack pointer is so far, and
    /// [`LuaJitTrace::BELOW_FRAME`], below the C frame.
    pub spadjust: u64,
}

impl LuaJitTrace {
    /// Bytes between the C frame and what the trace itself adds: r13, and a
    /// scratch word.
    pub const BELOW_FRAME: u64 = 16;
    /// Bytes from the C frame to the address of the state that runs in it.
    pub const STATE_IN_FRAME: u64 = 16;
}

/// A trace as it stands in memory.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Where it is described, and its number.
    address: u64,
    number: u16,
    trace: LuaJitTrace,
}

/// The traces of one state of Lua.
#[derive(Debug, Default)]
struct State {
    /// The array as it was read last.
    array: Vec<u8>,
    /// By address of the description.
    known: FxHashMap<u64, Known>,
    /// By the first address behind the code, as far as they are known.
    order: Vec<(u64, u64)>,
    /// Questions that had no answer.
    misses: u32,
}

/// The traces of a process.
#[derive(Debug)]
pub struct LuaJit {
    vm: LuaJitVm,
    /// By address of the dispatch table.
    states: FxHashMap<u64, State>,
}

impl LuaJit {
    /// Nothing is known yet.
    pub fn new(vm: LuaJitVm) -> Self {
        Self {
            vm,
            states: FxHashMap::default(),
        }
    }

    /// The trace that an address is in, of the state whose dispatch table is
    /// at `dispatch`, as its memory tells now.
    pub fn trace_at(
        &mut self,
        (pc, dispatch): (u64, u64),
        memory: &mut impl Memory,
    ) -> Option<LuaJitTrace> {
        if self.states.len() >= MAX_STATES && !self.states.contains_key(&dispatch) {
            self.states.clear();
        }
        let state = self.states.entry(dispatch).or_default();
        if let Some(known) = state.find(pc) {
            // What stood there may have been thrown away.
            let now = self.vm.trace((known.address, known.number), memory);
            if now.map(|now| now.trace) == Some(known.trace) {
                return now.map(|now| now.trace);
            }
            state.forget(known.address);
        }
        state.read((self.vm, dispatch), memory);
        state.find(pc).map(|known| known.trace)
    }

    /// Whether a coroutine belongs to the state whose dispatch table is at `dispatch`:
    /// it has the address of what all of the state share, which stands before the
    /// table in one piece of memory.
    pub fn is_state(state: u64, dispatch: u64, memory: &mut impl Memory) -> bool {
        const SHARED: u64 = 16;
        const MOST_BETWEEN: u64 = 1 << 16;
        if state == 0 || !state.is_multiple_of(8) {
            return false;
        }
        let word = state.checked_add(SHARED).and_then(|at| bytes(memory, at));
        let shared = word.map(u64::from_le_bytes);
        let before = shared.and_then(|shared| dispatch.checked_sub(shared));
        before.is_some_and(|before| before.is_multiple_of(8) && (8..MOST_BETWEEN).contains(&before))
    }

    /// How much the traces of a state add to the stack, each amount once.
    pub fn rooms(&mut self, dispatch: u64, memory: &mut impl Memory) -> Vec<u64> {
        let Some(state) = self.states.get_mut(&dispatch) else {
            return Vec::new();
        };
        state.read((self.vm, dispatch), memory);
        let rooms = state.known.values().map(|known| known.trace.spadjust);
        let mut rooms: Vec<u64> = rooms.collect();
        rooms.sort_unstable();
        rooms.dedup();
        rooms
    }
}

impl LuaJitVm {
    /// Reads a trace; `None` if there is none of that number.
    fn trace(self, (address, number): (u64, u16), memory: &mut impl Memory) -> Option<Known> {
        // Size and address of the code, offset of its loop, children, spadjust
        // and number stand behind each other.
        let at = address.checked_add(u64::from(self.code))?.checked_sub(4)?;
        let fields: [u8; 22] = bytes(memory, at)?;
        let short = |at: usize| {
            fields
                .get(at..)?
                .first_chunk()
                .map(|it| u16::from_le_bytes(*it))
        };
        let size = fields.first_chunk().map(|it| u32::from_le_bytes(*it))?;
        let start = fields
            .get(4..)?
            .first_chunk()
            .map(|it| u64::from_le_bytes(*it))?;
        let (spadjust, own_number) = (short(18)?, short(20)?);
        let end = start.checked_add(u64::from(size))?;
        let is_one = own_number == number && start != 0 && size != 0;
        is_one.then_some(Known {
            address,
            number,
            trace: LuaJitTrace {
                start,
                end,
                spadjust: u64::from(spadjust),
            },
        })
    }

    /// The array of traces as it is now, 8 bytes each.
    fn array(self, dispatch: u64, memory: &mut impl Memory) -> Option<Vec<u8>> {
        // Its address, a number that is free, and how many it holds.
        let head: [u8; 16] = bytes(memory, dispatch.checked_add_signed(self.traces.into())?)?;
        let at = head.first_chunk().map(|it| u64::from_le_bytes(*it))?;
        let len = head
            .get(12..)?
            .first_chunk()
            .map(|it| u32::from_le_bytes(*it))?;
        let len = usize::try_from(len).ok().filter(|len| *len <= MAX_TRACES)?;
        let mut array = vec![0; len * 8];
        (memory.read(at, &mut array) == array.len()).then_some(array)
    }
}

impl State {
    /// The trace whose code has an address.
    fn find(&self, pc: u64) -> Option<Known> {
        let behind = self.order.partition_point(|(end, _)| *end <= pc);
        let (_, address) = self.order.get(behind)?;
        let known = self.known.get(address).copied();
        known.filter(|known| (known.trace.start..known.trace.end).contains(&pc))
    }

    fn forget(&mut self, address: u64) {
        // Whatever the array says, not all that it names is known now.
        self.array.clear();
        self.known.remove(&address);
        self.order.retain(|(_, known)| *known != address);
    }

    /// Reads traces that were made since; all of them where that was often in
    /// vain, since another may stand where one was.
    fn read(&mut self, (vm, dispatch): (LuaJitVm, u64), memory: &mut impl Memory) {
        let Some(array) = vm.array(dispatch, memory) else {
            return;
        };
        self.misses = self.misses.saturating_add(1);
        if self.misses.is_power_of_two() {
            self.known.clear();
        } else if array == self.array {
            return;
        }
        let mut left = MAX_READ;
        let mut known = FxHashMap::default();
        for (number, address) in array.chunks_exact(8).enumerate() {
            let address = address
                .first_chunk()
                .map_or(0, |it| u64::from_le_bytes(*it));
            let found = match self.known.get(&address) {
                _ if address == 0 => None,
                Some(before) if usize::from(before.number) == number => Some(*before),
                _ if left == 0 => None,
                _ => {
                    left -= 1;
                    let number = u16::try_from(number).unwrap_or(0);
                    vm.trace((address, number), memory)
                }
            };
            known.extend(found.map(|found| (address, found)));
        }
        self.order = known
            .values()
            .map(|it| (it.trace.end, it.address))
            .collect();
        self.order.sort_unstable();
        self.known = known;
        // What there was no time for is read the next time.
        self.array = match left {
            0 => Vec::new(),
            _ => array,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{LuaJit, LuaJitEntry, LuaJitExit, LuaJitTrace, LuaJitVm};
    use crate::memory::tests::Image;

    /// The instruction that enters traces, of Debian's build of 2022.
    const ENTERS: [u8; 50] = [
        0x49, 0x8b, 0x8e, 0xd8, 0xf4, 0xff, 0xff, 0x48, 0x8b, 0x04, 0xc1, 0x48, 0x8b, 0x40, 0x58,
        0x48, 0x8b, 0x6c, 0x24, 0x10, 0x49, 0x89, 0x96, 0xf8, 0xf1, 0xff, 0xff, 0x49, 0x89, 0xae,
        0x60, 0xf1, 0xff, 0xff, 0x48, 0x83, 0xec, 0x10, 0x4c, 0x89, 0x64, 0x24, 0x10, 0x4c, 0x89,
        0x6c, 0x24, 0x08, 0xff, 0xe0,
    ];
    const DISPATCH: u64 = 0x10000;
    /// Where the array of traces is.
    const ARRAY: u64 = 0x20000;
    /// Where traces are described, each this far behind the one before.
    const TRACES: u64 = 0x30000;
    const EACH: u64 = 0x100;

    fn vm() -> LuaJitVm {
        LuaJitVm::in_code(&ENTERS).expect("it is there")
    }

    /// A state with traces: start and size of their code, what they add, and
    /// their number.
    fn state(traces: &[(u64, u32, u16, u16)]) -> Image {
        let mut head = ARRAY.to_le_bytes().to_vec();
        head.extend(7_u32.to_le_bytes());
        head.extend((traces.len() as u32 + 1).to_le_bytes());
        let mut array = 0_u64.to_le_bytes().to_vec();
        let mut pieces = Vec::new();
        for (index, (start, size, room, number)) in traces.iter().enumerate() {
            let at = TRACES + index as u64 * EACH;
            array.extend(at.to_le_bytes());
            let mut trace = vec![0; 0x54];
            trace.extend(size.to_le_bytes());
            trace.extend(start.to_le_bytes());
            trace.extend([0; 6]);
            trace.extend(room.to_le_bytes());
            trace.extend(number.to_le_bytes());
            pieces.push((at, trace));
        }
        pieces.push((ARRAY, array));
        pieces.push((DISPATCH - 0xb28, head));
        Image(pieces)
    }

    #[test]
    fn a_coroutine_is_known_by_what_it_shares_with_the_others() {
        const SHARED: u64 = DISPATCH - 0x1238;
        let at =
            |state: u64, shared: u64| (state, [[0; 16].as_slice(), &shared.to_le_bytes()].concat());
        let mut memory = Image(vec![
            at(0x1000, SHARED),
            at(0x2000, SHARED + 1),
            at(0x3000, DISPATCH + 8),
            at(0x4004, SHARED),
        ]);
        let mut is_one = |state: u64| LuaJit::is_state(state, DISPATCH, &mut memory);
        let found = [0x1000, 0x2000, 0x3000, 0x4004, 0x5000, 0, u64::MAX - 7].map(&mut is_one);
        assert_eq!(found, [true, false, false, false, false, false, false]);
    }

    #[test]
    fn the_interpreter_tells_where_traces_are() {
        let mut code = vec![0x90; 100];
        assert_eq!(LuaJitVm::in_code(&code), None);
        code.extend(ENTERS);
        let vm = LuaJitVm::in_code(&code).expect("it is there");
        assert_eq!((vm.traces, vm.code), (-0xb28, 0x58));
        assert_eq!(vm.entering(), 138..150);
        code.extend(ENTERS);
        assert_eq!(LuaJitVm::in_code(&code), None, "which of the two?");
        let cut = code.get(..149).expect("all but a byte");
        assert_eq!(LuaJitVm::in_code(cut), None);
    }

    #[test]
    fn functions_that_enter_it_are_known_by_what_they_save() {
        let four = [0x55, 0x53, 0x41, 0x57, 0x41, 0x56];
        let space = [0x48, 0x83, 0xec, 0x28];
        let six = [0x41, 0x55, 0x41, 0x54];
        let of = |parts: &[&[u8]]| LuaJitEntry::of_code(&parts.concat()).map(|it| it.to_return);
        assert_eq!(of(&[&four, &space]), Some(72));
        assert_eq!(of(&[&[0xf3, 0x0f, 0x1e, 0xfa], &four, &space]), Some(72));
        assert_eq!(of(&[&four, &six, &space]), Some(88));
        assert_eq!(of(&[&four, &[0x48, 0x83, 0xec, 0x18]]), None);
        assert_eq!(of(&[&four]), None);
        // How many are saved at each of the instructions, and behind.
        let saved = |code: &[u8], at: usize| {
            let code = [&[0x90, 0x90][..], code].concat();
            LuaJitEntry::saved_at(code.split_at(at + 2))
        };
        let code = [&four[..], &space].concat();
        let each = [0, 1, 2, 4, 6, 10].map(|at| saved(&code, at));
        assert_eq!(each, [Some(0), Some(1), Some(2), Some(3), Some(4), None]);
        let code = [&four[..], &six, &space].concat();
        let each = [0, 1, 2, 4, 6, 8, 10, 14].map(|at| saved(&code, at));
        let counted = [0, 1, 2, 3, 4, 5, 6].map(Some);
        assert_eq!((each.get(..7), each[7]), (Some(&counted[..]), None));
        assert_eq!(saved(&[0x90, 0x90, 0x48, 0x83, 0xec, 0x28], 2), None);
    }

    #[test]
    fn what_leaves_traces_is_found_once_or_not() {
        let leaves = super::LEAVES_TRACE;
        let behind = super::BEHIND_TRACE;
        let found = LuaJitExit::in_code(&[&[0x90][..], &leaves, &behind].concat());
        assert_eq!(
            found,
            Some(LuaJitExit {
                start: 1,
                behind: 26
            })
        );
        assert_eq!(LuaJitExit::in_code(&[&behind[..], &leaves].concat()), None);
        let twice = [&leaves[..], &leaves, &behind].concat();
        assert_eq!(LuaJitExit::in_code(&twice), None);
    }

    #[test]
    fn a_trace_is_found_by_its_code_as_long_as_it_is_there() {
        let mut lua = LuaJit::new(vm());
        let mut at = |image: &mut Image, pc: u64| {
            let found = lua.trace_at((pc, DISPATCH), image);
            found.map(|it| (it.start, it.spadjust))
        };
        let mut image = state(&[(0x5000, 0x100, 0, 1), (0x4000, 0x80, 48, 2)]);
        assert_eq!(at(&mut image, 0x5000), Some((0x5000, 0)));
        assert_eq!(at(&mut image, 0x407f), Some((0x4000, 48)));
        assert_eq!(at(&mut image, 0x4080), None, "behind its code");
        assert_eq!(at(&mut image, 0x3fff), None);
        // A new one.
        let mut image = state(&[
            (0x5000, 0x100, 0, 1),
            (0x4000, 0x80, 48, 2),
            (0x3000, 9, 16, 3),
        ]);
        assert_eq!(at(&mut image, 0x3008), Some((0x3000, 16)));
        // All were thrown away, and others made in the same places.
        let mut image = state(&[(0x5000, 0x100, 32, 1), (0x4100, 0x80, 64, 2)]);
        assert_eq!(at(&mut image, 0x5010), Some((0x5000, 32)));
        assert_eq!(at(&mut image, 0x4010), None);
        assert_eq!(at(&mut image, 0x4110), Some((0x4100, 64)));
        let mut image = state(&[(0x5000, 0x100, 48, 1), (0x4100, 0x80, 64, 2)]);
        assert_eq!(at(&mut image, 0x5010), Some((0x5000, 48)));
        assert_eq!(lua.rooms(DISPATCH, &mut image), [48, 64]);
        // Gone.
        let mut nothing = Image::default();
        assert_eq!(lua.trace_at((0x5010, DISPATCH), &mut nothing), None);
    }

    #[test]
    fn what_says_that_it_is_another_trace_is_none() {
        let mut lua = LuaJit::new(vm());
        let mut image = state(&[(0x5000, 0x100, 0, 2), (0, 0x100, 0, 2), (0x6000, 0, 0, 3)]);
        for pc in [0x5000, 0, 0x80, 0x6000] {
            assert_eq!(lua.trace_at((pc, DISPATCH), &mut image), None, "{pc:#x}");
        }
        let mut image = state(&[(u64::MAX - 4, 0x100, 0, 1)]);
        assert_eq!(lua.trace_at((u64::MAX - 2, DISPATCH), &mut image), None);
        assert_eq!(LuaJitTrace::BELOW_FRAME, 16);
    }
}
