//! Drawing call chains with characters, as perf does.

use super::branch_notes::BranchesHere;
use super::chain::Chain;
use super::{CallGraph, ChainKey, ChainStyle, ChainValue};
use crate::keys::{char_count, name_within, srcline};
use crate::model::{Scene, SiteId, SiteKind, Weight};
use prof_profile::BranchFrame;
use std::fmt::Write;

/// Where chains are drawn to, and how much of them may be.
pub(crate) struct Ink<'o> {
    out: &'o mut String,
    /// Bytes of `out` at which nothing more is drawn.
    end: usize,
    /// Lines with frames that were drawn.
    frames: u64,
}

impl<'o> Ink<'o> {
    /// Draws at the end of `out`, up to the line that makes it longer than
    /// `room` bytes more.
    pub(crate) fn new(out: &'o mut String, room: usize) -> Self {
        let end = out.len().saturating_add(room);
        Self {
            out,
            end,
            frames: 0,
        }
    }

    /// Lines with frames that were drawn.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether something was left out, or would be.
    pub(crate) fn is_dry(&self) -> bool {
        self.out.len() >= self.end
    }

    /// Where the next frames are written to, if there is room.
    fn frames_to(&mut self, frames: usize) -> Option<&mut String> {
        if self.is_dry() {
            return None;
        }
        self.frames += frames as u64;
        Some(self.out)
    }
}

/// Draws the chains of rows.
pub(crate) struct Pen<'a> {
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) graph: CallGraph,
    /// Weight of 100 %.
    pub(crate) whole: Weight,
    /// Whether the row's heading line is the symbol itself, so that a single
    /// chain need not repeat it.
    pub(crate) skip_first: bool,
    /// Whether source files are shown with their paths.
    pub(crate) full_paths: bool,
    /// Columns of the terminal that names have to fit.
    pub(crate) columns: Option<usize>,
    /// Between the frames of a folded chain.
    pub(crate) separator: &'a str,
    /// See [`super::TextOptions::tells_branches`].
    pub(crate) tells_branches: bool,
}

/// What a branch is a share of.
#[derive(Debug, Clone, Copy)]
struct Base {
    weight: Weight,
    /// Samples of all branches, those that are not drawn included.
    branch_samples: u64,
}

