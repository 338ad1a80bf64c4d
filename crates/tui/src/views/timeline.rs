//! When and on which CPU the samples fell; a range selected here holds in
//! every view.

use crate::action::Action;
use crate::app::{App, Selected};
use crate::data::Ask;
use crate::filters;
use crate::frame::samples;
use crate::paint::{Pen, percent};
use crate::text;
use crate::theme::HEAT_LEVELS;
use crate::views::View;
use crate::views::threads::first_thread;
use prof_report::model::{Heat, HeatRows, TimeRange, Weight};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// Columns of the rows' names.
const LABEL: u16 = 18;

/// The tab.
#[derive(Debug)]
pub(crate) struct Timeline {
    rows: HeatRows,
    heat: Option<Heat>,
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

impl Timeline {
    pub(crate) fn renew(&mut self) {
        self.heat = None;
    }

    /// Whether the map is on its way.
    pub(crate) fn is_waiting(&self) -> bool {
        self.heat.is_none()
    }

    pub(crate) fn shown(app: &mut App) {
        let columns = Self::columns(app);
        let timeline = &mut app.timeline;
        let slices = columns.max(1) * timeline.zoom;
        if timeline.heat.is_none() || timeline.slices != slices {
            let before = timeline.slices.max(1);
            timeline.cursor = timeline.cursor * slices / before;
            timeline.mark = timeline.mark.map(|mark| mark * slices / before);
            timeline.slices = slices;
            let rows = timeline.rows;
            timeline.settle(columns);
            app.asks.push(Ask::Heat(rows, slices));
        }
    }

    /// Columns for the map.
    fn columns(app: &App) -> usize {
        usize::from(app.area.width.saturating_sub(LABEL))
    }

    pub(crate) fn came(&mut self, rows: HeatRows, heat: Heat) {
        if rows == self.rows {
            self.heat = Some(heat);
        }
    }

    #[expect(clippy::unused_self, reason = "as for the other views")]
    pub(crate) fn selected(&self) -> Selected {
        Selected::default()
    }

