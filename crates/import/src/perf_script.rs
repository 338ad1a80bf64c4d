//! The text of `perf script`, with its usual fields: a line for each sample,
//! then its call chain, the innermost frame first, then an empty line.

use crate::ImportError;
use crate::builder::{Builder, Call, DsoAddress};
use prof_profile::{LocationId, Profile, Sample};

/// What the line of a sample tells.
struct Head<'t> {
    comm: &'t str,
    pid: i32,
    tid: i32,
    cpu: Option<u32>,
    /// ns.
    time: u64,
    period: u64,
    event: &'t str,
    /// Behind the event: where there is no call chain, the place.
    rest: &'t str,
}

/// Whether one of a text's first lines is that of a sample.
pub(crate) fn is_one(text: &str) -> bool {
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.take(4).any(|line| head(line).is_some())
}

/// `comm  pid/tid [cpu] seconds.micros:  period event: …`; the pid, the CPU and
/// the period may be missing.
fn head(line: &str) -> Option<Head<'_>> {
    let (before, rest) = time_colon(line)?;
    let (before, time) = before.rsplit_once(' ')?;
    let (seconds, part) = time.split_once('.')?;
    let nanos = part.parse::<u64>().ok()?;
    let digits = u32::try_from(part.len())
        .ok()
        .filter(|&digits| digits <= 9)?;
    let seconds = seconds.parse::<u64>().ok()?;
    let time = seconds.saturating_mul(1_000_000_000);
    let time = time.saturating_add(nanos.saturating_mul(10_u64.pow(9 - digits)));
    let mut before = before.trim_end();
    let mut cpu = None;
    if let Some((outer, inner)) = before.strip_suffix(']').and_then(|it| it.rsplit_once('[')) {
        cpu = inner.trim().parse().ok();
        before = outer.trim_end();
    }
    let (comm, ids) = before.rsplit_once(' ')?;
    let (pid, tid) = ids.split_once('/').unwrap_or((ids, ids));
    let (pid, tid) = (pid.parse().ok()?, tid.parse().ok()?);
    let rest = rest.trim_start();
    let (first, behind) = rest.split_once(' ').unwrap_or((rest, ""));
    let (period, rest) = match first.parse() {
        Ok(period) => (period, behind.trim_start()),
        Err(_) => (1, rest),
    };
    let (event, rest) = rest
        .split_once(": ")
        .or_else(|| Some((rest.trim_end().strip_suffix(':')?, "")))?;
    Some(Head {
        comm: comm.trim(),
        pid,
        tid,
        cpu,
        time,
        period,
        event,
        rest,
    })
}

/// What stands before and behind the colon of the time.
fn time_colon(line: &str) -> Option<(&str, &str)> {
    let ends = line.match_indices(": ");
    let mut parts = ends.filter_map(|(at, _)| Some((line.get(..at)?, line.get(at + 2..)?)));
    parts.find(|(before, _)| {
        let time = before.rsplit(' ').next().unwrap_or_default();
        time.contains('.') && time.bytes().all(|it| it.is_ascii_digit() || it == b'.')
    })
}

/// `ffffffff81 symbol+0x12 (dso)`.
fn frame(builder: &mut Builder, line: &str) -> Option<(LocationId, bool)> {
    let (address, rest) = line
        .trim_start()
        .split_once(' ')
        .unwrap_or((line.trim(), ""));
    let address = u64::from_str_radix(address, 16).ok()?;
    let (name, dso) = match rest
        .trim_end()
        .strip_suffix(')')
        .and_then(|it| it.rsplit_once(" ("))
    {
        Some((name, dso)) => (name, dso),
        None => match rest
            .trim()
            .strip_prefix('(')
            .and_then(|it| it.strip_suffix(')'))
        {
            Some(dso) => ("", dso),
            None => (rest.trim(), ""),
        },
    };
    let name = name
        .rsplit_once("+0x")
        .map_or(name, |(name, _)| name)
        .trim();
    let name = if name == "[unknown]" { "" } else { name };
    let is_inlined = dso == "inlined";
    let dso = builder.name(if is_inlined { "" } else { dso });
    let dso = builder.dso(dso);
    let call = Call {
        name: builder.name(name),
        ..Call::default()
    };
    Some((
        builder.location(DsoAddress { dso, address }, &[call]),
        is_inlined,
    ))
}

