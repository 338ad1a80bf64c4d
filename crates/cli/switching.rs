//! `--switch-on` and `--switch-off`: samples count from one event on, or until
//! another.

use crate::outcome::UsageError;
use prof_profile::{EventId, Profile};
use prof_report::escape;

/// Events that begin and end what is considered.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SwitchArgs {
    /// Only samples after one of this event
    #[arg(long, value_name = "EVENT")]
    switch_on: Option<String>,
    /// Only samples before one of this event; with --switch-on until the next
    #[arg(long, value_name = "EVENT")]
    switch_off: Option<String>,
    /// With either, also the samples of these events
    #[arg(long)]
    show_on_off_events: bool,
}

impl SwitchArgs {
    /// Whether they leave anything out.
    pub(crate) fn is_given(&self) -> bool {
        self.switch_on.is_some() || self.switch_off.is_some()
    }
}

/// What goes on while samples come, in the order of their times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Switch {
    on: Option<EventId>,
    off: Option<EventId>,
    shows_own: bool,
    is_off: bool,
}

impl Switch {
    /// # Errors
    /// If an event is not in the recording.
    pub(crate) fn new(args: &SwitchArgs, profile: &Profile) -> Result<Self, UsageError> {
        let events = &profile.events;
        let find = |option: &str, name: &Option<String>| -> Result<Option<EventId>, UsageError> {
            let Some(name) = name else {
                return Ok(None);
            };
            let index = events.iter().position(|event| event.name == *name);
            let id = index.and_then(|index| u16::try_from(index).ok());
            id.map(|id| Some(EventId(id)))
                .ok_or_else(|| unknown(option, name, profile))
        };
        let on = find("--switch-on", &args.switch_on)?;
        Ok(Self {
            on,
            off: find("--switch-off", &args.switch_off)?,
            shows_own: args.show_on_off_events,
            is_off: on.is_some(),
        })
    }

    /// Takes the samples that are left out from a profile.
    pub(crate) fn apply(mut self, profile: &mut Profile) {
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

fn unknown(option: &str, name: &str, profile: &Profile) -> UsageError {
    let names = profile.events.iter().map(|event| event.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    UsageError(format!(
        "{option} {}: the recording has no such event; it has {}",
        escape::terminal(name),
        escape::terminal(&names)
    ))
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
