//! The tabs. Each is a type with its state, what keys do to it, and how it is
//! drawn; what all of them work on is [`Shared`]. A new one is a file with a
//! [`Tab`] and a line in [`ALL`].

mod callers;
mod changes;
mod code;
mod code_paint;
mod code_rows;
mod columns;
mod flame;
mod flame_paint;
mod flame_view;
mod hotspots;
mod lanes;
mod rows;
mod threads;
mod timeline;
mod tree;

use super::action::Action;
use super::bindings::KeyScope;
use super::data::{Answer, Found, GrownTree, Seen};
use super::filters::Remap;
use super::scroll::Scroll;
use super::shared::{Selected, Shared};
use prof_profile::FunctionId;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// What a tab is, and how it is made.
type Listed = (&'static About, fn() -> Box<dyn Tab>);

/// The tabs in the order of their numbers.
pub(super) const ALL: &[Listed] = &[
    (&hotspots::ABOUT, || Box::<hotspots::Hotspots>::default()),
    (&tree::ABOUT, || Box::<tree::TreeView>::default()),
    (&flame::ABOUT, || Box::<flame::Flame>::default()),
    (&callers::ABOUT, || Box::<callers::Callers>::default()),
    (&code::ABOUT, || Box::<code::Code>::default()),
    (&threads::ABOUT, || Box::<threads::Threads>::default()),
    (&timeline::ABOUT, || Box::<timeline::Timeline>::default()),
    (&changes::ABOUT, || Box::<changes::Changes>::default()),
];

/// The tabs of one recording; what comes behind is of two.
const OF_ONE: usize = ALL.len() - 1;

/// What is known of a tab before there are data.
#[derive(Debug)]
pub(super) struct About {
    /// On its tab.
    pub(super) title: &'static str,
    /// On a narrow tab and in file names.
    pub(super) word: &'static str,
    /// The command that shows it.
    pub(super) command: &'static str,
    /// What that command's help says.
    pub(super) help: &'static str,
    /// Which bindings hold in it.
    pub(super) scope: KeyScope,
    /// What it is about.
    pub(super) subject: Subject,
    /// What shows the selected function in it.
    pub(super) shown_by: Option<Action>,
    /// What to say of keys of its scope that do nothing in it.
    pub(super) idle: &'static [(Action, &'static str)],
}

/// What a tab is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// All samples of the selection.
    Samples,
    /// One function.
    Function,
    /// Processes and threads.
    Threads,
}

const NO_TURNING: (Action, &str) = (Action::Invert, "I turns the call tree around; 2 shows it");
const BY_WEIGHT: &str = "these rows are ordered by weight";
const NO_ORDER: (Action, &str) = (Action::NextOrder, BY_WEIGHT);
const NO_REVERSE: (Action, &str) = (Action::ReverseOrder, BY_WEIGHT);

/// The place of a tab in [`ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TabId(pub(super) usize);

/// The data of a selection, as they come.
pub(super) struct Fresh<'a> {
    /// What was seen before.
    pub(super) before: Option<&'a Seen>,
    /// The tree from the callees up; taken by the tab that shows it.
    pub(super) bottom_up: Option<GrownTree>,
}

/// A tab. What it cannot do itself it leaves in [`Shared`]: questions to the
/// worker, effects on the terminal, another tab to be shown.
pub(super) trait Tab {
    /// What is known of it before there are data.
    fn about(&self) -> &'static About;

