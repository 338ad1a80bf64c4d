//! The samples, one row each, kept as columns.

use crate::{Counted, Detail, PayloadId, Payloads, StackId, TaskId, Wait};
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
    /// The thread that ran.
    pub task: TaskId,
    /// Its call stack.
    pub stack: StackId,
    /// On which CPU; `None` if not recorded.
    pub cpu: Option<u32>,
    /// The event that was sampled.
    pub event: EventId,
    /// The wait that the sample stands for, if its event is of waits; see
    /// [`Samples::wait`]. Its time is the end of the wait.
    pub wait: Option<WaitId>,
}

/// Index of a [`Wait`]; see [`Samples::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(pub u32);

/// All samples in time order. 12 bytes a row; four more if they have several
/// periods, two if they are of more threads than 65 536, two if they are of
/// several events, and more for the few with numbers that large.
#[derive(Debug, Default, Clone)]
pub struct Samples {
    time: Times,
    /// `u32::MAX` for what is in `long_periods`. Of waits that others count it is
    /// their length.
    period: Column<u32>,
    task: TaskColumn,
    stack: Vec<StackId>,
    /// `NO_CPU` for none, `FAR_CPU` for what is in `far_cpus`.
    cpu: Vec<u16>,
    event: Column<EventId>,
    /// By row.
    long_periods: FxHashMap<usize, u64>,
    /// By row.
    far_cpus: FxHashMap<usize, u32>,
    /// By row; empty where nobody asked for it.
    details: Vec<Detail>,
    /// What their tracepoints told.
    payloads: Payloads,
    /// By row, a place in `wait_list`, `NO_WAIT` for none; shorter than the
    /// others where the rows behind are no waits.
    waits: Vec<u32>,
    /// Distinct ones.
    wait_list: Vec<Wait>,
    wait_places: FxHashMap<Wait, u32>,
}

const NO_WAIT: u32 = u32::MAX;

/// Times in ns. In order, their upper halves change every four seconds.
#[derive(Debug, Default, Clone)]
struct Times {
    lower: Vec<u32>,
    /// From which row on which upper half holds.
    upper: Vec<(usize, u32)>,
}

impl Times {
    fn push(&mut self, time: u64) {
        let upper = (time >> 32) as u32;
        if self.upper.last().is_none_or(|&(_, last)| last != upper) {
            self.upper.push((self.lower.len(), upper));
        }
        self.lower.push(time as u32);
    }

    fn get(&self, row: usize) -> Option<u64> {
        let lower = *self.lower.get(row)?;
        let behind = self.upper.partition_point(|&(first, _)| first <= row);
        let &(_, upper) = self.upper.get(behind.checked_sub(1)?)?;
        Some(u64::from(upper) << 32 | u64::from(lower))
    }

    /// All of them, each in constant time.
    fn iter(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        let mut changes = self.upper.iter().copied().peekable();
        let mut upper = 0;
        self.lower.iter().enumerate().map(move |(row, &lower)| {
            while let Some((_, next)) = changes.next_if(|&(first, _)| first <= row) {
                upper = u64::from(next) << 32;
            }
            upper | u64::from(lower)
        })
    }
}

/// Values by row; nothing as long as all are the same.
#[derive(Debug, Clone)]
struct Column<T> {
    first: Option<T>,
    /// All rows, once there are two values.
    list: Vec<T>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self {
            first: None,
            list: Vec::new(),
        }
    }
}

impl<T: Copy + PartialEq> Column<T> {
    /// Adds the value of `row`, the next one.
    fn push(&mut self, row: usize, value: T) {
        let first = *self.first.get_or_insert(value);
        if self.list.is_empty() {
            if value == first {
                return;
            }
            self.list = vec![first; row];
        }
        self.list.push(value);
    }

    /// For a row that is there.
    fn get(&self, row: usize) -> Option<T> {
        self.list.get(row).copied().or(self.first)
    }

    /// Replaces the value of `row`, of so many.
    fn set(&mut self, row: usize, value: T, rows: usize) {
        if self.get(row) == Some(value) {
            return;
        }
        if let (true, Some(first)) = (self.list.is_empty(), self.first) {
            self.list = vec![first; rows];
        }
        if let Some(place) = self.list.get_mut(row) {
            *place = value;
        }
    }
}

