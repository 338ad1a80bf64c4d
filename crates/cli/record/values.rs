//! Values of `prof record`'s flags.

use prof_abi::BranchSampleType;
use prof_record::branches::{branch_filters, parse_branches};
use prof_record::commands::Channel;
use prof_record::options::{
    Affinity, CLOCKS, Clock, Flight, Follow, MOST_DUMP, Sampling, Snapshots, Stacks, Start,
    Switching, Told, TraceSamples,
};
use prof_record::registers::{all_registers, parse_registers, register_names};
use prof_record::{DEFAULT_DUMP, WaitOptions};
use prof_sys::Identity;
use std::time::Duration;

/// `--call-graph auto` before the rate is known, see [`Stacks::auto`].
pub(super) const AUTO: Stacks = Stacks::Unwound(0);

pub(super) fn frequency(text: &str) -> Result<Sampling, String> {
    match (text, text.parse()) {
        ("max", _) => Ok(Sampling::HighestFrequency),
        (_, Ok(hz)) if hz > 0 => Ok(Sampling::Frequency(hz)),
        _ => Err("not a frequency in Hz, nor max".to_owned()),
    }
}

pub(super) fn period(text: &str) -> Result<Sampling, String> {
    let events = with_unit(
        text,
        &[
            ('k', 1000),
            ('K', 1000),
            ('M', 1_000_000),
            ('G', 1_000_000_000),
        ],
    );
    match events {
        Some(events) if events > 0 && events < 1 << 63 => Ok(Sampling::Period(events)),
        _ => Err("not a number of events above 0".to_owned()),
    }
}

/// A process or thread.
pub(super) fn task(text: &str) -> Result<u32, String> {
    let wrong = |_| "not the number of a process or thread (pidof NAME, ps -eL)".to_owned();
    text.parse().map_err(wrong)
}

pub(super) fn stacks(text: &str) -> Result<Stacks, String> {
    let (mode, size) = match text.split_once(',') {
        Some((mode, size)) => (mode, Some(size)),
        None => (text, None),
    };
    match (mode, size) {
        ("auto", None) => Ok(AUTO),
        ("auto", Some(size)) => dump(size).map(Stacks::Unwound),
        ("fp", None) => Ok(Stacks::FramePointers),
        ("lbr", None) => Ok(Stacks::LastBranch),
        ("fp", Some("defer")) => Ok(Stacks::Deferred),
        ("fp", Some(frames)) => Err(match frames.parse::<u16>() {
            Ok(frames) => {
                format!("frames are counted elsewhere\n  try: --call-graph fp --max-stack {frames}")
            }
            Err(_) => "fp takes no more\n  try: --call-graph fp".to_owned(),
        }),
        ("dwarf", None) => Ok(Stacks::Dump(DEFAULT_DUMP)),
        ("dwarf", Some(size)) => dump(size).map(Stacks::Dump),
        _ => Err("not auto, fp, lbr or dwarf[,BYTES]".to_owned()),
    }
}

fn dump(text: &str) -> Result<u32, String> {
    let bytes = text
        .parse::<u32>()
        .ok()
        .and_then(|bytes| bytes.checked_next_multiple_of(8));
    match bytes {
        Some(bytes) if bytes > 0 && bytes <= MOST_DUMP => Ok(bytes),
        _ => Err(format!("not a number of bytes from 1 to {MOST_DUMP}")),
    }
}

/// Seconds, or a time with its unit.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let found = match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Some(Duration::from_secs_f64(seconds)),
        Ok(_) => None,
        Err(_) => time(text).filter(|time| time.as_secs() < 1_000_000_000),
    };
    found.ok_or_else(|| "not a number of seconds above 0, or a time such as 500ms or 2m".to_owned())
}

