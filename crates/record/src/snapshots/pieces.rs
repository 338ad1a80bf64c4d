//! Reading what is wanted of a thread's memory.

use super::{AT_FIRST, MOST_BYTES};
use prof_abi::ByteOrder;
use prof_live::WantedMemory;
use prof_perfdata::{Record, Registers, Sample};
use prof_sys::process;

/// perf's number of the register that holds a system call's result.
pub(super) const RESULT: u32 = 0;
/// perf's number of the register.
pub(super) const STACK_POINTER: u32 = if cfg!(target_arch = "aarch64") { 31 } else { 7 };

/// Where the piece of the stack ends that was copied with a sample; `None` unless
/// it is still there, and `is_as_then` of the sample's registers. `now` is room.
pub(super) fn copied_until(
    record: &Record<'_>,
    is_as_then: impl Fn(&Registers<'_>) -> bool,
    now: &mut Vec<u8>,
) -> Option<u64> {
    let layout = &record.event()?.layout;
    let sample = Sample::new(record.bytes, layout, ByteOrder::NATIVE).ok()?;
    let registers = sample.regs_user()?;
    if !is_as_then(&registers) {
        return None;
    }
    let sp = registers.get(STACK_POINTER)?;
    let copied = sample.stack_user().unwrap_or_default();
    now.resize(copied.len(), 0);
    let pid = u32::try_from(sample.pid()?).ok()?;
    let got = process::read_memory(pid, sp, now).ok()?;
    let is_there = got == copied.len() && *now == copied;
    is_there.then(|| sp.saturating_add(copied.len() as u64))
}

/// The wanted memory of a process, as far as it can be read; `grown` gives an
/// empty buffer with room for so much, or makes room in one.
pub(super) fn read_pieces(
    pid: i32,
    copied_until: u64,
    wanted: &WantedMemory,
    grown: impl Fn(Option<Vec<u8>>, usize) -> Vec<u8>,
) -> Vec<(u64, Vec<u8>)> {
    let Ok(pid) = u32::try_from(pid) else {
        return Vec::new();
    };
    let mut left = MOST_BYTES;
    let mut pieces = Vec::new();
    for (index, range) in wanted.ranges.iter().enumerate() {
        let start = match index {
            0 => copied_until,
            _ => range.start,
        };
        let length = range.end.saturating_sub(start).min(left);
        if length == 0 {
            continue;
        }
        left -= length;
        pieces.push((start, read_range(pid, (start, length as usize), &grown)));
    }
    let pointed = wanted.pointed.and_then(|(at, length)| {
        let bytes = from(&pieces, at)?.first_chunk()?;
        Some((u64::from_ne_bytes(*bytes), length.min(left)))
    });
    if let Some((start, length)) = pointed
        && from(&pieces, start).is_none()
    {
        pieces.push((start, read_range(pid, (start, length as usize), &grown)));
    }
    pieces
}

/// What was read from an address on.
fn from(pieces: &[(u64, Vec<u8>)], address: u64) -> Option<&[u8]> {
    pieces.iter().find_map(|(start, bytes)| {
        let at = usize::try_from(address.checked_sub(*start)?).ok()?;
        bytes.get(at..).filter(|rest| !rest.is_empty())
    })
}

/// So many bytes of a process, as far as they can be read, piece by piece: where a
/// stack ends is not known as a rule, and room for what is not there costs more
/// than to read what is.
fn read_range(
    pid: u32,
    (start, length): (u64, usize),
    grown: &impl Fn(Option<Vec<u8>>, usize) -> Vec<u8>,
) -> Vec<u8> {
    let mut size = length.min(AT_FIRST);
    let mut bytes = grown(None, size);
    loop {
        let missing = size - bytes.len();
        let at = start + bytes.len() as u64;
        let got = process::append_memory(pid, at, missing, &mut bytes).unwrap_or(0);
        if got < missing || size == length {
            return bytes;
        }
        size = length.min(size * 4);
        bytes = grown(Some(bytes), size);
    }
}
