//! Parts of an attr that not every kernel takes. Releases by the history of the
//! kernel's UAPI header.

use prof_abi::{AttrFlags, BranchSampleType, EventAttr, ReadFormat, SampleType, event_kind};
use prof_sys::clock;

/// A part of an attr.
#[derive(Debug, Clone, Copy)]
enum AttrPart {
    /// Any of these flags.
    Flags(AttrFlags),
    Sample(SampleType),
    Counts(ReadFormat),
    Branches(BranchSampleType),
    /// Three weights instead of one.
    Weights,
    /// Counters of inherited events in samples.
    InheritedReads,
    Cgroups,
    Config3,
    Config4,
    AuxSamples,
    AuxActions,
    /// A clock that an interrupt may not read, of an event that interrupts
    /// whatever the kernel is doing.
    UnsafeClock,
}

const INHERITED: AttrFlags = AttrFlags(AttrFlags::INHERIT.0 | AttrFlags::INHERIT_STAT.0);

impl AttrPart {
    fn is_in(self, attr: &EventAttr) -> bool {
        match self {
            Self::Flags(flags) => attr.flags.0 & flags.0 != 0,
            Self::Sample(part) => attr.sample_type.has(part),
            Self::Counts(part) => attr.read_format.has(part),
            Self::Branches(filter) => attr.branch_sample_type.has(filter),
            Self::Weights => attr.sample_type.has(SampleType::WEIGHT_STRUCT),
            Self::InheritedReads => {
                attr.sample_type.has(SampleType::READ) && attr.flags.has(AttrFlags::INHERIT)
            }
            Self::Cgroups => {
                attr.flags.has(AttrFlags::CGROUP) || attr.sample_type.has(SampleType::CGROUP)
            }
            Self::Config3 => attr.config3 != 0,
            Self::Config4 => attr.config4 != 0,
            Self::AuxSamples => attr.aux_sample_size != 0,
            Self::AuxActions => attr.aux_action != 0,
            Self::UnsafeClock => {
                let is_safe = [clock::MONOTONIC, clock::MONOTONIC_RAW].contains(&attr.clockid);
                interrupts(attr.kind) && attr.flags.has(AttrFlags::USE_CLOCKID) && !is_safe
            }
        }
    }

    fn take_out(self, attr: &mut EventAttr) {
        match self {
            Self::Flags(flags) => attr.flags = attr.flags.without(flags),
            Self::Sample(part) => attr.sample_type = attr.sample_type.without(part),
            Self::Counts(part) => attr.read_format = attr.read_format.without(part),
            Self::Branches(filter) => {
                attr.branch_sample_type = attr.branch_sample_type.without(filter);
            }
            Self::Weights => {
                let without = attr.sample_type.without(SampleType::WEIGHT_STRUCT);
                attr.sample_type = without.with(SampleType::WEIGHT);
            }
            Self::InheritedReads => attr.flags = attr.flags.without(INHERITED),
            Self::Cgroups => {
                attr.flags = attr.flags.without(AttrFlags::CGROUP);
                attr.sample_type = attr.sample_type.without(SampleType::CGROUP);
            }
            Self::Config3 => attr.config3 = 0,
            Self::Config4 => attr.config4 = 0,
            Self::AuxSamples => {
                attr.aux_sample_size = 0;
                attr.sample_type = attr.sample_type.without(SampleType::AUX);
            }
            Self::AuxActions => attr.aux_action = 0,
            Self::UnsafeClock => {
                attr.flags = attr.flags.without(AttrFlags::USE_CLOCKID);
                attr.clockid = 0;
            }
        }
    }
}

/// Whether events of this type are the hardware's.
fn interrupts(kind: u32) -> bool {
    !matches!(
        kind,
        event_kind::SOFTWARE | event_kind::TRACEPOINT | event_kind::BREAKPOINT
    )
}

/// What the recorder asks for by itself, and does without where it must.
#[derive(Debug)]
pub(super) struct Optional {
    part: AttrPart,
    /// What is to be told where it is missing; without it nothing that a user
    /// sees is.
    pub(super) loss: Option<&'static str>,
}

const fn quiet(part: AttrPart) -> Optional {
    Optional { part, loss: None }
}

