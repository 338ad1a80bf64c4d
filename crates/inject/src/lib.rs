//! A recording goes in, the same with something put into it comes out: the
//! build-ids of its files, call chains in the place of registers and stacks,
//! code of JIT compilers, or how long threads slept; or with something taken out: what tells of the
//! machine and its users.
//!
//! You give a [`Source`], [`Additions`] and where to write; [`inject`] reads
//! the recording once and writes a file, or a stream, that every perf reads.
//!
//! ```no_run
//! use prof_inject::{Additions, Destination, Source, inject};
//! use std::fs::File;
//!
//! let reader = prof_perfdata::Reader::open_file(File::open("perf.data")?)?;
//! let source = Source { reader, section: &|_offset, _length| None };
//! let chains = Additions { chains: true, ..Additions::default() };
//! let destination = Destination::<_, Vec<u8>>::File(File::create("with-chains.data")?);
//! let (written, reader) = inject(source, &chains, destination)?;
//! println!("{} samples have a call chain", written.samples);
//! assert!(reader.damages().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: recordings of machines of the other byte order, with AUX data, or
//! of simpleperf are refused, since their records cannot be copied as they are.
#![forbid(unsafe_code)]

mod chains;
mod copy;
mod image;
mod jit;
mod redact;
mod sleeps;

pub use jit::{JitFiles, MappedDump, mapped_dumps};

use prof_abi::ByteOrder;
use prof_listing::build_ids::FileBuildId;
use prof_perfdata::write::{EventDescription, FileWriter, PipeWriter};
use prof_perfdata::{FeatureBit, Reader};
use prof_profile::Redaction;
use std::io::{self, Seek, Write};
use std::sync::Arc;

/// Something cannot be put into a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InjectError {
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] prof_perfdata::Error),
    /// Writing failed.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// The other byte order.
    #[error("it is of a machine of the other byte order\n  try: on such a machine")]
    ByteOrder,
    /// AUX data, which would be lost.
    #[error("it holds AUX data, which is not copied\n  try: perf inject")]
    Aux,
    /// There is nothing to convert.
    #[error(
        "no event has both registers and a piece of the user stack\n  try: prof record --call-graph dwarf, or prof record -g, which needs no conversion"
    )]
    NoStacks,
    /// Stacks are memory of programs.
    #[error(
        "it holds pieces of stacks, which nobody can look through\n  try: prof inject --convert-callchain first"
    )]
    PrivateStacks,
    /// Fields of tracepoints may be arguments.
    #[error(
        "it holds fields of tracepoints, which may be arguments and paths\n  try: prof export --redact, which leaves them out"
    )]
    PrivateFields,
    /// No process mapped a jitdump.
    #[error(
        "no process mapped a jitdump (jit-PID.dump)\n  try: a runtime that writes one, as node --perf-prof does"
    )]
    NoDumps,
    /// Times cannot be compared.
    #[error(
        "its times are not of CLOCK_MONOTONIC, which those of jitdumps are\n  try: prof record -k mono"
    )]
    OtherClock,
    /// There is nothing to merge.
    #[error(
        "it has no tracepoints sched:sched_stat_* beside sched:sched_switch\n  try: prof record -g -e sched:sched_stat_runtime,sched:sched_switch -a"
    )]
    NoSleeps,
}

/// The recording to read.
pub struct Source<'a> {
    /// A reader at the first record.
    pub reader: Reader,
    /// Reads bytes of feature sections: given offset and length in the file.
    pub section: &'a dyn Fn(u64, u64) -> Option<Vec<u8>>,
}

/// What is added to the recording, or taken out.
#[derive(Debug, Clone, Default)]
pub struct Additions {
    /// These files' build-ids, beside those that are there.
    pub build_ids: Vec<FileBuildId>,
    /// User call chains, unwound from registers and stacks, which they replace.
    pub chains: bool,
    /// Samples of `sched_switch` at the end of each sleep, with its length as
    /// their period; they replace those of `sched_stat_*`.
    pub sleeps: bool,
    /// Mappings of files with JIT code, which replace the anonymous memory the
    /// code was in.
    pub jit: Option<Arc<JitFiles>>,
    /// Removes paths, arguments and the host's name. Names embedded in the
    /// recording ([`FeatureBit::PROF_SYMBOLS`]) are removed too.
    pub redaction: Option<Arc<Redaction>>,
}

/// Counts of what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Injected {
    /// Records.
    pub records: u64,
    /// Build-ids that were not there before.
    pub build_ids: usize,
    /// Mappings of code of JIT compilers.
    pub code: u64,
    /// Samples that have a new call chain or a sleep.
    pub samples: u64,
}

/// Where it is written.
pub enum Destination<W: Write + Seek, P: Write> {
    /// A file with an index.
    File(W),
    /// A stream.
    Pipe(P),
}

/// Writes the recording with what is added. The reader that it was read with
/// tells what of it was damaged, and so is not in what was written.
///
/// # Errors
/// When it cannot be read, copied or written; what was asked for is not in it.
pub fn inject<W: Write + Seek, P: Write>(
    source: Source<'_>,
    additions: &Additions,
    destination: Destination<W, P>,
) -> Result<(Injected, Reader), InjectError> {
    if source.reader.events().order() != ByteOrder::NATIVE {
        return Err(InjectError::ByteOrder);
    }
    copy::copy(source, additions, destination)
}

/// A writer of either form.
enum Writer<W: Write + Seek, P: Write> {
    File(FileWriter<W>),
    Pipe(PipeWriter<P>),
}

impl<W: Write + Seek, P: Write> Writer<W, P> {
    fn new(
        destination: Destination<W, P>,
        events: &[EventDescription],
        features: &prof_perfdata::write::Features,
    ) -> io::Result<Self> {
        Ok(match destination {
            Destination::File(out) => Self::File(FileWriter::new(out, events)?),
            Destination::Pipe(out) => {
                let mut writer = PipeWriter::new(out, events, features)?;
                // Of a stream it is a record.
                let mut all = features.iter();
                if let Some((_, formats)) = all.find(|(bit, _)| *bit == FeatureBit::TRACING_DATA) {
                    let mut record = Vec::new();
                    prof_perfdata::write::tracing_data(formats, &mut record);
                    writer.write(&record)?;
                    writer.flush()?;
                }
                Self::Pipe(writer)
            }
        })
    }

    fn write(&mut self, records: &[u8]) -> io::Result<()> {
        match self {
            Self::File(writer) => writer.write(records),
            Self::Pipe(writer) => writer.write(records),
        }
    }

    fn finish(self, features: &prof_perfdata::write::Features) -> io::Result<()> {
        match self {
            Self::File(writer) => writer.finish(features)?.flush(),
            Self::Pipe(writer) => writer.finish(features)?.flush(),
        }
    }
}

/// Sections that say how this very file is laid out.
const OF_THE_LAYOUT: [FeatureBit; 3] = [
    FeatureBit::COMPRESSED,
    FeatureBit::DIR_FORMAT,
    FeatureBit::AUXTRACE,
];
