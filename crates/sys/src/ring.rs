//! The ring in which the kernel leaves records.

use crate::event::Event;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct perf_event_mmap_page`, the part that a reader of records needs.
/// Source: the UAPI header; the reserved space keeps `data_head` at 1 KiB.
#[repr(C)]
struct ControlPage {
    before: [u8; 1024],
    data_head: AtomicU64,
    data_tail: AtomicU64,
    data_offset: AtomicU64,
    data_size: AtomicU64,
}

const _: () = assert!(std::mem::offset_of!(ControlPage, data_head) == 1024);
const _: () = assert!(std::mem::offset_of!(ControlPage, data_tail) == 1032);
const _: () = assert!(std::mem::offset_of!(ControlPage, data_offset) == 1040);
const _: () = assert!(std::mem::offset_of!(ControlPage, data_size) == 1048);

/// Who gives way when the ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// The kernel: it drops records and counts them.
    KernelWaits,
    /// The oldest records: the mapping is read-only.
    Overwrites,
}

/// A mapped ring: one control page and 2ⁿ pages of records. Its owner takes
/// the records; others may look at them through a [`RingView`].
///
/// ```text
///            tail                 head
///   ──────────┬────────────────────┬──────────────
///   free      │ records to take    │ free            (offsets modulo size)
///   ──────────┴────────────────────┴──────────────
/// ```
///
/// Head and tail only grow; a record may begin at the end of the ring and go
/// on at its start. The kernel moves the head past whole records only.
#[derive(Debug)]
pub struct Ring {
    view: RingView,
}

/// A look into a ring that another thread may own and empty.
///
/// It shares the owner's mapping: a second one would be counted against what
/// the user may lock, by kernels since 6.15 for as long as the user has any
/// process.
#[derive(Debug, Clone)]
pub struct RingView {
    mapping: Arc<Mapping>,
}

/// Unmapped when the ring and all views of it are gone.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    mapped: usize,
    data: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

// SAFETY: what takes `&self` loads and stores atomics and copies out bytes
// that only the kernel writes.
unsafe impl Sync for Mapping {}

impl Ring {
    /// Maps the event's ring with `pages` data pages, a power of two.
    /// `EINVAL` if it is not, or for an inherited event on any CPU; `EPERM`
    /// if the memory may not be locked; `EBUSY` if it writes to another ring.
    pub fn map(event: &Event, pages: usize) -> io::Result<Self> {
        Self::map_as(event, pages, Full::KernelWaits)
    }

    /// Maps a ring that always holds the newest records; for an event with
    /// `WRITE_BACKWARD`, read with [`Ring::read_newest`].
    pub fn map_overwriting(event: &Event, pages: usize) -> io::Result<Self> {
        Self::map_as(event, pages, Full::Overwrites)
    }

    fn map_as(event: &Event, pages: usize, full: Full) -> io::Result<Self> {
        let page = crate::page_size();
        let mapped = pages
            .checked_add(1)
            .and_then(|pages| pages.checked_mul(page))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        let protection = match full {
            Full::KernelWaits => libc::PROT_READ | libc::PROT_WRITE,
            Full::Overwrites => libc::PROT_READ,
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // no memory of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                protection,
                libc::MAP_SHARED,
                event.as_fd().as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).expect("mmap does not give address 0 unasked");
        let mut mapping = Mapping {
            base,
            mapped,
            data: base,
            size: 0,
        };
        mapping.find_data(page)?;
        let view = RingView {
            mapping: Arc::new(mapping),
        };
        Ok(Self { view })
    }

    /// A look at the records for another thread; valid even when the ring is
    /// gone.
    pub fn view(&self) -> RingView {
        self.view.clone()
    }

    /// Bytes of records that it can hold.
    pub fn size(&self) -> usize {
        self.view.size()
    }

    /// Bytes of records waiting.
    pub fn waiting(&self) -> usize {
        self.view.waiting()
    }

