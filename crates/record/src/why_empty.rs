//! Why a recording has no samples, and what helps.

use crate::control::EndedBy;
use crate::open::OpenSet;
use crate::options::{Options, Start, Target};
use crate::program_file;
use crate::setup::list_of;
use crate::summary::Summary;
use prof_abi::{EventAttr, Software, event_kind};
use prof_sys::gives_capabilities;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// A line for the user, of a recording without samples that ended so.
pub(crate) fn why_empty(
    options: &Options,
    set: &OpenSet,
    summary: &Summary,
    ended_by: EndedBy,
) -> String {
    if options.no_samples {
        return "no samples, as asked (-n): tasks and mappings are recorded".to_owned();
    }
    let elapsed = summary.elapsed;
    let count = set.count_of(0);
    if let Some(why) = why_off(&options.start, count, elapsed) {
        return why;
    }
    if let (EndedBy::Writer, Some(most)) = (ended_by, options.max_size) {
        return format!(
            "no samples: what stands before the first took the {most} bytes that the file may \
             have\n  try: a larger --max-size"
        );
    }
    if let Target::Command(command) = &options.target
        && let Some(program) = command.first()
        && let Some(how) = gains_rights(program)
    {
        return format!(
            "no samples: {} {how}, and the kernel takes the events of such programs away\n  \
             try: sudo prof record -a -- {0} …",
            program.display()
        );
    }
    let planned = &set.events[0].planned;
    let ended = summary.tally.ended_tasks;
    if summary.unseen_short_tasks().is_some() {
        let or_kernel = match summary.due_has_kernel {
            true => " or ran in the kernel",
            false => "",
        };
        return format!(
            "no samples: of {ended} tasks that ended each lived shorter than a sampling \
             period{or_kernel}\n  try: as root, or a higher -F"
        );
    }
    let who = match options.target {
        Target::Command(_) => "the command",
        Target::Processes(_) | Target::Threads(_) => "what was recorded",
        Target::System => "this machine",
    };
    // Of what ran elsewhere the event knows nothing.
    let who = match &planned.cpus {
        Some(cpus) => format!("on CPU {} {who}", list_of(cpus)),
        None => who.to_owned(),
    };
    why_rare(&planned.name, &planned.attr, count, (&who, elapsed))
}

/// That events which counted `count` were not on at any time of a recording of
/// this length.
fn why_off(start: &Start, count: u64, elapsed: Duration) -> Option<String> {
    if count != 0 {
        return None;
    }
    let seconds = elapsed.as_secs_f64();
    let first = match start {
        Start::AtOnce => return None,
        Start::OnCommand => {
            return Some(format!(
                "no samples: nothing switched the events on in {seconds:.1} s (-D -1)\n  \
                 try: --control, and its command enable"
            ));
        }
        Start::After(delay) => *delay,
        Start::Windows(windows) => windows.first()?.0,
    };
    (elapsed < first).then(|| {
        format!(
            "no samples: the recording ended after {seconds:.1} s, and events were to be \
             switched on after {:.1} s (-D)\n  try: a smaller -D",
            first.as_secs_f64()
        )
    })
}

