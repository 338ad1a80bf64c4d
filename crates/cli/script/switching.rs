//! `--switch-on` and `--switch-off`: samples are printed from one event on,
//! or until another.

use super::usage;
use prof_perfdata::Event;
use prof_profile::EventId;
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
    pub(crate) fn new(args: &SwitchArgs, events: &[Event]) -> anyhow::Result<Self> {
        let find = |option: &str, name: &Option<String>| -> anyhow::Result<Option<EventId>> {
            let Some(name) = name else {
                return Ok(None);
            };
            let index = events.iter().position(|event| event.name() == *name);
            let id = index.and_then(|index| u16::try_from(index).ok());
            id.map(|id| Some(EventId(id)))
                .ok_or_else(|| unknown(option, name, events))
        };
        let on = find("--switch-on", &args.switch_on)?;
        Ok(Self {
            on,
            off: find("--switch-off", &args.switch_off)?,
            shows_own: args.show_on_off_events,
            is_off: on.is_some(),
        })
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

fn unknown(option: &str, name: &str, events: &[Event]) -> anyhow::Error {
    let names: Vec<_> = events.iter().map(Event::name).collect();
    let names = escape::terminal(&names.join(", ")).into_owned();
    usage(format!(
        "{option} {}: the recording has no such event; it has {names}",
        escape::terminal(name)
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
