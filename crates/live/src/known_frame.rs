//! A frame of a stack that was seen before.

use super::links::Link;
use super::memory::Copied;
use prof_unwind::{Base, FpFrom};

/// A frame and how it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Where its return address stands; 0 for the innermost frame.
    pub(super) slot: u64,
    /// The return address.
    pub(super) pc: u64,
    /// The stack pointer in the frame.
    pub(super) sp: u64,
    /// See [`prof_unwind::Cursor::key`].
    pub(super) key: u64,
    /// The drain in which it was first seen as it is.
    pub(super) since: u64,
    /// How often the thread had been looked at when it was first seen.
    pub(super) looks: u32,
    /// What is to be learnt of that call once the frame is confirmed.
    pub(super) link: Option<Link>,
    /// Whether no other place was ever seen to call the function that it called.
    pub(super) is_only: bool,
    /// The frame pointer in the frame; 0 if it is lost.
    pub(super) fp: u64,
    /// Where that was found.
    pub(super) fp_from: FpFrom,
    /// Whether it decides on the place of a return address further out.
    pub(super) needs_fp: bool,
    /// What its own caller was found by.
    pub(super) base: Base,
}

impl Known {
    /// Whether a frame at this place with this return address has the same
    /// caller, as long as the words on the stack that are compared stay.
    pub(super) fn is_rigid(&self) -> bool {
        let is_lost = self.needs_fp && self.fp_from == FpFrom::Other;
        self.base != Base::Other && !is_lost
    }

    /// Whether it has the same return address in the same place as another, and its
    /// caller is found by the same.
    pub(super) fn stands_as(&self, other: &Self) -> bool {
        let place = |it: &Self| (it.slot, it.pc, it.sp, it.key, it.base, it.needs_fp);
        let has_fp = !self.needs_fp || (self.fp, self.fp_from) == (other.fp, other.fp_from);
        place(self) == place(other) && has_fp
    }

    /// Where the frame pointer stands on which frames further out hang.
    pub(super) fn fp_slot(&self) -> Option<u64> {
        match self.fp_from {
            FpFrom::Memory(at) if self.needs_fp => Some(at),
            _ => None,
        }
    }

    /// Whether the frame pointer that frames further out hang on was copied as
    /// another one.
    pub(super) fn is_repointed(&self, copied: &Copied<'_>, word: u8) -> bool {
        let now = self.fp_slot().and_then(|at| copied.word(at, word));
        now.is_some_and(|fp| fp != self.fp)
    }
}
