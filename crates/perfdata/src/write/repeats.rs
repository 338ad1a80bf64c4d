//! Finds what records of deep chains have in common with those before.
//!
//! Such a record is some bytes of its own, and tens of thousands that an earlier
//! one had, too: entries of call chains, each a word. To compare those takes a
//! tenth of the time in which zstd's own encoder packs them, and what that would
//! gain further is of the few bytes that are left.

use super::zstd_blocks::{self, WINDOW};

/// Bytes of a word: at multiples of it matches are looked for.
const WORD: usize = 8;
/// By so many bytes places are found.
const KEY: usize = 3 * WORD;
/// Shorter matches are not worth a block.
const SHORTEST: usize = 4 * WORD;
/// At this length none that may be longer is looked for.
const LONG: usize = 256;
/// Of what was a match one place in so many bytes is remembered.
const STRIDE: usize = 64 * WORD;
/// Places that are remembered; a power of two.
const PLACES: usize = 1 << 12;
/// Bytes that are compared at once.
const AT_ONCE: usize = 32 * WORD;

/// Makes a zstd stream.
#[derive(Debug)]
pub(super) struct Repeats {
    /// The last bytes that were taken, and how many there were before them.
    history: Vec<u8>,
    before: usize,
    /// The bytes before these, as far as they are kept: nothing is moved.
    older: Vec<u8>,
    /// Places, counted from the first byte on, by a hash of what stands there,
    /// plus one; 0 if there is none. Of each hash an old one, behind which most
    /// follows, and the newest, which a recursion goes on with.
    places: Box<[[usize; 2]]>,
    /// How far back the last match was.
    distance: usize,
}

impl Default for Repeats {
    fn default() -> Self {
        Self {
            history: Vec::new(),
            before: 0,
            older: Vec::new(),
            places: vec![[0; 2]; PLACES].into(),
            distance: 0,
        }
    }
}

/// A match: where in the history, how far back, how many bytes.
#[derive(Debug, Clone, Copy)]
struct Match {
    at: usize,
    distance: usize,
    length: usize,
}

