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
//! Nobody needs bindings of his own: whatever an event's descriptor, its
//! memory and the kernel's settings offer is here.
//!
//! | you want | take | example |
//! |---|---|---|
//! | to count a section of your code | [`Event::enable`], [`Event::read_counts`] | `count_section` |
//! | several counts of the same time, scaled | [`Group`], [`scaled`] | `group` |
//! | to change what is open | [`Event::reset`], [`Event::set_period`], [`Event::set_filter`], [`Event::set_output`], [`Event::pause_output`], [`Event::modify_attributes`] | `open_event` |
//! | to count yourself without system calls | [`SelfCounter`] | `self_monitoring` |
//! | records of samples | [`Ring::map`], [`Ring::take`], [`Records`] | `sample_ring` |
//! | the newest records only when asked | [`Ring::map_overwriting`], [`Ring::dump`] | `overwrite_ring` |
//! | to sleep until there is enough | [`PollSet`], [`EventAttr::wakeup`](prof_abi::EventAttr::wakeup) | `poll_watermark` |
//! | a signal with each overflow, or the nth | [`Event::signal_overflows`], [`Event::refresh`] | `signals` |
//! | to stop where a variable is written | [`breakpoint`], [`Traps`] | `breakpoint`, `sigtrap` |
//! | a BPF program at a tracepoint | [`Event::set_bpf`], [`Event::query_bpf`] | `bpf_attach` |
//! | each sample with the same probability | [`RandomChoice`] | |
//! | traces of a PMU | [`AuxArea`] | `aux_area` |
//! | to leave a section out of all your events | [`disable_own_events`] | `own_events` |
//! | limits, rights, PMUs | [`Settings`](settings::Settings), [`Pmu`](pmu::Pmu) | `machine` |
//!
//! `cargo run -p prof-sys --example NAME` runs them; a test does, too.
//!
//! What perf_event_open(2) says of old kernels: in 2.6.31 the call was named
//! `perf_counter_open`; this crate is for Linux 4.9 and newer. The C library
//! has no wrapper, so the call is made by its number.
//!
//! Of hardware events, for who compares counts: an event that is exclusive or
//! pinned is stopped by many things (the NMI watchdog, a hypervisor, another
//! profiler): `running` 0 says so. Sampling cycles aborts transactions (TSX)
//! that would have gone through. And counters have had errors on single CPUs:
//! check a count against a loop whose length is known.
//!
//! Limits: Linux only. The layouts are those of 64-bit and 32-bit machines
//! alike, but only 64-bit ones are tested.
#![expect(
    unsafe_code,
    reason = "the one crate that talks to the kernel; every block is justified where it stands"
)]

mod action;
mod aux_area;
pub mod breakpoint;
pub mod clock;
mod counts;
mod event;
mod group;
mod identity;
mod inherited;
mod ioctl;
#[cfg(test)]
#[cfg(target_pointer_width = "64")]
mod layouts;
pub mod limits;
mod mmap_page;
pub mod namespaces;
pub mod out_of_memory;
mod overflow;
mod own_events;
pub mod pmu;
mod poll;
pub mod process;
pub mod prompt;
mod random_choice;
mod ring;
mod self_counter;
pub mod settings;
pub mod shrunk;
pub mod signal;
mod spawn;
pub mod stack;
pub mod terminal;
#[cfg(test)]
mod testing;
mod traps;

pub use aux_area::{AuxArea, AuxError, AuxMode};
pub use counts::{Count, Counts, scaled};
pub use event::{Event, OpenError, OpenFlags, Target, kernel_attr_size};
pub use group::{Group, GroupError, GroupReading};
pub use identity::Identity;
pub use inherited::{Inherited, descriptor};
pub use ioctl::BpfPrograms;
pub use mmap_page::{Capabilities, PageState, TimeConversion};
pub use own_events::{disable_own_events, enable_own_events};
pub use poll::{PollSet, Waker, wait_writable};
pub use random_choice::{AskedFor, RandomChoice};
pub use ring::{Records, Ring, RingView};
pub use self_counter::{SelfCounter, SelfReading, Source};
pub use spawn::{ExecError, Launched, Surroundings, gives_capabilities};
pub use traps::{Trap, Traps};

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
