//! What takes the records of a recording: a file or stream, or what a
//! caller makes of them.

use crate::output_error::OutputError;
use crate::tally::Tally;
use prof_perfdata::write::{EventDescription, Features, Kept};
use std::path::PathBuf;

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

    /// Takes a piece of a trace: an `AUXTRACE` record and the bytes that belong
    /// behind it, a multiple of 8. Whoever has no use for traces drops it.
    ///
    /// # Errors
    /// Ends the recording.
    fn trace(&mut self, _record: &[u8], _trace: &[u8]) -> Result<(), OutputError> {
        Ok(())
    }

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

/// Creates the consumer once the events are open, from the events' attrs and
/// what is known of the machine.
pub type Consume<'a> =
    Box<dyn FnOnce(&[EventDescription], Features) -> Box<dyn Consumer + 'a> + 'a>;

/// Makes several files of one recording.
pub(crate) trait Parts: Consumer {
    /// Records younger than `at`, ns, will belong into the next file, if there
    /// is no cut yet. Whether older ones should be waited for.
    fn cut(&mut self, at: u64) -> bool;

    /// There will be no next file.
    fn uncut(&mut self) -> Result<(), OutputError>;

    /// Writes `last` and ends this file with `late`, as [`Consumer::finish`];
    /// what comes goes to the next.
    ///
    /// # Errors
    /// Ends the recording.
    fn switch(&mut self, last: &[u8], late: Features) -> Result<Switched, OutputError>;

    /// Ends the last file as [`Consumer::finish`] does, and says its name.
    fn end(&mut self, late: Features) -> Result<PathBuf, OutputError>;

    /// What came of the last switch, if that was not known then and is now.
    fn switched(&mut self) -> Option<Switched> {
        None
    }

    /// The same, waited for.
    fn wait(&mut self) -> Option<Switched> {
        None
    }

    /// What this file has, as far as it is the kernel's.
    fn tally(&self) -> Tally;

    /// What records of the kernel told of as lost, in all files.
    fn lost_ever(&self) -> u64 {
        self.tally().lost
    }

    /// Where files overlap: the time of the first sample that the next would
    /// have, ns.
    fn begins_at(&self) -> Option<u64> {
        None
    }

    /// Bytes of records in all files.
    fn bytes(&self) -> u64;
}

/// What came of a wish for another file.
#[derive(Debug)]
pub(crate) enum Switched {
    /// A file is finished.
    To {
        name: PathBuf,
        tally: Tally,
        bytes: u64,
    },
    /// A file is being written.
    Later,
    /// There can be no other file, and this one goes on.
    Refused(OutputError),
}

/// Whom the writing thread gives the records.
pub(crate) enum Taker<'a> {
    /// Takes them all.
    One(Box<dyn Consumer + 'a>),
    /// Makes several files of them.
    Parts(Box<dyn Parts>),
}

impl<'a> Taker<'a> {
    pub(crate) fn consumer(&mut self) -> &mut (dyn Consumer + 'a) {
        match self {
            Self::One(consumer) => consumer.as_mut(),
            Self::Parts(parts) => parts.as_mut(),
        }
    }

    /// Bytes of records in the file that is being written.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::One(consumer) => consumer.size(),
            Self::Parts(parts) => parts.size(),
        }
    }

    /// Bytes of records in all files.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::One(consumer) => consumer.size(),
            Self::Parts(parts) => parts.bytes(),
        }
    }
}