const SIZES: [(char, u64); 4] = [('B', 1), ('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)];

pub(super) fn size(text: &str) -> Result<u64, String> {
    with_unit(text, &SIZES).ok_or_else(|| "not a size such as 500M".to_owned())
}

/// How children are followed.
pub(super) fn follow(text: &str) -> Result<Follow, String> {
    match text {
        "auto" => Ok(Follow::Auto),
        "cpus" => Ok(Follow::Cpus),
        "tasks" => Ok(Follow::Tasks),
        _ => Err("not auto, cpus or tasks".to_owned()),
    }
}

/// Where rings are emptied, in perf's words.
pub(super) fn affinity(text: &str) -> Result<Affinity, String> {
    match text {
        "sys" => Ok(Affinity::System),
        "node" => Ok(Affinity::Node),
        "cpu" => Ok(Affinity::Cpu),
        _ => Err("not node, cpu or sys".to_owned()),
    }
}

/// What is told of the time before, in a list.
pub(super) fn told(text: &str) -> Result<Told, String> {
    let mut told = Told {
        tasks: false,
        mappings: false,
        cgroups: false,
    };
    for word in text.split(',') {
        match word {
            "no" => {}
            "all" => told = Told::default(),
            "task" => told.tasks = true,
            "mmap" => told.mappings = true,
            "cgroup" => told.cgroups = true,
            _ => return Err("not no, all, task, mmap or cgroup".to_owned()),
        }
    }
    Ok(told)
}

/// `signal`, a size with its unit or a time with its unit.
pub(super) fn switching(text: &str) -> Result<Switching, String> {
    let none = Switching::default();
    if text == "signal" {
        return Ok(Switching {
            on_signal: true,
            ..none
        });
    }
    let is_positive = |&number: &u64| number > 0;
    // Without a unit it might be either.
    if let Some(size) = unit_of(text, &SIZES).filter(is_positive) {
        return Ok(Switching {
            at_size: Some(size),
            ..none
        });
    }
    match time(text) {
        Some(time) => Ok(Switching {
            every: Some(time),
            ..none
        }),
        None => Err("not signal, a size such as 100M, nor a time such as 30s".to_owned()),
    }
}

/// A time with its unit.
pub(super) fn every(text: &str) -> Result<Duration, String> {
    let found = time(text).filter(|time| !time.is_zero());
    found.ok_or_else(|| "not a time such as 10s".to_owned())
}

/// A size with its unit or a time with its unit, or nothing of both.
pub(super) fn flight(text: &str) -> Result<Flight, String> {
    if text == "rings" {
        return Ok(Flight::Rings);
    }
    match switching(text) {
        Ok(Switching {
            at_size: Some(bytes),
            ..
        }) => Ok(Flight::Bytes(bytes)),
        Ok(Switching {
            every: Some(time), ..
        }) => Ok(Flight::Time(time)),
        _ => Err("not a time such as 30s, nor a size such as 100M".to_owned()),
    }
}

/// Which waits: those beside other samples, or nothing but them.
pub(super) fn off_cpu(text: &str) -> Result<WaitOptions, String> {
    match text {
        "too" => Ok(WaitOptions::default()),
        "only" => Ok(WaitOptions {
            only: true,
            ..WaitOptions::default()
        }),
        _ => Err("leave it out, or write --off-cpu=only".to_owned()),
    }
}

/// About how many stacks of short waits a second; `None` for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StacksOfWaits(pub(super) Option<u32>);

/// What `--off-cpu-stacks` says.
pub(super) fn stacks_of_waits(text: &str) -> Result<StacksOfWaits, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(StacksOfWaits(None)),
        (_, Ok(most @ 1..)) => Ok(StacksOfWaits(Some(most))),
        _ => Err("not a number of stacks a second above 0, nor all".to_owned()),
    }
}

/// The length of a wait: a number with ns, us, ms or s.
pub(super) fn length(text: &str) -> Result<Duration, String> {
    let units = [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000)];
    let units = units.into_iter().chain([("s", 1_000_000_000_u64)]);
    let mut found = units.filter_map(|(unit, ns)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(ns)
    });
    let ns = found.next().ok_or("not a time such as 50us or 1ms")?;
    Ok(Duration::from_nanos(ns))
}

