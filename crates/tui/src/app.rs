//! The state of a session and how keys, clicks and answers change it.
//!
//! No terminal, no thread and no clock in here: what has to be done outside
//! is left in [`Shared`] for the session to pick up.

mod files;

use super::action::Action;
use super::ahead::{Ahead, Deed};
use super::binding_table::bindings;
use super::bindings::{KeyScope, key_name};
use super::data::{Answer, Found};
use super::filters::{self, Remap};
use super::frame;
use super::keys::lookup;
use super::layout::layout;
use super::overlay::{Asked, Overlay, Taken};
use super::search::Arrival;
use super::shared::{Effect, Selected, Shared, TabId};
use super::tab::{Fresh, Subject};
use super::terminal::Mouse;
use super::theme::{Look, Theme};
use super::views::{ALL, Tabs};
use crossterm::event::{KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use prof_profile::{Clock, DsoId, EventId, FunctionId, NoClock, Profile};
use prof_report::asked::called;
use prof_report::model::{Recursion, RunsOfSides, SiteKind, Transform};
use ratatui::layout::{Position, Rect};
use std::sync::Arc;

/// The whole state.
pub(super) struct App {
    pub(super) shared: Shared,
    pub(super) tabs: Tabs,
    /// A function to show the code of when there are data.
    pub(super) wanted: Option<String>,
    /// What was done to a tab that waits.
    pub(super) ahead: Ahead,
    /// The user's home directory.
    pub(super) home: Option<String>,
    /// Files that are being written.
    pub(super) writes: usize,
    /// Whether the user wants to leave when they are.
    pub(super) is_leaving: bool,
    /// As it was loaded, with all its events.
    whole: Option<Arc<Profile>>,
    /// What is shown of it; `None` for each event by itself.
    clock: Option<Clock>,
    /// Whether what waits were for stands on top of their stacks.
    has_states: bool,
}

/// Why there is nothing to show of waits.
const NO_WAITS: &str = "the recording has no waits; prof record --off-cpu records them";

/// How two recordings are compared by one clock.
const CLOCK_OF_TWO: &str = "of two recordings a clock is chosen when they are read: \
                            prof report --diff BEFORE AFTER --clock wall (or cpu, off)";
/// Why there are no locks of two recordings.
const LOCKS_OF_TWO: &str = "locks are those of one recording: prof report -i FILE --locks";

/// A profile as one clock has it.
fn by_clock(whole: &Profile, clock: Clock) -> Result<Profile, NoClock> {
    let mut profile = whole.clone();
    profile.show_clock(clock)?;
    Ok(profile)
}

impl App {
    pub(super) fn new(title: &str, look: Look, mouse: Mouse) -> Self {
        Self {
            shared: Shared::new(title, Theme::new(look), mouse),
            tabs: Tabs::new(),
            wanted: None,
            ahead: Ahead::default(),
            home: None,
            writes: 0,
            is_leaving: false,
            whole: None,
            clock: None,
            has_states: false,
        }
    }

    /// A profile has come: the first, or one with more names.
    pub(super) fn set_profile(&mut self, profile: Arc<Profile>) {
        let whole = Arc::clone(&profile);
        let profile = match self.clock.and_then(|clock| by_clock(&profile, clock).ok()) {
            Some(shown) => Arc::new(shown),
            None => {
                self.clock = None;
                profile
            }
        };
        self.whole = Some(whole);
        self.show_profile(profile);
    }

    /// Shows a profile, with the same things selected.
    fn show_profile(&mut self, mut profile: Arc<Profile>) {
        if self.has_states {
            Arc::make_mut(&mut profile).show_wait_states();
        }
        if let Some(old) = self.shared.replace_profile(&profile) {
            let remap = Remap {
                old: &old,
                new: &profile,
            };
            for tab in self.tabs.iter_mut() {
                tab.remap(&remap);
            }
        }
        self.shared.select();
    }

    /// The profile is of recordings before and after.
    pub(super) fn compare(&mut self, sides: RunsOfSides) {
        self.tabs.add_those_of_two();
        self.shared.sides = Some(sides);
    }

    /// What the cursor is on.
    pub(super) fn selected(&self) -> Selected {
        self.tabs.shown().selected(&self.shared)
    }

    /// The selected function, unless a merged dso is selected.
    fn selected_function(&self) -> Option<FunctionId> {
        let seen = self.shared.seen.as_ref()?;
        let site = seen.site(self.selected().site?);
        let function = (site.kind != SiteKind::Dso).then_some(site.function)?;
        match &self.shared.profile {
            Some(new) if self.is_between_profiles() => Remap {
                old: &seen.profile,
                new,
            }
            .function(function),
            _ => Some(function),
        }
    }

    /// Whether another profile has come, with other numbers for functions, and
    /// what is on the screen is still of the one before.
    pub(super) fn is_between_profiles(&self) -> bool {
        let both = self.shared.seen.as_ref().zip(self.shared.profile.as_ref());
        both.is_some_and(|(seen, profile)| !Arc::ptr_eq(&seen.profile, profile))
    }

    fn selected_dso(&self) -> Option<DsoId> {
        let seen = self.shared.seen.as_ref()?;
        Some(seen.site(self.selected().site?).dso)
    }

    fn scope(&self) -> KeyScope {
        self.tabs.shown().about().scope
    }

    /// Whether the view waits for the worker; then the deed waits, too.
    fn must_wait(&mut self, deed: Deed) -> bool {
        let is_waiting = self.is_waiting();
        if is_waiting {
            self.ahead.push(deed);
        }
        is_waiting
    }

    fn is_waiting(&self) -> bool {
        let waits = self.is_between_profiles() || self.tabs.shown().is_waiting();
        self.shared.seen.is_some() && waits
    }

    /// Does what waited, as far as the view has what it needs.
    pub(super) fn catch_up(&mut self) {
        while !self.is_waiting()
            && let Some(deed) = self.ahead.pop()
        {
            match deed {
                Deed::Action(action) => self.act(action),
                Deed::Click(column, row) => self.click(column, row),
            }
        }
    }

    // Input.

    /// The screen has this size now.
    pub(super) fn resized(&mut self, area: Rect) {
        if std::mem::replace(&mut self.shared.area, area) != area {
            self.tabs.shown_mut().resized(&mut self.shared);
        }
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: &KeyEvent) {
        self.shared.message.clear();
        if let Some(mut overlay) = self.shared.overlay.take() {
            let taken = overlay.key(key, usize::from(self.shared.area.height));
            self.shared.overlay = Some(overlay);
            self.overlay_took(taken);
            return;
        }
        match lookup(key, self.scope()) {
            Some(action) => self.act(action),
            None => {
                if let Some(name) = key_name(key) {
                    let words = format!("{name} does nothing here; ? lists the keys");
                    self.shared.say(words);
                }
            }
        }
    }

    fn overlay_took(&mut self, taken: Taken) {
        match taken {
            Taken::Nothing => {}
            Taken::Close => {
                let overlay = self.shared.overlay.take();
                if matches!(overlay, Some(Overlay::Ask(Asked::Search, _))) {
                    self.shared.search.cancel();
                }
            }
            Taken::Run(action) => {
                self.shared.overlay = None;
                self.act(action);
            }
            Taken::Changed(text) => self.search_for(&text),
            Taken::Answered(asked, text) => {
                self.shared.overlay = None;
                self.answered(asked, &text);
            }
            Taken::Replace(write) => {
                self.shared.overlay = None;
                self.order(write);
            }
            Taken::Keep(path) => {
                self.shared.overlay = None;
                self.shared.say(format!("{path} is as it was"));
            }
        }
    }

    fn answered(&mut self, asked: Asked, text: &str) {
        match asked {
            Asked::Search => self.shared.search.accept(),
            Asked::Filter => self.filter_by(text),
            Asked::Limit => match text.trim().trim_end_matches('%').parse::<f64>() {
                Ok(limit) if (0.0..=100.0).contains(&limit) => {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "0 to 100"
                    )]
                    let least = (limit * 1000.0) as u32;
                    self.shared.switches.least = least;
                    // Lists are made anew.
                    self.shared.select();
                }
                _ => self.shared.fail("a limit is a share from 0 to 100"),
            },
            Asked::Write => self.write(text.trim()),
        }
    }

    fn filter_by(&mut self, text: &str) {
        let Some(profile) = self.shared.profile.clone() else {
            return;
        };
        let mut next = self.shared.history.now().clone();
        match filters::apply_typed(&mut next, &profile, text) {
            Ok(()) => {
                self.shared.history.set(next);
                self.shared.select();
            }
            Err(message) => self.shared.fail(message),
        }
    }

    /// The mouse did something.
    pub(super) fn mouse(&mut self, event: &MouseEvent) {
        let tab = self.tabs.shown_mut();
        let is_free = self.shared.overlay.is_none();
        match event.kind {
            MouseEventKind::ScrollDown => self.wheel(3),
            MouseEventKind::ScrollUp => self.wheel(-3),
            MouseEventKind::Down(MouseButton::Left) => {
                self.shared.message.clear();
                self.click(event.column, event.row);
            }
            MouseEventKind::Drag(MouseButton::Left) if is_free => {
                tab.drag(&mut self.shared, event.column);
            }
            MouseEventKind::Up(MouseButton::Left) if is_free => tab.drop_at(&mut self.shared),
            _ => {}
        }
    }

    pub(super) fn click(&mut self, column: u16, row: u16) {
        let screen = layout(&self.shared, self.tabs.shown());
        if let Some(overlay) = &mut self.shared.overlay {
            let taken = overlay.click(screen.top, (column, row).into());
            return self.overlay_took(taken);
        }
        if row == screen.tabs.y {
            if let Some(tab) = frame::tab_at(&self.tabs, self.shared.area.width, column) {
                self.go_to(tab);
            }
            return;
        }
        let body = screen.body;
        if !body.contains((column, row).into()) || self.must_wait(Deed::Click(column, row)) {
            return;
        }
        let at = Position::new(column - body.x, row - body.y);
        self.tabs.shown_mut().click(&mut self.shared, at);
        self.show_what_is_wanted();
    }

    fn wheel(&mut self, rows: isize) {
        match &mut self.shared.overlay {
            Some(overlay) => overlay.wheel(rows),
            None => self.tabs.wheel(&mut self.shared, rows),
        }
    }

    /// Does what a key or command asks for.
    pub(super) fn act(&mut self, action: Action) {
        if self.act_everywhere(action)
            || self.must_wait(Deed::Action(action))
            || self.act_on_selection(action)
            || self.shared.seen.is_none()
        {
            return;
        }
        let tab = self.tabs.shown_mut();
        let mut idle = tab.about().idle.iter();
        if let Some((_, words)) = idle.find(|(idle, _)| *idle == action) {
            self.shared.say(*words);
        }
        tab.act(&mut self.shared, action);
        self.show_what_is_wanted();
    }

    /// What does not depend on the tab.
    fn act_everywhere(&mut self, action: Action) -> bool {
        match action {
            Action::Quit | Action::QuitNow => self.leave(),
            Action::Back => self.back(),
            Action::Search => {
                self.shared.search.begin();
                self.ask(Asked::Search, "");
            }
            Action::Filter => self.ask(Asked::Filter, ""),
            Action::PercentLimit => {
                let now = f64::from(self.shared.switches.least) / 1000.0;
                self.ask(Asked::Limit, &now.to_string());
            }
            Action::Write => self.ask_for_name(),
            Action::Print => self.print(),
            Action::View(number) => self.go_to(TabId(usize::from(number))),
            Action::NextView => self.go_to(self.tabs.next(1)),
            Action::PreviousView => self.go_to(self.tabs.next(self.tabs.len() - 1)),
            Action::NextClock => self.switch_clock(),
            Action::ToggleStates => self.toggle_states(),
            Action::Locks => self.ask_for_locks(),
            Action::NextEvent => self.switch_event(1),
            Action::PreviousEvent => self.switch_event(-1),
            Action::Redraw => self.shared.effects.push(Effect::Redraw),
            Action::Suspend => self.shared.effects.push(Effect::Suspend),
            _ => {
                return self.put_on_top(action)
                    || self.shared.switch(action)
                    || self.step_history(action);
            }
        }
        true
    }

    fn ask(&mut self, asked: Asked, text: &str) {
        self.shared.overlay = Some(Overlay::ask(asked, text));
    }

    /// Shows a list on top of the tab; whether the action asks for one.
    fn put_on_top(&mut self, action: Action) -> bool {
        self.shared.overlay = Some(match action {
            Action::Help => Overlay::help(bindings(), self.scope(), self.shared.theme.glyphs),
            Action::Palette => Overlay::palette(bindings(), self.scope()),
            Action::Menu => Overlay::menu(bindings()),
            Action::Info => Overlay::info(&frame::about(&self.shared), self.shared.area.width),
            _ => return false,
        });
        true
    }

    /// Takes changes of the selection back, or makes them again; whether the
    /// action asks for it.
    fn step_history(&mut self, action: Action) -> bool {
        let history = &mut self.shared.history;
        let (is_done, otherwise) = match action {
            Action::Undo => (history.undo(), "nothing to undo"),
            Action::Redo => (history.redo(), "nothing to do again"),
            Action::ClearFilters => (history.clear(), "there are no filters"),
            _ => return false,
        };
        if is_done {
            self.shared.select();
        } else {
            self.shared.say(otherwise);
        }
        true
    }

    /// What is done to the selected row or the search.
    fn act_on_selection(&mut self, action: Action) -> bool {
        if self.shared.profile.is_none() {
            return false;
        }
        match action {
            Action::ZoomKernel => self.shared.change(filters::zoom_kernel),
            Action::ZoomDso | Action::MergeDso => match self.selected_dso() {
                Some(dso) => self.act_on_dso(action, dso),
                None => self.shared.say("no dso is selected"),
            },
            // A tab with threads zooms into the selected one itself.
            Action::ZoomThread if self.selected().task.is_some() => return false,
            Action::ZoomThread => self.zoom_thread(),
            Action::CollapseRecursion => {
                self.transform(Transform::CollapseRecursion(Recursion::Any));
            }
            Action::ToggleInlined => {
                let toggle = |inlines: &mut bool| *inlines = !*inlines;
                self.shared
                    .change(|selection| toggle(&mut selection.inlines));
            }
            Action::SearchNext | Action::SearchPrevious => {
                self.search_step(action == Action::SearchNext);
            }
            Action::Focus | Action::DropFunction | Action::Copy => self.act_on_function(action),
            _ if Tabs::shown_by(action).is_some() => self.act_on_function(action),
            _ => return false,
        }
        true
    }

    fn act_on_dso(&mut self, action: Action, dso: DsoId) {
        let Some(profile) = self.shared.profile.clone() else {
            return;
        };
        if action == Action::MergeDso {
            return self.transform(Transform::MergeDso(dso));
        }
        self.shared
            .change(|selection| filters::zoom_dso(selection, &profile, dso));
    }

    fn act_on_function(&mut self, action: Action) {
        let Some(function) = self.selected_function() else {
            return self.shared.say("no function is selected");
        };
        match (action, Tabs::shown_by(action)) {
            (Action::Focus, _) => self.transform(Transform::Focus(function)),
            (Action::DropFunction, _) => self.transform(Transform::Drop(function)),
            (_, Some(tab)) => self.open(tab, function),
            (_, None) => {
                let profile = self.shared.profile.as_ref();
                let name = profile
                    .map(|profile| profile.name(profile.function(function).name).to_string());
                if let Some(name) = name {
                    self.shared.effects.push(Effect::Copy(name));
                    self.shared.say("copied, if the terminal allows it");
                }
            }
        }
    }

    /// All threads again, or where one can be selected.
    fn zoom_thread(&mut self) {
        if !self.shared.history.now().filter.tids.is_empty() {
            self.shared
                .change(|selection| selection.filter.tids.clear());
        } else if let Some(tab) = Tabs::find(|about| about.subject == Subject::Threads) {
            self.show(tab);
            self.shared.say("select a thread and press t");
        }
    }

    fn transform(&mut self, transform: Transform) {
        self.shared
            .change(|selection| filters::toggle_transform(selection, transform));
    }

    /// Esc: the search ends, then zooms and filters are taken back.
    fn back(&mut self) {
        if self.shared.search.clear() || self.tabs.shown_mut().back(&mut self.shared) {
            self.show_what_is_wanted();
        } else if self.shared.history.leave() {
            self.shared.select();
        } else {
            self.shared.say("q leaves the program");
        }
    }

    /// Shows a tab; one of a single function shows the selected one, or the
    /// last one if none is selected.
    fn go_to(&mut self, tab: TabId) {
        let Some((about, _)) = ALL.get(tab.0) else {
            return;
        };
        match (about.subject, self.selected_function()) {
            _ if tab == self.tabs.at() => {}
            _ if tab.0 >= self.tabs.len() => {
                let words = "changes are of two recordings: prof report --diff BEFORE AFTER";
                self.shared.say(words);
            }
            (Subject::Function, Some(function)) => self.open(tab, function),
            _ => self.show(tab),
        }
    }

    /// Shows a function in a tab.
    fn open(&mut self, tab: TabId, function: FunctionId) {
        let from = Some(self.tabs.at()).filter(|&from| from != tab);
        if let Some(tab) = self.tabs.get_mut(tab) {
            tab.open(&mut self.shared, function, from);
        }
        self.show(tab);
    }

    fn show(&mut self, tab: TabId) {
        if self.tabs.at() != tab {
            self.ahead.clear();
        }
        self.tabs.go_to(tab);
        // Between two profiles it is shown when the data of the new one come.
        if !self.is_between_profiles() {
            self.tabs.shown_mut().shown(&mut self.shared);
        }
    }

    /// Shows the tab that another one wants to be shown.
    fn show_what_is_wanted(&mut self) {
        if let Some(tab) = self.shared.to_show.take() {
            self.show(tab);
        }
    }

    fn switch_event(&mut self, step: isize) {
        let shared = &mut self.shared;
        let Some(profile) = &shared.profile else {
            return;
        };
        let count = profile.events.len();
        if count < 2 {
            let tabs = self.tabs.len();
            shared.say(format!(
                "this recording has one event; 1 to {tabs} switch views"
            ));
            return;
        }
        let now = usize::from(shared.history.now().event.0);
        let next = (now + count).saturating_add_signed(step) % count;
        if let Ok(next) = u16::try_from(next) {
            shared.history.set_event(EventId(next));
            shared.select();
        }
    }

    /// Puts what waits were for on top of their stacks, or takes it away.
    fn toggle_states(&mut self) {
        let Some(whole) = self.whole.clone() else {
            return;
        };
        if !whole.samples.has_waits() {
            return self.shared.say(NO_WAITS);
        }
        self.has_states = !self.has_states;
        self.set_profile(whole);
        self.shared.say(match self.has_states {
            true => "what waits were for is on top of them: there their own time is",
            false => "waits by their code alone",
        });
    }

    /// Asks which locks threads waited for: what is then put on top.
    fn ask_for_locks(&mut self) {
        let profile = self.shared.profile.as_ref();
        if self.shared.sides.is_some() {
            return self.shared.say(LOCKS_OF_TWO);
        }
        if profile.is_some_and(|profile| profile.samples.has_waits()) {
            return self.shared.asks.push(super::data::Ask::Locks);
        }
        let whole = self.whole.as_ref();
        let has_waits = whole.is_some_and(|whole| whole.samples.has_waits());
        self.shared.say(match has_waits {
            true => "the locks are those of waits; W shows them",
            false => NO_WAITS,
        });
    }

    /// The next clock that the recording has; behind the last one all events
    /// by themselves.
    fn switch_clock(&mut self) {
        let Some(whole) = self.whole.clone() else {
            return;
        };
        if !whole.events.iter().any(|event| event.is_off_cpu) {
            return self.shared.say(NO_WAITS);
        }
        // Each event of two is there three times: of both, of one and of the other.
        if self.shared.sides.is_some() {
            return self.shared.say(CLOCK_OF_TWO);
        }
        let order = [Clock::Cpu, Clock::Off, Clock::Wall];
        let behind = |now| {
            order
                .iter()
                .position(|&clock| clock == now)
                .map_or(0, |at| at + 1)
        };
        let mut next = order.iter().skip(self.clock.map_or(0, behind));
        let found = next.find_map(|&clock| Some((clock, by_clock(&whole, clock).ok()?)));
        let (words, profile) = match found {
            Some((clock, profile)) => {
                self.clock = Some(clock);
                let words = match clock {
                    Clock::Cpu => "CPU time: when threads ran",
                    Clock::Off => "waits: when threads did not run",
                    Clock::Wall => "wall-clock time: running and waiting as one",
                };
                (words, Arc::new(profile))
            }
            None => {
                self.clock = None;
                ("each event by itself; Tab switches", whole)
            }
        };
        self.shared.history.set_event(EventId(0));
        self.show_profile(profile);
        self.shared.say(words);
    }

    // Search.

    fn search_for(&mut self, text: &str) {
        let shared = &mut self.shared;
        if text.is_empty() {
            shared.search.clear();
            return;
        }
        match filters::smart_case(text) {
            Ok(pattern) => {
                shared.search.await_typed(pattern.as_str());
                shared.asks.push(super::data::Ask::Search(pattern));
            }
            Err(error) => shared.search.error = Some(error),
        }
    }

    fn search_step(&mut self, forwards: bool) {
        let Some(found) = self.shared.search.found.clone() else {
            return self.shared.say("nothing was searched for; / searches");
        };
        if !self.go_to_match(&found, forwards) {
            self.shared.say("no other match in this view");
        }
    }

    /// Moves the cursor to a match; whether there is another one.
    fn go_to_match(&mut self, found: &Found, forwards: bool) -> bool {
        let tab = self.tabs.shown_mut();
        tab.find(&mut self.shared, found, forwards)
    }

    fn found(&mut self, found: Found) {
        let is_typing = matches!(self.shared.overlay, Some(Overlay::Ask(Asked::Search, _)));
        let arrival = self.shared.search.came(found.clone(), is_typing);
        if arrival != Arrival::Typed {
            return;
        }
        if self.tabs.shown_mut().is_waiting() {
            return self.shared.search.await_rows();
        }
        self.go_to_typed(&found);
    }

    /// Moves the cursor to what was typed, unless it is there.
    fn go_to_typed(&mut self, found: &Found) {
        let is_on_match = self.selected().site.is_some_and(|site| found.holds(site));
        if !is_on_match && found.functions > 0 {
            self.go_to_match(found, true);
        }
    }

    /// Rows have come, maybe after what was searched in them.
    fn rows_came(&mut self) {
        if self.tabs.shown_mut().is_waiting() {
            return;
        }
        if let Some(found) = self.shared.search.take_early() {
            self.go_to_typed(&found);
        }
    }

    // Answers.

    /// The worker answered.
    pub(super) fn answer(&mut self, generation: u64, answer: Answer) {
        match answer {
            // A file is written or not, whatever is selected by now.
            Answer::Wrote(wrote) => return self.wrote(wrote),
            _ if !self.shared.is_current(generation) => return,
            Answer::Seen(seen, bottom_up) => {
                let before = self.shared.replace_seen(*seen);
                self.renew(Fresh {
                    before: before.as_ref(),
                    bottom_up: Some(bottom_up),
                });
            }
            Answer::Found(found) => self.found(found),
            Answer::Sure(sure) => self.shared.sure = Some(sure),
            // Nothing that was opened meanwhile is covered.
            Answer::Locks(lines) if self.shared.overlay.is_none() => {
                self.shared.overlay = Some(Overlay::locks(lines));
            }
            Answer::Locks(_) => {}
            answer => {
                let mut left = Some(answer);
                for tab in self.tabs.iter_mut() {
                    left = left.and_then(|answer| tab.take(&mut self.shared, answer));
                }
                self.rows_came();
            }
        }
        self.catch_up();
    }

    /// The data of another selection came.
    fn renew(&mut self, mut fresh: Fresh<'_>) {
        for tab in self.tabs.iter_mut() {
            tab.renew(&mut self.shared, &mut fresh);
        }
        self.shared.ask_how_sure();
        // What was asked of the selection before is void.
        let search = &self.shared.search;
        if let Some(typed) = search.awaited().map(str::to_string) {
            self.search_for(&typed);
        } else if let Some(found) = &search.found {
            let pattern = found.pattern.clone();
            self.shared.asks.push(super::data::Ask::Search(pattern));
        }
        self.show(self.tabs.at());
        self.show_wanted();
    }

    /// All of the recording has been loaded; the worker may not have looked at it yet.
    pub(super) fn loaded(&mut self) {
        self.shared.progress = None;
        if !self.shared.is_behind() {
            self.show_wanted();
        }
    }

    /// Shows the code of the function that the session was started for. Inlined ones are
    /// known last.
    fn show_wanted(&mut self) {
        let (Some(name), Some(seen)) = (self.wanted.clone(), self.shared.seen.clone()) else {
            return;
        };
        let profile = &seen.profile;
        let all = seen.hot.iter();
        let named = all.map(|hot| (seen.site(hot.site).name(profile), hot));
        let hits = match name.is_empty() {
            true => named.map(|(_, hot)| hot).collect(),
            false => called(&name, named),
        };
        let hottest = hits.into_iter().max_by_key(|hot| hot.own);
        if hottest.is_none() && self.shared.progress.is_some() {
            return;
        }
        self.wanted = None;
        match hottest.zip(Tabs::shown_by(Action::Annotate)) {
            Some((hot, tab)) => self.open(tab, seen.site(hot.site).function),
            None => self.shared.say(format!(
                "no function with samples is called {name}; / searches"
            )),
        }
    }
}
