//! Rows of frames with their shares: one look for tables and trees.

use super::columns::{Column, Columns};
use crate::action::Action;
use crate::data::{Found, Grown, Seen};
use crate::outline::{Forest, Opened, Outline, OutlineRow, ROW_LIMIT};
use crate::paint::{Pen, between, style_row};
use crate::shared::Shared;
use crate::theme::Kind;
use prof_report::keys::{DSO, Field, SYMBOL};
use prof_report::model::{GrowId, SiteId, Weight};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// Columns of a share.
const SHARE: usize = 8;
/// Columns of a bar.
const BAR: usize = 11;

/// Whether a row is the identity of a table, a step of a chain below one, or a
/// node of a tree that has no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    Entry,
    Step,
    Node,
}

/// One row to draw.
pub(super) struct FrameRow {
    pub(super) site: SiteId,
    /// Not for callers: a caller's self weight is not part of the chain.
    pub(super) own: Option<Weight>,
    pub(super) total: Weight,
    /// What the bar shows: lightly from the first to the second.
    pub(super) bar: (Weight, Weight),
    pub(super) depth: u16,
    /// `None` where there is nothing to open.
    pub(super) is_open: Option<bool>,
    pub(super) rank: Rank,
}

impl FrameRow {
    /// Its self weight, where that is shown: a step without any shows nothing.
    fn shown_own(&self) -> Option<Weight> {
        self.own
            .filter(|own| self.rank == Rank::Entry || !own.is_zero())
    }

    /// A row of callers or callees: the frame of a node, which weighs as much
    /// as flows through it.
    pub(super) fn of_grown(
        forest: &Grown,
        seen: &Seen,
        row: OutlineRow,
        node: u32,
    ) -> Option<Self> {
        let total = forest.growth.total(GrowId(node));
        Some(Self {
            site: forest.site(seen, node)?,
            own: None,
            total,
            bar: (total, total),
            depth: row.depth,
            is_open: forest.has_children(node).then_some(row.is_open),
            rank: Rank::Step,
        })
    }
}

/// How wide the dso's column is, its gap included; 0 leaves it out.
fn dso_width(width: usize) -> usize {
    match width {
        0..=79 => 0,
        // Of the common names the kernel's is the longest.
        80..=119 => "[kernel.kallsyms] ".len(),
        _ => 24,
    }
}

/// The column of dsos.
pub(super) const DSOS: Field = Field::Key(DSO);
/// The column of functions.
pub(super) const NAMES: Field = Field::Key(SYMBOL);
/// What can order a table, in the order in which a key goes through them.
pub(super) const ORDERS: [Field; 4] = [Field::Children, Field::Overhead, DSOS, NAMES];

/// The columns of rows of frames on a screen so wide. In the place of the
/// interval there may be a bar of both shares; `legend` explains it.
pub(super) fn columns(width: usize, legend: &str) -> Columns<Field> {
    let share = |field: Field| Column::right(field, field.screen_heading(), SHARE);
    let bar = Column::left(Field::Interval, legend, BAR)
        .ordering(Field::Overhead)
        .legend();
    let mut list = vec![share(Field::Children), share(Field::Overhead), bar];
    let room = dso_width(width);
    if room > 0 {
        list.push(Column::left(DSOS, DSOS.screen_heading(), room));
    }
    // Behind the fold sign.
    let names = format!("  {}", NAMES.screen_heading());
    list.push(Column::rest(NAMES, &names));
    Columns(list)
}

/// Draws headings; the column that orders the rows is marked.
pub(super) fn draw_headings(
    shared: &Shared,
    area: Rect,
    order: Option<(Field, bool)>,
    buffer: &mut Buffer,
) {
    let theme = &shared.theme;
    let glyphs = theme.glyphs;
    let legend = match order {
        Some(_) if shared.switches.intervals => Field::Interval.screen_heading().to_owned(),
        Some(_) => format!(
            "{}self {}all",
            glyphs.bar.last().unwrap_or(&""),
            glyphs.light_bar
        ),
        None => String::new(),
    };
    let pen = Pen::new(buffer, theme, area, 0);
    columns(usize::from(area.width), &legend).draw_headings(order, theme, pen);
}

/// How far rows of a tree are moved to the left, in columns, so that the name
/// of the selected one has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shift(usize);

impl Shift {
    pub(super) fn of(area: Rect, outline: &Outline) -> Self {
        let width = usize::from(area.width);
        let names = columns(width, "").before_last();
        let room = width.saturating_sub(names) / 2;
        let depth = outline.selected().map_or(0, |row| row.depth);
        Self((2 * usize::from(depth)).saturating_sub(room))
    }