/// A time above 0 with its unit: ms, s, m, h or d.
pub(super) fn time(text: &str) -> Option<Duration> {
    const SECONDS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let time = match text.strip_suffix("ms") {
        Some(ms) => Duration::from_millis(ms.parse().ok()?),
        None => Duration::from_secs(unit_of(text, &SECONDS)?),
    };
    Some(time).filter(|time| !time.is_zero())
}

/// What `-D` says, in ms.
pub(super) fn start(text: &str) -> Result<Start, String> {
    let wrong = || "not a number of ms, nor times such as 10-20,30-40, nor -1".to_owned();
    let ms = |text: &str| text.parse().ok().map(Duration::from_millis);
    match (text, ms(text)) {
        ("-1", _) => return Ok(Start::OnCommand),
        (_, Some(Duration::ZERO)) => return Ok(Start::AtOnce),
        (_, Some(delay)) => return Ok(Start::After(delay)),
        _ => {}
    }
    let mut windows: Vec<(Duration, Duration)> = Vec::new();
    for window in text.split(',') {
        let (from, to) = window.split_once('-').ok_or_else(wrong)?;
        let (from, to) = ms(from).zip(ms(to)).ok_or_else(wrong)?;
        if from >= to || windows.last().is_some_and(|last| from <= last.1) {
            return Err(format!(
                "{window} does not begin behind what stands before it, or ends too soon"
            ));
        }
        windows.push((from, to));
    }
    Ok(Start::Windows(windows))
}

/// Where commands come from.
pub(crate) fn channel(text: &str) -> Result<Channel, String> {
    let wrong = || "not fd:CTL[,ACK] with numbers, nor fifo:CTL[,ACK] with names".to_owned();
    let (kind, ends) = text.split_once(':').ok_or_else(wrong)?;
    let (control, answers) = match ends.split_once(',') {
        Some((control, answers)) => (control, Some(answers)),
        None => (ends, None),
    };
    if control.is_empty() || answers.is_some_and(str::is_empty) {
        return Err(wrong());
    }
    let number = |text: &str| text.parse().ok().filter(|&number: &i32| number >= 0);
    match kind {
        "fd" => {
            let control = number(control).ok_or_else(wrong)?;
            let answers = answers.map(|answers| number(answers).ok_or_else(wrong));
            Ok(Channel::Descriptors(control, answers.transpose()?))
        }
        "fifo" => Ok(Channel::Fifos(control.into(), answers.map(Into::into))),
        _ => Err(wrong()),
    }
}

/// A number with a letter for its unit.
fn unit_of(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let has_unit = text.ends_with(|letter: char| letter.is_ascii_alphabetic());
    has_unit.then(|| with_unit(text, units))?
}

/// Bytes of each ring, and of each area for a trace, where that was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RingSizes {
    pub(super) ring: Option<u64>,
    pub(super) area: Option<u64>,
}

/// Pages if there is no unit; in any case a power of two of pages.
pub(super) fn rings(text: &str) -> Result<RingSizes, String> {
    let (ring, area) = match text.split_once(',') {
        Some((ring, area)) => (ring, Some(area)),
        None => (text, None),
    };
    Ok(RingSizes {
        ring: match (ring, area) {
            ("", Some(_)) => None,
            _ => Some(one_ring(ring)?),
        },
        area: area.map(one_ring).transpose()?,
    })
}

/// `e` for one at the end, and the most bytes.
pub(super) fn snapshots(text: &str) -> Result<Snapshots, String> {
    let (at_end, bytes) = match text.strip_prefix('e') {
        Some(bytes) => (true, bytes),
        None => (false, text),
    };
    Ok(Snapshots {
        bytes: trace_bytes(bytes)?,
        at_end,
    })
}

pub(super) fn trace_samples(text: &str) -> Result<TraceSamples, String> {
    let bytes = trace_bytes(text)?.map(u32::try_from).transpose();
    let bytes = bytes.map_err(|_| "more than a sample has room for".to_owned())?;
    Ok(TraceSamples { bytes })
}

