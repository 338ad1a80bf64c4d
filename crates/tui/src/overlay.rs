//! What lies on top of a view: help, lists of commands, prompts.

use super::action::Action;
use super::bindings::{Binding, KeyScope, key_name};
use super::paint::{Pen, style_row};
use super::prompt::{Prompt, Typed};
use super::scroll::Scroll;
use super::text;
use super::theme::{Glyphs, Kind, Theme};
use super::writing::{IfTaken, Write};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear, Widget};

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Search,
    Filter,
    Limit,
    Write,
}

impl Asked {
    /// What stands before what is typed.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Search => "/",
            Self::Filter => "filter: ",
            Self::Limit => "hide below %: ",
            Self::Write => "write to (.txt .folded .svg .html): ",
        }
    }
}

/// A line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListLine {
    Heading(String),
    Text(String),
    Command {
        action: Action,
        keys: String,
        words: String,
        /// What the command is called.
        name: &'static str,
    },
}

impl ListLine {
    fn holds(&self, wanted: &str) -> bool {
        match self {
            Self::Heading(_) => wanted.is_empty(),
            Self::Text(words) => words.to_lowercase().contains(wanted),
            Self::Command {
                keys, words, name, ..
            } => {
                let words = words.to_lowercase();
                let is_in = |word: &str| words.contains(word) || name.contains(word);
                let all = wanted.split_whitespace().all(is_in);
                all || keys.to_lowercase() == wanted
            }
        }
    }
}

/// How well a line fits what was typed, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The command is called that, or has that key.
    Exact,
    /// Its name begins so.
    Begins,
    /// Every word is in its name.
    Named,
    /// It is only described so.
    Told,
}

impl ListLine {
    fn fit(&self, wanted: &str) -> Fit {
        let Self::Command { keys, name, .. } = self else {
            return Fit::Told;
        };
        match wanted {
            _ if *name == wanted || keys.to_lowercase() == wanted => Fit::Exact,
            _ if name.starts_with(wanted) => Fit::Begins,
            _ if wanted.split_whitespace().all(|word| name.contains(word)) => Fit::Named,
            _ => Fit::Told,
        }
    }
}

/// Lines that can be searched and, if they are commands, run.
#[derive(Debug)]
pub(super) struct List {
    title: &'static str,
    lines: Vec<ListLine>,
    /// What was typed to search; `None` while keys move.
    prompt: Option<Prompt>,
    scroll: Scroll,
    /// Whether the keys beside commands run them, as in a menu.
    has_live_keys: bool,
}

impl List {
    fn new(title: &'static str, lines: Vec<ListLine>, prompt: Option<Prompt>) -> Self {
        let mut list = Self {
            title,
            lines,
            prompt,
            scroll: Scroll::default(),
            has_live_keys: false,
        };
        list.narrowed();
        list
    }

    fn shown(&self) -> Vec<&ListLine> {
        let wanted = self.prompt.as_ref().map_or("", Prompt::text).to_lowercase();
        let lines = self.lines.iter();
        let mut shown: Vec<&ListLine> = lines.filter(|line| line.holds(&wanted)).collect();
        if !wanted.is_empty() {
            shown.sort_by_key(|line| line.fit(&wanted));
        }
        shown
    }

    /// What was typed changed: back to the first command.
    fn narrowed(&mut self) {
        let shown = self.shown();
        let first = shown
            .iter()
            .position(|line| matches!(line, ListLine::Command { .. }));
        let len = shown.len();
        self.scroll.set_len(len);
        self.scroll.go_to(first.unwrap_or(0));
    }

    fn chosen(&self) -> Option<Action> {
        match self.shown().get(self.scroll.cursor()) {
            Some(ListLine::Command { action, .. }) => Some(*action),
            _ => None,
        }
    }

    fn key(&mut self, key: &KeyEvent, height: usize) -> Taken {
        let page = isize::try_from(height.saturating_sub(6)).unwrap_or(10);
        match key.code {
            KeyCode::Up => self.scroll.step(-1),
            KeyCode::Down => self.scroll.step(1),
            KeyCode::PageUp => self.scroll.step(-page),
            KeyCode::PageDown => self.scroll.step(page),
            KeyCode::Home => self.scroll.go_to(0),
            KeyCode::End => self.scroll.go_to(usize::MAX),
            KeyCode::Enter => return self.chosen().map_or(Taken::Close, Taken::Run),
            // While nothing is typed, vi's keys move.
            KeyCode::Char(letter @ ('j' | 'k')) if self.prompt.is_none() => {
                self.scroll.step(if letter == 'j' { 1 } else { -1 });
            }
            KeyCode::Char('h' | 'l') | KeyCode::Left | KeyCode::Right if self.prompt.is_none() => {}
            _ => return self.typed(key),
        }
        Taken::Nothing
    }

    /// The command of a menu that a key stands beside.
    fn run_by_key(&self, key: &KeyEvent) -> Option<Action> {
        let wanted = key_name(key).filter(|_| self.has_live_keys)?;
        self.lines.iter().find_map(|line| match line {
            ListLine::Command { action, keys, .. } => {
                let is_it = keys.split(' ').any(|key| key == wanted);
                is_it.then_some(*action)
            }
            _ => None,
        })
    }

