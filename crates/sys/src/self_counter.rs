//! Counting the calling thread, without a system call where the CPU allows it.

use crate::counts::scaled;
use crate::event::{Event, OpenError, Target};
use crate::mmap_page::{MmapPage, PageState};
use crate::ring::Mapping;
use prof_abi::{EventAttr, ReadFormat};
use std::io;
use std::marker::PhantomData;

/// How a value was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// By an instruction of the CPU, some 20 ns.
    Instruction,
    /// By read(2), some 200 ns and more.
    SystemCall,
}

/// What a [`SelfCounter`] has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelfReading {
    /// Events, unscaled.
    pub value: u64,
    /// ns for which it was enabled.
    pub enabled: u64,
    /// ns for which it was on the hardware.
    pub running: u64,
    /// Where that is from.
    pub source: Source,
}

impl SelfReading {
    /// Events as if it had been on the hardware all the time; `None` if it
    /// never was.
    pub fn scaled(&self) -> Option<u64> {
        scaled(self.value, self.enabled, self.running)
    }
}

/// An event of the calling thread, to be read often.
///
/// It takes no target: the instruction reads the counter of the CPU that it
/// runs on, so only the counted thread itself may use it. For the same reason
/// the value cannot be sent to another thread:
///
/// ```compile_fail
/// # fn is_send<T: Send>() {}
/// is_send::<prof_sys::SelfCounter>();
/// ```
///
/// Where the instruction is not allowed, as for software events, in most
/// virtual machines, with 0 in `/sys/bus/event_source/devices/cpu/rdpmc`, and
/// on architectures other than x86-64, `read` falls back to read(2).
///
/// Since Linux 4.0 the instruction faults (SIGSEGV) unless an event of the
/// process is mapped; here it is used only while the page says that this event
/// is on a counter. On arm64 user access must be asked for by `config1` bit 1
/// of the event and allowed by `kernel.perf_user_access` (5.17); this crate
/// does not use it there.
///
/// Source: the text at `struct perf_event_mmap_page` of the UAPI header;
/// perf_event_open(2) has the same loop with names of before 3.12.
#[derive(Debug)]
pub struct SelfCounter {
    event: Event,
    page: Mapping,
    /// The instruction is for the counted thread.
    here: PhantomData<*const ()>,
}

const FORMAT: ReadFormat =
    ReadFormat(ReadFormat::TOTAL_TIME_ENABLED.0 | ReadFormat::TOTAL_TIME_RUNNING.0);

impl SelfCounter {
    /// Counts `attr` in the calling thread, from now on unless it is
    /// [`DISABLED`](prof_abi::AttrFlags::DISABLED). How it is read is set
    /// here. Fails as [`Event::open`] and, for its page, as
    /// [`Ring::map`](crate::Ring::map).
    pub fn open(attr: &EventAttr) -> Result<Self, OpenError> {
        let attr = EventAttr {
            read_format: FORMAT,
            ..attr.clone()
        };
        let event = Event::open(&attr, Target::THIS, None)?;
        let page = Mapping::of_page(&event).map_err(OpenError::from)?;
        let here = PhantomData;
        Ok(Self { event, page, here })
    }

    /// The event, to enable, disable or reset it.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The page's front at this moment; `None` if the kernel wrote it each
    /// time.
    pub fn page(&self) -> Option<PageState> {
        self.page.control().consistent(PageState::clone)
    }

    /// What was counted so far. Fails as read(2) does, which for an open event
    /// is only `UnexpectedEof`: it is pinned and lost its place.
    pub fn read(&self) -> io::Result<SelfReading> {
        match read_page(self.page.control(), &ThisCpu) {
            Some(reading) => Ok(reading),
            None => self.read_by_call(),
        }
    }

    fn read_by_call(&self) -> io::Result<SelfReading> {
        let counts = self.event.read_counts(FORMAT)?;
        Ok(SelfReading {
            value: counts.values.first().map_or(0, |count| count.value),
            enabled: counts.enabled.unwrap_or(0),
            running: counts.running.unwrap_or(0),
            source: Source::SystemCall,
        })
    }
}

/// What user space can read of the CPU.
trait Hardware {
    /// Counter `number`, as far as it has bits.
    fn counter(&self, number: u32) -> Option<u64>;
    /// The cycle counter that times are made of.
    fn cycles(&self) -> Option<u64>;
}

struct ThisCpu;

impl Hardware for ThisCpu {
    #[cfg(target_arch = "x86_64")]
    fn counter(&self, number: u32) -> Option<u64> {
        let (low, high): (u32, u32);
        // SAFETY: called only while the mapped page says that user space may
        // and that the counter exists; it reads a register.
        unsafe {
            std::arch::asm!(
                "rdpmc", in("ecx") number, out("eax") low, out("edx") high,
                options(nomem, nostack, preserves_flags)
            );
        }
        Some(u64::from(high) << 32 | u64::from(low))
    }

