//! The AUX area: where a tracing PMU leaves its data, beside the ring.

use crate::event::Event;
use crate::mmap_page::MmapPage;
use crate::ring::{Ring, RingView};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// What happens when the area is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuxMode {
    /// The PMU stops until the data was taken, and marks what is missing with
    /// `PERF_AUX_FLAG_TRUNCATED`.
    Waits,
    /// The newest data takes the place of the oldest: a snapshot is read when
    /// it is wanted.
    Snapshot,
}

/// Why there is no AUX area.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuxError {
    /// It would begin before the ring's records end.
    #[error("the AUX area begins at byte {offset}, but the ring ends at {ring_end}")]
    Overlaps {
        /// Where it was to begin, bytes from the start of the mapping.
        offset: u64,
        /// Where it could, bytes.
        ring_end: u64,
    },
    /// It does not begin with a page.
    #[error("the AUX area begins at byte {offset}, which is not a multiple of the page size")]
    Unaligned {
        /// Where it was to begin, bytes.
        offset: u64,
    },
    /// It is not a power of two of pages.
    #[error("an AUX area of {size} bytes is not a power of two of whole pages")]
    Size {
        /// Its bytes.
        size: u64,
    },
    /// The kernel refused it: `EOPNOTSUPP` if the event's PMU does not trace,
    /// `EPERM` if so much memory may not be locked (it counts as rings do:
    /// first against `kernel.perf_event_mlock_kb`, then `RLIMIT_MEMLOCK`),
    /// `EBUSY` if it is mapped already, `EACCES` for a ring of another event.
    #[error(transparent)]
    Refused(#[from] io::Error),
}

/// An event's mapped AUX area.
///
/// The data is the PMU's own; AUX records in the ring say which bytes are
/// whole, so take these first. Where the area was full, the kernel has disabled
/// the event: enable it again when its data was taken.
#[derive(Debug)]
pub struct AuxArea {
    /// Of a ring whose control page may be written.
    ring: RingView,
    data: NonNull<u8>,
    size: usize,
    mode: AuxMode,
    /// Of a snapshot area: the head when it was last taken.
    taken: u64,
    /// And whether it has been full since it was mapped.
    was_full: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread; bytes are only
// copied out, by the one owner.
unsafe impl Send for AuxArea {}

// SAFETY: what takes `&self` loads and stores atomics and copies bytes out, which
// only the PMU writes.
unsafe impl Sync for AuxArea {}

impl AuxArea {
    /// Maps an area of `size` bytes behind `ring`, which must be the event's
    /// own and one that the kernel waits for ([`Ring::map`]).
    pub fn map(event: &Event, ring: &Ring, size: u64, mode: AuxMode) -> Result<Self, AuxError> {
        let page = crate::page_size() as u64;
        let end = (ring.mapping().end() as u64).next_multiple_of(page);
        Self::map_at(event.as_fd(), ring, (end, size), mode)
    }

    /// The same at `place`: offset and size in bytes.
    fn map_at(
        event: BorrowedFd<'_>,
        ring: &Ring,
        place: (u64, u64),
        mode: AuxMode,
    ) -> Result<Self, AuxError> {
        let (offset, bytes) = place;
        check(ring.mapping().end() as u64, offset, bytes)?;
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let size = usize::try_from(bytes).map_err(|_| invalid())?;
        let at = libc::off_t::try_from(offset).map_err(|_| invalid())?;
        let control = ring.writable_control().ok_or_else(invalid)?;
        // The kernel compares them with what is mapped next.
        control.aux_offset.store(offset, Ordering::Relaxed);
        control.aux_size.store(bytes, Ordering::Relaxed);
        let protection = match mode {
            AuxMode::Waits => libc::PROT_READ | libc::PROT_WRITE,
            AuxMode::Snapshot => libc::PROT_READ,
        };
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // no memory of ours.
        let data = unsafe {
            libc::mmap(
                null,
                size,
                protection,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                at,
            )
        };
        if data == libc::MAP_FAILED {
            return Err(io::Error::last_os_error().into());
        }
        let data = NonNull::new(data.cast()).expect("mmap does not give address 0 unasked");
        Ok(Self {
            ring: ring.view(),
            data,
            size,
            mode,
            taken: 0,
            was_full: false,
        })
    }

