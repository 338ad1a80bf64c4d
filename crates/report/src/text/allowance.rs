//! How much text call chains and long names may take.
//!
//! With a chain below each row, a stack of `n` functions is `n` chains of up
//! to `n` lines: one sample of 8000 frames, 64 KiB of a recording, makes 961 MB
//! of text. Chains share an allowance in proportion to what was recorded; what
//! is beyond it is left out, and told. A name of 60 000 letters stands in each
//! row of its thread: columns have an allowance, too.

use super::TextOptions;
use super::chain::Chains;
use super::comment::comment;
use super::graph::{Ink, Pen};
use crate::model::{Row, Weight};
use prof_profile::Profile;
use rayon::prelude::*;
use std::io;

/// Bytes that every report may take. Stacks of 10 000 frames of a program
/// that calls itself, with names of 200 characters, take a quarter of it.
const LEAST: usize = 8 << 20;
/// Bytes for each byte recorded. The most of a real recording (waiting
/// threads with deep stacks, each sample another one) was 30.
const PER_BYTE: u64 = 40;
/// Bytes of a frame in a recording.
const FRAME: u64 = 8;
/// Bytes of the rest of a sample.
const SAMPLE: u64 = 32;
/// Bytes of the shortest line with a frame.
const SHORTEST_LINE: usize = 14;
/// Bytes that a frame costs even where an option leaves it out of the text:
/// it has to be found.
const LEAST_COST: usize = 2;
/// What columns may take of that beside it.
const PART_OF_COLUMNS: usize = 4;
/// Characters that a cell may always have.
const LEAST_CELL: usize = 200;
/// Rows whose chains are in memory at a time.
const ROWS_AT_ONCE: usize = 32;

/// What the texts of a table may take.
pub(super) struct CellAllowance {
    /// Bytes of a column.
    pub(super) column: usize,
    /// Characters of a cell if all are as long.
    pub(super) cell: usize,
}

impl CellAllowance {
    /// For `columns` of texts and so many `rows`.
    pub(super) fn of(
        profile: &Profile,
        options: &TextOptions,
        columns: usize,
        rows: usize,
    ) -> Self {
        let all = Allowance::of(profile, options).left;
        let column = all / PART_OF_COLUMNS / columns.max(1);
        Self {
            column,
            cell: (column / rows.max(1)).max(LEAST_CELL),
        }
    }
}

/// What chains may still take, and what was left out.
#[derive(Debug)]
pub(super) struct Allowance {
    left: usize,
    /// Rows whose chains are not whole.
    rows: u64,
    /// Frames that they miss.
    frames: u64,
    /// Columns of the terminal.
    columns: Option<usize>,
}

impl Allowance {
    /// What the chains of all tables of a report may take together.
    pub(super) fn of(profile: &Profile, options: &TextOptions) -> Self {
        let trust = &profile.trust;
        let frames = trust.frames.saturating_mul(FRAME);
        let recorded = frames.saturating_add(trust.samples.saturating_mul(SAMPLE));
        let more = usize::try_from(recorded.saturating_mul(PER_BYTE)).unwrap_or(usize::MAX);
        Self {
            left: if options.unlimited {
                usize::MAX
            } else {
                LEAST.saturating_add(more)
            },
            rows: 0,
            frames: 0,
            columns: options.columns,
        }
    }

    /// Nothing is left after chains that had to be cut: those that come after
    /// would be made in vain, one after the other.
    fn take(&mut self, block: &Block) {
        self.left = match block.is_cut {
            true => 0,
            false => self.left.saturating_sub(block.cost),
        };
    }

    /// Tells at the end of a table what is missing in it, once.
    pub(super) fn tell(&mut self, out: &mut impl io::Write) -> io::Result<()> {
        if self.rows > 0 {
            let what = format!(
                "The call chains of {} rows are not drawn, or not to their end: about {} frames \
                 are left out.",
                self.rows, self.frames
            );
            let mut text = String::new();
            comment(&what, self.columns, &mut text);
            text.push_str("# --unlimited draws them all.\n#\n");
            out.write_all(text.as_bytes())?;
        }
        (self.rows, self.frames) = (0, 0);
        Ok(())
    }
}

/// The chains of a table's rows on their way to text.
pub(super) struct Drawing<'a> {
    pub(super) chains: &'a Chains<'a>,
    pub(super) pen: Pen<'a>,
    /// What they may still take.
    pub(super) allowance: &'a mut Allowance,
}

/// What writes the line of a row, and the weight that shares are of.
pub(super) type How<'h> = (
    &'h (dyn Fn(&Row, &mut String) + Sync),
    &'h (dyn Fn(&Row) -> Weight + Sync),
);

/// Rows whose chains are not whole.
#[derive(Default)]
pub(super) struct Cut<'r> {
    rows: Vec<&'r Row>,
    /// Frames drawn below them.
    drawn: u64,
}

impl<'r> Cut<'r> {
    fn add(&mut self, row: &'r Row, block: &Block) {
        if block.is_cut {
            self.rows.push(row);
            self.drawn += block.frames;
        }
    }
}

/// A row's own line and the chains below it.
struct Block {
    text: String,
    /// Bytes that the chains take of the allowance.
    cost: usize,
    frames: u64,
    is_cut: bool,
}

