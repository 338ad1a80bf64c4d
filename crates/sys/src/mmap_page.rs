//! The page in front of every ring: `struct perf_event_mmap_page`.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The page as the kernel lays it out:
///
/// | offset | size | field | offset | size | field |
/// |---:|---:|---|---:|---:|---|
/// | 0 | 4+4 | version, compat_version | 56 | 8+8 | time_offset, time_zero |
/// | 8 | 4 | lock, a sequence count | 72 | 4 | size |
/// | 12 | 4 | index of the hardware counter | 80 | 8+8 | time_cycles, time_mask |
/// | 16 | 8 | offset | 1024 | 8+8 | data_head, data_tail |
/// | 24 | 8+8 | time_enabled, time_running | 1040 | 8+8 | data_offset, data_size |
/// | 40 | 8 | capabilities | 1056 | 8+8 | aux_head, aux_tail |
/// | 48 | 2+2+4 | pmc_width, time_shift, time_mult | 1072 | 8+8 | aux_offset, aux_size |
///
/// Source: the kernel's UAPI header; perf_event_open(2) lacks `time_zero`,
/// `size`, `time_cycles` and `time_mask`. Checked against the installed header
/// by a test.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MmapPage {
    pub(crate) version: AtomicU32,
    pub(crate) compat_version: AtomicU32,
    pub(crate) lock: AtomicU32,
    pub(crate) index: AtomicU32,
    pub(crate) offset: AtomicU64,
    pub(crate) time_enabled: AtomicU64,
    pub(crate) time_running: AtomicU64,
    pub(crate) capabilities: AtomicU64,
    /// `pmc_width`, `time_shift` (16 bits each) and `time_mult` (32).
    pub(crate) widths: AtomicU64,
    pub(crate) time_offset: AtomicU64,
    pub(crate) time_zero: AtomicU64,
    pub(crate) size: AtomicU32,
    reserved_1: AtomicU32,
    pub(crate) time_cycles: AtomicU64,
    pub(crate) time_mask: AtomicU64,
    reserved: [u64; 116],
    pub(crate) data_head: AtomicU64,
    pub(crate) data_tail: AtomicU64,
    pub(crate) data_offset: AtomicU64,
    pub(crate) data_size: AtomicU64,
    pub(crate) aux_head: AtomicU64,
    pub(crate) aux_tail: AtomicU64,
    pub(crate) aux_offset: AtomicU64,
    pub(crate) aux_size: AtomicU64,
}

const _: () = {
    assert!(offset_of!(MmapPage, lock) == 8);
    assert!(offset_of!(MmapPage, offset) == 16);
    assert!(offset_of!(MmapPage, capabilities) == 40);
    assert!(offset_of!(MmapPage, widths) == 48);
    assert!(offset_of!(MmapPage, time_zero) == 64);
    assert!(offset_of!(MmapPage, size) == 72);
    assert!(offset_of!(MmapPage, time_cycles) == 80);
    assert!(offset_of!(MmapPage, reserved) == KNOWN_SIZE as usize);
    // The reserved space keeps what follows at 1 KiB.
    assert!(offset_of!(MmapPage, data_head) == 1024);
    assert!(offset_of!(MmapPage, data_size) == 1048);
    assert!(offset_of!(MmapPage, aux_head) == 1056);
    assert!(offset_of!(MmapPage, aux_size) == 1080);
};

/// Up to where the front of the page is described above, bytes.
const KNOWN_SIZE: u32 = 96;
/// Up to where it went before `time_cycles` (5.9), bytes.
const SIZE_BEFORE_SHORT: u32 = 80;

/// What a task that counts itself may do without a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Read the hardware counter by an instruction (`cap_user_rdpmc`).
    pub rdpmc: bool,
    /// Carry the times on by the CPU's cycle counter (`cap_user_time`).
    pub time: bool,
    /// Turn cycles into the times of records and back
    /// (`cap_user_time_zero`).
    pub time_zero: bool,
    /// The cycle counter has fewer than 64 bits (`cap_user_time_short`, 5.9).
    pub time_short: bool,
}

impl Capabilities {
    /// Of the word at offset 40. From 3.4 to 3.11 its lowest bit meant rdpmc
    /// as well as time, whichever was compiled in; since 3.12 bit 1
    /// (`cap_bit0_is_deprecated`) says that the others have their own bits.
    /// Without it nothing can be known and nothing is used.
    pub fn from_word(word: u64) -> Self {
        // Bit-fields begin at the other end on big-endian machines.
        let word = if cfg!(target_endian = "big") {
            word.reverse_bits()
        } else {
            word
        };
        let has = |bit: u32| word & 1 << 1 != 0 && word & 1 << bit != 0;
        Self {
            rdpmc: has(2),
            time: has(3),
            time_zero: has(4),
            time_short: has(5),
        }
    }
}

