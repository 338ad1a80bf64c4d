//! Which memory should be read with the samples of which threads.

use crate::memory::WantedMemory;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Drains for which a thread's stack counts as deep after it was.
const WANTED: u64 = 64;
/// A sample whose outer frames could not be proved counts like so many that
/// could, at first; twice as much each time it turns out that it was needed.
const NEED: u32 = 64;
const MOST_NEED: u32 = 1 << 12;
/// The balance at which memory is wanted, and its most.
const NEEDED: u32 = 4 * NEED;
const MOST_NEEDED: u32 = 1 << 15;
/// A sample for which some memory was not enough counts like so many for which it
/// was; at more than this balance a part will not do.
const FELL_SHORT: u32 = 32;
const MOST_SHORT: u32 = 64;
/// Drains for which a part of a thread's memory is not tried again, at first, and the
/// most: twice as many each time that it was not enough again.
const WHOLE: u64 = 64;
const LONGEST_WHOLE: u64 = 1024;
/// Drains for which the stacks of new threads are wanted after one turned out to be
/// deep.
const NEW: u64 = 256;
/// The same after a thread or a program began, or the recording: by then it runs. All
/// samples wake readers meanwhile, which of steady programs is for nothing.
const BEGUN: u64 = 32;
/// So many may begin in that time. Where more do, they are short, and so are their
/// stacks: to read each would cost more of their time than they have.
const MOST_BEGUN: u32 = 32;

/// Memory beyond the copied pieces, by thread.
#[derive(Debug)]
pub(super) struct Wanted {
    threads: FxHashMap<i32, Of>,
    /// What is needed of threads besides their stacks.
    also: FxHashMap<i32, Also>,
    /// Until this drain the stacks of new threads are wanted.
    new_until: u64,
    begun: Begun,
}

/// Threads and programs that began lately.
#[derive(Debug)]
struct Begun {
    /// They are counted from this drain on, for [`BEGUN`] drains.
    since: u64,
    count: u32,
    /// Until this drain the stacks of new threads are wanted for their sake.
    until: u64,
}

/// Memory besides the stack that tells what a thread runs.
#[derive(Debug, Default)]
struct Also {
    memory: WantedMemory,
    until: u64,
}

/// That of one thread.
#[derive(Debug)]
struct Of {
    ranges: Vec<Range<u64>>,
    /// What of it would do: an empty part if none is needed.
    part: Option<Range<u64>>,
    /// How much more often than else some memory was not enough, and until which
    /// drain a part will not do therefore.
    short: u32,
    whole_until: u64,
    /// For how many drains that will be the next time.
    whole_for: u64,
    /// The last drain for which that is of interest.
    until: u64,
    need: Need,
}

impl Default for Wanted {
    /// At the start of a recording every thread is new.
    fn default() -> Self {
        Self {
            threads: FxHashMap::default(),
            also: FxHashMap::default(),
            new_until: 0,
            begun: Begun {
                since: 0,
                count: 0,
                until: BEGUN,
            },
        }
    }
}

impl Wanted {
    /// In drain `now` a chain went through these ranges beyond its copied
    /// piece, up to the thread's start or not: then what was known of where
    /// the stack begins stays, if it is as much.
    pub(super) fn note(&mut self, tid: i32, ranges: &[Range<u64>], is_whole: bool, now: u64) {
        let of = self.threads.entry(tid).or_insert(Of {
            ranges: Vec::new(),
            part: None,
            short: 0,
            whole_until: 0,
            whole_for: WHOLE,
            until: 0,
            need: Need::NONE,
        });
        if is_whole || of.ranges.len() < ranges.len() {
            of.ranges.clear();
            of.ranges.extend_from_slice(ranges);
        }
        of.until = now + WANTED;
        of.need.count(is_whole);
    }

    /// In drain `now` a chain went beyond its copied piece, and needed memory that
    /// was read with its sample: what comes first of a thread tells of new ones.
    pub(super) fn first(&mut self, (tid, now): (i32, u64), was_needed: bool) {
        if was_needed && !self.threads.contains_key(&tid) {
            self.new_until = now + NEW;
        }
    }

    /// In drain `now` a thread or a program began.
    pub(super) fn begins(&mut self, now: u64) {
        let begun = &mut self.begun;
        if now >= begun.since + BEGUN {
            // Where many did so before, many will.
            let were_many = begun.count > MOST_BEGUN && now < begun.since + 2 * BEGUN;
            begun.count = if were_many { MOST_BEGUN } else { 0 };
            begun.since = now;
        }
        begun.count = begun.count.saturating_add(1);
        begun.until = match begun.count > MOST_BEGUN {
            true => now,
            false => begun.until.max(now + BEGUN),
        };
    }

    /// Whether the stacks of threads that are new should be read in drain `now`.
    pub(super) fn are_new_wanted(&self, now: u64) -> bool {
        now < self.new_until || now < self.begun.until
    }

