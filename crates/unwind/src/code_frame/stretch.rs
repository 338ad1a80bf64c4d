//! Large functions whose ways cannot be followed: kernels of matrix products that jump
//! through tables which they make while they run.
//!
//! What is read instead is their code from its first byte on, as it stands, with how
//! much of the stack is in use before each instruction. That holds for all of a
//! function as long as no way leads from a place with one depth to one with another.
//! Where a jump leaves a function that has its frame, what stands behind it is of the
//! same function: to go to another one, or to return, its frame had to be freed before.

use super::{CallerFp, CodeFrame, ReadCode, Slot, State, decode};
use crate::Machine;
use iced_x86::{FlowControl, Mnemonic};
use rustc_hash::FxHashMap;

/// `push %rbp; mov %rsp,%rbp` in both encodings.
const BEGINS: [[u8; 4]; 2] = [[0x55, 0x48, 0x89, 0xe5], [0x55, 0x48, 0x8b, 0xec]];
/// The instruction that an indirect call may go to.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// Functions begin at multiples of it.
const ALIGNED: u64 = 16;
/// How far before a place its function may begin, bytes.
pub(crate) const LONGEST: u64 = 256 << 10;
/// Code that is searched at once, bytes.
const BLOCK: u64 = 4096;
/// The least bytes of stack of a function that jumps away with its frame: a saved frame
/// pointer and the return address of its caller, which it does not return to.
const LEAST_FRAME: i64 = 16;
/// Most places that are remembered of a function: where its depth changes, and that are
/// jumped to from before them.
const MOST_PLACES: usize = 1 << 10;

/// Code of one function, from its first byte on, as far as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    state: State,
    /// Where the depth changes, and what it is from there on, bytes.
    depths: Vec<(u64, i64)>,
    /// The depth with which it jumps away.
    frame: Option<i64>,
    /// With which depth places further on are jumped to.
    targets: FxHashMap<u64, i64>,
    has_ended: bool,
}

impl Stretch {
    /// None of it, of a function that begins there.
    pub(crate) fn new(start: u64) -> Self {
        Self {
            state: State::entered(start),
            depths: vec![(start, 0)],
            frame: None,
            targets: FxHashMap::default(),
            has_ended: false,
        }
    }

    /// The frame at a place of 64-bit x86 code, behind at most `left` instructions more;
    /// `None` if it is not of this function, or its frame cannot be told, or not yet.
    pub(crate) fn frame(
        &mut self,
        pc: u64,
        left: &mut usize,
        read: &mut impl ReadCode,
    ) -> Option<CodeFrame> {
        while self.state.at < pc && !self.has_ended {
            *left = left.checked_sub(1)?;
            self.has_ended = self.go_on(read).is_none();
        }
        if pc > self.state.at {
            return None;
        }
        let depth = self.depth_at(pc)?;
        // The frame pointer is pushed first.
        (depth >= 8).then_some(CodeFrame {
            return_address: Slot::FromSp(depth),
            caller_fp: Some(CallerFp::Saved(8)),
        })
    }

    /// The depth at a place that was read.
    fn depth_at(&self, place: u64) -> Option<i64> {
        let after = self.depths.partition_point(|&(from, _)| from <= place);
        let &(_, depth) = self.depths.get(after.checked_sub(1)?)?;
        Some(depth)
    }

    /// Reads one more instruction; `None` where what follows is of no use.
    fn go_on(&mut self, read: &mut impl ReadCode) -> Option<()> {
        let instruction = decode(Machine::X86_64, self.state.at, read)?;
        let before = self.state.depth?;
        let flow = instruction.flow_control();
        if instruction.mnemonic() == Mnemonic::Int3 || flow == FlowControl::Return {
            return None;
        }
        let next = self.state.after(&instruction);
        let depth = next.depth?;
        let is_long = self.depths.len().max(self.targets.len()) >= MOST_PLACES;
        if depth > 0 && next.saved != Some(8) || depth < self.frame.unwrap_or(0) || is_long {
            return None;
        }
        if let FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch = flow {
            let to = instruction.near_branch_target();
            let known = match to >= next.at {
                true => Some(*self.targets.entry(to).or_insert(depth)),
                // A loop that pushes, or makes room page by page.
                false => self.depth_at(to),
            };
            if known.is_some_and(|known| known != depth) {
                return None;
            }
        }
        if let FlowControl::UnconditionalBranch | FlowControl::IndirectBranch = flow {
            let frame = *self.frame.get_or_insert(depth);
            if frame != depth || frame < LEAST_FRAME {
                return None;
            }
        }
        let jumped_to = self.targets.remove(&next.at);
        if jumped_to.is_some_and(|with| with != depth) {
            return None;
        }
        if depth != before {
            self.depths.push((next.at, depth));
        }
        self.state = next;
        Some(())
    }
}