    /// Bytes that it can hold.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Where the next byte to take is, counted from the first ever; of a snapshot
    /// area where the last one that was taken ended.
    pub fn position(&self) -> u64 {
        match self.mode {
            AuxMode::Waits => self.control().aux_tail.load(Ordering::Relaxed),
            AuxMode::Snapshot => self.taken,
        }
    }

    /// Appends what came since the last time, gives its room back, and says
    /// how many bytes that is. Of a snapshot area nothing.
    pub fn take(&mut self, out: &mut Vec<u8>) -> usize {
        if self.mode == AuxMode::Snapshot {
            return 0;
        }
        let control = self.control();
        let tail = control.aux_tail.load(Ordering::Relaxed);
        // ORDERING: Acquire, so that data written before the head moved is
        // seen. Partner: the barrier in perf_aux_output_end().
        let head = control.aux_head.load(Ordering::Acquire);
        let length = usize::try_from(head.wrapping_sub(tail))
            .unwrap_or(self.size)
            .min(self.size);
        self.copy(tail, length, out);
        // ORDERING: Release, so that our reads are done before the PMU writes
        // there again. Partner: the load in perf_aux_output_begin().
        control.aux_tail.store(head, Ordering::Release);
        length
    }

    /// Of a snapshot area whose event is disabled: appends what came since the
    /// last time, or all that there is once the area was full, of either at most the
    /// newest `most` bytes, oldest first. Says at which position they begin.
    ///
    /// PMUs tell where in the area they are, not how often they went round it: that
    /// it was full is seen by data at its end, where a fresh mapping has zeros.
    pub fn take_newest(&mut self, most: usize, out: &mut Vec<u8>) -> u64 {
        let size = self.size as u64;
        // ORDERING: Acquire as in `take`.
        let head = self.control().aux_head.load(Ordering::Acquire);
        self.was_full |= head >= size || head < self.taken || self.ends_in_data();
        let (from, to) = match self.was_full {
            true if head < size => (head, head + size),
            true => (head - size, head),
            false => (self.taken, head),
        };
        let length = usize::try_from(to - from)
            .unwrap_or(self.size)
            .min(self.size)
            .min(most);
        let begins = to - length as u64;
        self.copy(begins, length, out);
        self.taken = head;
        begins
    }

    /// Whether the last page has anything but zeros.
    fn ends_in_data(&self) -> bool {
        let page = crate::page_size().min(self.size);
        let mut last = Vec::new();
        self.copy((self.size - page) as u64, page, &mut last);
        last.iter().any(|&byte| byte != 0)
    }

    fn control(&self) -> &MmapPage {
        self.ring.mapping().control()
    }

    /// Appends the whole area, oldest byte first; where it was not full yet it
    /// begins with zeros. The event is disabled meanwhile, or the PMU would
    /// write into what is being read, and enabled afterwards.
    pub fn snapshot(&self, event: &Event, out: &mut Vec<u8>) -> io::Result<()> {
        event.disable()?;
        self.copy_all(out);
        event.enable()
    }

    fn copy_all(&self, out: &mut Vec<u8>) {
        // ORDERING: Acquire as in `take`.
        let head = self.control().aux_head.load(Ordering::Acquire);
        self.copy(head, self.size, out);
    }