    /// Appends all waiting records to `out`, gives their room back, and
    /// returns their bytes. The records are whole.
    pub fn take(&mut self, out: &mut Vec<u8>) -> usize {
        let mapping = &*self.view.mapping;
        let control = mapping.control();
        let tail = control.data_tail.load(Ordering::Relaxed);
        // ORDERING: Acquire, so that the records which the kernel wrote before
        // it moved the head are visible to the copies below. Partner: the
        // barrier before the kernel's store in perf_output_put_handle().
        let head = control.data_head.load(Ordering::Acquire);
        let length = usize::try_from(head.wrapping_sub(tail))
            .unwrap_or(mapping.size)
            .min(mapping.size);
        mapping.copy(tail, length, out);
        // ORDERING: Release, so that our reads of those bytes are done before
        // the kernel may overwrite them. Partner: the kernel's load of
        // data_tail in __perf_output_begin().
        control.data_tail.store(head, Ordering::Release);
        length
    }

    /// Hands each waiting record to `each`, where it is, and then gives their
    /// room back; for callers that do not need all of a record. A record that
    /// goes on at the ring's start is put together first.
    pub fn take_each(&mut self, mut each: impl FnMut(&[u8])) {
        let mapping = &*self.view.mapping;
        let control = mapping.control();
        let tail = control.data_tail.load(Ordering::Relaxed);
        // ORDERING: Acquire as in `take`.
        let head = control.data_head.load(Ordering::Acquire);
        let length = usize::try_from(head.wrapping_sub(tail))
            .unwrap_or(mapping.size)
            .min(mapping.size);
        let mut joined = Vec::new();
        let mut done = 0;
        while done < length {
            let start = ((tail + done as u64) & (mapping.size as u64 - 1)) as usize;
            let straight = (mapping.size - start).min(length - done);
            // SAFETY: `start + straight <= size`, so it lies in the data area.
            // The kernel does not write what lies between tail and head, and
            // the tail moves only below, after the last use.
            let here =
                unsafe { std::slice::from_raw_parts(mapping.data.as_ptr().add(start), straight) };
            // Records are multiples of 8 bytes, so a header never wraps.
            let size = here.get(6..8).map_or(0, |size| {
                usize::from(u16::from_ne_bytes([size[0], size[1]]))
            });
            if size < 8 || size > length - done {
                break;
            }
            match here.get(..size) {
                Some(record) => each(record),
                None => {
                    joined.clear();
                    mapping.copy(tail + done as u64, size, &mut joined);
                    each(&joined);
                }
            }
            done += size;
        }
        // ORDERING: Release as in `take`.
        control.data_tail.store(head, Ordering::Release);
    }

    /// Of an overwriting ring whose output is paused: all its bytes from the
    /// newest record to older ones. The last record may be cut, and zeros
    /// follow if the ring was not filled yet.
    pub fn read_newest(&self, out: &mut Vec<u8>) {
        let mapping = &*self.view.mapping;
        // ORDERING: Acquire as in `take`.
        let head = mapping.control().data_head.load(Ordering::Acquire);
        mapping.copy(head, mapping.size, out);
    }
}

impl Mapping {
    /// Learns from the control page where the records are; kernels before 4.1
    /// leave the fields 0.
    fn find_data(&mut self, page: usize) -> io::Result<()> {
        let number = |value: &AtomicU64| usize::try_from(value.load(Ordering::Relaxed)).ok();
        let control = self.control();
        let offset = number(&control.data_offset)
            .filter(|&at| at != 0)
            .unwrap_or(page);
        let size = number(&control.data_size)
            .filter(|&size| size != 0)
            .unwrap_or(self.mapped - page);
        let fits = offset
            .checked_add(size)
            .is_some_and(|end| end <= self.mapped);
        if !fits || !size.is_power_of_two() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: `offset` is inside the mapping, as just checked.
        self.data = unsafe { self.base.add(offset) };
        self.size = size;
        Ok(())
    }

    fn control(&self) -> &ControlPage {
        // SAFETY: `base` is a successful mapping of at least one page, which
        // is larger than `ControlPage` and aligned, and lives as long as
        // `self`; kernel and reader touch these fields as 8-byte atomics only,
        // and nothing reads `before`.
        unsafe { self.base.cast::<ControlPage>().as_ref() }
    }

