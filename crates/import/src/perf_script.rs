//! The text of `perf script`: a line for each sample, then its call chain, the
//! innermost frame first, then an empty line. What `perf script -F` left out of the
//! line of a sample may be missing where call chains are there: times are then 0,
//! processes and threads 0, and the event is called `samples`.

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
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut first = lines
        .filter(|line| !line.trim().is_empty())
        .take(4)
        .peekable();
    while let Some(line) = first.next() {
        let mut leads_a_chain = || {
            let is_frame = first.peek().is_some_and(|next| begins_as_frame(next));
            is_frame && partial_head(line).is_some()
        };
        if head(line).is_some() || leads_a_chain() {
            return true;
        }
    }
    false
}

/// Whether a line begins with an address, as those of frames do.
fn begins_as_frame(line: &str) -> bool {
    const FEWEST_DIGITS: usize = 3;
    let word = line.split_whitespace().next().unwrap_or_default();
    word.len() >= FEWEST_DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// ns, of `seconds.micros`.
fn time(text: &str) -> Option<u64> {
    let (seconds, part) = text.split_once('.')?;
    let nanos = part.parse::<u64>().ok()?;
    let digits = u32::try_from(part.len())
        .ok()
        .filter(|&digits| digits <= 9)?;
    let time = seconds.parse::<u64>().ok()?.saturating_mul(1_000_000_000);
    Some(time.saturating_add(nanos.saturating_mul(10_u64.pow(9 - digits))))
}

/// The same with parts missing, where a call chain follows: `comm`, and of
/// `pid/tid [cpu] time: period event:` at least one.
fn partial_head(line: &str) -> Option<Head<'_>> {
    let mut rest = line.trim_end();
    let mut head = Head {
        comm: "",
        pid: 0,
        tid: 0,
        cpu: None,
        time: 0,
        period: 1,
        event: "samples",
        rest: "",
    };
    let (before, last) = last_word(rest);
    let ends = last.strip_suffix(':').filter(|name| !name.is_empty());
    if let Some(name) = ends.filter(|name| time(name).is_none()) {
        (head.event, rest) = (name, before);
    }
    let (before, last) = last_word(rest);
    let (further, other) = last_word(before);
    // A number before the event is the period where a thread or a time stands before
    // that; else it is the thread.
    let is_thread = ids(other).is_some() && !further.trim().is_empty();
    let is_behind_more = other.ends_with([':', ']']) || is_thread;
    if let Some(period) = last.parse().ok().filter(|_| is_behind_more) {
        (head.period, rest) = (period, before);
    }
    let (before, last) = last_word(rest);
    if let Some(found) = last.strip_suffix(':').and_then(time) {
        (head.time, rest) = (found, before);
    }
    let (before, last) = last_word(rest);
    let cpu = last.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if let Some(cpu) = cpu.and_then(|it| it.parse().ok()) {
        (head.cpu, rest) = (Some(cpu), before);
    }
    let (before, last) = last_word(rest);
    if let Some((pid, tid)) = ids(last).filter(|_| !before.trim().is_empty()) {
        (head.pid, head.tid, rest) = (pid, tid, before);
    }
    head.comm = rest.trim();
    let is_told = head.comm.len() < line.trim().len();
    (is_told && !head.comm.is_empty()).then_some(head)
}

/// What stands before the last word, and that word.
fn last_word(text: &str) -> (&str, &str) {
    let text = text.trim_end();
    text.rsplit_once(char::is_whitespace).unwrap_or(("", text))
}

/// `pid/tid`, or the thread alone.
fn ids(text: &str) -> Option<(i32, i32)> {
    let (pid, tid) = text.split_once('/').unwrap_or((text, text));
    Some((pid.parse().ok()?, tid.parse().ok()?))
}

