//! Probes as bpftrace and others write them, `uprobe:PATH:FUNCTION`: prof
//! records probes that somebody made, and says how to make one.

use super::EventError;

/// How a kind of probe is made.
struct Probe {
    /// Before the first colon.
    kind: &'static str,
    /// The letter by which tracefs knows it.
    letter: char,
    /// A function's name is made into the probe's with this behind it.
    suffix: &'static str,
    /// The file of tracefs that makes it, without `_events`; in the plural the
    /// system of its tracepoint.
    file: &'static str,
}

const PROBES: &[Probe] = &[
    Probe {
        kind: "kprobe",
        letter: 'p',
        suffix: "",
        file: "kprobe",
    },
    Probe {
        kind: "kretprobe",
        letter: 'r',
        suffix: "_return",
        file: "kprobe",
    },
    Probe {
        kind: "uprobe",
        letter: 'p',
        suffix: "",
        file: "uprobe",
    },
    Probe {
        kind: "uretprobe",
        letter: 'r',
        suffix: "_return",
        file: "uprobe",
    },
];

fn kind_of(event: &str) -> Option<(&'static Probe, &str)> {
    let (kind, place) = event.split_once(':')?;
    let probe = PROBES.iter().find(|probe| probe.kind == kind)?;
    Some((probe, place))
}

/// Whether the event is written as a probe.
pub(super) fn is_probe(event: &str) -> bool {
    kind_of(event).is_some()
}

/// How to have what `event` means, if it is written as a probe.
pub(super) fn explain(event: &str) -> Option<EventError> {
    let (probe, place) = kind_of(event)?;
    let Probe {
        letter,
        suffix,
        file,
        ..
    } = probe;
    // The kernel looks up its own functions, but none in files.
    let (function, place, note) = match place.split_once(':') {
        Some((path, function)) if *file == "uprobe" => (
            function,
            format!("{path}:0xOFFSET"),
            "\n  OFFSET is where the function begins in the file",
        ),
        Some((function, _)) => (function, function.to_owned(), ""),
        None => (place, place.to_owned(), ""),
    };
    let name: String = function
        .chars()
        .map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() => letter,
            _ => '_',
        })
        .collect();
    Some(EventError::Probe {
        event: event.to_owned(),
        cure: format!(
            "sudo sh -c 'echo \"{letter}:{name}{suffix} {place}\" >> /sys/kernel/tracing/{file}_events'\n  \
             then: sudo prof record -e {file}s:{name}{suffix} …{note}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::{explain, is_probe};

    #[test]
    fn a_probe_is_told_as_tracefs_makes_it() {
        let cure = |event: &str| explain(event).expect(event).to_string();
        let uprobe = cure("uprobe:/bin/app:ns::run");
        assert!(
            uprobe.contains("echo \"p:ns__run /bin/app:0xOFFSET\""),
            "{uprobe}"
        );
        assert!(uprobe.contains("-e uprobes:ns__run"), "{uprobe}");
        let kretprobe = cure("kretprobe:vfs_read");
        assert!(
            kretprobe.contains(
                "sudo sh -c 'echo \"r:vfs_read_return vfs_read\" >> /sys/kernel/tracing/kprobe_events'"
            ),
            "{kretprobe}"
        );
        assert!(
            kretprobe.contains("-e kprobes:vfs_read_return"),
            "{kretprobe}"
        );
        assert!(!kretprobe.contains("OFFSET"), "{kretprobe}");
        assert!(is_probe("uprobe:x") && !is_probe("uprobes:x") && !is_probe("cs"));
    }
}
