//! What is written of an event.

use prof_abi::{ByteOrder, EventAttr};

/// An event for the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDescription {
    /// The event as its samples are written.
    pub attr: EventAttr,
    /// One id per descriptor that was opened for it.
    pub ids: Vec<u64>,
    /// As the user wrote it, or as perf would (`cycles:u`).
    pub name: String,
}

impl EventDescription {
    /// The attr in exactly `size` bytes, which must hold all of it.
    pub(super) fn encoded_attr(&self, size: u32) -> Vec<u8> {
        let mut attr = self.attr.clone();
        attr.size = size;
        attr.encode(ByteOrder::NATIVE)
    }
}