/// Tasks by row: in two bytes as long as their numbers are that small.
#[derive(Debug, Clone)]
enum TaskColumn {
    Short(Vec<u16>),
    Long(Vec<TaskId>),
}

impl Default for TaskColumn {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

impl TaskColumn {
    fn push(&mut self, task: TaskId) {
        match (&mut *self, u16::try_from(task.0)) {
            (Self::Short(list), Ok(short)) => list.push(short),
            (Self::Short(list), Err(_)) => {
                let mut long: Vec<TaskId> = list.iter().map(|&it| TaskId(it.into())).collect();
                long.push(task);
                *self = Self::Long(long);
            }
            (Self::Long(list), _) => list.push(task),
        }
    }

    fn get(&self, row: usize) -> Option<TaskId> {
        match self {
            Self::Short(list) => list.get(row).map(|&task| TaskId(task.into())),
            Self::Long(list) => list.get(row).copied(),
        }
    }
}

const NO_CPU: u16 = u16::MAX;
const FAR_CPU: u16 = u16::MAX - 1;

impl Samples {
    /// Puts another stack in the place of each.
    pub(crate) fn map_stacks(&mut self, mut other: impl FnMut(StackId) -> StackId) {
        for stack in &mut self.stack {
            *stack = other(*stack);
        }
    }

    /// Replaces the stack of one row.
    pub fn set_stack(&mut self, index: usize, other: StackId) {
        if let Some(stack) = self.stack.get_mut(index) {
            *stack = other;
        }
    }

    /// Keeps only the rows for which `keeps` is true; called in time order.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Sample) -> bool) {
        self.filter_map(|sample| keeps(sample).then_some(*sample));
    }

    /// Replaces each row by the result of `of`, or removes it; called in time
    /// order.
    pub fn filter_map(&mut self, mut of: impl FnMut(&Sample) -> Option<Sample>) {
        let mut kept = Self {
            wait_list: self.wait_list.clone(),
            wait_places: self.wait_places.clone(),
            payloads: std::mem::take(&mut self.payloads),
            ..Self::default()
        };
        for (row, sample) in self.iter().enumerate() {
            let Some(sample) = of(&sample) else {
                continue;
            };
            let last = kept.len();
            match self.detail(row) {
                Some(detail) => kept.push_with(sample, *detail),
                None => kept.push(sample),
            }
            if let Some(length) = self.length_apart(row) {
                kept.put_period(last, length);
            }
        }
        *self = kept;
    }

    /// Adds a row with its detail; either all rows have one or none.
    pub fn push_with(&mut self, sample: Sample, detail: Detail) {
        self.push(sample);
        self.details.push(detail);
    }

    /// The detail of row `index`, if the profile keeps details.
    pub fn detail(&self, index: usize) -> Option<&Detail> {
        self.details.get(index)
    }

    /// What the tracepoints of details told.
    pub fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    /// Gives rows what their tracepoints told: of each row the index of its payload, if
    /// it has one; none of the rows behind.
    pub fn tell(&mut self, payloads: Payloads, of_rows: &[Option<PayloadId>]) {
        self.payloads = payloads;
        for (detail, payload) in self.details.iter_mut().zip(of_rows) {
            detail.payload = *payload;
        }
    }

    /// Interns a wait: equal ones have the same handle.
    pub fn wait_id(&mut self, wait: Wait) -> WaitId {
        let list = &mut self.wait_list;
        let place = *self.wait_places.entry(wait).or_insert_with(|| {
            list.push(wait);
            u32::try_from(list.len() - 1).unwrap_or(NO_WAIT)
        });
        WaitId(place)
    }

    /// The wait of a handle.
    pub fn wait(&self, id: WaitId) -> Option<&Wait> {
        self.wait_list.get(id.0 as usize)
    }

    /// The wait of row `index`; `None` if the row is no wait.
    pub fn wait_at(&self, index: usize) -> Option<&Wait> {
        let place = *self.waits.get(index)?;
        self.wait(WaitId(place))
    }

    /// Sets the wait of row `index`.
    pub fn set_wait(&mut self, index: usize, wait: Wait) {
        if index < self.len() {
            let id = self.wait_id(wait);
            self.put_wait(index, id);
        }
    }

    fn put_wait(&mut self, index: usize, id: WaitId) {
        if self.waits.len() <= index {
            self.waits.resize(index + 1, NO_WAIT);
        }
        if let Some(row) = self.waits.get_mut(index) {
            *row = id.0;
        }
    }

