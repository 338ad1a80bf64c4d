//! Values of `prof record`'s flags.

use prof_record::DEFAULT_DUMP;
use prof_record::options::{CLOCKS, Clock, MOST_DUMP, Sampling, Stacks, parse_cpu_list};
use prof_record::registers::{all_registers, parse_registers, register_names};
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

/// CPUs, ascending.
#[derive(Debug, Clone)]
pub(super) struct CpuList(pub(super) Vec<u32>);

pub(super) fn cpus(text: &str) -> Result<CpuList, String> {
    parse_cpu_list(text)
        .map(CpuList)
        .ok_or_else(|| "not a list of CPUs such as 0-3,8".to_owned())
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("not a number of seconds above 0".to_owned()),
    }
}

const SIZES: [(char, u64); 4] = [('B', 1), ('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)];

pub(super) fn size(text: &str) -> Result<u64, String> {
    with_unit(text, &SIZES).ok_or_else(|| "not a size such as 500M".to_owned())
}

/// Pages if there is no unit; in any case a power of two of pages.
pub(super) fn ring(text: &str) -> Result<u64, String> {
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

pub(super) fn clock(text: &str) -> Result<Clock, String> {
    let known = CLOCKS.iter().find(|(name, _)| *name == text);
    known
        .map(|&(_, clock)| clock)
        .ok_or_else(|| "not monotonic, monotonic_raw, boottime, realtime or tai".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Sampling, Stacks, frequency, period, ring, size, stacks};

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
        assert_eq!(ring("3"), Ok(4 * page));
        assert_eq!(ring("1M"), Ok(1 << 20));
        assert!(ring("0").is_err() && ring("99999999999G").is_err());
        assert_eq!(size("2K"), Ok(2048));
    }
}
