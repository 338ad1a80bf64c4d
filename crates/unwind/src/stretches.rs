//! Large functions of code without a file that was read from their start on (kernels of
//! oneDNN, which jump through tables).

use crate::code_frame::{self, CodeFrame, ReadCode, Stretch};
use crate::{Process, made};
use prof_profile::Avma;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Code at a function's start by which it is known again, bytes: compilers make other
/// code where they freed some.
const KNOWN_BY: usize = 64;
/// The same of a place that is in no such function.
const PLACE_KNOWN_BY: usize = 16;
/// Most functions and places that are kept.
const MAX_FUNCTIONS: usize = 1 << 9;
const MAX_PLACES: usize = 1 << 14;
/// Instructions that are read for one sample, 1 ms or so; the next one goes on behind
/// them.
const MAX_INSTRUCTIONS: usize = 1 << 14;
/// Beginnings that are tried for one place, the nearest first.
const MAX_BEGINNINGS: usize = 8;

/// Such functions.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    /// By first address: its first bytes, and what was read.
    functions: BTreeMap<u64, ([u8; KNOWN_BY], Stretch)>,
    /// Places of which nothing was found out, by the code there.
    unknown: FxHashMap<u64, [u8; PLACE_KNOWN_BY]>,
}

impl Stretches {
    /// The frame at an interrupted place of 64-bit x86 code by the code from the start
    /// of its function on; whether it is a frame, what it leads to must show. Together
    /// with the start of the function.
    pub(crate) fn frame(
        &mut self,
        pc: u64,
        process: &mut impl Process,
    ) -> Option<(u64, CodeFrame)> {
        let mut here = [0; PLACE_KNOWN_BY];
        if process.code(Avma(pc), &mut here) != here.len() {
            return None;
        }
        if self.unknown.get(&pc) == Some(&here) {
            return None;
        }
        let mut left = MAX_INSTRUCTIONS;
        let read = &mut made::reader(process);
        let known = self
            .functions
            .range(pc.saturating_sub(code_frame::LONGEST)..=pc);
        let known = known.map(|(&start, _)| start).next_back();
        if let Some(start) = known
            && let Some(frame) = self.from(start, pc, (&mut left, read))
        {
            return Some((start, frame));
        }
        let beginnings = code_frame::beginnings(pc, read);
        for start in beginnings.into_iter().take(MAX_BEGINNINGS) {
            if let Some(frame) = self.from(start, pc, (&mut left, read)) {
                return Some((start, frame));
            }
            if left == 0 {
                return None;
            }
            // What was known before has places of its own.
            if known != Some(start) {
                self.functions.remove(&start);
            }
        }
        if self.unknown.len() >= MAX_PLACES {
            self.unknown.clear();
        }
        self.unknown.insert(pc, here);
        None
    }

    /// The frame at a place by the function that begins at `start`.
    fn from(
        &mut self,
        start: u64,
        pc: u64,
        (left, read): (&mut usize, &mut impl ReadCode),
    ) -> Option<CodeFrame> {
        let mut begins = [0; KNOWN_BY];
        if read(start, &mut begins) != begins.len() {
            return None;
        }
        if self.functions.len() >= MAX_FUNCTIONS {
            self.functions.clear();
        }
        let new = || (begins, Stretch::new(start));
        let known = self.functions.entry(start).or_insert_with(new);
        if known.0 != begins {
            *known = new();
        }
        known.1.frame(pc, left, read)
    }
}

#[cfg(test)]
mod tests {
    use super::Stretches;
    use crate::code_frame::Slot;
    use crate::fake::{CODE, FakeProcess};

    /// push %rbp; mov %rsp,%rbp; sub $N,%rsp; jmp *%r9
    fn jumps_away(size: u8) -> [u8; 11] {
        [
            0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, size, 0x41, 0xff, 0xe1,
        ]
    }

    #[test]
    fn a_function_is_known_until_other_code_stands_there() {
        let mut stretches = Stretches::default();
        let mut frame = |code: &[(usize, &[u8])], at: u64| {
            let mut process = FakeProcess::with_code(Vec::new(), code);
            let (start, frame) = stretches.frame(CODE + at, &mut process)?;
            match frame.return_address {
                Slot::FromSp(above) => Some((start - CODE, above)),
                _ => None,
            }
        };
        let (small, large) = (jumps_away(0x20), jumps_away(0x40));
        let both: [(usize, &[u8]); 2] = [(0x100, &small), (0x200, &large)];
        assert_eq!(frame(&both, 0x240), Some((0x200, 0x48)));
        assert_eq!(frame(&both, 0x140), Some((0x100, 0x28)));
        assert_eq!(frame(&both, 0x280), Some((0x200, 0x48)));
        assert_eq!(frame(&[(0x100, &large)], 0x140), Some((0x100, 0x48)));
        assert_eq!(frame(&[(0x100, &small)], 0x140), Some((0x100, 0x28)));
        // Behind the end of one, which stays known, and before all; until there is one.
        let ended: [(usize, &[u8]); 2] = [(0x100, &small), (0x150, &[0xc3])];
        assert_eq!(frame(&ended, 0x160), None);
        assert_eq!(frame(&ended, 0x140), Some((0x100, 0x28)));
        assert_eq!(frame(&both, 0x80), None);
        assert_eq!(frame(&[(0x70, &large)], 0x80), None, "the same code there");
        let other: [(usize, &[u8]); 2] = [(0x40, &large), (0x80, &[0x66, 0x90])];
        assert_eq!(frame(&other, 0x80), Some((0x40, 0x48)));
    }
}
