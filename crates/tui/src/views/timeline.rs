//! When and on which CPU the samples fell; a range selected here holds in
//! every view.

use super::{About, Fresh, Subject, Tab};
use crate::action::Action;
use crate::bindings::KeyScope;
use crate::data::{Answer, Ask};
use crate::filters;
use crate::frame::samples;
use crate::paint::{Pen, percent};
use crate::shared::{Selected, Shared};
use crate::text;
use crate::theme::HEAT_LEVELS;
use crate::views::threads::first_thread;
use prof_report::model::{Heat, HeatRows, TimeRange, Weight};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};

pub(super) const ABOUT: About = About {
    title: "Timeline",
    word: "time",
    command: "view timeline",
    help: "When and on which CPU the samples fell",
    scope: KeyScope::Timeline,
    subject: Subject::Samples,
    shown_by: None,
    idle: &[],
};

/// Columns of the rows' names.
const LABEL: u16 = 18;

/// The tab.
#[derive(Debug)]
pub(crate) struct Timeline {
    rows: HeatRows,
    heat: Option<Heat>,
    /// Start and slice of the last map, ns, while the next one is on its way:
    /// a profile with more names has the same times.
    axis: Option<(u64, u64)>,
    /// Slices of the heat map.
    slices: usize,
    /// How many times narrower than the whole the screen is: 1, 2, 4...
    zoom: usize,
    /// First slice on the screen.
    left: usize,
    /// Slice of the cursor.
    cursor: usize,
    /// First row on the screen.
    top: usize,
    /// Where a range was begun.
    mark: Option<usize>,
    /// Whether the mouse moved with its button down since then.
    is_dragged: bool,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            rows: HeatRows::Cpu,
            heat: None,
            axis: None,
            slices: 0,
            zoom: 1,
            left: 0,
            cursor: 0,
            top: 0,
            mark: None,
            is_dragged: false,
        }
    }
}

/// The most the map is magnified.
const MOST_ZOOM: usize = 64;

impl Tab for Timeline {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn renew(&mut self, _shared: &mut Shared, _fresh: &mut Fresh<'_>) {
        self.heat = None;
    }

    fn shown(&mut self, shared: &mut Shared) {
        let columns = columns(shared);
        let slices = columns.max(1) * self.zoom;
        if self.heat.is_none() || self.slices != slices {
            let before = self.slices.max(1);
            self.axis = self.axis.filter(|_| self.slices == slices);
            self.cursor = self.cursor * slices / before;
            self.mark = self.mark.map(|mark| mark * slices / before);
            self.slices = slices;
            self.settle(columns);
            shared.asks.push(Ask::Heat(self.rows, slices));
        }
    }

    fn resized(&mut self, shared: &mut Shared) {
        // A column is a slice of the time.
        self.shown(shared);
    }

    /// Whether the map is on its way.
    fn is_waiting(&self) -> bool {
        self.heat.is_none()
    }

    fn take(&mut self, _shared: &mut Shared, answer: Answer) -> Option<Answer> {
        match answer {
            Answer::Heat(rows, slices, heat) if (rows, slices) == (self.rows, self.slices) => {
                self.axis = Some((heat.start, heat.slice));
                self.heat = Some(heat);
                None
            }
            answer => Some(answer),
        }
    }

    fn selected(&self, _shared: &Shared) -> Selected {
        Selected::default()
    }

    fn detail(&self, shared: &Shared) -> Option<String> {
        let range = self.range()?;
        let heat = self.heat.as_ref()?;
        let since = |time: u64| text::duration(time.saturating_sub(heat.start));
        let mark = self.mark.unwrap_or(self.cursor);
        let (first, last) = (mark.min(self.cursor), mark.max(self.cursor));
        let weight = self.weight_between(first, last);
        // A range selected before is no measure for what is outside of it.
        let is_all = shared.history.now().scope.times.is_empty();
        let everything = || self.weight_between(0, self.slices);
        let whole = if is_all { shared.whole() } else { everything() };
        let share = percent(weight.percent_of(whole));
        let share = format!(
            "{}{}",
            share.trim(),
            if is_all { "" } else { " of those at any time" }
        );
        let next = match (self.mark, is_all) {
            (Some(_), _) => "Enter ends the range, Esc drops it",
            (None, true) => "Enter begins a range",
            (None, false) => "Enter begins another range, u takes this one back",
        };
        Some(format!(
            "{} .. {} ({}): {}, {share}; {next}",
            since(range.start),
            since(range.end),
            text::duration(range.end.saturating_sub(range.start)),
            samples(weight.samples),
        ))
    }

