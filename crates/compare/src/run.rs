//! What is kept of a recording.

use crate::comparable::counted_each;
use crate::matching::Functions;
use prof_profile::{EventId, Profile};
use prof_report::keys::SortKey;
use prof_report::measured::{Measured, measure};
use prof_report::text::TextOptions;

/// One event of one recording, reduced to what a comparison needs: its table,
/// and how it was recorded.
#[derive(Debug, Clone)]
pub struct Run {
    /// Of the recording, for messages.
    pub name: String,
    /// As recorded: `cpu-clock:u`.
    pub event: String,
    /// Whether weights are ns.
    pub weight_is_ns: bool,
    /// Frequency in Hz or period in events, and which of the two.
    pub(crate) asked: (u64, bool),
    /// Machine (`uname -m`), host and CPU; empty if not told.
    pub(crate) machine: [String; 3],
    /// From the first sample to the last, ns.
    pub(crate) wall_ns: Option<u64>,
    /// Samples that were lost, at most.
    pub(crate) lost: u64,
    /// Whether a part of the recording could not be read.
    pub(crate) is_damaged: bool,
    /// What costs are divided by: units of work done, or 1.
    pub work: f64,
    /// The table.
    pub(crate) measured: Measured,
    /// Its functions, and what they are recognised by.
    pub(crate) functions: Functions,
}

impl Run {
    /// How its event is recorded so that each time it happens counts, where it was
    /// sampled at a rate by which the kernel counts it wrong.
    pub fn is_better_counted_by(&self) -> Option<String> {
        let each = counted_each(&self.event);
        (self.asked.1 && each != self.event).then_some(each)
    }

    /// Reduces one event of a profile; rows are told apart by `keys`.
    pub fn new(name: &str, profile: &Profile, options: &TextOptions, event: EventId) -> Self {
        let about = profile.events.get(usize::from(event.0)).cloned();
        let about = about.unwrap_or_default();
        let origin = &profile.origin;
        let (measured, functions) = rayon::join(
            || measure(profile, options, event),
            || Functions::of(profile, event),
        );
        Self {
            name: name.to_owned(),
            event: about.name,
            weight_is_ns: about.weight_is_ns,
            asked: (about.asked, about.is_freq),
            machine: [
                origin.arch.clone(),
                origin.hostname.clone(),
                origin.cpu_description.clone(),
            ],
            wall_ns: origin
                .time_range
                .map(|(first, last)| last.saturating_sub(first)),
            lost: about.lost,
            is_damaged: !profile.trust.damages.is_empty(),
            work: 1.0,
            measured,
            functions,
        }
    }

    /// Sum of all weights, in the event's unit.
    pub fn total(&self) -> f64 {
        self.measured.whole.period as f64
    }

    /// What tells rows apart.
    pub(crate) fn keys(&self) -> &[SortKey] {
        &self.measured.keys
    }

    /// How many samples.
    pub fn samples(&self) -> u64 {
        self.measured.whole.samples
    }
}