    /// Of what was noted of a thread in drain `now`, this part would do, if one is
    /// given.
    pub(super) fn part(&mut self, (tid, now): (i32, u64), part: Option<Range<u64>>) {
        if let Some(of) = self.threads.get_mut(&tid) {
            of.part = part.filter(|part| part.is_empty() || of.whole_until <= now);
        }
    }

    /// In drain `now` a sample of a thread came with such memory, and that was
    /// enough or not.
    pub(super) fn had_some(&mut self, (tid, now): (i32, u64), was_enough: bool) {
        let Some(of) = self.threads.get_mut(&tid) else {
            return;
        };
        of.short = match was_enough {
            true => of.short.saturating_sub(1),
            false => of.short + FELL_SHORT,
        };
        if of.short > MOST_SHORT {
            (of.short, of.whole_until) = (0, now + of.whole_for);
            of.whole_for = LONGEST_WHOLE.min(2 * of.whole_for);
        }
    }

    /// Whether it was said in this drain already what else is of use of a
    /// thread.
    pub(super) fn knows_also(&self, (tid, now): (i32, u64)) -> bool {
        let also = self.also.get(&tid);
        also.is_some_and(|also| also.until == now + WANTED)
    }

    /// From a drain on, this memory of a thread is of use besides its stack.
    pub(super) fn also(&mut self, (tid, now): (i32, u64), memory: WantedMemory) {
        let also = self.also.entry(tid).or_default();
        also.memory = memory;
        also.until = now + WANTED;
    }

    /// What is to be read from drain `now` on.
    pub(super) fn now(&mut self, now: u64) -> impl Iterator<Item = (i32, WantedMemory)> {
        self.threads.retain(|_, of| of.until >= now);
        self.also.retain(|_, also| also.until >= now);
        let is_wanted = |of: &Of| of.need.is_pressing && of.part != Some(0..0);
        let pressing = self.threads.iter().filter(|(_, of)| is_wanted(of));
        let mut wanted: FxHashMap<i32, WantedMemory> = pressing
            .map(|(&tid, of)| {
                let ranges = match &of.part {
                    // The first range is that of the whole stack.
                    Some(part) => [0..0, part.clone()].into(),
                    None => of.ranges.clone(),
                };
                let of_stack = WantedMemory {
                    ranges,
                    ..WantedMemory::default()
                };
                (tid, of_stack)
            })
            .collect();
        for (&tid, also) in &self.also {
            // The first range is that of the stack.
            let all = wanted.entry(tid).or_default();
            if all.ranges.is_empty() {
                all.ranges.push(0..0);
            }
            all.ranges.extend(also.memory.ranges.iter().cloned());
            (all.pointed, all.list) = (also.memory.pointed, also.memory.list);
        }
        wanted.into_iter()
    }

    /// The thread ended, or runs another program.
    pub(super) fn forget(&mut self, tid: i32) {
        self.threads.remove(&tid);
        self.also.remove(&tid);
    }
}

/// Whether a thread's chains are incomplete so often that its memory is to be
/// read with its samples: that delays the thread.
#[derive(Debug, Clone, Copy)]
struct Need {
    balance: u32,
    weight: u32,
    is_pressing: bool,
}

impl Need {
    /// Of a new thread. Of what is known of it nothing is old, so the first chain
    /// that is incomplete will not be the last: of a program that runs for half a
    /// second the next ones are half of all that are.
    const NONE: Self = Self {
        balance: NEEDED - NEED / 2,
        weight: NEED / 2,
        is_pressing: false,
    };

