//! Source and instructions of one function.

use super::code_paint::Painter;
use super::code_rows::{CodeLine, Jump, jumps, mixed_rows, share, source_rows, weight, words};
use crate::action::Action;
use crate::bindings::KeyScope;
use crate::data::{Answer, Ask, Found};
use crate::filters::Remap;
use crate::paint::{Pen, style_row};
use crate::scroll::Scroll;
use crate::shared::{Effect, Selected, Shared, TabId};
use crate::tab::{About, Fresh, Subject, Tab};
use crate::text;
use prof_profile::FunctionId;
use prof_report::code::{CodeRow, Flow, FunctionView};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::cmp::Reverse;

pub(super) const ABOUT: About = About {
    title: "Code",
    word: "code",
    command: "view code",
    help: "Source and instructions of the selected function, or the last one",
    scope: KeyScope::Code,
    subject: Subject::Function,
    shown_by: Some(Action::Annotate),
    idle: &[],
};

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
    rows: Vec<CodeLine>,
    jumps: Vec<Jump>,
    scroll: Scroll,
    /// Where to go back to, and the functions looked at before.
    came_from: Option<TabId>,
    trail: Vec<FunctionId>,
}

impl Tab for Code {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn renew(&mut self, _shared: &mut Shared, _fresh: &mut Fresh<'_>) {
        self.view = None;
    }

    /// Another profile came: functions have other numbers.
    fn remap(&mut self, remap: &Remap<'_>) {
        self.function = self.function.and_then(|function| remap.function(function));
        self.trail = self
            .trail
            .iter()
            .filter_map(|&one| remap.function(one))
            .collect();
    }

    /// The tab is shown: of the hottest function if none was chosen.
    fn shown(&mut self, shared: &mut Shared) {
        if self.view.is_some() {
            return;
        }
        let hottest = shared.seen.as_ref().and_then(|seen| {
            let hot = seen.hot.iter().max_by_key(|hot| hot.own)?;
            Some(seen.site(hot.site).function)
        });
        self.function = self.function.or(hottest);
        shared.asks.extend(self.function.map(Ask::Code));
    }

    /// Whether code is on its way.
    fn is_waiting(&self) -> bool {
        self.view.is_none() && self.function.is_some()
    }

    fn take(&mut self, shared: &mut Shared, answer: Answer) -> Option<Answer> {
        let view = match answer {
            Answer::Code(view) if self.function == Some(view.function) => *view,
            other => return Some(other),
        };
        let height = shared.body_rows(self);
        let is_new = self.rows.is_empty();
        self.view = Some(view);
        self.lay_out();
        if is_new {
            self.scroll.settle(height);
            self.hottest(0);
        }
        None
    }

    fn selected(&self, shared: &Shared) -> Selected {
        let inlined = match (self.row(), &self.view) {
            (Some(CodeLine::Source(index)), Some(view)) => {
                view.lines.get(index).and_then(|line| line.inlined)
            }
            _ => None,
        };
        let function = inlined.or(self.function);
        let site = shared.seen.as_ref().and_then(|seen| {
            let hot = seen
                .hot
                .iter()
                .find(|hot| Some(seen.site(hot.site).function) == function)?;
            Some(hot.site)
        });
        Selected { site, task: None }
    }

    fn detail(&self, shared: &Shared) -> Option<String> {
        let view = self.view.as_ref()?;
        let waits = self.waits(shared);
        let place = self.place().and_then(|(file, line)| {
            let file = view.files.get(file)?;
            Some(format!("{}:{line}  {}", file.path, file.line(line).trim()))
        });
        let instruction = self.instruction().map(|row| {
            let (address, text) = (row.instruction.address.0, row.instruction.text.trim_end());
            match &row.target_name {
                Some(target) => format!("{address:x}: {text} {target}"),
                None => format!("{address:x}: {text}"),
            }
        });
        let row = match (instruction, place) {
            (Some(instruction), Some(place)) => Some(format!("{instruction}  {place}")),
            (instruction, place) => instruction.or(place).or(view.no_code.clone()),
        };
        match (waits, row) {
            (Some(waits), Some(row)) => Some(format!("{waits}: {row}")),
            (waits, row) => waits.or(row),
        }
    }

    fn act(&mut self, shared: &mut Shared, action: Action) {
        let height = shared.body_rows(self);
        match action {
            action if self.scroll.moves(action, height) => {}
            Action::Left => return self.close(shared),
            Action::NextHot | Action::PreviousHot => self.step_hot(shared, action),
            Action::ToggleSource => self.next_mode(shared),
            Action::FollowJump => self.follow(shared),
            Action::Edit => self.edit(shared),
            _ => {}
        }
        self.scroll.settle(height);
    }