/// Bytes, as perf takes them in hexadecimal too; `None` for no text.
fn trace_bytes(text: &str) -> Result<Option<u64>, String> {
    let bytes = match text.strip_prefix("0x") {
        _ if text.is_empty() => return Ok(None),
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => with_unit(text, &SIZES),
    };
    match bytes.filter(|&bytes| bytes > 0) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err("not a size such as 64K".to_owned()),
    }
}

fn one_ring(text: &str) -> Result<u64, String> {
    let page = prof_sys::page_size() as u64;
    let bytes = match text.parse::<u64>() {
        Ok(pages) => pages.checked_mul(page),
        Err(_) => with_unit(text, &SIZES),
    };
    bytes
        .filter(|&bytes| bytes > 0)
        .and_then(|bytes| {
            bytes
                .div_ceil(page)
                .checked_next_power_of_two()?
                .checked_mul(page)
        })
        .ok_or_else(|| "not a number of pages, nor a size such as 4M".to_owned())
}

/// A number with a letter for its unit, or none.
fn with_unit(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let unit = units.iter().find(|(letter, _)| text.ends_with(*letter));
    match unit {
        Some(&(letter, factor)) => text
            .strip_suffix(letter)?
            .parse::<u64>()
            .ok()?
            .checked_mul(factor),
        None => text.parse().ok(),
    }
}

pub(super) fn branches(text: &str) -> Result<BranchSampleType, String> {
    parse_branches(text).map_err(|name| {
        format!(
            "there is no branch filter {name:?}; there are: {}",
            branch_filters()
        )
    })
}

pub(super) fn registers(text: &str) -> Result<u64, String> {
    match text {
        "all" => Ok(all_registers()),
        names => parse_registers(names).map_err(|name| {
            format!(
                "there is no register {name:?}; there are: {}",
                register_names()
            )
        }),
    }
}

/// A name as perf takes it, whatever its case and with or without `CLOCK_`, or
/// a number.
pub(super) fn clock(text: &str) -> Result<Clock, String> {
    if let Ok(id) = text.parse() {
        let known = CLOCKS.iter().find(|(_, clock)| clock.id == id);
        let name = known.map_or("numbered", |(_, clock)| clock.name);
        return Ok(Clock { id, name });
    }
    let name = text.to_ascii_lowercase();
    let name = name.strip_prefix("clock_").unwrap_or(&name);
    let known = CLOCKS.iter().find(|(known, _)| *known == name);
    known.map(|&(_, clock)| clock).ok_or_else(|| {
        "not monotonic, monotonic_raw, boottime, realtime, tai, nor a clock's number".to_owned()
    })
}

/// A user by name or number.
pub(super) fn user(text: &str) -> Result<Identity, String> {
    let by_name = Identity::of_name(text.as_ref());
    let found = match (by_name, text.parse()) {
        (Ok(None), Ok(uid)) => Identity::of_uid(uid).map(|known| {
            // One without an entry may have processes all the same.
            Some(known.unwrap_or_else(|| unnamed(uid, text)))
        }),
        (by_name, _) => by_name,
    };
    match found {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err("there is no such user".to_owned()),
        Err(error) => Err(format!("the users cannot be read: {error}")),
    }
}

fn unnamed(uid: u32, name: &str) -> Identity {
    Identity {
        uid,
        gid: uid,
        groups: vec![uid],
        name: name.into(),
        home: "/".into(),
        shell: "/bin/sh".into(),
    }
}