/// Where functions may begin that a place is in, the nearest first: aligned, with a
/// frame pointer that is saved.
pub(crate) fn beginnings(pc: u64, read: &mut impl ReadCode) -> Vec<u64> {
    let mut found = Vec::new();
    let mut end = pc;
    let lowest = pc.saturating_sub(LONGEST);
    while end > lowest {
        let start = ((end - 1) & !(BLOCK - 1)).max(lowest);
        let mut block = [0; BLOCK as usize];
        let wanted = block.get_mut(..(end - start) as usize).unwrap_or_default();
        let length = wanted.len();
        if read(start, wanted) != length {
            break;
        }
        let first = start.next_multiple_of(ALIGNED);
        let places = (first / ALIGNED..end.div_ceil(ALIGNED)).rev();
        let places = places.map(|place| place * ALIGNED);
        found.extend(places.filter(|&at| {
            let bytes = block.get((at - start) as usize..).unwrap_or_default();
            let bytes = bytes.strip_prefix(&ENDBR64).unwrap_or(bytes);
            BEGINS.iter().any(|begins| bytes.starts_with(begins))
        }));
        end = start;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Stretch, beginnings};
    use crate::code_frame::tests::reader;
    use crate::code_frame::{CallerFp, Slot};

    /// push %rbp; mov %rsp,%rbp; push %rbx; mov $0x400,%ebp; sub $0x40,%rsp
    const PROLOGUE: [u8; 14] = [
        0x55, 0x48, 0x89, 0xe5, 0x53, 0xbd, 0, 4, 0, 0, 0x48, 0x83, 0xec, 0x40,
    ];
    /// je 1f; jmp *%r9; 1: nop; jmp *%r9
    const BODY: [u8; 9] = [0x74, 3, 0x41, 0xff, 0xe1, 0x90, 0x41, 0xff, 0xe1];

    /// How far above the stack pointer the return address is, at each of these places
    /// of code that begins a function; asked for in this order.
    fn depths(code: &[u8], places: &[u64]) -> Vec<Option<i64>> {
        let mut stretch = Stretch::new(0x1000);
        let frame = |&place: &u64| {
            let mut left = 1000;
            let found = stretch.frame(0x1000 + place, &mut left, &mut reader(code))?;
            assert_eq!(found.caller_fp, Some(CallerFp::Saved(8)));
            match found.return_address {
                Slot::FromSp(depth) => Some(depth),
                _ => None,
            }
        };
        places.iter().map(frame).collect()
    }

    #[test]
    fn a_function_that_jumps_through_tables_has_one_frame() {
        let code = [&PROLOGUE[..], &BODY, &[0x90; 8]].concat();
        let all = [Some(80); 5];
        assert_eq!(depths(&code, &[14, 16, 19, 20, 23]), all);
        // Asked for later, what is before is as it was.
        let expected = [Some(80), Some(16), Some(8), None, Some(80)];
        assert_eq!(depths(&code, &[28, 10, 4, 0, 14]), expected);
        // Not of what comes behind its return, or what jumps lead to with less of a
        // frame; and not of code that frees its frame before it jumps away.
        let returns = [&PROLOGUE[..], &[0xc3, 0x90, 0x90]].concat();
        assert_eq!(depths(&returns, &[14, 15, 16]), [Some(80), None, None]);
        let mut early = code.clone();
        // je 0x13, before the frame is made.
        early.splice(4..4, [0x74, 19]);
        assert_eq!(depths(&early, &[16, 22, 25]), [Some(80), Some(80), None]);
        // add $0x40,%rsp; pop %rbx; pop %rbp; jmp *%r9; nop
        let leaves = [0x48, 0x83, 0xc4, 0x40, 0x5b, 0x5d, 0x41, 0xff, 0xe1, 0x90];
        let leaves = [&PROLOGUE[..], &leaves].concat();
        assert_eq!(depths(&leaves, &[14, 18, 23]), [Some(80), Some(16), None]);
        // What it puts on the stack for a while counts; not below what it jumps with.
        let pushes = [0x50, 0x90, 0x58, 0x90, 0x41, 0xff, 0xe1, 0x5b, 0x90];
        let pushes = [&PROLOGUE[..], &pushes].concat();
        let expected = [Some(88), Some(80), Some(80), None];
        assert_eq!(depths(&pushes, &[15, 17, 21, 22]), expected);
        // 1: push %rax; dec %ecx; jne 1b; nop: how often, the code does not tell.
        let loops = [&PROLOGUE[..], &[0x50, 0xff, 0xc9, 0x75, 0xfb, 0x90]].concat();
        assert_eq!(depths(&loops, &[14, 19]), [Some(80), None]);
        // The same that pushes nothing.
        let loops = [&PROLOGUE[..], &[0x90, 0xff, 0xc9, 0x75, 0xfb, 0x90]].concat();
        assert_eq!(depths(&loops, &[14, 19]), [Some(80), Some(80)]);
    }

    #[test]
    fn functions_may_begin_where_a_frame_pointer_is_saved() {
        let mut code = vec![0x90; 3 * BLOCK as usize];
        let mut put = |at: usize, bytes: &[u8]| code[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &PROLOGUE);
        put(0x20, &[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x8b, 0xec]);
        put(0x48, &PROLOGUE);
        put(0xff0, &PROLOGUE);
        put(0x2f00, &PROLOGUE);
        let found = |place: u64| beginnings(0x1000 + place, &mut reader(&code));
        assert_eq!(found(0x2ff8), [0x3f00, 0x1ff0, 0x1020, 0x1000]);
        assert_eq!(found(0x100), [0x1020, 0x1000]);
        assert_eq!(found(0x10), [0x1000]);
        assert!(found(0).is_empty());
    }
}
