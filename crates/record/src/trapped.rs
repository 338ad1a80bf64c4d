//! What a watched address can do to the program that is watched.

use prof_sys::process::Ended;

/// A line for the user where a program whose addresses are watched (`mem:`) was
/// ended by SIGTRAP; `None` where it ended otherwise.
///
/// Under a hypervisor the processor's trap may come when the kernel has taken
/// the breakpoint off the CPU already; the kernel then takes it for one that
/// the program itself has set. Seen on Linux 6.18 under KVM, in a tenth of the
/// runs of a program with 1000 accesses, by plain perf_event_open(2) and with
/// perf as well; more often the more tasks share the CPU.
#[must_use]
pub fn trapped(ended: Option<Ended>) -> Option<&'static str> {
    (ended == Some(Ended::Signaled(libc::SIGTRAP))).then_some(
        "the program was ended by SIGTRAP: in virtual machines a watched address (mem:) can do \
         that to a program, with every profiler\n  try again: it ends so in some runs only, in \
         fewer where the CPUs are idle",
    )
}
