//! The samples, one row each, kept as columns.

use crate::{StackId, TaskId};

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

/// All samples in time order. 30 bytes a row.
#[derive(Debug, Default, Clone)]
pub struct Samples {
    time: Vec<u64>,
    period: Vec<u64>,
    task: Vec<TaskId>,
    stack: Vec<StackId>,
    /// `u32::MAX` for none.
    cpu: Vec<u32>,
    event: Vec<EventId>,
}

impl Samples {
    /// Adds a row.
    pub fn push(&mut self, sample: Sample) {
        self.time.push(sample.time);
        self.period.push(sample.period);
        self.task.push(sample.task);
        self.stack.push(sample.stack);
        self.cpu.push(sample.cpu.unwrap_or(u32::MAX));
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
            period: *self.period.get(index)?,
            task: *self.task.get(index)?,
            stack: *self.stack.get(index)?,
            cpu: self.cpu.get(index).copied().filter(|&cpu| cpu != u32::MAX),
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
