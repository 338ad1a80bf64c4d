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
    /// The pattern typed last, until its matches have come and the cursor is
    /// on one: that may be after the prompt is gone.
    wanted: Option<String>,
    /// Whether the matches came before the rows of the view that is shown.
    is_early: bool,
}

/// What to do with matches that come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// They are those of what was typed: the cursor goes to one.
    Typed,
    /// They are those of another selection.
    Again,
    /// Nobody wants them any more.
    Void,
}

impl Search {
    /// The user starts to type.
    pub(super) fn begin(&mut self) {
        self.before = self.found.take();
        self.is_early = false;
        self.error = None;
        self.wanted = None;
    }

    /// The matches of a pattern that was typed are on their way.
    pub(super) fn await_typed(&mut self, pattern: &str) {
        self.error = None;
        self.is_early = false;
        self.wanted = Some(pattern.to_owned());
    }

    /// The pattern that was typed, while its matches have not come.
    pub(super) fn awaited(&self) -> Option<&str> {
        self.wanted.as_deref()
    }

    /// The view that is shown has no rows yet: the cursor goes to a match with them.
    pub(super) fn await_rows(&mut self) {
        self.is_early = true;
    }

    /// The matches that came before the rows, which are there now.
    pub(super) fn take_early(&mut self) -> Option<Found> {
        std::mem::take(&mut self.is_early)
            .then(|| self.found.clone())
            .flatten()
    }

    /// Matches came.
    pub(super) fn came(&mut self, found: Found, is_typing: bool) -> Arrival {
        let pattern = found.pattern.as_str();
        let is_same = |other: &Found| other.pattern.as_str() == pattern;
        let arrival = if self.wanted.as_deref() == Some(pattern) {
            Arrival::Typed
        } else if self.found.as_ref().is_some_and(is_same) {
            Arrival::Again
        } else {
            return Arrival::Void;
        };
        if !is_typing {
            self.wanted = None;
        }
        self.found = Some(found);
        arrival
    }

    /// The user is done: the matches stay.
    pub(super) fn accept(&mut self) {
        self.before = None;
        self.error = None;
    }

    /// The user called it off: what was found before is back.
    pub(super) fn cancel(&mut self) {
        self.found = self.before.take();
        self.is_early = false;
        self.error = None;
        self.wanted = None;
    }

    /// Forgets the matches; whether there were any.
    pub(super) fn clear(&mut self) -> bool {
        self.is_early = false;
        self.error = None;
        self.wanted = None;
        self.found.take().is_some()
    }
}