    /// Where it is drawn: its frame, and its lines.
    fn place(&self, area: Rect) -> (Rect, Rect) {
        let wanted = u16::try_from(self.lines.len() + 2).unwrap_or(u16::MAX);
        let width = area.width.saturating_sub(4).min(96);
        let margin = if area.height < 12 { 0 } else { 2 };
        let height = area.height.saturating_sub(margin).min(wanted.max(6));
        let place = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + (area.height - height) / 2,
            width,
            height,
        };
        let above = 1 + u16::from(self.prompt.is_some());
        let lines = Rect {
            x: place.x + 1,
            y: place.y + above,
            width: place.width.saturating_sub(2),
            height: place.height.saturating_sub(above + 1),
        };
        (place, lines)
    }

    /// A click on a command runs it; one outside closes the list.
    fn click(&mut self, area: Rect, at: Position) -> Taken {
        let (place, lines) = self.place(area);
        if !place.contains(at) {
            return Taken::Close;
        }
        if !lines.contains(at) {
            return Taken::Nothing;
        }
        let row = self.scroll.top(usize::from(lines.height)) + usize::from(at.y - lines.y);
        match self.shown().get(row) {
            Some(ListLine::Command { action, .. }) => Taken::Run(*action),
            _ => Taken::Nothing,
        }
    }

    fn typed(&mut self, key: &KeyEvent) -> Taken {
        let Some(prompt) = &mut self.prompt else {
            return match key.code {
                KeyCode::Char('/') => {
                    self.prompt = Some(Prompt::default());
                    Taken::Nothing
                }
                KeyCode::Char(' ') => {
                    self.scroll.step(10);
                    Taken::Nothing
                }
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    Taken::Run(Action::QuitNow)
                }
                _ => self.run_by_key(key).map_or(Taken::Close, Taken::Run),
            };
        };
        match prompt.key(key) {
            Typed::Changed => self.narrowed(),
            Typed::Cancelled => return Taken::Close,
            Typed::Nothing | Typed::Accepted => {}
        }
        Taken::Nothing
    }
}

/// What lies on top.
#[derive(Debug)]
pub(super) enum Overlay {
    List(List),
    Ask(Asked, Prompt),
    /// Whether a file of that name is to be replaced.
    Replace(Write),
}

/// What a key did to an overlay.
#[derive(Debug, Clone)]
pub(super) enum Taken {
    Nothing,
    Close,
    /// Close it and do this.
    Run(Action),
    /// The text of a search changed.
    Changed(String),
    Answered(Asked, String),
    /// Replace the file.
    Replace(Write),
    /// Leave the file of this name as it is.
    Keep(String),
}

fn commands(
    all: impl Iterator<Item = &'static Binding>,
    scope: KeyScope,
    describe: impl Fn(&Binding) -> String,
) -> Vec<ListLine> {
    all.filter(|binding| binding.scope == scope)
        .map(|binding| ListLine::Command {
            action: binding.action,
            keys: binding.keys.join(" "),
            words: describe(binding),
            name: binding.name,
        })
        .collect()
}

/// What the menu offers for a row.
const MENU: [Action; 12] = [
    Action::Toggle,
    Action::Annotate,
    Action::Callers,
    Action::ShowInFlame,
    Action::ZoomDso,
    Action::ZoomThread,
    Action::Focus,
    Action::DropFunction,
    Action::MergeDso,
    Action::CollapseRecursion,
    Action::Copy,
    Action::ClearFilters,
];

impl Overlay {
    /// All bindings, those of the view first.
    pub(super) fn help(
        all: impl Iterator<Item = &'static Binding> + Clone,
        scope: KeyScope,
        glyphs: &Glyphs,
    ) -> Self {
        let mut scopes = vec![scope];
        scopes.extend(KeyScope::ALL.into_iter().filter(|&other| other != scope));
        let mut lines = Vec::new();
        for scope in scopes {
            lines.push(ListLine::Heading(scope.title().into()));
            lines.extend(commands(all.clone(), scope, |binding| binding.help.into()));
        }
        lines.push(ListLine::Heading("Signs and colours".into()));
        for kind in Kind::ALL {
            lines.push(ListLine::Text(format!("{} {}", kind.sign(), kind.word())));
        }
        let mut sign =
            |sign: &str, words: &str| lines.push(ListLine::Text(format!("{sign:<3} {words}")));
        sign(glyphs.closed.trim(), "row that opens");
        sign(
            glyphs.light_bar,
            "part of a bar that is not the function's own",
        );
        sign(glyphs.cursor, "frame under the cursor in the flame graph");
        sign("*", "the same function elsewhere in it");
        sign(
            glyphs.merged,
            "frames narrower than a column, in one cell; Enter zooms in",
        );
        sign("+", "narrower frames that no column was left for");
        sign(glyphs.before, "rows begin left of the screen");
        sign(
            "!",
            "a figure of the last line that limits how far to trust the others",
        );
        Self::List(List::new(
            "Help: / searches, Enter runs, Esc closes",
            lines,
            None,
        ))
    }

