//! Reading what is wanted of a thread's memory.

use super::{AT_FIRST, MOST_BYTES};
use prof_abi::ByteOrder;
use prof_live::{LinkedList, StackStarts, WantedMemory};
use prof_perfdata::{Record, Registers, Sample};
use prof_sys::process;

/// perf's number of the register that holds a system call's result.
pub(super) const RESULT: u32 = 0;
/// perf's number of the register.
pub(super) const STACK_POINTER: u32 = if cfg!(target_arch = "aarch64") { 31 } else { 7 };

/// Objects of a list that are looked at, and that are read each by itself.
const MOST_IN_LIST: usize = 1024;
const MOST_OBJECTS: usize = 128;

/// Where the piece of the stack ends that was copied with a sample; `None` unless
/// it is still there, and `is_as_then` of the sample's registers. `now` is room.
///
/// What lies above the stack's start may be another thread's, which runs on.
pub(super) fn copied_until(
    record: &Record<'_>,
    starts: &StackStarts,
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
    let below = starts.below(sample.tid()?, sp);
    let own = below
        .map_or(usize::MAX, |below| below as usize)
        .min(copied.len());
    let is_there = got == copied.len() && now.get(..own) == copied.get(..own);
    is_there.then(|| sp.saturating_add(copied.len() as u64))
}

/// What was read of a process.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// By address.
    pub(super) read: Vec<(u64, Vec<u8>)>,
    /// So many bytes of the first piece, which is then of the stack, were read while
    /// the thread stood still.
    sure: usize,
    /// It was seen to have gone on.
    has_gone_on: bool,
}

impl Pieces {
    /// All pieces if the thread stood still until now, else what is sure; and pieces of
    /// which nothing is.
    pub(super) fn if_stayed(mut self, has_stayed: bool) -> [Vec<(u64, Vec<u8>)>; 2] {
        if has_stayed && !self.has_gone_on {
            return [self.read, Vec::new()];
        }
        let sure = usize::from(self.sure > 0).min(self.read.len());
        let unsure = self.read.split_off(sure);
        if let Some((_, bytes)) = self.read.first_mut() {
            bytes.truncate(self.sure);
        }
        [self.read, unsure]
    }
}

/// The wanted memory of a process, as far as it can be read, besides what was
/// `copied` with the sample from an address on; `grown` gives an empty buffer with room
/// for so much, or makes room in one. `stays` is asked before more of a stack is read:
/// where a thread has gone on meanwhile, only what was read before counts.
pub(super) fn read_pieces(
    pid: i32,
    copied: (u64, &[u8]),
    wanted: &WantedMemory,
    grown: impl Fn(Option<Vec<u8>>, usize) -> Vec<u8>,
    mut stays: impl FnMut() -> bool,
) -> Pieces {
    let mut all = Pieces::default();
    let Ok(pid) = u32::try_from(pid) else {
        return all;
    };
    let copied_until = copied.0.saturating_add(copied.1.len() as u64);
    let mut left = MOST_BYTES;
    let pieces = &mut all.read;
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
        let range = (start, length as usize);
        if index > 0 {
            pieces.push((start, read_range(pid, range, &grown, |_| true)));
            continue;
        }
        let bytes = read_range(pid, range, &grown, |read| {
            all.has_gone_on = !stays();
            all.sure = if all.has_gone_on { all.sure } else { read };
            !all.has_gone_on
        });
        pieces.push((start, bytes));
        if all.has_gone_on {
            return all;
        }
    }
    let pointed = wanted.pointed.and_then(|(at, length)| {
        let bytes = from(pieces, at)?.first_chunk()?;
        Some((u64::from_ne_bytes(*bytes), length.min(left)))
    });
    if let Some((start, length)) = pointed
        && from(pieces, start).is_none()
    {
        let range = (start, length as usize);
        pieces.push((start, read_range(pid, range, &grown, |_| true)));
    }
    if let Some(list) = &wanted.list {
        let mut followed = Followed {
            pid,
            copied,
            grown: &grown,
            left: MOST_OBJECTS,
        };
        // As far as it can be followed.
        let _ = followed.read(list, pieces);
    }
    all
}

/// The objects of a list, as they are followed.
struct Followed<'a, G> {
    pid: u32,
    copied: (u64, &'a [u8]),
    grown: &'a G,
    /// So many more may be read.
    left: usize,
}

