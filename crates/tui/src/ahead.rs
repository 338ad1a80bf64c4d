//! What the user does while a view has nothing yet that it could be done to:
//! it is done when that has come.

use super::action::Action;
use super::app::App;
use std::collections::VecDeque;

/// Something done to a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Action(Action),
    /// A click on a column and row of the screen.
    Click(u16, u16),
}

/// Deeds that wait, in their order.
pub(super) type Ahead = VecDeque<Deed>;

/// Deeds that are kept at most: nobody types more than this blindly.
const MOST: usize = 64;

impl App {
    /// Whether the view waits for the worker; then the deed waits, too.
    pub(super) fn must_wait(&mut self, deed: Deed) -> bool {
        let is_waiting = self.is_waiting();
        if is_waiting && self.ahead.len() < MOST {
            self.ahead.push_back(deed);
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
            && let Some(deed) = self.ahead.pop_front()
        {
            match deed {
                Deed::Action(action) => self.act(action),
                Deed::Click(column, row) => self.click(column, row),
            }
        }
    }
}
