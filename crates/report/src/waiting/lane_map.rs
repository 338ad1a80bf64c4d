//! Lanes of threads, in slices of time as wide as a column.

use super::lanes::{Doing, Lane, Lanes, Span};

/// A slice of a lane, as it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The state the thread was in for most of the slice.
    pub doing: Doing,
    /// Index in the lane of the longest span of that state within the slice.
    pub span: u32,
    /// How many spans overlap the slice.
    pub spans: u32,
}

/// Lanes divided into slices of equal length.
#[derive(Debug)]
pub struct LaneMap {
    /// The lanes.
    pub lanes: Lanes,
    /// Length of a slice, ns; at least 1.
    pub slice: u64,
    /// By lane and slice; `None` where the thread did not live.
    cells: Vec<Vec<Option<Cell>>>,
}

impl LaneMap {
    /// Divides the recording's time into this many slices.
    pub fn new(lanes: Lanes, slices: usize) -> Self {
        let slices = slices.max(1);
        let (first, last) = lanes.time;
        let slice = (last.saturating_sub(first) / slices as u64).saturating_add(1);
        Self::with_slices(lanes, slice, slices)
    }

    /// Divides the recording's time into slices of this length, ns.
    pub fn with_slices(lanes: Lanes, slice: u64, slices: usize) -> Self {
        let (slice, first) = (slice.max(1), lanes.time.0);
        let cells = lanes.list.iter();
        let cells = cells.map(|lane| cut(lane, (first, slice), slices));
        Self {
            cells: cells.collect(),
            slice,
            lanes,
        }
    }

    /// The start of a slice, ns.
    pub fn begin_of(&self, slice: usize) -> u64 {
        let since = self.slice.saturating_mul(slice as u64);
        self.lanes.time.0.saturating_add(since)
    }

    /// The slices of a lane.
    pub fn row(&self, lane: usize) -> &[Option<Cell>] {
        self.cells.get(lane).map_or(&[], Vec::as_slice)
    }

    /// The span that is drawn for a slice of a lane, and how many others
    /// overlap it.
    pub fn at(&self, lane: usize, slice: usize) -> Option<(&Lane, Span, u32)> {
        let cell = (*self.row(lane).get(slice)?)?;
        let lane = self.lanes.list.get(lane)?;
        Some((lane, *lane.spans.get(cell.span as usize)?, cell.spans - 1))
    }

    /// All states that occur in any lane, in order.
    pub fn doings(&self) -> Vec<Doing> {
        let cells = self.cells.iter().flatten().flatten();
        let mut list: Vec<Doing> = cells.map(|cell| cell.doing).collect();
        list.sort_unstable();
        list.dedup();
        list
    }
}

/// What is added up for one thing that a thread does in a slice.
struct SliceSum {
    doing: Doing,
    ns: u64,
    /// The longest part of a span and its place.
    longest: (u64, u32),
}

fn cut(lane: &Lane, (first, length): (u64, u64), slices: usize) -> Vec<Option<Cell>> {
    let mut cells = vec![None; slices];
    let mut parts: Vec<SliceSum> = Vec::new();
    let mut next = 0;
    for (slice, cell) in cells.iter_mut().enumerate() {
        let begin = first.saturating_add(length.saturating_mul(slice as u64));
        let end = begin.saturating_add(length);
        parts.clear();
        let mut spans = 0;
        let behind = lane.spans.get(next..).unwrap_or_default();
        for (at, span) in (next..).zip(behind) {
            if span.begin >= end {
                break;
            }
            let ns = span.end.min(end).saturating_sub(span.begin.max(begin));
            if ns > 0 {
                spans += 1;
                add(&mut parts, span.doing, (ns, at as u32));
            }
            // The last one goes on in the next slice.
            next = if span.end <= end { at + 1 } else { at };
        }
        let most = parts.iter().max_by_key(|part| (part.ns, part.doing));
        *cell = most.map(|part| Cell {
            doing: part.doing,
            span: part.longest.1,
            spans,
        });
    }
    cells
}

fn add(parts: &mut Vec<SliceSum>, doing: Doing, longest: (u64, u32)) {
    match parts.iter_mut().find(|part| part.doing == doing) {
        Some(part) => {
            part.ns += longest.0;
            if longest.0 > part.longest.0 {
                part.longest = longest;
            }
        }
        None => parts.push(SliceSum {
            doing,
            ns: longest.0,
            longest,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::LaneMap;
    use crate::waiting::lanes::{Doing, Lane, Lanes, Span};
    use prof_profile::{TaskId, WaitKind};

    #[test]
    fn a_slice_shows_what_the_thread_did_most_of_it() {
        let futex = Doing::Blocked(WaitKind::Futex);
        let span = |begin, end, doing| Span {
            begin,
            end,
            doing,
            row: None,
        };
        let lane = Lane {
            task: TaskId(0),
            pid: 1,
            tid: 1,
            spans: vec![
                span(100, 104, Doing::Running),
                span(104, 107, futex),
                span(107, 109, Doing::Running),
                span(109, 112, futex),
                span(112, 130, Doing::Runnable),
            ],
        };
        let lanes = Lanes {
            list: vec![lane],
            time: (100, 139),
            ..Lanes::default()
        };
        let map = LaneMap::new(lanes, 4);
        assert_eq!(map.slice, 10);
        let doing: Vec<_> = map
            .row(0)
            .iter()
            .map(|cell| cell.map(|it| (it.doing, it.span, it.spans)))
            .collect();
        let expected = [
            Some((Doing::Running, 0, 4)),
            Some((Doing::Runnable, 4, 2)),
            Some((Doing::Runnable, 4, 1)),
            None,
        ];
        assert_eq!(doing, expected);
        assert_eq!(map.doings(), [Doing::Running, Doing::Runnable]);
    }
}
