//! How far the numbers can be trusted, in words.
//!
//! Every view carries these lines: what was lost, cut short or has no name,
//! why, and one thing to do about it.

mod figures;
mod run_time_code;

use crate::escape;
use figures::seen;
pub use figures::{Figure, summary, summary_within};
use prof_profile::{
    ChainEnd, ChainSource, DsoId, DsoKind, Event, JitFileFault, Profile, Trust, UnnamedReason,
    several, were,
};
use serde::Serialize;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// One reason why the numbers of a view are incomplete or uncertain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Caveat {
    /// What is wrong, with its count.
    pub what: String,
    /// Why.
    pub cause: String,
    /// One thing to do about it; empty if there is none.
    pub cure: String,
    /// The share of stacks or frames that it is about, percent.
    #[serde(skip)]
    share: Option<f64>,
}

/// Parts of dsos named in one line.
const NAMED_DSOS: usize = 3;

/// Caveats about a smaller share, in percent, are named in one line together.
const LEAST_OF_ITS_OWN: f64 = 1.0;

/// The whole account of a recording's reliability, as lines of text: first the
/// counts, then one line for each caveat, then one for all caveats about less
/// than a hundredth. Safe for a terminal.
pub fn lines(profile: &Profile) -> Vec<String> {
    let is_small = |caveat: &Caveat| caveat.share.is_some_and(|share| share < LEAST_OF_ITS_OWN);
    let (small, own): (Vec<Caveat>, Vec<Caveat>) = caveats(profile).into_iter().partition(is_small);
    let mut lines = vec![summary(profile)];
    // One alone takes no more room than a line about it.
    let (small, last) = match small.len() {
        1 => (Vec::new(), small),
        _ => (small, Vec::new()),
    };
    for caveat in own.iter().chain(&last) {
        let mut line = format!("{}: {}", caveat.what, caveat.cause);
        if !caveat.cure.is_empty() {
            let _ = write!(line, "; {}", caveat.cure);
        }
        lines.push(escape::terminal(&line).into_owned());
    }
    if !small.is_empty() {
        let each = small
            .iter()
            .map(|caveat| format!("{} ({})", caveat.what, caveat.cause));
        let each: Vec<String> = each.collect();
        lines.push(escape::terminal(&each.join("; ")).into_owned());
    }
    lines
}

/// [`lines`], none longer than `width` columns; what goes on in the next line
/// is indented there.
pub(crate) fn lines_within(profile: &Profile, width: usize) -> Vec<String> {
    let width = width.max(NARROWEST);
    lines(profile)
        .iter()
        .flat_map(|line| wrapped(line, width))
        .collect()
}

/// [`summary`] in lines of at most `width` characters, as far as words are no
/// longer.
pub(crate) fn summary_lines(profile: &Profile, width: usize) -> Vec<String> {
    wrapped(&summary(profile), width.max(NARROWEST))
}

/// Narrower lines are not made.
const NARROWEST: usize = 20;

/// Wraps a line at spaces to at most this width; continuation lines are
/// indented. Longer words are not broken.
pub fn wrapped(line: &str, width: usize) -> Vec<String> {
    const INDENT: &str = "  ";
    let mut lines = Vec::new();
    let mut now = String::new();
    for word in line.split(' ') {
        let needed = now.width() + 1 + word.width();
        if now.trim_start().is_empty() {
            now.push_str(word);
        } else if needed > width {
            lines.push(std::mem::replace(&mut now, format!("{INDENT}{word}")));
        } else {
            now.push(' ');
            now.push_str(word);
        }
    }
    lines.push(now);
    lines
}

