//! The other part of a function that its compiler split: what it holds to be cold stands
//! elsewhere, without a symbol of its own that every file keeps.
//!
//! The index of unwind information (`.eh_frame_hdr`) has where each part begins. A part
//! of the same function is that into the midst of which several jumps lead.

use crate::memory::{Memory, Pages, bytes, int};
use std::ops::Range;

/// The longest part that is looked through for jumps, bytes.
const MAX_PART: u64 = 1 << 18;
/// Jumps that lead into the midst of a part of the same function.
const JUMPS: usize = 3;
/// Targets whose part is looked for: a process may be made to have ever more.
const MAX_LOOKS: usize = 256;
/// Steps of a search among all parts of a file.
const MAX_STEPS: u32 = 40;

/// The index of a file's unwind information: where it is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnwindIndex(pub(crate) u64);

impl UnwindIndex {
    /// The part that holds an address: from where it begins up to where the next one does.
    ///
    /// The head: version 1 and how pointers are coded (1 byte each), the place of
    /// `.eh_frame`, the number of entries (4 bytes each). An entry: how far the part's
    /// begin, and its entry in `.eh_frame`, are from the head (4 bytes each).
    fn part_at(self, at: u64, memory: &mut impl Memory) -> Option<Range<u64>> {
        const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        if bytes::<4>(memory, self.0)? != USUAL {
            return None;
        }
        let count = int(memory, self.0.checked_add(8)?)?;
        let mut begin = |number: u32| {
            let entry = self.0.checked_add(12)?.checked_add(u64::from(number) * 8)?;
            let by = int(memory, entry)?.cast_signed();
            Some(self.0.wrapping_add_signed(by.into()))
        };
        let (mut low, mut high) = (0, count);
        for _ in 0..MAX_STEPS {
            if high - low <= 1 {
                break;
            }
            let middle = low + (high - low) / 2;
            match begin(middle)? <= at {
                true => low = middle,
                false => high = middle,
            }
        }
        let next = low.checked_add(1).filter(|&next| next < count)?;
        Some(begin(low)?..begin(next)?).filter(|part| part.contains(&at))
    }

    /// The other part of the function of x86-64 whose first part this is, if it has one.
    pub(crate) fn cold_part(
        self,
        part: &Range<u64>,
        memory: &mut impl Memory,
    ) -> Option<Range<u64>> {
        let length = part.end.checked_sub(part.start)?;
        let mut code = vec![0; usize::try_from(length.min(MAX_PART)).ok()?];
        let got = memory.read(part.start, &mut code);
        let leads_out = |target: &u64| !part.contains(target);
        let jumps = jumps(part.start, code.get(..got)?).filter(leads_out);
        let memory = &mut Pages::new(memory);
        let mut counted: Vec<(Range<u64>, usize)> = Vec::new();
        let mut looks = 0;
        for target in jumps {
            let known = counted.iter_mut().find(|(part, _)| part.contains(&target));
            if let Some((part, count)) = known {
                *count += usize::from(part.start != target);
                continue;
            }
            looks += 1;
            if looks > MAX_LOOKS {
                break;
            }
            if let Some(part) = self.part_at(target, memory) {
                let is_midst = part.start != target;
                counted.push((part, usize::from(is_midst)));
            }
        }
        let most = counted.into_iter().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count >= JUMPS)
            .map(|(part, _)| part)
    }
}

/// Where jumps go to in code that stands at an address: `jmp` and `jcc` of 4 bytes, and
/// what only looks like them.
fn jumps(start: u64, code: &[u8]) -> impl Iterator<Item = u64> {
    let places = code.windows(6).zip(start..);
    places.filter_map(|(code, at)| {
        let (by, length) = match *code {
            [0x0f, 0x80..=0x8f, a, b, c, d] => ([a, b, c, d], 6),
            [0xe9, a, b, c, d, _] => ([a, b, c, d], 5),
            _ => return None,
        };
        let by = i32::from_le_bytes(by);
        Some(at.wrapping_add(length).wrapping_add_signed(by.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::UnwindIndex;
    use crate::memory::tests::Image;

    /// Of parts at 0x1000, 0x1100, 0x2000 and 0x3000, in memory at 0x4000.
    fn index() -> (u64, Vec<u8>) {
        let mut bytes = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 4, 0, 0, 0];
        for begin in [0x1000_i32, 0x1100, 0x2000, 0x3000] {
            bytes.extend((begin - 0x4000).to_le_bytes());
            bytes.extend([0; 4]);
        }
        (0x4000, bytes)
    }

    /// Code at 0x1000 that jumps to these places.
    fn jumping(targets: &[i32]) -> (u64, Vec<u8>) {
        let mut code = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            let (jump, length): (&[u8], i32) = match number % 2 {
                0 => (&[0xe9], 5),
                _ => (&[0x0f, 0x84], 6),
            };
            let end = 0x1000 + code.len() as i32 + length;
            code.extend(jump);
            code.extend((target - end).to_le_bytes());
        }
        code.resize(0x100, 0x90);
        (0x1000, code)
    }

    #[test]
    fn the_part_that_several_jumps_lead_into_is_of_the_same_function() {
        let cold = |targets: &[i32]| {
            let mut image = Image(vec![index(), jumping(targets)]);
            UnwindIndex(0x4000).cold_part(&(0x1000..0x1100), &mut image)
        };
        let elsewhere = [0x2000, 0x2010, 0x2020, 0x2030, 0x1010, 0x1100];
        assert_eq!(cold(&elsewhere), Some(0x2000..0x3000));
        // Functions that it ends with, and its own places.
        assert_eq!(cold(&[0x2000, 0x2000, 0x2000, 0x1100, 0x1010]), None);
        assert_eq!(cold(&[0x2010, 0x2020]), None);
        // Behind the last part nothing is known.
        assert_eq!(cold(&[0x3010, 0x3020, 0x3030]), None);
    }

    #[test]
    fn an_index_of_another_kind_tells_nothing() {
        let mut image = Image(vec![index(), jumping(&[0x2010, 0x2020, 0x2030])]);
        image.0[0].1[3] = 0x1b;
        let part = UnwindIndex(0x4000).cold_part(&(0x1000..0x1100), &mut image);
        assert_eq!(part, None);
    }
}
