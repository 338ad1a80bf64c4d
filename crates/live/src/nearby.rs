//! Words of a running process that lie near each other, read together: to ask for
//! one costs as much as to copy some thousand bytes.

use super::memory::TargetMemory;
use prof_runtimes::Memory;
use rustc_hash::FxHashMap;

/// Over holes of so many bytes it is cheaper to read on.
const HOLE: u64 = 2048;
/// Most bytes read at once.
const MOST_AT_ONCE: u64 = 64 << 10;
/// Most places that are asked one by one.
const MOST_RUNS: usize = 64;
/// Bytes of a line; a power of two.
const LINE: u64 = 128;
/// Most lines that are kept.
const MOST_LINES: usize = 4096;

/// The 8 bytes at each of these addresses, as far as they can be read. If they are
/// in very many places, only those before the first that cannot be.
pub(super) fn words_at(
    memory: &impl TargetMemory,
    pid: i32,
    addresses: &[u64],
) -> Vec<Option<u64>> {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    let is_near = |low: &u64, high: &u64| high - low <= HOLE;
    if addresses.is_empty() {
        return Vec::new();
    }
    let runs = sorted.chunk_by(is_near).count();
    if runs > MOST_RUNS {
        let mut words = vec![0; addresses.len()];
        let got = memory.read_words(pid, addresses, &mut words);
        let words = words.into_iter().enumerate();
        return words.map(|(at, word)| (at < got).then_some(word)).collect();
    }
    let mut pieces: Vec<(u64, Vec<u8>)> = Vec::with_capacity(runs);
    let mut rest = sorted.as_slice();
    while let Some((&start, behind)) = rest.split_first() {
        let mut last = start;
        for &address in behind {
            if address - last > HOLE || address - start > MOST_AT_ONCE {
                break;
            }
            last = address;
        }
        let mut bytes = vec![0; (last - start) as usize + 8];
        let got = memory.read(pid, start, &mut bytes);
        bytes.truncate(got);
        pieces.push((start, bytes));
        let done = rest.partition_point(|&address| address <= last);
        rest = rest.get(done..).unwrap_or_default();
    }
    let word = |address: &u64| {
        let before = pieces.partition_point(|(start, _)| start <= address);
        let (start, bytes) = pieces.get(before.checked_sub(1)?)?;
        let from = usize::try_from(address - start).ok()?;
        let bytes = bytes.get(from..from.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    addresses.iter().map(word).collect()
}

/// Memory of processes that was read in one drain.
#[derive(Debug, Default)]
pub(super) struct Lines {
    drain: u64,
    /// By process and address; shorter where no more could be read.
    lines: FxHashMap<(i32, u64), Vec<u8>>,
}

impl Lines {
    /// The memory of a process in a drain: what was read in it is not read again.
    pub(super) fn of<'a, M: TargetMemory>(
        &'a mut self,
        memory: &'a M,
        (pid, drain): (i32, u64),
    ) -> InLines<'a, M> {
        if self.drain != drain || self.lines.len() >= MOST_LINES {
            self.lines.clear();
            self.drain = drain;
        }
        InLines {
            lines: self,
            memory,
            pid,
        }
    }
}

/// That of one process.
pub(super) struct InLines<'a, M> {
    lines: &'a mut Lines,
    memory: &'a M,
    pid: i32,
}