    /// A sample went beyond the copied piece: to the thread's start or not.
    fn count(&mut self, is_whole: bool) {
        if is_whole {
            self.balance = self.balance.saturating_sub(1);
            self.is_pressing &= self.balance > 0;
            return;
        }
        self.balance = (self.balance + self.weight).min(MOST_NEEDED);
        if self.balance >= NEEDED && !self.is_pressing {
            self.is_pressing = true;
            self.weight = (2 * self.weight).min(MOST_NEED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BEGUN, MOST_BEGUN, MOST_NEED, NEED, NEEDED, NEW, Need, WHOLE, Wanted};
    use std::ops::Range;

    #[test]
    fn memory_is_wanted_where_chains_stay_incomplete() {
        // The first that is incomplete may be one of many.
        let mut need = Need::NONE;
        need.count(false);
        assert!(need.is_pressing);
        let mut more = 0;
        while need.is_pressing {
            need.count(true);
            more += 1;
        }
        assert!((NEED..=NEEDED).contains(&more), "{more}");
        // One of 100: not worth it.
        for sample in 0..10_000 {
            need.count(sample % 100 != 0);
            assert!(!need.is_pressing);
        }
        // Again and again: each time for longer.
        let mut lasted = Vec::new();
        for _ in 0..4 {
            while !need.is_pressing {
                need.count(false);
            }
            let mut whole = 0;
            while need.is_pressing {
                need.count(true);
                whole += 1;
            }
            lasted.push(whole);
        }
        assert!(lasted.is_sorted() && lasted[0] >= NEED, "{lasted:?}");
        assert!(need.weight <= MOST_NEED);
    }

    /// What is read of thread 7 in a drain.
    fn read(wanted: &mut Wanted, now: u64) -> Vec<std::ops::Range<u64>> {
        let all: Vec<_> = wanted.now(now).collect();
        all.into_iter().flat_map(|(_, it)| it.ranges).collect()
    }

    #[test]
    fn a_part_is_read_where_that_is_enough() {
        let mut wanted = Wanted::default();
        let (whole, part) = (0x1000..0x9000, 0x8000..0x8010);
        let mut sample = |now: u64, is_whole: bool, has_part: bool| {
            wanted.note(7, std::slice::from_ref(&whole), is_whole, now);
            wanted.had_some((7, now), is_whole);
            wanted.part((7, now), has_part.then(|| part.clone()));
            read(&mut wanted, now)
        };
        for now in 0..4 {
            sample(now, false, false);
        }
        assert_eq!(sample(5, true, false), std::slice::from_ref(&whole));
        let mut now = 6 + WHOLE;
        assert_eq!(sample(now, true, true), [0..0, part.clone()]);
        // One of a hundred falls short.
        for _ in 0..300 {
            now += 1;
            let read = sample(now, !now.is_multiple_of(100), true);
            assert_eq!(read, [0..0, part.clone()]);
        }
        // One of ten.
        let until = now + 40;
        while now < until {
            now += 1;
            sample(now, !now.is_multiple_of(10), true);
        }
        assert_eq!(sample(now + 1, true, true), std::slice::from_ref(&whole));
        // For longer than the first time.
        let longer = now + WHOLE + WHOLE / 2;
        assert_eq!(sample(longer, true, true), std::slice::from_ref(&whole));
        assert_eq!(sample(now + 2 + 2 * WHOLE, true, true), [0..0, part]);
    }

    #[test]
    fn one_new_thread_with_a_deep_stack_tells_of_the_next() {
        let mut wanted = Wanted::default();
        let whole = 0x1000..0x9000;
        let mut sample = |tid: i32, now: u64, was_needed: bool| {
            wanted.first((tid, now), was_needed);
            wanted.note(tid, std::slice::from_ref(&whole), !was_needed, now);
            (wanted.are_new_wanted(now), wanted.are_new_wanted(now + NEW))
        };
        let start = BEGUN;
        assert_eq!(sample(7, start, false), (false, false));
        // Later samples of it tell nothing.
        assert_eq!(sample(7, start + 1, true), (false, false));
        assert_eq!(sample(8, start + 2, true), (true, false));
        assert_eq!(sample(8, start + 2 + NEW, true), (false, false));
    }

    #[test]
    fn where_many_begin_their_stacks_are_not_read() {
        let mut wanted = Wanted::default();
        // Each window of drains has that many.
        let mut begin = |from: u64, many: u32| {
            (0..many).for_each(|number| {
                wanted.begins(from + u64::from(number) * BEGUN / u64::from(many));
            });
            wanted.are_new_wanted(from + BEGUN - 1)
        };
        assert!(begin(1000, MOST_BEGUN));
        assert!(!begin(2000, MOST_BEGUN + 1));
        assert!(!begin(2000 + BEGUN, MOST_BEGUN), "right behind it");
        assert!(begin(3000, MOST_BEGUN), "later again");
    }

    #[test]
    fn what_begins_is_looked_at_from_its_first_sample_on() {
        let mut wanted = Wanted::default();
        assert!(
            wanted.are_new_wanted(1),
            "all threads of a recording are new"
        );
        assert!(!wanted.are_new_wanted(BEGUN));
        wanted.begins(1000);
        assert!(wanted.are_new_wanted(1000 + BEGUN - 1) && !wanted.are_new_wanted(1000 + BEGUN));
        // That one was deep counts for longer.
        wanted.first((7, 1001), true);
        wanted.begins(1002);
        assert!(wanted.are_new_wanted(1000 + NEW));
    }

    #[test]
    fn nothing_is_read_where_nothing_is_needed() {
        let mut wanted = Wanted::default();
        let whole = 0x1000..0x9000;
        let mut sample = |now: u64, is_whole: bool, part: Option<Range<u64>>| {
            wanted.note(7, std::slice::from_ref(&whole), is_whole, now);
            wanted.part((7, now), part);
            read(&mut wanted, now)
        };
        assert_eq!(sample(1, false, None), std::slice::from_ref(&whole));
        assert_eq!(sample(2, true, Some(0..0)), []);
        assert_eq!(sample(3, true, None), std::slice::from_ref(&whole));
    }
}
