//! Processes and threads with their share, and when they had it.

use super::columns::{Column, Columns};
use crate::action::Action;
use crate::bindings::KeyScope;
use crate::data::{Answer, Ask};
use crate::filters;
use crate::paint::{Pen, style_row};
use crate::scroll::Scroll;
use crate::shared::{Selected, Shared};
use crate::tab::{About, Fresh, NO_ORDER, NO_REVERSE, NO_TURNING, Subject, Tab};
use crate::text;
use prof_profile::{NameId, Profile, TaskId, several};
use prof_report::model::{Heat, HeatRows, Weight};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::cmp::Reverse;
use std::collections::BTreeSet;

pub(super) const ABOUT: About = About {
    title: "Threads",
    word: "thr",
    command: "view threads",
    help: "Processes and threads with their share over time",
    scope: KeyScope::Tree,
    subject: Subject::Threads,
    shown_by: None,
    idle: &[NO_TURNING, NO_ORDER, NO_REVERSE],
};

/// Slices of the small curves.
const SLICES: usize = 48;
/// Columns of the curves: each stands for as many slices.
const CURVES: [usize; 5] = [48, 24, 16, 12, 8];
/// Columns left of and right of a curve, with room for a name.
const BESIDE: usize = 52;

/// A thread.
#[derive(Debug, Clone)]
struct Thread {
    task: TaskId,
    tid: i32,
    total: Weight,
    over_time: Vec<u64>,
}

/// A process with its threads, heaviest first.
#[derive(Debug, Clone)]
struct Process {
    pid: i32,
    /// Its first thread's.
    name: NameId,
    total: Weight,
    over_time: Vec<u64>,
    threads: Vec<Thread>,
}

/// A row: a process, or one of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadRow {
    Process(usize),
    Thread(usize, usize),
}

/// The tab.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    processes: Option<Vec<Process>>,
    rows: Vec<ThreadRow>,
    /// Processes whose threads are hidden.
    closed: BTreeSet<i32>,
    scroll: Scroll,
    /// Process and thread that the user chose.
    wanted: Option<(i32, Option<i32>)>,
    /// Those that the cursor was put on; if it still is, the user has done
    /// nothing.
    set: Option<(i32, Option<i32>)>,
}

impl Tab for Threads {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// New data: the cursor stays on its process or thread.
    fn renew(&mut self, _shared: &mut Shared, _fresh: &mut Fresh<'_>) {
        let at = self.row().and_then(|row| self.numbers(row));
        if at != self.set {
            self.wanted = at;
        }
        self.processes = None;
    }

    fn shown(&mut self, shared: &mut Shared) {
        if self.processes.is_none() {
            shared.asks.push(Ask::Heat(HeatRows::Thread, SLICES));
        }
    }

    /// Whether processes and threads are on their way.
    fn is_waiting(&self) -> bool {
        self.processes.is_none()
    }

    fn take(&mut self, shared: &mut Shared, answer: Answer) -> Option<Answer> {
        match (answer, &shared.profile) {
            (Answer::Heat(HeatRows::Thread, SLICES, heat), Some(profile)) if self.is_waiting() => {
                self.came(profile, heat);
                None
            }
            (answer, _) => Some(answer),
        }
    }

    fn selected(&self, _shared: &Shared) -> Selected {
        let task = match self.row() {
            Some(ThreadRow::Thread(process, thread)) => self
                .process(process)
                .and_then(|process| process.threads.get(thread)),
            Some(ThreadRow::Process(process)) => self
                .process(process)
                .and_then(|process| process.threads.first()),
            None => None,
        };
        Selected {
            site: None,
            task: task.map(|thread| thread.task),
        }
    }

    fn detail(&self, shared: &Shared) -> Option<String> {
        let profile = shared.profile.as_ref()?;
        let task = profile.task(self.selected(shared).task?);
        let words = match self.row()? {
            ThreadRow::Process(index) => {
                let process = self.process(index)?;
                format!(
                    "process {} {}: {}; Enter filters{}",
                    process.pid,
                    profile.name(process.name),
                    several(process.threads.len() as u64, "thread"),
                    if process.has_rows() { ", + folds" } else { "" },
                )
            }
            ThreadRow::Thread(..) => {
                format!(
                    "thread {} {} of process {}; Enter or t filters",
                    task.tid,
                    profile.name(task.comm),
                    task.pid
                )
            }
        };
        Some(words)
    }

