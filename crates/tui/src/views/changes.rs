//! What changed between two recordings: functions with their costs on both
//! sides, the change, its interval and the verdict. Opened, a row tells what
//! the function is with what it calls, and how much would decide.

use super::columns::{self, Column, Columns};
use super::hotspots::name_of;
use super::rows::{self, Clicked};
use crate::action::Action;
use crate::bindings::KeyScope;
use crate::data::{Answer, Ask, Found, Seen};
use crate::outline::{Forest, Outline};
use crate::paint::{Pen, style_row};
use crate::scroll::Scroll;
use crate::shared::{Selected, Shared};
use crate::tab::{About, Fresh, NO_TURNING, Subject, Tab};
use prof_report::model::{Changed, ChangedFunction, Changes as Between, RunsOfSides};
use prof_statistics::Verdict;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::cmp::Ordering;

pub(super) const ABOUT: About = About {
    title: "Changes",
    word: "changes",
    command: "view changes",
    help: "What changed, of two recordings (prof report --diff BEFORE AFTER)",
    scope: KeyScope::Tree,
    subject: Subject::Samples,
    shown_by: None,
    idle: &[NO_TURNING],
};

/// Columns of a share, a change, an interval and a verdict, a gap included.
const SHARE: usize = 8;
const CHANGE: usize = 9;
const INTERVAL: usize = 17;
const VERDICT: usize = 10;
/// Columns of a dso, and of a screen that has room for it.
const DSO: usize = 20;
const WIDE: u16 = 100;

/// A column, and what orders the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shows {
    Before,
    After,
    Change,
    Interval,
    /// As an order: significant and large changes first.
    #[default]
    Verdict,
    Dso,
    Name,
}

/// What can order the rows, in the order in which a key goes through them.
const ORDERS: [Shows; 5] = [
    Shows::Verdict,
    Shows::Before,
    Shows::After,
    Shows::Change,
    Shows::Name,
];

/// The columns of a screen so wide.
fn columns_of(width: u16) -> Columns<Shows> {
    let mut list = vec![
        Column::right(Shows::Before, "Before", SHARE),
        Column::right(Shows::After, "After", SHARE),
        Column::right(Shows::Change, "Change", CHANGE),
        Column::right(Shows::Interval, "95 % interval", INTERVAL).ordering(Shows::Change),
        Column::left(Shows::Verdict, "Verdict", VERDICT),
    ];
    if width >= WIDE {
        let heading = rows::DSOS.screen_heading();
        list.push(Column::left(Shows::Dso, heading, DSO).ordering(Shows::Name));
    }
    // Behind the fold sign.
    let names = format!("  {}", rows::NAMES.screen_heading());
    list.push(Column::rest(Shows::Name, &names));
    Columns(list)
}

/// The rows, each with [`LINES`] lines below it.
#[derive(Default)]
struct Table {
    entries: Vec<ChangedFunction>,
}

/// What an opened row shows below it.
const LINES: u32 = 2;

impl Table {
    fn count(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(0)
    }

    /// The row that a node is of, and which of the lines below it, if one.
    fn of(&self, node: u32) -> Option<(&ChangedFunction, Option<u32>)> {
        let count = self.count();
        let (entry, line) = match node.checked_sub(count) {
            None => (node, None),
            Some(below) => (below / LINES, Some(below % LINES)),
        };
        Some((self.entries.get(entry as usize)?, line))
    }
}

impl Forest for Table {
    fn roots(&self) -> Vec<u32> {
        (0..self.count()).collect()
    }

    fn children(&mut self, node: u32) -> Vec<u32> {
        match node < self.count() {
            true => (0..LINES)
                .map(|line| self.count() + node * LINES + line)
                .collect(),
            false => Vec::new(),
        }
    }

    fn has_children(&self, node: u32) -> bool {
        node < self.count()
    }

    fn total(&self, node: u32) -> u64 {
        let samples = self.of(node).map(|(entry, _)| entry.samples);
        samples.map_or(0, |[before, after]| before.saturating_add(after))
    }
}

/// The tab.
#[derive(Default)]
pub(crate) struct Changes {
    table: Table,
    outline: Outline,
    order: Shows,
    reversed: bool,
    is_waiting: bool,
    /// Dso and name of the row under the cursor, while other data come.
    selected: Option<(String, String)>,
}

impl Tab for Changes {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// New data: what changed is asked for again, also for the flame graph.
    fn renew(&mut self, shared: &mut Shared, fresh: &mut Fresh<'_>) {
        if let Some(before) = fresh.before {
            self.selected = self.selected_name(before).or(self.selected.take());
        }
        shared.changes = None;
        self.is_waiting = true;
        self.fill(shared, Vec::new());
        shared.asks.extend(shared.sides.map(Ask::Changes));
    }

    fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn take(&mut self, shared: &mut Shared, answer: Answer) -> Option<Answer> {
        let Answer::Changes(changes) = answer else {
            return Some(answer);
        };
        self.is_waiting = false;
        let entries = shown(&changes, shared);
        shared.changes = Some(changes);
        self.fill(shared, entries);
        None
    }

    fn selected(&self, _shared: &Shared) -> Selected {
        let row = self.outline.selected();
        let entry = row.and_then(|row| self.table.of(row.node));
        Selected {
            site: entry.map(|(entry, _)| entry.site),
            task: None,
        }
    }

    fn detail(&self, shared: &Shared) -> Option<String> {
        let row = self.outline.selected()?;
        let (entry, _) = self.table.of(row.node)?;
        let words = said(&entry.own);
        Some(match shared.changes.as_ref().map(|it| it.totals) {
            Some(totals) => format!("{words}; {}", of_totals(totals, shared.sides)),
            None => words,
        })
    }

    fn act(&mut self, shared: &mut Shared, action: Action) {
        match action {
            Action::NextOrder => {
                self.order = columns::next(&ORDERS, self.order);
                return self.resort(shared);
            }
            Action::ReverseOrder => {
                self.reversed = !self.reversed;
                return self.resort(shared);
            }
            _ => {}
        }
        let height = shared.body_rows(self);
        let done = rows::act(&mut self.outline, &mut self.table, action, height);
        if let Some(opened) = done {
            rows::say_opened(shared, opened);
        }
    }

    fn click(&mut self, shared: &mut Shared, at: Position) {
        let area = shared.body(self);
        let body = (area, shared.body_rows(self));
        match rows::click_table(&mut self.outline, shared, body, at) {
            Clicked::Headings => {
                if let Some(by) = columns_of(area.width).order_at(at.x) {
                    rows::choose_order(by, &mut self.order, &mut self.reversed);
                }
                self.resort(shared);
            }
            Clicked::Fold => self.act(shared, Action::Toggle),
            Clicked::Row => {}
        }
    }

    fn scroll(&mut self) -> Option<&mut Scroll> {
        Some(&mut self.outline.scroll)
    }

    fn find(&mut self, _shared: &mut Shared, found: &Found, forwards: bool) -> bool {
        let table = &self.table;
        rows::find(&mut self.outline, found, forwards, |row| {
            table.of(row.node).map(|(entry, _)| entry.site)
        })
    }

    fn written_rows(&self) -> Option<usize> {
        Some(self.outline.rows().len() + 1)
    }

    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let mut body = area;
        let columns = columns_of(area.width);
        if shared.switches.headings {
            let pen = Pen::new(buffer, &shared.theme, area, 0);
            let order = Some((self.order, self.reversed));
            columns.draw_headings(order, &shared.theme, pen);
            body.y += 1;
            body.height = body.height.saturating_sub(1);
        }
        let scroll = &self.outline.scroll;
        let top = scroll.top(usize::from(body.height));
        let rows = self.outline.rows().iter().enumerate().skip(top);
        for (at, (index, row)) in (0..body.height).zip(rows) {
            let mut pen = Pen::new(buffer, &shared.theme, body, at);
            match self.table.of(row.node) {
                Some((entry, None)) => {
                    draw_entry(shared, &columns, (entry, row.is_open), &mut pen);
                }
                Some((entry, Some(line))) => {
                    pen.put(&below(entry, line, shared.sides), shared.theme.dim());
                }
                None => {}
            }
            if index == scroll.cursor() {
                style_row(buffer, body, at, shared.theme.selected());
            }
        }
    }
}

/// The functions that the limit for rows lets pass.
fn shown(changes: &Between, shared: &Shared) -> Vec<ChangedFunction> {
    let least = f64::from(shared.switches.least) / 1000.0;
    let is_shown = |entry: &&ChangedFunction| {
        let size = entry.own.before.max(entry.own.after);
        size > 0.0 && size >= least
    };
    changes.functions.iter().filter(is_shown).copied().collect()
}

/// What the change of a cost is, in words.
pub(super) fn said(changed: &Changed) -> String {
    let interval = changed.interval();
    format!(
        "{:.2}% -> {:.2}% of the total before: {:+.2}% [{:+.2}, {:+.2}], {}",
        changed.before,
        changed.after,
        changed.change.value,
        interval.low,
        interval.high,
        changed.word(),
    )
}

fn of_totals([before, after]: [f64; 2], sides: Option<RunsOfSides>) -> String {
    let change = 100.0 * (after - before) / before.max(f64::MIN_POSITIVE);
    let known = match sides.filter(|sides| sides.before > 1 && sides.after > 1) {
        Some(RunsOfSides { before, after }) => {
            format!("of {before} and {after} runs: intervals are what other runs would show")
        }
        None => "how much two runs differ by themselves is not known".to_owned(),
    };
    format!("all that is shown {change:+.2}%; {known}")
}

