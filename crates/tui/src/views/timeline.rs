//! When and on which CPU the samples fell, and what each thread did where waits
//! were recorded (`lanes.rs`); a range selected here holds in every view.

use super::Tabs;
use super::lanes::{LABEL, LanesView, lanes_of};
use crate::action::Action;
use crate::bindings::KeyScope;
use crate::data::{Answer, Ask};
use crate::filters;
use crate::paint::{Pen, percent};
use crate::shared::{Selected, Shared};
use crate::tab::{About, Fresh, Subject, Tab};
use crate::text;
use crate::theme::{HEAT_LEVELS, Theme};
use prof_report::model::{Heat, HeatRows, TimeRange, Weight};
use prof_report::waiting::LaneMap;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};

pub(super) const ABOUT: About = About {
    title: "Timeline",
    word: "time",
    command: "view timeline",
    help: "What each thread did; when and on which CPU the samples fell",
    scope: KeyScope::Timeline,
    subject: Subject::Samples,
    shown_by: None,
    idle: &[],
};

/// What the rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowsOf {
    /// What each thread did.
    Lanes,
    /// Samples.
    Heat(HeatRows),
}

impl RowsOf {
    /// Those behind these; lanes only where there are any.
    fn next(self, has_lanes: bool) -> Self {
        match self {
            Self::Lanes => Self::Heat(HeatRows::Cpu),
            Self::Heat(HeatRows::Cpu) => Self::Heat(HeatRows::Process),
            Self::Heat(HeatRows::Process) => Self::Heat(HeatRows::Thread),
            Self::Heat(_) if has_lanes => Self::Lanes,
            Self::Heat(_) => Self::Heat(HeatRows::Cpu),
        }
    }
}