impl<G: Fn(Option<Vec<u8>>, usize) -> Vec<u8>> Followed<'_, G> {
    /// Adds the objects of a list that are in no piece yet.
    fn read(&mut self, list: &LinkedList, pieces: &mut Vec<(u64, Vec<u8>)>) -> Option<()> {
        let mut object = self.word(list.head, pieces)?;
        if let Some(via) = list.via {
            object = self.word(object.checked_add(via)?, pieces)?;
        }
        for _ in 0..MOST_IN_LIST {
            if object == 0 {
                break;
            }
            self.ensure(object, list.size, pieces)?;
            object = self.word(object.checked_add(list.next?)?, pieces)?;
        }
        Some(())
    }

    fn word(&mut self, at: u64, pieces: &mut Vec<(u64, Vec<u8>)>) -> Option<u64> {
        self.ensure(at, 8, pieces)?;
        let bytes = self.known(at, pieces)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    }

    /// Reads so many bytes unless they are known.
    fn ensure(&mut self, at: u64, size: u64, pieces: &mut Vec<(u64, Vec<u8>)>) -> Option<()> {
        let size = usize::try_from(size).ok()?;
        if self
            .known(at, pieces)
            .is_some_and(|known| known.len() >= size)
        {
            return Some(());
        }
        self.left = self.left.checked_sub(1)?;
        let bytes = read_range(self.pid, (at, size), self.grown, |_| true);
        let is_whole = bytes.len() == size;
        pieces.push((at, bytes));
        is_whole.then_some(())
    }

    fn known<'b>(&'b self, at: u64, pieces: &'b [(u64, Vec<u8>)]) -> Option<&'b [u8]> {
        let (start, bytes) = self.copied;
        let offset = at
            .checked_sub(start)
            .and_then(|it| usize::try_from(it).ok());
        let of_copied = offset.and_then(|offset| bytes.get(offset..));
        let of_copied = of_copied.filter(|rest| rest.len() >= 8);
        of_copied.or_else(|| from(pieces, at))
    }
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
/// than to read what is. `goes_on` says whether to read more than so many.
fn read_range(
    pid: u32,
    (start, length): (u64, usize),
    grown: &impl Fn(Option<Vec<u8>>, usize) -> Vec<u8>,
    mut goes_on: impl FnMut(usize) -> bool,
) -> Vec<u8> {
    let mut size = length.min(AT_FIRST);
    let mut bytes = grown(None, size);
    loop {
        let missing = size - bytes.len();
        let at = start + bytes.len() as u64;
        let got = process::append_memory(pid, at, missing, &mut bytes).unwrap_or(0);
        if got < missing || size == length || !goes_on(bytes.len()) {
            return bytes;
        }
        size = length.min(size * 4);
        bytes = grown(Some(bytes), size);
    }
}

#[cfg(test)]
mod tests {
    use super::{AT_FIRST, Pieces, STACK_POINTER, copied_until, read_pieces};
    use prof_abi::{ByteOrder, EventAttr, SampleType};
    use prof_live::{StackStarts, WantedMemory};
    use prof_perfdata::write::{SampleEncoder, SampleFields};
    use prof_perfdata::{Event, Events, Record};

    #[test]
    fn what_lies_above_the_start_of_a_stack_may_change() {
        let attr = EventAttr {
            sample_type: SampleType::TID | SampleType::REGS_USER | SampleType::STACK_USER,
            sample_regs_user: 1 << STACK_POINTER,
            ..EventAttr::default()
        };
        let mut stack = vec![5_u8; 1024];
        let sp = stack.as_ptr() as u64;
        let mut bytes = Vec::new();
        SampleEncoder::new(&attr)
            .encode(
                &SampleFields {
                    pid: std::process::id(),
                    tid: 8,
                    regs_user: (2, &[sp]),
                    stack_user: &stack,
                    ..SampleFields::default()
                },
                &mut bytes,
            )
            .expect("short");
        let mut events = Events::new(ByteOrder::NATIVE);
        events.push(Event::new(attr, vec![1]));
        let record = Record::new(&bytes, 0, &events).expect("a record");
        let starts = StackStarts::default();
        let mut now = Vec::new();
        let mut until = |starts: &StackStarts, is_as_then| {
            copied_until(&record, starts, |_| is_as_then, &mut now)
        };
        if until(&starts, true).is_none() {
            println!("skipped: process_vm_readv is not permitted");
            return;
        }
        assert_eq!(until(&starts, false), None, "other registers");
        stack[700] = 6;
        let all = Some(sp + stack.len() as u64);
        assert_eq!(until(&starts, true), None);
        for (start, expected) in [(640, all), (760, None), (2048, None)] {
            starts.tell(8, sp + start);
            assert_eq!(until(&starts, true), expected, "{start}");
        }
        // That of another stack.
        starts.tell(8, sp - 64);
        assert_eq!(until(&starts, true), None);
        starts.tell(8, sp + 640);
        stack[600] = 6;
        assert_eq!(until(&starts, true), None);
    }

    #[test]
    fn of_a_stack_counts_what_was_read_while_its_thread_stood_still() {
        let stack = vec![5_u8; 40 * AT_FIRST];
        let start = stack.as_ptr() as u64;
        let wanted = WantedMemory {
            ranges: vec![start..start + stack.len() as u64, start..start + 8],
            ..WantedMemory::default()
        };
        let pid = std::process::id() as i32;
        let new = |old: Option<Vec<u8>>, _| old.unwrap_or_default();
        // What is kept and what is not, where the thread goes on after so many looks.
        let read = |looks: u32, has_stayed: bool| {
            let mut left = looks;
            let stays = || {
                let stays = left > 0;
                left = left.saturating_sub(1);
                stays
            };
            let pieces: Pieces = read_pieces(pid, (start, &[]), &wanted, new, stays);
            let lengths = |pieces: Vec<(u64, Vec<u8>)>| -> Vec<usize> {
                pieces.into_iter().map(|(_, bytes)| bytes.len()).collect()
            };
            pieces.if_stayed(has_stayed).map(lengths)
        };
        if read(9, true)[0].is_empty() {
            println!("skipped: process_vm_readv is not permitted");
            return;
        }
        let all = stack.len();
        assert_eq!(read(9, true), [vec![all, 8], vec![]]);
        assert_eq!(read(9, false), [vec![16 * AT_FIRST], vec![8]]);
        // That it was back and has left again tells nothing.
        for has_stayed in [false, true] {
            assert_eq!(read(2, has_stayed), [vec![4 * AT_FIRST], vec![]]);
            assert_eq!(read(1, has_stayed), [vec![AT_FIRST], vec![]]);
            assert_eq!(read(0, has_stayed), [vec![], vec![AT_FIRST]]);
        }
    }
}
