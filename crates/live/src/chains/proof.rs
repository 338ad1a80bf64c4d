//! What a walk believes of memory that was read later than its sample.

use super::walk::Walk;
use crate::known_frame::Known;
use crate::links::Around;
use crate::memory::TargetMemory;
use crate::outer::SHARED;
use crate::stacks::OpenFile;
use rustc_hash::FxHashSet;
use std::ops::Range;

/// Bytes at the end of a copied piece that must still be as copied for what
/// lies beyond to be believed at first sight.
const SEAM: u64 = 1024;
/// Slots of known frames that are read again for each sample.
const VERIFIED: usize = 16;
/// Most slots of one chain that may yet have to be seen more often.
const MAX_UNSURE: usize = 256;

impl<F: OpenFile, M: TargetMemory> Walk<'_, F, M> {
    /// Reads slots of the known frames outside of `at` again: the nearest,
    /// the outermost, and some between, others each time. On a difference
    /// what was known is dropped there.
    pub(super) fn verify(&mut self, at: usize) -> bool {
        let known = self.outer.until(self.outer.outside(at, &self.straight));
        // Copied slots were compared, and they are the innermost.
        let asks = |frame: &Known| !frame.is_only && self.is_beyond(frame.slot);
        let beyond = known.iter().rposition(asks);
        let Some(count) = beyond.map(|last| last + 1) else {
            return true;
        };
        if self.outer.is_verified(count, self.drain) {
            return true;
        }
        let all = count;
        let mut chosen = [0_usize; VERIFIED];
        let chosen = choose(count, self.drain as usize, &mut chosen);
        // Of each the return address and, where it matters, the frame pointer.
        let expected = chosen.iter().flat_map(|&index| {
            let frame = known.get(index).filter(|frame| !frame.is_only);
            let slot = frame.map(|frame| (index, frame.slot, frame.pc));
            let fp = frame.and_then(|frame| Some((index, frame.fp_slot()?, frame.fp)));
            slot.into_iter().chain(fp)
        });
        // What was copied since may be another by now.
        let expected = expected.filter(|&(_, slot, _)| self.is_beyond(slot));
        let mut compared = [(0, 0, 0); 2 * VERIFIED];
        let mut addresses = [0; 2 * VERIFIED];
        let mut words = [0; 2 * VERIFIED];
        let mut count = 0;
        for ((place, address), word) in compared.iter_mut().zip(&mut addresses).zip(expected) {
            (*place, *address) = (word, word.1);
            count += 1;
        }
        let addresses = addresses.get(..count).unwrap_or_default();
        let pid = self.sample.state.pid;
        let got = self.memory.read_words(pid, addresses, &mut words);
        self.is_unreadable |= got < addresses.len();
        let mask = match self.sample.state.registers.machine().word() {
            4 => u64::from(u32::MAX),
            _ => u64::MAX,
        };
        let words = words.get(..got).unwrap_or_default();
        let differs = compared.iter().zip(words);
        let differs = differs.filter(|((_, _, expected), word)| *expected != **word & mask);
        // The outermost difference: what is inside of it may have followed.
        match differs.map(|((index, ..), _)| *index).min() {
            Some(index) => {
                self.outer.changed(index, self.drain);
                false
            }
            None => {
                if got == addresses.len() {
                    self.outer.verified(all, self.drain);
                }
                true
            }
        }
    }

    /// If the frames behind the first `proven` may have been there when the
    /// sample was taken, those of their slots that have yet to be seen more
    /// often to be sure, with what they hold. They may if each was seen before
    /// this drain and again now, or goes on with a recursion that was copied,
    /// or the thread seems not to have moved since: then it is on trial.
    pub(super) fn unsure_slots(&mut self, proven: usize, joined: usize) -> Option<Vec<(u64, u64)>> {
        // The outermost need no more proof, as a rule all but the innermost.
        let steady = self.outer.steady(joined, self.drain);
        let walked = self.inner.get(proven..).unwrap_or_default();
        let mut at = self.outer.outside(joined, &self.straight);
        let mut weighed = Weighed {
            uncalm: self.outer.uncalm_slots(self.drain),
            repeats: match walked.is_empty() && at <= steady {
                // None will be asked for.
                true => Repeats::default(),
                false => Repeats::of(self.copied_pcs(proven, joined)),
            },
            callee: proven
                .checked_sub(1)
                .and_then(|at| self.inner.get(at))
                .map(|it| it.pc),
            is_bracketed: true,
            is_settled: true,
            unsure: Vec::new(),
        };
        walked
            .iter()
            .for_each(|frame| self.weigh(frame, &mut weighed));
        let copied = self.outer.until(joined).get(at);
        weighed.callee = copied.map(|frame| frame.pc).or(weighed.callee);
        while at > steady
            && let Some(frame) = at
                .checked_sub(1)
                .and_then(|last| self.outer.until(at).get(last))
        {
            self.weigh(frame, &mut weighed);
            at -= 1;
            // The rest of those that repeat what was copied.
            let repeats = &mut weighed.repeats;
            let pairs = self.outer.pairs(at + 1, self.drain);
            if pairs.is_some_and(|pairs| pairs.iter().all(|&pair| repeats.has(pair))) {
                at = (at + 1).saturating_sub(SHARED);
                weighed.callee = self.outer.until(at + 1).last().map(|frame| frame.pc);
            }
        }
        let Weighed {
            is_bracketed,
            mut is_settled,
            unsure,
            ..
        } = weighed;
        is_settled &= self.have_stayed(joined);
        // So many are not looked at one by one for each sample.
        if unsure.len() > MAX_UNSURE {
            return None;
        }
        let unsure = self.open_slots(unsure);
        let is_timely = match self.is_unreadable {
            true => self.outer.is_trusted(),
            false => is_bracketed || self.is_still(proven),
        };
        self.is_unsettled_only = is_timely && !is_settled;
        (is_timely && is_settled).then_some(unsure)
    }

    /// Of slots that were not seen often enough those that have to be: a frame that was
    /// copied with an earlier sample may be one of the only caller by now.
    fn open_slots(&mut self, unsure: Vec<Unsure>) -> Vec<(u64, u64)> {
        let mut around = Around {
            stacks: &mut *self.stacks,
            processes: self.sample.processes,
            state: &self.sample.state,
        };
        let links = &*self.links;
        // The innermost frame does not return to where it is.
        let innermost = self.inner.first().map(|frame| frame.pc);
        let mut is_open = |it: &Unsure| {
            let callee = it.callee.filter(|_| it.callee != innermost);
            !callee.is_some_and(|callee| links.is_only_caller(&mut around, (callee, it.pc)))
        };
        let open = unsure.into_iter().filter(|it| is_open(it));
        open.map(|it| (it.slot, it.pc)).collect()
    }

    /// Whether no slot in doubt speaks against this chain. Each that it has counts as
    /// once more the same.
    fn have_stayed(&mut self, joined: usize) -> bool {
        let mut have_stayed = true;
        for slot in self.outer.doubtful() {
            let is_of_chain = self.is_of_chain(slot, joined);
            // What came with the sample counts, too: else a slot that is read with
            // each would be in doubt, and so be read, for ever.
            let has_stayed = is_of_chain && self.outer.is_settled(slot);
            have_stayed &= has_stayed || !is_of_chain || !self.is_beyond(slot);
        }
        have_stayed
    }

    /// The first `proven` frames of this sample, and of the known ones outside of
    /// position `joined` those that its copy was compared with; innermost first.
    fn copied_pcs(&self, proven: usize, joined: usize) -> impl Iterator<Item = u64> {
        let walked = self.inner.get(..proven).unwrap_or_default().iter();
        let known = match proven == self.inner.len() {
            true => self.outer.until(joined),
            false => &[],
        };
        let known = known.iter().rev();
        let known = known.take_while(|frame| self.straight.contains(&frame.slot));
        walked.chain(known).map(|frame| frame.pc)
    }

    /// Weighs whether a frame outside of the one before may have been there when
    /// the sample was taken.
    fn weigh(&self, frame: &Known, weighed: &mut Weighed) {
        let inside = weighed.callee.replace(frame.pc);
        if frame.is_only || !self.is_beyond(frame.slot) {
            return;
        }
        weighed.is_settled = weighed.is_settled
            && (!weighed.uncalm.contains(&frame.slot)
                || self.outer.is_calm(frame.slot, self.drain));
        if inside.is_some_and(|inside| weighed.repeats.has((inside, frame.pc))) {
            return;
        }
        if !self.outer.is_sure(frame.slot, frame.pc) {
            weighed.unsure.push(Unsure {
                slot: frame.slot,
                pc: frame.pc,
                callee: inside,
            });
        }
        // One look at a call through a pointer is not enough: that slot is
        // not sure, so later samples must show it, too.
        weighed.is_bracketed &= frame.since < self.drain;
    }

    /// Whether the thread is still in the outermost copied frame, as far as
    /// can be seen: the end of what was copied of it is as it was, and no
    /// later sample of this drain is above it.
    fn is_still(&self, proven: usize) -> bool {
        let dump = &self.sample.state.dump;
        let outermost = proven.checked_sub(1).and_then(|at| self.inner.get(at));
        let end = outermost.map_or(dump.start, |frame| frame.sp.clamp(dump.start, dump.end()));
        let start = end.saturating_sub(SEAM).max(dump.start);
        let copied = usize::try_from(start - dump.start)
            .ok()
            .and_then(|from| dump.bytes.get(from..from + (end - start) as usize))
            .unwrap_or_default();
        if copied.is_empty() || self.sample.later_sp >= start {
            return false;
        }
        let mut now = [0; SEAM as usize];
        let now = now.get_mut(..copied.len()).unwrap_or_default();
        let got = self.memory.read(self.sample.state.pid, start, now);
        got == copied.len() && now == copied
    }
}

