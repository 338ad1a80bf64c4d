//! What takes the records of a recording: a file or stream, or what a
//! caller makes of them.

use crate::error::OutputError;
use prof_perfdata::write::{EventDescription, Features, Kept};

/// Takes the records of a recording, on a thread of its own.
///
/// They come as perf.data has them: whole, in the byte order of this machine,
/// the first ones synthesised, samples and the kernel's other records in about
/// the order of their times, between them marks (`FINISHED_ROUND`) behind which
/// nothing is older than what stood before the mark before.
pub trait Consumer: Send {
    /// Takes whole records.
    ///
    /// # Errors
    /// Ends the recording.
    fn records(&mut self, records: &[u8]) -> Result<(), OutputError>;

    /// Makes what came so far readable to others; called some times a second.
    ///
    /// # Errors
    /// Ends the recording.
    fn flush(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    /// Bytes of records so far.
    fn size(&self) -> u64;

    /// Whether the formats of tracepoints are to come as a record before all
    /// others; else they are one of the late features.
    fn is_stream(&self) -> bool {
        false
    }

    /// No more records come; `late` is what is known of the machine and the
    /// recording at its end only.
    ///
    /// # Errors
    /// If the recording is not whole.
    fn finish(self: Box<Self>, late: Features) -> Result<(), OutputError>;

    /// After an error: makes the best of what was taken, and says what that
    /// is, if it can be known.
    fn salvage(&mut self) -> Option<Kept> {
        None
    }
}

/// Makes the consumer when the events are open, from what samples are and what
/// is known of the machine.
pub type Consume<'a> =
    Box<dyn FnOnce(&[EventDescription], Features) -> Box<dyn Consumer + 'a> + 'a>;