    fn act(&mut self, shared: &mut Shared, action: Action) {
        let columns = columns(shared);
        let page = columns / 4;
        let last = self.slices.saturating_sub(1);
        match action {
            Action::Left => self.cursor = self.cursor.saturating_sub(1),
            Action::Right => self.cursor = (self.cursor + 1).min(last),
            Action::PageUp => self.cursor = self.cursor.saturating_sub(page),
            Action::PageDown => self.cursor = (self.cursor + page).min(last),
            Action::Home => self.cursor = 0,
            Action::End => self.cursor = last,
            Action::Up => self.top = self.top.saturating_sub(1),
            Action::Down => {
                let rows = self.heat.as_ref().map_or(0, |heat| heat.rows.len());
                self.top = (self.top + 1).min(rows.saturating_sub(1));
            }
            Action::ZoomIn => self.zoom = (self.zoom * 2).min(MOST_ZOOM),
            Action::ZoomOut => self.zoom = (self.zoom / 2).max(1),
            Action::NextOrder => {
                self.rows = match self.rows {
                    HeatRows::Cpu => HeatRows::Process,
                    HeatRows::Process => HeatRows::Thread,
                    HeatRows::Thread | HeatRows::All => HeatRows::Cpu,
                };
                self.heat = None;
                self.top = 0;
            }
            Action::Mark => return self.mark(shared),
            _ => {}
        }
        self.settle(columns);
        self.shown(shared);
    }

    /// Drops the mark; whether there was one.
    fn back(&mut self, _shared: &mut Shared) -> bool {
        self.mark.take().is_some()
    }

    fn click(&mut self, shared: &mut Shared, at: Position) {
        let Some(column) = at.x.checked_sub(LABEL) else {
            return;
        };
        let slice = self.left + usize::from(column);
        self.cursor = slice.min(self.slices.saturating_sub(1));
        self.mark(shared);
    }

    /// The mouse moved with its button down: the range that its press began
    /// goes to here.
    fn drag(&mut self, shared: &mut Shared, column: u16) {
        let columns = columns(shared);
        if self.mark.is_none() {
            return;
        }
        let column = usize::from(column.saturating_sub(LABEL)).min(columns.saturating_sub(1));
        let slice = self.left + column;
        self.cursor = slice.min(self.slices.saturating_sub(1));
        self.is_dragged |= self.mark != Some(self.cursor);
    }

    /// The button was let go: ends a range that was dragged.
    fn drop_at(&mut self, shared: &mut Shared) {
        if std::mem::take(&mut self.is_dragged) && self.mark.is_some() {
            self.mark(shared);
        }
    }

    fn wheel(&mut self, _shared: &mut Shared, rows: isize) {
        let count = self.heat.as_ref().map_or(0, |heat| heat.rows.len());
        let top = self.top.saturating_add_signed(rows);
        self.top = top.min(count.saturating_sub(1));
    }

    fn written_rows(&self) -> Option<usize> {
        None
    }

    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let theme = &shared.theme;
        let Some(heat) = &self.heat else {
            Pen::new(buffer, theme, area, 0)
                .gap(2)
                .put("computing", theme.dim());
            return;
        };
        if heat.rows.is_empty() {
            let words = "the samples have no times; record with -T";
            Pen::new(buffer, theme, area, 0)
                .gap(2)
                .put(words, theme.warning());
            return;
        }
        self.draw_axis(shared, heat, Pen::new(buffer, theme, area, 0));
        let rows = area.height.saturating_sub(2);
        let all = self.sums(heat);
        let peak = all.iter().copied().max().unwrap_or(0);
        let pen = Pen::new(buffer, theme, area, 1);
        self.draw_cells(shared, "all", &all, peak, pen);
        let peak = heat.peak().period;
        for at in 0..rows {
            let index = usize::from(at) + self.top;
            let (Some(row), Some(cells)) = (heat.rows.get(index), heat.cells.get(index)) else {
                break;
            };
            let label = self.label(shared, row.number, row.task);
            let cells: Vec<u64> = cells.iter().map(|cell| cell.period).collect();
            let pen = Pen::new(buffer, theme, area, at + 2);
            self.draw_cells(shared, &label, &cells, peak, pen);
        }
    }
}