/// The tab.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// `None` until there is a profile: those that were chosen, or else lanes, if it
    /// has any.
    rows: Option<RowsOf>,
    /// What was chosen by a key.
    chosen: Option<RowsOf>,
    heat: Option<Heat>,
    lanes: Option<Box<LaneMap>>,
    /// Place of the cursor's lane.
    lane: usize,
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
            rows: None,
            chosen: None,
            heat: None,
            lanes: None,
            lane: 0,
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

    fn renew(&mut self, shared: &mut Shared, _fresh: &mut Fresh<'_>) {
        (self.heat, self.lanes) = (None, None);
        let rows = self.rows.and_then(|_| self.rows_of(shared));
        if self.rows != rows {
            (self.top, self.lane) = (0, 0);
        }
        self.rows = rows;
    }

    fn shown(&mut self, shared: &mut Shared) {
        if self.rows.is_none() {
            self.rows = self.rows_of(shared);
        }
        let columns = columns(shared);
        let slices = columns.max(1) * self.zoom;
        if self.is_waiting() || self.slices != slices {
            let before = self.slices.max(1);
            self.axis = self.axis.filter(|_| self.slices == slices);
            self.cursor = self.cursor * slices / before;
            self.mark = self.mark.map(|mark| mark * slices / before);
            self.slices = slices;
            self.settle(columns);
            match self.rows {
                Some(RowsOf::Lanes) => shared.asks.push(Ask::Lanes(slices)),
                Some(RowsOf::Heat(rows)) => shared.asks.push(Ask::Heat(rows, slices)),
                None => {}
            }
        }
    }

    fn resized(&mut self, shared: &mut Shared) {
        // A column is a slice of the time.
        self.shown(shared);
    }

    /// Whether the map is on its way.
    fn is_waiting(&self) -> bool {
        match self.rows {
            Some(RowsOf::Lanes) => self.lanes.is_none(),
            _ => self.heat.is_none(),
        }
    }

    fn take(&mut self, _shared: &mut Shared, answer: Answer) -> Option<Answer> {
        match answer {
            Answer::Heat(rows, slices, heat)
                if (Some(RowsOf::Heat(rows)), slices) == (self.rows, self.slices) =>
            {
                self.axis = Some((heat.start, heat.slice));
                self.heat = Some(heat);
                None
            }
            Answer::Lanes(slices, map)
                if (self.rows, slices) == (Some(RowsOf::Lanes), self.slices) =>
            {
                self.axis = Some((map.begin_of(0), map.slice));
                self.lane = self.lane.min(map.lanes.list.len().saturating_sub(1));
                self.lanes = Some(map);
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
        if let Some(map) = self.lane_map() {
            return self
                .lanes_view(map)
                .detail(shared, self.mark.map(|_| range));
        }
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
            shared.since(range.start),
            shared.since(range.end),
            text::duration(range.end.saturating_sub(range.start)),
            text::samples(weight.samples),
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
            Action::Up if self.lane_map().is_some() => self.move_lane(shared, -1),
            Action::Down if self.lane_map().is_some() => self.move_lane(shared, 1),
            Action::Up => self.top = self.top.saturating_sub(1),
            Action::Down => {
                let rows = self.heat.as_ref().map_or(0, |heat| heat.rows.len());
                self.top = (self.top + 1).min(rows.saturating_sub(1));
            }
            Action::ZoomIn => self.zoom = (self.zoom * 2).min(MOST_ZOOM),
            Action::ZoomOut => self.zoom = (self.zoom / 2).max(1),
            Action::NextOrder => {
                self.rows = self.rows.map(|rows| rows.next(has_lanes(shared)));
                self.chosen = self.rows;
                (self.heat, self.lanes) = (None, None);
                (self.top, self.lane, self.mark) = (0, 0, None);
            }
            Action::Enter if self.mark.is_none() && self.lane_map().is_some() => {
                return self.choose(shared);
            }
            Action::Mark | Action::Enter => return self.mark(shared),
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
        let before = (self.cursor, self.lane);
        self.cursor = slice.min(self.slices.saturating_sub(1));
        let Some(map) = self.lane_map() else {
            return self.mark(shared);
        };
        let row = usize::from(at.y).checked_sub(1).map(|row| self.top + row);
        if let Some(lane) = row.filter(|&lane| lane < map.lanes.list.len()) {
            self.lane = lane;
            // Where the cursor was before, it is the second click.
            if before == (self.cursor, lane) {
                self.choose(shared);
            }
        }
    }

    /// The mouse moved with its button down: the range that its press began
    /// goes to here.
    fn drag(&mut self, shared: &mut Shared, column: u16) {
        let columns = columns(shared);
        if self.lane_map().is_some() {
            self.mark.get_or_insert(self.cursor);
        }
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
        let count = match self.lane_map() {
            Some(map) => map.lanes.list.len(),
            None => self.heat.as_ref().map_or(0, |heat| heat.rows.len()),
        };
        let top = self.top.saturating_add_signed(rows);
        self.top = top.min(count.saturating_sub(1));
    }

    fn written_rows(&self) -> Option<usize> {
        None
    }

    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let theme = &shared.theme;
        if let Some(map) = self.lane_map() {
            let pen = Pen::new(buffer, theme, area, 0);
            self.draw_axis(shared, (map.begin_of(0), map.slice), pen);
            return self.lanes_view(map).draw(shared, area, buffer);
        }
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
        self.draw_axis(
            shared,
            (heat.start, heat.slice),
            Pen::new(buffer, theme, area, 0),
        );
        let rows = area.height.saturating_sub(2);
        let all = self.sums(heat);
        let peak = all.iter().copied().max().unwrap_or(0);
        let pen = Pen::new(buffer, theme, area, 1);
        let total = Cells {
            label: "all",
            values: &all,
            peak,
        };
        self.draw_cells(theme, total, pen);
        let peak = heat.peak().period;
        for at in 0..rows {
            let index = usize::from(at) + self.top;
            let (Some(row), Some(cells)) = (heat.rows.get(index), heat.cells.get(index)) else {
                break;
            };
            let label = self.label(shared, row.number, row.task);
            let cells: Vec<u64> = cells.iter().map(|cell| cell.period).collect();
            let pen = Pen::new(buffer, theme, area, at + 2);
            let row = Cells {
                label: &label,
                values: &cells,
                peak,
            };
            self.draw_cells(theme, row, pen);
        }
    }
}