    fn act(&mut self, shared: &mut Shared, action: Action) {
        let height = shared.body_rows(self);
        match action {
            action if self.scroll.moves(action, height) => {}
            Action::Toggle | Action::Left | Action::Right => self.fold(),
            Action::ExpandAll => {
                self.closed.clear();
                self.lay_out();
            }
            Action::CollapseAll => {
                let all = self.processes.iter().flatten().map(|process| process.pid);
                self.closed = all.collect();
                self.lay_out();
            }
            Action::Enter | Action::ZoomThread => self.filter(shared),
            _ => {}
        }
    }

    fn click(&mut self, shared: &mut Shared, at: Position) {
        let height = shared.body_rows(self);
        let Some(row) = at.y.checked_sub(1) else {
            return;
        };
        self.scroll.settle(height);
        let line = self.scroll.top(height) + usize::from(row);
        let was_there = self.scroll.cursor() == line;
        self.scroll.go_to(line);
        if was_there {
            self.fold();
        }
    }

    fn scroll(&mut self) -> Option<&mut Scroll> {
        Some(&mut self.scroll)
    }

    fn written_rows(&self) -> Option<usize> {
        Some(self.rows.len() + 1)
    }

    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let theme = &shared.theme;
        let (Some(profile), Some(_)) = (&shared.profile, &self.processes) else {
            Pen::new(buffer, theme, area, 0)
                .gap(2)
                .put("computing", theme.dim());
            return;
        };
        let columns = curve_columns(area.width);
        let table = columns_of(shared, columns);
        table.draw_headings(None, theme, Pen::new(buffer, theme, area, 0));
        let body = Rect {
            y: area.y + 1,
            height: area.height.saturating_sub(1),
            ..area
        };
        let top = self.scroll.top(usize::from(body.height));
        let peak = self.peak(columns);
        for (at, (index, &row)) in (0..body.height).zip(self.rows.iter().enumerate().skip(top)) {
            let Some(line) = self.line(profile, row) else {
                continue;
            };
            let over_time = merged(line.over_time, columns);
            let curve = spark(&over_time, peak, &theme.glyphs.spark);
            let pen = Pen::new(buffer, theme, body, at);
            line.draw(shared, &table, &curve, pen);
            if index == self.scroll.cursor() {
                style_row(buffer, body, at, theme.selected());
            }
        }
    }
}

impl Threads {
    /// Process and thread of a row.
    fn numbers(&self, row: ThreadRow) -> Option<(i32, Option<i32>)> {
        match row {
            ThreadRow::Process(index) => Some((self.process(index)?.pid, None)),
            ThreadRow::Thread(index, thread) => {
                let process = self.process(index)?;
                Some((process.pid, Some(process.threads.get(thread)?.tid)))
            }
        }
    }

    /// Puts the cursor where it was, or on the process of the thread, or on
    /// the first row.
    fn place(&mut self) {
        let all = || self.rows.iter().map(|&row| self.numbers(row));
        let at = self.wanted.and_then(|wanted| {
            let of_process = Some((wanted.0, None));
            let exact = all().position(|it| it == Some(wanted));
            exact.or_else(|| all().position(|it| it == of_process))
        });
        self.scroll.go_to(at.unwrap_or(0));
        self.set = self.row().and_then(|row| self.numbers(row));
    }