fn share(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Share in percent, never rounded up to 100 or down to 0.
fn percent(part: u64, whole: u64) -> String {
    let share = share(part, whole);
    if part == whole {
        "100 %".into()
    } else if share > 99.9 {
        "99.9 %".into()
    } else if part > 0 && share < 0.1 {
        "0.1 %".into()
    } else {
        format!("{share:.1} %")
    }
}

/// Everything that makes the numbers incomplete or uncertain: damage and loss
/// first, then stacks and frames, the largest share first.
pub fn caveats(profile: &Profile) -> Vec<Caveat> {
    let trust = &profile.trust;
    let mut caveats = Vec::new();
    damages(trust, &mut caveats);
    losses(profile, &mut caveats);
    saturated(profile, &mut caveats);
    let mut shares = Vec::new();
    cut_stacks(profile, &mut shares);
    unnamed_frames(profile, &mut shares);
    let share = |caveat: &Caveat| caveat.share.unwrap_or(0.0);
    shares.sort_by(|a, b| share(b).total_cmp(&share(a)));
    caveats.extend(shares);
    for note in &trust.notes {
        caveats.push(Caveat {
            what: times(note.count),
            cause: note.what.clone(),
            cure: String::new(),
            share: None,
        });
    }
    caveats
}

fn times(count: u64) -> String {
    if count == 1 {
        "once".into()
    } else {
        format!("{count} times")
    }
}

fn damages(trust: &Trust, caveats: &mut Vec<Caveat>) {
    if let Some(first) = trust.damages.first() {
        let bytes: u64 = trust
            .damages
            .iter()
            .fold(0, |sum, damage| sum.saturating_add(damage.bytes));
        caveats.push(Caveat {
            what: match trust.damages.len() {
                1 => "the file is damaged in one place".into(),
                places => format!("the file is damaged in {places} places"),
            },
            // It tells its own offset and bytes.
            cause: match trust.damages.len() {
                1 => first.what.clone(),
                _ => format!("first {}; {bytes} bytes were skipped in all", first.what),
            },
            cure: "record again, or copy the file again".into(),
            share: None,
        });
    }
}

/// What would take samples where none of these events did: a higher rate, or else what
/// samples all that runs.
pub fn ways_to_samples<'a>(mut events: impl Iterator<Item = &'a str>) -> &'static str {
    let is_clock = |name: &str| name.starts_with("cpu-clock") || name.starts_with("task-clock");
    match events.any(is_clock) {
        true => "prof record -F 9999 -g …",
        false => "prof record -F 9999 -g …   or: prof record -e cpu-clock -g …",
    }
}

/// The share of the CPU time that has no samples, if that is much: why, and what
/// would help; for whoever reads what has no trust line.
pub fn unseen_time(profile: &Profile) -> Option<String> {
    let Caveat {
        what, cause, cure, ..
    } = unseen(&profile.trust)?;
    Some(format!("{what}: {cause}\n  {cure}"))
}

/// What tasks took that were too short to be sampled.
fn unseen(trust: &Trust) -> Option<Caveat> {
    seen(trust)?;
    let came = trust.samples.saturating_add(trust.most_lost());
    Some(Caveat {
        what: format!(
            "{} of the CPU time has no samples",
            percent(trust.due - came, trust.due)
        ),
        cause: match trust.due_has_kernel {
            true => {
                "the kernel's part was not sampled, nor were tasks that lived shorter than a \
                     sampling period, or too seldom"
            }
            false => {
                "tasks that lived shorter than a sampling period were not sampled, or too \
                      seldom"
            }
        }
        .into(),
        cure: "record with --follow cpus (as root or with CAP_PERFMON), or at a higher rate (-F)"
            .into(),
        share: None,
    })
}