impl Pen<'_> {
    /// Writes the chains below their row, whose weight is `row`.
    pub(crate) fn draw(&self, chains: &[Chain], row: Weight, ink: &mut Ink<'_>) {
        match self.graph.style {
            ChainStyle::None => {}
            ChainStyle::Flat => self.flat(chains, ink),
            ChainStyle::Folded => self.folded(chains, ink),
            ChainStyle::Graph | ChainStyle::Fractal => self.tree(chains, row, ink),
        }
    }

    fn limit(&self) -> usize {
        self.graph.limit.map_or(usize::MAX, |limit| limit as usize)
    }

    fn value(&self, weight: Weight, base: Weight) -> String {
        match self.graph.value {
            ChainValue::Percent => format!("{:.2}%", weight.percent_of(base)),
            ChainValue::Period => weight.period.to_string(),
            ChainValue::Count => weight.samples.to_string(),
        }
    }

    /// The name of a frame, and what branches tell of it.
    fn noted(&self, chain: &Chain, index: usize, before: usize) -> String {
        let Some(&site) = chain.run.get(index) else {
            return String::new();
        };
        let branches = chain.branches_in_run.get(index);
        let note = branches.filter(|_| self.tells_branches);
        let note = note.map_or_else(String::new, BranchesHere::note);
        let name = self.name(site, before.saturating_add(note.len()));
        format!("{name}{note}")
    }

    /// The name of a frame, `before` columns from the left.
    fn name(&self, id: SiteId, before: usize) -> String {
        let site = self.scene.sites().get(id);
        let function = site.function(self.scene.profile());
        if site.is_bare(self.scene.profile()) {
            let frames = &self.scene.profile().branch_frames;
            let end = site.branch.and_then(|id| frames.get(id.0 as usize));
            let live = end.and_then(BranchFrame::address).map(|live| live.0);
            let address = live.unwrap_or(site.address.unwrap_or(function.start).0);
            return if address == 0 {
                "0".into()
            } else {
                format!("{address:#x}")
            };
        }
        let inlined = if site.kind == SiteKind::Inline {
            " (inlined)"
        } else {
            ""
        };
        let behind = if self.graph.key == ChainKey::Function {
            inlined.to_owned()
        } else {
            let line = match site.line {
                None if function.unnamed.is_none() => {
                    let at = site.address.unwrap_or(function.start);
                    format!("+{}", at.0.wrapping_sub(function.start.0))
                }
                _ => srcline(self.scene, Some(site), self.full_paths),
            };
            format!(" {line}{inlined}")
        };
        let room = self.columns.map(|columns| {
            let taken = before.saturating_add(char_count(&behind));
            columns.saturating_sub(taken)
        });
        let name = name_within(site.name(self.scene.profile()), room);
        format!("{name}{behind}")
    }

    fn flat(&self, chains: &[Chain], ink: &mut Ink<'_>) {
        for chain in chains.iter().take(self.limit()) {
            let Some(out) = ink.frames_to(0) else { return };
            let _ = writeln!(out, "           {}", self.value(chain.total, self.whole));
            for &site in &chain.run {
                let Some(out) = ink.frames_to(1) else { return };
                let _ = writeln!(out, "{:FLAT$}{}", "", self.name(site, FLAT));
            }
            ink.out.push('\n');
        }
    }

    fn folded(&self, chains: &[Chain], ink: &mut Ink<'_>) {
        for chain in chains.iter().take(self.limit()) {
            // Half a stack would be another stack, so it is all or nothing.
            let Some(out) = ink.frames_to(chain.run.len()) else {
                return;
            };
            let names: Vec<String> = chain.run.iter().map(|&site| self.name(site, 0)).collect();
            let value = self.value(chain.own, self.whole);
            let _ = writeln!(out, "{value} {}", names.join(self.separator));
        }
    }

    fn tree(&self, chains: &[Chain], row: Weight, ink: &mut Ink<'_>) {
        let before = ink.out.len();
        let mut grid = Grid::of(chains, self.columns);
        let mut rest = chains;
        let mut branch_samples = row.samples;
        if let [only] = chains
            && only.total.period == row.period
        {
            let skipped = usize::from(self.skip_first);
            let run = (skipped..only.run.len()).take(self.limit());
            for (index, at) in run.enumerate() {
                let Some(out) = ink.frames_to(1) else { break };
                let margin = grid.margin;
                if index == 0 {
                    let _ = writeln!(out, "{:margin$}|", "");
                    let _ = write!(out, "{:margin$}---", "");
                    grid.margin += 3;
                } else {
                    let _ = write!(out, "{:margin$}", "");
                }
                let _ = writeln!(out, "{}", self.noted(only, at, grid.margin));
            }
            rest = &only.branches;
            branch_samples = only.total.without(only.own).samples;
        }
        let weight = match self.graph.style {
            ChainStyle::Fractal => row,
            _ => self.whole,
        };
        let base = Base {
            weight,
            branch_samples,
        };
        let mut branching = Branching {
            grid,
            pipes: vec![true],
            ink,
        };
        self.branches(rest, base, &mut branching);
        if ink.out.len() > before {
            ink.out.push('\n');
        }
    }

    /// Writes branches.
    fn branches(&self, chains: &[Chain], base: Base, to: &mut Branching<'_, '_>) {
        let fractal = self.graph.style == ChainStyle::Fractal;
        let own_column = to.pipes.len() - 1;
        let mut left = base.weight;
        let mut samples_left = base.branch_samples;
        for (index, chain) in chains.iter().enumerate().take(self.limit()) {
            left = left.without(chain.total);
            samples_left = samples_left.saturating_sub(chain.total.samples);
            let is_last = index + 1 == chains.len();
            if to.rule().is_none() {
                return;
            }
            if is_last && (!fractal || left.period == 0) {
                to.set(own_column, false);
            }
            for index in 0..chain.run.len() {
                let value = (index == 0).then(|| self.value(chain.total, base.weight));
                let name = |before| self.noted(chain, index, before);
                if to.line(1, value.as_deref(), name).is_none() {
                    return;
                }
            }
            let inner = chain.total.without(chain.own);
            let below = Base {
                weight: if fractal { inner } else { base.weight },
                branch_samples: inner.samples,
            };
            to.pipes.push(true);
            self.branches(&chain.branches, below, to);
            to.pipes.pop();
        }
        let some_left = left.period > 0 && left.period != base.weight.period;
        let counted = self.graph.value != ChainValue::Count || samples_left > 0;
        if fractal && some_left && counted {
            to.set(own_column, false);
            left.samples = samples_left;
            let value = self.value(left, base.weight);
            if to.line(0, Some(&value), |_| "[...]".to_owned()).is_none() {
                return;
            }
        }
        to.set(own_column, true);
    }
}

/// Columns left of a chain.
const MARGIN: usize = 12;
/// Columns that a branch is further to the right than what it is of.
const BRANCH: usize = 11;
/// Columns left of the frames of a flat chain.
const FLAT: usize = 16;

