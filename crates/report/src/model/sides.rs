//! Which events of a profile are of which recordings, before and after a change.

use prof_profile::EventId;

/// How many recordings a profile is of that has those before and after a change: of
/// what each of its events stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunsOfSides {
    /// Recordings before.
    pub before: u16,
    /// Recordings after.
    pub after: u16,
}

/// The events that one of all recordings has become.
#[derive(Debug, Clone)]
pub struct EventsOfSides<R> {
    /// Samples of all recordings.
    pub both: EventId,
    /// Of those before.
    pub before: EventId,
    /// Of those after.
    pub after: EventId,
    /// Of each recording, those before first; none if each side has one.
    pub runs: R,
}

impl RunsOfSides {
    /// One recording on each side.
    pub const ONE: Self = Self {
        before: 1,
        after: 1,
    };

    /// Whether a side has several recordings.
    pub fn are_several(self) -> bool {
        self.before > 1 || self.after > 1
    }

    /// How many events each of the recordings' becomes.
    fn each(self) -> u16 {
        let runs = self.before.saturating_add(self.after);
        3 + if self.are_several() { runs } else { 0 }
    }

    /// What event number `at` of the recordings, from 0, has become.
    pub fn events_of(self, at: u16) -> EventsOfSides<impl Iterator<Item = EventId> + Clone> {
        let first = at.saturating_mul(self.each());
        let id = move |number: u16| EventId(first.saturating_add(number));
        EventsOfSides {
            both: id(0),
            before: id(1),
            after: id(2),
            runs: (3..self.each()).map(id),
        }
    }

    /// Of the event that `id` is one of: by run of each side the event that has its
    /// samples.
    pub fn runs_of(self, id: EventId) -> [Vec<EventId>; 2] {
        let of = self.events_of(id.0 / self.each());
        if !self.are_several() {
            return [vec![of.before], vec![of.after]];
        }
        let mut before: Vec<EventId> = of.runs.collect();
        let after = before.split_off(usize::from(self.before).min(before.len()));
        [before, after]
    }
}

#[cfg(test)]
mod tests {
    use super::RunsOfSides;
    use prof_profile::EventId;

    #[test]
    fn each_event_is_three_and_those_of_runs_where_a_side_has_several() {
        let ids = |list: &[u16]| -> Vec<EventId> { list.iter().copied().map(EventId).collect() };
        let one = RunsOfSides::ONE;
        assert_eq!(one.events_of(2).after, EventId(8));
        assert_eq!(one.runs_of(EventId(6)), [ids(&[7]), ids(&[8])]);
        let several = RunsOfSides {
            before: 2,
            after: 1,
        };
        assert_eq!(several.events_of(1).both, EventId(6));
        assert!(several.events_of(1).runs.eq(ids(&[9, 10, 11])));
        for any in 6..12 {
            assert_eq!(several.runs_of(EventId(any)), [ids(&[9, 10]), ids(&[11])]);
        }
    }
}