    fn open(&mut self, _shared: &mut Shared, function: FunctionId, from: Option<TabId>) {
        if from.is_some() {
            self.came_from = from;
            self.trail.clear();
        } else {
            self.trail.extend(self.function);
        }
        self.set(function);
    }

    fn back(&mut self, shared: &mut Shared) -> bool {
        let has_way = self.came_from.is_some();
        if has_way {
            self.close(shared);
        }
        has_way
    }

    fn click(&mut self, shared: &mut Shared, at: Position) {
        let Some(row) = at.y.checked_sub(u16::from(shared.switches.headings)) else {
            return;
        };
        let height = shared.body_rows(self);
        let scroll = &mut self.scroll;
        scroll.settle(height);
        let line = scroll.top(height) + usize::from(row);
        let was_there = scroll.cursor() == line;
        scroll.go_to(line);
        if was_there {
            self.follow(shared);
        }
    }

    fn scroll(&mut self) -> Option<&mut Scroll> {
        Some(&mut self.scroll)
    }

    /// The next row whose text matches.
    fn find(&mut self, _shared: &mut Shared, found: &Found, forwards: bool) -> bool {
        let len = self.rows.len();
        let start = self.scroll.cursor();
        let hit = (1..len).map(|step| {
            if forwards {
                (start + step) % len
            } else {
                (start + len - step) % len
            }
        });
        let hit = hit.into_iter().find(|&at| {
            let words = |row| self.view.as_ref().map(|view| words(view, row));
            let words = self.rows.get(at).map(|&row| words(row).unwrap_or_default());
            words.is_some_and(|words| found.pattern.is_match(&words))
        });
        if let Some(at) = hit {
            self.scroll.jump_to(at);
        }
        hit.is_some()
    }

    fn written_rows(&self) -> Option<usize> {
        Some(self.rows.len() + 1)
    }

    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let theme = &shared.theme;
        let Some(profile) = &shared.profile else {
            return;
        };
        let Some(view) = &self.view else {
            Pen::new(buffer, theme, area, 0)
                .gap(2)
                .put("reading", theme.dim());
            return;
        };
        let painter = Painter {
            cursor: self.scroll.cursor(),
            jumps: &self.jumps,
            shared,
            profile,
            view,
        };
        let mut body = area;
        if shared.switches.headings {
            painter.draw_heading(Pen::new(buffer, theme, area, 0));
            body.y += 1;
            body.height = body.height.saturating_sub(1);
        }
        let top = self.scroll.top(usize::from(body.height));
        for (at, (index, &row)) in (0..body.height).zip(self.rows.iter().enumerate().skip(top)) {
            painter.draw_row(index, row, Pen::new(buffer, theme, body, at));
            if index == self.scroll.cursor() {
                style_row(buffer, body, at, theme.selected());
            }
        }
    }
}

impl Code {
    fn set(&mut self, function: FunctionId) {
        self.function = Some(function);
        self.view = None;
        self.rows.clear();
        self.scroll = Scroll::default();
    }

    /// Back to the function before, or to the view it came from.
    fn close(&mut self, shared: &mut Shared) {
        match self.trail.pop() {
            Some(function) => {
                self.set(function);
                self.shown(shared);
            }
            None => shared.to_show = self.came_from.take(),
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
            Mode::Instructions => (0..view.instructions.len())
                .map(CodeLine::Instruction)
                .collect(),
            Mode::Source => source_rows(view),
        };
        if view.no_code.is_some() {
            self.rows.insert(0, CodeLine::NoCode);
        }
        if self.rows.is_empty() {
            self.rows.push(CodeLine::NoLines);
        }
        self.jumps = jumps(view, &self.rows);
        self.scroll.set_len(self.rows.len());
    }

    fn row(&self) -> Option<CodeLine> {
        self.rows.get(self.scroll.cursor()).copied()
    }

    fn instruction(&self) -> Option<&CodeRow> {
        match self.row()? {
            CodeLine::Instruction(index) => self.view.as_ref()?.instructions.get(index),
            _ => None,
        }
    }

