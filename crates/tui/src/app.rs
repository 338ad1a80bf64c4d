//! The state of a session and how keys, clicks and answers change it.
//!
//! No terminal, no thread and no clock in here: what has to be done outside
//! is left in `effects` and `asks` for the session to pick up.

use super::action::Action;
use super::ahead::{Ahead, Deed};
use super::bindings;
use super::data::{Answer, Ask, Found, Seen};
use super::filters::{self, History, Remap};
use super::message::Message;
use super::overlay::{Asked, Overlay, Taken};
use super::search::{Arrival, Search};
use super::theme::Theme;
use super::views::{Callers, Code, Flame, Hotspots, Threads, Timeline, TreeView, View};
use super::{Look, Mouse};
use crossterm::event::{KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use prof_profile::{DsoId, EventId, FunctionId, Profile, TaskId};
use prof_report::model::{Recursion, Selection, SiteId, SiteKind, Transform, Weight};
use ratatui::layout::Rect;
use std::sync::Arc;

/// What the session has to do for the app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    Suspend,
    /// Draw everything again.
    Redraw,
    SetMouse(Mouse),
    /// Open the editor.
    Edit {
        file: String,
        line: u32,
    },
    /// Put this on the terminal's clipboard.
    Copy(String),
}

/// What the cursor is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) site: Option<SiteId>,
    pub(super) task: Option<TaskId>,
}

/// Switches that hold in all views.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switches {
    pub(super) mouse: Mouse,
    pub(super) headings: bool,
    pub(super) verbose: bool,
    /// Shares of what the filters keep, not of all.
    pub(super) relative: bool,
    /// Least share of a row, in thousandths of a percent.
    pub(super) least: u32,
}

/// The whole state.
pub(super) struct App {
    pub(super) profile: Option<Arc<Profile>>,
    /// What the loader does, while it does.
    pub(super) progress: Option<String>,
    pub(super) history: History,
    pub(super) generation: u64,
    pub(super) seen: Option<Seen>,
    /// The generation of what is seen.
    seen_generation: u64,
    /// Whether the user waits long enough for the next to be told so.
    pub(super) is_slow: bool,
    pub(super) view: View,
    pub(super) hotspots: Hotspots,
    pub(super) tree: TreeView,
    pub(super) flame: Flame,
    pub(super) callers: Callers,
    pub(super) code: Code,
    pub(super) threads: Threads,
    pub(super) timeline: Timeline,
    pub(super) overlay: Option<Overlay>,
    pub(super) search: Search,
    pub(super) message: Option<Message>,
    pub(super) switches: Switches,
    pub(super) theme: Theme,
    pub(super) area: Rect,
    /// What was loaded, for the title.
    pub(super) title: String,
    /// What the session has to do.
    pub(super) effects: Vec<Effect>,
    /// What the worker has to find out.
    pub(super) asks: Vec<Ask>,
    /// Whether the selection has to be sent to the worker.
    pub(super) reselect: bool,
    /// A function to show the code of when there are data.
    pub(super) wanted: Option<String>,
    /// What was done to a view that waits.
    pub(super) ahead: Ahead,
    /// The user's home directory.
    pub(super) home: Option<String>,
    /// Files that are being written.
    pub(super) writes: usize,
    /// Whether the user wants to leave when they are.
    pub(super) is_leaving: bool,
}

impl App {
    pub(super) fn new(title: &str, look: Look, mouse: Mouse) -> Self {
        Self {
            profile: None,
            progress: Some("reading".into()),
            history: History::default(),
            generation: 0,
            seen: None,
            seen_generation: 0,
            is_slow: false,
            view: View::Hotspots,
            hotspots: Hotspots::default(),
            tree: TreeView::default(),
            flame: Flame::default(),
            callers: Callers::default(),
            code: Code::default(),
            threads: Threads::default(),
            timeline: Timeline::default(),
            overlay: None,
            search: Search::default(),
            message: None,
            switches: Switches {
                mouse,
                headings: true,
                verbose: false,
                relative: false,
                least: 0,
            },
            theme: Theme::new(look),
            area: Rect::default(),
            title: title.to_string(),
            effects: Vec::new(),
            asks: Vec::new(),
            reselect: false,
            wanted: None,
            ahead: Ahead::new(),
            home: None,
            writes: 0,
            is_leaving: false,
        }
    }

