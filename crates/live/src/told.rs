//! Words of a Go stack beyond the copied piece, from what the kernel saw.
//!
//! With a sample the kernel follows frame pointers as it takes it and tells
//! the return addresses it found, not where. Where they stand follows in Go
//! programs from the sizes of their frames, which are known, as each saves
//! the frame pointer right below its return address:
//!
//! ```text
//!   ┌────────────────┐
//!   │ return address │◄─ told; its place: one frame further
//!   │ saved rbp      │◄─ so it holds this place
//!   │ frame          │
//!   ├────────────────┤
//!   │ return address │◄─ told; its place: the last rbp that was copied + 8
//!   │ saved rbp      │
//!   └────────────────┘
//! ```
//!
//! So what another stack held is known, too: that of a goroutine whose thread
//! is on the system stack.
//!
//! A function that switches stacks leaves the frame pointer as it is: the kernel tells
//! of it and then of its caller's caller. Where it returns to follows in the same way.
//!
//! A function without a frame, as the write barriers of some registers, saves
//! no frame pointer: the kernel tells of it and then of its caller's caller. That
//! names the caller by its call, and the code of the caller where it returns to,
//! if it calls that function in one place only.

use crate::stacks::{OpenFile, StackUnwinder};
use crate::thread_sample::ThreadSample;
use prof_profile::Avma;
use prof_unwind::Machine;

/// Addresses and what was there, by address; none where nothing follows.
pub(super) fn words<F: OpenFile>(
    stacks: &mut StackUnwinder<F>,
    sample: &ThreadSample<'_>,
) -> Vec<(u64, u64)> {
    let mut words = Vec::new();
    if sample.state.registers.machine() != Machine::X86_64 {
        return words;
    }
    let mut nothing = ();
    let (unwinder, mut process) = stacks.at(sample.processes, &sample.state, &mut nothing);
    let size = |at| unwinder.go_frame(Machine::X86_64, at, &mut process);
    let Some((first, switching, frames)) = beyond_copy(sample, size) else {
        return words;
    };
    if let (Some(switching), Some(&outer)) = (switching, frames.first())
        && let Some((caller, of_caller)) = unwinder.go_switched(
            Machine::X86_64,
            (switching.inner, switching.at, outer),
            &mut process,
        )
    {
        words.push((first.wrapping_sub(8).wrapping_sub(of_caller), caller));
    }
    let mut slot = first;
    for (index, &pc) in frames.iter().enumerate() {
        words.push((slot, pc));
        let saved = slot.wrapping_sub(8);
        let before = Avma(pc.wrapping_sub(1));
        let mut size = unwinder.go_frame(Machine::X86_64, before, &mut process);
        if size.is_none()
            && let Some(&outer) = frames.get(index + 1)
            && let Some((caller, of_caller)) =
                unwinder.go_caller(Machine::X86_64, (before, outer), &mut process)
        {
            slot = slot.wrapping_add(8);
            words.push((slot, caller));
            size = Some(of_caller);
        }
        let next = size.and_then(|size| slot.checked_add(8)?.checked_add(size));
        let Some(next) = next else {
            break;
        };
        words.push((saved, next.wrapping_sub(8)));
        slot = next;
    }
    // Of something else than Go code.
    if words.len() < 2 {
        words.clear();
    }
    words.sort_unstable();
    words
}

/// The innermost frame of which it is not known, but told, who called it.
#[derive(Clone, Copy)]
struct Last {
    /// Where it was left.
    at: Avma,
    /// Where the frame is that it has called.
    inner: Avma,
}

/// Where the first return address stands that was not copied, the frame whose it is
/// unless that is the innermost, and those from the first on, if the kernel followed
/// what was copied as it is. `size` tells those of frames of Go functions.
fn beyond_copy<'a>(
    sample: &ThreadSample<'a>,
    mut size: impl FnMut(Avma) -> Option<u64>,
) -> Option<(u64, Option<Last>, &'a [u64])> {
    let registers = &sample.state.registers;
    let (&pc, mut frames) = sample.frames.split_first()?;
    if pc != registers.pc() {
        return None;
    }
    let copied = sample.copied();
    let mut fp = registers.fp()?;
    let mut last: Option<Last> = None;
    while let Some((&pc, rest)) = frames.split_first() {
        let slot = fp.checked_add(8)?;
        if !fp.is_multiple_of(8) {
            return None;
        }
        match copied.word(slot, 8) {
            None => return Some((slot, last, frames)),
            Some(word) if word == pc => {}
            Some(_) => return None,
        }
        let at = Avma(pc.wrapping_sub(1));
        fp = match copied.word(fp, 8) {
            Some(saved) => saved,
            // Around a call of `duffzero` or `duffcopy` it is saved below the stack.
            None if fp < registers.sp() => slot.checked_add(size(at)?)?,
            None => return None,
        };
        last = Some(Last {
            at,
            inner: last.map_or(Avma(registers.pc()), |last| last.at),
        });
        frames = rest;
    }
    None
}
