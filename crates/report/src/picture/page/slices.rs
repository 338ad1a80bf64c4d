//! Time in equal pieces.

use crate::waiting::Lanes;
use serde::Serialize;

/// Time slices, at most: as many as a wide screen can tell apart.
const MOST_SLICES: u64 = 1000;

/// Equal pieces of the time in which samples were taken.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Slices {
    /// Time of the first sample, ns; where there are lanes, that of the first
    /// that anything is known of.
    pub(super) start: u64,
    /// Length of one, ns.
    pub(super) slice: u64,
    /// How many.
    pub(super) slices: u64,
}

impl Slices {
    /// Of the times of samples; `None` if there are none.
    pub(super) fn of(times: impl Iterator<Item = u64>, lanes: Option<&Lanes>) -> Option<Self> {
        let both = times.map(|time| (time, time));
        let both = both.reduce(|(start, last), (time, _)| (start.min(time), last.max(time)))?;
        let (start, last) = lanes.map_or(both, |lanes| lanes.time);
        (last > start).then(|| Self::new(start, last, MOST_SLICES))
    }

    pub(super) fn new(start: u64, last: u64, most: u64) -> Self {
        let slice = ((last - start) / most).saturating_add(1);
        Self {
            start,
            slice,
            slices: (last - start) / slice + 1,
        }
    }

    /// Half as many, twice as long.
    pub(super) fn halved(self) -> Self {
        Self {
            slice: self.slice.saturating_mul(2),
            slices: self.slices.div_ceil(2),
            ..self
        }
    }

    pub(super) fn at(self, time: u64) -> u64 {
        (time.saturating_sub(self.start) / self.slice).min(self.slices - 1)
    }
}
