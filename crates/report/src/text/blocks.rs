//! The blocks of code between taken branches by their cycles, as
//! `perf report --total-cycles`.
//!
//! A branch stack tells, for each branch, the cycles since the one before: the
//! cost of the code from where that one went to where this one is. As perf,
//! the longest block that was seen is kept for each branch instruction:
//!
//! ```text
//! # Sampled Cycles%  Sampled Cycles  Avg Cycles%  Avg Cycles  [Program Block Range]  Shared Object
//! # ...............  ..............  ...........  ..........  .....................  .............
//! #
//!            61.32%            4.2K       19.05%          12    [main.c:12 -> main.c:31]       app
//! ```

use super::TextOptions;
use super::group;
use super::padding::{pad, push_right};
use super::report::preamble;
use super::table::{Table, is_silent, scene_of};
use crate::code::{CodeSource, LineAt};
use crate::escape;
use crate::keys::{host, write_line};
use crate::model::{Selection, percent_of, rows_in_scope};
use prof_profile::{DsoId, EventId, Function, FunctionId, LocationId, Profile, Svma, TakenBranch};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

/// Headings and widths of the columns, characters.
const COLUMNS: [(&str, usize); 6] = [
    ("Sampled Cycles%", 15),
    ("Sampled Cycles", 14),
    ("Avg Cycles%", 11),
    ("Avg Cycles", 10),
    ("[Program Block Range]", 70),
    ("Shared Object", 20),
];

/// Writes the basic blocks of all events of a profile of branches. Sort keys
/// and columns of the options are not used; `code` gives the lines at which
/// functions begin.
///
/// # Errors
/// If `out` cannot be written to.
pub fn blocks(
    profile: &Profile,
    options: &TextOptions,
    code: &dyn CodeSource,
    out: &mut impl io::Write,
) -> io::Result<()> {
    // The limit is for blocks, not for the rows that they are found by.
    let of_rows = TextOptions {
        percent_limit: 0.0,
        ..options.clone()
    };
    let mut text = if options.quiet {
        String::new()
    } else {
        preamble(profile, options)
    };
    let events: Vec<EventId> = group::tables(profile, options.grouping)
        .into_iter()
        .filter_map(|events| events.first().copied())
        .filter(|&event| !is_silent(profile, event))
        .collect();
    let cycles = Cycles::of(profile, &options.selection, &events);
    for &event in &events {
        let (scene, has_chains) = scene_of(profile, &of_rows, event);
        let table = Table::new(&scene, &of_rows, has_chains);
        if !options.quiet {
            table.counts(&mut text);
            head(options.separator.as_deref(), &mut text);
        }
        for block in cycles.blocks(profile, &table) {
            if percent_of(block.longest_cycles, cycles.all) >= options.percent_limit {
                block.write(profile, options, code, &mut text);
            }
        }
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    Ok(())
}

fn head(separator: Option<&str>, out: &mut String) {
    let between = separator.unwrap_or("  ");
    let cells: Vec<String> = COLUMNS
        .iter()
        .map(|&(heading, width)| {
            let mut cell = String::new();
            push_right(heading, width, &mut cell);
            cell
        })
        .collect();
    let _ = writeln!(out, "# {}", cells.join(between));
    if separator.is_none() {
        let dots: Vec<String> = COLUMNS
            .iter()
            .map(|&(_, width)| ".".repeat(width))
            .collect();
        let _ = writeln!(out, "# {}\n#", dots.join("  "));
    }
}

/// A function as branches tell it: its file, and where it starts there.
type Host = (DsoId, Svma);

/// What was seen of the code that ends with one branch instruction.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Branches that tell cycles, and the sum.
    count: u64,
    cycles: u64,
    /// The same of the longest block alone.
    longest_count: u64,
    longest_cycles: u64,
    /// Where the longest block begins: bytes from the function's start, and
    /// the place; `None` where the branch before came from another function.
    start: Option<(u64, LocationId)>,
    /// A place of the branch instruction.
    end: Option<LocationId>,
}

impl Seen {
    fn add(&mut self, start: Option<(u64, LocationId)>, end: LocationId, cycles: u64) {
        self.count += 1;
        self.cycles = self.cycles.saturating_add(cycles);
        self.end.get_or_insert(end);
        let offset = |start: Option<(u64, LocationId)>| start.map(|(offset, _)| offset);
        match (offset(start), offset(self.start)) {
            (None, Some(_)) => return,
            (Some(new), Some(old)) if self.longest_count > 0 && old < new => return,
            (Some(new), old) if self.longest_count > 0 && old.is_none_or(|old| old > new) => {
                (self.longest_count, self.longest_cycles) = (0, 0);
            }
            _ => {}
        }
        self.start = start;
        self.longest_count += 1;
        self.longest_cycles = self.longest_cycles.saturating_add(cycles);
    }
}

