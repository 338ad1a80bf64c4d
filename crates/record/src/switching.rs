//! When a recording goes on in another file.

use crate::options::Switching;
use std::time::Instant;

/// How often nothing must have come before nothing older than a cut will.
const QUIET: u32 = 2;

/// Says when.
#[derive(Debug)]
pub(crate) struct Switcher {
    when: Switching,
    /// When this file began.
    began: Instant,
    /// Its size when it was first asked for, bytes: what tells of tasks that run.
    beginning: Option<u64>,
    /// How often nothing came since the cut; `None` while there is none.
    quiet: Option<u32>,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Go on.
    None,
    /// Finish the file with what has arrived so far.
    Cut,
    /// Everything that belongs into this file has arrived: go on in the next
    /// one.
    Switch,
    /// No more records will arrive by themselves: write what is held back, then
    /// finish the file.
    Press,
}

impl Switcher {
    pub(crate) fn new(when: Switching) -> Self {
        Self {
            when,
            began: Instant::now(),
            beginning: None,
            quiet: None,
        }
    }

    /// After records were written, or none came for a while (`is_idle`); the
    /// file has `size` bytes, another may be wanted, and of what belongs into
    /// this one something may be held back. A file in which nothing is but its
    /// beginning is not too large, however long that is: the next one would be, too.
    pub(crate) fn step(
        &mut self,
        is_idle: bool,
        size: u64,
        is_wanted: bool,
        is_held: bool,
    ) -> Step {
        let beginning = *self.beginning.get_or_insert(size);
        let Some(quiet) = &mut self.quiet else {
            let at_size = self.when.at_size;
            let is_due = is_wanted
                || at_size.is_some_and(|most| size >= most && (size > beginning || !is_idle))
                || self
                    .when
                    .every
                    .is_some_and(|time| self.began.elapsed() >= time);
            if is_due {
                self.quiet = Some(0);
                return Step::Cut;
            }
            return Step::None;
        };
        if is_idle {
            *quiet += 1;
        }
        match (is_held, *quiet >= QUIET) {
            (true, true) => Step::Press,
            (false, true) => Step::Switch,
            (false, false) if !is_idle => Step::Switch,
            _ => Step::None,
        }
    }

    /// Another file has begun, or cannot.
    pub(crate) fn switched(&mut self) {
        *self = Self::new(self.when);
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, Switcher};
    use crate::options::Switching;

    #[test]
    fn a_file_ends_when_all_that_belongs_into_it_has_come() {
        let mut switcher = Switcher::new(Switching {
            on_signal: true,
            at_size: Some(100),
            ..Switching::default()
        });
        assert_eq!(switcher.step(false, 99, false, false), Step::None);
        assert_eq!(switcher.step(false, 100, false, false), Step::Cut);
        // A drain later, but the unwinder holds some back.
        assert_eq!(switcher.step(false, 120, false, true), Step::None);
        assert_eq!(switcher.step(false, 120, true, false), Step::Switch);
        switcher.switched();
        assert_eq!(switcher.step(false, 0, false, false), Step::None);
    }

    #[test]
    fn a_long_beginning_alone_is_not_too_large() {
        let mut switcher = Switcher::new(Switching {
            at_size: Some(100),
            ..Switching::default()
        });
        assert_eq!(switcher.step(true, 5000, false, false), Step::None);
        assert_eq!(switcher.step(true, 5000, false, false), Step::None);
        assert_eq!(switcher.step(false, 5040, false, false), Step::Cut);
        assert_eq!(switcher.step(false, 5080, false, false), Step::Switch);
        switcher.switched();
        assert_eq!(switcher.step(true, 6000, false, false), Step::None);
    }

    #[test]
    fn where_nothing_happens_a_file_ends_too() {
        let mut switcher = Switcher::new(Switching {
            on_signal: true,
            ..Switching::default()
        });
        assert_eq!(switcher.step(true, 0, true, false), Step::Cut);
        assert_eq!(switcher.step(true, 0, false, true), Step::None);
        assert_eq!(switcher.step(true, 0, false, true), Step::Press);
        switcher.switched();
        assert_eq!(switcher.step(true, 0, true, false), Step::Cut);
        assert_eq!(switcher.step(true, 0, false, false), Step::None);
        assert_eq!(switcher.step(true, 0, false, false), Step::Switch);
    }
}
