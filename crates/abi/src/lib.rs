//! What perf_event_open(2) and perf.data share: constants, flag sets, the
//! event attribute and build-ids. No I/O, no system call, no unsafe.
//!
//! You give numbers or bytes as the kernel or a file holds them and get typed
//! values that keep every bit, known or not; and back.
//!
//! ```
//! use prof_abi::{ByteOrder, EventAttr};
//! let attr = EventAttr { kind: 1, config: 0, sample_period: 1_000_000, ..EventAttr::default() };
//! let bytes = attr.encode(ByteOrder::Little);
//! assert_eq!(EventAttr::decode(&bytes, ByteOrder::Little), Some(attr));
//! ```
//!
//! Limits: the layouts are those of Linux up to 7.1 (attr VER9, 144 bytes);
//! newer fields travel in [`EventAttr::tail`].
#![forbid(unsafe_code)]

mod attr;
mod attr_text;
mod branch;
mod build_id;
mod bytes;
mod data_source;
mod event_name;
mod event_names;
mod flags;
mod registers;
mod transaction;

pub use attr::{EventAttr, attr_size};
pub use branch::{branch_kind_name, branch_privilege_name, branch_speculation_name};
pub use build_id::BuildId;
pub use bytes::ByteOrder;
pub use data_source::DataSource;
pub use event_name::event_name;
pub use event_names::{
    HARDWARE_EVENTS, NamedEvent, SOFTWARE_EVENTS, cache_events, event_by_name, event_kind,
};
pub use flags::{
    AttrFlags, AuxFlags, BranchSampleType, CallchainContext, CpuMode, Misc, ReadFormat, RecordType,
    SampleType, Software,
};
pub use registers::Arch;
pub use transaction::Transaction;
