//! Source and instructions of one function.

use super::View;
use super::code_rows::{Jump, LANES, Row, absent_line, jumps, mixed_rows, source_rows};
use crate::action::Action;
use crate::app::{App, Effect, Selected};
use crate::data::{Ask, Found};
use crate::filters::Remap;
use crate::paint::{Pen, percent, style_row};
use crate::scroll::Scroll;
use prof_profile::{FunctionId, Profile};
use prof_report::code::{CodeRow, Flow, FunctionView, Share};
use prof_report::model::percent_of;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::cmp::Reverse;

/// What is shown of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    /// Instructions under their source lines.
    #[default]
    Mixed,
    /// Only instructions.
    Instructions,
    /// Source lines with what is inlined at them.
    Source,
}

/// The tab.
#[derive(Debug, Default)]
pub(crate) struct Code {
    function: Option<FunctionId>,
    view: Option<FunctionView>,
    mode: Mode,
    rows: Vec<Row>,
    jumps: Vec<Jump>,
    pub(crate) scroll: Scroll,
    /// Where to go back to, and the functions looked at before.
    pub(crate) came_from: Option<View>,
    trail: Vec<FunctionId>,
}

impl Code {
    /// Shows a function.
    pub(crate) fn open(app: &mut App, function: FunctionId) {
        if app.view == View::Code {
            app.code.trail.extend(app.code.function);
        } else {
            app.code.came_from = Some(app.view);
            app.code.trail.clear();
        }
        app.code.set(function);
        app.show(View::Code);
    }

    fn set(&mut self, function: FunctionId) {
        self.function = Some(function);
        self.view = None;
        self.rows.clear();
        self.scroll = Scroll::default();
    }

    /// Back to the function before, or to the view it came from.
    pub(crate) fn close(app: &mut App) {
        match app.code.trail.pop() {
            Some(function) => {
                app.code.set(function);
                app.show(View::Code);
            }
            None => {
                if let Some(view) = app.code.came_from.take() {
                    app.show(view);
                }
            }
        }
    }

    pub(crate) fn renew(&mut self) {
        self.view = None;
    }

    /// Whether code is on its way.
    pub(crate) fn is_waiting(&self) -> bool {
        self.view.is_none() && self.function.is_some()
    }

    /// Another profile came: functions have other numbers.
    pub(crate) fn remap(&mut self, remap: &Remap<'_>) {
        self.function = self.function.and_then(|function| remap.function(function));
        self.trail = self
            .trail
            .iter()
            .filter_map(|&one| remap.function(one))
            .collect();
    }

    /// The tab is shown: of the hottest function if none was chosen.
    pub(crate) fn shown(app: &mut App) {
        if app.code.view.is_some() {
            return;
        }
        let hottest = app.seen.as_ref().and_then(|seen| {
            let hot = seen.hot.iter().max_by_key(|hot| hot.own)?;
            Some(seen.site(hot.site).function)
        });
        app.code.function = app.code.function.or(hottest);
        app.asks.extend(app.code.function.map(Ask::Code));
    }

    /// The code was read.
    pub(crate) fn came(app: &mut App, view: FunctionView) {
        let height = app.body_rows();
        let code = &mut app.code;
        if code.function != Some(view.function) {
            return;
        }
        let is_new = code.rows.is_empty();
        code.view = Some(view);
        code.lay_out();
        if is_new {
            code.scroll.settle(height);
            code.hottest(0);
        }
    }

