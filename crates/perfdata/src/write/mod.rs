//! Writing perf.data: files, pipes, records and feature sections.
//!
//! You give events, whole records and feature sections; you get bytes that
//! `perf` reads without a warning. Records are those that are read: any
//! [`Body`](crate::Body) can be appended. Nothing here makes a system call other
//! than through the [`Write`](std::io::Write) and [`Seek`](std::io::Seek) you
//! hand in.
//!
//! ```
//! use prof_abi::{EventAttr, Misc};
//! use prof_perfdata::body::{Body, Comm, Name};
//! use prof_perfdata::write::{EventDescription, Features, FileWriter, Trailer, append_short};
//! use std::io::Cursor;
//!
//! let attr = EventAttr { kind: 1, sample_period: 1_000_000, ..EventAttr::default() };
//! let event = EventDescription { attr, ids: vec![7], name: "cpu-clock".into() };
//! let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[event])?;
//! let mut record = Vec::new();
//! let comm = Comm { pid: 1, tid: 1, name: Name::of_thread(b"init") };
//! append_short(&Body::Comm(comm), Misc(0), &Trailer::NONE, &mut record);
//! writer.write(&record)?;
//! writer.flush()?; // from here on the bytes are a readable file
//! let mut features = Features::default();
//! features.hostname("box");
//! let file = writer.finish(&features)?.into_inner();
//! assert_eq!(&file[..8], b"PERFILE2");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Everything is in the byte order of this machine, because the kernel's own
//! records, which are most of a file, are.
//!
//! Limits: a stream is not packed whole; no directory form, no AUX area data.

mod compress;
mod event;
mod features;
mod file;
mod own;
mod pipe;
mod record;
mod sample;
mod session;
mod taken;
#[cfg(test)]
mod tests;
mod trailer;

pub use compress::Packing;
pub use event::EventDescription;
pub use features::{Features, RecordedBuildId};
pub use file::FileWriter;
pub use own::{AppendError, append_section};
pub use pipe::PipeWriter;
pub use record::{MAX_RECORD_SIZE, RecordTooLong, append, append_short};
pub use sample::{
    AsWait, SampleEncoder, SampleFields, UserChainRewriter, as_wait, put_chain_entries,
    shorten_user_stack, with_time_and_period,
};
pub use session::{finished_init, finished_round, id_index, thread_map, tracing_data};
pub use taken::Kept;
pub use trailer::Trailer;