/// How the CPU's cycle counter becomes time, as the kernel publishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeConversion {
    /// Bits by which the product is shifted right.
    pub shift: u16,
    /// ns per cycle, times 2^shift.
    pub mult: u32,
    /// ns to add for the event's own times.
    pub offset: u64,
    /// ns to add for the times of records.
    pub zero: u64,
    /// A short counter's value when it was last looked at, and its bits; the
    /// mask of a counter of 64 bits is all ones.
    pub cycles: u64,
    /// See `cycles`.
    pub mask: u64,
}

impl TimeConversion {
    /// A short counter's value with the bits that it lacks.
    fn whole(&self, cycles: u64) -> u64 {
        let since = cycles.wrapping_sub(self.cycles) & self.mask;
        self.cycles.wrapping_add(since)
    }

    /// ns in so many cycles. Cut in two, so that the product of a counter of
    /// 64 bits does not overflow, as the header prescribes it; a shift that
    /// no kernel publishes gives 0.
    fn nanoseconds(&self, cycles: u64) -> u64 {
        let shift = u32::from(self.shift);
        let Some(quotient) = cycles.checked_shr(shift) else {
            return 0;
        };
        let rest = cycles & ((1 << shift) - 1);
        let mult = u64::from(self.mult);
        quotient
            .wrapping_mul(mult)
            .wrapping_add(rest.wrapping_mul(mult) >> shift)
    }

    /// ns since the kernel last wrote `time_enabled` and `time_running`.
    pub fn since_update(&self, cycles: u64) -> u64 {
        self.offset
            .wrapping_add(self.nanoseconds(self.whole(cycles)))
    }

    /// The time in ns that a record written at these cycles has.
    pub fn time_of(&self, cycles: u64) -> u64 {
        self.zero.wrapping_add(self.nanoseconds(self.whole(cycles)))
    }

    /// The cycles at a record's time in ns; `None` if the kernel publishes no
    /// factor. At most a cycle off, since a time has whole ns.
    pub fn cycles_at(&self, time: u64) -> Option<u64> {
        let mult = u64::from(self.mult);
        let shift = u32::from(self.shift);
        let time = time.wrapping_sub(self.zero);
        let quotient = time.checked_div(mult)?;
        let rest = u128::from(time % mult) << shift;
        let rest = u64::try_from(rest / u128::from(mult)).ok()?;
        Some(quotient.checked_shl(shift)?.wrapping_add(rest))
    }
}

/// The front of the page at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageState {
    /// The layout's version, and the oldest one that a reader of which may
    /// still read this; both 0 so far.
    pub version: (u32, u32),
    /// The hardware counter's number plus 1; 0 if the event is on none now.
    pub index: u32,
    /// What to add to the hardware counter.
    pub offset: u64,
    /// ns for which the event was enabled, when the kernel last wrote it.
    pub time_enabled: u64,
    /// ns for which it was on the hardware, likewise.
    pub time_running: u64,
    /// What may be done.
    pub capabilities: Capabilities,
    /// Bits of the hardware counter.
    pub pmc_width: u16,
    /// How cycles become time; only as far as `capabilities` say.
    pub time: TimeConversion,
    /// Bytes of the front that this kernel fills; 0 before 3.12.
    pub size: u32,
}

/// More than enough for a reader that is interrupted; then read(2) is right.
const ATTEMPTS: u32 = 64;

impl MmapPage {
    /// Calls `read` until the kernel wrote nothing meanwhile; `None` if it
    /// wrote each time.
    pub(crate) fn consistent<T>(&self, mut read: impl FnMut(&PageState) -> T) -> Option<T> {
        for _ in 0..ATTEMPTS {
            // ORDERING: Acquire, so that the fields are read after it. The
            // partners are the barriers around the kernel's increments of
            // `lock` in perf_event_update_userpage(), which runs on this CPU.
            let before = self.lock.load(Ordering::Acquire);
            let result = read(&self.fields());
            // ORDERING: the fence keeps the reads before the second look.
            fence(Ordering::Acquire);
            if self.lock.load(Ordering::Relaxed) == before {
                return Some(result);
            }
        }
        None
    }

    fn fields(&self) -> PageState {
        let word = |field: &AtomicU64| field.load(Ordering::Relaxed);
        let half = |field: &AtomicU32| field.load(Ordering::Relaxed);
        let size = half(&self.size);
        let mut capabilities = Capabilities::from_word(word(&self.capabilities));
        // The fields behind `size` are not written by this kernel.
        capabilities.time_short &= size >= KNOWN_SIZE;
        capabilities.time_zero &= size >= SIZE_BEFORE_SHORT;
        let (pmc_width, shift, mult) = split_widths(word(&self.widths));
        let (cycles, mask) = if capabilities.time_short {
            (word(&self.time_cycles), word(&self.time_mask))
        } else {
            (0, u64::MAX)
        };
        PageState {
            version: (half(&self.version), half(&self.compat_version)),
            index: half(&self.index),
            offset: word(&self.offset),
            time_enabled: word(&self.time_enabled),
            time_running: word(&self.time_running),
            capabilities,
            pmc_width,
            time: TimeConversion {
                shift,
                mult,
                offset: word(&self.time_offset),
                zero: word(&self.time_zero),
                cycles,
                mask,
            },
            size,
        }
    }
}