    /// The samples over time came, by thread.
    fn came(&mut self, profile: &Profile, heat: Heat) {
        let mut processes: Vec<Process> = Vec::new();
        let last = profile.last_tasks();
        for (row, cells) in heat.rows.iter().zip(heat.cells) {
            if row.shown.is_zero() {
                continue;
            }
            let Some(task) = row.task else { continue };
            let about = profile.task(task);
            let task = last.get(&about.tid).copied().unwrap_or(task);
            let thread = Thread {
                task,
                tid: about.tid,
                total: row.shown,
                over_time: cells.iter().map(|cell| cell.period).collect(),
            };
            let known = processes
                .iter_mut()
                .find(|process| process.pid == about.pid);
            match known {
                Some(process) => process.add(thread),
                None => processes.push(Process {
                    pid: about.pid,
                    name: profile.task(task).comm,
                    total: thread.total,
                    over_time: thread.over_time.clone(),
                    threads: vec![thread],
                }),
            }
        }
        for process in &mut processes {
            process
                .threads
                .sort_by_key(|thread| (Reverse(thread.total), thread.tid));
            process.name = named_as(profile, process);
        }
        processes.sort_by_key(|process| (Reverse(process.total), process.pid));
        self.processes = Some(processes);
        self.lay_out();
        self.place();
    }

    fn lay_out(&mut self) {
        self.rows.clear();
        for (index, process) in self.processes.iter().flatten().enumerate() {
            self.rows.push(ThreadRow::Process(index));
            if process.has_rows() && !self.closed.contains(&process.pid) {
                let threads = 0..process.threads.len();
                self.rows
                    .extend(threads.map(|thread| ThreadRow::Thread(index, thread)));
            }
        }
        self.scroll.set_len(self.rows.len());
    }

    fn process(&self, index: usize) -> Option<&Process> {
        self.processes.as_ref()?.get(index)
    }

    fn row(&self) -> Option<ThreadRow> {
        self.rows.get(self.scroll.cursor()).copied()
    }

    fn fold(&mut self) {
        let (Some(ThreadRow::Process(index)) | Some(ThreadRow::Thread(index, _))) = self.row()
        else {
            return;
        };
        let Some(pid) = self.process(index).map(|process| process.pid) else {
            return;
        };
        if !self.closed.remove(&pid) {
            self.closed.insert(pid);
        }
        self.lay_out();
        let at = self
            .rows
            .iter()
            .position(|&row| row == ThreadRow::Process(index));
        self.scroll.go_to(at.unwrap_or(0));
    }

    /// Only the selected process or thread, or all again.
    fn filter(&self, shared: &mut Shared) {
        let (Some(profile), Some(task)) = (shared.profile.clone(), self.selected(shared).task)
        else {
            return;
        };
        match self.row() {
            Some(ThreadRow::Process(_)) => {
                let pid = profile.task(task).pid;
                shared.change(|selection| filters::zoom(&mut selection.filter.pids, pid));
            }
            _ => shared.change(|selection| filters::zoom_thread(selection, &profile, task)),
        }
    }

    /// The most that a process has in a column. One scale for all curves, so
    /// that they compare.
    fn peak(&self, columns: usize) -> u64 {
        let processes = self.processes.iter().flatten();
        let all = processes.flat_map(|process| merged(&process.over_time, columns));
        all.max().unwrap_or(0)
    }

    fn line(&self, profile: &Profile, row: ThreadRow) -> Option<ThreadCells<'_>> {
        match row {
            ThreadRow::Process(index) => {
                let process = self.process(index)?;
                Some(ThreadCells {
                    is_process: true,
                    number: process.pid,
                    name: process.name,
                    total: process.total,
                    over_time: &process.over_time,
                    is_open: process
                        .has_rows()
                        .then(|| !self.closed.contains(&process.pid)),
                })
            }
            ThreadRow::Thread(index, thread) => {
                let process = self.process(index)?;
                let thread = process.threads.get(thread)?;
                Some(ThreadCells {
                    is_process: false,
                    number: thread.tid,
                    name: profile.task(thread.task).comm,
                    total: thread.total,
                    over_time: &thread.over_time,
                    is_open: None,
                })
            }
        }
    }
}

impl Process {
    /// Whether its threads have rows. The first one, if it is the only one, would be
    /// the same row again.
    fn has_rows(&self) -> bool {
        match self.threads.as_slice() {
            [only] => only.tid != self.pid,
            _ => true,
        }
    }

    fn add(&mut self, thread: Thread) {
        self.total += thread.total;
        for (sum, part) in self.over_time.iter_mut().zip(&thread.over_time) {
            *sum = sum.saturating_add(*part);
        }
        self.threads.push(thread);
    }
}

