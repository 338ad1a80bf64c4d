//! The tabs. A new one is a file with a [`Tab`] and a line in [`ALL`].

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
use super::shared::{Shared, TabId};
use super::tab::{About, Tab};

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
