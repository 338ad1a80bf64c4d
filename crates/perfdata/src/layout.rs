//! Where the fields of a sample are: computed once per event.

use crate::order::SamplePart;
use prof_abi::{AttrFlags, BranchSampleType, ByteOrder, EventAttr, ReadFormat, SampleType};

/// Bytes of a record header: u32 type, u16 misc, u16 size.
pub const RECORD_HEADER: usize = 8;

/// The part of a sample's layout that depends on its event only, computed once
/// for each event. Offsets count from the start of the record, header included.
/// Source: perf_event_open(2), PERF_RECORD_SAMPLE and `sample_id`.
///
/// Offsets count from the start of the record, header included. Source:
/// perf_event_open(2), PERF_RECORD_SAMPLE and `sample_id`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SampleLayout {
    /// What samples carry.
    pub sample_type: SampleType,
    /// Layout of counter values.
    pub read_format: ReadFormat,
    /// A hardware index stands before the branches.
    pub branch_hw_index: bool,
    /// Counters stand after the branches.
    pub branch_counters: bool,
    /// Mask of the registers in REGS_USER.
    pub regs_user: u64,
    /// Mask of the registers in REGS_INTR.
    pub regs_intr: u64,
    /// Where each field of fixed size is, by its position in
    /// [`SamplePart::ORDER`]; 0 for those that are not there.
    fixed: [u16; SamplePart::FIXED],
    /// First byte behind the fixed fields.
    pub(crate) fixed_end: u16,
    /// The fields behind them: a bit for each, in file order.
    pub(crate) variable: u16,
    /// The sample_id trailer; empty without sample_id_all.
    pub(crate) trailer: TrailerLayout,
}

/// Where the fields of the sample_id trailer are: bytes back from the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TrailerLayout {
    /// Length of the trailer in bytes.
    len: u16,
    /// Bytes back, by position in [`SamplePart::ORDER`]; 0 for those that are
    /// not there.
    back: [u16; SamplePart::FIXED],
}

impl SampleLayout {
    /// The layout that `attr` asks for.
    pub fn new(attr: &EventAttr) -> Self {
        let sample_type = attr.sample_type;
        let branches = attr.branch_sample_type;
        let mut fixed = [0; SamplePart::FIXED];
        let mut fixed_end = RECORD_HEADER as u16;
        let mut variable = 0;
        for part in SamplePart::of(SamplePart::ORDER, sample_type) {
            if let Some(index) = part.variable_index() {
                variable |= 1 << index;
            } else if let Some(at) = fixed.get_mut(part as usize) {
                *at = fixed_end;
                fixed_end += 8;
            }
        }
        Self {
            sample_type,
            read_format: attr.read_format,
            branch_hw_index: branches.has(BranchSampleType::HW_INDEX),
            branch_counters: branches.has(BranchSampleType::COUNTERS),
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            fixed,
            fixed_end,
            variable,
            trailer: if attr.flags.has(AttrFlags::SAMPLE_ID_ALL) {
                TrailerLayout::new(sample_type)
            } else {
                TrailerLayout::default()
            },
        }
    }

    /// Where a field of fixed size is, in bytes from the record's start.
    #[inline]
    pub(crate) fn at(&self, part: SamplePart) -> Option<usize> {
        let at = self.fixed.get(part as usize).copied();
        at.filter(|&at| at != 0).map(usize::from)
    }

    /// Where the time of a sample is, in bytes from its start; `None` if the
    /// event does not ask for `TIME`.
    pub fn time_at(&self) -> Option<usize> {
        self.at(SamplePart::Time)
    }

    /// Which registers a field of registers has.
    pub(crate) fn mask_of(&self, part: SamplePart) -> u64 {
        match part {
            SamplePart::RegsUser => self.regs_user,
            SamplePart::RegsIntr => self.regs_intr,
            _ => 0,
        }
    }

    /// Length of the sample_id trailer of the other records, in bytes.
    pub(crate) fn trailer_len(&self) -> usize {
        self.trailer.len.into()
    }
}

impl TrailerLayout {
    fn new(sample_type: SampleType) -> Self {
        let mut layout = Self::default();
        let mut parts: Vec<_> = SamplePart::of(SamplePart::TRAILER, sample_type).collect();
        parts.reverse();
        for part in parts {
            layout.len += 8;
            if let Some(back) = layout.back.get_mut(part as usize) {
                *back = layout.len;
            }
        }
        layout
    }

    /// Where a field is, in bytes back from the record's end.
    #[inline]
    pub(crate) fn back(&self, part: SamplePart) -> Option<usize> {
        let back = self.back.get(part as usize).copied();
        back.filter(|&back| back != 0).map(usize::from)
    }
}

/// The sample_id trailer of a record, or the same fields of a sample. Each is
/// `None` where the event does not ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleId {
    /// Process id.
    pub pid: Option<i32>,
    /// Thread id.
    pub tid: Option<i32>,
    /// Time in ns on the event's clock.
    pub time: Option<u64>,
    /// Event id; from IDENTIFIER or ID.
    pub id: Option<u64>,
    /// Id of the event itself where `id` is the group leader's.
    pub stream_id: Option<u64>,
    /// CPU number.
    pub cpu: Option<u32>,
}

impl SampleId {
    /// Reads the trailer at the end of `record`, backwards, because names
    /// before it have no stated length.
    pub(crate) fn from_end(record: &[u8], layout: &TrailerLayout, order: ByteOrder) -> Self {
        let place = |part| {
            let at = record.len().checked_sub(layout.back(part)?)?;
            (at >= RECORD_HEADER).then_some(at)
        };
        let u32_in = |part, plus: usize| order.u32(record, place(part)? + plus);
        let u64_in = |part| order.u64(record, place(part)?);
        Self {
            pid: u32_in(SamplePart::Tid, 0).map(|pid| pid as i32),
            tid: u32_in(SamplePart::Tid, 4).map(|tid| tid as i32),
            time: u64_in(SamplePart::Time),
            id: u64_in(SamplePart::Identifier).or_else(|| u64_in(SamplePart::Id)),
            stream_id: u64_in(SamplePart::StreamId),
            cpu: u32_in(SamplePart::Cpu, 0),
        }
    }
}