    /// Columns before the fold sign of a row, and whether it stands further
    /// to the left than that.
    fn indent(self, depth: u16) -> (usize, bool) {
        let columns = 2 * usize::from(depth);
        let mark = usize::from(self.0 > 0);
        let indent = columns.saturating_sub(self.0) + mark;
        (indent, mark > 0 && columns < self.0)
    }

    /// Column where the fold sign of a row stands.
    pub(super) fn fold_column(self, area: Rect, depth: u16) -> u16 {
        let names = columns(usize::from(area.width), "").before_last();
        let start = names + self.indent(depth).0;
        u16::try_from(start).unwrap_or(u16::MAX)
    }
}

/// Draws one row, its name moved to the left.
fn draw_row(shared: &Shared, row: &FrameRow, shift: Shift, mut pen: Pen<'_>) {
    let Some(seen) = &shared.seen else { return };
    let theme = &shared.theme;
    let share = |weight: Weight| {
        let style = theme.share(weight.percent_of(shared.whole()));
        (shared.share(weight), style)
    };
    for column in columns(pen.room(), "").0 {
        let (words, style) = match column.id {
            Field::Children => share(row.total),
            Field::Overhead => row.shown_own().map(share).unwrap_or_default(),
            Field::Interval => {
                draw_bar(shared, row, &column, &mut pen);
                continue;
            }
            id if id == NAMES => {
                draw_name(shared, row, shift, &mut pen);
                continue;
            }
            _ => {
                let dso = seen.profile.dso(seen.site(row.site).dso);
                let is_shown = row.rank != Rank::Step || shared.switches.verbose;
                let name = seen.profile.name(dso.short_name);
                let name = if is_shown { name } else { "" };
                (name.to_owned(), theme.dim())
            }
        };
        column.put(&words, style, &mut pen);
    }
}

/// Draws the fold sign and the name of a row.
fn draw_name(shared: &Shared, row: &FrameRow, shift: Shift, pen: &mut Pen<'_>) {
    let Some(seen) = &shared.seen else { return };
    let theme = &shared.theme;
    let (indent, is_before) = shift.indent(row.depth);
    if is_before {
        pen.put(theme.glyphs.before, theme.dim());
    } else {
        pen.gap(indent);
    }
    let fold = match row.is_open {
        Some(true) => theme.glyphs.open,
        Some(false) => theme.glyphs.closed,
        None => theme.glyphs.leaf,
    };
    draw_function(shared, seen, row.site, fold, pen);
}

/// Draws a fold sign and a function in what is left of the row; one that was
/// searched for stands out.
pub(super) fn draw_function(
    shared: &Shared,
    seen: &Seen,
    id: SiteId,
    fold: &str,
    pen: &mut Pen<'_>,
) {
    let theme = &shared.theme;
    let site = seen.site(id);
    let kind = Kind::of(&seen.profile, site);
    pen.put(fold, theme.dim());
    pen.put(kind.sign(), theme.dim()).gap(1);
    let found = shared.search.found.as_ref();
    let style = match found.is_some_and(|found| found.holds(id)) {
        true => theme.found(),
        false => theme.kind(kind),
    };
    pen.symbol(site.name(&seen.profile), style);
}

/// Draws the bar of a row, or the interval of its own share.
fn draw_bar(shared: &Shared, row: &FrameRow, column: &Column<Field>, pen: &mut Pen<'_>) {
    // Intervals are of functions wherever they are, not of one place in a tree.
    if shared.switches.intervals && row.rank == Rank::Entry {
        let sure = shared.sure_of(row.site);
        let words = sure.map_or_else(String::new, |sure| between(sure.own.interval(0.95)));
        column.put(&words, shared.theme.dim(), pen);
        return;
    }
    let (own, all) = row.bar;
    pen.bar(own.period, all.period, shared.whole().period, column.width)
        .gap(column.gap);
}

/// An outline as it is shown: `describe` tells what a row shows.
pub(super) struct OutlineRows<'a, D> {
    pub(super) outline: &'a Outline,
    /// Whether its cursor is shown.
    pub(super) has_focus: bool,
    pub(super) describe: D,
}

/// Draws the rows of an outline that are on the screen.
pub(super) fn draw_outline(
    shared: &Shared,
    rows: &OutlineRows<'_, impl Fn(OutlineRow) -> Option<FrameRow>>,
    area: Rect,
    buffer: &mut Buffer,
) {
    if shared.seen.is_none() {
        return;
    }
    let outline = rows.outline;
    let top = outline.scroll.top(usize::from(area.height));
    let shift = Shift::of(area, outline);
    for (at, (index, &row)) in (0..area.height).zip(outline.rows().iter().enumerate().skip(top)) {
        match (rows.describe)(row) {
            Some(frame) => {
                let pen = Pen::new(buffer, &shared.theme, area, at);
                draw_row(shared, &frame, shift, pen);
            }
            None => {
                Pen::new(buffer, &shared.theme, area, at)
                    .gap(2 * SHARE + BAR)
                    .put(shared.theme.glyphs.ellipsis, shared.theme.dim());
            }
        }
        if rows.has_focus && index == outline.scroll.cursor() {
            style_row(buffer, area, at, shared.theme.selected());
        }
    }
    if outline.rows().is_empty() {
        let least = f64::from(shared.switches.least) / 1000.0;
        let words = if shared.switches.least == 0 {
            "none".to_string()
        } else {
            format!("none has {least}% or more; L changes the limit")
        };
        Pen::new(buffer, &shared.theme, area, 0)
            .gap(2)
            .put(&words, shared.theme.dim());
    }
}