/// What speaks for the frames beyond the copy, from the inside on.
struct Weighed {
    /// Slots that are not among these are calm.
    uncalm: Range<u64>,
    repeats: Repeats,
    /// Return address of the frame that was weighed last.
    callee: Option<u64>,
    is_bracketed: bool,
    is_settled: bool,
    unsure: Vec<Unsure>,
}

/// A slot that was not seen often enough to be sure.
struct Unsure {
    slot: u64,
    /// What it holds.
    pc: u64,
    /// The return address of the frame inside of it.
    callee: Option<u64>,
}

/// Pairs of callee and caller that occur in a copied stack, by return
/// addresses: a recursion repeats them.
#[derive(Default)]
struct Repeats {
    pairs: FxHashSet<(u64, u64)>,
    /// The pair that was found last: most likely the next is the same.
    last: Option<(u64, u64)>,
}

impl Repeats {
    /// Of return addresses in a copied stack, innermost first.
    fn of(mut copied: impl Iterator<Item = u64>) -> Self {
        let mut pairs = FxHashSet::default();
        let mut last = None;
        if let Some(mut callee) = copied.next() {
            for caller in copied {
                let pair = (std::mem::replace(&mut callee, caller), caller);
                if last.replace(pair) != Some(pair) {
                    pairs.insert(pair);
                }
            }
        }
        Self { pairs, last: None }
    }

    fn has(&mut self, pair: (u64, u64)) -> bool {
        if self.last == Some(pair) {
            return true;
        }
        let is_there = self.pairs.contains(&pair);
        self.last = is_there.then_some(pair).or(self.last);
        is_there
    }
}

/// Chooses up to `out.len()` of `count` positions: the ends, and between
/// them others for each `round`.
fn choose(count: usize, round: usize, out: &mut [usize; VERIFIED]) -> &[usize] {
    const AT_ENDS: usize = VERIFIED / 4;
    const BETWEEN: usize = VERIFIED - 2 * AT_ENDS;
    let used = count.min(VERIFIED);
    for (position, slot) in out.iter_mut().enumerate() {
        *slot = if count <= VERIFIED || position < AT_ENDS {
            position
        } else if position < 2 * AT_ENDS {
            count - 1 - (position - AT_ENDS)
        } else {
            let part = position - 2 * AT_ENDS;
            (part * count / BETWEEN + round) % count
        };
    }
    out.get(..used).unwrap_or_default()
}