    /// Length of the wait of row `index`, ns; `None` if the row is no wait.
    pub fn wait_length(&self, index: usize) -> Option<u64> {
        let wait = self.wait_at(index)?;
        Some(match self.length_apart(index) {
            Some(length) => length,
            None => wait.length(self.raw_period(index)?),
        })
    }

    /// Sets the length of the wait of row `index`, ns, for waits whose time is
    /// counted by others ([`crate::Counted::ByOthers`]).
    pub fn set_wait_length(&mut self, index: usize, length: u64) {
        let wait = self.wait_at(index);
        if wait.is_some_and(|wait| wait.counted == Counted::ByOthers) {
            self.put_period(index, length);
        }
    }

    /// The length of a wait that others count.
    fn length_apart(&self, index: usize) -> Option<u64> {
        let wait = self.wait_at(index)?;
        let is_apart = wait.counted == Counted::ByOthers;
        is_apart.then(|| self.raw_period(index)).flatten()
    }

    fn raw_period(&self, index: usize) -> Option<u64> {
        match self.period.get(index).filter(|_| index < self.len())? {
            u32::MAX => self.long_periods.get(&index).copied(),
            period => Some(period.into()),
        }
    }

    fn put_period(&mut self, row: usize, period: u64) {
        if row >= self.len() {
            return;
        }
        let (short, rows) = (self.short_period(row, period), self.len());
        self.period.set(row, short, rows);
    }

    /// What stands for the period of `row` in its column.
    fn short_period(&mut self, row: usize, period: u64) -> u32 {
        match u32::try_from(period) {
            Ok(short) if short != u32::MAX => short,
            _ => {
                self.long_periods.insert(row, period);
                u32::MAX
            }
        }
    }

    /// Whether any row is a wait.
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Whether row `index` is the first row of its sample: a sample with
    /// branches has one row for each of them.
    pub fn begins_sample(&self, index: usize) -> bool {
        let branch = self.detail(index).and_then(|detail| detail.branch);
        branch.is_none_or(|branch| branch.place == 0)
    }

    /// How many samples the rows come from.
    pub fn sampled(&self) -> usize {
        if self.details.is_empty() {
            return self.len();
        }
        (0..self.len())
            .filter(|&row| self.begins_sample(row))
            .count()
    }

    /// Adds a row.
    pub fn push(&mut self, sample: Sample) {
        let row = self.len();
        self.time.push(sample.time);
        let period = self.short_period(row, sample.period);
        self.period.push(row, period);
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
        self.event.push(row, sample.event);
        if let Some(id) = sample.wait {
            self.put_wait(row, id);
        }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.stack.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Row `index`.
    pub fn get(&self, index: usize) -> Option<Sample> {
        self.at(index, self.time.get(index)?)
    }

    /// Row `index`, whose time is known.
    fn at(&self, index: usize, time: u64) -> Option<Sample> {
        Some(Sample {
            time,
            period: match self.length_apart(index) {
                Some(_) => 0,
                None => self.raw_period(index)?,
            },
            task: self.task.get(index)?,
            stack: *self.stack.get(index)?,
            cpu: match *self.cpu.get(index)? {
                NO_CPU => None,
                FAR_CPU => self.far_cpus.get(&index).copied(),
                cpu => Some(cpu.into()),
            },
            event: self.event.get(index)?,
            wait: match self.waits.get(index) {
                None | Some(&NO_WAIT) => None,
                Some(&place) => Some(WaitId(place)),
            },
        })
    }

    /// All rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Sample> + '_ {
        self.times().enumerate().map(|(index, time)| {
            let row = self.at(index, time);
            row.expect("columns have one length")
        })
    }

    /// The times column, ns.
    pub fn times(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.time.iter()
    }

    /// The events column.
    pub fn events(&self) -> impl ExactSizeIterator<Item = EventId> + '_ {
        (0..self.len()).map(|row| self.event.get(row).expect("columns have one length"))
    }

    /// The stacks column.
    pub fn stacks(&self) -> &[StackId] {
        &self.stack
    }
}

