//! What can be wrong with a recording, and what is merely new to us.

use crate::fields::BodyError;
use crate::section::Section;
use prof_abi::RecordType;
use std::collections::BTreeMap;
use std::fmt;

/// Why a recording cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading failed.
    #[error("cannot read at offset {offset:#x}: {source}")]
    Io {
        /// Where, in bytes.
        offset: u64,
        /// Why.
        source: std::io::Error,
    },
    /// There are no bytes.
    #[error("the file is empty; nothing was recorded")]
    Empty,
    /// It is something else.
    #[error("this is not a perf.data file{}", looks(.start, .hint))]
    NotPerfData {
        /// Its first bytes.
        start: Vec<u8>,
        /// What it looks like and what to do, with a leading separator.
        hint: &'static str,
    },
    /// It ends inside the header.
    #[error("the file header needs {needs} bytes, but the file ends after {left}")]
    HeaderCut {
        /// Bytes the header has.
        needs: u64,
        /// Bytes there are.
        left: u64,
    },
    /// The header says a size that no version has.
    #[error("the file header says it has {size} bytes; 16 (pipe), 72 and 104 (file) are known")]
    HeaderSize {
        /// What it says, bytes.
        size: u64,
    },
    /// A file-mode recording came through a pipe.
    #[error(
        "this recording has its index at the end and cannot be read from a pipe; \
         give it as a file (-i FILE), or record with -o -"
    )]
    FileModeInPipe,
}

/// What a file looks like, or else its first bytes.
fn looks(start: &[u8], hint: &str) -> String {
    match hint {
        "" => format!(": it starts with {start:02x?}"),
        hint => hint.to_owned(),
    }
}

/// What is wrong with a place in a recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// A record's `size` field is below 8, or not where its fields end.
    #[error("says it has {size} bytes, {} {least}", least_is(*.size, *.least))]
    RecordSize {
        /// What it says, bytes.
        size: u16,
        /// The least it can be, bytes; where its fields end.
        least: u16,
    },
    /// A record ends past the end of its section.
    #[error("says it has {size} bytes, but the data ends after {left}")]
    RecordPastEnd {
        /// What it says, bytes.
        size: u64,
        /// Bytes to the end.
        left: u64,
    },
    /// Bytes that are no record.
    #[error("no record has type {kind}")]
    NotARecord {
        /// The type they would have.
        kind: u32,
    },
    /// A field of a record does not fit into it.
    #[error("{0}")]
    Body(BodyError),
    /// A name without the NUL that ends it; it is taken as it is.
    #[error("its {field} has {left} bytes, but needs {} with the NUL that ends it", .left + 1)]
    NameNotEnded {
        /// The field, as in the format's description.
        field: &'static str,
        /// Bytes of it.
        left: u64,
    },
    /// A range of addresses that passes the last one; it is not used.
    #[error("says {size:#x} bytes from {start:#x}, but only {:#x} addresses follow; it is not used", .start.wrapping_neg())]
    RangeWraps {
        /// Its first address.
        start: u64,
        /// What it says, bytes.
        size: u64,
    },
    /// A build-id of no bytes or of more than a record has room for.
    #[error("says its build-id has {size} bytes; it has room for 1 to 20")]
    BuildIdSize {
        /// What it says, bytes.
        size: u8,
    },
    /// The path of a file with a build-id has a component `..`.
    #[error("its path has a part `..`")]
    PathLeadsUp,
    /// Parts of a large record that are not followed by their end mark.
    #[error("its parts, {left} bytes together, are not followed by SPLIT_END")]
    PartsNotEnded {
        /// Bytes of the parts together.
        left: u64,
    },
    /// Parts of a large record that together are not what it says.
    #[error("says it has {size} bytes, but its parts have {left} together")]
    PartsSize {
        /// What it says, bytes.
        size: u64,
        /// Bytes of the parts together.
        left: u64,
    },
    /// The payload behind a record ends past the end.
    #[error("says {size} bytes follow it, but the data ends after {left}")]
    PayloadPastEnd {
        /// What the record says, bytes.
        size: u64,
        /// Bytes to the end.
        left: u64,
    },
    /// zstd bytes that cannot be unpacked.
    #[error("cannot be unpacked: {0}")]
    Compressed(String),
    /// A record inside compressed data was cut.
    #[error("the unpacked data ends inside a record, after {left} bytes of it")]
    CompressedCut {
        /// Bytes of it that are there.
        left: u64,
    },
    /// The recorder did not finish: `data.size` is 0, and the feature sections
    /// that the header names are not there.
    #[error(
        "the header says 0 bytes of data: the recording ended early, since the recorder did not finish; read to the end"
    )]
    Unfinished,
    /// A section of the header ends past the end of the file or of its place.
    #[error("section {section} ends at {end:#x}, but there are bytes up to {limit:#x} only")]
    SectionPastEnd {
        /// Which.
        section: &'static str,
        /// Where it would end.
        end: u64,
        /// Where it must end at the latest.
        limit: u64,
    },
    /// A section of the header is not what it should be.
    #[error("section {section}: {why}")]
    Section {
        /// Which.
        section: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Several events, and nothing in the samples tells them apart.
    #[error("events have different sample types and no identifier: samples cannot be read")]
    EventsAlike,
}