/// The cycles of a profile's branches.
struct Cycles {
    /// Of all branches.
    all: u64,
    /// By function, by bytes from its start to the branch instruction.
    seen: FxHashMap<Host, BTreeMap<u64, Seen>>,
}

impl Cycles {
    fn of(profile: &Profile, selection: &Selection, events: &[EventId]) -> Self {
        let mut cycles = Self {
            all: 0,
            seen: FxHashMap::default(),
        };
        for &event in events {
            let selection = Selection {
                event,
                ..selection.clone()
            };
            let mut stack: Vec<TakenBranch> = Vec::new();
            for row in rows_in_scope(profile, &selection) {
                let detail = profile.samples.detail(row);
                let Some(branch) = detail.and_then(|detail| detail.branch) else {
                    continue;
                };
                if stack.last().is_some_and(|last| branch.place <= last.place) {
                    cycles.add(profile, &stack);
                    stack.clear();
                }
                stack.push(branch);
            }
            cycles.add(profile, &stack);
        }
        cycles
    }

    /// Counts the branches of one sample, newest first.
    fn add(&mut self, profile: &Profile, stack: &[TakenBranch]) {
        // As perf, which looks at the newest one.
        if stack.first().is_none_or(|branch| branch.cycles == 0) {
            return;
        }
        let mut before: Option<LocationId> = None;
        for branch in stack.iter().rev() {
            let cycles = u64::from(branch.cycles);
            self.all = self.all.saturating_add(cycles);
            if cycles > 0
                && let Some((host, offset)) = place_of(profile, branch.from)
            {
                let start = before
                    .and_then(|place| Some((place_of(profile, place)?, place)))
                    .filter(|&((of, start), _)| of == host && start < offset)
                    .map(|((_, start), place)| (start, place));
                let seen = self.seen.entry(host).or_default();
                seen.entry(offset)
                    .or_default()
                    .add(start, branch.from, cycles);
            }
            before = Some(branch.to);
        }
    }

    /// The blocks of functions that branches of the table's rows led to, in
    /// order. What perf takes for the sum of averages counts a function for
    /// each row that leads to it.
    fn blocks(&self, profile: &Profile, table: &Table<'_>) -> Vec<Block> {
        let mut rows_of: FxHashMap<Host, (FunctionId, u64)> = FxHashMap::default();
        for row in table.rows() {
            let detail = profile.samples.detail(row.first as usize);
            let to = detail.and_then(|detail| detail.branch).map(|it| it.to);
            let function = to.and_then(|to| profile.frames_at(to).last());
            if let (Some(frame), Some((host, _))) =
                (function, to.and_then(|to| place_of(profile, to)))
            {
                rows_of.entry(host).or_insert((frame.function, 0)).1 += 1;
            }
        }
        let mut all_averages = 0_u64;
        let mut blocks = Vec::new();
        for (host, &(function, rows)) in &rows_of {
            for (&offset, &seen) in self.seen.get(host).into_iter().flatten() {
                let average = seen.cycles / seen.count.max(1);
                all_averages = all_averages.saturating_add(average.saturating_mul(rows));
                blocks.push(Block {
                    function,
                    end_offset: offset,
                    share: percent_of(seen.cycles, self.all),
                    average,
                    average_share: 0.0,
                    longest_cycles: seen.longest_cycles,
                    seen,
                });
            }
        }
        for block in &mut blocks {
            block.average_share = percent_of(block.average, all_averages);
        }
        blocks.sort_by_cached_key(|block| {
            // perf compares shares in thousandths of a percent.
            let share = percent_of(block.longest_cycles, self.all) * 1000.0;
            let name = profile.name(profile.function(block.function).name);
            let start = block.seen.start.map_or(0, |(offset, _)| offset);
            (
                Reverse(share as u64),
                name.to_owned(),
                Reverse((start, block.end_offset)),
            )
        });
        blocks
    }
}

