//! The rows of a function's code, and the jumps beside them.

use prof_report::code::{Flow, FunctionView, Share};

/// A row of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeLine {
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
    /// Why there are no source lines.
    NoLines,
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

/// Whether the text of a line is there.
fn has_text(view: &FunctionView, (file, line): (usize, u32)) -> bool {
    view.files.get(file).is_some_and(|file| file.has_line(line))
}

/// Instructions, each run of one line under that line, if its text is there:
/// [`absent_line`] tells of the others.
pub(super) fn mixed_rows(view: &FunctionView) -> Vec<CodeLine> {
    let mut rows = Vec::new();
    let mut shown: Option<(usize, u32)> = None;
    let mut headed: Option<usize> = None;
    for (index, code) in view.instructions.iter().enumerate() {
        let begun = code.line.filter(|_| code.line != shown);
        if let Some((file, line)) = begun.filter(|&place| has_text(view, place)) {
            if headed != Some(file) {
                rows.push(CodeLine::File(file));
                headed = Some(file);
            }
            rows.push(CodeLine::Line(file, line, run_share(view, index)));
        }
        shown = code.line.or(shown);
        rows.push(CodeLine::Instruction(index));
    }
    rows
}

/// The line that an instruction begins, if it has no row of its own since its
/// text is not there.
pub(super) fn absent_line(view: &FunctionView, index: usize) -> Option<(usize, u32)> {
    let place = view.instructions.get(index)?.line?;
    let before = index
        .checked_sub(1)
        .and_then(|at| view.instructions.get(at));
    let is_begun = before.and_then(|row| row.line) != Some(place);
    (is_begun && !has_text(view, place)).then_some(place)
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
pub(super) fn source_rows(view: &FunctionView) -> Vec<CodeLine> {
    let mut rows = Vec::new();
    let mut last: Option<(usize, u32)> = None;
    for (index, line) in view.lines.iter().enumerate() {
        if line.depth == 0 {
            match last {
                Some((file, number)) if file == line.file => {
                    // A screenful between two lines is not worth showing.
                    let gap = number + 1..line.line;
                    if gap.len() <= 40 && has_text(view, (file, number)) {
                        rows.extend(
                            gap.map(|number| CodeLine::Line(file, number, Share::default())),
                        );
                    }
                }
                _ => rows.push(CodeLine::File(line.file)),
            }
            last = Some((line.file, line.line));
        }
        rows.push(CodeLine::Source(index));
    }
    rows
}

/// Jumps within the function with lanes such that no two in a lane overlap;
/// short ones are nearest to the code. Those that find no lane are left out.
pub(super) fn jumps(view: &FunctionView, rows: &[CodeLine]) -> Vec<Jump> {
    let mut row_of = vec![None; view.instructions.len()];
    for (at, row) in rows.iter().enumerate() {
        if let CodeLine::Instruction(index) = row
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

/// The weight at a row, if it is one of code.
pub(super) fn share(view: &FunctionView, row: CodeLine) -> Option<Share> {
    match row {
        CodeLine::Instruction(index) => view.instructions.get(index).map(|row| row.share),
        CodeLine::Source(index) => view.lines.get(index).map(|row| row.share),
        CodeLine::Line(_, _, share) => Some(share),
        CodeLine::File(_) | CodeLine::NoCode | CodeLine::NoLines => None,
    }
}

/// What of a share the view is about: what the function has itself or, where it has
/// nothing, with what it calls. A function that waits does so in the kernel, so that
/// its lines have nothing of their own.
pub(super) fn weight(view: &FunctionView, share: Share) -> u64 {
    match has_own(view) {
        true => share.here,
        false => share.total,
    }
}

/// Whether samples were taken in the function itself.
pub(super) fn has_own(view: &FunctionView) -> bool {
    view.share.here > 0
}

/// What a row says, without figures.
pub(super) fn words(view: &FunctionView, row: CodeLine) -> String {
    let line = |file: usize, line: u32| {
        view.files
            .get(file)
            .map_or("", |file| file.line(line))
            .to_string()
    };
    match row {
        CodeLine::File(file) => view
            .files
            .get(file)
            .map_or(String::new(), |file| file.path.to_string()),
        CodeLine::Line(file, number, _) => line(file, number),
        CodeLine::Source(index) => view
            .lines
            .get(index)
            .map_or(String::new(), |row| line(row.file, row.line)),
        CodeLine::Instruction(index) => {
            view.instructions
                .get(index)
                .map_or(String::new(), |row| match &row.target_name {
                    Some(name) => format!("{} <{name}>", row.instruction.text),
                    None => row.instruction.text.clone(),
                })
        }
        CodeLine::NoCode => view.no_code.clone().unwrap_or_default(),
        CodeLine::NoLines => {
            let has_lines = view.instructions.iter().any(|row| row.line.is_some());
            let why = match has_lines {
                true => "no source line of it has samples (s: instructions)",
                false => "its source lines are not known (prof report --missing says why)",
            };
            why.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CodeLine, absent_line, mixed_rows, source_rows};
    use prof_profile::{FunctionId, Svma};
    use prof_report::code::{
        CodeRow, Flow, FunctionView, Instruction, Share, SourceFile, SourceRow,
    };
    use std::sync::Arc;

    /// Instructions of these lines; of the two files only the first is here,
    /// with two lines.
    fn view(lines: &[Option<(usize, u32)>]) -> FunctionView {
        let share = Share { here: 1, total: 1 };
        let file = |path: &str, text: Option<Vec<String>>| SourceFile {
            path: Arc::from(path),
            is_newer: false,
            text,
        };
        let instructions = lines.iter().zip(0..).map(|(&line, address)| CodeRow {
            instruction: Instruction {
                address: Svma(address),
                len: 1,
                text: "nop".into(),
                flow: Flow::Next,
                data: None,
            },
            share,
            target_name: None,
            data_name: None,
            target_row: None,
            line,
        });
        let rows = lines.iter().flatten().map(|&(file, line)| SourceRow {
            file,
            line,
            share,
            depth: 0,
            inlined: None,
        });
        FunctionView {
            function: FunctionId(0),
            host: None,
            all: 9,
            share,
            code: Vec::new(),
            instructions: instructions.collect(),
            lines: rows.collect(),
            files: vec![
                file("/src/here.c", Some(vec!["one".into(), "two".into()])),
                file("/src/gone.c", None),
            ],
            no_code: None,
            other_build: Share::default(),
        }
    }

    #[test]
    fn lines_whose_text_is_not_here_take_no_row() {
        let lines = [
            Some((0, 1)),
            Some((1, 7)),
            Some((1, 7)),
            None,
            Some((0, 2)),
            Some((0, 3)),
        ];
        let view = view(&lines);
        let share = Share { here: 1, total: 1 };
        let rows = [
            CodeLine::File(0),
            CodeLine::Line(0, 1, share),
            CodeLine::Instruction(0),
            CodeLine::Instruction(1),
            CodeLine::Instruction(2),
            CodeLine::Instruction(3),
            CodeLine::Line(0, 2, share),
            CodeLine::Instruction(4),
            // The file has only two lines.
            CodeLine::Instruction(5),
        ];
        assert_eq!(mixed_rows(&view), rows);
        let absent = [None, Some((1, 7)), None, None, None, Some((0, 3))];
        let told: Vec<_> = (0..lines.len()).map(|at| absent_line(&view, at)).collect();
        assert_eq!(told, absent);
    }

    #[test]
    fn only_lines_with_text_are_shown_between_those_with_weight() {
        let rows = source_rows(&view(&[Some((1, 7)), Some((1, 9))]));
        assert_eq!(
            rows,
            [CodeLine::File(1), CodeLine::Source(0), CodeLine::Source(1)]
        );
    }
}