fn losses(profile: &Profile, caveats: &mut Vec<Caveat>) {
    const LATE: &str = "the recorder did not empty the ring buffers in time";
    const LARGER: &str = "record with larger buffers (-m 16M) or a lower rate (-F 99)";
    // Rings that the kernel overwrites are emptied when a file is due.
    const PAUSED: &str =
        "they came while the rings that the kernel overwrites stood still to be read";
    let trust = &profile.trust;
    let mut lossy = profile.events.iter().filter(|it| it.lost > 0).peekable();
    let is_paused = lossy.peek().is_some() && lossy.all(|it| it.is_overwritten);
    let late = if is_paused { PAUSED } else { LATE };
    let mut add = |what: String, cause: String| {
        let cure = if cause.starts_with(LATE) { LARGER } else { "" };
        caveats.push(Caveat {
            what,
            cause,
            cure: cure.into(),
            share: None,
        });
    };
    if trust.lost > 0 {
        let offered = trust.lost.saturating_add(trust.samples);
        let share = percent(trust.lost, offered);
        let beside = match trust.side_band_may_be_lost {
            true => "; mappings, names and tasks may be among them, then names and stacks suffer",
            false => "",
        };
        add(
            format!("{} ({share}) {} lost", trust.lost, were(trust.lost)),
            format!("{late}{beside}"),
        );
    }
    if trust.lost_records > 0 {
        add(
            format!(
                "up to {} {} lost",
                several(trust.lost_records, "record"),
                were(trust.lost_records)
            ),
            format!("{late}; the recording does not tell how many of them were samples"),
        );
    }
    if trust.lost_side_band > 0 {
        add(
            format!(
                "{} of mappings, names and tasks {} lost",
                several(trust.lost_side_band, "record"),
                were(trust.lost_side_band)
            ),
            format!("{LATE}; names and stacks of what began then are wrong or missing"),
        );
    }
    caveats.extend(unseen(trust));
    caveats.extend(throttled(trust));
}

/// How often the kernel stopped sampling, for the CPU time that it took.
fn throttled(trust: &Trust) -> Option<Caveat> {
    (trust.throttled > 0).then(|| Caveat {
        what: format!("throttled {}", times(trust.throttled)),
        cause: "the kernel stopped sampling because it took too much CPU time".into(),
        cure: "record at a lower rate, or raise kernel.perf_cpu_time_max_percent".into(),
        share: None,
    })
}

/// Sums of periods end at 2^64 - 1; no real event counts so far.
fn saturated(profile: &Profile, caveats: &mut Vec<Caveat>) {
    for event in profile
        .events
        .iter()
        .filter(|event| event.period == u64::MAX)
    {
        caveats.push(Caveat {
            what: format!("the periods of {} sum past 2^64", event.name),
            cause: "its totals and shares are not right".into(),
            cure: "prof report -n shows the number of samples".into(),
            share: None,
        });
    }
}

fn cut_stacks(profile: &Profile, caveats: &mut Vec<Caveat>) {
    let trust = &profile.trust;
    let (judged, _) = trust.rooted();
    let mut ends: Vec<(ChainEnd, u64)> = trust
        .chain_ends
        .iter()
        .map(|(&end, &count)| (end, count))
        .filter(|&(end, count)| end != ChainEnd::Root && count > 0)
        .collect();
    ends.sort_by_key(|&(end, count)| (std::cmp::Reverse(count), end));
    for (end, count) in ends {
        // Nobody can build code anew that a program makes while it runs.
        let is_bare = matches!(end, ChainEnd::NoUnwindInfo | ChainEnd::BrokenFramePointers);
        let jit = trust.unrooted_jit.get(&end).copied();
        let jit = jit.filter(|_| is_bare).unwrap_or(0).min(count);
        for (is_jit, count) in [(true, jit), (false, count - jit)] {
            if count == 0 {
                continue;
            }
            let (cause, cure) = match chain_end(end, trust.chain_source) {
                _ if is_jit => (MADE_AT_RUN_TIME, run_time_code::whole_stacks(profile)),
                (cause, LARGER_PIECE) => (cause, more_of_each_stack(profile).into()),
                (cause, _) if end == ChainEnd::RecorderLate => (cause, lower_rate(profile).into()),
                (cause, cure) => (cause, cure.into()),
            };
            let is_of_these = |dso: DsoId| match profile.dso(dso).kind {
                DsoKind::Jit => is_jit || !is_bare,
                _ => !is_jit,
            };
            let dsos = trust
                .unrooted_by_dso
                .iter()
                .filter(|((dso, reason), _)| *reason == end && is_of_these(*dso))
                .map(|(&(dso, _), &count)| (dso, count));
            caveats.push(Caveat {
                what: format!("{} of user stacks are cut short", percent(count, judged)),
                cause: format!("{cause}{}", in_dsos(profile, dsos)),
                cure,
                share: Some(share(count, judged)),
            });
        }
    }
}