/// What an event that counted `count` lacked for a sample.
fn why_rare(name: &str, attr: &EventAttr, count: u64, (who, elapsed): (&str, Duration)) -> String {
    let seconds = elapsed.as_secs_f64();
    if attr.is_freq() && attr.sample_period == 0 {
        return format!("no samples: {name} has a rate of 0\n  try: freq=99");
    }
    let is_clock = attr.kind == event_kind::SOFTWARE
        && [Software::CPU_CLOCK.0, Software::TASK_CLOCK.0].contains(&attr.config);
    let due = match (attr.is_freq(), is_clock) {
        (true, true) => format!("{:.3} ms", 1e3 / attr.sample_period.max(1) as f64),
        (true, false) => format!("{} Hz", attr.sample_period),
        (false, true) => format!("{:.3} ms", attr.sample_period as f64 / 1e6),
        (false, false) => attr.sample_period.to_string(),
    };
    let due_ns = match attr.is_freq() {
        true => 1_000_000_000 / attr.sample_period.max(1),
        false => attr.sample_period,
    };
    match (count, is_clock) {
        (0, true) => format!(
            "no samples: {who} used no CPU in {seconds:.1} s, and {name} samples only what runs"
        ),
        // What was used before the program began is in it, and that of all tasks.
        (ns, true) if ns >= due_ns => format!(
            "no samples: {who} used {:.3} ms of CPU in all, and a sample of a task is due after \
             {due} of its own\n  try: a longer recording, or a higher -F",
            ns as f64 / 1e6
        ),
        (ns, true) => format!(
            "no samples: {who} used {:.3} ms of CPU, and a sample is due after {due} of it\n  \
             try: a longer recording, or a higher -F",
            ns as f64 / 1e6
        ),
        (0, false) => format!("no samples: {name} did not occur in {seconds:.1} s"),
        (count, false) => {
            format!("no samples: {name} occurred {count} times, too rarely for {due}\n  try: -c 1")
        }
    }
}

/// How the program gets rights at its start that this process lacks.
fn gains_rights(program: &OsStr) -> Option<&'static str> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    let path = program_file::look_up(program).ok()?;
    let file = fs::metadata(&path).ok()?;
    // Its owner is the effective user.
    let own = fs::metadata("/proc/self").ok()?;
    let is_unreadable =
        || File::open(&path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    if file.mode() & SET_USER != 0 && file.uid() != own.uid() {
        Some("is set-user-ID")
    } else if file.mode() & SET_GROUP != 0 && file.gid() != own.gid() {
        Some("is set-group-ID")
    } else if own.uid() != 0 && gives_capabilities(&path) {
        Some("has capabilities")
    } else if is_unreadable() {
        Some("may not be read by this user")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{why_off, why_rare};
    use crate::options::Start;
    use prof_abi::{AttrFlags, EventAttr};
    use std::time::Duration;

    #[test]
    fn events_that_were_never_on_are_the_cause() {
        let seconds = Duration::from_secs;
        let window = Start::Windows(vec![(seconds(5), seconds(6))]);
        let of = |start: &Start, count, elapsed| why_off(start, count, seconds(elapsed));
        for (start, words) in [
            (Start::OnCommand, "nothing switched the events on in 2.0 s"),
            (Start::After(seconds(5)), "switched on after 5.0 s"),
            (window.clone(), "switched on after 5.0 s"),
        ] {
            let told = of(&start, 0, 2);
            assert!(
                told.as_ref().is_some_and(|it| it.contains(words)),
                "{told:?}"
            );
            assert_eq!(of(&start, 1, 2), None);
        }
        assert_eq!(of(&window, 0, 7), None);
        assert_eq!(of(&Start::AtOnce, 0, 2), None);
    }

    #[test]
    fn the_cause_fits_what_was_counted() {
        let clock = EventAttr {
            kind: 1,
            sample_period: 1000,
            flags: AttrFlags::FREQ,
            ..EventAttr::default()
        };
        let faults = EventAttr {
            kind: 1,
            config: 2,
            sample_period: 50,
            ..EventAttr::default()
        };
        let never = EventAttr {
            sample_period: 0,
            ..clock.clone()
        };
        let why = |attr, count| why_rare("it", attr, count, ("pid 7", Duration::from_secs(2)));
        for (attr, count, words) in [
            (&clock, 0, "pid 7 used no CPU in 2.0 s"),
            (
                &clock,
                300_000,
                "used 0.300 ms of CPU, and a sample is due after 1.000 ms",
            ),
            (
                &clock,
                3_000_000,
                "used 3.000 ms of CPU in all, and a sample of a task is due after 1.000 ms of its",
            ),
            (&never, 3_000_000, "it has a rate of 0\n  try: freq=99"),
            (&faults, 0, "it did not occur in 2.0 s"),
            (
                &faults,
                49,
                "occurred 49 times, too rarely for 50\n  try: -c 1",
            ),
        ] {
            let text = why(attr, count);
            assert!(text.contains(words), "{text}");
        }
    }
}