impl Timeline {
    /// The range from the mark to the cursor, or only the cursor's slice;
    /// `None` where it is not known yet how long a slice is.
    fn range(&self) -> Option<TimeRange> {
        let (start, length) = self.axis?;
        let mark = self.mark.unwrap_or(self.cursor);
        let (first, last) = (mark.min(self.cursor), mark.max(self.cursor));
        let at = |slice: usize| start.saturating_add(length.saturating_mul(slice as u64));
        Some(TimeRange {
            start: at(first),
            end: at(last + 1).saturating_sub(1),
        })
    }

    fn weight_between(&self, first: usize, last: usize) -> Weight {
        let rows = self.heat.iter().flat_map(|heat| &heat.cells);
        rows.flat_map(|cells| {
            cells
                .get(first..=last.min(cells.len().saturating_sub(1)))
                .unwrap_or_default()
        })
        .copied()
        .sum()
    }

    /// Keeps the cursor on the screen.
    fn settle(&mut self, columns: usize) {
        self.cursor = self.cursor.min(self.slices.saturating_sub(1));
        let lowest = (self.cursor + 1).saturating_sub(columns.max(1));
        self.left = self.left.clamp(lowest, self.cursor.max(lowest));
    }

    fn mark(&mut self, shared: &mut Shared) {
        if self.mark.is_none() {
            self.mark = Some(self.cursor);
            return;
        }
        let Some(range) = self.range() else {
            return;
        };
        self.mark = None;
        self.is_dragged = false;
        shared.change(|selection| filters::set_time(selection, Some(range)));
        shared.say("every view shows only this time; u takes it back");
    }

    fn label(&self, shared: &Shared, number: i64, task: Option<prof_profile::TaskId>) -> String {
        let name = task.and_then(|task| {
            let profile = shared.profile.as_ref()?;
            let about = profile.task(task);
            // A process has the name of its first thread.
            let first = (self.rows == HeatRows::Process).then(|| first_thread(profile, about.pid));
            let named = first.flatten().map_or(about, |first| profile.task(first));
            Some(profile.name(named.comm).to_string())
        });
        match (self.rows, name) {
            (HeatRows::Cpu, _) if number < 0 => "no CPU told".into(),
            (HeatRows::Cpu, _) => format!("CPU {number}"),
            (_, Some(name)) => format!("{number} {name}"),
            (_, None) => number.to_string(),
        }
    }

    /// Weight of all rows by slice.
    fn sums(&self, heat: &Heat) -> Vec<u64> {
        let mut sums = vec![0_u64; self.slices];
        for cells in &heat.cells {
            for (sum, cell) in sums.iter_mut().zip(cells) {
                *sum = sum.saturating_add(cell.period);
            }
        }
        sums
    }

    /// Draws a row's name and values into the row of the pen.
    fn draw_cells(&self, shared: &Shared, label: &str, cells: &[u64], peak: u64, mut pen: Pen<'_>) {
        let theme = &shared.theme;
        let mark = self.mark.unwrap_or(self.cursor);
        let (first, last) = (mark.min(self.cursor), mark.max(self.cursor));
        pen.cell(label, usize::from(LABEL) - 1, Style::new()).gap(1);
        let shown = cells.iter().enumerate().skip(self.left);
        for (slice, &value) in shown.take(pen.room()) {
            let level = (u128::from(value) * HEAT_LEVELS as u128).div_ceil(u128::from(peak.max(1)));
            let level = usize::try_from(level)
                .unwrap_or(HEAT_LEVELS)
                .min(HEAT_LEVELS);
            let glyph = theme.glyphs.heat.get(level).copied().unwrap_or(" ");
            let mut style = theme.heat(level);
            if (first..=last).contains(&slice) {
                style = style.add_modifier(Modifier::REVERSED);
            }
            pen.put(glyph, style);
        }
    }

    /// Times along the top.
    fn draw_axis(&self, shared: &Shared, heat: &Heat, mut pen: Pen<'_>) {
        let theme = &shared.theme;
        let what = match self.rows {
            HeatRows::Cpu => "by CPU (o)",
            HeatRows::Process => "by process (o)",
            HeatRows::Thread | HeatRows::All => "by thread (o)",
        };
        pen.cell(what, usize::from(LABEL) - 1, theme.heading())
            .gap(1);
        let mut slice = self.left;
        while pen.room() > 0 {
            let time = text::duration(heat.slice.saturating_mul(slice as u64));
            let tick = format!("{}{time}", theme.glyphs.vertical);
            if text::width(&tick) > pen.room() {
                break;
            }
            pen.cell(&tick, 16, theme.dim());
            slice += 16;
        }
    }
}

/// Columns for the map.
fn columns(shared: &Shared) -> usize {
    usize::from(shared.area.width.saturating_sub(LABEL))
}
