//! All events of the calling process at once (prctl(2)).

use std::io;

/// Starts every event that the calling thread opened and that leads a group or
/// is alone (`PR_TASK_PERF_EVENTS_ENABLE`), whomever it counts. What others
/// opened to watch this task is not touched, whatever older texts say.
///
/// Fails only where the kernel has no perf events (`EINVAL`).
pub fn enable_own_events() -> io::Result<()> {
    control(libc::PR_TASK_PERF_EVENTS_ENABLE)
}

/// Stops every event that the calling thread opened, likewise
/// (`PR_TASK_PERF_EVENTS_DISABLE`); for a section that shall not be counted.
pub fn disable_own_events() -> io::Result<()> {
    control(libc::PR_TASK_PERF_EVENTS_DISABLE)
}

fn control(option: libc::c_int) -> io::Result<()> {
    // SAFETY: these options take no further argument.
    crate::checked(unsafe { libc::prctl(option, 0, 0, 0, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{disable_own_events, enable_own_events};
    use crate::event::{Event, Target};
    use crate::testing::{page_faults, permitted, touch};
    use prof_abi::ReadFormat;

    #[test]
    fn prc_01_own_events_stop_and_start_those_of_others_go_on() {
        // covers live: PRC-01
        if !permitted() {
            return;
        }
        let value = |event: &Event| event.read_counts(ReadFormat(0)).expect("read").values[0].value;
        let own = Event::open(&page_faults(), Target::THIS, None).expect("an event");
        // SAFETY: takes nothing and cannot fail.
        let tid = unsafe { libc::gettid() };
        let target = Target::Task {
            tid: tid.unsigned_abs(),
            cpu: None,
        };
        let others = std::thread::scope(|scope| {
            let open = || Event::open(&page_faults(), target, None).expect("a thread of ours");
            scope.spawn(open).join().expect("no panic")
        });
        disable_own_events().expect("prctl");
        let (before, others_before) = (value(&own), value(&others));
        touch(100);
        assert_eq!(value(&own), before);
        assert_eq!(value(&others), others_before + 100, "not ours to stop");
        enable_own_events().expect("prctl");
        touch(100);
        assert!(value(&own) >= before + 100);
    }
}
