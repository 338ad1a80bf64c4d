//! Events that are on the PMU together or not at all.

use crate::counts::{Counts, scaled};
use crate::event::{Event, OpenError, Target};
use prof_abi::{AttrFlags, EventAttr, ReadFormat};
use std::io;

/// Events that are scheduled as a unit, so that their counts are of the same
/// time and their ratios mean something. The first one leads.
#[derive(Debug)]
pub struct Group {
    events: Vec<Event>,
    ids: Vec<u64>,
}

/// A member of a group was refused; none is open.
#[derive(Debug, thiserror::Error)]
#[error("member {member} of the group: {source}")]
pub struct GroupError {
    /// Which, from 0.
    pub member: usize,
    /// Why.
    pub source: OpenError,
}

const FORMAT: ReadFormat = ReadFormat(
    ReadFormat::GROUP.0
        | ReadFormat::ID.0
        | ReadFormat::TOTAL_TIME_ENABLED.0
        | ReadFormat::TOTAL_TIME_RUNNING.0,
);

/// What all members of a group have counted, by one system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReading {
    /// ns for which the group was enabled.
    pub enabled: u64,
    /// ns for which it was on the hardware; 0 means not counted.
    pub running: u64,
    /// Events of each member, unscaled, in the order of opening.
    pub values: Vec<u64>,
}

impl GroupReading {
    /// A member's events as if the group had been on the hardware all the
    /// time; `None` if it never was, or there is no such member.
    pub fn scaled(&self, member: usize) -> Option<u64> {
        scaled(*self.values.get(member)?, self.enabled, self.running)
    }
}

impl Group {
    /// Opens all of `attrs` or none. The group starts disabled; how it is read
    /// is set here. Fails as [`Event::open`]; `EINVAL` for a member that is
    /// pinned or exclusive, or too many for the PMU, or of a group without
    /// members; a group that can never be scheduled opens on most PMUs and
    /// reads `running` 0.
    pub fn open(attrs: &[EventAttr], target: Target<'_>) -> Result<Self, GroupError> {
        let mut events: Vec<Event> = Vec::with_capacity(attrs.len());
        let mut ids = Vec::with_capacity(attrs.len());
        for (member, attr) in attrs.iter().enumerate() {
            let refused = |source| GroupError { member, source };
            let attr = member_attr(attr, member == 0);
            let event = Event::open(&attr, target, events.first()).map_err(refused)?;
            ids.push(event.id().map_err(|error| refused(error.into()))?);
            events.push(event);
        }
        if events.is_empty() {
            let source = io::Error::from_raw_os_error(libc::EINVAL).into();
            return Err(GroupError { member: 0, source });
        }
        Ok(Self { events, ids })
    }

    /// The leader, whose ring takes the group's samples.
    pub fn leader(&self) -> &Event {
        &self.events[0]
    }

    /// All members, the leader first.
    pub fn members(&self) -> &[Event] {
        &self.events
    }

    /// Starts all members.
    pub fn enable(&self) -> io::Result<()> {
        self.leader().enable_group()
    }

    /// Stops all members.
    pub fn disable(&self) -> io::Result<()> {
        self.leader().disable_group()
    }

    /// Sets the counts of all members to 0; times go on.
    pub fn reset(&self) -> io::Result<()> {
        self.leader().reset_group()
    }

    /// What all have counted at one moment. Fails with `UnexpectedEof` if the
    /// group is pinned and lost its place.
    pub fn read(&self) -> io::Result<GroupReading> {
        let counts = self.leader().read_counts(FORMAT)?;
        Ok(GroupReading {
            enabled: counts.enabled.unwrap_or(0),
            running: counts.running.unwrap_or(0),
            values: self.ids.iter().map(|&id| value_of(&counts, id)).collect(),
        })
    }
}

/// Only the leader is enabled and disabled; the others follow.
fn member_attr(attr: &EventAttr, leads: bool) -> EventAttr {
    let flags = if leads {
        attr.flags.with(AttrFlags::DISABLED)
    } else {
        attr.flags.without(AttrFlags::DISABLED)
    };
    EventAttr {
        flags,
        read_format: FORMAT,
        ..attr.clone()
    }
}

fn value_of(counts: &Counts, id: u64) -> u64 {
    let mut values = counts.values.iter();
    values
        .find(|count| count.id == Some(id))
        .map_or(0, |count| count.value)
}

#[cfg(test)]
mod tests {
    use super::{Group, member_attr};
    use crate::event::Target;
    use crate::testing::{page_faults, permitted, touch};
    use prof_abi::{AttrFlags, EventAttr};

    fn software(config: u64) -> EventAttr {
        EventAttr {
            config,
            ..page_faults()
        }
    }

    #[test]
    fn members_count_the_same_time_and_the_same_events() {
        // covers live: CALL-09, ATTR-19, ATTR-20, ATTR-21, RF-01, RF-02, RF-03, RF-04, IOC-03, EV-01, EV-13
        if !permitted() {
            return;
        }
        // page-faults twice, minor-faults and task-clock.
        let attrs = [2, 2, 5, 1].map(software);
        let group = Group::open(&attrs, Target::THIS).expect("a group");
        assert_eq!(group.members().len(), 4);
        touch(16);
        let idle = group.read().expect("read");
        assert_eq!((idle.values, idle.enabled), (vec![0; 4], 0), "not yet on");
        group.enable().expect("enable");
        touch(1024);
        group.disable().expect("disable");
        let read = group.read().expect("read");
        assert_eq!(read.values[..3], [1024; 3], "{read:?}");
        assert!(read.enabled > 0 && read.enabled == read.running);
        assert_eq!(read.scaled(0), Some(1024));
        assert_eq!(read.scaled(4), None);
        group.reset().expect("reset");
        let again = group.read().expect("read");
        assert_eq!(again.values, [0; 4]);
        assert_eq!(again.enabled, read.enabled, "times stay");
    }

    #[test]
    fn one_refused_member_closes_all() {
        // covers live: CALL-09, CALL-10, ATTR-26, ATTR-27
        if !permitted() {
            return;
        }
        let pinned = EventAttr {
            flags: page_faults().flags | AttrFlags::PINNED,
            ..page_faults()
        };
        let exclusive = EventAttr {
            flags: page_faults().flags | AttrFlags::EXCLUSIVE,
            ..page_faults()
        };
        for second in [&pinned, &exclusive] {
            let attrs = [software(1), second.clone()];
            let refused = Group::open(&attrs, Target::THIS).expect_err("a member");
            assert_eq!((refused.member, refused.source.errno()), (1, libc::EINVAL));
            // As leader, or alone, it is taken.
            Group::open(&[second.clone(), software(1)], Target::THIS).expect("it leads");
            Group::open(std::slice::from_ref(second), Target::THIS).expect("a group of one");
        }
        let none = Group::open(&[], Target::THIS).expect_err("no member");
        assert_eq!(none.source.errno(), libc::EINVAL);
    }

    #[test]
    fn only_the_leader_starts_disabled() {
        // covers unit: ATTR-20, ATTR-21
        let disabled = |leads| {
            let attr = member_attr(&page_faults(), leads);
            attr.flags.has(AttrFlags::DISABLED)
        };
        assert!(disabled(true) && !disabled(false));
    }
}