    /// Appends `length` bytes, at most the ring's size, from `at` on.
    fn copy(&self, at: u64, length: usize, out: &mut Vec<u8>) {
        debug_assert!(length <= self.size);
        let mask = self.size as u64 - 1;
        let start = (at & mask) as usize;
        let first = length.min(self.size - start);
        out.reserve(length);
        let end = out.len();
        // SAFETY: `start + first <= size` and `length - first <= start`, so
        // both pieces lie in the data area; `reserve` made room for `length`
        // bytes behind `end`, which do not overlap the mapping; the copies
        // initialise exactly the bytes that `set_len` adds. The kernel does
        // not write what lies between tail and head; in an overwriting ring a
        // caller pauses it, and racing bytes would be garbage records, not
        // undefined values, since they are copied as raw bytes.
        unsafe {
            let to = out.as_mut_ptr().add(end);
            std::ptr::copy_nonoverlapping(self.data.as_ptr().add(start), to, first);
            std::ptr::copy_nonoverlapping(self.data.as_ptr(), to.add(first), length - first);
            out.set_len(end + length);
        }
    }
}

impl RingView {
    /// Bytes of records that it can hold.
    pub fn size(&self) -> usize {
        self.mapping.size
    }

    /// Bytes of records waiting.
    pub fn waiting(&self) -> usize {
        let control = self.mapping.control();
        let head = control.data_head.load(Ordering::Relaxed);
        let tail = control.data_tail.load(Ordering::Relaxed);
        usize::try_from(head.wrapping_sub(tail))
            .unwrap_or(self.mapping.size)
            .min(self.mapping.size)
    }

    /// Where the next record will begin, counted from the ring's first byte
    /// ever.
    pub fn head(&self) -> u64 {
        // ORDERING: Acquire as in `take`, for `peek`.
        self.mapping.control().data_head.load(Ordering::Acquire)
    }

    /// Where the oldest record begins whose room was not given back.
    pub fn tail(&self) -> u64 {
        self.mapping.control().data_tail.load(Ordering::Acquire)
    }

    /// Whether what was written at `at` is still there, taken or not: the
    /// kernel writes over it one ring later. Half a ring is left for records
    /// that it is just writing.
    pub fn remembers(&self, at: u64) -> bool {
        let is_recent = self
            .head()
            .checked_sub(at)
            .is_some_and(|since| since <= self.mapping.size as u64 / 2);
        is_recent || self.mapping.control().data_tail.load(Ordering::Relaxed) <= at
    }