/// `comm  pid/tid [cpu] seconds.micros:  period event: …`; the pid, the CPU and
/// the period may be missing.
fn head(line: &str) -> Option<Head<'_>> {
    let (before, rest) = time_colon(line)?;
    let (before, when) = before.rsplit_once(char::is_whitespace)?;
    let time = time(when)?;
    let mut before = before.trim_end();
    let mut cpu = None;
    if let Some((outer, inner)) = before.strip_suffix(']').and_then(|it| it.rsplit_once('[')) {
        cpu = inner.trim().parse().ok();
        before = outer.trim_end();
    }
    let (comm, last) = before.rsplit_once(char::is_whitespace)?;
    let (pid, tid) = ids(last)?;
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
    let ends = line.match_indices([':']);
    let ends = ends.filter(|(at, _)| {
        line.get(at + 1..)
            .is_some_and(|it| it.starts_with([' ', '\t']))
    });
    let mut parts = ends.filter_map(|(at, _)| Some((line.get(..at)?, line.get(at + 2..)?)));
    parts.find(|(before, _)| {
        let time = before
            .rsplit(char::is_whitespace)
            .next()
            .unwrap_or_default();
        time.contains('.') && time.bytes().all(|it| it.is_ascii_digit() || it == b'.')
    })
}

/// A line of a call chain: `ffffffff81 symbol+0x12 (dso)`; an inlined function has
/// `(inlined)` for its dso, and is told before the one that it stands in.
struct Line<'t> {
    address: u64,
    name: &'t str,
    dso: &'t str,
}

impl<'t> Line<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let line = line.trim();
        let (address, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let address = u64::from_str_radix(address, 16).ok()?;
        let rest = rest.trim();
        let in_dso = rest.strip_suffix(')');
        let (name, dso) = match in_dso.and_then(|it| it.rsplit_once(" (")) {
            Some((name, dso)) => (name, dso),
            None => match in_dso.and_then(|it| it.strip_prefix('(')) {
                Some(dso) => ("", dso),
                None => (rest, ""),
            },
        };
        let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
        let name = name.trim();
        Some(Self {
            address,
            name: if name == "[unknown]" { "" } else { name },
            dso,
        })
    }
}

/// A sample of which not all lines were read yet.
struct Open<'t> {
    sample: Sample,
    frames: Vec<LocationId>,
    /// Inlined functions whose host is still to come.
    inlined: Vec<Line<'t>>,
}

impl<'t> Open<'t> {
    fn add(&mut self, builder: &mut Builder, line: Line<'t>) {
        if line.dso == "inlined" {
            self.inlined.push(line);
            return;
        }
        if self
            .inlined
            .iter()
            .any(|inner| inner.address != line.address)
        {
            self.without_host(builder);
        }
        let mut inner = std::mem::take(&mut self.inlined);
        let (dso, address) = (line.dso, line.address);
        inner.push(line);
        self.push(builder, (dso, address), &inner);
    }

    /// Inlined functions that stand in none that is told.
    fn without_host(&mut self, builder: &mut Builder) {
        for line in std::mem::take(&mut self.inlined) {
            self.push(builder, ("", line.address), &[line]);
        }
    }

    fn push(&mut self, builder: &mut Builder, (dso, address): (&str, u64), calls: &[Line<'_>]) {
        let dso = builder.name(dso);
        let dso = builder.dso(dso);
        let call = |line: &Line<'_>| Call {
            name: builder.name(line.name),
            ..Call::default()
        };
        let calls: Vec<Call> = calls.iter().map(call).collect();
        self.frames
            .push(builder.location(DsoAddress { dso, address }, &calls));
    }

    fn close(mut self, builder: &mut Builder) {
        self.without_host(builder);
        let stack = builder.stack(self.frames.into_iter().rev());
        let sample = Sample {
            stack,
            ..self.sample
        };
        builder.samples(sample, 1);
    }
}

/// Reads a profile.
pub(crate) fn read(text: &str) -> Result<Profile, ImportError> {
    let mut builder = Builder::default();
    let mut open: Option<Open<'_>> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.trim().is_empty() {
            close(&mut builder, open.take());
            continue;
        }
        // perf pads short names of threads where there are no call chains; frames have
        // a tab, but for what replaced it on the way.
        let begins = !line.starts_with('\t') || open.is_none();
        let head = head(line).filter(|_| begins);
        let head = head.or_else(|| partial_head(line).filter(|_| open.is_none()));
        if let Some(head) = head {
            close(&mut builder, open.take());
            open = Some(begin(&mut builder, &head));
            continue;
        }
        if let (Some(open), Some(line)) = (&mut open, Line::of(line)) {
            open.add(&mut builder, line);
        }
    }
    close(&mut builder, open);
    builder.finish("text of perf script")
}

