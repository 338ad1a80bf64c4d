//! The data files of a directory (`perf record --threads`), as one stream.
//!
//! Each thread of the recorder writes a file of its own, without marks of
//! rounds. Read one after the other, all but the last would have to wait; so
//! the file whose last record is the earliest gives the next one:
//!
//! ```text
//!   data      maps, names                          first, to its end
//!   data.0    10  20        50
//!   data.1            30 40     60                 10 20 30 40 50 60
//! ```

use super::frame::Oversized;
use super::open::at;
use super::{Origin, Reader};
use crate::damage::Error;
use crate::inflate::Inflater;
use crate::input::{FilePart, Input};
use std::fs::File;

/// A data file that is not the one being read.
pub(super) struct Stream {
    input: Input,
    inflater: Inflater,
    oversized: Oversized,
    first_offset: u64,
    time: u64,
}

impl Stream {
    fn open(file: File) -> Result<Self, Error> {
        let len = file.metadata().map_err(at(0))?.len();
        let part = FilePart::new(file, 0, u64::MAX);
        Ok(Self {
            // There may be hundreds of them, most of them small.
            input: Input::with_window(Box::new(part), 0, len),
            inflater: Inflater::new(),
            oversized: Oversized::default(),
            first_offset: 0,
            time: 0,
        })
    }

    /// Bytes read so far.
    pub(super) fn read(&self) -> u64 {
        self.input.offset().saturating_sub(self.first_offset)
    }
}

impl Reader {
    /// Turns to the data file that is behind the others in time.
    pub(super) fn turn_to_the_earliest(&mut self) {
        let is_between_records = self.current.is_none() && self.parts.bytes().is_empty();
        if self.streams.others.is_empty() || !is_between_records {
            return;
        }
        if self.streams.earliest_other < self.streams.time {
            self.swap(self.earliest());
        }
    }

    fn earliest(&self) -> Option<usize> {
        let others = self.streams.others.iter().enumerate();
        let (index, _) = others.min_by_key(|(_, other)| other.time)?;
        Some(index)
    }

    fn swap(&mut self, index: Option<usize>) {
        let streams = &mut self.streams;
        let Some(other) = index.and_then(|index| streams.others.get_mut(index)) else {
            return;
        };
        std::mem::swap(&mut streams.input, &mut other.input);
        std::mem::swap(&mut streams.inflater, &mut other.inflater);
        std::mem::swap(&mut streams.oversized, &mut other.oversized);
        std::mem::swap(&mut streams.first_offset, &mut other.first_offset);
        std::mem::swap(&mut streams.time, &mut other.time);
        self.note_others();
    }

    fn note_others(&mut self) {
        let times = self.streams.others.iter().map(|other| other.time);
        self.streams.earliest_other = times.min().unwrap_or(u64::MAX);
    }

    /// Notes how far the stream at hand is.
    pub(super) fn note_time(&mut self) {
        if !self.streams.is_directory {
            return;
        }
        let record = self.current();
        let of_parts = self.current.is_some_and(|it| it.origin == Origin::Parts);
        let time = record.and_then(|record| record.time());
        // perf's "no time" is 0 or all ones.
        if let Some(time) = time.filter(|&time| time != u64::MAX && !of_parts) {
            self.streams.time = self.streams.time.max(time);
        }
    }

    /// The stream at hand ended: turns to another one; `false` if there is
    /// none.
    pub(super) fn next_stream(&mut self) -> Result<bool, Error> {
        for file in std::mem::take(&mut self.streams.unopened) {
            self.streams.others.push(Stream::open(file)?);
        }
        let Some(index) = self.earliest() else {
            return Ok(false);
        };
        self.swap(Some(index));
        let ended = self.streams.others.remove(index);
        self.streams.read_before += ended.read();
        self.note_others();
        Ok(true)
    }
}