/// Newest first.
pub(super) const OPTIONAL: &[Optional] = &[
    // 6.19
    Optional {
        part: AttrPart::Flags(AttrFlags::DEFER_CALLCHAIN),
        loss: Some("call chains at once, because this kernel cannot defer them (Linux 6.19 can)"),
    },
    quiet(AttrPart::Flags(AttrFlags::DEFER_OUTPUT)),
    // 6.13
    Optional {
        part: AttrPart::InheritedReads,
        loss: Some("without children, because this kernel cannot read groups of inherited events"),
    },
    // 6.0: without it LOST records are counted.
    quiet(AttrPart::Counts(ReadFormat::LOST)),
    // 5.12
    quiet(AttrPart::Weights),
    // 5.12: without it files are read for their build-ids.
    quiet(AttrPart::Flags(AttrFlags::BUILD_ID)),
    // 5.7: without it chains of last branches are joined by their addresses.
    quiet(AttrPart::Branches(BranchSampleType::HW_INDEX)),
    // 5.1: without them programs of BPF that come later have no names.
    quiet(AttrPart::Flags(AttrFlags(
        AttrFlags::KSYMBOL.0 | AttrFlags::BPF_EVENT.0,
    ))),
    // Not for every PMU.
    quiet(AttrPart::Flags(AttrFlags::EXCLUDE_GUEST)),
];

impl Optional {
    pub(super) fn is_in(&self, attr: &EventAttr) -> bool {
        self.part.is_in(attr)
    }

    pub(super) fn take_out(&self, attr: &mut EventAttr) {
        if self.is_in(attr) {
            self.part.take_out(attr);
        }
    }
}

/// What a user asked for and this kernel refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// What to leave out.
    pub(crate) option: &'static str,
    /// Why.
    pub(crate) why: Why,
}

/// Why a kernel refuses what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is older than this release.
    Since(&'static str),
    /// No kernel has such times for events of hardware.
    Clock,
}

impl Unknown {
    /// As a sentence.
    pub(crate) fn sentence(&self) -> String {
        match self.why {
            Why::Since(release) => {
                format!("{} is since Linux {release}", self.option)
            }
            Why::Clock => {
                "the times of hardware events can be of the clocks mono and mono_raw only"
                    .to_owned()
            }
        }
    }
}

/// Newest first.
const ASKED: &[(AttrPart, &str, Why)] = &[
    (AttrPart::Config4, "config4=", Why::Since("6.19")),
    (AttrPart::AuxActions, "aux-action=", Why::Since("6.13")),
    (
        AttrPart::Branches(BranchSampleType::COUNTERS),
        "-j counter",
        Why::Since("6.8"),
    ),
    (AttrPart::Config3, "config3=", Why::Since("6.3")),
    (
        AttrPart::Branches(BranchSampleType::PRIV_SAVE),
        "-j priv",
        Why::Since("6.1"),
    ),
    (
        AttrPart::Sample(SampleType::DATA_PAGE_SIZE),
        "--data-page-size",
        Why::Since("5.11"),
    ),
    (
        AttrPart::Sample(SampleType::CODE_PAGE_SIZE),
        "--code-page-size",
        Why::Since("5.11"),
    ),
    (AttrPart::Cgroups, "--all-cgroups", Why::Since("5.7")),
    (AttrPart::AuxSamples, "aux-sample-size=", Why::Since("5.5")),
    (
        AttrPart::Flags(AttrFlags::AUX_OUTPUT),
        "aux-output",
        Why::Since("5.4"),
    ),
    (
        AttrPart::Sample(SampleType::PHYS_ADDR),
        "--phys-data",
        Why::Since("4.14"),
    ),
    (
        AttrPart::Branches(BranchSampleType::TYPE_SAVE),
        "-j save_type",
        Why::Since("4.14"),
    ),
    (
        AttrPart::Flags(AttrFlags::NAMESPACES),
        "--namespaces",
        Why::Since("4.12"),
    ),
    (AttrPart::UnsafeClock, "-k", Why::Clock),
];

/// `attr` without everything that the recorder asks for by itself.
pub(super) fn without_optional(attr: &EventAttr) -> EventAttr {
    let mut attr = attr.clone();
    for feature in OPTIONAL {
        feature.take_out(&mut attr);
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
    let mut asked = ASKED.iter().filter(|(part, ..)| part.is_in(attr));
    let mut is_cause = |(part, ..): &&(AttrPart, &str, Why)| {
        let mut without = bare.clone();
        part.take_out(&mut without);
        opens(&without)
    };
    let &(_, option, why) = asked.find(&mut is_cause)?;
    Some(Unknown { option, why })
}
