//! `--switch-on` and `--switch-off`: samples count from one event on, or until
//! another.

use prof_profile::{EventId, Profile};
use prof_report::escape;

/// Events that switch the output of samples on and off, by name (`--switch-on`,
/// `--switch-off`).
#[derive(Debug, Clone, Default)]
pub struct SwitchEvents {
    /// Samples count only after one of this event.
    pub on: Option<String>,
    /// Samples count only before one of this event; with `on`, until `on` comes
    /// again.
    pub off: Option<String>,
    /// Samples of these events count too.
    pub shows_own: bool,
}

/// An event that the recording does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{option} {}: the recording has no such event; it has {}",
    escape::terminal(.name),
    escape::terminal(.known)
)]
pub struct NoSuchEvent {
    /// What it was asked for with.
    pub option: &'static str,
    /// What was asked for.
    pub name: String,
    /// The events of the recording, separated by commas.
    pub known: String,
}

/// Follows the switch events through samples in the order of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switch {
    on: Option<EventId>,
    off: Option<EventId>,
    shows_own: bool,
    is_off: bool,
}

impl Switch {
    /// The switch at the start of a recording.
    ///
    /// # Errors
    /// If an event is not in the recording.
    pub fn new(events: &SwitchEvents, profile: &Profile) -> Result<Self, NoSuchEvent> {
        let find = |option, name: &Option<String>| {
            let named = |name| find(profile, option, name);
            name.as_deref().map(named).transpose()
        };
        let on = find("--switch-on", &events.on)?;
        Ok(Self {
            on,
            off: find("--switch-off", &events.off)?,
            shows_own: events.shows_own,
            is_off: on.is_some(),
        })
    }

    /// Removes from a profile the samples that the switch leaves out.
    pub fn apply(mut self, profile: &mut Profile) {
        if self == Self::default() {
            return;
        }
        let mut counts = vec![0; profile.events.len()];
        profile.samples.retain(|sample| {
            let is_kept = !self.leaves_out(sample.event);
            if let Some(count) = counts.get_mut(usize::from(sample.event.0)) {
                *count += u64::from(is_kept);
            }
            is_kept
        });
        for (event, count) in profile.events.iter_mut().zip(counts) {
            event.samples = count;
        }
    }

    /// Whether a sample of `event` is to be left out; to be asked once for
    /// each sample, in the order of their times.
    pub(crate) fn leaves_out(&mut self, event: EventId) -> bool {
        if self.is_off {
            if self.on == Some(event) {
                self.is_off = false;
                return !self.shows_own;
            }
            return true;
        }
        if self.off == Some(event) {
            self.is_off = true;
            return !self.shows_own;
        }
        false
    }
}

fn find(profile: &Profile, option: &'static str, name: &str) -> Result<EventId, NoSuchEvent> {
    let mut events = profile.events.iter();
    let index = events.position(|event| event.name == name);
    let id = index.and_then(|index| u16::try_from(index).ok());
    id.map(EventId).ok_or_else(|| {
        let names = profile.events.iter().map(|event| event.name.as_str());
        NoSuchEvent {
            option,
            name: name.to_owned(),
            known: names.collect::<Vec<_>>().join(", "),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::Switch;
    use prof_profile::EventId;

    const ON: EventId = EventId(1);
    const OFF: EventId = EventId(2);
    const OTHER: EventId = EventId(0);

    /// Which of these are left.
    fn left(mut switch: Switch, events: &[EventId]) -> Vec<usize> {
        let kept = events.iter().enumerate();
        kept.filter(|(_, event)| !switch.leaves_out(**event))
            .map(|(index, _)| index)
            .collect()
    }

    #[test]
    fn samples_count_between_on_and_off_only() {
        let events = [OTHER, OFF, ON, OTHER, OFF, OTHER, ON, OTHER];
        let switch = Switch {
            on: Some(ON),
            off: Some(OFF),
            is_off: true,
            ..Switch::default()
        };
        assert_eq!(left(switch.clone(), &events), [3, 7]);
        let with_own = Switch {
            shows_own: true,
            ..switch
        };
        assert_eq!(left(with_own, &events), [2, 3, 4, 6, 7]);
    }

    #[test]
    fn after_off_alone_nothing_counts() {
        let switch = Switch {
            off: Some(OFF),
            ..Switch::default()
        };
        assert_eq!(left(switch, &[OTHER, ON, OFF, OTHER]), [0, 1]);
    }
}
