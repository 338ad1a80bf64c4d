//! Writing perf.data: files, pipes, records and feature sections.
//!
//! You give events, whole records and feature sections; you get bytes that
//! `perf` reads without a warning. Nothing here makes a system call other
//! than through the [`Write`](std::io::Write) and [`Seek`](std::io::Seek) you
//! hand in.
//!
//! ```
//! use prof_abi::EventAttr;
//! use prof_perfdata::write::{Comm, EventDescription, Features, FileWriter, Trailer};
//! use std::io::Cursor;
//!
//! let attr = EventAttr { kind: 1, sample_period: 1_000_000, ..EventAttr::default() };
//! let event = EventDescription { attr, ids: vec![7], name: "cpu-clock".into() };
//! let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[event])?;
//! let mut record = Vec::new();
//! Comm { pid: 1, tid: 1, name: b"init", by_exec: false }.encode(&Trailer::NONE, &mut record);
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
//! Limits: no compression, no directory form, no AUX area data.

mod features;
mod file;
mod own;
mod pipe;
mod record;
mod sample;
mod session;
mod task;
mod trailer;

pub use features::{
    Cache, ClockData, CoreOfCpu, CpuTopology, Features, MemoryNode, NumaNode, RecordedBuildId,
};
pub use file::{EventDescription, FileWriter, Kept};
pub use pipe::PipeWriter;
pub use record::{MAX_RECORD_SIZE, RecordTooLong};
pub use sample::{SampleEncoder, SampleFields, UserChainRewriter, shorten_user_stack};
pub use session::{
    CpuMap, EventUpdate, HeaderAttr, HeaderFeature, IdIndexEntry, LostRecords, LostSamples,
    finished_init, finished_round, id_index, thread_map,
};
pub use task::{Cgroup, Comm, Exit, FileIdentity, Fork, Ksymbol, Mmap, Mmap2, Namespaces, Task};
pub use trailer::Trailer;