/// As whom a command is to run.
pub(super) fn runner(text: &str) -> Result<Identity, String> {
    if text != "sudo" {
        return user(text);
    }
    match std::env::var("SUDO_USER") {
        Ok(name) => user(&name),
        Err(_) => Err("sudo did not start prof (SUDO_USER is not set)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Channel, RingSizes, Sampling, Stacks, Start, Switching, channel, clock, frequency, period,
        rings, size, stacks, start, switching, user,
    };
    use std::time::Duration;

    #[test]
    fn values_are_read_as_perf_reads_them() {
        assert_eq!(frequency("max"), Ok(Sampling::HighestFrequency));
        assert_eq!(frequency("99"), Ok(Sampling::Frequency(99)));
        assert!(frequency("0").is_err() && frequency("fast").is_err());
        assert_eq!(period("10k"), Ok(Sampling::Period(10_000)));
        assert!(period("9223372036854775808").is_err());
        assert_eq!(stacks("dwarf,1001"), Ok(Stacks::Dump(1008)));
        assert!(stacks("dwarf,70000").is_err() && stacks("fp,3").is_err());
        let page = prof_sys::page_size() as u64;
        let sizes = |ring, area| Ok(RingSizes { ring, area });
        assert_eq!(rings("3"), sizes(Some(4 * page), None));
        assert_eq!(rings("1M"), sizes(Some(1 << 20), None));
        assert_eq!(rings("4,8"), sizes(Some(4 * page), Some(8 * page)));
        assert_eq!(rings(",64K"), sizes(None, Some(64 << 10)));
        assert!(rings("4,").is_err() && rings("4,x").is_err());
        assert!(rings("0").is_err() && rings("99999999999G").is_err());
        assert_eq!(size("2K"), Ok(2048));
    }

    #[test]
    fn a_recording_begins_as_perf_takes_it() {
        let ms = Duration::from_millis;
        let windows = vec![(ms(10), ms(20)), (ms(30), ms(40))];
        assert_eq!(start("10-20,30-40"), Ok(Start::Windows(windows)));
        assert_eq!(start("10"), Ok(Start::After(ms(10))));
        assert_eq!(start("0"), Ok(Start::AtOnce));
        assert_eq!(start("-1"), Ok(Start::OnCommand));
        let wrong = [
            "",
            "-2",
            "x",
            "20-10",
            "5-5",
            "10-20,15-30",
            "10-20,20-30",
            "10-",
            "1-2,",
        ];
        for text in wrong {
            assert!(start(text).is_err(), "{text}");
        }
    }

    #[test]
    fn commands_come_from_descriptors_or_fifos() {
        assert_eq!(channel("fd:5"), Ok(Channel::Descriptors(5, None)));
        assert_eq!(channel("fd:5,6"), Ok(Channel::Descriptors(5, Some(6))));
        let fifos = Channel::Fifos("a".into(), Some("b".into()));
        assert_eq!(channel("fifo:a,b"), Ok(fifos));
        for wrong in [
            "", "fd", "fd:", "fd:x", "fd:5,x", "fd:-1", "fifo:", "fifo:a,", "x:1",
        ] {
            assert!(channel(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn clocks_and_users_have_names_and_numbers() {
        let id = |text| clock(text).map(|clock| clock.id);
        for text in ["monotonic", "Mono", "CLOCK_MONOTONIC", "clock_mono", "1"] {
            assert_eq!(id(text), Ok(1), "{text}");
        }
        assert_eq!((id("tai"), id("77")), (Ok(11), Ok(77)));
        assert!(clock("sundial").is_err() && clock("CLOCK_").is_err());
        assert_eq!(user("root").map(|user| user.uid), Ok(0));
        assert_eq!(user("0").map(|user| user.name), Ok("root".into()));
        assert!(user("no-such-user-here").is_err());
    }

    #[test]
    fn files_are_switched_by_signal_size_or_time() {
        let none = Switching::default();
        let (on_signal, at_size) = (true, Some(100 << 20));
        let every = |ms| Switching {
            every: Some(Duration::from_millis(ms)),
            ..none
        };
        assert_eq!(switching("signal"), Ok(Switching { on_signal, ..none }));
        assert_eq!(switching("100M"), Ok(Switching { at_size, ..none }));
        assert_eq!(switching("30s"), Ok(every(30_000)));
        assert_eq!(switching("2m"), Ok(every(120_000)));
        assert_eq!(switching("50ms"), Ok(every(50)));
        for wrong in ["", "100", "0s", "0K", "ms", "x", "s", "-1s", "5x"] {
            assert!(switching(wrong).is_err(), "{wrong}");
        }
    }
}