    /// The commands that work in the view, to be typed.
    pub(super) fn palette(
        all: impl Iterator<Item = &'static Binding> + Clone,
        scope: KeyScope,
    ) -> Self {
        let describe = |binding: &Binding| format!("{}: {}", binding.name, binding.help);
        let mut lines = commands(all.clone(), scope, describe);
        if scope != KeyScope::Everywhere {
            lines.extend(commands(all, KeyScope::Everywhere, describe));
        }
        Self::List(List::new("Commands", lines, Some(Prompt::default())))
    }

    /// What can be done with the selected row.
    pub(super) fn menu(all: impl Iterator<Item = &'static Binding> + Clone) -> Self {
        let lines = MENU.iter().filter_map(|action| {
            let binding = all.clone().find(|binding| binding.action == *action)?;
            Some(ListLine::Command {
                action: *action,
                keys: binding.keys.join(" "),
                words: binding.help.into(),
                name: binding.name,
            })
        });
        Self::List(List {
            has_live_keys: true,
            ..List::new("With the selected row", lines.collect(), None)
        })
    }

    /// The recording and how far to trust it, on a screen of so many columns.
    pub(super) fn info(about: &[String], columns: u16) -> Self {
        let width = usize::from(columns).saturating_sub(6).clamp(20, 94);
        let lines = about
            .iter()
            .flat_map(|line| text::wrap(line, width))
            .map(ListLine::Text)
            .collect();
        Self::List(List::new("This recording", lines, None))
    }

    /// The locks that threads waited for.
    pub(super) fn locks(lines: Vec<String>) -> Self {
        let lines = lines.into_iter().map(ListLine::Text).collect();
        Self::List(List::new("Locks", lines, None))
    }

    pub(super) fn ask(asked: Asked, text: &str) -> Self {
        Self::Ask(asked, Prompt::with(text))
    }

    pub(super) fn key(&mut self, key: &KeyEvent, height: usize) -> Taken {
        match self {
            Self::List(list) => list.key(key, height),
            Self::Ask(asked, prompt) => match prompt.key(key) {
                Typed::Changed if *asked == Asked::Search => {
                    Taken::Changed(prompt.text().to_string())
                }
                Typed::Changed | Typed::Nothing => Taken::Nothing,
                Typed::Cancelled => Taken::Close,
                Typed::Accepted => Taken::Answered(*asked, prompt.text().to_string()),
            },
            Self::Replace(write) => match key.code {
                KeyCode::Char('y' | 'Y')
                    if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() =>
                {
                    Taken::Replace(Write {
                        taken: IfTaken::Replace,
                        ..write.clone()
                    })
                }
                _ => Taken::Keep(write.path.clone()),
            },
        }
    }

    /// A click somewhere on the screen, whose views have `area`.
    pub(super) fn click(&mut self, area: Rect, at: Position) -> Taken {
        match self {
            Self::List(list) => list.click(area, at),
            Self::Ask(..) => Taken::Close,
            Self::Replace(write) => Taken::Keep(write.path.clone()),
        }
    }

    pub(super) fn wheel(&mut self, rows: isize) {
        if let Self::List(list) = self {
            list.scroll.step(rows);
        }
    }

    /// Draws a list in the middle of `area`. Prompts are drawn by the frame.
    pub(super) fn draw(&self, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let Self::List(list) = self else { return };
        let shown = list.shown();
        let (place, body) = list.place(area);
        Clear.render(place, buffer);
        let block = Block::bordered()
            .border_set(theme.border())
            .title(list.title);
        let inside = block.inner(place);
        block.render(place, buffer);
        if let Some(prompt) = &list.prompt {
            let (before, after) = prompt.parts();
            let mut pen = Pen::new(buffer, theme, inside, 0);
            pen.put("> ", theme.heading()).put(before, Style::new());
            pen.put("_", theme.heading()).put(after, Style::new());
        }
        let top = list.scroll.top(usize::from(body.height));
        for (row, line) in (0..body.height).zip(shown.iter().skip(top)) {
            draw_line(theme, line, Pen::new(buffer, theme, body, row));
            if top + usize::from(row) == list.scroll.cursor() {
                style_row(buffer, body, row, theme.selected());
            }
        }
        if shown.is_empty() {
            Pen::new(buffer, theme, body, 0).put("nothing matches", theme.dim());
        }
    }
}

fn draw_line(theme: &Theme, line: &ListLine, mut pen: Pen<'_>) {
    match line {
        ListLine::Heading(words) => pen.put(words, theme.heading()),
        ListLine::Text(words) => {
            let kind = Kind::ALL
                .into_iter()
                .find(|kind| words.starts_with(kind.sign()));
            pen.put(words, kind.map_or_else(Style::new, |kind| theme.kind(kind)))
        }
        ListLine::Command { keys, words, .. } => {
            let width = 16.max(text::width(keys) + 1);
            pen.gap(1)
                .cell(keys, width, theme.key())
                .put(words, Style::new())
        }
    };
}
