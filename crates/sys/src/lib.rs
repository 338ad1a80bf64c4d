//! perf_event_open(2) and what a recorder needs around it, as safe types.
//!
//! You give an [`EventAttr`](prof_abi::EventAttr) and a [`Target`] and get an
//! [`Event`] that counts, whose [`Ring`] yields whole records, and whose
//! errors are the kernel's. Around it: launching a program that waits until
//! the events are ready ([`Launched`]), signals as a descriptor, `poll`,
//! limits, clocks and the memory of other processes.
//!
//! ```
//! use prof_abi::{AttrFlags, EventAttr, ReadFormat};
//! use prof_sys::{Event, Target};
//! let attr = EventAttr {
//!     kind: 1, // software
//!     config: 1, // task-clock, ns
//!     flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
//!     ..EventAttr::default()
//! };
//! if let Ok(event) = Event::open(&attr, Target::THIS, None) {
//!     let counts = event.read_counts(ReadFormat(0))?;
//!     assert!(counts.values[0].value > 0);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Everything that an event's descriptor and ring can do is here, also what
//! prof itself does not use yet, promised to those who build other tools: an
//! overwriting ring ([`Ring::map_overwriting`], [`Event::pause_output`],
//! [`Ring::read_newest`]) keeps the newest records until somebody asks, and an
//! open event can be changed ([`Event::reset`], [`Event::refresh`],
//! [`Event::set_period`], [`Event::set_filter`], [`Event::modify_attributes`],
//! [`Event::set_bpf`], [`Event::query_bpf`]).
//!
//! ```
//! use prof_abi::{AttrFlags, EventAttr, ReadFormat};
//! use prof_sys::{Event, Target};
//! # let attr = EventAttr {
//! #     kind: 1,
//! #     config: 1,
//! #     flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
//! #     ..EventAttr::default()
//! # };
//! if let Ok(event) = Event::open(&attr, Target::THIS, None) {
//!     event.disable()?;
//!     event.reset()?; // counts from 0 again
//!     assert_eq!(event.read_counts(ReadFormat(0))?.values[0].value, 0);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: Linux only. The layouts are those of 64-bit and 32-bit machines
//! alike, but only 64-bit ones are tested.
#![expect(
    unsafe_code,
    reason = "the one crate that talks to the kernel; every block is justified where it stands"
)]

mod action;
pub mod clock;
mod counts;
mod event;
mod inherited;
mod ioctl;
pub mod limits;
pub mod out_of_memory;
mod poll;
pub mod process;
pub mod prompt;
mod ring;
pub mod shrunk;
pub mod signal;
mod spawn;
pub mod terminal;

pub use counts::{Count, Counts};
pub use event::{Event, OpenError, Target, kernel_attr_size};
pub use inherited::Inherited;
pub use ioctl::BpfPrograms;
pub use poll::{PollSet, Waker, wait_writable};
pub use ring::{Ring, RingView};
pub use spawn::{ExecError, Launched, gives_capabilities};

/// The result of a system call that returns -1 and sets `errno`.
fn checked(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result == -1 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The size of a page in bytes.
pub fn page_size() -> usize {
    // SAFETY: sysconf takes a number and returns a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("every Linux has a page size")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_page_is_a_power_of_two() {
        assert!(super::page_size().is_power_of_two());
    }
}
