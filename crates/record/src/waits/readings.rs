//! What was read of threads that sleep, on its way from the thread that reads to
//! the one that writes.
//!
//! A reading belongs to the wait that holds the whole of it, so it must come before
//! that wait is told: for as long as one is at work or has not been taken, waits
//! that end later are not ([`Readings::earliest`]). And it is unwound with what its
//! process had mapped then: so it is taken with the drain that began behind it,
//! which holds what happened before.

use super::holders::Held;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that may wait to be taken; what would come beyond is not read.
const MOST_WAITING: usize = 8 << 20;
/// How long the last reading may take.
const LONGEST_LAST: Duration = Duration::from_millis(500);

/// Between the two threads.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    state: Mutex<State>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_open: bool,
    /// When the reading began that is at work, ns.
    at_work: Option<u64>,
    /// Not taken yet, in the order of time.
    waiting: Vec<Reading>,
    bytes: usize,
}

/// Of some threads, one after the other.
#[derive(Debug)]
struct Reading {
    /// ns.
    from: u64,
    until: u64,
    /// Samples of them.
    records: Vec<u8>,
    held: Vec<Held>,
}

impl Readings {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the thread that reads; it is over when that is dropped.
    pub(super) fn open(&self) -> OpenReadings<'_> {
        self.state().is_open = true;
        OpenReadings(self)
    }

    /// Whether some may come.
    pub(crate) fn is_open(&self) -> bool {
        self.state().is_open
    }

    /// When the earliest began that was not taken yet, ns.
    pub(crate) fn earliest(&self) -> Option<u64> {
        let state = self.state();
        let first = state.waiting.first().map(|reading| reading.from);
        first.or(state.at_work)
    }

    /// Those that were over by then, ns: samples, and who held what was waited for.
    pub(crate) fn take(&self, until: u64) -> (Vec<u8>, Vec<Held>) {
        let mut state = self.state();
        let over = state.waiting.partition_point(|it| it.until <= until);
        let (mut records, mut held) = (Vec::new(), Vec::new());
        for reading in state.waiting.drain(..over) {
            records.extend_from_slice(&reading.records);
            held.extend(reading.held);
        }
        state.bytes = state.bytes.saturating_sub(records.len());
        (records, held)
    }

    /// Waits until no more can come.
    pub(crate) fn wait_for_last(&self) {
        let is_open = |state: &mut State| state.is_open;
        let _ = self
            .closed
            .wait_timeout_while(self.state(), LONGEST_LAST, is_open);
    }
}

/// Where readings are added.
#[derive(Debug)]
pub(super) struct OpenReadings<'a>(&'a Readings);

impl OpenReadings<'_> {
    /// Adds what `read` reads from `from` on, ns, which is now; `now` is asked when
    /// that ends. Does nothing while too much waits.
    pub(super) fn add(
        &self,
        from: u64,
        read: impl FnOnce(&mut Vec<u8>, &mut Vec<Held>),
        now: impl FnOnce() -> Option<u64>,
    ) {
        let mut state = self.0.state();
        if state.bytes >= MOST_WAITING {
            return;
        }
        state.at_work = Some(from);
        drop(state);
        let (mut records, mut held) = (Vec::new(), Vec::new());
        read(&mut records, &mut held);
        let mut state = self.0.state();
        state.at_work = None;
        if let Some(until) = now().filter(|_| !records.is_empty() || !held.is_empty()) {
            state.bytes += records.len();
            state.waiting.push(Reading {
                from,
                until,
                records,
                held,
            });
        }
    }
}

impl Drop for OpenReadings<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_open = false;
        state.at_work = None;
        drop(state);
        self.0.closed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_WAITING, Readings};

    #[test]
    fn a_reading_is_taken_with_a_drain_that_began_behind_it_and_holds_waits_back_until_then() {
        let readings = Readings::default();
        assert!(!readings.is_open());
        let open = readings.open();
        assert_eq!((readings.is_open(), readings.earliest()), (true, None));
        let reads = |byte| {
            let readings = &readings;
            move |records: &mut Vec<u8>, _: &mut Vec<_>| {
                assert!(readings.earliest().is_some());
                records.push(byte);
            }
        };
        open.add(10, reads(1), || Some(12));
        open.add(20, reads(2), || Some(25));
        // Nobody slept.
        open.add(30, |_, _| (), || Some(31));
        assert_eq!(readings.earliest(), Some(10));
        assert!(readings.take(11).0.is_empty());
        assert_eq!(readings.take(24).0, [1]);
        assert_eq!(readings.earliest(), Some(20));
        assert_eq!(readings.take(u64::MAX).0, [2]);
        assert_eq!(readings.earliest(), None);
        drop(open);
        readings.wait_for_last();
        assert!(!readings.is_open());
    }

    #[test]
    fn nobody_is_read_while_too_much_waits_to_be_written() {
        let readings = Readings::default();
        let open = readings.open();
        open.add(1, |it, _| it.resize(MOST_WAITING, 0), || Some(2));
        open.add(3, |_, _| panic!("there is no room"), || Some(4));
        assert_eq!(readings.take(2).0.len(), MOST_WAITING);
        let mut is_read = false;
        open.add(5, |_, _| is_read = true, || Some(6));
        assert!(is_read);
    }
}
