//! The beginning of a recording.

use prof_abi::RecordType;
use prof_perfdata::{Event, Features, Mode, Reader};

/// What is known of a recording before its first sample.
pub struct Head {
    pub(super) mode: Mode,
    pub(super) features: Features,
    pub(super) events: Vec<Event>,
}

impl Head {
    /// Reads up to the first sample.
    ///
    /// # Errors
    /// If the recording cannot be read so far.
    pub fn read(reader: &mut Reader) -> Result<Self, prof_perfdata::Error> {
        while let Some(record) = reader.next()? {
            if record.kind == RecordType::SAMPLE {
                break;
            }
        }
        Ok(Self {
            mode: reader.header().mode,
            features: reader.features().clone(),
            events: reader.events().list().to_vec(),
        })
    }

    /// The events that were recorded.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}
