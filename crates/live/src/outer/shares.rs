//! Return addresses of outer frames that chains share.

use super::{NO_CALLER, OuterFrames};
use crate::known_frame::Known;
use crate::user_chain::SharedFrames;

/// Frames whose return addresses chains share at a time.
pub(crate) const SHARED: usize = 512;
/// So many pairs of callee and caller are few.
const MOST_PAIRS: usize = 8;

/// [`SHARED`] frames.
#[derive(Debug)]
pub(super) struct Shared {
    /// Their return addresses, as chains have them.
    frames: SharedFrames,
    /// The pairs of callee and caller among them, by return addresses; `None`
    /// if there are many.
    pairs: Option<Vec<(u64, u64)>>,
}

impl Shared {
    /// Of known frames, outermost first.
    fn of(frames: &[Known]) -> Self {
        let mut pairs = Some(Vec::new());
        for (caller, callee) in frames.iter().zip(frames.get(1..).unwrap_or_default()) {
            let pair = (callee.pc, caller.pc);
            pairs = match pairs {
                Some(all) if all.contains(&pair) => Some(all),
                Some(mut all) if all.len() < MOST_PAIRS => {
                    all.push(pair);
                    Some(all)
                }
                _ => None,
            };
        }
        let pcs = frames.iter().rev().map(|frame| frame.pc);
        Self {
            frames: SharedFrames::new(pcs.filter(|&pc| pc != NO_CALLER)),
            pairs,
        }
    }
}

impl OuterFrames {
    /// Has shares of the frames outside of position `end`.
    fn prepare(&mut self, end: usize) {
        let count = end.min(self.frames.len()) / SHARED;
        while self.shared.len() < count
            && let from = self.shared.len() * SHARED
            && let Some(frames) = self.frames.get(from..from + SHARED)
        {
            self.shared.push(Shared::of(frames));
        }
    }

    /// Adds to `out`, innermost first, the return addresses of outer frames among
    /// those outside of position `end`; how many frames that are.
    pub(crate) fn share(&mut self, end: usize, out: &mut Vec<SharedFrames>) -> usize {
        self.prepare(end);
        let shared = self.shared.get(..end / SHARED).unwrap_or(&self.shared);
        out.extend(shared.iter().rev().map(|shared| shared.frames.clone()));
        shared.len() * SHARED
    }

    /// If all slots of a share of frames, whose last is at position `end - 1`,
    /// are calm in drain `now`, and their pairs of callee and caller are few:
    /// these pairs.
    pub(crate) fn pairs(&mut self, end: usize, now: u64) -> Option<&[(u64, u64)]> {
        let is_share = end.is_multiple_of(SHARED) && end <= self.in_order;
        let innermost = self.frames.get(end.checked_sub(1)?)?;
        let outermost = self.frames.get(end.checked_sub(SHARED)?)?;
        let slots = innermost.slot..outermost.slot.saturating_add(1);
        if !is_share || self.uncalm(slots, now).is_some() {
            return None;
        }
        self.prepare(end);
        let shared = self.shared.get((end / SHARED).checked_sub(1)?)?;
        shared.pairs.as_deref()
    }
}
