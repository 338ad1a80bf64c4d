//! From what the user writes after `-e` to event attributes.

mod breakpoint;
mod error;
mod filter;
mod grammar;
mod modifiers;
pub(crate) mod names;
mod no_probe;
pub(crate) mod pmu;
mod probe;
mod programs;
mod spec;
mod spelling;
mod terms;
mod tool;
mod tracepoint;
mod tracer;

use prof_abi::{AttrFlags, EventAttr, Software, event_kind};
use prof_sys::process::effective_user;

pub use error::EventError;
pub use filter::NoFilter;
pub use grammar::{parse, parse_for};
pub use names::distance;
pub use no_probe::NoProbe;
pub use programs::Programs;
pub(crate) use spec::breaks_into_kernel;
pub use spec::{ChainTerm, EventSpec, Modes, Precision, Rate};
pub use tool::Tool;
pub use tracer::Tracer;

/// The name of an event of which only the user part could be had: `u` with its
/// letters, as perf puts it.
pub(crate) fn narrowed(name: &str) -> String {
    user_space(name).unwrap_or_else(|| format!("{name}:u"))
}

/// The event for user space only, as `-e` takes it; `None` for a name that was
/// given to it (`name=`), which says nothing.
pub(crate) fn user_space(name: &str) -> Option<String> {
    let (event, letters) = grammar::split_letters(name);
    let others: String = letters
        .chars()
        .filter(|letter| !"ukh".contains(*letter))
        .collect();
    let narrowed = match event {
        event if event.ends_with('/') => format!("{event}{others}u"),
        event => format!("{event}:{others}u"),
    };
    let specs = parse(&narrowed, 0).ok()?;
    let is_of_user = |spec: &EventSpec| spec.attr.flags.has(AttrFlags::EXCLUDE_KERNEL);
    specs.iter().all(is_of_user).then_some(narrowed)
}

/// Whether an event shares a group with a probe. The kernel hands no probe on to
/// threads and children, and takes no group of which it hands on a part.
pub(crate) fn is_beside_probe(specs: &[EventSpec], spec: &EventSpec) -> bool {
    let is_one = |other: &EventSpec| other.group == spec.group && !other.may_be_inherited();
    spec.group.is_some() && specs.iter().any(is_one)
}

/// The message that threads and children ran that a probe is not set in, or what
/// shares a group with one.
pub fn missed_by_probe(event: &str) -> String {
    format!(
        "{event}: not seen in threads and children that started later, since the kernel hands \
         no probe on to them, nor its group\n  try: -a, for all that runs this code"
    )
}

/// What users should know of a probe that follows children by whole CPUs.
pub(crate) fn of_all_that_runs(event: &str) -> String {
    format!(
        "{event}: set in every process that has this code, since the kernel hands no probe on to \
         threads and children; what others hit is dropped, and costs them time (programs that hit \
         probes of libc were seen to crash on Linux 6.18)\n  \
         try: without --follow cpus, for threads that are there at the start only"
    )
}

/// Takes weak groups (`:W`) apart; `false` if there are none.
pub(crate) fn break_up(specs: &mut [EventSpec]) -> bool {
    let mut any = false;
    let is_weak = |spec: &&mut EventSpec| spec.weak && spec.group.is_some();
    for spec in specs.iter_mut().filter(is_weak) {
        spec.group = None;
        spec.group_name = None;
        spec.leader_samples = false;
        any = true;
    }
    any
}

/// Whether this refusal of a member may come from its group, as perf sees it.
pub(crate) fn is_of_a_group(errno: i32) -> bool {
    matches!(errno, libc::EINVAL | libc::EBADF)
}

/// The fields that a filter of a tracepoint may name, for messages; empty for
/// other events.
pub(crate) fn fields_of(attr: &EventAttr) -> String {
    match attr.kind {
        event_kind::TRACEPOINT => tracepoint::fields(attr.config).join(", "),
        _ => String::new(),
    }
}

/// Whether an event never occurs where it looks: in the kernel, which it leaves
/// out.
pub(crate) fn is_blind(attr: &EventAttr, in_kernel_only: bool) -> bool {
    const KERNEL_ONLY: [Software; 3] = [
        Software::CONTEXT_SWITCHES,
        Software::CPU_MIGRATIONS,
        Software::CGROUP_SWITCHES,
    ];
    let is_software =
        attr.kind == event_kind::SOFTWARE && KERNEL_ONLY.contains(&Software(attr.config));
    (is_software || in_kernel_only) && attr.flags.has(AttrFlags::EXCLUDE_KERNEL)
}

/// The message that tells the user that events are never counted, because they
/// occur in the kernel only. `lack` is what they are not (`not sampled`);
/// `asked` says whether the user excluded the kernel.
pub fn of_the_kernel_only(names: &[String], lack: &str, asked: bool) -> String {
    let cure = match (asked, effective_user()) {
        (true, _) => "without :u and --all-user",
        // Root to whom the kernel is hidden is that of a user namespace.
        (false, 0) => {
            "outside of this container or user namespace: sysctl kernel.perf_event_paranoid=1"
        }
        (false, _) => "with sudo, or: sudo sysctl kernel.perf_event_paranoid=1",
    };
    let (occurs, are) = match names.len() {
        1 => ("it occurs", "is"),
        _ => ("they occur", "are"),
    };
    let names = names.join(", ");
    format!("{names} {are} {lack}: {occurs} in the kernel only, which is left out\n  try: {cure}")
}

#[cfg(test)]
mod tests {
    use super::{narrowed, user_space};

    #[test]
    fn the_part_in_user_space_can_be_asked_for() {
        for (event, expected) in [
            ("cycles", "cycles:u"),
            ("cpu-clock:k", "cpu-clock:u"),
            ("cycles:ukpp", "cycles:ppu"),
            ("cpu-clock/freq=99/", "cpu-clock/freq=99/u"),
            ("cpu-clock/freq=99/Hk", "cpu-clock/freq=99/Hu"),
            ("mem:0x1000", "mem:0x1000:u"),
            ("mem:0x1000/4:w", "mem:0x1000/4:w:u"),
            ("mem:0x1000/4:w:k", "mem:0x1000/4:w:u"),
        ] {
            assert_eq!(user_space(event).as_deref(), Some(expected));
            assert_eq!(narrowed(event), expected);
        }
        assert_eq!(user_space("my-own-name"), None);
        assert_eq!(narrowed("my-own-name"), "my-own-name:u");
    }
}