#[cfg(test)]
mod tests {
    use super::{EventId, Sample, Samples};
    use crate::{Counted, StackId, TaskId, Wait};

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
                wait: None,
            })
            .collect();
        let mut samples = Samples::default();
        rows.iter().for_each(|&row| samples.push(row));
        assert!(samples.iter().eq(rows.iter().copied()));
        assert!(samples.times().eq(rows.iter().map(|row| row.time)));
        assert!((0..rows.len()).all(|row| samples.get(row) == rows.get(row).copied()));
        assert_eq!(samples.get(rows.len()), None);
    }

    #[test]
    fn equal_periods_and_few_threads_take_no_room_and_others_come_back() {
        let row = |row: u64, period, task| Sample {
            time: row,
            period,
            task: TaskId(task),
            stack: StackId(0),
            cpu: None,
            event: EventId(0),
            wait: None,
        };
        let mut rows: Vec<Sample> = (0..100).map(|at| row(at, 7, 0xffff)).collect();
        let mut samples = Samples::default();
        rows.iter().for_each(|&row| samples.push(row));
        assert!(samples.period.list.is_empty());
        assert!(matches!(samples.task, super::TaskColumn::Short(_)));
        assert!(samples.iter().eq(rows.iter().copied()));
        let others = [row(100, u64::MAX, 3), row(101, 8, 0x1_0000), row(102, 7, 4)];
        rows.extend(others);
        others.iter().for_each(|&row| samples.push(row));
        assert!(samples.iter().eq(rows.iter().copied()));
        assert!((0..rows.len()).all(|row| samples.get(row) == rows.get(row).copied()));
        assert_eq!(samples.get(rows.len()), None);
    }

    #[test]
    fn rows_may_be_waits_and_stay_so() {
        let mut samples = Samples::default();
        let row = |time| Sample {
            time,
            period: 1,
            task: TaskId(0),
            stack: StackId(0),
            cpu: None,
            event: EventId(0),
            wait: None,
        };
        (0..5).for_each(|time| samples.push(row(time)));
        let wait = |syscall| Wait {
            syscall: Some(syscall),
            ..Wait::default()
        };
        assert!(!samples.has_waits());
        samples.set_wait(1, wait(7));
        samples.set_wait(3, wait(8));
        samples.set_wait(9, wait(9));
        let syscall = |samples: &Samples, row| samples.wait_at(row).and_then(|wait| wait.syscall);
        let all = |samples: &Samples| -> Vec<_> {
            (0..samples.len())
                .map(|row| syscall(samples, row))
                .collect()
        };
        assert_eq!(all(&samples), [None, Some(7), None, Some(8), None]);
        samples.retain(|sample| sample.time > 1);
        assert_eq!(all(&samples), [None, Some(8), None]);
    }

    #[test]
    fn a_wait_that_others_count_has_no_period_and_keeps_its_length() {
        let mut samples = Samples::default();
        for (time, counted) in [
            (1, Counted::ByOthers),
            (2, Counted::ByItself),
            (3, Counted::ForOthers),
        ] {
            let wait = samples.wait_id(Wait {
                counted,
                ..Wait::default()
            });
            samples.push(Sample {
                time,
                period: if time == 1 { 0 } else { 10 * time },
                task: TaskId(0),
                stack: StackId(0),
                cpu: None,
                event: EventId(0),
                wait: Some(wait),
            });
            samples.set_wait_length(samples.len() - 1, 5_000_000_000);
        }
        let told = |samples: &Samples| -> Vec<_> {
            let rows = samples.iter().enumerate();
            rows.map(|(row, sample)| (sample.period, samples.wait_length(row)))
                .collect()
        };
        let expected = [(0, Some(5_000_000_000)), (20, Some(20)), (30, Some(0))];
        assert_eq!(told(&samples), expected);
        samples.retain(|sample| sample.time < 3);
        assert_eq!(told(&samples), expected[..2]);
    }

    #[test]
    fn rows_of_several_events_come_back() {
        let mut samples = Samples::default();
        assert_eq!(samples.get(0), None);
        let events = [7, 7, 0, 7, u16::MAX].map(EventId);
        for event in events {
            samples.push(Sample {
                time: 0,
                period: 1,
                task: TaskId(0),
                stack: StackId(0),
                cpu: None,
                event,
                wait: None,
            });
        }
        assert!(samples.events().eq(events));
        assert!(samples.iter().map(|row| row.event).eq(events));
        assert_eq!(samples.get(events.len()), None);
    }
}