    /// Appends `length` bytes, at most the area's size, from `at` on.
    fn copy(&self, at: u64, length: usize, out: &mut Vec<u8>) {
        debug_assert!(length <= self.size);
        let start = (at & (self.size as u64 - 1)) as usize;
        let first = length.min(self.size - start);
        out.reserve(length);
        let end = out.len();
        // SAFETY: `start + first <= size` and `length - first <= start`, so
        // both pieces lie in the mapping; `reserve` made room behind `end`, and
        // the copies initialise exactly what `set_len` adds.
        unsafe {
            let to = out.as_mut_ptr().add(end);
            std::ptr::copy_nonoverlapping(self.data.as_ptr().add(start), to, first);
            std::ptr::copy_nonoverlapping(self.data.as_ptr(), to.add(first), length - first);
            out.set_len(end + length);
        }
    }
}

impl Drop for AuxArea {
    fn drop(&mut self) {
        // SAFETY: `data` and `size` are those of our mmap, and no reference
        // into it outlives `self`.
        unsafe { libc::munmap(self.data.as_ptr().cast(), self.size) };
    }
}

/// The rules of perf_event_open(2) for `aux_offset` and `aux_size`, in bytes.
fn check(ring_end: u64, offset: u64, size: u64) -> Result<(), AuxError> {
    let page = crate::page_size() as u64;
    if offset < ring_end {
        return Err(AuxError::Overlaps { offset, ring_end });
    }
    if !offset.is_multiple_of(page) {
        return Err(AuxError::Unaligned { offset });
    }
    if size < page || !size.is_power_of_two() {
        return Err(AuxError::Size { size });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{AuxArea, AuxError, AuxMode, check};
    use crate::event::{Event, Target};
    use crate::ring::Ring;
    use crate::testing::{page_faults, permitted};
    use prof_abi::{AttrFlags, ByteOrder, EventAttr};
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering::Relaxed;

    /// A file that looks as an event with a ring of one page, and room for two
    /// pages of AUX data behind it.
    fn file() -> (std::fs::File, Ring, u64) {
        let page = crate::page_size() as u64;
        let file = tempfile::tempfile().expect("a file");
        file.set_len(4 * page).expect("room");
        for (at, value) in [(1040, page), (1048, page)] {
            file.write_all_at(&value.to_ne_bytes(), at).expect("a page");
        }
        let ring = Ring::map_file(file.as_fd(), 1).expect("a ring");
        (file, ring, page)
    }

    #[test]
    fn places_that_the_kernel_would_refuse_are_named() {
        // covers unit: AUX-01, AUX-02, AUX-03
        let page = crate::page_size() as u64;
        assert!(check(2 * page, 2 * page, page).is_ok());
        assert!(check(2 * page, 4 * page, 8 * page).is_ok());
        assert!(matches!(
            check(2 * page, page, page),
            Err(AuxError::Overlaps { ring_end, .. }) if ring_end == 2 * page
        ));
        let unaligned = check(2 * page, 2 * page + 8, page).expect_err("not a page");
        assert!(unaligned.to_string().contains("not a multiple"));
        for size in [0, 8, 3 * page, page + 1] {
            assert!(matches!(
                check(2 * page, 2 * page, size),
                Err(AuxError::Size { .. })
            ));
        }
    }

    #[test]
    fn data_is_taken_in_order_over_the_end_of_the_area() {
        // covers unit: AUX-01, AUX-06, MP-20
        let (file, ring, page) = file();
        let place = (2 * page, 2 * page);
        let mut area = AuxArea::map_at(file.as_fd(), &ring, place, AuxMode::Waits).expect("mapped");
        assert_eq!(area.size() as u64, 2 * page);
        let control = ring.mapping().control();
        assert_eq!(control.aux_offset.load(Relaxed), 2 * page);
        assert_eq!(control.aux_size.load(Relaxed), 2 * page);
        // What the PMU wrote: its last bytes at the area's end, then at its
        // start.
        file.write_all_at(b"first", 4 * page - 5).expect("written");
        file.write_all_at(b"second", 2 * page).expect("written");
        control.aux_tail.store(2 * page - 5, Relaxed);
        control.aux_head.store(2 * page + 6, Relaxed);
        let mut out = b"before ".to_vec();
        assert_eq!(area.take(&mut out), 11);
        assert_eq!(out, b"before firstsecond");
        assert_eq!(control.aux_tail.load(Relaxed), 2 * page + 6, "room back");
        assert_eq!(area.take(&mut out), 0);
    }

    #[test]
    fn a_snapshot_is_the_whole_area_with_the_oldest_first() {
        // covers unit: AUX-04, AUX-05
        let (file, ring, page) = file();
        let place = (2 * page, page);
        let mut area =
            AuxArea::map_at(file.as_fd(), &ring, place, AuxMode::Snapshot).expect("mapped");
        file.write_all_at(b"new", 2 * page).expect("written");
        file.write_all_at(b"old", 2 * page + 3).expect("written");
        ring.mapping().control().aux_head.store(page + 3, Relaxed);
        let mut out = Vec::new();
        assert_eq!(area.take(&mut out), 0, "read-only: nothing to give back");
        area.copy_all(&mut out);
        assert_eq!(out.len() as u64, page);
        assert!(out.starts_with(b"old") && out.ends_with(b"new"));
    }

    #[test]
    fn snapshots_have_what_is_new_until_the_area_was_full() {
        // covers unit: AUX-04, AUX-08
        let (file, ring, page) = file();
        let place = (2 * page, 2 * page);
        let mut area =
            AuxArea::map_at(file.as_fd(), &ring, place, AuxMode::Snapshot).expect("mapped");
        let mut taken = |at_byte: u64, data: &[u8], head: u64, most: usize| {
            file.write_all_at(data, 2 * page + at_byte)
                .expect("written");
            ring.mapping().control().aux_head.store(head, Relaxed);
            let mut out = Vec::new();
            let begins = area.take_newest(most, &mut out);
            (begins, out)
        };
        assert_eq!(taken(0, b"one", 3, 100), (0, b"one".to_vec()));
        assert_eq!(taken(3, b"two", 6, 100), (3, b"two".to_vec()));
        assert_eq!(taken(6, b"three", 11, 3), (8, b"ree".to_vec()));
        assert_eq!(taken(0, b"", 11, 100), (11, Vec::new()));
        // Round the end: from here on all of it is there.
        let (begins, out) = taken(2 * page - 4, b"last", 2, usize::MAX);
        assert_eq!((begins, out.len() as u64), (2, 2 * page));
        assert!(out.starts_with(b"etwothree") && out.ends_with(b"laston"));
        let (begins, out) = taken(2, b"!", 3, 4);
        assert_eq!((begins, out), (2 * page - 1, b"ton!".to_vec()));
    }

    #[test]
    fn an_event_that_does_not_trace_has_no_area() {
        // covers refusal: AUX-01, AUX-03, AUX-04, AUX-05, AUX-06, MP-20
        if !permitted() {
            return;
        }
        let event = Event::open(&page_faults(), Target::THIS, None).expect("an event");
        let ring = Ring::map(&event, 1).expect("a ring");
        let size = crate::page_size() as u64;
        for mode in [AuxMode::Waits, AuxMode::Snapshot] {
            let refused = AuxArea::map(&event, &ring, size, mode).expect_err("software");
            let AuxError::Refused(error) = refused else {
                panic!("{refused}");
            };
            assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
        }
        let overwriting = Event::open(&page_faults(), Target::THIS, None).expect("an event");
        let ring = Ring::map_overwriting(&overwriting, 1).expect("a ring");
        AuxArea::map(&overwriting, &ring, size, AuxMode::Waits).expect_err("read-only page");
    }

    #[test]
    fn pausing_and_sampling_of_traces_is_asked_for_and_refused() {
        // covers unit: AUX-13, ATTR-51, ATTR-76, ATTR-78, ATTR-79, ST-22
        // covers refusal: AUX-13, ATTR-51, ATTR-78, ATTR-79, ST-22
        let attr = EventAttr {
            aux_watermark: 4096,
            aux_sample_size: 512,
            aux_action: 0b101,
            ..page_faults()
        };
        let bytes = attr.encode(ByteOrder::NATIVE);
        let word = |at| ByteOrder::NATIVE.u32(&bytes, at);
        assert_eq!(
            (word(104), word(112), word(116)),
            (Some(4096), Some(512), Some(5))
        );
        if !permitted() {
            return;
        }
        let errno = |attr: EventAttr| {
            let refused = Event::open(&attr, Target::THIS, None).expect_err("no AUX here");
            refused.errno()
        };
        let action = |aux_action| EventAttr {
            aux_action,
            ..page_faults()
        };
        let unknown = [libc::EINVAL, libc::EOPNOTSUPP];
        for bits in [1, 2, 4] {
            assert!(unknown.contains(&errno(action(bits))), "{bits}");
        }
        let mut output = page_faults();
        output.flags = output.flags | AttrFlags::AUX_OUTPUT;
        assert!(unknown.contains(&errno(output)));
        let mut samples = page_faults();
        samples.sample_type = prof_abi::SampleType::AUX;
        samples.sample_period = 1;
        samples.aux_sample_size = 512;
        assert!(unknown.contains(&errno(samples)));
    }
}
