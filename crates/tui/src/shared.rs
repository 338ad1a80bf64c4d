//! What all tabs share: the data in view, what of them is selected, how the
//! screen looks; and what a tab leaves to be done by others.

use super::action::Action;
use super::data::{Ask, Certainties, Order, Seen};
use super::filters::{History, Remap, origin_of_times};
use super::message::Message;
use super::overlay::Overlay;
use super::search::Search;
use super::terminal::Mouse;
use super::text;
use super::theme::Theme;
use prof_profile::{EventId, Profile, TaskId};
use prof_report::model::{Changes, RunsOfSides, Selection, SiteId, Sure, Weight};
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

/// The place of a tab in the list of all (`views/mod.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TabId(pub(super) usize);

/// Switches that hold in all tabs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switches {
    pub(super) mouse: Mouse,
    pub(super) headings: bool,
    pub(super) verbose: bool,
    /// Intervals of shares in the place of bars.
    pub(super) intervals: bool,
    /// Shares of what the filters keep, not of all.
    pub(super) relative: bool,
    /// Least share of a row, in thousandths of a percent.
    pub(super) least: u32,
}

/// What all tabs share.
pub(super) struct Shared {
    pub(super) profile: Option<Arc<Profile>>,
    /// What the loader does, while it does.
    pub(super) progress: Option<String>,
    pub(super) history: History,
    pub(super) seen: Option<Seen>,
    /// How sure the shares of functions are, by their number.
    pub(super) sure: Option<Arc<Certainties>>,
    /// Of how many recordings before and after the profile is, if it is of such.
    pub(super) sides: Option<RunsOfSides>,
    /// What changed, of recordings before and after.
    pub(super) changes: Option<Arc<Changes>>,
    generations: Generations,
    pub(super) overlay: Option<Overlay>,
    pub(super) search: Search,
    pub(super) message: Message,
    pub(super) switches: Switches,
    pub(super) theme: Theme,
    pub(super) area: Rect,
    /// What was loaded, for the title.
    pub(super) title: String,
    /// What the session has to do.
    pub(super) effects: Vec<Effect>,
    /// What the worker has to find out.
    pub(super) asks: Vec<Ask>,
    /// A tab that another one wants to be shown.
    pub(super) to_show: Option<TabId>,
}

/// Which selection is wanted, and which is seen.
#[derive(Debug, Clone, Copy, Default)]
struct Generations {
    wanted: u64,
    seen: u64,
    /// Whether the wanted one has to be sent to the worker.
    is_unsent: bool,
    /// Whether the user waits long enough for it to be told so.
    is_slow: bool,
}

impl Shared {
    pub(super) fn new(title: &str, theme: Theme, mouse: Mouse) -> Self {
        Self {
            profile: None,
            progress: Some("reading".into()),
            history: History::default(),
            seen: None,
            sure: None,
            sides: None,
            changes: None,
            generations: Generations::default(),
            overlay: None,
            search: Search::default(),
            message: Message::default(),
            switches: Switches {
                mouse,
                headings: true,
                verbose: false,
                intervals: false,
                relative: false,
                least: 0,
            },
            theme,
            area: Rect::default(),
            title: title.to_string(),
            effects: Vec::new(),
            asks: Vec::new(),
            to_show: None,
        }
    }

    /// A profile has come: the first, or one with more names. Returns the one
    /// before.
    pub(super) fn replace_profile(&mut self, profile: &Arc<Profile>) -> Option<Arc<Profile>> {
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
        match self.history.begin(profile) {
            Ok(true) => self.message.clear(),
            Ok(false) => {}
            Err(message) => self.fail(message),
        }
        let old = self.profile.replace(Arc::clone(profile))?;
        let remap = Remap {
            old: &old,
            new: profile,
        };
        self.history.remap(&remap);
        Some(old)
    }

    /// The selection changed: everything derived is made anew.
    pub(super) fn select(&mut self) {
        self.generations.wanted += 1;
        self.generations.is_unsent = true;
        self.asks.retain(|ask| matches!(ask, Ask::Write(_)));
    }

    /// Changes the selection; the change can be taken back.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Selection)) {
        self.history.change(change);
        self.select();
    }

    /// The selection in force for the worker, if it does not have it.
    pub(super) fn order(&mut self) -> Option<Order> {
        let profile = self.profile.as_ref()?;
        std::mem::take(&mut self.generations.is_unsent).then(|| Order::Select {
            generation: self.generations.wanted,
            profile: Arc::clone(profile),
            selection: Box::new(self.history.now().clone()),
        })
    }

    /// Whether an answer is about the selection in force.
    pub(super) fn is_current(&self, generation: u64) -> bool {
        generation == self.generations.wanted
    }

    /// The data of the selection in force came; returns those before.
    pub(super) fn replace_seen(&mut self, seen: Seen) -> Option<Seen> {
        self.generations.seen = self.generations.wanted;
        self.seen.replace(seen)
    }

    /// Asks how sure the shares are that are shown.
    pub(super) fn ask_how_sure(&mut self) {
        self.sure = None;
        self.asks.push(Ask::Sure(self.switches.relative));
    }

    /// How sure the shares of a function are, once that is known.
    pub(super) fn sure_of(&self, site: SiteId) -> Option<Sure> {
        let key = self.seen.as_ref()?.key(site)?;
        self.sure.as_ref()?.get(&key).copied()
    }

    /// Tells the user something. A failure that is told already stays.
    pub(super) fn say(&mut self, words: impl Into<String>) {
        self.message.say(words.into());
    }

    /// Tells the user that something failed.
    pub(super) fn fail(&mut self, words: impl Into<String>) {
        self.message.fail(words.into());
    }

    /// Whether what is seen is not what was last selected.
    pub(super) fn is_behind(&self) -> bool {
        self.generations.wanted != self.generations.seen
    }

    /// Whether the user waits so long that it has to be said why.
    pub(super) fn is_slow(&self) -> bool {
        self.generations.is_slow && self.is_behind() && self.seen.is_some()
    }

    pub(super) fn set_slow(&mut self, is_slow: bool) {
        self.generations.is_slow = is_slow;
    }

    /// A time, ns, as the screen tells it: how long after the first sample.
    pub(super) fn since(&self, time: u64) -> String {
        let profile = self.profile.as_deref();
        text::since(profile.map_or(0, origin_of_times), time)
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

    /// `part` of what 100 % stands for, as text.
    pub(super) fn share(&self, part: Weight) -> String {
        super::paint::percent(part.percent_of(self.whole()))
    }

    /// Turns a switch; whether the action is one.
    pub(super) fn switch(&mut self, action: Action) -> bool {
        let switches = &mut self.switches;
        match action {
            Action::TogglePercentage => {
                switches.relative = !switches.relative;
                let words = if switches.relative {
                    "shares of what the filters keep"
                } else {
                    "shares of all samples"
                };
                self.say(words);
                self.ask_how_sure();
            }
            Action::ToggleHeaders => switches.headings = !switches.headings,
            Action::ToggleVerbose => switches.verbose = !switches.verbose,
            Action::ToggleIntervals => switches.intervals = !switches.intervals,
            Action::ToggleMouse => {
                let (mouse, words) = match switches.mouse {
                    Mouse::Off => (Mouse::On, "the mouse works here; Shift selects text"),
                    Mouse::On => (Mouse::Off, "the mouse selects text"),
                };
                switches.mouse = mouse;
                self.effects.push(Effect::SetMouse(mouse));
                self.say(words);
            }
            _ => return false,
        }
        true
    }
}
