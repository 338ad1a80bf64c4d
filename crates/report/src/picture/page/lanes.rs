//! Lanes of threads in a page: see `format.md`.

use super::columns::Columns;
use super::slices::Slices;
use crate::waiting::{Cell, Doing, Lane, LaneMap, Lanes};
use prof_profile::{Profile, TaskId};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// What a page tells of lanes beside their columns.
#[derive(Debug, Serialize)]
pub(super) struct LanesHeader {
    /// What threads do, by number, in words.
    doings: Vec<&'static str>,
    /// Waits shorter than this were not recorded.
    at_least: Option<String>,
    list: Vec<LaneHeader>,
}

#[derive(Debug, Serialize)]
struct LaneHeader {
    #[serde(skip)]
    task: TaskId,
    /// Number of the thread, where it has one.
    thread: Option<u32>,
    tid: i32,
    name: String,
    /// How many runs of slices.
    runs: usize,
    /// How long it did what, by number, ns: the sum is its life.
    sums: Vec<(usize, u64)>,
}

/// Slices one behind the other that one span stands for.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// `None`: the thread did not live.
    cell: Option<Cell>,
    /// How many.
    slices: u64,
    /// So many slices behind the last of them is the end of the span.
    behind: u64,
}

impl LanesHeader {
    /// Writes the columns of lanes.
    pub(super) fn write(lanes: Lanes, slices: Slices, columns: &mut Columns) -> Self {
        let count = usize::try_from(slices.slices).unwrap_or(1);
        let map = LaneMap::with_slices(lanes, slices.slice, count);
        let list = || map.lanes.list.iter();
        let mut doings: Vec<Doing> = list()
            .flat_map(Lane::sums)
            .map(|(doing, _)| doing)
            .collect();
        doings.sort_unstable();
        doings.dedup();
        let number = |doing: Doing| doings.binary_search(&doing).unwrap_or(0);
        let mut all: Vec<Run> = Vec::new();
        let mut headers = Vec::new();
        for (index, lane) in list().enumerate() {
            let first = all.len();
            add_runs(&mut all, (lane, map.row(index)), slices);
            let sums = lane
                .sums()
                .into_iter()
                .map(|(doing, ns)| (number(doing), ns));
            headers.push(LaneHeader {
                task: lane.task,
                thread: None,
                tid: lane.tid,
                name: String::new(),
                runs: all.len() - first,
                sums: sums.collect(),
            });
        }
        let doing = |run: &Run| run.cell.map_or(0, |cell| number(cell.doing) as u64 + 1);
        columns.numbers("lane_doing", all.iter().map(doing));
        columns.numbers("lane_slices", all.iter().map(|run| run.slices));
        columns.numbers("lane_behind", all.iter().map(|run| run.behind));
        Self {
            doings: doings.into_iter().map(Doing::text).collect(),
            at_least: map.lanes.at_least,
            list: headers,
        }
    }

    /// With the names of threads and the numbers that the page has for them.
    pub(super) fn numbered(mut self, profile: &Profile, numbers: &FxHashMap<TaskId, u32>) -> Self {
        for lane in &mut self.list {
            let name = profile.name(profile.task(lane.task).comm);
            lane.thread = numbers.get(&lane.task).copied();
            name.clone_into(&mut lane.name);
        }
        self
    }
}

/// Adds the runs of a lane.
fn add_runs(all: &mut Vec<Run>, (lane, cells): (&Lane, &[Option<Cell>]), slices: Slices) {
    let first = all.len();
    for (slice, &cell) in (0_u64..).zip(cells) {
        let span = |cell: Option<Cell>| cell.map(|cell| cell.span);
        let last = all.len().checked_sub(1).filter(|&last| last >= first);
        let last = last.and_then(|last| all.get_mut(last));
        if let Some(run) = last.filter(|run| span(run.cell) == span(cell)) {
            run.slices += 1;
            run.behind = run.behind.saturating_sub(1);
            continue;
        }
        let end = span(cell).and_then(|span| lane.spans.get(span as usize));
        let end = end.map_or(slice, |span| slices.at(span.end));
        all.push(Run {
            cell,
            slices: 1,
            behind: end.saturating_sub(slice),
        });
    }
}
