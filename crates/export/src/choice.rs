//! Which samples are exported, and in which order they are gone through.

use prof_profile::{EventId, Profile, Sample, StackId, TaskId};
use prof_report::model::TimeRange;

/// Which samples are exported; the default is all of them. Each list passes
/// all if empty.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Events.
    pub events: Vec<EventId>,
    /// Thread-group ids.
    pub pids: Vec<i32>,
    /// Thread ids.
    pub tids: Vec<i32>,
    /// Thread names.
    pub comms: Vec<String>,
    /// CPUs.
    pub cpus: Vec<u32>,
    /// Times.
    pub times: Vec<TimeRange>,
    /// Labels of the whole profile, names and values, for formats that can hold
    /// them: attributes of the resource in `otlp`.
    pub labels: Vec<(String, String)>,
    /// Whether `firefox` is plain JSON; else it is gzipped.
    pub is_plain: bool,
}

/// A profile and what was chosen of it.
pub(crate) struct Chosen<'p> {
    pub(crate) profile: &'p Profile,
    /// The events that are exported, in their order.
    pub(crate) events: Vec<EventId>,
    /// By `EventId`: the index in `events`.
    slots: Vec<Option<usize>>,
    /// By `TaskId`.
    takes_task: Vec<bool>,
    pub(crate) choice: Choice,
}

/// Samples of one stack, thread and event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) task: TaskId,
    /// Index in [`Chosen::events`].
    pub(crate) slot: usize,
    pub(crate) samples: u64,
    pub(crate) period: u64,
}

impl<'p> Chosen<'p> {
    pub(crate) fn new(profile: &'p Profile, choice: &Choice) -> Self {
        let is_chosen = |id: EventId| choice.events.is_empty() || choice.events.contains(&id);
        let mut has_samples = vec![false; profile.events.len()];
        for id in profile.samples.events() {
            if let Some(has) = has_samples.get_mut(usize::from(id.0)) {
                *has = true;
            }
        }
        let ids = (0..profile.events.len()).map(|index| EventId(index as u16));
        let events: Vec<EventId> = ids
            .filter(|&id| is_chosen(id) && has_samples.get(usize::from(id.0)) == Some(&true))
            .collect();
        let mut slots = vec![None; profile.events.len()];
        for (slot, id) in events.iter().enumerate() {
            if let Some(place) = slots.get_mut(usize::from(id.0)) {
                *place = Some(slot);
            }
        }
        let takes_task = profile.tasks.iter().map(|task| {
            (choice.pids.is_empty() || choice.pids.contains(&task.pid))
                && (choice.tids.is_empty() || choice.tids.contains(&task.tid))
                && (choice.comms.is_empty()
                    || choice.comms.iter().any(|it| it == profile.name(task.comm)))
        });
        Self {
            profile,
            events,
            slots,
            takes_task: takes_task.collect(),
            choice: choice.clone(),
        }
    }

    /// The index in `events` of a sample's event, if the sample was chosen.
    pub(crate) fn slot(&self, sample: &Sample) -> Option<usize> {
        let slot = *self.slots.get(usize::from(sample.event.0))?;
        let (times, cpus) = (&self.choice.times, &self.choice.cpus);
        let takes = self.takes_task.get(sample.task.0 as usize) == Some(&true)
            && (times.is_empty() || times.iter().any(|range| range.holds(sample.time)))
            && (cpus.is_empty() || sample.cpu.is_some_and(|cpu| cpus.contains(&cpu)));
        slot.filter(|_| takes)
    }