impl<M: TargetMemory> Memory for InLines<'_, M> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let within = address % LINE;
        let start = address - within;
        if within + out.len() as u64 > LINE {
            return self.memory.read(self.pid, address, out);
        }
        let (memory, pid) = (self.memory, self.pid);
        let line = self.lines.lines.entry((pid, start)).or_insert_with(|| {
            let mut line = vec![0; LINE as usize];
            let got = memory.read(pid, start, &mut line);
            line.truncate(got);
            line
        });
        let there = line.get(within as usize..).unwrap_or_default();
        let count = out.len().min(there.len());
        for (to, from) in out.iter_mut().zip(there) {
            *to = *from;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE, Lines, words_at};
    use crate::TargetMemory;
    use prof_runtimes::Memory;
    use std::cell::Cell;

    /// A process that has its addresses as words, from 4096 to 1 MiB.
    #[derive(Default)]
    struct Counted {
        reads: Cell<usize>,
        /// Is added to each word.
        more: Cell<u64>,
    }

    impl TargetMemory for Counted {
        fn read(&self, _: i32, address: u64, out: &mut [u8]) -> usize {
            self.reads.set(self.reads.get() + 1);
            let byte = |at: u64| {
                let word = (at & !7) + self.more.get();
                (4096..1 << 20)
                    .contains(&at)
                    .then(|| word.to_le_bytes()[(at % 8) as usize])
            };
            let bytes = (address..).map_while(byte);
            out.iter_mut()
                .zip(bytes)
                .map(|(to, from)| *to = from)
                .count()
        }

        fn read_words(&self, pid: i32, addresses: &[u64], out: &mut [u64]) -> usize {
            let mut word = [0; 8];
            let mut got = 0;
            for (to, &address) in out.iter_mut().zip(addresses) {
                if self.read(pid, address, &mut word) < 8 {
                    break;
                }
                *to = u64::from_le_bytes(word);
                got += 1;
            }
            got
        }
    }

    #[test]
    fn words_that_lie_near_each_other_are_read_at_once() {
        let memory = Counted::default();
        // Three of each frame, the outermost first, and some far away.
        let frames = (0..100_u64).rev().flat_map(|at| {
            let fp = 8192 + 160 * at;
            [fp - 8, fp - 16, fp - 32]
        });
        let slots: Vec<u64> = frames.chain([900_000, 900_008, 900_000]).collect();
        let expected: Vec<_> = slots.iter().map(|&slot| Some(slot)).collect();
        assert_eq!(words_at(&memory, 7, &slots), expected);
        assert_eq!(memory.reads.get(), 2);
        // More than is read at once.
        let slots: Vec<u64> = (0..400_u64).map(|at| 8192 + 800 * at).collect();
        let expected: Vec<_> = slots.iter().map(|&slot| Some(slot)).collect();
        assert_eq!(words_at(&memory, 7, &slots), expected);
        assert!(memory.reads.get() < 10, "{}", memory.reads.get());
    }

    #[test]
    fn words_that_are_not_there_are_none() {
        let memory = Counted::default();
        let slots = [(1 << 20) - 16, (1 << 20) - 8, 1 << 20, 8, 4096];
        let expected = [Some(slots[0]), Some(slots[1]), None, None, Some(4096)];
        assert_eq!(words_at(&memory, 7, &slots), expected);
        let near: Vec<u64> = (0..9).map(|at| (1 << 20) - 40 + 8 * at).collect();
        let there = words_at(&memory, 7, &near);
        assert_eq!(there.iter().flatten().count(), 5);
        assert_eq!(words_at(&memory, 7, &[]), []);
        // A register that is no frame pointer: as high as addresses go.
        let slots = [u64::MAX - 29, u64::MAX - 13, 8192];
        assert_eq!(words_at(&memory, 7, &slots), [None, None, Some(8192)]);
        // In many places, one by one.
        let far: Vec<u64> = (0..100).map(|at| 8192 + 4096 * at).collect();
        let there = words_at(&memory, 7, &far);
        assert_eq!(there, far.iter().copied().map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_is_read_once_in_a_drain() {
        let memory = Counted::default();
        let mut lines = Lines::default();
        let mut word = |drain: u64, address: u64| {
            let mut word = [0; 8];
            let got = lines.of(&memory, (7, drain)).read(address, &mut word);
            (got == 8).then(|| u64::from_le_bytes(word))
        };
        for at in (0..LINE).step_by(8) {
            assert_eq!(word(1, 8192 + at), Some(8192 + at));
        }
        assert_eq!(memory.reads.get(), 1);
        memory.more.set(1 << 32);
        assert_eq!(word(1, 8192), Some(8192));
        assert_eq!(word(2, 8192), Some(8192 + (1 << 32)));
        assert_eq!(word(2, 0), None);
        // Over the end of a line.
        assert!(word(2, 8192 + LINE - 4).is_some());
    }
}
