//! Streams the records of a recording in file order.

mod absorb;
mod directory;
mod frame;
mod open;
mod own_sections;
mod parts;
mod resync;

pub(crate) use resync::is_known;

use crate::damage::{Damage, DamageKind, Damages, Error, Notes};
use crate::event::Events;
use crate::features::Features;
use crate::header::Header;
use crate::inflate::Inflater;
use crate::input::Input;
use crate::layout::RECORD_HEADER;
use crate::own;
use crate::record::Record;
use frame::{Frame, Oversized};
use parts::Parts;
use prof_abi::RecordType;
use std::fs::File;
use std::sync::Arc;

/// A recording, read front to back.
///
/// Reading never fails on damage: [`Reader::next`] goes on with the next
/// record that is whole and [`Reader::damages`] tells what was lost.
pub struct Reader {
    header: Header,
    features: Features,
    /// Shared with batches of records that were read under them.
    events: Arc<Events>,
    damages: Damages,
    notes: Notes,
    streams: Streams,
    current: Option<Current>,
    /// It was stepped to, and is to come next.
    is_ahead: bool,
    payload: Option<absorb::Payload>,
    /// The current record is a sample whose fields end here, before its size
    /// does.
    doubtful: Option<usize>,
    /// A sample was read: later events would change how it is understood.
    has_sampled: bool,
    parts: Parts,
    own_parts: own::Parts,
    /// Where perf's sections end in a file that is finished, and where ours
    /// do, which is where it ends.
    own_room: Option<(u64, u64)>,
    budget: Budget,
}

/// Where records come from: one stream, or in directory mode several.
struct Streams {
    input: Input,
    inflater: Inflater,
    oversized: Oversized,
    first_offset: u64,
    /// Time of its last record.
    time: u64,
    /// The data files of a directory, until the first stream ended.
    unopened: Vec<File>,
    /// The other streams, not in a particular order.
    others: Vec<directory::Stream>,
    /// Time of the one of them that is furthest behind.
    earliest_other: u64,
    /// Whether the streams are a directory's, each of one ring.
    is_directory: bool,
    /// Bytes of the streams that ended, and of all.
    read_before: u64,
    total: Option<u64>,
}

/// The record that `advance` stepped to.
#[derive(Debug, Clone, Copy)]
struct Current {
    origin: Origin,
    place: usize,
    len: usize,
    offset: u64,
}

/// Where the bytes of a record are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// In the file.
    File,
    /// In what compressed records hold.
    Unpacked,
    /// In the parts of a large record, joined.
    Parts,
}

/// What may be kept of the file's content beside the record at hand.
///
/// A hostile file can name the same bytes from many places; together they may
/// take what the file's size justifies and not more.
#[derive(Debug)]
struct Budget {
    left: u64,
}

impl Budget {
    /// Kept bytes may be this many times the file's, and so much more.
    const TIMES: u64 = 2;
    const FREE: u64 = 32 << 20;

    fn new(file: Option<u64>) -> Self {
        let file = file.unwrap_or(0);
        Self {
            left: file.saturating_mul(Self::TIMES).saturating_add(Self::FREE),
        }
    }

    /// Takes `bytes` if they are left.
    fn take(&mut self, bytes: u64) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

impl Reader {
    /// The file header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The feature sections: all of them after opening a file-mode recording;
    /// in pipe mode those that have come so far.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The events; in pipe mode those that have come so far.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// [`Reader::events`], to keep while reading goes on.
    pub(crate) fn shared_events(&self) -> &Arc<Events> {
        &self.events
    }

    /// Damage found so far.
    pub fn damages(&self) -> &[Damage] {
        self.damages.list()
    }

    /// Unknown contents found so far.
    pub fn notes(&self) -> Notes {
        let mut notes = self.notes.clone();
        notes.more_damages = self.damages.unlisted;
        for event in self.events.list() {
            notes.unknown_sample_bits |= event.attr.sample_type.unknown();
            notes.unknown_flag_bits |= event.attr.flags.unknown();
            notes.unknown_read_bits |= event.attr.read_format.unknown();
            notes.longer_attr = notes.longer_attr.max(event.attr.tail.len() as u32);
        }
        let unknown = |bit: &crate::features::FeatureBit| bit.name().is_none();
        let bits = self.features.sections().iter().map(|section| section.bit);
        notes.unknown_features = bits.filter(unknown).map(|bit| bit.0).collect();
        notes
    }

    /// Where perf's sections end in a finished file, and where ours do.
    pub(crate) fn own_room(&self) -> Option<(u64, u64)> {
        self.own_room
    }

    /// Whether sections can be appended: it is a finished file, and nothing that is not
    /// known stands at its end.
    pub fn takes_sections(&self) -> bool {
        self.own_room.is_some()
    }

    /// Bytes read so far, and the total if it is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        let streams = &self.streams;
        let here = streams.input.offset().saturating_sub(streams.first_offset);
        let others = streams.others.iter().map(directory::Stream::read);
        let read = streams.read_before + here + others.sum::<u64>();
        (read, streams.total)
    }

