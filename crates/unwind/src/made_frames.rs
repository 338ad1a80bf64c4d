//! Frames of code without a file that keeps no frame pointer, as its next return
//! tells them.

use crate::code_frame::{self, CodeFrame, Slot};
use crate::{Machine, Process, made};
use prof_profile::Avma;
use rustc_hash::FxHashMap;

/// Code at a place by which it is known again, bytes: compilers make other code where
/// they freed some.
const KNOWN_BY: usize = 16;
/// Most places whose frames are kept.
const MAX_CACHED: usize = 1 << 14;

/// What was found out at places, by address: code that was there, and the frame.
#[derive(Debug, Default)]
pub(crate) struct MadeFrames(FxHashMap<u64, ([u8; KNOWN_BY], Option<CodeFrame>)>);

impl MadeFrames {
    /// The frame at a place of 64-bit x86 code whose next return finds its address by
    /// the stack pointer; `None` if it does not, or no way without a call leads to one.
    pub(crate) fn by_next_return(
        &mut self,
        pc: u64,
        process: &mut impl Process,
    ) -> Option<CodeFrame> {
        let mut code = [0; KNOWN_BY];
        if process.code(Avma(pc), &mut code) != KNOWN_BY {
            return None;
        }
        if let Some((before, frame)) = self.0.get(&pc)
            && *before == code
        {
            return *frame;
        }
        let found = code_frame::by_next_return(Machine::X86_64, pc, &mut made::reader(process));
        let frame = found.filter(|it| matches!(it.return_address, Slot::FromSp(_)));
        if self.0.len() >= MAX_CACHED {
            self.0.clear();
        }
        self.0.insert(pc, (code, frame));
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::MadeFrames;
    use crate::code_frame::Slot;
    use crate::fake::{CODE, FakeProcess};

    #[test]
    fn code_that_was_made_anew_is_looked_at_again() {
        let mut frames = MadeFrames::default();
        let mut above = |code: &[u8]| {
            let code = [code, &[0x90; 16][..]].concat();
            let found = frames.by_next_return(CODE, &mut FakeProcess::of_code(code));
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
