//! What of the rings' records is of a process tree, and whether samples of its
//! tasks are enough to see it.

use crate::open::{OpenSet, RingSlot};
use crate::planned::samples_due;
use crate::tree::Tree;
use crate::witness::WitnessSamples;
use prof_abi::{ByteOrder, EventAttr, RecordType};
use std::time::{Duration, Instant};

/// So many tasks must have ended before anything is missed.
const MANY_TASKS: u64 = 16;
/// And so many samples be due, to tell what is missed from chance.
const MANY_SAMPLES: u64 = 80;
/// Where more than one in so many samples that are due is missing, tasks are
/// too short.
const MISSING: u64 = 10;
/// At low rates many samples take long. Of so few, a long task lacks one.
const FEW_SAMPLES: u64 = 5;
/// How long records may wait at first, until it is known whether they are.
const AT_FIRST: Duration = Duration::from_millis(10);
/// How long that is.
const FIRST: Duration = Duration::from_secs(1);
/// To read a descriptor takes about a microsecond, more where its task runs: so
/// much time at least lies between two readings for each of them.
const PAUSE: Duration = Duration::from_micros(200);

/// Takes what is of one tree.
#[derive(Debug)]
pub(crate) struct Filter<'a> {
    tree: Tree,
    set: &'a OpenSet,
    /// How far each ring was looked at for records of tasks.
    looked: Vec<u64>,
    began: Instant,
    watch: Option<Watch>,
}

impl<'a> Filter<'a> {
    /// For so many rings; samples of `witness` are not of the events.
    pub(crate) fn new(
        tree: Tree,
        set: &'a OpenSet,
        (rings, witness): (usize, WitnessSamples),
    ) -> Self {
        let attr = &set.events[0].planned.attr;
        let counting = u32::try_from(set.counting()).unwrap_or(u32::MAX);
        Self {
            tree,
            looked: vec![0; rings],
            began: Instant::now(),
            watch: (!set.samples_cpus()).then(|| Watch::new(attr, PAUSE * counting, witness)),
            set,
        }
    }

    /// Hands what is of the tree to `append`, ring by ring; `reach` is called
    /// before a ring is emptied.
    pub(crate) fn take(
        &mut self,
        rings: &mut [RingSlot],
        reach: &mut dyn FnMut(&RingSlot),
        append: &mut dyn FnMut(&[u8]),
    ) {
        match &mut self.watch {
            Some(watch) => {
                let tree = &mut self.tree;
                for slot in rings.iter_mut() {
                    reach(slot);
                    slot.ring.take_each(|record| {
                        watch.count(record);
                        tree.note(record);
                        append(record);
                    });
                }
                if watch.finds_too_few(Instant::now(), || self.set.time_of_tasks()) {
                    self.watch = None;
                    self.set.go_on_by_cpus();
                }
            }
            None => self.take_of_cpus(rings, reach, append),
        }
        self.tree.sweep();
    }

    fn take_of_cpus(
        &mut self,
        rings: &mut [RingSlot],
        reach: &mut dyn FnMut(&RingSlot),
        append: &mut dyn FnMut(&[u8]),
    ) {
        let Self {
            tree, set, looked, ..
        } = self;
        let shares = &set.shares;
        let ends: Vec<u64> = rings.iter().map(|slot| slot.ring.view().head()).collect();
        for (slot, looked) in rings.iter_mut().zip(looked) {
            *looked = slot.ring.look_at_each(*looked, |record| tree.note(record));
        }
        for (place, (slot, end)) in rings.iter_mut().zip(ends).enumerate() {
            reach(slot);
            let (mut kept, mut dropped) = (0, 0);
            // Whose thread ended here last: it runs on without a number.
            let mut ended = None;
            slot.ring
                .take_each_until(end, |record| match kind_of(record) {
                    RecordType::SAMPLE if tree.has(record) => {
                        kept += 1;
                        match tree.named(record, ended) {
                            Some(named) => append(&named),
                            None => append(record),
                        }
                    }
                    RecordType::SAMPLE => dropped += 1,
                    RecordType::LOST => {
                        shares.add(
                            place,
                            std::mem::take(&mut kept),
                            std::mem::take(&mut dropped),
                        );
                        if let Some(record) = shares.part_of_record(place, record) {
                            append(&record);
                        }
                    }
                    kind => {
                        if kind == RecordType::EXIT {
                            ended = task_of(record);
                        }
                        append(record);
                    }
                });
            shares.add(place, kept, dropped);
        }
    }

    /// How long records may wait, if there is a reason of ours.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let is_first = self.watch.is_some() && self.began.elapsed() < FIRST;
        is_first.then_some(AT_FIRST)
    }
}

/// Compares samples of tasks with the time for which these ran.
#[derive(Debug)]
struct Watch {
    attr: EventAttr,
    /// Whose samples do not count: there is one for each switch of the tasks.
    witness: WitnessSamples,
    /// Between two looks at the time.
    pause: Duration,
    last: Option<Instant>,
    /// Tasks that ended, samples and losses since the first of these.
    ended: u64,
    samples: u64,
    /// ns of tasks before.
    before: u64,
}

