//! One record of a recording, in place.

use crate::body::Body;
use crate::event::{Event, Events};
use crate::fields::BodyError;
use crate::fields::{Encoder, Fields};
use crate::layout::{RECORD_HEADER, SampleId};
use crate::order::SamplePart;
use crate::sample::Sample;
use prof_abi::{ByteOrder, Misc, RecordType};

/// A record: header fields, all of its bytes, and where it was.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Where its header is in the file, bytes; of a record that was
    /// compressed, where the compressed record is.
    pub offset: u64,
    /// What it is.
    pub kind: RecordType,
    /// Meaning depends on `kind`.
    pub misc: Misc,
    /// The whole record, header included.
    pub bytes: &'a [u8],
    pub(crate) events: &'a Events,
}

/// A record taken apart; [`Parsed::encode`] puts it together again.
#[derive(Debug, Clone)]
pub struct Parsed<'a> {
    /// Type.
    pub kind: RecordType,
    /// Misc bits.
    pub misc: Misc,
    /// The `size` field of the header, bytes.
    pub size: u16,
    /// The content.
    pub body: Body<'a>,
    /// Bytes between the content and the trailer that no known field claims.
    pub extra: &'a [u8],
    /// The sample_id trailer as it stands.
    pub trailer: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at the start of `bytes`, which hold it whole; `offset` says
    /// where that is. `None` if there is no header.
    pub fn new(bytes: &'a [u8], offset: u64, events: &'a Events) -> Option<Self> {
        let order = events.order();
        let kind = RecordType(order.u32(bytes, 0)?);
        Some(Self {
            offset,
            kind,
            misc: events.misc_of(kind, Misc(order.u16(bytes, 4)?), bytes),
            bytes,
            events,
        })
    }

    /// The byte order of its integers.
    pub fn order(&self) -> ByteOrder {
        self.events.order()
    }

    /// The events of the recording.
    pub fn events(&self) -> &'a Events {
        self.events
    }

    /// The number of its event in [`Events::list`].
    #[inline]
    pub fn event_index(&self) -> Option<usize> {
        self.events.index_of(self.kind, self.bytes)
    }

    /// Its event.
    #[inline]
    pub fn event(&self) -> Option<&'a Event> {
        self.events.get(self.event_index()?)
    }

    /// Its time in ns, if it tells one.
    #[inline]
    pub fn time(&self) -> Option<u64> {
        if !self.kind.is_kernel() {
            return None;
        }
        let layout = &self.event()?.layout;
        let at = if self.kind == RecordType::SAMPLE {
            layout.at(SamplePart::Time)?
        } else {
            let end = self.events.trailer_end(self.kind, self.bytes);
            end.checked_sub(layout.trailer.back(SamplePart::Time)?)?
        };
        self.order().u64(self.bytes, at)
    }

    /// The period that a sample counts with; `None` for other records, and
    /// without an event.
    #[inline]
    pub fn period(&self) -> Option<u64> {
        let event = self.event().filter(|_| self.kind == RecordType::SAMPLE)?;
        let at = event.layout.at(SamplePart::Period);
        let recorded = at.and_then(|at| self.order().u64(self.bytes, at));
        Some(event.period_of(recorded))
    }

    /// Process, thread, time, CPU and event id of the record, as far as it has
    /// them.
    pub fn sample_id(&self) -> SampleId {
        let Some(event) = self.event().filter(|_| self.kind.is_kernel()) else {
            return SampleId::default();
        };
        if self.kind == RecordType::SAMPLE {
            let sample = Sample::new(self.bytes, &event.layout, self.order());
            return sample.map(|sample| sample.sample_id()).unwrap_or_default();
        }
        let end = self.events.trailer_end(self.kind, self.bytes);
        let bytes = self.bytes.get(..end).unwrap_or(self.bytes);
        SampleId::from_end(bytes, &event.layout.trailer, self.order())
    }

    /// Decodes the record as a sample of `event`, which must be
    /// [`Record::event`].
    ///
    /// # Errors
    /// If a field does not fit into the record.
    #[inline]
    pub fn sample_of(&self, event: &'a Event) -> Result<Sample<'a>, BodyError> {
        Sample::new(self.bytes, &event.layout, self.order())
    }

    /// Its content. [`Body::Unknown`] if that cannot be read; the reader
    /// reports such records as damage and does not hand them out.
    #[inline]
    pub fn decode(&self) -> Body<'a> {
        match self.try_decode() {
            Ok(body) => body,
            Err(_) => Body::Unknown(self.bytes.get(RECORD_HEADER..).unwrap_or_default()),
        }
    }

    /// Its content.
    ///
    /// # Errors
    /// If a field does not fit into the record.
    #[inline]
    pub fn try_decode(&self) -> Result<Body<'a>, BodyError> {
        if self.kind == RecordType::SAMPLE {
            return match self.event() {
                Some(event) => self.sample_of(event).map(Body::Sample),
                None => Ok(Body::Unknown(
                    self.bytes.get(RECORD_HEADER..).unwrap_or_default(),
                )),
            };
        }
        Self::decode_fields(self.kind, &mut self.fields(self.trailer_len()))
    }

    fn decode_fields(kind: RecordType, fields: &mut Fields<'a>) -> Result<Body<'a>, BodyError> {
        let untouched = *fields;
        match Body::decode(kind, fields) {
            // Layouts of simpleperf's records changed without a version.
            Err(_) if kind.0 >= RecordType::SIMPLEPERF_KERNEL_SYMBOL.0 => {
                *fields = untouched;
                Ok(Body::Unknown(fields.rest()))
            }
            body => body,
        }
    }

    fn trailer_len(&self) -> usize {
        let event = self
            .event()
            .filter(|_| self.kind.is_kernel() && self.kind != RecordType::SAMPLE);
        let len = event.map_or(0, |event| event.layout.trailer_len());
        len.min(self.bytes.len().saturating_sub(RECORD_HEADER))
    }

    fn fields(&self, trailer_len: usize) -> Fields<'a> {
        let end = self.bytes.len().saturating_sub(trailer_len);
        let body = self.bytes.get(RECORD_HEADER..end).unwrap_or_default();
        let mut fields = Fields::new(body, self.order());
        fields.misc = self.misc;
        if self.kind == RecordType::READ
            && let Some(event) = self.event()
        {
            // The kernel writes READ records of each event alone.
            fields.read_format = event.attr.read_format.without(prof_abi::ReadFormat::GROUP);
        }
        fields
    }

    /// Splits the record into fields such that [`Parsed::encode`] gives back
    /// the same bytes.
    ///
    /// # Errors
    /// If a field does not fit into the record.
    pub fn parse(&self) -> Result<Parsed<'a>, BodyError> {
        let trailer_len = self.trailer_len();
        let mut fields = self.fields(trailer_len);
        let body = if self.kind == RecordType::SAMPLE {
            let body = self.try_decode()?;
            fields.rest();
            body
        } else {
            Self::decode_fields(self.kind, &mut fields)?
        };
        let split = self.bytes.len() - trailer_len;
        Ok(Parsed {
            kind: self.kind,
            misc: self.order().u16(self.bytes, 4).map_or(self.misc, Misc),
            size: self.order().u16(self.bytes, 6).unwrap_or(0),
            body,
            extra: fields.rest(),
            trailer: self.bytes.get(split..).unwrap_or_default(),
        })
    }
}

impl Parsed<'_> {
    /// The record's bytes.
    pub fn encode(&self, order: ByteOrder) -> Vec<u8> {
        let mut out = Encoder::new(order);
        out.u32(self.kind.0);
        out.u16(self.misc.0);
        out.u16(self.size);
        self.body.encode(&mut out);
        out.bytes(self.extra);
        out.bytes(self.trailer);
        out.finish()
    }
}