/// The function that a place is in, and bytes from its start; `None` of code
/// without a name.
fn place_of(profile: &Profile, place: LocationId) -> Option<(Host, u64)> {
    let (location, function) = host(profile, place)?;
    let offset = location.address.0.checked_sub(function.start.0)?;
    let is_in = function.size == 0 || offset < function.size;
    let host = (location.dso, function.start);
    (function.unnamed.is_none() && is_in).then_some((host, offset))
}

/// A row.
struct Block {
    function: FunctionId,
    /// Bytes from the function's start to its branch instruction.
    end_offset: u64,
    seen: Seen,
    longest_cycles: u64,
    /// Of all cycles, percent.
    share: f64,
    /// Cycles of one run.
    average: u64,
    /// Of the sum of all averages, percent.
    average_share: f64,
}

impl Block {
    fn write(
        &self,
        profile: &Profile,
        options: &TextOptions,
        code: &dyn CodeSource,
        out: &mut String,
    ) {
        let function = profile.function(self.function);
        let full_paths = options.look.full_paths;
        let line = |place: LocationId| {
            let mut text = String::new();
            write_line(profile, Some(place), full_paths, &mut text);
            escape::terminal(&text).into_owned()
        };
        let start = match self.seen.start {
            Some((_, place)) => line(place),
            None => first_line(profile, function, code, full_paths),
        };
        let end = self.seen.end.map_or_else(String::new, line);
        let dso = profile.name(profile.dso(function.dso).short_name);
        let cells = [
            format!("{:.2}%", self.share),
            short_cycles(self.seen.cycles),
            format!("{:.2}%", self.average_share),
            short_cycles(self.average),
            format!("[{start} -> {end}]"),
            escape::terminal(dso).into_owned(),
        ];
        for (at, (cell, (_, width))) in cells.iter().zip(COLUMNS).enumerate() {
            match &options.separator {
                Some(separator) if at > 0 => out.push_str(separator),
                Some(_) => {}
                None => pad(out, 2),
            }
            match options.separator {
                Some(_) => out.push_str(cell),
                None => push_right(cell, width, out),
            }
        }
        out.push('\n');
    }
}

/// The line that a function begins at, or its name.
fn first_line(
    profile: &Profile,
    function: &Function,
    code: &dyn CodeSource,
    full_paths: bool,
) -> String {
    let lines = code.function(profile, function).map(|code| code.lines);
    let lines = lines.unwrap_or_default();
    let mut before = lines.iter().rev();
    let text = match before.find(|line| line.address <= function.start) {
        Some(LineAt { file, line, .. }) if *line > 0 => {
            let name = file.rsplit('/').next().filter(|_| !full_paths);
            format!("{}:{line}", name.unwrap_or(file))
        }
        _ => format!("{}+0", profile.name(function.name)),
    };
    escape::terminal(&text).into_owned()
}

/// As perf shortens cycles: `428`, `4.2K`, `1.0M`.
fn short_cycles(cycles: u64) -> String {
    match cycles {
        0..1_000 => cycles.to_string(),
        1_000..1_000_000 => format!("{:.1}K", cycles as f64 / 1e3),
        _ => format!("{:.1}M", cycles as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::{Seen, short_cycles};
    use prof_profile::LocationId;

    #[test]
    fn cycles_are_shortened_as_perf_does() {
        let texts = [999, 1000, 46_350, 999_999, 2_000_000].map(short_cycles);
        assert_eq!(texts, ["999", "1.0K", "46.4K", "1000.0K", "2.0M"]);
    }

    #[test]
    fn the_longest_block_that_ends_with_a_branch_is_kept() {
        let start = |offset| Some((offset, LocationId(0)));
        let seen = |blocks: &[(Option<u64>, u64)]| {
            let mut seen = Seen::default();
            for &(from, cycles) in blocks {
                seen.add(from.and_then(start), LocationId(1), cycles);
            }
            let offset = seen.start.map(|(offset, _)| offset);
            (seen.count, seen.cycles, offset, seen.longest_cycles)
        };
        // All count for the average, those of the longest block alone for
        // its place among the others.
        let both = seen(&[(Some(8), 5), (Some(4), 7), (Some(8), 5), (Some(4), 1)]);
        assert_eq!(both, (4, 18, Some(4), 8));
        assert_eq!(seen(&[(None, 9), (Some(4), 2)]), (2, 11, Some(4), 2));
        assert_eq!(seen(&[(Some(4), 2), (None, 9)]), (2, 11, Some(4), 2));
        assert_eq!(seen(&[(None, 9), (None, 1)]), (2, 10, None, 10));
    }
}
