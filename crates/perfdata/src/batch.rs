//! Records copied out of a reader, to be worked on while it reads on.

use crate::event::Events;
use crate::record::Record;
use std::sync::Arc;

/// The first batch is closed when it holds this many bytes: who waits for it
/// has nothing else to do.
pub(crate) const SMALLEST: usize = 64 << 10;
/// Later ones are larger and larger, up to so many.
pub(crate) const LARGEST: usize = 1 << 20;

/// A run of records in reading order, with the events that were known when they
/// were read.
#[derive(Debug, Default)]
pub struct Batch {
    events: Arc<Events>,
    bytes: Vec<u8>,
    /// Of each record where it was in the file, and where it ends in `bytes`.
    places: Vec<(u64, usize)>,
    progress: (u64, Option<u64>),
}

impl Batch {
    /// Forgets all records; memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The records.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let starts = std::iter::once(0).chain(self.places.iter().map(|&(_, end)| end));
        starts
            .zip(&self.places)
            .filter_map(|(start, &(offset, end))| {
                Record::new(self.bytes.get(start..end)?, offset, &self.events)
            })
    }

    /// How far the reader was when it read the batch: see
    /// [`crate::Reader::progress`].
    pub fn progress(&self) -> (u64, Option<u64>) {
        self.progress
    }

    pub(crate) fn set_progress(&mut self, progress: (u64, Option<u64>)) {
        self.progress = progress;
    }

    /// Adds a record read under `events`; `false`, without adding it, if the
    /// batch holds `full` bytes or was begun under others.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        offset: u64,
        events: &Arc<Events>,
        full: usize,
    ) -> bool {
        if self.is_empty() {
            self.events = Arc::clone(events);
        } else if self.bytes.len() >= full || !Arc::ptr_eq(&self.events, events) {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        self.places.push((offset, self.bytes.len()));
        true
    }
}
