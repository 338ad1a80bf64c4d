//! Memory that the recorder read, until the samples that it is of have come.

use crate::memory::MemorySnapshot;
use rustc_hash::FxHashMap;

/// How long a snapshot waits for its sample after later ones have come, ns.
const LIFE: u64 = 50_000_000;

/// Snapshots for samples to come.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// By thread and time of the sample.
    of_samples: FxHashMap<(i32, u64), Kept>,
    /// By thread and time of its leaving of the CPU: the time of the sample before it.
    of_leaving: FxHashMap<(i32, u64), u64>,
}

#[derive(Debug)]
struct Kept {
    snapshot: MemorySnapshot,
    /// All samples that it is of have been unwound.
    is_used: bool,
}

impl Snapshots {
    pub(super) fn add(&mut self, snapshot: MemorySnapshot) {
        let (tid, time) = (snapshot.tid, snapshot.time);
        if let Some(left_at) = snapshot.left_at {
            self.of_leaving.insert((tid, left_at), time);
        }
        let is_used = false;
        self.of_samples
            .insert((tid, time), Kept { snapshot, is_used });
    }

    /// Which of `of_samples` is of a sample of a thread at a time, be it that of its
    /// leaving.
    fn key(&self, tid: i32, time: u64) -> (i32, u64) {
        (tid, *self.of_leaving.get(&(tid, time)).unwrap_or(&time))
    }

    /// What was read for a sample of a thread at a time.
    pub(super) fn pieces(&self, tid: i32, time: u64) -> &[(u64, Vec<u8>)] {
        let kept = self.of_samples.get(&self.key(tid, time));
        kept.map_or(&[], |kept| &kept.snapshot.pieces)
    }

    /// The sample was unwound.
    pub(super) fn used(&mut self, tid: i32, time: u64) {
        let key = self.key(tid, time);
        if let Some(kept) = self.of_samples.get_mut(&key) {
            kept.is_used |= kept.snapshot.left_at.is_none_or(|left_at| left_at == time);
        }
    }

    /// Takes those whose samples have been unwound, or will never come: the latest
    /// record was of `latest`.
    pub(super) fn take_used(&mut self, latest: u64) -> impl Iterator<Item = MemorySnapshot> {
        let is_over = move |kept: &Kept| {
            let last = kept.snapshot.left_at.unwrap_or(kept.snapshot.time);
            kept.is_used || last.saturating_add(LIFE) < latest
        };
        let of_leaving = &mut self.of_leaving;
        let over = self.of_samples.extract_if(move |_, kept| is_over(kept));
        over.map(|((tid, _), kept)| {
            if let Some(left_at) = kept.snapshot.left_at {
                of_leaving.remove(&(tid, left_at));
            }
            kept.snapshot
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LIFE, Snapshots};
    use crate::memory::MemorySnapshot;

    fn snapshots(left_at: Option<u64>) -> Snapshots {
        let mut snapshots = Snapshots::default();
        snapshots.add(MemorySnapshot {
            tid: 7,
            time: 10,
            left_at,
            pieces: vec![(0x1000, vec![1])],
        });
        snapshots
    }

    #[test]
    fn what_was_read_serves_the_sample_and_that_of_leaving() {
        let mut snapshots = snapshots(Some(12));
        let has = |snapshots: &Snapshots, tid, time| !snapshots.pieces(tid, time).is_empty();
        assert!(has(&snapshots, 7, 10) && has(&snapshots, 7, 12));
        assert!(!has(&snapshots, 7, 11) && !has(&snapshots, 8, 12));
        snapshots.used(7, 10);
        assert_eq!(snapshots.take_used(20).count(), 0, "it left, too");
        assert!(has(&snapshots, 7, 12));
        snapshots.used(7, 12);
        assert_eq!(snapshots.take_used(20).count(), 1);
        assert!(snapshots.of_samples.is_empty() && snapshots.of_leaving.is_empty());
    }

    #[test]
    fn what_nobody_comes_for_is_given_back() {
        let mut alone = snapshots(None);
        alone.used(7, 11);
        assert_eq!(alone.take_used(20).count(), 0);
        alone.used(7, 10);
        assert_eq!(alone.take_used(20).count(), 1);
        let mut missed = snapshots(Some(12));
        assert_eq!(missed.take_used(12 + LIFE).count(), 0);
        assert_eq!(missed.take_used(13 + LIFE).count(), 1);
        assert!(missed.of_leaving.is_empty());
    }
}
