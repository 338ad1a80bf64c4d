//! Emptying areas, on the draining thread.

use super::{AreaPlan, Way};
use crate::drain::Shared;
use crate::events::Tracer;
use crate::open::{OpenEvent, RingSlot};
use prof_abi::Misc;
use prof_perfdata::body::{Auxtrace, Body};
use prof_perfdata::write::{Trailer, append_short};
use prof_sys::{AuxArea, clock};

/// A branch in the store of Intel's tracer, bytes.
const BRANCH: usize = 24;

/// The area of an event on one ring.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) area: AuxArea,
    /// The place of the event.
    pub(crate) event: usize,
}

/// A piece of a trace, as the file has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TracePiece {
    /// The `AUXTRACE` record.
    pub(crate) record: Vec<u8>,
    /// What stands behind it, a multiple of 8 bytes.
    pub(crate) trace: Vec<u8>,
}

/// All areas of a recording.
pub(crate) struct Areas<'a> {
    areas: Vec<Placed>,
    events: &'a [OpenEvent],
    shared: &'a Shared,
    way: Way,
    tracer: Tracer,
}

struct Placed {
    area: Area,
    ring: usize,
    cpu: Option<u32>,
    tid: Option<u32>,
}

impl<'a> Areas<'a> {
    /// Takes the areas of the rings; `None` if there are none.
    pub(crate) fn of(
        rings: &mut [RingSlot],
        events: &'a [OpenEvent],
        shared: &'a Shared,
        plan: Option<AreaPlan>,
    ) -> Option<Self> {
        let tracer = events.iter().find_map(|event| event.planned.tracer)?;
        let areas = rings.iter_mut().enumerate().filter_map(|(ring, slot)| {
            Some(Placed {
                area: slot.trace.take()?,
                ring,
                cpu: slot.cpu,
                tid: slot.tid,
            })
        });
        Some(Self {
            areas: areas.collect(),
            events,
            shared,
            way: plan?.way,
            tracer,
        })
    }

    /// Takes what is due: all that there is, or a snapshot if one is wanted.
    pub(crate) fn take(&mut self, is_stopped: bool, mut send: impl FnMut(TracePiece)) {
        let most = match self.way {
            Way::Samples => return,
            Way::All => None,
            Way::Snapshots { most, at_end } => {
                let is_wanted = self.shared.is_snapshot_wanted();
                if !(is_wanted || is_stopped && at_end) {
                    return;
                }
                Some(usize::try_from(most).unwrap_or(usize::MAX))
            }
        };
        for place in 0..self.areas.len() {
            let piece = match most {
                None => self.all_of(place),
                Some(most) => self.snapshot_of(place, most),
            };
            if let Some(piece) = piece {
                send(piece);
            }
        }
    }

    /// What came since the last time. The kernel may have disabled the event for
    /// want of room, and did not say so.
    fn all_of(&mut self, place: usize) -> Option<TracePiece> {
        let placed = self.areas.get_mut(place)?;
        let mut trace = Vec::new();
        let begins = placed.area.area.position();
        if placed.area.area.take(&mut trace) == 0 {
            return None;
        }
        self.shared.while_on(|is_on| {
            if is_on {
                self.switch(place, true);
            }
        });
        self.piece(place, begins, trace)
    }

    /// The newest bytes, with the event disabled meanwhile.
    fn snapshot_of(&mut self, place: usize, most: usize) -> Option<TracePiece> {
        let mut trace = Vec::new();
        let shared = self.shared;
        let begins = shared.while_on(|is_on| {
            if is_on {
                self.switch(place, false);
            }
            let area = &mut self.areas.get_mut(place)?.area.area;
            let begins = area.take_newest(most, &mut trace);
            if is_on {
                self.switch(place, true);
            }
            Some(begins)
        })?;
        if self.tracer == Tracer::IntelBts {
            trace.truncate(trace.len() / BRANCH * BRANCH);
        }
        (!trace.is_empty()).then_some(())?;
        self.piece(place, begins, trace)
    }

    /// Switches the event of a ring; that fails only for tasks that have ended.
    fn switch(&self, place: usize, is_on: bool) {
        let Some(placed) = self.areas.get(place) else {
            return;
        };
        let event = self.events.get(placed.area.event);
        let descriptors = event.map_or(&[][..], |event| &event.descriptors);
        for open in descriptors.iter().filter(|open| open.ring == placed.ring) {
            let _ = match is_on {
                true => open.event.enable(),
                false => open.event.disable(),
            };
        }
    }

    fn piece(&self, place: usize, begins: u64, mut trace: Vec<u8>) -> Option<TracePiece> {
        let placed = self.areas.get(place)?;
        trace.resize(trace.len().next_multiple_of(8), 0);
        let any = |number: Option<u32>| number.map_or(-1, u32::cast_signed);
        let body = Body::Auxtrace(Auxtrace {
            size: trace.len() as u64,
            offset: begins,
            reference: self.reference(),
            buffer: u32::try_from(placed.ring).unwrap_or(u32::MAX),
            tid: any(placed.tid),
            cpu: any(placed.cpu),
            pad: 0,
        });
        let mut record = Vec::new();
        append_short(&body, Misc(0), &Trailer::NONE, &mut record);
        Some(TracePiece { record, trace })
    }

    /// A number that tells the pieces apart and when they were read, as perf's.
    fn reference(&self) -> u64 {
        match self.tracer {
            Tracer::IntelPt | Tracer::IntelBts => clock::cycles(),
            _ => {
                let now = clock::now(clock::MONOTONIC_RAW).unwrap_or(0);
                (now / 1_000_000_000) ^ (now % 1_000_000_000)
            }
        }
    }
}