/// A row of the heat map.
struct Cells<'a> {
    label: &'a str,
    /// By slice of time: its weight.
    values: &'a [u64],
    /// What is drawn hottest.
    peak: u64,
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

    /// The lanes, if they are shown and there.
    fn lane_map(&self) -> Option<&LaneMap> {
        let map = self.lanes.as_deref()?;
        (self.rows == Some(RowsOf::Lanes)).then_some(map)
    }

    fn lanes_view<'a>(&self, map: &'a LaneMap) -> LanesView<'a> {
        let mark = self.mark.unwrap_or(self.cursor);
        LanesView {
            map,
            lane: self.lane,
            top: self.top,
            left: self.left,
            cursor: self.cursor,
            range: (mark.min(self.cursor), mark.max(self.cursor)),
        }
    }

    /// The lane `step` further down, kept on the screen.
    fn move_lane(&mut self, shared: &Shared, step: isize) {
        let last = self.lane_map().map_or(0, |map| map.lanes.list.len());
        let lane = self.lane.saturating_add_signed(step);
        self.lane = lane.min(last.saturating_sub(1));
        // Above and below are the axis and the legend.
        let rows = usize::from(shared.body(self).height).saturating_sub(2);
        let lowest = (self.lane + 1).saturating_sub(rows.max(1));
        self.top = self.top.clamp(lowest, self.lane.max(lowest));
    }

    /// Shows the stacks of the span that the cursor is on.
    fn choose(&mut self, shared: &mut Shared) {
        let chosen = self.lane_map().and_then(|map| {
            let (lane, span, _) = map.at(self.lane, self.cursor)?;
            Some((lane.tid, span))
        });
        let (Some((tid, span)), Some(profile)) = (chosen, shared.profile.clone()) else {
            return shared.say("the thread did not live then");
        };
        let range = TimeRange {
            // A wait is told of at its end: one that ends here is another one.
            start: span.begin + 1,
            end: span.end,
        };
        let Some(event) = super::lanes::event_of(&profile, tid, span) else {
            return shared
                .say("nothing tells what it ran then: no sample of it fell into that time");
        };
        shared.history.set_event(event);
        shared.change(|selection| {
            selection.filter.tids = vec![tid];
            filters::set_time(selection, Some(range));
        });
        shared.to_show = Tabs::find(|about| about.command == super::tree::ABOUT.command);
        shared.say("the stacks of that span; u takes it back");
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

    /// What the rows are: as chosen, where that is possible. Another clock may have no
    /// lanes, and they come back with the one before.
    fn rows_of(&self, shared: &Shared) -> Option<RowsOf> {
        let has_lanes = has_lanes(shared);
        let possible = |rows: &RowsOf| *rows != RowsOf::Lanes || has_lanes;
        let usual = match has_lanes {
            true => RowsOf::Lanes,
            false => RowsOf::Heat(HeatRows::Cpu),
        };
        let chosen = self.chosen.filter(possible).unwrap_or(usual);
        shared.profile.is_some().then_some(chosen)
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
            let is_process = self.rows == Some(RowsOf::Heat(HeatRows::Process));
            let first = is_process.then(|| profile.last_name(about.pid));
            let name = first.flatten().unwrap_or(about.comm);
            Some(profile.name(name).to_string())
        });
        let is_cpu = self.rows == Some(RowsOf::Heat(HeatRows::Cpu));
        match (is_cpu, name) {
            (true, _) if number < 0 => "no CPU told".into(),
            (true, _) => format!("CPU {number}"),
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
    fn draw_cells(&self, theme: &Theme, row: Cells<'_>, mut pen: Pen<'_>) {
        let mark = self.mark.unwrap_or(self.cursor);
        let (first, last) = (mark.min(self.cursor), mark.max(self.cursor));
        pen.cell(row.label, usize::from(LABEL) - 1, Style::new())
            .gap(1);
        let shown = row.values.iter().enumerate().skip(self.left);
        for (slice, &value) in shown.take(pen.room()) {
            let most = u128::from(row.peak.max(1));
            let level = (u128::from(value) * HEAT_LEVELS as u128).div_ceil(most);
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

    /// Times along the top, of slices from `start` on, each of `length` ns.
    fn draw_axis(&self, shared: &Shared, (start, length): (u64, u64), mut pen: Pen<'_>) {
        let theme = &shared.theme;
        let what = match self.rows {
            Some(RowsOf::Lanes) => "lanes (o)",
            Some(RowsOf::Heat(HeatRows::Process)) => "by process (o)",
            Some(RowsOf::Heat(HeatRows::Thread)) => "by thread (o)",
            _ => "by CPU (o)",
        };
        pen.cell(what, usize::from(LABEL) - 1, theme.heading())
            .gap(1);
        let mut slice = self.left;
        while pen.room() > 0 {
            let begin = start.saturating_add(length.saturating_mul(slice as u64));
            let time = shared.since(begin);
            let tick = format!("{}{time}", theme.glyphs.vertical);
            if text::width(&tick) > pen.room() {
                break;
            }
            pen.cell(&tick, 16, theme.dim());
            slice += 16;
        }
    }
}

/// Whether the profile that is shown has waits, of one recording: the threads of
/// two have nothing to do with each other, and may have the same ids.
fn has_lanes(shared: &Shared) -> bool {
    let profile = shared.profile.as_ref().filter(|_| shared.sides.is_none());
    profile.is_some_and(|profile| lanes_of(profile))
}

/// Columns for the map.
fn columns(shared: &Shared) -> usize {
    usize::from(shared.area.width.saturating_sub(LABEL))
}