/// A line below an opened row.
fn below(entry: &ChangedFunction, line: u32, sides: Option<RunsOfSides>) -> String {
    let [before, after] = entry.samples;
    match (line, entry.own.verdict) {
        (0, _) => format!("  with what it calls {}", said(&entry.total)),
        (_, Verdict::Undecided { needs: Some(needs) })
            if sides.is_some_and(RunsOfSides::are_several) =>
        {
            format!("  {before} samples before, {after} after; {needs} runs a side would decide")
        }
        (_, Verdict::Undecided { needs: Some(needs) }) => {
            format!("  {before} samples before, {after} after; {needs} times as many would decide")
        }
        _ => format!("  {before} samples before, {after} after"),
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "same",
        Verdict::Undecided { .. } => "undecided",
    }
}

/// By what a cost after, percent of the total before, is multiplied to be a share of its
/// own side, as `prof diff` shows it.
fn of_own_side(shared: &Shared) -> f64 {
    let totals = shared.changes.as_ref().map(|it| it.totals);
    totals.map_or(1.0, |[before, after]| match after > 0.0 {
        true => before / after,
        false => 0.0,
    })
}

/// Draws the row of a function, whether it is open or not.
fn draw_entry(
    shared: &Shared,
    columns: &Columns<Shows>,
    (entry, is_open): (&ChangedFunction, bool),
    pen: &mut Pen<'_>,
) {
    let Some(seen) = &shared.seen else { return };
    let theme = &shared.theme;
    let own = &entry.own;
    let share = |share: f64| (format!("{share:.2}%"), theme.share(share));
    for column in &columns.0 {
        let (words, style) = match column.id {
            Shows::Before => share(own.before),
            Shows::After => share(own.after * of_own_side(shared)),
            Shows::Change => (format!("{:+.2}%", own.change.value), theme.change(own)),
            Shows::Interval => {
                let interval = own.interval();
                let words = format!("[{:+.2}, {:+.2}]", interval.low, interval.high);
                (words, theme.dim())
            }
            Shows::Verdict => (word(own.verdict).to_owned(), theme.change(own)),
            Shows::Dso => {
                let dso = seen.profile.dso(seen.site(entry.site).dso);
                (seen.profile.name(dso.short_name).to_owned(), theme.dim())
            }
            Shows::Name => {
                let glyphs = theme.glyphs;
                let fold = if is_open { glyphs.open } else { glyphs.closed };
                rows::draw_function(shared, seen, entry.site, fold, pen);
                continue;
            }
        };
        column.put(&words, style, pen);
    }
}

impl Changes {
    /// Dso and name of the function under the cursor, unless that is in the
    /// first row, where it starts.
    fn selected_name(&self, seen: &Seen) -> Option<(String, String)> {
        let row = self.outline.selected()?;
        let (entry, _) = self.table.of(row.node)?;
        (self.outline.scroll.cursor() > 0).then(|| name_of(seen, entry.site))
    }

    fn resort(&mut self, shared: &Shared) {
        let entries = std::mem::take(&mut self.table.entries);
        self.fill(shared, entries);
    }

    /// Orders the rows and closes all; the cursor goes to the function that it
    /// was on before other data came.
    fn fill(&mut self, shared: &Shared, mut entries: Vec<ChangedFunction>) {
        let Some(seen) = &shared.seen else { return };
        let name = |entry: &ChangedFunction| seen.site(entry.site).name(&seen.profile);
        let number = |a: f64, b: f64| b.total_cmp(&a);
        entries.sort_by(|a, b| {
            let order = match self.order {
                Shows::Verdict => by_verdict(&a.own, &b.own),
                Shows::Before => number(a.own.before, b.own.before),
                Shows::After => number(a.own.after, b.own.after),
                Shows::Change => number(a.own.change.value.abs(), b.own.change.value.abs()),
                _ => Ordering::Equal,
            };
            order.then_with(|| name(a).cmp(name(b)))
        });
        if self.reversed {
            entries.reverse();
        }
        self.table = Table { entries };
        self.outline = Outline::closed(&mut self.table);
        if self.table.entries.is_empty() {
            return;
        }
        if let Some(selected) = self.selected.take() {
            let mut entries = self.table.entries.iter();
            let at = entries.position(|entry| name_of(seen, entry.site) == selected);
            self.outline.scroll.go_to(at.unwrap_or(0));
        }
    }
}

/// What is sure first, then what is not, then what is the same; large ones
/// first.
fn by_verdict(a: &Changed, b: &Changed) -> Ordering {
    let class = |changed: &Changed| match changed.verdict {
        Verdict::Faster | Verdict::Slower => 0,
        Verdict::Undecided { .. } => 1,
        Verdict::Same => 2,
    };
    let size = |changed: &Changed| match class(changed) {
        0 => changed.change.value.abs(),
        _ => changed.before.max(changed.after),
    };
    class(a)
        .cmp(&class(b))
        .then_with(|| size(b).total_cmp(&size(a)))
}
