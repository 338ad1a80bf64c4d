//! The search: a pattern, what it found, and how the user got there.

use super::data::Found;

/// State of the search.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// What matches now.
    pub(super) found: Option<Found>,
    /// What is wrong with the pattern being typed.
    pub(super) error: Option<String>,
    /// What was found before the one being typed.
    before: Option<Found>,
}

impl Search {
    /// The user starts to type.
    pub(super) fn begin(&mut self) {
        self.before = self.found.take();
        self.error = None;
    }

    /// The user is done: the matches stay.
    pub(super) fn accept(&mut self) {
        self.before = None;
        self.error = None;
    }

    /// The user called it off: what was found before is back.
    pub(super) fn cancel(&mut self) {
        self.found = self.before.take();
        self.error = None;
    }

    /// Forgets the matches; whether there were any.
    pub(super) fn clear(&mut self) -> bool {
        self.error = None;
        self.found.take().is_some()
    }
}
