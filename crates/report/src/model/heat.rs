//! Samples over time.

use super::{Scene, Weight};
use prof_profile::TaskId;
use rustc_hash::FxHashMap;

/// What the rows of a heat map are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeatRows {
    /// One row for all.
    #[default]
    All,
    /// One for each thread (tid), heaviest first.
    Thread,
    /// One for each process, heaviest first.
    Process,
    /// One for each CPU, by number.
    Cpu,
}

/// Who a row of a heat map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeatRow {
    /// Thread, process or CPU number; 0 for the row of all.
    pub number: i64,
    /// A task of the row, which gives its name.
    pub task: Option<TaskId>,
    /// Weight of the row.
    pub total: Weight,
    /// The part of it inside the scene's time ranges.
    pub shown: Weight,
}

/// Weights by row and time slice.
#[derive(Debug, Clone, Default)]
pub struct Heat {
    /// Time of the first slice's start, ns.
    pub start: u64,
    /// Length of a slice, ns; at least 1.
    pub slice: u64,
    /// The rows.
    pub rows: Vec<HeatRow>,
    /// For each row as many weights as there are slices.
    pub cells: Vec<Vec<Weight>>,
}

impl Heat {
    /// Counts the samples of a scene in `slices` equal slices of the whole
    /// recording's time. The scene's filters apply, its time ranges do not, so
    /// that a selected range can be seen against the rest.
    pub fn new(scene: &Scene<'_>, rows: HeatRows, slices: usize) -> Self {
        let profile = scene.profile();
        let times = || profile.samples.times();
        let first = times().filter(|&time| time > 0).min();
        let last = times().max();
        let (Some(first), Some(last)) = (first, last) else {
            return Self::default();
        };
        let slices = slices.max(1);
        let slice = ((last - first) / slices as u64).saturating_add(1);
        let mut heat = Self {
            start: first,
            slice,
            rows: Vec::new(),
            cells: Vec::new(),
        };
        let shown = scene.shown_cells();
        let mut index: FxHashMap<i64, usize> = FxHashMap::default();
        for sample in profile.samples.iter() {
            if sample.event != scene.selection().event
                || !shown.contains(sample.task, sample.cpu, sample.stack)
            {
                continue;
            }
            let task = profile.task(sample.task);
            let number = match rows {
                HeatRows::All => 0,
                HeatRows::Thread => i64::from(task.tid),
                HeatRows::Process => i64::from(task.pid),
                HeatRows::Cpu => sample.cpu.map_or(-1, i64::from),
            };
            let row = *index.entry(number).or_insert_with(|| {
                heat.rows.push(HeatRow {
                    number,
                    task: None,
                    total: Weight::ZERO,
                    shown: Weight::ZERO,
                });
                heat.cells.push(vec![Weight::ZERO; slices]);
                heat.rows.len() - 1
            });
            heat.add(row, sample.task, sample.time, sample.period);
            if scene.selection().scope.holds_time(sample.time)
                && let Some(row) = heat.rows.get_mut(row)
            {
                row.shown += Weight {
                    period: sample.period,
                    samples: 1,
                };
            }
        }
        heat.sort(rows);
        heat
    }

    fn add(&mut self, row: usize, task: TaskId, time: u64, period: u64) {
        let weight = Weight { period, samples: 1 };
        if let Some(row) = self.rows.get_mut(row) {
            row.task = Some(task);
            row.total += weight;
        }
        let slice = (time.saturating_sub(self.start) / self.slice.max(1)) as usize;
        let cell = self
            .cells
            .get_mut(row)
            .and_then(|cells| cells.get_mut(slice));
        if let Some(cell) = cell {
            *cell += weight;
        }
    }

    fn sort(&mut self, rows: HeatRows) {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let row = |index: &usize| self.rows.get(*index);
        if rows == HeatRows::Cpu {
            order.sort_by_key(|index| row(index).map(|row| row.number));
        } else {
            order.sort_by_key(|index| {
                row(index).map(|row| (std::cmp::Reverse(row.total), row.number))
            });
        }
        self.cells = order
            .iter()
            .filter_map(|&index| self.cells.get_mut(index).map(std::mem::take))
            .collect();
        self.rows = order
            .iter()
            .filter_map(|&index| self.rows.get(index).copied())
            .collect();
    }

    /// The largest weight of a cell, for scaling colours.
    pub fn peak(&self) -> Weight {
        self.cells
            .iter()
            .flatten()
            .copied()
            .max()
            .unwrap_or_default()
    }
}
