//! What is known of the machine and the recording, in perf's words.

use crate::escape;
use prof_profile::Profile;
use std::fmt::Write;

/// The lines of `--header`: perf's names where perf has the thing; what is
/// not known is left out.
pub fn header(profile: &Profile) -> String {
    let origin = &profile.origin;
    let mut lines: Vec<(&str, String)> = vec![
        ("hostname", origin.hostname.clone()),
        ("os release", origin.os_release.clone()),
        ("perf version", origin.tool_version.clone()),
        ("arch", origin.arch.clone()),
    ];
    if let Some((online, available)) = origin.cpus {
        lines.push(("nrcpus online", online.to_string()));
        lines.push(("nrcpus avail", available.to_string()));
    }
    lines.push(("cpudesc", origin.cpu_description.clone()));
    lines.push(("cpuid", origin.cpu_id.clone()));
    if let Some(memory) = origin.total_memory_kb {
        lines.push(("total memory", format!("{memory} kB")));
    }
    lines.push(("cmdline", origin.command_line.join(" ")));
    for event in &profile.events {
        let asked = if event.is_freq {
            format!("{} Hz", event.asked)
        } else {
            format!("every {}", event.asked)
        };
        lines.push(("event", format!("name = {}, asked = {asked}", event.name)));
    }
    if let Some((first, last)) = origin.time_range {
        lines.push(("time of first sample", seconds(first)));
        lines.push(("time of last sample", seconds(last)));
        let milliseconds = last.saturating_sub(first) as f64 / 1e6;
        lines.push(("sample duration", format!("{milliseconds:10.3} ms")));
    }
    let mut out = String::from("# ========\n");
    for (name, value) in lines.iter().filter(|(_, value)| !value.trim().is_empty()) {
        let _ = writeln!(out, "# {name} : {}", escape::terminal(value));
    }
    out.push_str("# ========\n#\n");
    out
}

fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}
