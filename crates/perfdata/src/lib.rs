//! Reading and writing perf.data, the recordings of Linux `perf`, in any byte
//! order, container and version; no system calls beyond reading a file.
//!
//! You give a file or a stream and get its header, its events and its records
//! one after the other, in file order ([`Reader`]) or by time ([`TimeOrder`]).
//! Damage never ends the reading: what is whole is delivered and
//! [`Reader::damages`] says what was lost.
//!
//! ```no_run
//! use prof_perfdata::{Body, Reader, TimeOrder};
//! let mut records = TimeOrder::new(Reader::open_file(std::fs::File::open("perf.data")?)?);
//! while let Some(record) = records.next()? {
//!     if let Body::Sample(sample) = record.decode() {
//!         println!("{:?} {:x?}", sample.time(), sample.ip());
//!     }
//! }
//! for damage in records.reader().damages() {
//!     eprintln!("{damage}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: attrs up to VER9 and records up to `CALLCHAIN_DEFERRED` are known
//! by name; newer ones are kept as bytes and counted in [`Reader::notes`].
//! AUX traces are stepped over, not decoded.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

mod batch;
pub mod body;
mod branch;
mod damage;
mod event;
mod features;
mod fields;
mod header;
mod inflate;
mod input;
mod kernel_faults;
mod layout;
mod lbr;
mod losses;
mod order;
mod own;
mod read_values;
mod reader;
mod record;
mod sample;
mod sample_encode;
mod sample_fields;
mod section;
mod shares;
mod simpleperf;
mod skipping;
mod sorter;
mod time_order;
pub mod tracepoint;
mod wait;
pub mod write;

pub use batch::Batch;
pub use body::{Body, Value};
pub use branch::{Branch, BranchFlags};
pub use damage::{Damage, DamageKind, Error, Notes};
pub use event::{Event, Events};
pub use features::*;
pub use fields::{BodyError, Encoder, Short};
pub use header::{Header, Mode};
pub use kernel_faults::{KernelFaults, Sampler};
pub use layout::{RECORD_HEADER, SampleId, SampleLayout};
pub use lbr::call_chain_of_branches;
pub use losses::{Losses, Lost};
pub use read_values::{ReadValue, ReadValues};
pub use reader::Reader;
pub use record::{Parsed, Record};
pub use sample::{Branches, Registers, Sample, Words};
pub use section::Section;
pub use shares::{Share, Shares};
pub use time_order::TimeOrder;
pub use wait::{OFF_CPU_EVENT, WaitWord, is_off_cpu};