impl Watch {
    fn new(attr: &EventAttr, pause: Duration, witness: WitnessSamples) -> Self {
        Self {
            attr: attr.clone(),
            witness,
            pause,
            last: None,
            ended: 0,
            samples: 0,
            before: 0,
        }
    }

    fn count(&mut self, record: &[u8]) {
        match kind_of(record) {
            RecordType::SAMPLE => {
                let is_of_witness = self.witness.is(record.len(), record);
                self.samples += u64::from(!is_of_witness);
            }
            RecordType::EXIT => self.ended += 1,
            RecordType::LOST => {
                let lost = ByteOrder::NATIVE.u64(record, 16).unwrap_or(0);
                self.samples = self.samples.saturating_add(lost);
            }
            // What was throttled is no fault of short tasks.
            RecordType::THROTTLE => self.samples = self.samples.saturating_add(MANY_SAMPLES),
            _ => {}
        }
    }

    /// Whether far fewer samples came than were due; `time` says for how many
    /// ns tasks ran in all.
    fn finds_too_few(&mut self, now: Instant, time: impl FnOnce() -> u64) -> bool {
        let is_early = self.last.is_some_and(|last| now - last < self.pause);
        if self.ended < MANY_TASKS || is_early {
            return false;
        }
        self.last = Some(now);
        let time = time();
        let due = samples_due(&self.attr, time.saturating_sub(self.before)).unwrap_or(0);
        let missing = due.saturating_sub(self.samples);
        if due < MANY_SAMPLES {
            return due >= FEW_SAMPLES && missing > due / 2;
        }
        (self.ended, self.samples, self.before) = (0, 0, time);
        missing > due / MISSING
    }
}

fn kind_of(record: &[u8]) -> RecordType {
    RecordType(ByteOrder::NATIVE.u32(record, 0).unwrap_or(0))
}

/// Process and thread of an `EXIT`.
fn task_of(record: &[u8]) -> Option<(u32, u32)> {
    let order = ByteOrder::NATIVE;
    Some((order.u32(record, 8)?, order.u32(record, 16)?))
}

#[cfg(test)]
mod tests {
    use super::{MANY_SAMPLES, MANY_TASKS, Watch};
    use crate::tally::tests::record;
    use crate::witness::WitnessSamples;
    use prof_abi::{AttrFlags, EventAttr};
    use prof_perfdata::write::EventDescription;
    use std::time::{Duration, Instant};

    /// The id of the event that tells how threads leave.
    const WITNESS: u64 = 7;

    /// A watch of 1000 Hz that saw so many ended tasks and samples.
    fn watch(ended: u64, samples: u64) -> Watch {
        let attr = EventAttr {
            kind: 1,
            sample_period: 1000,
            flags: AttrFlags::FREQ,
            ..EventAttr::default()
        };
        let opened = EventDescription {
            attr: attr.clone(),
            ids: vec![0],
            name: String::new(),
        };
        let witness = WitnessSamples::new(&EventAttr::default(), vec![WITNESS], &[opened]);
        let mut watch = Watch::new(&attr, Duration::ZERO, witness);
        (0..ended).for_each(|_| watch.count(&record(4, &[0])));
        (0..samples).for_each(|_| watch.count(&record(9, &[0])));
        watch
    }

    #[test]
    fn tasks_are_too_short_where_a_tenth_of_the_samples_is_missing() {
        let now = Instant::now();
        let ns = 1_000_000_000;
        let finds = |ended, samples, ns| watch(ended, samples).finds_too_few(now, || ns);
        assert!(finds(MANY_TASKS, 800, ns));
        assert!(!finds(MANY_TASKS, 950, ns));
        assert!(!finds(MANY_TASKS - 1, 0, ns), "few tasks");
        // Of few samples more must be missing.
        let few = (MANY_SAMPLES - 1) * 1_000_000;
        assert!(finds(MANY_TASKS, 39, few) && !finds(MANY_TASKS, 40, few));
        assert!(!finds(MANY_TASKS, 0, 4_000_000));
        // What was lost was no fault of theirs.
        let mut lossy = watch(MANY_TASKS, 800);
        lossy.count(&record(2, &[1, 190]));
        assert!(!lossy.finds_too_few(now, || ns));
        // Nor do samples of how threads leave stand for time.
        let mut witnessed = watch(MANY_TASKS, 800);
        (0..200).for_each(|_| witnessed.count(&record(9, &[WITNESS])));
        assert!(witnessed.finds_too_few(now, || ns));
    }

    #[test]
    fn each_look_judges_what_came_since_the_last() {
        let now = Instant::now();
        let mut watch = watch(MANY_TASKS, 1000);
        assert!(!watch.finds_too_few(now, || 1_000_000_000));
        (0..MANY_TASKS).for_each(|_| watch.count(&record(4, &[0])));
        assert!(watch.finds_too_few(now, || 1_200_000_000));
    }
}