    /// The next whole record, in file order; a compressed one is followed by
    /// those inside it, the last part of one by the whole. Of a directory's
    /// data files the one whose last record has the earliest time comes next.
    /// `None` at the end.
    ///
    /// # Errors
    /// Only if reading fails; what is wrong with the bytes goes to
    /// [`Reader::damages`].
    #[expect(clippy::should_implement_trait, reason = "lends from self")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        Ok(if self.advance()? {
            self.current()
        } else {
            None
        })
    }

    /// Steps to the next record, which [`Reader::current`] then gives.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn advance(&mut self) -> Result<bool, Error> {
        if std::mem::take(&mut self.is_ahead) {
            return Ok(true);
        }
        loop {
            self.consume_current();
            self.absorb_payload()?;
            self.turn_to_the_earliest();
            let found = match self.next_joined().or_else(|| self.next_inflated()) {
                Some(current) => Some(current),
                None => self.next_plain()?,
            };
            let Some(current) = found else {
                if self.next_stream()? {
                    continue;
                }
                return Ok(false);
            };
            self.current = Some(current);
            if self.absorb() && self.size_is_right()? {
                self.note_time();
                return Ok(true);
            }
        }
    }

    /// Steps over records while they are such; the first other one comes next.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn skip(&mut self, mut is_skipped: impl FnMut(&Record<'_>) -> bool) -> Result<(), Error> {
        while self.advance()? {
            if !self.current().is_some_and(|record| is_skipped(&record)) {
                self.is_ahead = true;
                break;
            }
        }
        Ok(())
    }

    /// In directory mode, a time that all streams have passed: records still to
    /// come are not older, except those written to a ring while another one was
    /// drained.
    pub fn reached(&self) -> Option<u64> {
        let streams = &self.streams;
        let all_opened = streams.is_directory && streams.unopened.is_empty();
        all_opened.then(|| streams.time.min(streams.earliest_other))
    }

    /// The record that [`Reader::advance`] stepped to.
    pub fn current(&self) -> Option<Record<'_>> {
        let current = self.current?;
        let bytes = match current.origin {
            Origin::Parts => self.parts.bytes(),
            _ => self.streams.bytes_of(current),
        };
        Record::new(bytes, current.offset, &self.events)
    }

    fn consume_current(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        match current.origin {
            Origin::File => self.streams.input.consume(current.len),
            Origin::Unpacked => self.streams.inflater.consume(current.len),
            Origin::Parts => self.parts = Parts::default(),
        }
    }

    fn damage(&mut self, offset: u64, record: Option<RecordType>, kind: DamageKind, bytes: u64) {
        self.damages.add(Damage {
            offset,
            record,
            kind,
            bytes,
        });
    }

    /// The next record of what was unpacked; `None` if it needs more input.
    fn next_inflated(&mut self) -> Option<Current> {
        let inflater = &mut self.streams.inflater;
        let offset = inflater.offset;
        let order = self.header.order;
        let there = inflater.ensure(RECORD_HEADER).map(|bytes| {
            // An incomplete header waits for the next compressed record.
            order.u16(bytes, 6).map(usize::from)
        });
        let size = match there {
            Ok(Some(size)) => size,
            Ok(None) => return None,
            Err(why) => return self.give_up_inflating(offset, DamageKind::Compressed(why)),
        };
        if size < RECORD_HEADER {
            let kind = DamageKind::RecordSize {
                size: size as u16,
                least: RECORD_HEADER as u16,
            };
            return self.give_up_inflating(offset, kind);
        }
        match inflater.ensure(size) {
            Ok(bytes) if bytes.len() < size => None,
            Ok(_) => Some(Current {
                origin: Origin::Unpacked,
                place: inflater.place(),
                len: size,
                offset,
            }),
            Err(why) => self.give_up_inflating(offset, DamageKind::Compressed(why)),
        }
    }

    fn give_up_inflating(&mut self, offset: u64, kind: DamageKind) -> Option<Current> {
        let skipped = self.streams.inflater.give_up();
        self.damage(offset, Some(RecordType::COMPRESSED), kind, skipped);
        None
    }

    /// The next record that stands in the file itself; `None` at the end.
    fn next_plain(&mut self) -> Result<Option<Current>, Error> {
        loop {
            let offset = self.streams.input.offset();
            let head = self.streams.input.ensure(frame::LONGEST_HEAD)?;
            if head.is_empty() {
                self.end_of_stream(offset);
                return Ok(None);
            }
            let left = head.len() as u64;
            let order = self.header.order;
            let Some(head) = Frame::read(head, order, &mut self.streams.oversized) else {
                let kind = DamageKind::RecordPastEnd {
                    size: RECORD_HEADER as u64,
                    left,
                };
                self.damage(offset, None, kind, left);
                self.streams.input.consume(left as usize);
                continue;
            };
            if head.len < RECORD_HEADER || !is_known(head.kind) {
                if self.accept_odd(head.kind, head.len)? {
                    return Ok(Some(self.plain(head.len, offset)));
                }
                continue;
            }
            let left = self.streams.input.ensure(head.len)?.len();
            if left < head.len {
                self.past_end(head.kind, head.len as u64, left as u64)?;
                continue;
            }
            return Ok(Some(self.plain(head.len, offset)));
        }
    }

    fn plain(&self, len: usize, offset: u64) -> Current {
        Current {
            origin: Origin::File,
            place: self.streams.input.place(),
            len,
            offset,
        }
    }

    /// A stream ended; what was unpacked of it must have ended too.
    fn end_of_stream(&mut self, offset: u64) {
        self.give_up_parts();
        let left = self.streams.inflater.bytes().len() as u64;
        if left > 0 {
            self.streams.inflater.give_up();
            let kind = DamageKind::CompressedCut { left };
            self.damage(offset, Some(RecordType::COMPRESSED), kind, 0);
        }
    }
}

impl Streams {
    fn bytes_of(&self, current: Current) -> &[u8] {
        if current.origin == Origin::Unpacked {
            self.inflater.at_place(current.place, current.len)
        } else {
            self.input.at_place(current.place, current.len)
        }
    }
}