fn begin<'t>(builder: &mut Builder, head: &Head<'t>) -> Open<'t> {
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
    let mut open = Open {
        sample,
        frames: Vec::new(),
        inlined: Vec::new(),
    };
    if let Some(line) = Line::of(head.rest) {
        open.add(builder, line);
    }
    open
}

fn close(builder: &mut Builder, open: Option<Open<'_>>) {
    if let Some(open) = open {
        open.close(builder);
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
    fn what_was_left_out_of_the_line_of_a_sample_may_be_missing() {
        let told = |head: &str| {
            let text = format!("{head}\n\t  401136 leaf+0x1 (/a)\n\t  401200 main (/a)\n\n");
            assert!(is_one(&text), "{head}");
            let profile = read(&text).expect("perf script");
            let sample = profile.samples.get(0).expect("a sample");
            assert_eq!(profile.stacks.locations(sample.stack).count(), 2, "{head}");
            let task = profile.task(sample.task);
            let event = profile.events[0].name.clone();
            let comm = profile.name(task.comm).to_owned();
            (comm, task.pid, task.tid, sample.time, sample.period, event)
        };
        let of = |comm: &str, pid, tid, time, period, event: &str| {
            (comm.to_owned(), pid, tid, time, period, event.to_owned())
        };
        assert_eq!(told("java 19 cycles:"), of("java", 19, 19, 0, 1, "cycles"));
        assert_eq!(
            told("my app 1/2 250 cycles:u: "),
            of("my app", 1, 2, 0, 250, "cycles:u")
        );
        assert_eq!(told("app  cycles: "), of("app", 0, 0, 0, 1, "cycles"));
        let time = 5_500_000_000;
        assert_eq!(told("app 7/8 5.5: "), of("app", 7, 8, time, 1, "samples"));
        assert_eq!(
            told("app 5.5:  cycles:"),
            of("app", 0, 0, time, 1, "cycles")
        );
        assert_eq!(
            told("app 5.5: 9 cycles:"),
            of("app", 0, 0, time, 9, "cycles")
        );
        assert_eq!(told("app 7 [001] 9 a:b:"), of("app", 7, 7, 0, 9, "a:b"));
        assert_eq!(told("7 8 cycles:"), of("7", 8, 8, 0, 1, "cycles"));
        assert_eq!(
            told("Gecko\t25 [007] 5.5:\t\t9 task-clock:u:"),
            of("Gecko", 25, 25, time, 9, "task-clock:u")
        );
        // No text of perf script: nothing but a name, and no frames.
        assert!(!is_one("app\n\t 401136 leaf (/a)\n"));
        assert!(!is_one("main;leaf 12\nmain;other 3\n"));
        assert!(!is_one("see also: cycles:\nbeing there\n"));
    }

    #[test]
    fn inlined_functions_stand_in_the_next_one_at_their_address() {
        let text = "a 1 5.5: 1 c: \n\t 11 in2 (inlined)\n\t 11 in1 (inlined)\n\t 11 f+0x1 (/a)\n\
                    \t 22 lost (inlined)\n\t 33 main+0x3 (/a)\n";
        let profile = read(text).expect("perf script");
        let sample = profile.samples.get(0).expect("a sample");
        let frames = profile
            .stacks
            .locations(sample.stack)
            .flat_map(|at| profile.frames_at(at));
        let frames: Vec<(&str, bool)> = frames
            .map(|frame| {
                (
                    profile.name(profile.function(frame.function).name),
                    frame.is_inline,
                )
            })
            .collect();
        let host = |name| (name, false);
        let expected = [
            ("in2", true),
            ("in1", true),
            host("f"),
            host("lost"),
            host("main"),
        ];
        assert_eq!(frames, expected);
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
