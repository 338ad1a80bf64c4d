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

/// The smallest published attr size that holds every event, in bytes. Older
/// perfs refuse attrs above their own size even if the rest is zeros.
pub(super) fn common_attr_size(events: &[EventDescription]) -> u32 {
    events
        .iter()
        .map(|event| event.attr.smallest_size())
        .max()
        .unwrap_or(prof_abi::attr_size::VER0)
}