    /// File and line of the selected row.
    fn place(&self) -> Option<(usize, u32)> {
        let view = self.view.as_ref()?;
        match self.row()? {
            CodeLine::Instruction(index) => view.instructions.get(index)?.line,
            CodeLine::Line(file, line, _) => Some((file, line)),
            CodeLine::Source(index) => view.lines.get(index).map(|row| (row.file, row.line)),
            CodeLine::File(file) => Some((file, 1)),
            CodeLine::NoCode | CodeLine::NoLines => None,
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

    /// How long the cursor's row waits, where waits are shown.
    fn waits(&self, shared: &Shared) -> Option<String> {
        let profile = shared.profile.as_ref()?;
        let event = usize::from(shared.history.now().event.0);
        profile.events.get(event).filter(|it| it.is_off_cpu)?;
        let row = *self.rows.get(self.scroll.cursor())?;
        let total = share(self.view.as_ref()?, row)?.total;
        (total > 0).then(|| format!("waits {} in all", text::duration(total)))
    }

    /// Rows with weight, hottest first.
    fn by_heat(&self) -> Vec<usize> {
        let mut rows: Vec<(u64, usize)> = (0..self.rows.len())
            .filter_map(|at| {
                let view = self.view.as_ref()?;
                let weight = weight(view, share(view, *self.rows.get(at)?)?);
                let is_own = !matches!(self.rows.get(at), Some(CodeLine::Line(..)));
                (weight > 0 && is_own).then_some((weight, at))
            })
            .collect();
        rows.sort_by_key(|&(weight, at)| (Reverse(weight), at));
        rows.into_iter().map(|(_, at)| at).collect()
    }

    fn step_hot(&mut self, shared: &mut Shared, action: Action) {
        let order = self.by_heat();
        let here = order.iter().position(|&at| at == self.scroll.cursor());
        let next = match (here, action) {
            (None, _) => Some(0),
            (Some(at), Action::NextHot) => Some(at + 1),
            (Some(at), _) => at.checked_sub(1),
        };
        let moved = next.is_some_and(|rank| self.hottest(rank));
        if !moved {
            shared.say("no other line with weight");
        }
    }

    fn next_mode(&mut self, shared: &mut Shared) {
        let place = self.place();
        self.mode = match self.mode {
            Mode::Mixed => Mode::Source,
            Mode::Source => Mode::Instructions,
            Mode::Instructions => Mode::Mixed,
        };
        self.lay_out();
        let same = (0..self.rows.len()).find(|&at| {
            let line = match (self.rows.get(at), &self.view) {
                (Some(CodeLine::Instruction(index)), Some(view)) => {
                    view.instructions.get(*index).and_then(|row| row.line)
                }
                (Some(CodeLine::Source(index)), Some(view)) => {
                    view.lines.get(*index).map(|row| (row.file, row.line))
                }
                (Some(CodeLine::Line(file, line, _)), _) => Some((*file, *line)),
                _ => None,
            };
            place.is_some() && line == place
        });
        if let Some(at) = same {
            self.scroll.jump_to(at);
        }
        shared.say(match self.mode {
            Mode::Mixed => "source and instructions",
            Mode::Source => "source, with what is inlined at each line",
            Mode::Instructions => "instructions",
        });
    }

    /// To where the jump goes, or into the called function.
    fn follow(&mut self, shared: &mut Shared) {
        let Some(row) = self.instruction() else {
            if let Some(function) = self
                .selected_function(shared)
                .filter(|&f| Some(f) != self.function)
            {
                self.go_to(shared, function);
            }
            return;
        };
        if let Some(target) = row.target_row {
            let at = self
                .rows
                .iter()
                .position(|&row| row == CodeLine::Instruction(target));
            self.scroll.jump_to(at.unwrap_or(0));
            return;
        }
        let (Flow::Call(Some(address)) | Flow::Jump(Some(address))) = row.instruction.flow else {
            return;
        };
        let called = shared.profile.as_ref().and_then(|profile| {
            let dso = profile.function(self.function?).dso;
            let at = profile.functions.iter().position(|function| {
                function.dso == dso && function.start == address && function.size > 0
            })?;
            u32::try_from(at).ok().map(FunctionId)
        });
        match called {
            Some(function) => self.go_to(shared, function),
            None => shared.say("the called function has no samples"),
        }
    }

    /// Shows another function; the way back leads here.
    fn go_to(&mut self, shared: &mut Shared, function: FunctionId) {
        self.open(shared, function, None);
        self.shown(shared);
    }

    /// The selected function: this one, or one inlined into it.
    fn selected_function(&self, shared: &Shared) -> Option<FunctionId> {
        let site = self.selected(shared).site?;
        Some(shared.seen.as_ref()?.site(site).function)
    }

    fn edit(&self, shared: &mut Shared) {
        let place = self.place().and_then(|(file, line)| {
            let file = self.view.as_ref()?.files.get(file)?;
            Some((file.path.to_string(), line))
        });
        match place {
            Some((file, line)) => shared.effects.push(Effect::Edit { file, line }),
            None => shared.say("this row has no source line"),
        }
    }
}
