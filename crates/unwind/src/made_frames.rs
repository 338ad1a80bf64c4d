//! Frames of code without a file that keeps no frame pointer, as its next return
//! tells them.

use crate::code_frame::{self, CodeFrame, Constant, ReadCode, Slot};
use crate::{Cursor, Machine, Process, made};
use prof_profile::Avma;
use rustc_hash::FxHashMap;

/// Code at a place by which it is known again, bytes: compilers make other code where
/// they freed some.
const KNOWN_BY: usize = 16;
/// `%r11`, in DWARF.
const SCRATCH: u8 = 11;
/// Most places whose frames are kept.
const MAX_CACHED: usize = 1 << 14;

/// Places of a region at which the same frame was found, before it counts as the one of
/// all its code, and one place with another for so many is allowed.
const ALIKE: u32 = 16;
const ALIKE_FOR_EACH_OTHER: u32 = 8;
/// The least size of such a frame, bytes: without one, any code may have what looks like
/// a return address on top of its stack.
const LEAST: i64 = 16;
/// Regions are of so many bytes, a power of two: compilers fill such pieces of memory.
const REGION: u64 = 1 << 20;

/// What was found out of code without a file.
#[derive(Debug, Default)]
pub(crate) struct MadeFrames {
    /// By address, and by how far the stack pointer was above a multiple of 16: code
    /// that was there, and the frame.
    places: FxHashMap<(u64, u8), ([u8; KNOWN_BY], Option<CodeFrame>)>,
    /// By region.
    usual: FxHashMap<u64, Usual>,
}

/// A frame that most places of a region have.
#[derive(Debug, Clone, Copy)]
struct Usual {
    frame: CodeFrame,
    alike: u32,
    others: u32,
}

impl MadeFrames {
    /// The frame that all code of a compiler has that makes all of one size (PyPy's), as
    /// the places of the same region tell where it was found. Whether it is the one at
    /// this place, what it leads to must show.
    pub(crate) fn usual(&self, pc: u64) -> Option<CodeFrame> {
        let usual = self.usual.get(&(pc / REGION))?;
        let has_room = matches!(usual.frame.return_address, Slot::FromSp(LEAST..));
        let is_usual =
            has_room && usual.alike >= ALIKE && usual.alike / ALIKE_FOR_EACH_OTHER >= usual.others;
        is_usual.then_some(usual.frame)
    }

    fn note(&mut self, pc: u64, frame: CodeFrame) {
        if self.usual.len() >= MAX_CACHED {
            self.usual.clear();
        }
        let first = Usual {
            frame,
            alike: 0,
            others: 0,
        };
        let usual = self.usual.entry(pc / REGION).or_insert(first);
        if usual.frame == frame {
            usual.alike = usual.alike.saturating_add(1);
        } else if usual.others >= usual.alike {
            // It was none.
            *usual = Usual { alike: 1, ..first };
        } else {
            usual.others += 1;
        }
    }

    /// The frame at a place of 64-bit x86 code whose next return finds its address by
    /// the stack pointer; `None` if it does not, or no way leads to one. Where there is
    /// none without a call, those over calls count, if all agree.
    /// Addresses are computed from what a compiler's own register holds (PyPy's `%r11`),
    /// where it was interrupted: at any time the same.
    pub(crate) fn by_next_return(
        &mut self,
        cursor: &Cursor,
        process: &mut impl Process,
    ) -> Option<CodeFrame> {
        let pc = cursor.pc();
        let beyond_16 = (cursor.registers().sp() % 16) as u8;
        let mut code = [0; KNOWN_BY];
        if process.code(Avma(pc), &mut code) != KNOWN_BY {
            return None;
        }
        if let Some((before, frame)) = self.places.get(&(pc, beyond_16))
            && *before == code
        {
            return *frame;
        }
        let held = cursor.registers().known(SCRATCH);
        let constant = held.filter(|_| cursor.is_exact()).map(|value| Constant {
            register: SCRATCH,
            value,
        });
        let read = &mut made::reader(process);
        let mut found = code_frame::by_next_return(Machine::X86_64, (pc, constant), read);
        if found.is_none() && !is_behind_system_call(pc, read) {
            found = code_frame::by_abi((pc, beyond_16), !cursor.is_exact(), read);
        }
        let frame = found.filter(|it| matches!(it.return_address, Slot::FromSp(_)));
        if self.places.len() >= MAX_CACHED {
            self.places.clear();
        }
        self.places.insert((pc, beyond_16), (code, frame));
        if let Some(frame) = frame {
            self.note(pc, frame);
        }
        frame
    }
}