/// What a row shows.
struct ThreadCells<'a> {
    is_process: bool,
    number: i32,
    name: NameId,
    total: Weight,
    over_time: &'a [u64],
    is_open: Option<bool>,
}

impl ThreadCells<'_> {
    /// Draws it; `curve` is its weight over time.
    fn draw(&self, shared: &Shared, table: &Columns<Shows>, curve: &str, mut pen: Pen<'_>) {
        let theme = &shared.theme;
        let plain = ratatui::style::Style::new();
        for column in &table.0 {
            let (words, style) = match column.id {
                Shows::Share => {
                    let percent = self.total.percent_of(shared.whole());
                    (shared.share(self.total), theme.share(percent))
                }
                Shows::Samples => (text::grouped(self.total.samples), plain),
                Shows::OverTime => (curve.to_owned(), theme.bar()),
                Shows::Number => (self.number.to_string(), plain),
                Shows::Name => {
                    self.draw_name(shared, &mut pen);
                    continue;
                }
            };
            column.put(&words, style, &mut pen);
        }
    }

    fn draw_name(&self, shared: &Shared, pen: &mut Pen<'_>) {
        let Some(profile) = &shared.profile else {
            return;
        };
        let theme = &shared.theme;
        let fold = match self.is_open {
            Some(true) => theme.glyphs.open,
            Some(false) => theme.glyphs.closed,
            None if self.is_process => theme.glyphs.leaf,
            None => "    ",
        };
        let style = match self.is_process {
            true => theme.heading(),
            false => ratatui::style::Style::new(),
        };
        let name = profile.name(self.name);
        pen.put(fold, theme.dim()).put(name, style);
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    Share,
    Samples,
    OverTime,
    /// Process or thread id.
    Number,
    Name,
}

/// The columns, with a curve of so many characters.
fn columns_of(shared: &Shared, curve: usize) -> Columns<Shows> {
    let is_all = shared.history.now().scope.times.is_empty();
    let over = if is_all { "Over time" } else { "Over all time" };
    let mut list = vec![
        Column::right(Shows::Share, "Share", 8),
        Column::right(Shows::Samples, "Samples", 10).gap(2),
    ];
    if curve > 0 {
        list.push(Column::left(Shows::OverTime, over, curve + 1).gap(2));
    }
    list.push(Column::right(Shows::Number, "Pid/Tid", 10).gap(2));
    list.push(Column::rest(Shows::Name, "Name"));
    Columns(list)
}

/// The name of a process: that of its first thread, if it has one, or of the
/// heaviest one.
fn named_as(profile: &Profile, process: &Process) -> NameId {
    let heaviest = process.threads.first();
    let heaviest = heaviest.map(|thread| profile.task(thread.task).comm);
    let first = profile.last_name(process.pid);
    first.or(heaviest).unwrap_or(process.name)
}

/// Columns for a curve, so that names are seen beside it.
fn curve_columns(width: u16) -> usize {
    let room = usize::from(width).saturating_sub(BESIDE);
    let fitting = CURVES.into_iter().find(|&columns| columns <= room);
    fitting.unwrap_or(0)
}

/// Slices put together into so many columns.
fn merged(slices: &[u64], columns: usize) -> Vec<u64> {
    let each = slices.len().checked_div(columns).unwrap_or(0).max(1);
    let sum = |part: &[u64]| part.iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
    slices.chunks(each).map(sum).take(columns).collect()
}

/// A curve of one cell a slice; what is more than nothing is seen.
fn spark(values: &[u64], peak: u64, glyphs: &[&'static str; 9]) -> String {
    let level = |value: u64| {
        let exact = (u128::from(value) * 8).div_ceil(u128::from(peak.max(1)));
        usize::try_from(exact).unwrap_or(8).min(8)
    };
    values
        .iter()
        .filter_map(|&value| glyphs.get(level(value)).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::spark;

    #[test]
    fn a_curve_shows_something_for_anything() {
        let glyphs = ["0", "1", "2", "3", "4", "5", "6", "7", "8"];
        assert_eq!(spark(&[0, 1, 50, 100], 100, &glyphs), "0148");
        assert_eq!(spark(&[0, 0], 0, &glyphs), "00");
    }
}