    /// A profile has come: the first, or one with more names.
    pub(super) fn set_profile(&mut self, profile: Arc<Profile>) {
        let samples = |id: &usize| profile.events.get(*id).map_or(0, |event| event.samples);
        if self.profile.is_none() {
            // Start where the samples are: dummy events have none.
            let fullest = (0..profile.events.len())
                .rev()
                .max_by_key(samples)
                .unwrap_or(0);
            let event = EventId(u16::try_from(fullest).unwrap_or(0));
            if samples(&0) == 0 {
                self.history.set_event(event);
            }
        }
        if let Some(old) = self.profile.replace(Arc::clone(&profile)) {
            let remap = Remap {
                old: &old,
                new: &profile,
            };
            self.history.remap(&remap);
            self.code.remap(&remap);
            self.callers.remap(&remap);
        }
        self.select();
    }

    /// The selection changed: everything derived is made anew.
    pub(super) fn select(&mut self) {
        self.generation += 1;
        self.reselect = true;
        self.asks.retain(|ask| matches!(ask, Ask::Write(_)));
    }

    /// Whether what is seen is not what was last selected.
    pub(super) fn is_behind(&self) -> bool {
        self.generation != self.seen_generation
    }

    /// Weight that 100 % stands for.
    pub(super) fn whole(&self) -> Weight {
        let Some(seen) = &self.seen else {
            return Weight::ZERO;
        };
        if self.switches.relative {
            seen.shown
        } else {
            seen.scope
        }
    }

    /// Weight below which rows are hidden.
    pub(super) fn least(&self) -> u64 {
        let whole = u128::from(self.whole().period);
        let least = whole * u128::from(self.switches.least) / 100_000;
        u64::try_from(least).unwrap_or(u64::MAX)
    }

    /// What the cursor is on.
    pub(super) fn selected(&self) -> Selected {
        match self.view {
            View::Hotspots => self.hotspots.selected(self),
            View::Tree => self.tree.selected(self),
            View::Flame => self.flame.selected(self),
            View::Callers => self.callers.selected(self),
            View::Code => self.code.selected(self),
            View::Threads => self.threads.selected(),
            View::Timeline => self.timeline.selected(),
        }
    }

    /// The selected function, unless a merged module is selected.
    pub(super) fn selected_function(&self) -> Option<FunctionId> {
        let seen = self.seen.as_ref()?;
        let site = seen.site(self.selected().site?);
        (site.kind != SiteKind::Module).then_some(site.function)
    }

    fn selected_module(&self) -> Option<DsoId> {
        let seen = self.seen.as_ref()?;
        Some(seen.site(self.selected().site?).dso)
    }

    // Input.

    /// The screen has this size now.
    pub(super) fn resized(&mut self, area: Rect) {
        if std::mem::replace(&mut self.area, area) != area && self.view == View::Timeline {
            // A column is a slice of the time.
            Timeline::shown(self);
        }
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: &KeyEvent) {
        self.message = None;
        if let Some(mut overlay) = self.overlay.take() {
            let taken = overlay.key(key, usize::from(self.area.height));
            self.overlay = Some(overlay);
            self.overlay_took(taken);
            return;
        }
        match bindings::lookup(key, self.view.scope()) {
            Some(action) => self.act(action),
            None => {
                if let Some(name) = bindings::key_name(key) {
                    self.say(format!("{name} does nothing here; ? lists the keys"));
                }
            }
        }
    }

    fn overlay_took(&mut self, taken: Taken) {
        match taken {
            Taken::Nothing => {}
            Taken::Close => {
                if matches!(&self.overlay, Some(Overlay::Ask(Asked::Search, _))) {
                    self.search.cancel();
                }
                self.overlay = None;
            }
            Taken::Run(action) => {
                self.overlay = None;
                self.act(action);
            }
            Taken::Changed(text) => self.search_for(&text),
            Taken::Answered(asked, text) => {
                self.overlay = None;
                self.answered(asked, &text);
            }
            Taken::Replace(write) => {
                self.overlay = None;
                self.order(write);
            }
            Taken::Keep(path) => {
                self.overlay = None;
                self.say(format!("{path} is as it was"));
            }
        }
    }