impl Repeats {
    /// Appends to `out` the next bytes, fewer than 128 KiB, as whole blocks: never
    /// more than 16 bytes longer.
    pub(super) fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.before == 0 && self.history.is_empty() && !bytes.is_empty() {
            zstd_blocks::begin(out);
        }
        self.make_room(bytes.len());
        let mut from = self.history.len();
        self.history.extend_from_slice(bytes);
        let mut at = from;
        while at + SHORTEST <= self.history.len() {
            let Some(found) = self.find(at, from) else {
                self.remember(at);
                at += WORD;
                continue;
            };
            let literals = self.history.get(from..found.at).unwrap_or_default();
            zstd_blocks::repeated(literals, (found.distance, found.length), out);
            self.distance = found.distance;
            from = found.at + found.length;
            while at + KEY <= from {
                self.remember(at);
                at += STRIDE;
            }
            at = from;
        }
        let rest = self.history.get(from..).unwrap_or_default();
        zstd_blocks::stored(rest, out);
    }

    /// Forgets what is too far back, from time to time.
    fn make_room(&mut self, more: usize) {
        if self.history.len() + more > WINDOW {
            self.before += self.history.len();
            std::mem::swap(&mut self.history, &mut self.older);
            self.history.clear();
        }
    }

    /// What stands so far before a place, as far as it is kept in one piece, and
    /// what of that is before.
    fn back(&self, at: usize, distance: usize) -> (&[u8], &[u8]) {
        let (piece, then) = match at.checked_sub(distance) {
            Some(then) => (&self.history, Some(then)),
            None => (&self.older, (self.older.len() + at).checked_sub(distance)),
        };
        let parts = then.and_then(|then| piece.split_at_checked(then));
        let (before, behind) = parts.unwrap_or_default();
        (behind, before)
    }

    /// The match at a place, of which bytes from `from` on may be part.
    fn find(&self, at: usize, from: usize) -> Option<Match> {
        let again = self.common(at, self.distance);
        if again >= LONG {
            return Some(self.extended((at, self.distance, again), from));
        }
        let (mut distance, mut length) = (self.distance, again);
        for far in self.distances(at).into_iter().flatten() {
            let found = self.common(at, far);
            if found > length {
                (distance, length) = (far, found);
            }
        }
        (length >= SHORTEST).then(|| self.extended((at, distance, length), from))
    }

    /// With what is the same before it.
    fn extended(&self, (at, distance, length): (usize, usize, usize), from: usize) -> Match {
        let new = self.history.get(from..at).unwrap_or_default().iter().rev();
        let old = self.back(at, distance).1.iter().rev();
        let more = new.zip(old).take_while(|(new, old)| new == old).count();
        Match {
            at: at - more,
            distance,
            length: length + more,
        }
    }

    /// How many bytes at a place are the same as so far before it.
    fn common(&self, at: usize, distance: usize) -> usize {
        if !(1..=WINDOW).contains(&distance) {
            return 0;
        }
        let old = self.back(at, distance).0;
        let new = self.history.get(at..).unwrap_or_default();
        let mut pieces = old.chunks_exact(AT_ONCE).zip(new.chunks_exact(AT_ONCE));
        let same = AT_ONCE * pieces.by_ref().take_while(|(old, new)| old == new).count();
        let old = old.get(same..).unwrap_or_default();
        let new = new.get(same..).unwrap_or_default();
        let words = old.chunks_exact(WORD).zip(new.chunks_exact(WORD));
        same + WORD * words.take_while(|(old, new)| old == new).count()
    }

    /// The number of the slot for what stands at a place.
    fn slot(&self, at: usize) -> Option<usize> {
        let key = self.history.get(at..at + KEY)?;
        let words = key.chunks_exact(WORD);
        let words = words.map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        let hash = words.fold(0_u64, |hash, word| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        Some((hash >> 32) as usize % PLACES)
    }

    /// How far before a place the same may stand.
    fn distances(&self, at: usize) -> [Option<usize>; 2] {
        let slot = self.slot(at).and_then(|slot| self.places.get(slot));
        let now = self.before + at + 1;
        let places = slot.copied().unwrap_or_default();
        places.map(|place| (place > 0).then(|| now.saturating_sub(place)))
    }

    fn remember(&mut self, at: usize) {
        let now = self.before + at + 1;
        if let Some(slot) = self.slot(at)
            && let Some([old, newest]) = self.places.get_mut(slot)
        {
            *newest = now;
            if *old == 0 || now - *old > WINDOW / 2 {
                *old = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Repeats;
    use crate::write::zstd_blocks::tests::unpacked;

    /// What becomes of pieces, and how many bytes each takes.
    fn packed(pieces: &[Vec<u8>]) -> Vec<usize> {
        let mut repeats = Repeats::default();
        let mut stream = Vec::new();
        let mut took = Vec::new();
        for piece in pieces {
            let before = stream.len();
            repeats.append(piece, &mut stream);
            took.push(stream.len() - before);
            assert!(took[took.len() - 1] <= piece.len() + 16);
        }
        let all = pieces.concat();
        assert!(unpacked(&stream, all.len()) == all, "other bytes");
        took
    }

    /// Words that do not repeat.
    fn noise(seed: u64, count: usize) -> Vec<u8> {
        let word = |at: u64| {
            (seed + at)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        (0..count as u64)
            .flat_map(|at| word(at).to_ne_bytes())
            .collect()
    }

    fn words(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn a_chain_that_was_there_before_takes_some_bytes() {
        let outer = noise(7, 7000);
        let sample = |time: u64| [words([9, 1, 2, 3, time, 5]), outer.clone()].concat();
        let samples: Vec<_> = (0..100).map(|time| sample((1 << 40) + time * 77)).collect();
        let took = packed(&samples);
        assert!(took[1..].iter().all(|&it| it < 60), "{:?}", &took[..9]);
    }

    #[test]
    fn frames_that_came_or_went_take_no_more_than_themselves() {
        let outer = noise(7, 3000);
        // Now and then other frames are inside of others of the old.
        let sample = |at: usize| {
            let inner = noise(1_000_000 + at as u64 * 100, at * 37 % 50);
            [
                words([9, at as u64]),
                inner,
                outer[8 * (at * 53 % 800)..].to_vec(),
            ]
            .concat()
        };
        let took = packed(&(0..200).map(sample).collect::<Vec<_>>());
        for (at, took) in took.iter().enumerate().skip(1) {
            assert!(*took < 8 * (2 + at * 37 % 50) + 80, "{at}: {took}");
        }
    }

    #[test]
    fn recursion_repeats_itself_and_threads_repeat_their_own() {
        for cycle in [1, 2, 3, 7] {
            let chain = |depth: u64| words((0..depth).map(|at| 0x55_0000 + at % cycle));
            let samples = (0..300).map(|at| chain(1000 + at * 977 % 6000));
            let took = packed(&samples.collect::<Vec<_>>());
            let most = took[1..].iter().max();
            assert!(most < Some(&500), "{cycle}: {most:?}");
        }
        let threads = [noise(1, 4000), noise(10_000, 6000), noise(20_000, 2000)];
        let samples = (0..60).map(|at| threads[at % 3].clone());
        let took = packed(&samples.collect::<Vec<_>>());
        assert!(took[3..].iter().all(|&it| it < 40), "{took:?}");
    }

    #[test]
    fn what_does_not_repeat_or_is_short_stays_as_it_is() {
        let pieces: Vec<_> = (0..100).map(|at| noise(at * 10_000, 7000)).collect();
        packed(&pieces);
        let lengths = [0, 1, 7, 8, 9, 31, 32, 33, 100, 61_440];
        packed(&lengths.map(|length| vec![3; length]));
        packed(&lengths.map(|length| noise(5, 9000)[..length].to_vec()));
    }
}
