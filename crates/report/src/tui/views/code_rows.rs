//! The rows of a function's code, and the jumps beside them.

use crate::code::{Flow, FunctionView, Share};

/// A row of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// A source file begins: its index.
    File(usize),
    /// A source line: file, number, weight sampled at it in this run.
    Line(usize, u32, Share),
    /// A line of the source mode: index in the view's lines.
    Source(usize),
    /// Instruction: index in the view.
    Instruction(usize),
    /// Why there are no instructions.
    NoCode,
}

/// A jump that is drawn: rows of its ends and its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Jump {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) lane: usize,
}

impl Jump {
    pub(super) fn span(&self) -> (usize, usize) {
        (self.from.min(self.to), self.from.max(self.to))
    }
}

/// Lanes for jump arrows.
pub(super) const LANES: usize = 5;

/// Instructions, each run of one line under that line.
pub(super) fn mixed_rows(view: &FunctionView) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut shown: Option<(usize, u32)> = None;
    for (index, code) in view.instructions.iter().enumerate() {
        if let Some((file, line)) = code.line.filter(|_| code.line != shown) {
            if shown.is_none_or(|(before, _)| before != file) {
                rows.push(Row::File(file));
            }
            rows.push(Row::Line(file, line, run_share(view, index)));
        }
        shown = code.line.or(shown);
        rows.push(Row::Instruction(index));
    }
    rows
}

/// Weight of the instructions from `start` on that belong to its line.
fn run_share(view: &FunctionView, start: usize) -> Share {
    let rows = view.instructions.get(start..).unwrap_or_default();
    let line = rows.first().and_then(|row| row.line);
    let run = rows.iter().take_while(|row| row.line == line);
    run.fold(Share::default(), |sum, row| Share {
        here: sum.here.saturating_add(row.share.here),
        total: sum.total.saturating_add(row.share.total),
    })
}

/// Lines with weight, in the order of the file, with those between them.
pub(super) fn source_rows(view: &FunctionView) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut last: Option<(usize, u32)> = None;
    for (index, line) in view.lines.iter().enumerate() {
        if line.depth == 0 {
            match last {
                Some((file, number)) if file == line.file => {
                    // A screenful between two lines is not worth showing.
                    let gap = number + 1..line.line;
                    if gap.len() <= 40 {
                        rows.extend(gap.map(|number| Row::Line(file, number, Share::default())));
                    }
                }
                _ => rows.push(Row::File(line.file)),
            }
            last = Some((line.file, line.line));
        }
        rows.push(Row::Source(index));
    }
    rows
}

/// Jumps within the function with lanes such that no two in a lane overlap;
/// short ones are nearest to the code. Those that find no lane are left out.
pub(super) fn jumps(view: &FunctionView, rows: &[Row]) -> Vec<Jump> {
    let mut row_of = vec![None; view.instructions.len()];
    for (at, row) in rows.iter().enumerate() {
        if let Row::Instruction(index) = row
            && let Some(slot) = row_of.get_mut(*index)
        {
            *slot = Some(at);
        }
    }
    let place = |index: usize| row_of.get(index).copied().flatten();
    let mut wanted: Vec<Jump> = view
        .instructions
        .iter()
        .enumerate()
        .filter(|(_, row)| matches!(row.instruction.flow, Flow::Jump(_)))
        .filter_map(|(index, row)| {
            Some(Jump {
                from: place(index)?,
                to: place(row.target_row?)?,
                lane: 0,
            })
        })
        .collect();
    wanted.sort_by_key(|jump| jump.span().1 - jump.span().0);
    let mut lanes: [std::collections::BTreeMap<usize, usize>; LANES] = Default::default();
    let mut placed = Vec::new();
    for mut jump in wanted {
        let (first, last) = jump.span();
        let free = lanes.iter().position(|lane| {
            // The last span that begins at or before our end.
            lane.range(..=last)
                .next_back()
                .is_none_or(|(_, &end)| end < first)
        });
        if let Some(lane) = free {
            if let Some(spans) = lanes.get_mut(lane) {
                spans.insert(first, last);
            }
            jump.lane = lane;
            placed.push(jump);
        }
    }
    placed
}