/// Reads a profile.
pub(crate) fn read(text: &str) -> Result<Profile, ImportError> {
    let mut builder = Builder::default();
    let mut open: Option<(Sample, Vec<LocationId>)> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.trim().is_empty() {
            close(&mut builder, open.take());
            continue;
        }
        // perf pads short names of threads where there are no call chains; frames have
        // a tab, but for what replaced it on the way.
        let begins = !line.starts_with('\t') || open.is_none();
        if let Some(head) = head(line).filter(|_| begins) {
            close(&mut builder, open.take());
            open = Some(begin(&mut builder, &head));
            continue;
        }
        if let Some((_, frames)) = &mut open {
            frames.extend(frame(&mut builder, line).map(|(location, _)| location));
        }
    }
    close(&mut builder, open);
    builder.finish("text of perf script")
}

fn begin(builder: &mut Builder, head: &Head<'_>) -> (Sample, Vec<LocationId>) {
    let plain = head.event.split(':').next().unwrap_or_default();
    let is_time = matches!(plain, "cpu-clock" | "task-clock");
    let comm = builder.name(head.comm);
    let sample = Sample {
        time: head.time,
        period: head.period,
        task: builder.task(head.pid, head.tid, comm),
        stack: prof_profile::StackId::EMPTY,
        cpu: head.cpu,
        event: builder.event(head.event, is_time),
        wait: None,
    };
    let frames = frame(builder, head.rest).map(|(location, _)| location);
    (sample, frames.into_iter().collect())
}

fn close(builder: &mut Builder, open: Option<(Sample, Vec<LocationId>)>) {
    if let Some((sample, frames)) = open {
        let stack = builder.stack(frames.into_iter().rev());
        builder.samples(Sample { stack, ..sample }, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::{is_one, read};

    #[test]
    fn padded_names_begin_samples_and_frames_may_have_spaces_for_their_tab() {
        let text = "\
               t    7  5.000001:  1 cpu-clock:pppH:      56103c2f5204 leaf+0x13 (/tmp/t)\n\
               t    7  5.000002:  1 cpu-clock:pppH:      56103c2f5261 other+0x1d (/tmp/t)\n\
 my longer thread   8  5.000003:  1 cpu-clock:pppH:      56103c2f5204 leaf+0x13 (/tmp/t)\n\
t    7  5.000004:  1 cpu-clock:\n        401136 leaf+0x13 (/tmp/t)\n        401200 main+0x1 (/tmp/t)\n";
        let profile = read(text).expect("perf script");
        assert_eq!(profile.samples.iter().count(), 4);
        let depth = |row: usize| {
            let sample = profile.samples.get(row).expect("a sample");
            profile.stacks.locations(sample.stack).count()
        };
        assert_eq!([depth(0), depth(1), depth(2), depth(3)], [1, 1, 1, 2]);
    }

    #[test]
    fn samples_with_and_without_call_chains_are_read() {
        let text = "\
# captured
my app 12/13 [001]  5.000001:     250 cycles:u: \n\
\t           401136 work(int, long)+0x16 (/home/a b/app)\n\
\t           401200 main+0x20 (/home/a b/app)\n\
\n\
perf   7   5.5:          1 cpu-clock:  ffffffff81 do_it+0x1 ([kernel.kallsyms])\n";
        assert!(is_one(text));
        let profile = read(text).expect("perf script");
        let rows: Vec<_> = profile.samples.iter().collect();
        assert_eq!((rows[0].time, rows[0].period), (5_000_001_000, 250));
        assert_eq!((rows[0].cpu, rows[1].cpu), (Some(1), None));
        assert_eq!(profile.stacks.locations(rows[0].stack).count(), 2);
        assert_eq!(profile.stacks.locations(rows[1].stack).count(), 1);
        let names: Vec<_> = profile
            .functions
            .iter()
            .map(|it| profile.name(it.name))
            .collect();
        assert_eq!(names, ["work(int, long)", "main", "do_it"]);
        assert_eq!(profile.name(profile.tasks[0].comm), "my app");
        assert_eq!((profile.tasks[1].pid, profile.tasks[1].tid), (7, 7));
    }
}