/// Whether a system call stands before a place: that which ends a signal does not come
/// back, and what follows is another's.
fn is_behind_system_call(pc: u64, read: &mut impl ReadCode) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let mut before = [0; SYSCALL.len()];
    let at = pc.checked_sub(before.len() as u64);
    at.is_some_and(|at| read(at, &mut before) == before.len()) && before == SYSCALL
}

#[cfg(test)]
mod tests {
    use super::{ALIKE, ALIKE_FOR_EACH_OTHER, MadeFrames, REGION};
    use crate::code_frame::{CallerFp, CodeFrame, Slot};
    use crate::fake::{CODE, FakeProcess};
    use crate::{Cursor, Machine, Registers};

    #[test]
    fn a_frame_that_nearly_all_places_have_is_the_usual_one() {
        let of_size = |size: i64| CodeFrame {
            return_address: Slot::FromSp(size),
            caller_fp: Some(CallerFp::Saved(8)),
        };
        let mut frames = MadeFrames::default();
        for place in 0..u64::from(ALIKE) {
            assert_eq!(frames.usual(CODE), None);
            frames.note(CODE + place, of_size(184));
        }
        assert_eq!(frames.usual(CODE + 999), Some(of_size(184)));
        assert_eq!(frames.usual(CODE + REGION), None, "elsewhere");
        for _ in 0..ALIKE / ALIKE_FOR_EACH_OTHER {
            assert_eq!(frames.usual(CODE), Some(of_size(184)));
            frames.note(CODE, of_size(16));
        }
        assert_eq!(frames.usual(CODE), Some(of_size(184)));
        frames.note(CODE, of_size(16));
        assert_eq!(frames.usual(CODE), None);
        // Nothing on top of the stack tells that there is no frame.
        let mut frames = MadeFrames::default();
        (0..1000).for_each(|place| frames.note(CODE + place, of_size(0)));
        assert_eq!(frames.usual(CODE), None);
        // Of a compiler whose frames differ none ever is.
        let mut frames = MadeFrames::default();
        for place in 0..1000 {
            frames.note(CODE, of_size(8 * (place % 5)));
            assert_eq!(frames.usual(CODE), None);
        }
    }

    #[test]
    fn code_that_was_made_anew_is_looked_at_again() {
        let mut frames = MadeFrames::default();
        let mut above = |code: &[u8]| {
            let code = [code, &[0x90; 16][..]].concat();
            let cursor = Cursor::innermost(Registers::new(Machine::X86_64, CODE, 0));
            let found = frames.by_next_return(&cursor, &mut FakeProcess::of_code(code));
            found.map(|frame| frame.return_address)
        };
        // add $16,%rsp; ret
        assert_eq!(above(&[0x48, 0x83, 0xc4, 16, 0xc3]), Some(Slot::FromSp(16)));
        assert_eq!(above(&[0x48, 0x83, 0xc4, 24, 0xc3]), Some(Slot::FromSp(24)));
        // leave; ret: the frame pointer tells as much.
        assert_eq!(above(&[0xc9, 0xc3]), None);
        // jmp *%rax
        assert_eq!(above(&[0xff, 0xe0]), None);
    }
}