    /// Chosen samples in time order, with the indices of their rows and
    /// events.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, usize, Sample)> + '_ {
        let rows = self.profile.samples.iter().enumerate();
        rows.filter_map(|(row, sample)| Some((row as u32, self.slot(&sample)?, sample)))
    }

    /// Chosen samples as [`Chosen::rows`], those of one `key` as neighbours,
    /// still in time order; keys ascend and are below `keys`.
    pub(crate) fn sorted_by(&self, keys: usize, key: impl Fn(usize, &Sample) -> usize) -> Sorted {
        let mut ends = vec![0_u32; keys + 1];
        for (_, slot, sample) in self.rows() {
            if let Some(count) = ends.get_mut(key(slot, &sample) + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for count in &mut ends {
            sum += *count;
            *count = sum;
        }
        let mut rows = vec![0; sum as usize];
        for (row, slot, sample) in self.rows() {
            // The start of the key's rows moves until it is their end.
            let Some(next) = ends.get_mut(key(slot, &sample)) else {
                continue;
            };
            if let Some(place) = rows.get_mut(*next as usize) {
                *place = row;
            }
            *next += 1;
        }
        ends.truncate(keys);
        Sorted { rows, ends }
    }

    /// Calls `take` with each stack that was sampled, in the order of their
    /// ids, and its samples by thread and event.
    ///
    /// # Errors
    /// Those of `take`.
    pub(crate) fn by_stack<E>(
        &self,
        mut take: impl FnMut(StackId, &[Cell]) -> Result<(), E>,
    ) -> Result<(), E> {
        let stacks = self.profile.stacks.len();
        let sorted = self.sorted_by(stacks, |_, sample| sample.stack.0 as usize);
        let mut cells: Vec<Cell> = Vec::new();
        for (stack, rows) in sorted.groups() {
            cells.clear();
            cells.extend(rows.iter().filter_map(|&row| {
                let sample = self.profile.samples.get(row as usize)?;
                Some(Cell {
                    task: sample.task,
                    slot: self.slot(&sample)?,
                    samples: 1,
                    period: sample.period,
                })
            }));
            cells.sort_unstable_by_key(|cell| (cell.task, cell.slot));
            cells.dedup_by(|cell, kept| {
                let is_same = (cell.task, cell.slot) == (kept.task, kept.slot);
                if is_same {
                    kept.samples += cell.samples;
                    kept.period = kept.period.saturating_add(cell.period);
                }
                is_same
            });
            take(StackId(stack as u32), &cells)?;
        }
        Ok(())
    }

    /// The times of the first and the last chosen sample, ns.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        let first = self.rows().next()?.2.time;
        let last = self.rows().map(|(_, _, sample)| sample.time).max()?;
        Some((first.min(last), last))
    }

    /// Nanoseconds since 1970 of a time on the recording's clock, if the
    /// recording tells.
    pub(crate) fn wall_clock(&self, time: u64) -> Option<u64> {
        let (wall, clock) = self.profile.origin.wall_clock?;
        Some(wall.wrapping_add(time.wrapping_sub(clock)))
    }
}

/// Rows by a key; see [`Chosen::sorted_by`].
#[derive(Default)]
pub(crate) struct Sorted {
    rows: Vec<u32>,
    ends: Vec<u32>,
}

impl Sorted {
    /// Each key that has rows, and them.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (usize, &[u32])> {
        let mut start = 0;
        let groups = self.ends.iter().enumerate().map(move |(key, &end)| {
            let rows = self.rows.get(start as usize..end as usize);
            start = end;
            (key, rows.unwrap_or_default())
        });
        groups.filter(|(_, rows)| !rows.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Choice, Chosen};
    use prof_profile::{EventId, Sample, StackId, TaskId};
    use prof_sketch::Sketch;

    #[test]
    fn samples_of_one_stack_are_summed_by_thread() {
        let mut sketch = Sketch::new();
        let one = sketch.task(1, 1, "one");
        let two = sketch.task(1, 2, "two");
        let work = sketch.stack("main;work");
        let (main, _) = sketch.profile.stacks.get(work).expect("two frames");
        let rows = [
            (one, work, 10),
            (two, work, 20),
            (one, main, 30),
            (one, work, 40),
            (one, StackId::EMPTY, 50),
        ];
        for (time, (task, stack, period)) in (1..).zip(rows) {
            sketch.profile.samples.push(Sample {
                time,
                period,
                task,
                stack,
                cpu: None,
                event: EventId(0),
                wait: None,
            });
        }
        let chosen = Chosen::new(&sketch.profile, &Choice::default());
        let mut seen = Vec::new();
        let taken: Result<(), ()> = chosen.by_stack(|stack, cells| {
            let depth = sketch.profile.stacks.locations(stack).count();
            seen.extend(cells.iter().map(|&cell| (depth, cell)));
            Ok(())
        });
        assert_eq!(taken, Ok(()));
        let cell = |task, samples, period| Cell {
            task: TaskId(task),
            slot: 0,
            samples,
            period,
        };
        let expected = [
            (0, cell(0, 1, 50)),
            (1, cell(0, 1, 30)),
            (2, cell(0, 2, 50)),
            (2, cell(1, 1, 20)),
        ];
        seen.sort_by_key(|(depth, _)| *depth);
        assert_eq!(seen, expected);
        let choice = Choice {
            comms: vec!["two".into()],
            ..Choice::default()
        };
        let chosen = Chosen::new(&sketch.profile, &choice);
        assert_eq!(chosen.rows().count(), 1);
        assert_eq!(chosen.span(), Some((2, 2)));
    }
}
