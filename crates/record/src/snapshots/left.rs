//! What rings tell of a thread that left its CPU: how, and how soon.

use prof_abi::{ByteOrder, Misc, RecordType};

/// A sample in a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) at: u64,
    pub(super) size: usize,
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) time: u64,
}

/// How soon a thread leaves the CPU after its sample where the interrupt that
/// sampled it ends in the switch: as soon as it can, but for little. Where it
/// went on first, a second interrupt took it away, and that needs more time.
///
/// Of 90 000 switches after samples of a program that changes its stack every
/// few us (2 CPUs, Linux 6.18, load 12), with registers beside them, the first
/// came after 20 us, whatever was copied. Of those up to 1.4 times as late none
/// was with other registers than the sample; 3 of 4 are as early as that. Of
/// those at 32 us to 80 us, one in 150 was and had the copied piece as before.
#[derive(Debug, Default)]
pub(super) struct Promptness {
    /// The soonest, ns.
    soonest: Option<u64>,
    /// How many were seen.
    seen: u32,
}

impl Promptness {
    /// Before so many nothing is believed.
    const SEEN: u32 = 16;

    /// Whether a thread that left so many ns after its sample left at once.
    pub(super) fn is_at_once(&mut self, after: u64) -> bool {
        let soonest = match self.soonest {
            // CPUs become slower: what was once possible is forgotten.
            Some(soonest) => after.min(soonest.saturating_add(soonest / 1024)),
            None => after,
        };
        self.soonest = Some(soonest);
        self.seen = self.seen.saturating_add(1);
        self.seen > Self::SEEN && after <= soonest.saturating_add(soonest / 5 * 2)
    }
}

/// How a thread left the CPU after its sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub(super) time: u64,
    /// Position and size of the sample with its registers; `None` where only
    /// the time is told.
    pub(super) registers: Option<(u64, usize)>,
}

/// A record of a context switch.
pub(super) struct Switch {
    pub(super) tid: i32,
    pub(super) time: u64,
    pub(super) is_out: bool,
    /// It left though it could have gone on; told since Linux 4.17.
    pub(super) is_preempted: bool,
}

impl Switch {
    /// How the thread left after its sample, if it was made to.
    pub(super) fn left(&self) -> Option<Left> {
        self.is_preempted.then_some(Left {
            time: self.time,
            registers: None,
        })
    }

    /// `SWITCH` has only the trailer, pid and tid and then the time;
    /// `SWITCH_CPU_WIDE` before it 8 bytes about the other task.
    pub(super) fn of(record: &[u8]) -> Option<Self> {
        let order = ByteOrder::NATIVE;
        let trailer = match RecordType(order.u32(record, 0)?) {
            RecordType::SWITCH => 8,
            RecordType::SWITCH_CPU_WIDE => 16,
            _ => return None,
        };
        let misc = Misc(order.u16(record, 4)?);
        Some(Self {
            tid: order.u32(record, trailer + 4)?.cast_signed(),
            time: order.u64(record, trailer + 8)?,
            is_out: misc.has(Misc::SWITCH_OUT),
            is_preempted: misc.has(Misc::SWITCH_OUT_PREEMPT),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Promptness, Switch};

    #[test]
    fn a_switch_record_tells_thread_time_and_direction() {
        let mut record = [14_u32.to_ne_bytes(), [0, 0x20, 24, 0]].concat();
        record.extend([7_i32, 8].into_iter().flat_map(i32::to_ne_bytes));
        record.extend(99_u64.to_ne_bytes());
        let switch = Switch::of(&record).expect("a switch");
        assert_eq!((switch.tid, switch.time, switch.is_out), (8, 99, true));
        record[5] = 0;
        assert!(!Switch::of(&record).expect("a switch").is_out);
        record[0] = 9;
        assert!(Switch::of(&record).is_none());
    }

    #[test]
    fn without_registers_only_preemptions_count_that_come_at_once() {
        let switch = |is_preempted| Switch {
            tid: 1,
            time: 5,
            is_out: true,
            is_preempted,
        };
        assert_eq!(switch(true).left().map(|left| left.time), Some(5));
        assert!(switch(false).left().is_none());
        let mut promptness = Promptness::default();
        let first = (0..Promptness::SEEN).filter(|_| promptness.is_at_once(20_000));
        assert_eq!(first.count(), 0);
        let after = [20_000, 27_000, 29_000, 40_000, 21_000];
        let at_once = after.map(|after| promptness.is_at_once(after));
        assert_eq!(at_once, [true, true, false, false, true]);
        // A CPU that became half as fast.
        let slow = (0..2000).filter(|_| promptness.is_at_once(40_000)).count();
        assert!((1000..2000).contains(&slow), "{slow}");
    }
}
