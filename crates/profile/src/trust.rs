//! How far the numbers can be trusted.

use crate::{Clock, DsoId, UnnamedReason};
use std::collections::BTreeMap;

/// Where and why a user stack ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ChainEnd {
    /// At the start of its thread: complete.
    Root,
    /// The frame-pointer chain broke: code built without frame pointers.
    BrokenFramePointers,
    /// The copied piece of stack ended.
    StackCut,
    /// Samples arrived faster than they were unwound, so stack memory that was
    /// not copied with the sample was not read.
    RecorderLate,
    /// The chain is as long as the kernel's limit.
    DepthLimit,
    /// No unwind information for an address.
    NoUnwindInfo,
    /// The file with the unwind information could not be read.
    FileMissing,
    /// Unwind information was there but wrong or too costly.
    BadUnwindInfo,
    /// Nothing proved the next frame, so none was made up.
    Unproven,
    /// The thread was on another stack than its callers', which was not copied: C code
    /// that Go called.
    OtherStack,
    /// No user part was recorded.
    NotRecorded,
}

impl ChainEnd {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Root,
        Self::BrokenFramePointers,
        Self::StackCut,
        Self::RecorderLate,
        Self::DepthLimit,
        Self::NoUnwindInfo,
        Self::FileMissing,
        Self::BadUnwindInfo,
        Self::Unproven,
        Self::OtherStack,
        Self::NotRecorded,
    ];

    /// Its name in recordings and in JSON; does not change between versions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "Root",
            Self::BrokenFramePointers => "BrokenFramePointers",
            Self::StackCut => "StackCut",
            Self::RecorderLate => "RecorderLate",
            Self::DepthLimit => "DepthLimit",
            Self::NoUnwindInfo => "NoUnwindInfo",
            Self::FileMissing => "FileMissing",
            Self::BadUnwindInfo => "BadUnwindInfo",
            Self::Unproven => "Unproven",
            Self::OtherStack => "OtherStack",
            Self::NotRecorded => "NotRecorded",
        }
    }

    /// The end of this [`ChainEnd::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.name() == name)
    }
}

/// Who made the user part of call chains; this decides what can be done about
/// incomplete ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChainSource {
    /// The kernel, by frame pointers; also if it is not known.
    #[default]
    Kernel,
    /// The recorder, while it recorded (`--call-graph auto`).
    Recorder,
    /// The reader, from registers and stack bytes in the file.
    Reader,
    /// The kernel or the recorder: the recording was not finished, so that its
    /// last part, which tells who, is missing.
    Unfinished,
    /// The kernel or the recorder: the file was written anew by a tool that leaves out
    /// what tells who (`perf inject`).
    Injected,
}

/// A part of the file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Byte offset in the file.
    pub offset: u64,
    /// What was wrong, in words, with the numbers that disagree.
    pub what: String,
    /// Bytes skipped.
    pub bytes: u64,
}

/// A warning with how often it occurred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedCount {
    /// What, in words.
    pub what: String,
    /// How often.
    pub count: u64,
    /// The clock that it tells of, if not of all.
    pub clock: Option<Clock>,
}

/// How reliable a profile is: what was lost, incomplete, unnamed or damaged.
/// Every view shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trust {
    /// Samples in the profile.
    pub samples: u64,
    /// Samples that were dropped because a ring was full, or by the hardware.
    pub lost: u64,
    /// Lost records of any kind, where nothing tells how many of them were
    /// samples: an upper bound for further lost samples.
    pub lost_records: u64,
    /// Records of mappings, names and tasks that the kernel dropped.
    pub lost_side_band: u64,
    /// Whether such records may be among those counted in `lost`.
    pub side_band_may_be_lost: bool,
    /// Samples that the CPU time counted by the kernel should have given, if
    /// far fewer were taken because tasks were too short to be sampled; else 0.
    pub due: u64,
    /// Whether time in the kernel is among that, which the events leave out.
    pub due_has_kernel: bool,
    /// Times the kernel stopped sampling because it cost too much.
    pub throttled: u64,
    /// Bytes of traces beside the samples, which are not looked at.
    pub traced: u64,
    /// Who found the user frames.
    pub chain_source: ChainSource,
    /// Samples with a user part, by how their stack ended.
    pub chain_ends: BTreeMap<ChainEnd, u64>,
    /// Samples whose user stack did not reach its thread's start, by the dso
    /// of the outermost frame found and the reason.
    pub unrooted_by_dso: BTreeMap<(DsoId, ChainEnd), u64>,
    /// How many of `chain_ends` ended in JIT code.
    pub unrooted_jit: BTreeMap<ChainEnd, u64>,
    /// Frames in the stacks of samples, and how many of them have no name.
    pub frames: u64,
    /// Frames without a name, weighted by samples, by dso and reason.
    pub unnamed: BTreeMap<(DsoId, UnnamedReason), u64>,
    /// What was damaged in the input.
    pub damages: Vec<Damage>,
    /// Other limitations, once for each cause.
    pub notes: Vec<DroppedCount>,
}

impl Trust {
    /// Samples with a user stack, and how many of those stacks are complete.
    pub fn rooted(&self) -> (u64, u64) {
        let judged = self
            .chain_ends
            .values()
            .fold(0_u64, |sum, &count| sum.saturating_add(count));
        (
            judged,
            self.chain_ends.get(&ChainEnd::Root).copied().unwrap_or(0),
        )
    }

    /// Upper bound for the number of missing samples.
    pub fn most_lost(&self) -> u64 {
        self.lost.saturating_add(self.lost_records)
    }

    /// Frames without a name.
    pub fn unnamed_frames(&self) -> u64 {
        self.unnamed.values().sum()
    }
}