/// Moves and folds that all outlines share; `None` if the action is no such.
pub(super) fn act(
    outline: &mut Outline,
    forest: &mut impl Forest,
    action: Action,
    height: usize,
) -> Option<Opened> {
    let at = outline.scroll.cursor();
    match action {
        action if outline.scroll.moves(action, height) => {}
        Action::Toggle | Action::Enter => outline.toggle(forest, at),
        Action::Right => {
            let is_open = outline.selected().is_some_and(|row| row.is_open);
            if is_open {
                outline.scroll.step(1);
            } else {
                outline.open(forest, at);
            }
        }
        Action::Left => {
            if !outline.close(at)
                && let Some(parent) = outline.parent(at)
            {
                outline.scroll.go_to(parent);
            }
        }
        Action::ToggleDeep => return Some(settle(outline, height, |o| o.toggle_deep(forest, at))),
        Action::ExpandAll => return Some(settle(outline, height, |o| o.expand_all(forest))),
        Action::CollapseAll => outline.collapse_all(forest),
        _ => return None,
    }
    outline.scroll.settle(height);
    Some(Opened::All)
}

fn settle(
    outline: &mut Outline,
    height: usize,
    change: impl FnOnce(&mut Outline) -> Opened,
) -> Opened {
    let opened = change(outline);
    outline.scroll.settle(height);
    opened
}

/// What a click on a table is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clicked {
    Headings,
    /// A row that it opens or closes.
    Fold,
    Row,
}

/// Orders a table by the column that was clicked, the other way round if it was
/// ordered by it.
pub(super) fn choose_order<O: PartialEq>(by: O, order: &mut O, reversed: &mut bool) {
    *reversed = by == *order && !*reversed;
    *order = by;
}

/// A click on a table with this area and so many rows below its headings: puts
/// the cursor on the row that it is on.
pub(super) fn click_table(
    outline: &mut Outline,
    shared: &Shared,
    (area, height): (Rect, usize),
    at: Position,
) -> Clicked {
    let Some(line) = at.y.checked_sub(u16::from(shared.switches.headings)) else {
        return Clicked::Headings;
    };
    if click(outline, area, height, (at.x, line)) {
        Clicked::Fold
    } else {
        Clicked::Row
    }
}

/// A click on row `line` of the rows shown, at a column of `area`: puts the
/// cursor there. Whether it opens or closes that row, as a click does on the
/// row of the cursor and on the sign before a name.
pub(super) fn click(
    outline: &mut Outline,
    area: Rect,
    height: usize,
    (column, line): (u16, u16),
) -> bool {
    let shift = Shift::of(area, outline);
    outline.scroll.settle(height);
    let line = outline.scroll.top(height) + usize::from(line);
    let Some(hit) = outline.rows().get(line).copied() else {
        return false;
    };
    let was_there = outline.scroll.cursor() == line;
    outline.scroll.go_to(line);
    let fold = shift.fold_column(area, hit.depth);
    was_there || (fold..fold + 2).contains(&column)
}

/// What to say if not everything was opened.
pub(super) fn say_opened(shared: &mut Shared, opened: Opened) {
    if opened == Opened::Part {
        shared.say(format!(
            "opened the first {ROW_LIMIT} rows; the rest opens with Enter, or L hides small ones"
        ));
    }
}

/// Puts the cursor on the next row that matches, among those shown; whether
/// there was one.
pub(super) fn find(
    outline: &mut Outline,
    found: &Found,
    forwards: bool,
    site_of: impl Fn(OutlineRow) -> Option<SiteId>,
) -> bool {
    let len = outline.rows().len();
    let start = outline.scroll.cursor();
    let next = (1..=len).map(|step| {
        if forwards {
            (start + step) % len
        } else {
            (start + len - step) % len
        }
    });
    let hit = next.into_iter().find(|&at| {
        let row = outline.rows().get(at).copied();
        row.and_then(&site_of).is_some_and(|site| found.holds(site))
    });
    if let Some(at) = hit {
        outline.scroll.jump_to(at);
    }
    hit.is_some_and(|at| at != start || len == 1)
}
