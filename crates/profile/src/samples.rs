//! The samples, one row each, kept as columns.

use crate::{StackId, TaskId};
use rustc_hash::FxHashMap;

/// Index of an event in `Profile::events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u16);

/// One sample, as a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Time in ns on the recording's clock; 0 if not recorded.
    pub time: u64,
    /// Events it stands for.
    pub period: u64,
    /// Who ran.
    pub task: TaskId,
    /// Where.
    pub stack: StackId,
    /// On which CPU; `None` if not recorded.
    pub cpu: Option<u32>,
    /// What was sampled.
    pub event: EventId,
}

/// All samples in time order. 24 bytes a row, and more for the few with
/// numbers that large.
#[derive(Debug, Default, Clone)]
pub struct Samples {
    time: Vec<u64>,
    /// `u32::MAX` for what is in `long_periods`.
    period: Vec<u32>,
    task: Vec<TaskId>,
    stack: Vec<StackId>,
    /// `NO_CPU` for none, `FAR_CPU` for what is in `far_cpus`.
    cpu: Vec<u16>,
    event: Vec<EventId>,
    /// By row.
    long_periods: FxHashMap<usize, u64>,
    /// By row.
    far_cpus: FxHashMap<usize, u32>,
}

const NO_CPU: u16 = u16::MAX;
const FAR_CPU: u16 = u16::MAX - 1;

impl Samples {
    /// Adds a row.
    pub fn push(&mut self, sample: Sample) {
        let row = self.len();
        self.time.push(sample.time);
        self.period.push(match u32::try_from(sample.period) {
            Ok(period) if period != u32::MAX => period,
            _ => {
                self.long_periods.insert(row, sample.period);
                u32::MAX
            }
        });
        self.task.push(sample.task);
        self.stack.push(sample.stack);
        self.cpu.push(match sample.cpu {
            None => NO_CPU,
            Some(cpu) => match u16::try_from(cpu) {
                Ok(cpu) if cpu < FAR_CPU => cpu,
                _ => {
                    self.far_cpus.insert(row, cpu);
                    FAR_CPU
                }
            },
        });
        self.event.push(sample.event);
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Row `index`.
    pub fn get(&self, index: usize) -> Option<Sample> {
        Some(Sample {
            time: *self.time.get(index)?,
            period: match *self.period.get(index)? {
                u32::MAX => *self.long_periods.get(&index)?,
                period => period.into(),
            },
            task: *self.task.get(index)?,
            stack: *self.stack.get(index)?,
            cpu: match *self.cpu.get(index)? {
                NO_CPU => None,
                FAR_CPU => self.far_cpus.get(&index).copied(),
                cpu => Some(cpu.into()),
            },
            event: *self.event.get(index)?,
        })
    }

    /// All rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Sample> + '_ {
        (0..self.len()).map(|index| self.get(index).expect("columns have one length"))
    }

    /// The times column, ns.
    pub fn times(&self) -> &[u64] {
        &self.time
    }

    /// The events column.
    pub fn events(&self) -> &[EventId] {
        &self.event
    }

    /// The stacks column.
    pub fn stacks(&self) -> &[StackId] {
        &self.stack
    }
}

#[cfg(test)]
mod tests {
    use super::{EventId, Sample, Samples};
    use crate::{StackId, TaskId};

    #[test]
    fn rows_come_back_whatever_their_size() {
        let edges = [
            0,
            1,
            0xfffd,
            0xfffe,
            0xffff,
            0x1_0000,
            u32::MAX - 1,
            u32::MAX,
        ];
        let periods = edges.map(u64::from).into_iter().chain([1 << 32, u64::MAX]);
        let cpus = || [None].into_iter().chain(edges.map(Some));
        let rows: Vec<Sample> = periods
            .flat_map(|period| cpus().map(move |cpu| (period, cpu)))
            .map(|(period, cpu)| Sample {
                time: u64::MAX - period,
                period,
                task: TaskId(3),
                stack: StackId(4),
                cpu,
                event: EventId(5),
            })
            .collect();
        let mut samples = Samples::default();
        rows.iter().for_each(|&row| samples.push(row));
        assert!(samples.iter().eq(rows));
    }
}
