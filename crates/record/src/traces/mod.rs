//! Traces of PMUs that write an AUX area beside the ring (Intel PT and BTS, Arm
//! SPE, HiSilicon PTT): their areas are mapped, emptied and stored as `AUXTRACE`
//! records; who decodes them is another program.
//!
//! | way | area | when it is read |
//! |---|---|---|
//! | all | the kernel waits for the reader, and disables the event when it is full | with each drain |
//! | snapshots (`-S`) | the newest data takes the place of the oldest | on SIGUSR2 and, if wanted, at the end |
//! | samples (`--aux-sample`) | the same | by the kernel, for samples of other events |

mod areas;
mod info;

pub(crate) use areas::{Area, Areas, TracePiece};
pub(crate) use info::info;

use crate::error::RecordError;
use crate::events::{EventSpec, Tracer};
use crate::options::{Options, Snapshots, Target};
use prof_sys::process::effective_user;
use prof_sys::{AuxMode, page_size};

/// Bytes of an area for whom no limits of memory hold, and for others, as perf's.
const AREA_OF_ROOT: u64 = 4 << 20;
const AREA_OF_USERS: u64 = 128 << 10;
/// The least, bytes: of a whole trace half of an area is filled while the other is
/// read.
const LEAST_AREA: u64 = 8 << 10;
/// Bytes of trace in a sample, unless told otherwise, and the most that fits a
/// record beside its other fields.
const USUAL_SAMPLE: u32 = 4 << 10;
const MOST_SAMPLE: u32 = 60 << 10;

/// An area to be mapped with each ring of an event that traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AreaPlan {
    pub(crate) bytes: u64,
    pub(crate) way: Way,
}

/// How its data gets into the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    All,
    /// So many bytes each, and one at the end if it says so.
    Snapshots {
        most: u64,
        at_end: bool,
    },
    Samples,
}

impl AreaPlan {
    /// Of a recording; `None` if nothing traces.
    pub(crate) fn of(options: &Options) -> Option<Self> {
        tracer_of(&options.events)?;
        let traces = &options.traces;
        let bytes = match (traces.area_bytes, traces.snapshots.and_then(|it| it.bytes)) {
            (Some(asked), _) => asked,
            (None, Some(snapshot)) => snapshot
                .max(page_size() as u64)
                .checked_next_power_of_two()
                .unwrap_or(snapshot),
            (None, None) if is_privileged() => AREA_OF_ROOT,
            (None, None) => AREA_OF_USERS,
        };
        let way = match traces.snapshots {
            Some(Snapshots {
                bytes: most,
                at_end,
            }) => Way::Snapshots {
                most: most.unwrap_or(bytes),
                at_end,
            },
            None if samples_traces(options) => Way::Samples,
            None => Way::All,
        };
        Some(Self { bytes, way })
    }

    pub(crate) fn mode(self) -> AuxMode {
        match self.way {
            Way::All => AuxMode::Waits,
            Way::Snapshots { .. } | Way::Samples => AuxMode::Snapshot,
        }
    }
}

/// Whether the kernel lets this user lock as much memory as it likes, as perf
/// judges it.
fn is_privileged() -> bool {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let level = paranoid
        .ok()
        .and_then(|text| text.trim().parse::<i32>().ok());
    effective_user() == 0 || level.is_some_and(|level| level <= -1)
}

/// Bytes after which a reader of a whole trace is woken, as perf's; 0 leaves half of
/// the area, and of what is overwritten nobody is woken.
pub(crate) fn watermark(options: &Options) -> u32 {
    let whole = AreaPlan::of(options).filter(|plan| plan.way == Way::All);
    let is_pt = tracer_of(&options.events) == Some(Tracer::IntelPt);
    whole
        .filter(|_| is_pt)
        .map_or(0, |plan| u32::try_from(plan.bytes / 4).unwrap_or(u32::MAX))
}

/// What traces, if anything does.
pub(crate) fn tracer_of(events: &[EventSpec]) -> Option<Tracer> {
    events.iter().find_map(|spec| spec.tracer)
}

/// Whether samples of other events have pieces of the trace.
fn samples_traces(options: &Options) -> bool {
    let has_some = |spec: &EventSpec| spec.attr.aux_sample_size > 0;
    options.traces.samples.is_some() || options.events.iter().any(has_some)
}

/// Bytes of trace that samples of this event have (`--aux-sample`), if it follows
/// a tracing event in a group.
pub(crate) fn sample_bytes(options: &Options, spec: &EventSpec) -> u32 {
    let own = spec.attr.aux_sample_size;
    let leader = options
        .events
        .iter()
        .find(|other| other.group.is_some() && other.group == spec.group && other.tracer.is_some());
    match (options.traces.samples, leader) {
        (Some(asked), Some(_)) if own == 0 && spec.tracer.is_none() => {
            asked.bytes.unwrap_or(USUAL_SAMPLE)
        }
        _ => own,
    }
}