/// Columns left of a chain that a terminal has little room for.
const NARROW_MARGIN: usize = 4;
/// The least that a branch is further to the right there.
const NARROW_BRANCH: usize = 2;
/// Columns that names should have on a terminal, and that they have at least.
const NAMES: usize = 32;
const LEAST_NAMES: usize = 22;

/// The branches of a tree while they are drawn.
struct Branching<'i, 'o> {
    grid: Grid,
    /// For each column, whether a line runs on below it.
    pipes: Vec<bool>,
    ink: &'i mut Ink<'o>,
}

impl Branching<'_, '_> {
    fn set(&mut self, column: usize, runs_on: bool) {
        if let Some(pipe) = self.pipes.get_mut(column) {
            *pipe = runs_on;
        }
    }

    /// Draws a line of pipes only; `None` if there is no room.
    fn rule(&mut self) -> Option<()> {
        let Self { grid, pipes, ink } = self;
        let out = ink.frames_to(0)?;
        let pipes = grid.innermost(pipes, out);
        for (column, &runs_on) in pipes.iter().enumerate() {
            let is_last = column + 1 == pipes.len();
            let width = if is_last { BRANCH } else { grid.step } - 1;
            out.push(if runs_on { '|' } else { ' ' });
            let _ = write!(out, "{:width$}", "");
        }
        out.push('\n');
        Some(())
    }

    /// Draws a line of so many frames behind pipes and its value, if it is a
    /// run's first; `name` is told the columns before it. `None` if there is
    /// no room.
    fn line(
        &mut self,
        frames: usize,
        value: Option<&str>,
        name: impl FnOnce(usize) -> String,
    ) -> Option<()> {
        let Self { grid, pipes, ink } = self;
        let out = ink.frames_to(frames)?;
        let name = name(grid.before(pipes.len()));
        let pipes = grid.innermost(pipes, out);
        for (column, &runs_on) in pipes.iter().enumerate() {
            let is_last = column + 1 == pipes.len();
            out.push(if runs_on { '|' } else { ' ' });
            match value {
                Some(value) if is_last => {
                    let _ = write!(out, "--{value}--");
                }
                _ => {
                    let width = if is_last { BRANCH } else { grid.step } - 1;
                    let _ = write!(out, "{:width$}", "");
                }
            }
        }
        out.push_str(&name);
        out.push('\n');
        Some(())
    }
}

/// Where the branches of a tree are drawn.
#[derive(Debug, Clone, Copy)]
struct Grid {
    /// Columns left of all of it.
    margin: usize,
    /// Columns that a branch is further to the right than what it is of.
    step: usize,
    /// Levels that there is room for. Of deeper ones the outermost are not
    /// drawn, and the margin tells how many.
    most: usize,
}

impl Grid {
    /// perf's, or on a terminal one that has room for the names.
    fn of(chains: &[Chain], terminal: Option<usize>) -> Self {
        let grid = Self {
            margin: MARGIN,
            step: BRANCH,
            most: usize::MAX,
        };
        let Some(terminal) = terminal else {
            return grid;
        };
        let levels = depth(chains).saturating_sub(1);
        // What a single chain adds to the margin included.
        let room = |margin: usize| terminal.saturating_sub(margin + 3 + BRANCH);
        if room(MARGIN).saturating_sub(NAMES) >= levels * BRANCH {
            return grid;
        }
        let room = room(NARROW_MARGIN);
        let step = room.saturating_sub(NAMES) / levels.max(1);
        let step = step.clamp(NARROW_BRANCH, BRANCH);
        Self {
            margin: NARROW_MARGIN,
            step,
            most: 1 + room.saturating_sub(LEAST_NAMES) / step,
        }
    }

    /// Columns before a name at a level.
    fn before(&self, level: usize) -> usize {
        self.margin + level.min(self.most).saturating_sub(1) * self.step + BRANCH
    }

    /// The pipes that there is room for, behind the margin.
    fn innermost<'p>(&self, pipes: &'p [bool], out: &mut String) -> &'p [bool] {
        let left_out = pipes.len().saturating_sub(self.most);
        let margin = self.margin;
        let _ = match left_out {
            0 => write!(out, "{:margin$}", ""),
            _ => write!(out, "{:<margin$}", format!("+{left_out}")),
        };
        pipes.get(left_out..).unwrap_or_default()
    }
}

/// How many branches are within each other.
fn depth(chains: &[Chain]) -> usize {
    let mut deepest = 0;
    let mut left: Vec<(&[Chain], usize)> = vec![(chains, 1)];
    while let Some((chains, level)) = left.pop() {
        if !chains.is_empty() {
            deepest = deepest.max(level);
        }
        let inner = chains.iter().map(|chain| chain.branches.as_slice());
        left.extend(inner.map(|branches| (branches, level + 1)));
    }
    deepest
}