/// Cause of a stack that ends in code without a file.
const MADE_AT_RUN_TIME: &str = "the code was made at run time, without unwind information";

/// The cure for stacks that are longer than their copied piece: it is the larger
/// the lower the rate is, and what is beyond it is read sooner. The same rate says
/// how large the pieces of waits are, which have none of their own. (Of waits and
/// samples at 4000 Hz no fewer stacks were cut with the largest piece, and fewer at
/// 999 Hz: a handful of thousands each.)
fn more_of_each_stack(profile: &Profile) -> &'static str {
    // Options may be cut short where it is clear which is meant.
    let mut options = profile.origin.command_line.iter();
    if options.any(|option| option.starts_with("--no-deep")) {
        return "record without --no-deep-stacks";
    }
    let own_rate = |event: &&Event| event.asked > 0 && !event.is_off_cpu;
    let (by_rate, by_period): (Vec<_>, Vec<_>) = profile
        .events
        .iter()
        .filter(own_rate)
        .partition(|event| event.is_freq);
    match by_rate.iter().map(|event| event.asked).max() {
        Some(hz) if hz > HIGHEST_WITH_MOST => "record at a lower rate (-F 999)",
        None if !by_period.is_empty() => LARGER_PIECE,
        Some(_) | None => lower_rate(profile),
    }
}

/// Where nothing that is known makes it better.
const NO_CURE: &str = "";

/// The cure by the lowest rate; none where that was asked for. Waits have no rate: of
/// those that were chosen by chance the stack is read later than it is with all.
fn lower_rate(profile: &Profile) -> &'static str {
    let has_waits = profile.events.iter().any(|event| event.is_off_cpu);
    let mut words = profile.origin.command_line.iter();
    let takes_all = words.any(|word| word.starts_with("--off-cpu-stacks"));
    if has_waits && !takes_all {
        return "record waits with --off-cpu-stacks all, which takes more of the program's time";
    }
    let own_rates = profile.events.iter().filter(|event| !event.is_off_cpu);
    let mut rates = own_rates.map(|event| (event.asked, event.is_freq));
    match rates.any(|(asked, is_freq)| asked > 99 || !is_freq) {
        true => "record at a lower rate (-F 99)",
        false => NO_CURE,
    }
}

fn unnamed_frames(profile: &Profile, caveats: &mut Vec<Caveat>) {
    let trust = &profile.trust;
    let is_kernel = |dso: DsoId| profile.dso(dso).kind == DsoKind::Kernel;
    let mut reasons: Vec<((UnnamedReason, bool), u64)> = Vec::new();
    for (&(dso, reason), &count) in &trust.unnamed {
        let kind = (reason, is_kernel(dso));
        match reasons.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => reasons.push((kind, count)),
        }
    }
    reasons.sort_by_key(|&(reason, count)| (std::cmp::Reverse(count), reason));
    for ((reason, in_kernel), count) in reasons {
        let (cause, cure) = match (reason, trust.chain_source) {
            // That is how they were recorded.
            (UnnamedReason::NoMapping, ChainSource::Recorder) => (unnamed(reason).0, ""),
            (UnnamedReason::FileMissing, _) if in_kernel => NO_KERNEL,
            _ => unnamed(reason),
        };
        let of_runtime = match reason {
            UnnamedReason::NoPerfMap => run_time_code::named_functions(profile),
            _ => None,
        };
        let dsos = trust
            .unnamed
            .iter()
            .filter(|((dso, other), _)| *other == reason && is_kernel(*dso) == in_kernel)
            .map(|(&(dso, _), &count)| (dso, count));
        caveats.push(Caveat {
            what: format!("{} of frames have no name", percent(count, trust.frames)),
            cause: format!("{cause}{}", in_dsos(profile, dsos)),
            cure: of_runtime.unwrap_or_else(|| cure.into()),
            share: Some(share(count, trust.frames)),
        });
    }
}

