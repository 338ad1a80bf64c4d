//! The ring in which the kernel leaves records.

use crate::event::Event;
use crate::mmap_page::{MmapPage, PageState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

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
    full: Full,
    /// Of an overwriting ring: where the newest record began when it was last
    /// taken.
    taken: u64,
}

/// Bytes that the kernel may be writing before it publishes them: a record,
/// 64 KiB at most, in each of the four contexts that interrupt one another
/// (task, soft and hard interrupt, NMI).
const IN_FLIGHT: u64 = 4 << 16;

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
pub(crate) struct Mapping {
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
        Self::map_fd(event.as_fd(), pages, full)
    }

    /// What looks as an event, for tests.
    #[cfg(test)]
    pub(crate) fn map_file(file: BorrowedFd<'_>, pages: usize) -> io::Result<Self> {
        Self::map_fd(file, pages, Full::KernelWaits)
    }

    fn map_fd(event: BorrowedFd<'_>, pages: usize, full: Full) -> io::Result<Self> {
        let page = crate::page_size();
        let mapped = pages
            .checked_add(1)
            .and_then(|pages| pages.checked_mul(page))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        let protection = match full {
            Full::KernelWaits => libc::PROT_READ | libc::PROT_WRITE,
            Full::Overwrites => libc::PROT_READ,
        };
        let mut mapping = Mapping::new(event, mapped, protection)?;
        mapping.find_data(page)?;
        let view = RingView {
            mapping: Arc::new(mapping),
        };
        Ok(Self {
            view,
            full,
            taken: 0,
        })
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
    /// returns their bytes. The records are whole. Of an overwriting ring
    /// nothing: there is no room to give back.
    pub fn take(&mut self, out: &mut Vec<u8>) -> usize {
        let mapping = &*self.view.mapping;
        let Some(control) = self.writable_control() else {
            return 0;
        };
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
    /// goes on at the ring's start is put together first. Of an overwriting
    /// ring none.
    pub fn take_each(&mut self, each: impl FnMut(&[u8])) {
        self.take_each_until(self.view.head(), each);
    }

    /// The same of the records before `end`, a place where a record began or
    /// will begin, as [`RingView::head`] tells it.
    pub fn take_each_until(&mut self, end: u64, each: impl FnMut(&[u8])) {
        let mapping = &*self.view.mapping;
        let Some(control) = self.writable_control() else {
            return;
        };
        let tail = control.data_tail.load(Ordering::Relaxed);
        // ORDERING: Acquire as in `take`.
        let head = control.data_head.load(Ordering::Acquire);
        // Head and tail only grow: an end between them is no further from the
        // tail than the head is.
        let end = match end.wrapping_sub(tail) <= head.wrapping_sub(tail) {
            true => end,
            false => head,
        };
        mapping.each(tail, end, each);
        // ORDERING: Release as in `take`.
        control.data_tail.store(end, Ordering::Release);
    }

    /// Hands each record from `from` on to `each`, where it is and stays, and
    /// says where the next one will begin. What was taken is not seen again.
    /// Of an overwriting ring none.
    pub fn look_at_each(&mut self, from: u64, each: impl FnMut(&[u8])) -> u64 {
        let mapping = &*self.view.mapping;
        let Some(control) = self.writable_control() else {
            return from;
        };
        let tail = control.data_tail.load(Ordering::Relaxed);
        // ORDERING: Acquire as in `take`.
        let head = control.data_head.load(Ordering::Acquire);
        let from = match from.wrapping_sub(tail) <= head.wrapping_sub(tail) {
            true => from,
            false => tail,
        };
        mapping.each(from, head, each);
        head
    }

    /// Of an overwriting ring whose output is paused: all its bytes from the
    /// newest record to older ones. The last record may be cut, and zeros
    /// follow if the ring was not filled yet; [`Records`] steps over neither.
    pub fn read_newest(&self, out: &mut Vec<u8>) {
        let mapping = &*self.view.mapping;
        // ORDERING: Acquire as in `take`.
        let head = mapping.control().data_head.load(Ordering::Acquire);
        mapping.copy(head, mapping.size, out);
    }

    /// Appends what an overwriting ring got since the last time, whole records
    /// with the newest first, and says how many bytes that is.
    ///
    /// A ring that has room for as much again is copied while the kernel goes
    /// on: it writes elsewhere, and nothing is lost. One that is nearly full or
    /// was overwritten is paused meanwhile, as in [`Ring::dump`]. `running` is
    /// the event that owns the ring; `None` if all events of the ring are
    /// disabled.
    ///
    /// # Errors
    /// As [`Event::pause_output`]; what cannot have been overwritten is appended
    /// all the same.
    pub fn take_newest(&mut self, running: Option<&Event>, out: &mut Vec<u8>) -> io::Result<usize> {
        let start = out.len();
        let mut head = self.copy_since_taken(out);
        let mut paused = Ok(());
        if let Some(event) = running {
            (head, paused) = self.beside_kernel(event, head, (start, out));
        }
        let mut records = Records::of(out.get(start..).unwrap_or_default());
        records.by_ref().for_each(drop);
        let cut = records.rest().len();
        out.truncate(out.len() - cut);
        self.taken = head;
        paused.map(|()| out.len() - start)
    }

    /// Makes sure that the kernel, which goes on, has written nothing of what
    /// was copied from `head` on to `out`, behind `start`; says where the newest
    /// record of the copy begins.
    fn beside_kernel(
        &self,
        event: &Event,
        head: u64,
        (start, out): (usize, &mut Vec<u8>),
    ) -> (u64, io::Result<()>) {
        let size = self.size() as u64;
        // ORDERING: Acquire, so that the copy is done before the head is looked
        // at again. Partner: the barriers around the kernel's store of it.
        fence(Ordering::Acquire);
        let reached = self.view.head().wrapping_sub(IN_FLIGHT);
        if self.taken.wrapping_sub(reached) <= size {
            return (head, Ok(()));
        }
        if let Err(refused) = event.pause_output(true) {
            // Older ones may be overwritten.
            let whole = reached.wrapping_add(size).wrapping_sub(head).cast_signed();
            let whole = usize::try_from(whole).unwrap_or(0).min(out.len() - start);
            out.truncate(start + whole);
            return (head, Err(refused));
        }
        out.truncate(start);
        let head = self.copy_since_taken(out);
        (head, event.pause_output(false))
    }

    /// Copies from the newest record to where the newest was when it was last
    /// taken, or to the oldest there is; says where the newest begins.
    fn copy_since_taken(&self, out: &mut Vec<u8>) -> u64 {
        let mapping = &*self.view.mapping;
        // ORDERING: Acquire as in `take`.
        let head = mapping.control().data_head.load(Ordering::Acquire);
        let length = usize::try_from(self.taken.wrapping_sub(head)).unwrap_or(mapping.size);
        mapping.copy(head, length.min(mapping.size), out);
        head
    }

    /// Appends the whole records of an overwriting ring, newest first, and
    /// says how many they are. `event` owns the ring; its output is paused
    /// meanwhile, and what it would have written is discarded: the kernel
    /// counts that as lost, and an overwriting ring loses nothing else, so
    /// these losses are no fault of the ring's size.
    ///
    /// Records of an event that is disabled can be read without a pause, by
    /// [`Ring::read_newest`]. Fails as [`Event::pause_output`].
    pub fn dump(&self, event: &Event, out: &mut Vec<u8>) -> io::Result<usize> {
        let start = out.len();
        event.pause_output(true)?;
        self.read_newest(out);
        event.pause_output(false)?;
        let mut records = Records::of(out.get(start..).unwrap_or_default());
        let count = records.by_ref().count();
        let cut = records.rest().len();
        out.truncate(out.len() - cut);
        Ok(count)
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.view.mapping
    }

    /// The control page, unless it is mapped read-only.
    pub(crate) fn writable_control(&self) -> Option<&MmapPage> {
        (self.full == Full::KernelWaits).then(|| self.view.mapping.control())
    }
}

/// Steps over bytes from record to record, for as long as records are whole.
///
/// ```
/// use prof_sys::Records;
/// let mut bytes = vec![9, 0, 0, 0, 0, 0, 8, 0];
/// bytes.extend([0; 8]); // a ring that is not full goes on with zeros
/// let mut records = Records::of(&bytes);
/// # #[cfg(target_endian = "little")]
/// assert_eq!(records.next().map(<[u8]>::len), Some(8));
/// assert_eq!(records.next(), None);
/// # #[cfg(target_endian = "little")]
/// assert_eq!(records.rest(), [0; 8]);
/// ```
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records of `bytes`, as [`Ring::take`] and [`Ring::read_newest`]
    /// append them: each begins with its type (4 bytes), `misc` (2) and its
    /// size in bytes (2), header included.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not stepped over: zeros, a record that is cut, or nothing.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let size = self.rest.get(6..8)?;
        let size = usize::from(u16::from_ne_bytes([size[0], size[1]]));
        let record = self.rest.get(..size).filter(|record| record.len() >= 8)?;
        self.rest = self.rest.get(size..)?;
        Some(record)
    }
}

