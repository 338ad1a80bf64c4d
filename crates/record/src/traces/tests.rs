use super::{AreaPlan, Way, check, sample_bytes};
use crate::events::{EventSpec, Tracer};
use crate::options::{Options, Snapshots, Switching, Target, TraceSamples, Traces};
use crate::output::Destination;
use prof_abi::EventAttr;

/// A recording of an event that traces, and of one beside it in its group.
fn options(tracer: Tracer) -> Options {
    let mut options = Options::new(Target::System, Destination::Stdout);
    let traced = EventSpec {
        tracer: Some(tracer),
        group: Some(1),
        ..EventSpec::new("trace//", EventAttr::default())
    };
    let beside = EventSpec {
        group: Some(1),
        ..EventSpec::new("cycles", EventAttr::default())
    };
    options.events = vec![traced, beside];
    options
}

fn snapshots(area: Option<u64>, bytes: Option<u64>) -> Traces {
    Traces {
        area_bytes: area,
        snapshots: Some(Snapshots {
            bytes,
            at_end: true,
        }),
        samples: None,
    }
}

#[test]
fn areas_are_as_large_as_their_snapshots() {
    let mut options = options(Tracer::IntelPt);
    let planned = |options: &Options| AreaPlan::of(options).expect("it traces");
    assert_eq!(planned(&options).way, Way::All);
    options.traces = snapshots(None, Some(10_000));
    assert_eq!(planned(&options).bytes, 16_384);
    let way = Way::Snapshots {
        most: 10_000,
        at_end: true,
    };
    assert_eq!(planned(&options).way, way);
    options.traces = snapshots(Some(65_536), None);
    let most = 65_536;
    assert_eq!(planned(&options).way, Way::Snapshots { most, at_end: true });
    options.events.remove(0);
    assert_eq!(AreaPlan::of(&options), None);
}

#[test]
fn samples_of_a_trace_are_of_the_events_it_leads() {
    // covers unit: ST-22, ATTR-51
    let mut options = options(Tracer::IntelPt);
    let bytes = |options: &Options| {
        let events = options.events.iter();
        events
            .map(|spec| sample_bytes(options, spec))
            .collect::<Vec<_>>()
    };
    assert_eq!(bytes(&options), [0, 0]);
    options.traces.samples = Some(TraceSamples { bytes: None });
    assert_eq!(bytes(&options), [0, 4096]);
    assert!(check(&options).is_ok());
    let plan = AreaPlan::of(&options).expect("it traces");
    assert_eq!(plan.way, Way::Samples);
    options.events[1].attr.aux_sample_size = 512;
    assert_eq!(bytes(&options), [0, 512]);
    options.events[1] = EventSpec::new("cycles", EventAttr::default());
    let refused = check(&options).expect_err("in no group").to_string();
    assert!(refused.contains("group"), "{refused}");
}

type Case = (Tracer, fn(&mut Options), &'static str);

const REFUSED: [Case; 10] = [
    (
        Tracer::IntelPt,
        |it| it.events[1].tracer = it.events[0].tracer,
        "only one trace",
    ),
    (Tracer::CoreSight, |_| {}, "perf record -e cs_etm//"),
    (Tracer::IntelBts, |_| {}, "--per-thread"),
    (
        Tracer::IntelPt,
        |it| it.clock = Some(crate::options::CLOCKS[0].1),
        "without -k",
    ),
    (
        Tracer::IntelPt,
        |it| it.timestamp_name = true,
        "--timestamp-filename",
    ),
    (
        Tracer::ArmSpe,
        |it| it.switching = Some(Switching::default()),
        "--switch-output",
    ),
    (
        Tracer::ArmSpe,
        |it| it.traces.area_bytes = Some(4096),
        "too small",
    ),
    (
        Tracer::ArmSpe,
        |it| it.traces = snapshots(Some(4096), Some(8192)),
        "larger than the area",
    ),
    (
        Tracer::IntelPt,
        |it| {
            it.traces = snapshots(None, None);
            it.traces.samples = Some(TraceSamples::default());
        },
        "exclude each other",
    ),
    (
        Tracer::IntelPt,
        |it| {
            it.traces.samples = Some(TraceSamples {
                bytes: Some(65_000),
            })
        },
        "61440",
    ),
];

#[test]
fn what_cannot_be_traced_is_refused_with_what_can() {
    for (tracer, change, words) in REFUSED {
        let mut options = options(tracer);
        change(&mut options);
        let refused = check(&options).expect_err(words).to_string();
        let is_told = refused.contains(words) && refused.contains("try: ");
        assert!(is_told, "{refused}");
    }
    let mut untraced = options(Tracer::IntelPt);
    untraced.events.remove(0);
    assert!(check(&untraced).is_ok());
    untraced.traces = snapshots(None, None);
    assert!(check(&untraced).is_err());
}
