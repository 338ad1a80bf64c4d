//! What a decoder must know of a trace: the `AUXTRACE_INFO` record, laid out as
//! perf's for each tracer.

use crate::events::{self, Tracer};
use crate::open::OpenSet;
use crate::options::Options;
use crate::traces::{switches_are_of_all, tells_switches};
use prof_abi::{ByteOrder, Misc};
use prof_perfdata::body::{AuxtraceInfo, Body};
use prof_perfdata::write::{Trailer, append_short};
use prof_sys::{TimeConversion, clock};

/// Who runs is told by records of the recorded tasks' own switches, or by those of
/// all that runs on a CPU (`INTEL_PT_HAVE_SCHED_SWITCH`).
const SWITCHES_OF_TASKS: u64 = 2;
const SWITCHES_OF_ALL: u64 = 3;

/// The place of the factor of times.
const TIME_MULT: usize = 2;

/// The record; `None` if nothing traces.
pub(crate) fn info(options: &Options, set: &OpenSet) -> Option<Vec<u8>> {
    let planned = set.events.iter().map(|event| &event.planned);
    let (planned, tracer) = planned
        .filter_map(|planned| Some((planned, planned.tracer?)))
        .next()?;
    let time = set.rings.first().and_then(|slot| slot.ring.view().page());
    let known = Known {
        kind: planned.attr.kind.into(),
        time: time.and_then(|page| page.capabilities.time_zero.then_some(page.time)),
        snapshots: options.traces.snapshots.is_some(),
        per_cpu: !options.per_thread,
        filter: planned
            .filter
            .as_ref()
            .map_or(Vec::new(), |filter| filter.as_bytes().to_vec()),
    };
    let words = match tracer {
        Tracer::IntelPt => known.of_intel_pt(options, planned.attr.kind),
        Tracer::IntelBts => known.of_intel_bts(),
        Tracer::ArmSpe => vec![known.kind, known.per_cpu.into()],
        Tracer::HisiPtt | Tracer::CoreSight => vec![known.kind],
    };
    let private: Vec<u8> = words
        .into_iter()
        .flat_map(|word| ByteOrder::NATIVE.bytes_u64(word))
        .collect();
    let body = Body::AuxtraceInfo(AuxtraceInfo {
        kind: tracer.number(),
        pad: 0,
        private: &private,
    });
    let mut record = Vec::new();
    append_short(&body, Misc(0), &Trailer::NONE, &mut record);
    Some(record)
}

struct Known {
    kind: u64,
    /// How the CPU's counter becomes time, where that is known.
    time: Option<TimeConversion>,
    snapshots: bool,
    per_cpu: bool,
    filter: Vec<u8>,
}

impl Known {
    /// Type of the PMU; shift, factor and zero of times, and whether they are known.
    fn beginning(&self) -> Vec<u64> {
        let time = self.time.unwrap_or_default();
        vec![
            self.kind,
            time.shift.into(),
            time.mult.into(),
            time.zero,
            (time.mult != 0).into(),
        ]
    }

    fn of_intel_bts(&self) -> Vec<u64> {
        let mut words = self.beginning();
        // perf divides by it, known or not, wherever records have times, as ours do.
        if let Some(factor) = words.get_mut(TIME_MULT) {
            *factor = (*factor).max(1);
        }
        words.push(self.snapshots.into());
        words
    }

    fn of_intel_pt(&self, options: &Options, kind: u32) -> Vec<u64> {
        let pmu = events::pmu::of_kind(kind);
        let bits = |term: &str| pmu.as_ref().map_or(0, |pmu| pmu.config_bits(term));
        let (ratio, of) = clock::crystal_ratio();
        let switches = match (tells_switches(options), switches_are_of_all(options)) {
            (false, _) => 0,
            (true, false) => SWITCHES_OF_TASKS,
            (true, true) => SWITCHES_OF_ALL,
        };
        let most = pmu.as_ref().and_then(|it| it.number("max_nonturbo_ratio"));
        let mut words = self.beginning();
        words.extend([
            bits("tsc"),
            bits("noretcomp"),
            switches,
            self.snapshots.into(),
            self.per_cpu.into(),
            bits("mtc"),
            bits("mtc_period"),
            ratio.into(),
            of.into(),
            bits("cyc"),
            most.unwrap_or(0),
            self.filter.len() as u64,
        ]);
        let mut filter = self.filter.clone();
        if !filter.is_empty() {
            // With a zero at its end, to whole words.
            filter.resize((filter.len() + 1).next_multiple_of(8), 0);
        }
        let text = filter.chunks_exact(8);
        words.extend(text.map(|word| ByteOrder::NATIVE.u64(word, 0).unwrap_or(0)));
        let events = pmu.and_then(|pmu| pmu.number("caps/event_trace"));
        words.push(events.unwrap_or(0));
        words
    }
}
