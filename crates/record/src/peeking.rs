//! Records that are looked at in their rings by who does not take them out.

use prof_abi::ByteOrder;
use prof_sys::RingView;

/// Hands position, size and the first bytes of each record of a ring from `at` on
/// to `each`, and goes on behind them. False if not all could be seen: the draining
/// thread was faster.
pub(crate) fn each_record(
    ring: &RingView,
    at: &mut u64,
    scratch: &mut Vec<u8>,
    each: &mut impl FnMut(u64, usize, &[u8]),
) -> bool {
    /// Enough for the fields in front and for whole records of switches and ends of
    /// threads.
    const FRONT: u64 = 80;
    let head = ring.head();
    if !ring.remembers(*at) {
        *at = head;
        return false;
    }
    while *at < head {
        let length = (head - *at).min(FRONT) as usize;
        let is_there = ring.peek(*at, length, scratch);
        let size = ByteOrder::NATIVE.u16(scratch, 6).unwrap_or(0);
        if !is_there || size < 8 {
            *at = head;
            return false;
        }
        each(*at, usize::from(size), scratch);
        *at += u64::from(size);
    }
    true
}