/// `pmc_width`, `time_shift` and `time_mult` of their word.
fn split_widths(word: u64) -> (u16, u16, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (
        u16::from_ne_bytes([a, b]),
        u16::from_ne_bytes([c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Capabilities, MmapPage, PageState, TimeConversion};
    use std::sync::atomic::Ordering::Relaxed;

    /// A page of zeros.
    pub(crate) fn page() -> Box<MmapPage> {
        // SAFETY: integers only, for which zeros are values.
        Box::new(unsafe { std::mem::zeroed() })
    }

    /// Sets `pmc_width`, `time_shift` and `time_mult`.
    pub(crate) fn set_widths(page: &MmapPage, width: u16, shift: u16, mult: u32) {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&width.to_ne_bytes());
        bytes[2..4].copy_from_slice(&shift.to_ne_bytes());
        bytes[4..].copy_from_slice(&mult.to_ne_bytes());
        page.widths.store(u64::from_ne_bytes(bytes), Relaxed);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn capabilities_count_only_where_the_first_bit_is_deprecated() {
        // covers unit: MP-06, MP-07, MP-08, MP-09, MP-10, MP-11, BUG-09
        // Linux 3.4 to 3.11: bit 0 is rdpmc or time or both.
        for word in [0, 1, 0b11_1100, 0b11_1101] {
            assert_eq!(Capabilities::from_word(word), Capabilities::default());
        }
        let all = Capabilities {
            rdpmc: true,
            time: true,
            time_zero: true,
            time_short: true,
        };
        assert_eq!(Capabilities::from_word(0b11_1110), all);
        let only_rdpmc = Capabilities {
            rdpmc: true,
            ..Capabilities::default()
        };
        assert_eq!(Capabilities::from_word(0b110), only_rdpmc);
    }

    #[test]
    fn fields_behind_the_size_are_not_believed() {
        // covers unit: MP-01, MP-12, MP-16, MP-17
        let page = page();
        page.capabilities.store(0b11_1110, Relaxed);
        page.time_cycles.store(5, Relaxed);
        page.time_mask.store(7, Relaxed);
        let state = |size| {
            page.size.store(size, Relaxed);
            page.consistent(PageState::clone).expect("nobody writes")
        };
        let (old, middle, new) = (state(0), state(80), state(96));
        assert!(!old.capabilities.time_zero && !old.capabilities.time_short);
        assert!(middle.capabilities.time_zero && !middle.capabilities.time_short);
        assert_eq!((middle.time.cycles, middle.time.mask), (0, u64::MAX));
        assert_eq!((new.time.cycles, new.time.mask), (5, 7));
        assert_eq!(new.version, (0, 0));
    }

    #[test]
    fn a_page_that_changes_while_it_is_read_is_read_again() {
        // covers unit: MP-02, RDP-02
        let page = page();
        let mut reads = 0;
        let offset = page.consistent(|state| {
            reads += 1;
            if reads < 3 {
                // The kernel comes between: it takes the lock and lets it go.
                page.offset.store(reads, Relaxed);
                page.lock.fetch_add(2, Relaxed);
            }
            state.offset
        });
        assert_eq!((offset, reads), (Some(2), 3));
        let never = page.consistent(|_| page.lock.fetch_add(1, Relaxed));
        assert_eq!(never, None, "read(2) is left");
    }

    #[test]
    fn cycles_become_time_and_time_cycles() {
        // covers unit: MP-14, MP-15
        // A TSC of 2.4 GHz as Linux publishes it.
        let time = TimeConversion {
            shift: 31,
            mult: 894_784_853,
            offset: 0,
            zero: 123_456_789,
            cycles: 0,
            mask: u64::MAX,
        };
        for cycles in [0, 1, 2_400_000_000, 1 << 40, u64::MAX / 3] {
            let exact = (u128::from(cycles) * u128::from(time.mult)) >> time.shift;
            assert_eq!(u128::from(time.since_update(cycles)), exact, "{cycles}");
            let back = time.cycles_at(time.time_of(cycles)).expect("a factor");
            assert!(back <= cycles && cycles - back <= 3, "{cycles} {back}");
        }
        assert_eq!(time.time_of(2_400_000_000), 123_456_789 + 999_999_999);
        assert_eq!(TimeConversion::default().cycles_at(7), None);
        let wrong = TimeConversion { shift: 64, ..time };
        assert_eq!(wrong.since_update(1 << 40), 0);
    }

    #[test]
    fn a_short_counter_is_carried_on_over_its_wraps() {
        // covers unit: MP-12
        let time = TimeConversion {
            shift: 0,
            mult: 1,
            cycles: 0x1_ffff_fff0,
            mask: u64::from(u32::MAX),
            ..TimeConversion::default()
        };
        assert_eq!(time.since_update(0xffff_fff4), 0x1_ffff_fff4);
        assert_eq!(time.since_update(0x10), 0x2_0000_0010, "it has wrapped");
    }
}
