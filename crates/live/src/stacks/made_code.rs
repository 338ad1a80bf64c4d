//! Code that was made at run time, as the process has it.
//!
//! It is read when a sample is unwound, which is later than the sample: the
//! process may have ended meanwhile. What was read before counts then. Within
//! a drain a page is read once: all samples of the drain are older than that.

use super::Beyond;
use prof_profile::Avma;

/// Bytes of the smallest page.
const PAGE: u64 = 4096;
/// Pages that are remembered, 2 MiB; a power of two.
const REMEMBERED: usize = 512;

/// Drains for which a page is remembered that no sample needed: those of an ended
/// process serve its last samples, and nobody afterwards.
const UNUSED_FOR: u64 = 32;

/// A page of a process's memory.
#[derive(Debug)]
struct Page {
    pid: i32,
    number: u64,
    /// The drain in which it was read, and the last in which it was of use.
    drain: u64,
    used: u64,
    bytes: Box<[u8; PAGE as usize]>,
}

/// Pages of code of all processes.
#[derive(Debug, Default)]
pub(crate) struct MadeCode {
    /// By a hash of process and page; empty until the first is read.
    pages: Vec<Option<Page>>,
    drain: u64,
}

impl MadeCode {
    /// The samples that follow were drained together, after the ones before.
    pub(crate) fn begin_drain(&mut self) {
        self.drain += 1;
        let drain = self.drain;
        if drain.is_multiple_of(UNUSED_FOR) {
            for slot in &mut self.pages {
                // Of processes that ended before their last samples, too.
                slot.take_if(|page| page.used.saturating_add(UNUSED_FOR) < drain);
            }
        }
    }

    /// A process has ended, and its samples were unwound.
    pub(crate) fn forget(&mut self, pid: i32) {
        for slot in &mut self.pages {
            if slot.as_ref().is_some_and(|page| page.pid == pid) {
                *slot = None;
            }
        }
    }

    /// Copies code of a process; how many bytes.
    pub(super) fn read(
        &mut self,
        (pid, at): (i32, Avma),
        out: &mut [u8],
        beyond: &mut impl Beyond,
    ) -> usize {
        let mut copied = 0;
        while let Some(rest) = out.get_mut(copied..).filter(|rest| !rest.is_empty()) {
            let Some(from) = at.0.checked_add(copied as u64) else {
                break;
            };
            let Some(page) = self.page((pid, from / PAGE), beyond) else {
                break;
            };
            let there = page.get((from % PAGE) as usize..).unwrap_or_default();
            let len = there.len().min(rest.len());
            for (to, from) in rest.iter_mut().zip(there) {
                *to = *from;
            }
            copied += len;
        }
        copied
    }

    /// A page as it is now, or was last.
    fn page(
        &mut self,
        (pid, number): (i32, u64),
        beyond: &mut impl Beyond,
    ) -> Option<&[u8; PAGE as usize]> {
        let key = number ^ u64::from(pid.cast_unsigned()).wrapping_mul(0x9e37_79b9);
        let slot = key as usize % REMEMBERED;
        let known = self.pages.get(slot).and_then(Option::as_ref);
        let known = known.filter(|page| (page.pid, page.number) == (pid, number));
        if known.is_none_or(|page| page.drain != self.drain) {
            let mut bytes = [0; PAGE as usize];
            let at = Avma(number * PAGE);
            if beyond.code(at, &mut bytes) == bytes.len() {
                self.pages.resize_with(REMEMBERED, || None);
                *self.pages.get_mut(slot)? = Some(Page {
                    pid,
                    number,
                    drain: self.drain,
                    used: self.drain,
                    bytes: Box::new(bytes),
                });
            } else {
                known?;
            }
        }
        let page = self.pages.get_mut(slot)?.as_mut()?;
        page.used = self.drain;
        Some(&page.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{MadeCode, PAGE, UNUSED_FOR};
    use crate::stacks::Beyond;
    use prof_profile::Avma;

    /// A process with two pages of one byte each, and how often it was read.
    struct Target {
        content: Option<u8>,
        reads: usize,
    }

    impl Beyond for Target {
        fn word(&mut self, _: u64, _: u8) -> Option<u64> {
            None
        }

        fn code(&mut self, at: Avma, out: &mut [u8]) -> usize {
            self.reads += 1;
            match self.content {
                Some(content) if at.0 < 2 * PAGE => out.fill(content),
                _ => return 0,
            }
            out.len()
        }
    }

    #[test]
    fn code_of_a_process_that_is_gone_is_what_it_was() {
        const NOTHING: [u8; 0] = [];
        let mut code = MadeCode::default();
        let mut target = Target {
            content: Some(7),
            reads: 0,
        };
        let read = |code: &mut MadeCode, target: &mut Target, at: u64, len: usize| {
            let mut out = vec![0; len];
            let got = code.read((1, Avma(at)), &mut out, target);
            out.truncate(got);
            out
        };
        // Over the edge of a page, and to the end of what there is.
        assert_eq!(read(&mut code, &mut target, PAGE - 2, 4), [7; 4]);
        assert_eq!(read(&mut code, &mut target, 2 * PAGE - 3, 9), [7; 3]);
        assert_eq!(read(&mut code, &mut target, 2 * PAGE, 9), NOTHING);
        assert_eq!(target.reads, 4, "a page once in a drain");
        // What has changed is seen in the next drain.
        target.content = Some(8);
        assert_eq!(read(&mut code, &mut target, 0, 1), [7]);
        code.begin_drain();
        assert_eq!(read(&mut code, &mut target, 0, 1), [8]);
        target.content = None;
        code.begin_drain();
        assert_eq!(read(&mut code, &mut target, PAGE - 1, 2), [8, 7]);
        // Another process, and one of the same number later.
        assert_eq!(code.read((2, Avma(0)), &mut [0], &mut target), 0);
        code.forget(1);
        assert_eq!(read(&mut code, &mut target, 0, 1), NOTHING);
    }

    #[test]
    fn code_that_is_of_no_use_any_more_is_forgotten() {
        let mut code = MadeCode::default();
        let mut target = Target {
            content: Some(7),
            reads: 0,
        };
        let read = |code: &mut MadeCode, target: &mut Target, at: u64| {
            code.read((1, Avma(at)), &mut [0], target)
        };
        for at in [0, PAGE] {
            assert_eq!(read(&mut code, &mut target, at), 1);
        }
        target.content = None;
        for _ in 0..3 * UNUSED_FOR {
            code.begin_drain();
            assert_eq!(read(&mut code, &mut target, 0), 1);
        }
        assert_eq!(read(&mut code, &mut target, PAGE), 0);
        assert_eq!(code.pages.iter().flatten().count(), 1);
    }
}