impl Drawing<'_> {
    /// Calls `emit` with the text of each row, in order: what `line` writes,
    /// then its chains.
    pub(super) fn rows(
        &mut self,
        rows: &[&Row],
        how: How<'_>,
        emit: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut cut = Cut::default();
        for several in rows.chunks(ROWS_AT_ONCE) {
            let room = self.allowance.left;
            let block = |row: &&Row| self.block(row, room, how);
            let blocks: Vec<Block> = several.par_iter().map(block).collect();
            for (&row, mut block) in several.iter().zip(blocks) {
                if block.cost > self.allowance.left {
                    // Those before it took more than was known.
                    block = self.block(row, self.allowance.left, how);
                }
                self.allowance.take(&block);
                cut.add(row, &block);
                emit(&block.text)?;
            }
        }
        self.count(&cut);
        Ok(())
    }

    /// The text of one row alone; what is cut of it goes to `cut`.
    pub(super) fn row<'r>(&mut self, row: &'r Row, how: How<'_>, cut: &mut Cut<'r>) -> String {
        let block = self.block(row, self.allowance.left, how);
        self.allowance.take(&block);
        cut.add(row, &block);
        block.text
    }

    /// Counts what was cut of a table.
    pub(super) fn count(&mut self, cut: &Cut<'_>) {
        let all = self.chains.frames_of(cut.rows.iter().copied());
        let missing = all.saturating_sub(cut.drawn);
        let allowance = &mut *self.allowance;
        allowance.rows += cut.rows.len() as u64;
        allowance.frames = allowance.frames.saturating_add(missing);
    }

    fn block(&self, row: &Row, room: usize, (line, weight): How<'_>) -> Block {
        let mut text = String::new();
        line(row, &mut text);
        let start = text.len();
        if room == 0 {
            let is_cut = self.chains.has(row);
            return Block {
                text,
                cost: 0,
                frames: 0,
                is_cut,
            };
        }
        let made = self.chains.of_row(row, room / SHORTEST_LINE);
        let made = made.unwrap_or_default();
        let mut ink = Ink::new(&mut text, room);
        self.pen.draw(&made.chains, weight(row), &mut ink);
        let (frames, is_dry) = (ink.frames(), ink.is_dry());
        Block {
            cost: (text.len() - start).max(made.frames.saturating_mul(LEAST_COST)),
            text,
            frames,
            is_cut: made.is_cut || is_dry,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::csv::csv;
    use crate::keys::{COMM, Field, SYMBOL};
    use crate::text::{TextOptions, report};
    use prof_profile::Profile;
    use prof_sketch::Sketch;

    /// Functions that call each other, each once: with a chain below each,
    /// 18 MB of text.
    const DEPTH: usize = 700;

    fn deep() -> Profile {
        let names: Vec<String> = (0..DEPTH).map(|n| format!("app:f{n:060}")).collect();
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, &names.join(";"), 1, 10);
        sketch.profile
    }

    /// The text, and how many of its lines are frames of chains.
    fn text(options: &TextOptions) -> (String, usize) {
        let mut out = Vec::new();
        report(&deep(), options, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let is_frame = |line: &&str| line.starts_with("            ") && line.contains("f000");
        let frames = out.lines().filter(is_frame).count();
        (out, frames)
    }

    /// A thread with a long name, in many functions.
    fn long_name(letters: usize) -> Profile {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, &"w".repeat(letters));
        for function in 0..100 {
            sketch.sample(task, &format!("app:f{function}"), 1, 10);
        }
        sketch.profile
    }

    #[test]
    fn a_long_name_is_cut_where_it_stands_in_many_rows() {
        let keys = [COMM, SYMBOL].map(Field::Key);
        let mut options = TextOptions {
            sort: Some(keys.to_vec()),
            ..TextOptions::default()
        };
        let texts = |letters, options: &TextOptions| {
            let profile = long_name(letters);
            let (mut table, mut values) = (Vec::new(), Vec::new());
            report(&profile, options, &mut table).unwrap();
            csv(&profile, options, &mut values).unwrap();
            [table, values].map(|text| String::from_utf8(text).unwrap())
        };
        let [table, values] = texts(60_000, &options);
        for text in [&table, &values] {
            assert!(text.len() < 3 << 20, "{} bytes", text.len());
            assert_eq!(text.matches("www~").count(), 100);
        }
        assert!(table.contains(" letters are cut (~). --unlimited shows them whole."));
        // Names of any program are whole.
        for text in texts(1000, &options) {
            assert!(!text.contains('~'));
        }
        options.unlimited = true;
        for text in texts(60_000, &options) {
            assert!(text.len() > 6_000_000);
        }
    }

    #[test]
    fn what_is_left_out_is_counted_and_drawn_when_asked_for() {
        let (cut, drawn) = text(&TextOptions::default());
        let told = cut.lines().rev().find(|line| line.contains("left out"));
        let numbers = told
            .unwrap()
            .split(' ')
            .filter_map(|word| word.parse().ok());
        let [rows, missing] = numbers.collect::<Vec<usize>>()[..] else {
            panic!("{told:?}");
        };
        // Each row has the chain from it inwards; the innermost, whose own
        // sample it is, that from the thread's start.
        let all = DEPTH * (DEPTH + 1) / 2 + DEPTH - 1;
        assert_eq!(drawn + missing, all, "{told:?}");
        assert!(
            rows > 100 && cut.len() < super::LEAST + (1 << 20),
            "{told:?}"
        );
        let options = TextOptions {
            unlimited: true,
            ..TextOptions::default()
        };
        let (whole, drawn) = text(&options);
        assert!(!whole.contains("left out"));
        assert_eq!(drawn, all);
    }
}
