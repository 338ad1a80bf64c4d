//! What tests of events share.

#[path = "../tests/support/spared.rs"]
mod spared;

use crate::event::{Event, Target};
use prof_abi::{AttrFlags, EventAttr};
pub(crate) use spared::until_spared;

/// page-faults of this thread in user space: what every user may count, and
/// exact.
pub(crate) fn page_faults() -> EventAttr {
    EventAttr {
        kind: 1,
        config: 2,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    }
}

/// Whether events may be opened at all; says so if not.
pub(crate) fn permitted() -> bool {
    let is_permitted = Event::open(&page_faults(), Target::THIS, None).is_ok();
    if !is_permitted {
        println!("skipped: perf_event_open is not permitted here");
    }
    is_permitted
}

/// Touches so many fresh pages, one fault each.
pub(crate) fn touch(pages: usize) {
    let length = pages * crate::page_size();
    // SAFETY: a fresh private mapping, written within its length and unmapped;
    // without huge pages each page faults once.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, length, libc::MADV_NOHUGEPAGE);
        for page in 0..pages {
            let byte = memory.cast::<u8>().add(page * crate::page_size());
            byte.write_volatile(1);
        }
        libc::munmap(memory, length);
    }
}

/// The `errno` of a refusal.
pub(crate) fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    let error = result.expect_err("refused");
    error.raw_os_error().unwrap_or(0)
}
