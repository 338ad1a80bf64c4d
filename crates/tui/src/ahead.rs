//! What the user does while a view has nothing yet that it could be done to:
//! it is done when that has come.

use super::action::Action;
use std::collections::VecDeque;

/// Something done to a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Action(Action),
    /// A click on a column and row of the screen.
    Click(u16, u16),
}

/// Deeds that wait, in their order.
#[derive(Debug, Default)]
pub(super) struct Ahead(VecDeque<Deed>);

/// Deeds that are kept at most: nobody types more than this blindly.
const MOST: usize = 64;

impl Ahead {
    /// The deed waits too, if not too many do.
    pub(super) fn push(&mut self, deed: Deed) {
        if self.0.len() < MOST {
            self.0.push_back(deed);
        }
    }

    /// The first one, which waits no more.
    pub(super) fn pop(&mut self) -> Option<Deed> {
        self.0.pop_front()
    }

    /// None waits any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
