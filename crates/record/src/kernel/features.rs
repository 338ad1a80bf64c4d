//! Parts of an attr that not every kernel takes. Releases by the history of the
//! kernel's UAPI header.

use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, event_kind};
use prof_sys::clock;

/// What the recorder asks for by itself, and does without where it must.
pub(super) struct Optional {
    pub(super) asks: fn(&EventAttr) -> bool,
    pub(super) drop: fn(&mut EventAttr),
    /// What is to be told where it is missing; without it nothing that a user
    /// sees is.
    pub(super) loss: Option<&'static str>,
}

/// Newest first.
pub(super) const OPTIONAL: &[Optional] = &[
    // 6.13
    Optional {
        asks: |attr| attr.sample_type.has(SampleType::READ) && attr.flags.has(AttrFlags::INHERIT),
        drop: |attr| {
            let inherited = AttrFlags::INHERIT | AttrFlags::INHERIT_STAT;
            attr.flags = attr.flags.without(inherited);
        },
        loss: Some("without children, because this kernel cannot read groups of inherited events"),
    },
    // 6.0: without it LOST records are counted.
    Optional {
        asks: |attr| attr.read_format.has(ReadFormat::LOST),
        drop: |attr| attr.read_format = attr.read_format.without(ReadFormat::LOST),
        loss: None,
    },
    // 5.12: three weights instead of one.
    Optional {
        asks: |attr| attr.sample_type.has(SampleType::WEIGHT_STRUCT),
        drop: |attr| {
            let without = attr.sample_type.without(SampleType::WEIGHT_STRUCT);
            attr.sample_type = without.with(SampleType::WEIGHT);
        },
        loss: None,
    },
    // 5.12: without it files are read for their build-ids.
    Optional {
        asks: |attr| attr.flags.has(AttrFlags::BUILD_ID),
        drop: |attr| attr.flags = attr.flags.without(AttrFlags::BUILD_ID),
        loss: None,
    },
    // 5.1: without them programs of BPF that come later have no names.
    Optional {
        asks: |attr| attr.flags.0 & BPF.0 != 0,
        drop: |attr| attr.flags = attr.flags.without(BPF),
        loss: None,
    },
    // Not for every PMU.
    Optional {
        asks: |attr| attr.flags.has(AttrFlags::EXCLUDE_GUEST),
        drop: |attr| attr.flags = attr.flags.without(AttrFlags::EXCLUDE_GUEST),
        loss: None,
    },
];

const BPF: AttrFlags = AttrFlags(AttrFlags::KSYMBOL.0 | AttrFlags::BPF_EVENT.0);

/// What a user asked for and this kernel refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Why, as a sentence.
    pub(crate) why: &'static str,
    /// What to leave out.
    pub(crate) option: &'static str,
}

struct Asked {
    unknown: Unknown,
    asks: fn(&EventAttr) -> bool,
    drop: fn(&mut EventAttr),
}

const fn unknown(why: &'static str, option: &'static str) -> Unknown {
    Unknown { why, option }
}

/// Newest first.
const ASKED: &[Asked] = &[
    Asked {
        unknown: unknown("config4= is since Linux 6.19", "config4="),
        asks: |attr| attr.config4 != 0,
        drop: |attr| attr.config4 = 0,
    },
    Asked {
        unknown: unknown("config3= is since Linux 6.3", "config3="),
        asks: |attr| attr.config3 != 0,
        drop: |attr| attr.config3 = 0,
    },
    Asked {
        unknown: unknown("--data-page-size is since Linux 5.11", "--data-page-size"),
        asks: |attr| attr.sample_type.has(SampleType::DATA_PAGE_SIZE),
        drop: |attr| attr.sample_type = attr.sample_type.without(SampleType::DATA_PAGE_SIZE),
    },
    Asked {
        unknown: unknown("--code-page-size is since Linux 5.11", "--code-page-size"),
        asks: |attr| attr.sample_type.has(SampleType::CODE_PAGE_SIZE),
        drop: |attr| attr.sample_type = attr.sample_type.without(SampleType::CODE_PAGE_SIZE),
    },
    Asked {
        unknown: unknown("--all-cgroups is since Linux 5.7", "--all-cgroups"),
        asks: |attr| attr.flags.has(AttrFlags::CGROUP) || attr.sample_type.has(SampleType::CGROUP),
        drop: |attr| {
            attr.flags = attr.flags.without(AttrFlags::CGROUP);
            attr.sample_type = attr.sample_type.without(SampleType::CGROUP);
        },
    },
    Asked {
        unknown: unknown("--phys-data is since Linux 4.14", "--phys-data"),
        asks: |attr| attr.sample_type.has(SampleType::PHYS_ADDR),
        drop: |attr| attr.sample_type = attr.sample_type.without(SampleType::PHYS_ADDR),
    },
    Asked {
        unknown: unknown("--namespaces is since Linux 4.12", "--namespaces"),
        asks: |attr| attr.flags.has(AttrFlags::NAMESPACES),
        drop: |attr| attr.flags = attr.flags.without(AttrFlags::NAMESPACES),
    },
    // Its interrupt comes whatever the kernel is doing, also to a clock.
    Asked {
        unknown: unknown(
            "the times of hardware events can be of the clocks mono and mono_raw only",
            "-k",
        ),
        asks: |attr| {
            let is_hardware = !matches!(
                attr.kind,
                event_kind::SOFTWARE | event_kind::TRACEPOINT | event_kind::BREAKPOINT
            );
            let is_safe = [clock::MONOTONIC, clock::MONOTONIC_RAW].contains(&attr.clockid);
            is_hardware && attr.flags.has(AttrFlags::USE_CLOCKID) && !is_safe
        },
        drop: |attr| {
            attr.flags = attr.flags.without(AttrFlags::USE_CLOCKID);
            attr.clockid = 0;
        },
    },
];

/// `attr` without everything that the recorder asks for by itself.
pub(super) fn without_optional(attr: &EventAttr) -> EventAttr {
    let mut attr = attr.clone();
    for feature in OPTIONAL {
        if (feature.asks)(&attr) {
            (feature.drop)(&mut attr);
        }
    }
    attr
}

/// What of `attr` this kernel refuses: that without which it opens. Tried one
/// by one, since no errno tells.
pub(crate) fn unknown_to(
    attr: &EventAttr,
    mut opens: impl FnMut(&EventAttr) -> bool,
) -> Option<Unknown> {
    // What it would do without is no cause.
    let bare = without_optional(attr);
    let mut asked = ASKED.iter().filter(|asked| (asked.asks)(attr));
    let mut is_cause = |asked: &&Asked| {
        let mut without = bare.clone();
        (asked.drop)(&mut without);
        opens(&without)
    };
    asked.find(&mut is_cause).map(|asked| asked.unknown)
}
