//! What may stand between the rings and the file.

use crate::snapshots::Snapshots;
use prof_abi::EventAttr;
use prof_perfdata::write::EventDescription;
use std::sync::Arc;
use std::time::Duration;

/// Changes records on their way to the file, as a live unwinder does. It runs
/// on the writing thread; the rings are drained by another, so that a slow
/// stage makes the queue between them grow, up to its bound, and never holds
/// up a ring before that.
pub trait Stage: Send {
    /// How samples of an event opened with this attr are written; what the
    /// file's header says.
    fn written_attr(&self, opened: &EventAttr) -> EventAttr {
        opened.clone()
    }

    /// Called once before all records, with the events as opened and their
    /// ids.
    fn begin(&mut self, events: &[EventDescription]);

    /// Takes all records of one drain of all rings, those of each ring in the
    /// order in which the kernel wrote them; `out` gets, piece by piece, what
    /// goes to the file now. Synthesised records come first, with time 0.
    fn records(&mut self, records: &[u8], out: &mut dyn FnMut(&[u8]));

    /// Called before [`Stage::records`]: whether so much waits that samples may
    /// soon be lost. Stacks may then be shorter than else.
    fn pressed(&mut self, is_pressed: bool) {
        let _ = is_pressed;
    }

    /// The earliest time, in ns, of the records that are kept back; no mark of
    /// a round may promise readers that nothing so old comes any more.
    fn earliest_held(&self) -> Option<u64> {
        None
    }

    /// No more records come; `out` gets what was kept back.
    fn finish(&mut self, out: &mut dyn FnMut(&[u8])) {
        let _ = out;
    }

    /// What the file shall say about how far to trust the stacks, as JSON;
    /// asked for after [`Stage::finish`].
    fn trust(&self) -> Option<String> {
        None
    }

    /// Where the stage says which memory it wants to be read with samples, and
    /// gets it; `None` if it wants none.
    fn snapshots(&self) -> Option<Arc<Snapshots>> {
        None
    }

    /// How long records may wait in a ring from now on; asked after each
    /// [`Stage::records`]. Short if memory of the sampled process is to be
    /// read while it is as it was: each wait that ends costs two changes of
    /// threads, and at usual rates that is most of what a recorder costs.
    fn patience(&self) -> Duration {
        Duration::from_millis(20)
    }
}