    /// The range from the mark to the cursor, or only the cursor's slice.
    fn range(&self) -> Option<TimeRange> {
        let heat = self.heat.as_ref()?;
        let mark = self.mark.unwrap_or(self.cursor);
        let (first, last) = (mark.min(self.cursor), mark.max(self.cursor));
        let at = |slice: usize| {
            heat.start
                .saturating_add(heat.slice.saturating_mul(slice as u64))
        };
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

    pub(crate) fn detail(&self, app: &App) -> Option<String> {
        let range = self.range()?;
        let heat = self.heat.as_ref()?;
        let since = |time: u64| text::duration(time.saturating_sub(heat.start));
        let mark = self.mark.unwrap_or(self.cursor);
        let (first, last) = (mark.min(self.cursor), mark.max(self.cursor));
        let weight = self.weight_between(first, last);
        // A range selected before is no measure for what is outside of it.
        let is_all = app.history.now().scope.times.is_empty();
        let everything = || self.weight_between(0, self.slices);
        let whole = if is_all { app.whole() } else { everything() };
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

    /// Drops the mark; whether there was one.
    pub(crate) fn cancel(app: &mut App) -> bool {
        app.view == View::Timeline && app.timeline.mark.take().is_some()
    }

    pub(crate) fn act(app: &mut App, action: Action) {
        let columns = Self::columns(app);
        let page = columns / 4;
        let timeline = &mut app.timeline;
        let last = timeline.slices.saturating_sub(1);
        match action {
            Action::Left => timeline.cursor = timeline.cursor.saturating_sub(1),
            Action::Right => timeline.cursor = (timeline.cursor + 1).min(last),
            Action::PageUp => timeline.cursor = timeline.cursor.saturating_sub(page),
            Action::PageDown => timeline.cursor = (timeline.cursor + page).min(last),
            Action::Home => timeline.cursor = 0,
            Action::End => timeline.cursor = last,
            Action::Up => timeline.top = timeline.top.saturating_sub(1),
            Action::Down => {
                let rows = timeline.heat.as_ref().map_or(0, |heat| heat.rows.len());
                timeline.top = (timeline.top + 1).min(rows.saturating_sub(1));
            }
            Action::ZoomIn => timeline.zoom = (timeline.zoom * 2).min(MOST_ZOOM),
            Action::ZoomOut => timeline.zoom = (timeline.zoom / 2).max(1),
            Action::NextOrder => {
                timeline.rows = match timeline.rows {
                    HeatRows::Cpu => HeatRows::Process,
                    HeatRows::Process => HeatRows::Thread,
                    HeatRows::Thread | HeatRows::All => HeatRows::Cpu,
                };
                timeline.heat = None;
                timeline.top = 0;
            }
            Action::Mark => return Self::mark(app),
            _ => {}
        }
        app.timeline.settle(columns);
        Self::shown(app);
    }

    /// Keeps the cursor on the screen.
    fn settle(&mut self, columns: usize) {
        self.cursor = self.cursor.min(self.slices.saturating_sub(1));
        let lowest = (self.cursor + 1).saturating_sub(columns.max(1));
        self.left = self.left.clamp(lowest, self.cursor.max(lowest));
    }

    fn mark(app: &mut App) {
        if app.timeline.mark.is_none() {
            app.timeline.mark = Some(app.timeline.cursor);
            return;
        }
        let range = app.timeline.range();
        app.timeline.mark = None;
        app.timeline.is_dragged = false;
        app.change(|selection| filters::set_time(selection, range));
        app.say("every view shows only this time; u takes it back");
    }

    pub(crate) fn click(app: &mut App, column: u16) {
        let Some(column) = column.checked_sub(LABEL) else {
            return;
        };
        let slice = app.timeline.left + usize::from(column);
        app.timeline.cursor = slice.min(app.timeline.slices.saturating_sub(1));
        Self::mark(app);
    }

    /// The mouse moved with its button down: the range that its press began
    /// goes to here.
    pub(crate) fn drag(app: &mut App, column: u16) {
        let columns = Self::columns(app);
        let timeline = &mut app.timeline;
        if timeline.mark.is_none() {
            return;
        }
        let column = usize::from(column.saturating_sub(LABEL)).min(columns.saturating_sub(1));
        let slice = timeline.left + column;
        timeline.cursor = slice.min(timeline.slices.saturating_sub(1));
        timeline.is_dragged |= timeline.mark != Some(timeline.cursor);
    }

    /// The button was let go: ends a range that was dragged.
    pub(crate) fn drop_at(app: &mut App) {
        if std::mem::take(&mut app.timeline.is_dragged) && app.timeline.mark.is_some() {
            Self::mark(app);
        }
    }

    pub(crate) fn wheel(&mut self, rows: isize) {
        let count = self.heat.as_ref().map_or(0, |heat| heat.rows.len());
        let top = self.top.saturating_add_signed(rows);
        self.top = top.min(count.saturating_sub(1));
    }

    pub(crate) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
        let theme = &app.theme;
        let timeline = &app.timeline;
        let Some(heat) = &timeline.heat else {
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
        timeline.draw_axis(app, heat, area, buffer);
        let rows = area.height.saturating_sub(2);
        let all = timeline.sums(heat);
        timeline.draw_row(app, area, 1, "all", &all, buffer);
        let peak = heat.peak().period;
        for at in 0..rows {
            let index = usize::from(at) + timeline.top;
            let (Some(row), Some(cells)) = (heat.rows.get(index), heat.cells.get(index)) else {
                break;
            };
            let label = timeline.label(app, row.number, row.task);
            let cells: Vec<u64> = cells.iter().map(|cell| cell.period).collect();
            timeline.draw_cells(app, area, at + 2, &label, &cells, peak, buffer);
        }
    }

    fn label(&self, app: &App, number: i64, task: Option<prof_profile::TaskId>) -> String {
        let name = task.and_then(|task| {
            let profile = app.profile.as_ref()?;
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

    fn draw_row(
        &self,
        app: &App,
        area: Rect,
        row: u16,
        label: &str,
        cells: &[u64],
        buffer: &mut Buffer,
    ) {
        let peak = cells.iter().copied().max().unwrap_or(0);
        self.draw_cells(app, area, row, label, cells, peak, buffer);
    }

    #[expect(clippy::too_many_arguments, reason = "a row's place, name and values")]
    fn draw_cells(
        &self,
        app: &App,
        area: Rect,
        row: u16,
        label: &str,
        cells: &[u64],
        peak: u64,
        buffer: &mut Buffer,
    ) {
        let theme = &app.theme;
        let mark = self.mark.unwrap_or(self.cursor);
        let (first, last) = (mark.min(self.cursor), mark.max(self.cursor));
        let mut pen = Pen::new(buffer, theme, area, row);
        pen.cell(label, usize::from(LABEL) - 1, Style::new()).gap(1);
        let shown = cells.iter().enumerate().skip(self.left);
        for (slice, &value) in shown.take(usize::from(area.width.saturating_sub(LABEL))) {
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
    fn draw_axis(&self, app: &App, heat: &Heat, area: Rect, buffer: &mut Buffer) {
        let theme = &app.theme;
        let what = match self.rows {
            HeatRows::Cpu => "by CPU (o)",
            HeatRows::Process => "by process (o)",
            HeatRows::Thread | HeatRows::All => "by thread (o)",
        };
        let mut pen = Pen::new(buffer, theme, area, 0);
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