    fn answered(&mut self, asked: Asked, text: &str) {
        match asked {
            Asked::Search => self.search.accept(),
            Asked::Filter => {
                let Some(profile) = self.profile.clone() else {
                    return;
                };
                let mut next = self.history.now().clone();
                match filters::apply_typed(&mut next, &profile, text) {
                    Ok(()) => self.put(next),
                    Err(message) => self.fail(message),
                }
            }
            Asked::Limit => match text.trim().trim_end_matches('%').parse::<f64>() {
                Ok(limit) if (0.0..=100.0).contains(&limit) => {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "0 to 100"
                    )]
                    let least = (limit * 1000.0) as u32;
                    self.switches.least = least;
                    self.rebuild();
                }
                _ => self.fail("a limit is a share from 0 to 100"),
            },
            Asked::Write => self.write(text.trim()),
        }
    }

    /// The mouse did something.
    pub(super) fn mouse(&mut self, event: &MouseEvent) {
        let rows = match event.kind {
            MouseEventKind::ScrollDown => 3,
            MouseEventKind::ScrollUp => -3,
            MouseEventKind::Down(MouseButton::Left) => {
                self.message = None;
                return self.click(event.column, event.row);
            }
            MouseEventKind::Drag(MouseButton::Left) if self.drags() => {
                return Timeline::drag(self, event.column);
            }
            MouseEventKind::Up(MouseButton::Left) if self.drags() => {
                return Timeline::drop_at(self);
            }
            _ => return,
        };
        match &mut self.overlay {
            Some(overlay) => overlay.wheel(rows),
            None => self.wheel(rows),
        }
    }

    /// Whether what is on top is dragged over.
    fn drags(&self) -> bool {
        self.view == View::Timeline && self.overlay.is_none()
    }

    pub(super) fn click(&mut self, column: u16, row: u16) {
        let screen = super::frame::layout(self);
        if let Some(overlay) = &mut self.overlay {
            let taken = overlay.click(screen.top, (column, row).into());
            return self.overlay_took(taken);
        }
        if row == screen.tabs.y {
            if let Some(view) = super::frame::tab_at(self, column) {
                self.go_to(view);
            }
            return;
        }
        let body = screen.body;
        if !body.contains((column, row).into()) || self.must_wait(Deed::Click(column, row)) {
            return;
        }
        let (column, row) = (column - body.x, row - body.y);
        match self.view {
            View::Hotspots => Hotspots::click(self, column, row),
            View::Tree => TreeView::click(self, column, row),
            View::Flame => Flame::click(self, column, row),
            View::Callers => Callers::click(self, column, row),
            View::Code => Code::click(self, row),
            View::Threads => Threads::click(self, row),
            View::Timeline => Timeline::click(self, column),
        }
    }

    fn wheel(&mut self, rows: isize) {
        let height = self.body_rows();
        match self.view {
            View::Hotspots => self.hotspots.outline.scroll.wheel(rows, height),
            View::Tree => self.tree.wheel(rows, height),
            View::Flame => Flame::wheel(self, rows),
            View::Callers => self.callers.wheel(rows, height),
            View::Code => self.code.scroll.wheel(rows, height),
            View::Threads => self.threads.scroll.wheel(rows, height),
            View::Timeline => self.timeline.wheel(rows),
        }
    }

    /// Rows for lists, below their heading.
    pub(super) fn body_rows(&self) -> usize {
        let body = super::frame::layout(self).body.height;
        usize::from(body).saturating_sub(usize::from(self.switches.headings))
    }

    /// Does what a key or command asks for.
    pub(super) fn act(&mut self, action: Action) {
        if self.act_everywhere(action)
            || self.must_wait(Deed::Action(action))
            || self.act_on_selection(action)
            || self.seen.is_none()
        {
            return;
        }
        if let Some(words) = without_effect(self.view, action) {
            self.say(words);
        }
        match self.view {
            View::Hotspots => Hotspots::act(self, action),
            View::Tree => TreeView::act(self, action),
            View::Flame => Flame::act(self, action),
            View::Callers => Callers::act(self, action),
            View::Code => Code::act(self, action),
            View::Threads => Threads::act(self, action),
            View::Timeline => Timeline::act(self, action),
        }
    }

    /// What does not depend on the view.
    fn act_everywhere(&mut self, action: Action) -> bool {
        match action {
            Action::Quit | Action::QuitNow => self.leave(),
            Action::Back => self.back(),
            Action::Help => {
                self.overlay = Some(Overlay::help(self.view.scope(), self.theme.glyphs))
            }
            Action::Palette => self.overlay = Some(Overlay::palette(self.view.scope())),
            Action::Menu => self.overlay = Some(Overlay::menu()),
            Action::Info => self.overlay = Some(Overlay::info(self)),
            Action::Search => {
                self.search.begin();
                self.overlay = Some(Overlay::ask(Asked::Search, ""));
            }
            Action::Filter => self.overlay = Some(Overlay::ask(Asked::Filter, "")),
            Action::PercentLimit => {
                let now = f64::from(self.switches.least) / 1000.0;
                self.overlay = Some(Overlay::ask(Asked::Limit, &now.to_string()));
            }
            Action::Write => self.ask_for_name(),
            Action::Print => self.print(),
            Action::View(number) => {
                if let Some(&view) = View::ALL.get(usize::from(number)) {
                    self.go_to(view);
                }
            }
            Action::NextView => self.go_to(self.view.next(1)),
            Action::PreviousView => self.go_to(self.view.next(View::ALL.len() - 1)),
            Action::NextEvent => self.switch_event(1),
            Action::PreviousEvent => self.switch_event(-1),
            Action::Undo => {
                let done = self.history.undo();
                self.after_history(done, "nothing to undo");
            }
            Action::Redo => {
                let done = self.history.redo();
                self.after_history(done, "nothing to do again");
            }
            Action::ClearFilters => {
                let done = self.history.clear();
                self.after_history(done, "there are no filters");
            }
            Action::TogglePercentage => {
                self.switches.relative = !self.switches.relative;
                self.say(if self.switches.relative {
                    "shares of what the filters keep"
                } else {
                    "shares of all samples"
                });
            }
            Action::ToggleHeaders => self.switches.headings = !self.switches.headings,
            Action::ToggleVerbose => self.switches.verbose = !self.switches.verbose,
            Action::ToggleMouse => {
                self.switches.mouse = match self.switches.mouse {
                    Mouse::On => Mouse::Off,
                    Mouse::Off => Mouse::On,
                };
                self.effects.push(Effect::SetMouse(self.switches.mouse));
                self.say(match self.switches.mouse {
                    Mouse::On => "the mouse works here; Shift selects text",
                    Mouse::Off => "the mouse selects text",
                });
            }
            Action::Redraw => self.effects.push(Effect::Redraw),
            Action::Suspend => self.effects.push(Effect::Suspend),
            _ => return false,
        }
        true
    }

    /// What is done to the selected row or the search.
    fn act_on_selection(&mut self, action: Action) -> bool {
        let Some(profile) = self.profile.clone() else {
            return false;
        };
        match action {
            Action::ZoomKernel => self.change(filters::zoom_kernel),
            Action::ZoomModule => match self.selected_module() {
                Some(dso) => {
                    self.change(|selection| filters::zoom_module(selection, &profile, dso))
                }
                None => self.say("no module is selected"),
            },
            Action::ZoomThread => self.zoom_thread(&profile),
            Action::MergeModule => match self.selected_module() {
                Some(dso) => self.transform(Transform::MergeModule(dso)),
                None => self.say("no module is selected"),
            },
            Action::CollapseRecursion => {
                self.transform(Transform::CollapseRecursion(Recursion::Any));
            }
            Action::ToggleInlined => {
                self.change(|selection| selection.inlines = !selection.inlines);
            }
            Action::Focus
            | Action::DropFunction
            | Action::Annotate
            | Action::Callers
            | Action::ShowInFlame
            | Action::Copy => match self.selected_function() {
                Some(function) => self.act_on_function(action, function),
                None => self.say("no function is selected"),
            },
            Action::SearchNext | Action::SearchPrevious => {
                self.search_step(action == Action::SearchNext);
            }
            _ => return false,
        }
        true
    }

    fn act_on_function(&mut self, action: Action, function: FunctionId) {
        match action {
            Action::Focus => self.transform(Transform::Focus(function)),
            Action::DropFunction => self.transform(Transform::Drop(function)),
            Action::Annotate => Code::open(self, function),
            Action::Callers => Callers::open(self, function.0),
            Action::ShowInFlame => Flame::open(self, function),
            _ => {
                let name = self
                    .profile
                    .as_ref()
                    .map(|profile| profile.name(profile.function(function).name).to_string());
                if let Some(name) = name {
                    self.effects.push(Effect::Copy(name));
                    self.say("copied, if the terminal allows it");
                }
            }
        }
    }

    fn zoom_thread(&mut self, profile: &Profile) {
        if self.view == View::Threads && self.selected().task.is_some() {
            Threads::filter(self);
        } else if let Some(task) = self.selected().task {
            self.change(|selection| filters::zoom_thread(selection, profile, task));
        } else if !self.history.now().filter.tids.is_empty() {
            self.change(|selection| selection.filter.tids.clear());
        } else {
            self.show(View::Threads);
            self.say("select a thread and press t");
        }
    }

    fn transform(&mut self, transform: Transform) {
        self.change(|selection| filters::toggle_transform(selection, transform));
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Selection)) {
        self.history.change(change);
        self.select();
    }

    fn put(&mut self, next: Selection) {
        self.history.set(next);
        self.select();
    }

    fn after_history(&mut self, done: bool, otherwise: &str) {
        if done {
            self.select();
        } else {
            self.say(otherwise);
        }
    }

    /// Esc: the search ends, then zooms and filters are taken back.
    fn back(&mut self) {
        if self.search.clear()
            || Timeline::cancel(self)
            || Flame::zoom_out(self)
            || Callers::close(self)
        {
            return;
        }
        if self.view == View::Code && self.code.came_from.is_some() {
            Code::close(self);
        } else if self.history.undo() {
            self.select();
        } else {
            self.say("q leaves the program");
        }
    }

    /// Shows a view; one of a single function shows the selected one, or the
    /// last one if none is selected.
    fn go_to(&mut self, view: View) {
        match (view, self.selected_function()) {
            _ if view == self.view => {}
            (View::Callers, Some(function)) => Callers::open(self, function.0),
            (View::Code, Some(function)) => Code::open(self, function),
            _ => self.show(view),
        }
    }

    pub(super) fn show(&mut self, view: View) {
        if self.view != view {
            self.ahead.clear();
        }
        self.view = view;
        match view {
            View::Callers => Callers::shown(self),
            View::Code => Code::shown(self),
            View::Threads => Threads::shown(self),
            View::Timeline => Timeline::shown(self),
            View::Hotspots | View::Tree | View::Flame => {}
        }
    }

    fn switch_event(&mut self, step: isize) {
        let Some(profile) = &self.profile else { return };
        let count = profile.events.len();
        if count < 2 {
            self.say("this recording has one event; 1 to 7 switch views");
            return;
        }
        let now = usize::from(self.history.now().event.0);
        let next = (now + count).saturating_add_signed(step) % count;
        if let Ok(next) = u16::try_from(next) {
            self.history.set_event(EventId(next));
            self.select();
        }
    }

    // Search.

    fn search_for(&mut self, text: &str) {
        if text.is_empty() {
            self.search.clear();
            return;
        }
        match filters::smart_case(text) {
            Ok(pattern) => {
                self.search.await_typed(pattern.as_str());
                self.asks.push(Ask::Search(pattern));
            }
            Err(error) => self.search.error = Some(error),
        }
    }

    fn search_step(&mut self, forwards: bool) {
        let Some(found) = self.search.found.clone() else {
            self.say("nothing was searched for; / searches");
            return;
        };
        if !self.go_to_match(&found, forwards) {
            self.say("no other match in this view");
        }
    }

    /// Moves the cursor to a match; whether there is another one.
    fn go_to_match(&mut self, found: &Found, forwards: bool) -> bool {
        match self.view {
            View::Hotspots => Hotspots::find(self, found, forwards),
            View::Tree => TreeView::find(self, found, forwards),
            View::Flame => Flame::find(self, found, forwards),
            View::Callers => Callers::find(self, found, forwards),
            View::Code => Code::find(self, found, forwards),
            View::Threads | View::Timeline => false,
        }
    }

    fn found(&mut self, found: Found) {
        let is_typing = matches!(self.overlay, Some(Overlay::Ask(Asked::Search, _)));
        let arrival = self.search.came(found.clone(), is_typing);
        if arrival != Arrival::Typed {
            return;
        }
        let is_on_match = self.selected().site.is_some_and(|site| found.holds(site));
        if !is_on_match && found.functions > 0 {
            self.go_to_match(&found, true);
        }
    }

    // Answers.

    /// The worker answered.
    pub(super) fn answer(&mut self, generation: u64, answer: Answer) {
        // A file is written or not, whatever is selected by now.
        let answer = match answer {
            Answer::Wrote(wrote) => return self.wrote(wrote),
            answer => answer,
        };
        if generation != self.generation {
            return;
        }
        match answer {
            Answer::Seen(seen, bottom_up) => {
                self.seen_generation = generation;
                let before = self.seen.replace(*seen);
                Hotspots::renew(self, before.as_ref());
                TreeView::renew(self, bottom_up, before.as_ref());
                Flame::renew(self, before.as_ref());
                self.callers.renew();
                self.code.renew();
                self.threads.renew();
                self.timeline.renew();
                // What was asked of the selection before is void.
                if let Some(typed) = self.search.awaited().map(str::to_string) {
                    self.search_for(&typed);
                } else if let Some(found) = &self.search.found {
                    self.asks.push(Ask::Search(found.pattern.clone()));
                }
                self.show(self.view);
                self.show_wanted();
            }
            Answer::Around(around) => Hotspots::chains_came(self, *around),
            Answer::Heat(rows, heat) => {
                if self.view == View::Threads {
                    Threads::came(self, heat);
                } else {
                    self.timeline.came(rows, heat);
                }
            }
            Answer::Found(found) => self.found(found),
            Answer::Code(view) => Code::came(self, *view),
            Answer::Wrote(wrote) => self.wrote(wrote),
        }
        self.catch_up();
    }

    /// Shows the code of the function that the session was started for.
    fn show_wanted(&mut self) {
        let (Some(name), Some(seen)) = (self.wanted.take(), self.seen.clone()) else {
            return;
        };
        let profile = &seen.profile;
        let is_it = |site: SiteId| {
            let full = seen.site(site).name(profile);
            let rest = full.strip_prefix(name.as_str());
            name.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
        };
        let hits = seen.hot.iter().filter(|hot| is_it(hot.site));
        match hits.max_by_key(|hot| hot.own) {
            Some(hot) => Code::open(self, seen.site(hot.site).function),
            None => self.say(format!(
                "no function with samples is called {name}; / searches"
            )),
        }
    }

    /// Makes lists anew that depend on switches.
    fn rebuild(&mut self) {
        self.select();
    }
}

/// What to say of keys that other views of the same scope obey.
fn without_effect(view: View, action: Action) -> Option<&'static str> {
    match (view, action) {
        (View::Hotspots | View::Callers | View::Threads, Action::Invert) => {
            Some("what turns around is the call tree: 2")
        }
        (View::Tree | View::Callers | View::Threads, Action::NextOrder | Action::ReverseOrder) => {
            Some("these rows are ordered by weight")
        }
        _ => None,
    }
}