/// ` (libc.so.6 12, app 3, 2 more)`, most first.
fn in_dsos(profile: &Profile, dsos: impl Iterator<Item = (DsoId, u64)>) -> String {
    let mut dsos: Vec<(DsoId, u64)> = dsos.collect();
    dsos.sort_by_key(|&(dso, count)| (std::cmp::Reverse(count), dso));
    let mut named: Vec<String> = dsos
        .iter()
        .take(NAMED_DSOS)
        .map(|&(dso, count)| format!("{} {count}", profile.name(profile.dso(dso).short_name)))
        .collect();
    if dsos.len() > NAMED_DSOS {
        named.push(format!("{} more", dsos.len() - NAMED_DSOS));
    }
    if named.is_empty() {
        String::new()
    } else {
        format!(" ({})", named.join(", "))
    }
}

/// Up to this rate `-g` copies the most that a sample can hold, Hz.
const HIGHEST_WITH_MOST: u64 = 1000;
const LARGER_PIECE: &str = "record with a larger piece (--call-graph auto,65528)";

/// Cause and cure of a stack that does not reach its thread's start.
pub(crate) fn chain_end(end: ChainEnd, source: ChainSource) -> (&'static str, &'static str) {
    match (end, source) {
        (ChainEnd::StackCut, ChainSource::Recorder) => (
            "the stack is longer than the piece that was copied, and the rest could not be read",
            LARGER_PIECE,
        ),
        (ChainEnd::Unproven, ChainSource::Recorder) => (
            "the stack is longer than the piece that was copied, and the rest had changed when it \
             was read",
            LARGER_PIECE,
        ),
        (ChainEnd::FileMissing, ChainSource::Recorder) => (
            "the recorder could not open the dso's file",
            "record as a user who can, and with enough descriptors (ulimit -n)",
        ),
        (ChainEnd::BrokenFramePointers, ChainSource::Unfinished) => (
            "the recorder did not finish the file, at whose end it tells why",
            "",
        ),
        (ChainEnd::BrokenFramePointers | ChainEnd::DepthLimit, ChainSource::Injected) => (
            "why is not known: perf inject leaves out what a recorder tells of that",
            "look at the recording that it was made of, or use prof inject",
        ),
        _ => chain_end_of_any(end),
    }
}

fn chain_end_of_any(end: ChainEnd) -> (&'static str, &'static str) {
    match end {
        ChainEnd::Root => ("complete", ""),
        ChainEnd::BrokenFramePointers => (
            "the code was built without frame pointers",
            "record with --call-graph auto, or build with -fno-omit-frame-pointer",
        ),
        ChainEnd::StackCut => (
            "the stack is longer than the piece that was copied",
            "record with --call-graph auto, or a larger piece (--call-graph dwarf,65528)",
        ),
        ChainEnd::RecorderLate => (
            "samples came faster than they were unwound, so that only the copied piece was",
            "record at a lower rate (-F 99)",
        ),
        ChainEnd::DepthLimit => (
            "the chain is as long as the kernel allows",
            "raise kernel.perf_event_max_stack",
        ),
        ChainEnd::NoUnwindInfo => (
            "the dso has no unwind information",
            "build it with -fasynchronous-unwind-tables or frame pointers",
        ),
        ChainEnd::FileMissing => (
            "the dso's file could not be read",
            "look at the recording where it was made",
        ),
        ChainEnd::BadUnwindInfo => ("the dso's unwind information is wrong", "rebuild the dso"),
        ChainEnd::Unproven => (
            "what was found as the caller may be wrong, so it is left out",
            "",
        ),
        ChainEnd::OtherStack => (
            "C code that Go called, or Go's runtime, is on a stack of its own, and its callers' had \
             changed when it was read",
            "build C code with frame pointers (CGO_CFLAGS=\"-O2 -g -fno-omit-frame-pointer\")",
        ),
        ChainEnd::NotRecorded => ("no user stack was recorded", "record with -g"),
        _ => ("the reason is not known to this version", ""),
    }
}

/// Cause and cure where the kernel's symbols are those of another one.
const NO_KERNEL: (&str, &str) = (
    "the symbols of the recorded kernel were not found",
    "look at the recording where it was made, or name its symbols (-k VMLINUX or --kallsyms FILE)",
);

