//! What a recording says beside its records.

use prof_perfdata::{Damage, Events, Features, Notes, Reader};

/// What a recording says besides its records, once all of them were read.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// What is known of the machine and of the recorder.
    pub features: &'a Features,
    /// The events that were sampled.
    pub events: &'a Events,
    /// What is damaged.
    pub damages: &'a [Damage],
    /// What the reader did not know and skipped.
    pub notes: Notes,
    /// Records that arrived too late to be sorted into the order of time.
    pub late: u64,
}

impl<'a> About<'a> {
    /// For records that come from no reader: nothing is damaged.
    pub fn new(features: &'a Features, events: &'a Events) -> Self {
        Self {
            features,
            events,
            damages: &[],
            notes: Notes::default(),
            late: 0,
        }
    }

    /// What a reader has found so far.
    pub fn of(reader: &'a Reader) -> Self {
        Self {
            features: reader.features(),
            events: reader.events(),
            damages: reader.damages(),
            notes: reader.notes(),
            late: 0,
        }
    }
}