/// Refuses what cannot be traced.
pub(crate) fn check(options: &Options) -> Result<(), RecordError> {
    match wrong(options) {
        None => Ok(()),
        Some((what, cure)) => Err(RecordError::Trace { what, cure }),
    }
}

/// What is wrong, and what works.
fn wrong(options: &Options) -> Option<(String, &'static str)> {
    const TRACING: &str = "an event of a PMU that traces: prof list --pmu shows what there is";
    let traces = &options.traces;
    let told = |what: &str, cure| Some((what.to_owned(), cure));
    let mut tracing = options.events.iter().filter(|spec| spec.tracer.is_some());
    let Some(spec) = tracing.next() else {
        return match (traces.snapshots, traces.samples) {
            (Some(_), _) => told(
                "-S takes snapshots of a trace, and no event traces",
                TRACING,
            ),
            (_, Some(_)) => told("--aux-sample needs a trace, and no event traces", TRACING),
            (None, None) => None,
        };
    };
    if let Some(second) = tracing.next() {
        let what = format!(
            "{} and {}: there can be only one trace",
            spec.name, second.name
        );
        return Some((what, "a recording for each"));
    }
    wrong_tracer(options, spec).or_else(|| wrong_way(options))
}

/// The same of what traces.
fn wrong_tracer(options: &Options, spec: &EventSpec) -> Option<(String, &'static str)> {
    let (what, cure) = match spec.tracer? {
        Tracer::CoreSight => (
            "is decoded by the registers and the sink of its cells, which are not recorded here",
            "perf record -e cs_etm//",
        ),
        Tracer::IntelBts if !options.per_thread => {
            ("is of threads only, not of CPUs", "with --per-thread")
        }
        Tracer::IntelBts if samples_traces(options) => ("has no samples", "without --aux-sample"),
        Tracer::IntelPt if options.clock.is_some() => (
            "has times of the CPU's counter, which no other clock can be set beside",
            "without -k",
        ),
        _ => return None,
    };
    Some((format!("{}: {what}", spec.name), cure))
}

/// The same of how it is recorded.
fn wrong_way(options: &Options) -> Option<(String, &'static str)> {
    let parts =
        "a trace is decoded from its beginning, with what was mapped until then: it cannot go with";
    let refused = [
        (options.switching.is_some(), "--switch-output"),
        (options.timestamp_name, "--timestamp-filename"),
        (options.flight.is_some(), "--overwrite"),
        (options.waits.is_some(), "--off-cpu"),
    ];
    if let Some((_, option)) = refused.into_iter().find(|(is_asked, _)| *is_asked) {
        return Some((format!("{parts} {option}"), "-S, for snapshots on SIGUSR2"));
    }
    let plan = AreaPlan::of(options)?;
    let cure = "a larger second size of -m, such as -m ,4M";
    match plan.way {
        Way::All if plan.bytes < LEAST_AREA => Some((
            format!("an area of {} bytes is too small", plan.bytes),
            cure,
        )),
        Way::Snapshots { most, .. } if most > plan.bytes => Some((
            format!(
                "snapshots of {most} bytes are larger than the area ({})",
                plan.bytes
            ),
            cure,
        )),
        Way::Snapshots { .. } if samples_traces(options) => Some((
            "snapshots and samples of a trace exclude each other".to_owned(),
            "either",
        )),
        Way::Samples => wrong_samples(options),
        _ => None,
    }
}

/// The same of samples with a piece of trace.
fn wrong_samples(options: &Options) -> Option<(String, &'static str)> {
    let asked = options.traces.samples.and_then(|samples| samples.bytes);
    let bytes = asked.unwrap_or(USUAL_SAMPLE);
    if bytes > MOST_SAMPLE {
        return Some((
            format!("a sample has no room for {bytes} bytes of trace"),
            "--aux-sample=61440, the most",
        ));
    }
    let has_some = options
        .events
        .iter()
        .any(|spec| sample_bytes(options, spec) > 0);
    (!has_some).then(|| {
        (
            "--aux-sample is for events in a group that a tracing one leads".to_owned(),
            "-e '{intel_pt//u,cycles:u}'",
        )
    })
}

/// Whether records tell who runs, for the decoder.
pub(crate) fn tells_switches(options: &Options) -> bool {
    let needs = tracer_of(&options.events).is_some_and(Tracer::needs_switches);
    needs && !options.per_thread
}

/// Whether those are of all tasks, not of those that are recorded only.
pub(crate) fn switches_are_of_all(options: &Options) -> bool {
    options.target == Target::System
}

#[cfg(test)]
mod tests;
