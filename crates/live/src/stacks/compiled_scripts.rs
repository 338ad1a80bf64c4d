//! Compiled code of JavaScript that has no frame: where a function begins its caller
//! has put it into a register, and where it ends its frame is gone. There the code
//! around tells which function it is, by frames that were seen in it.

use prof_unwind::{is_straight, keeps_on_stack};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most places that are remembered of a process.
const MAX_PLACES: usize = 1 << 14;
/// Drains for which a place counts after it was seen: code is thrown away, and other
/// code comes where it was.
const LASTS: u64 = 256;
/// Most bytes from a place that was seen to the end of its function.
const NEAR: u64 = 1 << 14;

/// Places in compiled code.
#[derive(Debug, Default)]
pub(crate) struct CompiledScripts {
    /// Where frames with names were: the name, and the drain in which that was last.
    seen: BTreeMap<u64, (Arc<str>, u64)>,
    /// Of places without frames: the name, and the drain in which that was found.
    ends: FxHashMap<u64, (Option<Arc<str>>, u64)>,
    /// Of places without frames: whether the function's object goes from its register
    /// into the frame there, and the drain in which that was found.
    begins: FxHashMap<u64, (bool, u64)>,
}

impl CompiledScripts {
    /// In a drain a frame that returns to or was interrupted at a place had this name.
    pub(crate) fn saw(&mut self, at: u64, name: &str, drain: u64) {
        if self.seen.len() >= MAX_PLACES {
            self.seen.clear();
        }
        match self.seen.get_mut(&at) {
            Some((known, last)) if **known == *name => *last = drain,
            _ => {
                self.seen.insert(at, (name.into(), drain));
            }
        }
    }

    /// Whether the function that is in its register will be put into the frame that the
    /// code at a place makes.
    pub(crate) fn begins(
        &mut self,
        at: u64,
        drain: u64,
        read: impl FnMut(u64, &mut [u8]) -> usize,
    ) -> bool {
        if self.begins.len() >= MAX_PLACES {
            self.begins.clear();
        }
        let begins = self.begins.entry(at).or_insert((false, 0));
        if begins.1 == 0 || drain.saturating_sub(begins.1) > LASTS / 4 {
            *begins = (keeps_on_stack(at, read), drain.max(1));
        }
        begins.0
    }

    /// The name of the function whose code is at a place: the code goes on to there from
    /// a place where it was seen, and to none of another function.
    pub(crate) fn name(
        &mut self,
        at: u64,
        drain: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> usize,
    ) -> Option<&str> {
        if self.ends.len() >= MAX_PLACES {
            self.ends.clear();
        }
        let known = self.ends.get(&at);
        if known.is_none_or(|(_, found)| drain.saturating_sub(*found) > LASTS / 4) {
            let name = self.found(at, drain, &mut read);
            self.ends.insert(at, (name, drain));
        }
        self.ends.get(&at)?.0.as_deref()
    }

    fn found(
        &self,
        at: u64,
        drain: u64,
        read: &mut impl FnMut(u64, &mut [u8]) -> usize,
    ) -> Option<Arc<str>> {
        let is_new =
            |&(_, (_, last)): &(&u64, &(Arc<str>, u64))| drain.saturating_sub(*last) <= LASTS;
        let mut before = self.seen.range(at.saturating_sub(NEAR)..=at).rev();
        let (&from, (name, _)) = before.find(is_new)?;
        if !is_straight(from, at, &mut *read) {
            return None;
        }
        let mut behind = self.seen.range(at..at.saturating_add(NEAR));
        let other = behind.find(is_new).filter(|(_, (other, _))| other != name);
        let is_others = other.is_some_and(|(&to, _)| is_straight(at, to, &mut *read));
        (!is_others).then(|| Arc::clone(name))
    }
}

#[cfg(test)]
mod tests {
    use super::{CompiledScripts, LASTS};

    #[test]
    fn an_end_has_the_name_of_the_code_before_it_as_long_as_that_was_seen_lately() {
        // pop %rbp; ret; and at 16 another function.
        let mut code = [0x90; 32];
        code[6..8].copy_from_slice(&[0x5d, 0xc3]);
        code[8..16].fill(0xcc);
        let read = |at: u64, out: &mut [u8]| {
            let rest = code.get(at as usize..).unwrap_or_default();
            let len = rest.len().min(out.len());
            out[..len].copy_from_slice(&rest[..len]);
            len
        };
        let mut compiled = CompiledScripts::default();
        assert_eq!(compiled.name(7, 1, read), None);
        compiled.saw(2, "f", 1);
        compiled.saw(20, "g", 1);
        // What was not found is looked for again later.
        assert_eq!(compiled.name(7, 2, read), None);
        let later = 2 + LASTS / 2;
        assert_eq!(compiled.name(7, later, read), Some("f"));
        assert_eq!(compiled.name(22, later, read), Some("g"));
        // Nothing goes on over what stands between them.
        assert_eq!(compiled.name(17, later, read), None);
        let much_later = later + 2 * LASTS;
        assert_eq!(compiled.name(7, much_later, read), None);
        // Other code, of which two functions were seen without a gap.
        compiled.saw(2, "f", much_later);
        compiled.saw(5, "h", much_later);
        assert_eq!(compiled.name(4, much_later, read), None);
    }
}