/// What to call the least that a record of this size can be.
fn least_is(size: u16, least: u16) -> &'static str {
    match size < least {
        true => "the least is",
        false => "but its fields take",
    }
}

/// A place in a recording that is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where, in bytes from the start of the file.
    pub offset: u64,
    /// The record it is in, if it is in one.
    pub record: Option<RecordType>,
    /// What is wrong.
    pub kind: DamageKind,
    /// How many bytes were skipped because of it.
    pub bytes: u64,
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.record {
            Some(kind) => match kind.name() {
                Some(name) => write!(out, "{name} record at {:#x}: {}", self.offset, self.kind)?,
                None => write!(
                    out,
                    "record of type {} at {:#x}: {}",
                    kind.0, self.offset, self.kind
                )?,
            },
            None => write!(out, "at {:#x}: {}", self.offset, self.kind)?,
        }
        if self.bytes != 0 {
            write!(out, " ({} bytes skipped)", self.bytes)?;
        }
        Ok(())
    }
}

/// The list of damages, bounded: a hostile file has as many as it likes.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    list: Vec<Damage>,
    /// Damages beyond the list.
    pub(crate) unlisted: u64,
}

impl Damages {
    /// As many are kept one by one.
    const KEPT: usize = 1000;

    pub(crate) fn list(&self) -> &[Damage] {
        &self.list
    }

    pub(crate) fn add(&mut self, damage: Damage) {
        if self.list.len() < Self::KEPT {
            self.list.push(damage);
        } else {
            self.unlisted += 1;
        }
    }
}

/// Contents of a recording that this version does not know: not damage, but not
/// shown either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// Records of unknown type: how many of each.
    pub unknown_records: BTreeMap<u32, u64>,
    /// Samples and other records whose event id no event has.
    pub unknown_ids: u64,
    /// Bits of `sample_type` without a meaning here, over all events.
    pub unknown_sample_bits: u64,
    /// Bits of the flag word without a meaning here, over all events.
    pub unknown_flag_bits: u64,
    /// Bits of `read_format` without a meaning here, over all events.
    pub unknown_read_bits: u64,
    /// Bytes of attrs beyond the last field known here.
    pub longer_attr: u32,
    /// Feature sections without a meaning here.
    pub unknown_features: Vec<u32>,
    /// Bytes at the end of the file that no section holds: where a tool wrote
    /// a shorter file over a longer one, appended something, or recorded a
    /// size too small.
    pub ownerless: Option<Section>,
    /// There is no feature section, which every recorder writes when it
    /// finishes: the recording ended early.
    pub unfinished: bool,
    /// Damages beyond those listed.
    pub more_damages: u64,
}

impl Notes {
    /// As many different unknown record types are told apart.
    const KINDS: usize = 1000;

    pub(crate) fn unknown_record(&mut self, kind: RecordType) {
        let known = self.unknown_records.contains_key(&kind.0);
        let key = if known || self.unknown_records.len() < Self::KINDS {
            kind.0
        } else {
            u32::MAX
        };
        *self.unknown_records.entry(key).or_default() += 1;
    }
}