    /// Replaces `out` by `length` bytes from `at` on, which stay in the ring;
    /// false if they are not there, or no longer: whoever takes records may be
    /// another thread.
    pub fn peek(&self, at: u64, length: usize, out: &mut Vec<u8>) -> bool {
        out.clear();
        let there = self.head().checked_sub(at);
        if length > self.mapping.size || there.is_none_or(|there| there < length as u64) {
            return false;
        }
        self.mapping.copy(at, length, out);
        // ORDERING: the fence keeps the copy before the loads: if the room was
        // given back meanwhile, the kernel may have overwritten it. Partners:
        // the Release in `take`, and the barrier before the kernel's store of
        // the head.
        std::sync::atomic::fence(Ordering::Acquire);
        self.remembers(at)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `mapped` are those of our mmap, and no reference
        // into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::Ring;
    use crate::event::{Event, Target};
    use prof_abi::{AttrFlags, ByteOrder, EventAttr, SampleType};

    #[test]
    fn records_one_by_one_are_those_taken_together() {
        let Some(event) = faults(AttrFlags(0)) else {
            return;
        };
        let mut ring = Ring::map(&event, 1).expect("one page");
        let mut all = 0;
        // A page holds 170 records of 24 bytes and a part of one.
        for _ in 0..20 {
            touch(100);
            let waiting = ring.waiting();
            let (mut bytes, mut records) = (0, 0);
            ring.take_each(|record| {
                assert_eq!(ByteOrder::NATIVE.u16(record, 6), Some(record.len() as u16));
                bytes += record.len();
                records += 1;
            });
            assert!(bytes >= waiting);
            all += records;
        }
        assert!(all >= 2000, "{all} records");
    }

    /// A sample of 24 bytes for each page that this thread touches.
    fn faults(flags: AttrFlags) -> Option<Event> {
        let attr = EventAttr {
            kind: 1,
            config: 2,
            sample_period: 1,
            sample_type: SampleType::IP | SampleType::ADDR,
            flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV | flags,
            wakeup: 1,
            ..EventAttr::default()
        };
        let event = Event::open(&attr, Target::THIS, None).ok();
        if event.is_none() {
            println!("skipped: perf_event_open is not permitted here");
        }
        event
    }

    fn touch(pages: usize) {
        // SAFETY: a fresh private mapping, written within its length and
        // unmapped; untouched pages fault once each.
        unsafe {
            let length = pages * crate::page_size();
            let memory = libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            assert_ne!(memory, libc::MAP_FAILED);
            libc::madvise(memory, length, libc::MADV_NOHUGEPAGE);
            for page in 0..pages {
                memory
                    .cast::<u8>()
                    .add(page * crate::page_size())
                    .write_volatile(1);
            }
            libc::munmap(memory, length);
        }
    }

    /// Walks records; panics if one is not whole.
    fn kinds(mut records: &[u8]) -> Vec<u32> {
        let mut kinds = Vec::new();
        while !records.is_empty() {
            let size = ByteOrder::NATIVE.u16(records, 6).expect("header") as usize;
            assert!(size >= 8 && size <= records.len(), "whole records");
            kinds.push(ByteOrder::NATIVE.u32(records, 0).expect("header"));
            records = &records[size..];
        }
        kinds
    }

    #[test]
    fn a_view_sees_records_until_they_are_written_over() {
        let Some(event) = faults(AttrFlags(0)) else {
            return;
        };
        let mut ring = Ring::map(&event, 1).expect("a page");
        let beside = ring.view();
        touch(20);
        let (mut seen, mut taken) = (Vec::new(), Vec::new());
        let (tail, head) = (beside.tail(), beside.head());
        assert!(beside.peek(tail, (head - tail) as usize, &mut seen));
        assert!(!beside.peek(tail, usize::MAX, &mut Vec::new()));
        assert!(!beside.peek(beside.head(), 8, &mut Vec::new()));
        ring.take(&mut taken);
        assert_eq!(seen[..], taken[..seen.len()]);
        assert!(kinds(&seen).len() >= 20);
        let mut again = Vec::new();
        assert!(beside.peek(tail, seen.len(), &mut again), "still there");
        assert_eq!(again, seen);
        // More than half of the ring's 4096 bytes.
        touch(100);
        assert!(!beside.peek(tail, 24, &mut Vec::new()), "taken long ago");
        // What was not taken is never written over.
        touch(100);
        assert!(beside.peek(beside.tail(), 24, &mut again));
    }

    #[test]
    fn records_come_out_whole_over_many_wraps() {
        let Some(event) = faults(AttrFlags(0)) else {
            return;
        };
        let mut ring = Ring::map(&event, 1).expect("a page");
        let mut samples = 0;
        let mut out = Vec::new();
        for _ in 0..50 {
            touch(100);
            out.clear();
            assert_eq!(ring.waiting(), ring.take(&mut out));
            samples += kinds(&out).iter().filter(|&&kind| kind == 9).count();
        }
        assert!(samples >= 5000, "{samples}");
    }

    #[test]
    fn a_full_ring_says_how_much_it_lost() {
        let Some(event) = faults(AttrFlags(0)) else {
            return;
        };
        let mut ring = Ring::map(&event, 1).expect("a page");
        touch(1000);
        let mut out = Vec::new();
        ring.take(&mut out);
        // The LOST record is written with the next record that finds room.
        touch(1);
        ring.take(&mut out);
        assert!(kinds(&out).contains(&2), "a LOST record");
        assert!(out.len() <= 2 * ring.size());
    }

    #[test]
    fn an_overwriting_ring_holds_the_newest_first() {
        let Some(event) = faults(AttrFlags::WRITE_BACKWARD) else {
            return;
        };
        let ring = Ring::map_overwriting(&event, 1).expect("a page");
        touch(1000);
        event.pause_output(true).expect("pause");
        let mut out = Vec::new();
        ring.read_newest(&mut out);
        assert_eq!(out.len(), ring.size());
        let whole = out.len() / 24 * 24;
        assert!(kinds(&out[..whole]).iter().all(|&kind| kind == 9));
    }

    #[test]
    fn three_pages_are_refused() {
        let Some(event) = faults(AttrFlags(0)) else {
            return;
        };
        let error = Ring::map(&event, 3).expect_err("not a power of two");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let error = Ring::map(&event, usize::MAX).expect_err("too many");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