/// Cause and cure of a frame that has no name.
pub fn unnamed(reason: UnnamedReason) -> (&'static str, &'static str) {
    match reason {
        UnnamedReason::NoMapping => (
            "no file was mapped at their address",
            "broken stacks hold such addresses: record with --call-graph auto",
        ),
        UnnamedReason::FileMissing => (
            "the file is gone",
            "look at the recording where it was made, before the file changes, or name its root (--symfs DIR)",
        ),
        UnnamedReason::FileDenied => ("the file may not be read", "run as its owner or root"),
        UnnamedReason::BuildIdMismatch => (
            "the file was replaced by another build",
            "record again, or install the symbols of that build",
        ),
        UnnamedReason::FileDamaged => (
            "the file is not readable as ELF",
            "a runtime's own image (sbcl.core) has no names, and .NET's libraries have them with \
             DOTNET_ReadyToRun=0 DOTNET_PerfMapEnabled=1; a program is to be installed again",
        ),
        UnnamedReason::NoSymbolThere => (
            "the file has no symbol at their address",
            "install its debug symbols",
        ),
        UnnamedReason::Stripped => ("the file is stripped", "install its debug symbols"),
        UnnamedReason::KernelHidden => (
            "the kernel hides its addresses",
            "sudo sysctl kernel.kptr_restrict=0, then record again",
        ),
        UnnamedReason::NoPerfMap => (
            "the code was made at run time, and no list of its functions was found",
            "let the runtime write a perf map or jitdump (node --perf-basic-prof, deno \
             --v8-flags=--perf-basic-prof, BUN_JSC_useJITDump=1 bun, erl +JPperf true, mono \
             --jitmap, DOTNET_PerfMapEnabled=1 dotnet, java -XX:+UnlockDiagnosticVMOptions \
             -XX:+DumpPerfMapAtExit) or tell debuggers (php -d opcache.jit_debug=256)",
        ),
        UnnamedReason::NotInPerfMap => (
            "code made at run time that its perf map or jitdump does not name",
            "let the runtime write the map at its end \
             (java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit)",
        ),
        UnnamedReason::PerfMapRefused(fault) => jit_file_fault(fault),
        UnnamedReason::NotReadInTime => (
            "what Python ran there could not be read while it did, py::(unknown)",
            "",
        ),
        _ => ("the reason is not known to this version", ""),
    }
}

/// Cause and cure of a perf map or jitdump that was not used.
fn jit_file_fault(fault: JitFileFault) -> (&'static str, &'static str) {
    match fault {
        JitFileFault::OtherOwner => (
            "their perf map or jitdump belongs to another user than you and root, and nothing says \
             that the process was his",
            "record with -g, which notes that, or sudo chown root /tmp/perf-PID.map",
        ),
        JitFileFault::Writable => (
            "others than its owner can write to their perf map or jitdump",
            "chmod go-w /tmp/perf-PID.map, if you trust it",
        ),
        JitFileFault::SymbolicLink => (
            "their perf map or jitdump is a symbolic link, which anyone may have put there",
            "put the file itself in its place",
        ),
        JitFileFault::HardLinks => (
            "their perf map or jitdump has more than one name, which anyone may have given it",
            "replace it with a copy",
        ),
        JitFileFault::Fifo => ("their perf map or jitdump is a FIFO, not a file", ""),
        JitFileFault::Directory => ("their perf map or jitdump is a directory, not a file", ""),
        JitFileFault::Device => ("their perf map or jitdump is a device, not a file", ""),
        JitFileFault::Socket => ("their perf map or jitdump is a socket, not a file", ""),
        JitFileFault::TooLarge => ("their perf map or jitdump is larger than 256 MiB", ""),
        JitFileFault::Denied => (
            "their perf map or jitdump may not be read",
            "run as the process's user or root",
        ),
        JitFileFault::Damaged => ("their jitdump makes no sense", ""),
        _ => ("their perf map or jitdump cannot be read", ""),
    }
}

#[cfg(test)]
mod tests;