impl Mapping {
    /// The first `mapped` bytes of an event's memory, without data as yet.
    fn new(event: BorrowedFd<'_>, mapped: usize, protection: libc::c_int) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // no memory of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                protection,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).expect("mmap does not give address 0 unasked");
        Ok(Self {
            base,
            mapped,
            data: base,
            size: 0,
        })
    }

    /// The control page alone, read-only: nothing is sampled into it, and it
    /// takes one page of what the user may lock.
    pub(crate) fn of_page(event: &Event) -> io::Result<Self> {
        Self::new(event.as_fd(), crate::page_size(), libc::PROT_READ)
    }

    /// Bytes from the event's first to the end of its records.
    pub(crate) fn end(&self) -> usize {
        self.data.addr().get() - self.base.addr().get() + self.size
    }

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

    pub(crate) fn control(&self) -> &MmapPage {
        // SAFETY: `base` is a successful mapping of at least one page, which
        // is larger than `MmapPage` and aligned, and lives as long as
        // `self`; kernel and reader touch these fields as atomics only, and
        // nothing reads what is reserved.
        unsafe { self.base.cast::<MmapPage>().as_ref() }
    }

    /// Hands each record between `from` and `to` to `each`. The caller owns
    /// them: the kernel does not write there, and nobody gives their room back
    /// meanwhile.
    fn each(&self, from: u64, to: u64, mut each: impl FnMut(&[u8])) {
        let length = usize::try_from(to.wrapping_sub(from))
            .unwrap_or(self.size)
            .min(self.size);
        let mut joined = Vec::new();
        let mut done = 0;
        while done < length {
            let start = ((from + done as u64) & (self.size as u64 - 1)) as usize;
            let straight = (self.size - start).min(length - done);
            // SAFETY: `start + straight <= size`, so it lies in the data area.
            // The kernel does not write what lies between tail and head, of
            // which this is a part, and the tail moves only when the caller
            // is back, after the last use.
            let here =
                unsafe { std::slice::from_raw_parts(self.data.as_ptr().add(start), straight) };
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
                    self.copy(from + done as u64, size, &mut joined);
                    each(&joined);
                }
            }
            done += size;
        }
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
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The control page at one moment; `None` if the kernel wrote it all the time.
    pub fn page(&self) -> Option<PageState> {
        self.mapping.control().consistent(PageState::clone)
    }

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
mod tests;