    #[cfg(target_arch = "x86_64")]
    fn cycles(&self) -> Option<u64> {
        // SAFETY: reads a register; allowed where the page says `time`.
        Some(unsafe { std::arch::x86_64::_rdtsc() })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn counter(&self, _: u32) -> Option<u64> {
        None
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn cycles(&self) -> Option<u64> {
        None
    }
}

/// Value and times by the page; `None` where that is not possible.
fn read_page(page: &MmapPage, hardware: &impl Hardware) -> Option<SelfReading> {
    page.consistent(|state| {
        let usable = state.version.1 == 0 && state.capabilities.rdpmc && state.capabilities.time;
        let number = state.index.checked_sub(1).filter(|_| usable)?;
        let counter = sign_extended(hardware.counter(number)?, state.pmc_width);
        let since = state.time.since_update(hardware.cycles()?);
        Some(SelfReading {
            value: state.offset.wrapping_add(counter),
            enabled: state.time_enabled.wrapping_add(since),
            running: state.time_running.wrapping_add(since),
            source: Source::Instruction,
        })
    })
    .flatten()
}

/// A counter of `width` bits, whose highest one is a sign: the kernel lets it
/// begin below 0 so that it overflows in time.
fn sign_extended(counter: u64, width: u16) -> u64 {
    let unused = 64_u32.saturating_sub(width.into()).min(63);
    ((counter << unused) as i64 >> unused) as u64
}

#[cfg(test)]
mod tests {
    use super::{Hardware, SelfCounter, SelfReading, Source, read_page, sign_extended};
    use crate::mmap_page::tests::{page, set_widths};
    use crate::testing::{page_faults, permitted, touch};
    use std::sync::atomic::Ordering::Relaxed;

    struct Fake {
        counters: [u64; 4],
        cycles: u64,
    }

    impl Hardware for Fake {
        fn counter(&self, number: u32) -> Option<u64> {
            self.counters.get(number as usize).copied()
        }
        fn cycles(&self) -> Option<u64> {
            Some(self.cycles)
        }
    }

    const FAKE: Fake = Fake {
        counters: [0, 0, 0xffff_ffff_fff6, 7],
        cycles: 4000,
    };

    #[test]
    fn a_counter_that_begins_below_0_is_a_number_with_a_sign() {
        // covers unit: MP-13, RDP-03
        assert_eq!(sign_extended(0xffff_ffff_fff6, 48), -10_i64 as u64);
        assert_eq!(sign_extended(0x7fff_ffff_ffff, 48), 0x7fff_ffff_ffff);
        assert_eq!(sign_extended(4, 0), 0, "no bits");
        assert_eq!(sign_extended(u64::MAX, 64), u64::MAX);
        assert_eq!(sign_extended(u64::MAX, 999), u64::MAX);
    }

    #[test]
    fn the_counter_before_the_index_plus_the_offset_is_the_value() {
        // covers unit: MP-03, MP-04, MP-05, MP-13, RDP-01, RDP-02, RDP-03, RDP-04
        let page = page();
        page.size.store(96, Relaxed);
        page.capabilities.store(0b01_1110, Relaxed);
        page.index.store(3, Relaxed);
        page.offset.store(1010, Relaxed);
        page.time_enabled.store(3000, Relaxed);
        page.time_running.store(1000, Relaxed);
        // A cycle is half a ns.
        set_widths(&page, 48, 1, 1);
        page.time_offset.store(0_u64.wrapping_sub(1000), Relaxed);
        let reading = read_page(&page, &FAKE).expect("by instruction");
        let expected = SelfReading {
            value: 1000,
            enabled: 4000,
            running: 2000,
            source: Source::Instruction,
        };
        assert_eq!(reading, expected);
        assert_eq!(reading.scaled(), Some(2000));
    }

    #[test]
    fn without_a_counter_a_right_or_a_known_layout_read_is_left() {
        // covers unit: MP-01, MP-03, MP-09, MP-10, RDP-01, RDP-06
        let page = page();
        page.capabilities.store(0b01_1110, Relaxed);
        page.index.store(1, Relaxed);
        set_widths(&page, 48, 0, 1);
        assert!(read_page(&page, &FAKE).is_some());
        page.index.store(0, Relaxed);
        assert_eq!(read_page(&page, &FAKE), None, "not on the PMU");
        page.index.store(9, Relaxed);
        assert_eq!(read_page(&page, &FAKE), None, "no such counter here");
        page.index.store(1, Relaxed);
        for word in [0b01_1010, 0b01_0110, 0b01_1100] {
            page.capabilities.store(word, Relaxed);
            assert_eq!(read_page(&page, &FAKE), None, "{word:b}");
        }
        page.capabilities.store(0b01_1110, Relaxed);
        page.compat_version.store(1, Relaxed);
        assert_eq!(read_page(&page, &FAKE), None, "a layout of tomorrow");
    }

    #[test]
    fn a_software_event_has_a_page_and_is_read_by_a_call() {
        // covers live: MP-01, MP-02, MP-03, MP-05, MP-06, MP-08, MP-09, MP-10, MP-11, MP-16, RDP-01, RDP-05
        if !permitted() {
            return;
        }
        let counter = SelfCounter::open(&page_faults()).expect("a counter");
        let page = counter.page().expect("nobody writes");
        assert_eq!((page.version, page.index), ((0, 0), 0));
        assert!(page.size >= 80, "{page:?}");
        assert!(!page.capabilities.rdpmc, "a software event: {page:?}");
        let before = counter.read().expect("read");
        std::thread::spawn(|| touch(1000)).join().expect("no panic");
        let others = counter.read().expect("read").value - before.value;
        assert!(others < 1000, "of this thread alone: {others}");
        touch(64);
        let after = counter.read().expect("read");
        assert_eq!(after.source, Source::SystemCall);
        assert!(after.value - before.value >= 64);
        assert!(after.enabled > before.enabled && after.running == after.enabled);
        counter.event().disable().expect("disable");
        let (first, second) = (counter.read(), counter.read());
        assert_eq!(first.expect("read"), second.expect("read"));
    }
}