    fn lay_out(&mut self) {
        let Some(view) = &self.view else { return };
        let mode = if view.instructions.is_empty() {
            Mode::Source
        } else {
            self.mode
        };
        self.rows = match mode {
            Mode::Mixed => mixed_rows(view),
            Mode::Instructions => (0..view.instructions.len()).map(Row::Instruction).collect(),
            Mode::Source => source_rows(view),
        };
        if view.no_code.is_some() {
            self.rows.insert(0, Row::NoCode);
        }
        self.jumps = jumps(view, &self.rows);
        self.scroll.set_len(self.rows.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len() + 1
    }

    pub(crate) fn selected(&self, app: &App) -> Selected {
        let inlined = match (self.row(), &self.view) {
            (Some(Row::Source(index)), Some(view)) => {
                view.lines.get(index).and_then(|line| line.inlined)
            }
            _ => None,
        };
        let function = inlined.or(self.function);
        let site = app.seen.as_ref().and_then(|seen| {
            let hot = seen
                .hot
                .iter()
                .find(|hot| Some(seen.site(hot.site).function) == function)?;
            Some(hot.site)
        });
        Selected { site, task: None }
    }

    fn row(&self) -> Option<Row> {
        self.rows.get(self.scroll.cursor()).copied()
    }

    fn instruction(&self) -> Option<&CodeRow> {
        match self.row()? {
            Row::Instruction(index) => self.view.as_ref()?.instructions.get(index),
            _ => None,
        }
    }

    /// File and line of the selected row.
    fn place(&self) -> Option<(usize, u32)> {
        let view = self.view.as_ref()?;
        match self.row()? {
            Row::Instruction(index) => view.instructions.get(index)?.line,
            Row::Line(file, line, _) => Some((file, line)),
            Row::Source(index) => view.lines.get(index).map(|row| (row.file, row.line)),
            Row::File(file) => Some((file, 1)),
            Row::NoCode => None,
        }
    }

    pub(crate) fn detail(&self, _app: &App) -> Option<String> {
        let view = self.view.as_ref()?;
        let place = self.place().and_then(|(file, line)| {
            let file = view.files.get(file)?;
            Some(format!("{}:{line}  {}", file.path, file.line(line).trim()))
        });
        let instruction = self.instruction().map(|row| {
            let target = row.target_name.as_deref().unwrap_or_default();
            format!(
                "{:x}: {} {target}",
                row.instruction.address.0, row.instruction.text
            )
        });
        match (instruction, place) {
            (Some(instruction), Some(place)) => Some(format!("{instruction}  {place}")),
            (instruction, place) => instruction.or(place).or(view.no_code.clone()),
        }
    }

    /// Puts the cursor on the row with the `rank`-th largest share.
    fn hottest(&mut self, rank: usize) -> bool {
        let order = self.by_heat();
        let Some(&at) = order.get(rank) else {
            return false;
        };
        self.scroll.jump_to(at);
        true
    }

    /// Rows with weight, hottest first.
    fn by_heat(&self) -> Vec<usize> {
        let mut rows: Vec<(u64, usize)> = (0..self.rows.len())
            .filter_map(|at| {
                let weight = self.share(*self.rows.get(at)?)?.here;
                let is_own = !matches!(self.rows.get(at), Some(Row::Line(..)));
                (weight > 0 && is_own).then_some((weight, at))
            })
            .collect();
        rows.sort_by_key(|&(weight, at)| (Reverse(weight), at));
        rows.into_iter().map(|(_, at)| at).collect()
    }

    fn share(&self, row: Row) -> Option<Share> {
        let view = self.view.as_ref()?;
        match row {
            Row::Instruction(index) => view.instructions.get(index).map(|row| row.share),
            Row::Source(index) => view.lines.get(index).map(|row| row.share),
            Row::Line(_, _, share) => Some(share),
            Row::File(_) | Row::NoCode => None,
        }
    }

    pub(crate) fn act(app: &mut App, action: Action) {
        let height = app.body_rows();
        let page = isize::try_from(height.max(2) - 1).unwrap_or(1);
        let code = &mut app.code;
        match action {
            Action::Up => code.scroll.step(-1),
            Action::Down => code.scroll.step(1),
            Action::PageUp => code.scroll.step(-page),
            Action::PageDown => code.scroll.step(page),
            Action::Home => code.scroll.go_to(0),
            Action::End => code.scroll.go_to(usize::MAX),
            Action::Left => return Self::close(app),
            Action::NextHot | Action::PreviousHot => Self::step_hot(app, action),
            Action::ToggleSource => Self::next_mode(app),
            Action::FollowJump => Self::follow(app),
            Action::Edit => Self::edit(app),
            _ => {}
        }
        app.code.scroll.settle(height);
    }

    fn step_hot(app: &mut App, action: Action) {
        let order = app.code.by_heat();
        let here = order.iter().position(|&at| at == app.code.scroll.cursor());
        let next = match (here, action) {
            (None, _) => Some(0),
            (Some(at), Action::NextHot) => Some(at + 1),
            (Some(at), _) => at.checked_sub(1),
        };
        let moved = next.is_some_and(|rank| app.code.hottest(rank));
        if !moved {
            app.say("no other line with weight");
        }
    }

    fn next_mode(app: &mut App) {
        let place = app.code.place();
        app.code.mode = match app.code.mode {
            Mode::Mixed => Mode::Source,
            Mode::Source => Mode::Instructions,
            Mode::Instructions => Mode::Mixed,
        };
        app.code.lay_out();
        let code = &app.code;
        let same = (0..code.rows.len()).find(|&at| {
            let line = match (code.rows.get(at), &code.view) {
                (Some(Row::Instruction(index)), Some(view)) => {
                    view.instructions.get(*index).and_then(|row| row.line)
                }
                (Some(Row::Source(index)), Some(view)) => {
                    view.lines.get(*index).map(|row| (row.file, row.line))
                }
                (Some(Row::Line(file, line, _)), _) => Some((*file, *line)),
                _ => None,
            };
            place.is_some() && line == place
        });
        if let Some(at) = same {
            app.code.scroll.jump_to(at);
        }
        app.say(match app.code.mode {
            Mode::Mixed => "source and instructions",
            Mode::Source => "source, with what is inlined at each line",
            Mode::Instructions => "instructions",
        });
    }

    /// To where the jump goes, or into the called function.
    fn follow(app: &mut App) {
        let Some(row) = app.code.instruction() else {
            if let Some(function) = app
                .selected_function()
                .filter(|&f| Some(f) != app.code.function)
            {
                Self::open(app, function);
            }
            return;
        };
        if let Some(target) = row.target_row {
            let at = app
                .code
                .rows
                .iter()
                .position(|&row| row == Row::Instruction(target));
            app.code.scroll.jump_to(at.unwrap_or(0));
            return;
        }
        let (Flow::Call(Some(address)) | Flow::Jump(Some(address))) = row.instruction.flow else {
            return;
        };
        let called = app.profile.as_ref().and_then(|profile| {
            let dso = profile.function(app.code.function?).dso;
            let at = profile.functions.iter().position(|function| {
                function.dso == dso && function.start == address && function.size > 0
            })?;
            u32::try_from(at).ok().map(FunctionId)
        });
        match called {
            Some(function) => Self::open(app, function),
            None => app.say("the called function has no samples"),
        }
    }

    fn edit(app: &mut App) {
        let place = app.code.place().and_then(|(file, line)| {
            let file = app.code.view.as_ref()?.files.get(file)?;
            Some((file.path.to_string(), line))
        });
        match place {
            Some((file, line)) => app.effects.push(Effect::Edit { file, line }),
            None => app.say("this row has no source line"),
        }
    }

    pub(crate) fn click(app: &mut App, row: u16) {
        let Some(row) = row.checked_sub(u16::from(app.switches.headings)) else {
            return;
        };
        let height = app.body_rows();
        let scroll = &mut app.code.scroll;
        scroll.settle(height);
        let at = scroll.top(height) + usize::from(row);
        let was_there = scroll.cursor() == at;
        scroll.go_to(at);
        if was_there {
            Self::follow(app);
        }
    }

    /// The next row whose text matches.
    pub(crate) fn find(app: &mut App, found: &Found, forwards: bool) -> bool {
        let code = &app.code;
        let len = code.rows.len();
        let start = code.scroll.cursor();
        let hit = (1..len).map(|step| {
            if forwards {
                (start + step) % len
            } else {
                (start + len - step) % len
            }
        });
        let hit = hit.into_iter().find(|&at| {
            let words = code.rows.get(at).map(|&row| code.words(row));
            words.is_some_and(|words| found.pattern.is_match(&words))
        });
        if let Some(at) = hit {
            app.code.scroll.jump_to(at);
        }
        hit.is_some()
    }

    /// What a row says, without figures.
    fn words(&self, row: Row) -> String {
        let Some(view) = &self.view else {
            return String::new();
        };
        let line = |file: usize, line: u32| {
            view.files
                .get(file)
                .map_or("", |file| file.line(line))
                .to_string()
        };
        match row {
            Row::File(file) => view
                .files
                .get(file)
                .map_or(String::new(), |file| file.path.to_string()),
            Row::Line(file, number, _) => line(file, number),
            Row::Source(index) => view
                .lines
                .get(index)
                .map_or(String::new(), |row| line(row.file, row.line)),
            Row::Instruction(index) => {
                view.instructions
                    .get(index)
                    .map_or(String::new(), |row| match &row.target_name {
                        Some(name) => format!("{} <{name}>", row.instruction.text),
                        None => row.instruction.text.clone(),
                    })
            }
            Row::NoCode => view.no_code.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
        let theme = &app.theme;
        let (code, Some(profile)) = (&app.code, &app.profile) else {
            return;
        };
        let Some(view) = &code.view else {
            Pen::new(buffer, theme, area, 0)
                .gap(2)
                .put("reading", theme.dim());
            return;
        };
        let mut body = area;
        if app.switches.headings {
            code.draw_heading(app, profile, view, area, buffer);
            body.y += 1;
            body.height = body.height.saturating_sub(1);
        }
        let top = code.scroll.top(usize::from(body.height));
        for (at, (index, &row)) in (0..body.height).zip(code.rows.iter().enumerate().skip(top)) {
            code.draw_row(app, profile, view, body, at, index, row, buffer);
            if index == code.scroll.cursor() {
                style_row(buffer, body, at, theme.selected());
            }
        }
    }

    fn draw_heading(
        &self,
        app: &App,
        profile: &Profile,
        view: &FunctionView,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let theme = &app.theme;
        let name = profile.name(profile.function(view.function).name);
        let mut pen = Pen::new(buffer, theme, area, 0);
        pen.right("Of self", 7, theme.heading()).gap(1);
        let whole = app.whole().period;
        let words = format!(
            ": self {}, total {} (Tab: next hottest, s: source)",
            percent(percent_of(view.share.here, whole)).trim(),
            percent(percent_of(view.share.total, whole)).trim(),
        );
        let room = pen.room().saturating_sub(words.len());
        let each = room.max(20) / if view.host.is_some() { 2 } else { 1 };
        pen.symbol_within(name, each, theme.heading());
        if let Some(host) = view.host {
            let host = profile.name(profile.function(host).name);
            pen.put(" in ", theme.dim());
            pen.symbol_within(host, each.saturating_sub(4), theme.heading());
        }
        pen.put(&words, theme.heading());
    }

    #[expect(clippy::too_many_arguments, reason = "a row and all it is drawn from")]
    fn draw_row(
        &self,
        app: &App,
        profile: &Profile,
        view: &FunctionView,
        area: Rect,
        at: u16,
        index: usize,
        row: Row,
        buffer: &mut Buffer,
    ) {
        let theme = &app.theme;
        let mut pen = Pen::new(buffer, theme, area, at);
        match self.share(row).filter(|share| share.here > 0) {
            Some(share) => {
                let value = percent_of(share.here, view.share.here);
                let is_line = matches!(row, Row::Line(..));
                let style = if is_line {
                    theme.dim()
                } else {
                    theme.share(value)
                };
                pen.put(&percent(value), style);
            }
            None => {
                pen.gap(7);
            }
        }
        pen.gap(1);
        let words = self.words(row);
        match row {
            Row::File(file) => {
                pen.put(&words, theme.heading());
                let is_here = view.files.get(file).is_some_and(|file| file.text.is_some());
                pen.put(if is_here { "" } else { " (it is not here)" }, theme.dim())
            }
            Row::Line(_, line, _) => pen
                .right(&line.to_string(), 6, theme.dim())
                .gap(1)
                .put(&words, theme.source()),
            Row::Source(at) => {
                let Some(line) = view.lines.get(at) else {
                    return;
                };
                pen.right(&line.line.to_string(), 6, theme.dim()).gap(1);
                pen.gap(usize::from(line.depth) * 2);
                if let Some(function) = line.inlined {
                    let name = profile.name(profile.function(function).name);
                    let kind = crate::theme::Kind::Inlined;
                    pen.put(kind.sign(), theme.kind(kind)).gap(1);
                    let room = pen.room() / 2;
                    pen.symbol_within(name, room, theme.kind(kind));
                    pen.put(": ", theme.kind(kind));
                }
                pen.put(&words, theme.source())
            }
            Row::Instruction(at) => {
                let address = view
                    .instructions
                    .get(at)
                    .map_or(0, |row| row.instruction.address.0);
                pen.right(&format!("{address:x}"), 12, theme.dim()).gap(1);
                self.draw_lanes(app, index, &mut pen);
                pen.put(&words, Style::new());
                let place = absent_line(view, at).and_then(|(file, line)| {
                    let path = &view.files.get(file)?.path;
                    let name = path.rsplit('/').next().unwrap_or(path);
                    Some(format!("  {name}:{line}"))
                });
                pen.put(&place.unwrap_or_default(), theme.dim())
            }
            Row::NoCode => pen
                .put("no instructions: ", theme.warning())
                .put(&words, theme.warning()),
        };
    }

    /// The arrows that pass or end at a row. The selected jump stands out.
    fn draw_lanes(&self, app: &App, row: usize, pen: &mut Pen<'_>) {
        let theme = &app.theme;
        let glyphs = theme.glyphs;
        let cursor = self.scroll.cursor();
        let mut cells = [(" ", Style::new()); LANES + 1];
        for jump in &self.jumps {
            let (first, last) = jump.span();
            if !(first..=last).contains(&row) {
                continue;
            }
            let is_selected = jump.from == cursor || jump.to == cursor;
            let style = if is_selected {
                theme.key()
            } else {
                theme.dim()
            };
            let column = LANES - 1 - jump.lane;
            let glyph = if row == first {
                glyphs.corner_down
            } else if row == last {
                glyphs.corner_up
            } else {
                glyphs.vertical
            };
            let is_end = row == first || row == last;
            for (at, cell) in cells.iter_mut().enumerate().skip(column) {
                if at == column {
                    *cell = (glyph, style);
                } else if is_end && (cell.0 == " " || is_selected) {
                    let tip = if at == LANES && row == jump.to {
                        glyphs.arrow
                    } else {
                        glyphs.horizontal
                    };
                    *cell = (tip, style);
                }
            }
        }
        for (glyph, style) in cells {
            pen.put(glyph, style);
        }
        pen.gap(1);
    }
}