    /// Another selection is seen.
    fn renew(&mut self, shared: &mut Shared, fresh: &mut Fresh<'_>);

    /// Another profile came: functions have other numbers.
    fn remap(&mut self, _remap: &Remap<'_>) {}

    /// It gets on the screen, or stays there with other data or another size:
    /// asks for what is missing.
    fn shown(&mut self, _shared: &mut Shared) {}

    /// The screen has another size.
    fn resized(&mut self, _shared: &mut Shared) {}

    /// Whether what was asked for is on its way.
    fn is_waiting(&self) -> bool {
        false
    }

    /// The worker answered something; gives back what is for another tab.
    fn take(&mut self, _shared: &mut Shared, answer: Answer) -> Option<Answer> {
        Some(answer)
    }

    /// What the cursor is on.
    fn selected(&self, shared: &Shared) -> Selected;

    /// More about what the cursor is on. Not escaped.
    fn detail(&self, _shared: &Shared) -> Option<String> {
        None
    }

    /// Does what a key or command asks for.
    fn act(&mut self, shared: &mut Shared, action: Action);

    /// Shows a function; `from` is the tab that was shown, if another one.
    fn open(&mut self, _shared: &mut Shared, _function: FunctionId, _from: Option<TabId>) {}

    /// Takes the last step in it back; whether there was one.
    fn back(&mut self, _shared: &mut Shared) -> bool {
        false
    }

    /// A click, in columns and rows of its room.
    fn click(&mut self, shared: &mut Shared, at: Position);

    /// The mouse moved to a column of the screen with its button down.
    fn drag(&mut self, _shared: &mut Shared, _column: u16) {}

    /// The button was let go.
    fn drop_at(&mut self, _shared: &mut Shared) {}

    /// The list that the wheel moves, if that is all it does.
    fn scroll(&mut self) -> Option<&mut Scroll> {
        None
    }

    /// The wheel moved by so many rows where there is no such list.
    fn wheel(&mut self, _shared: &mut Shared, _rows: isize) {}

    /// Moves the cursor to a match; whether there is another one.
    fn find(&mut self, _shared: &mut Shared, _found: &Found, _forwards: bool) -> bool {
        false
    }

    /// Rows of a screen that shows all of it; `None` of a picture, which is
    /// as large as the screen.
    fn written_rows(&self) -> Option<usize>;

    /// Draws it.
    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer);
}

/// All tabs, and which of them is shown.
pub(super) struct Tabs {
    list: Vec<Box<dyn Tab>>,
    at: usize,
}

impl Tabs {
    pub(super) fn new() -> Self {
        Self {
            list: ALL.iter().take(OF_ONE).map(|(_, make)| make()).collect(),
            at: 0,
        }
    }

    /// Also those of two recordings, the first of which is shown.
    pub(super) fn add_those_of_two(&mut self) {
        self.list.truncate(OF_ONE);
        let more = ALL.iter().skip(OF_ONE);
        self.list.extend(more.map(|(_, make)| make()));
        self.at = OF_ONE;
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The one that is shown.
    pub(super) fn shown(&self) -> &dyn Tab {
        &*self.list[self.at]
    }

    pub(super) fn shown_mut(&mut self) -> &mut dyn Tab {
        &mut *self.list[self.at]
    }

    /// The wheel moved by so many rows over the one that is shown.
    pub(super) fn wheel(&mut self, shared: &mut Shared, rows: isize) {
        let tab = self.shown_mut();
        let height = shared.body_rows(tab);
        match tab.scroll() {
            Some(scroll) => scroll.wheel(rows, height),
            None => tab.wheel(shared, rows),
        }
    }

    /// Where the one that is shown stands.
    pub(super) fn at(&self) -> TabId {
        TabId(self.at)
    }

    /// Another one is shown, if there is one of that number.
    pub(super) fn go_to(&mut self, tab: TabId) {
        if tab.0 < self.list.len() {
            self.at = tab.0;
        }
    }

    pub(super) fn get_mut(&mut self, tab: TabId) -> Option<&mut Box<dyn Tab>> {
        self.list.get_mut(tab.0)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Tab>> {
        self.list.iter_mut()
    }

    /// The tab `step` further on, around the end.
    pub(super) fn next(&self, step: usize) -> TabId {
        TabId((self.at + step) % self.list.len())
    }

    /// The first tab of which this holds.
    pub(super) fn find(is_it: impl Fn(&About) -> bool) -> Option<TabId> {
        ALL.iter().position(|(about, _)| is_it(about)).map(TabId)
    }

    /// The tab in which an action shows the selected function.
    pub(super) fn shown_by(action: Action) -> Option<TabId> {
        Self::find(|about| about.shown_by == Some(action))
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Tabs};
    use std::collections::BTreeSet;

    #[test]
    fn no_two_tabs_have_a_name_or_an_action_in_common() {
        let about = || ALL.iter().map(|(about, _)| about);
        let titles: BTreeSet<_> = about().map(|about| about.title).collect();
        let words: BTreeSet<_> = about().map(|about| about.word).collect();
        let commands: BTreeSet<_> = about().map(|about| about.command).collect();
        for names in [titles, words, commands] {
            assert_eq!(names.len(), ALL.len(), "{names:?}");
        }
        for (at, (about, make)) in ALL.iter().enumerate() {
            assert_eq!(make().about().title, about.title);
            if let Some(action) = about.shown_by {
                assert_eq!(Tabs::shown_by(action).map(|tab| tab.0), Some(at));
            }
        }
    }
}
