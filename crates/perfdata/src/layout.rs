//! Where the fields of a sample are: computed once per event.

use prof_abi::{AttrFlags, BranchSampleType, ByteOrder, EventAttr, ReadFormat, SampleType};

/// Bytes of a record header: u32 type, u16 misc, u16 size.
pub const RECORD_HEADER: usize = 8;

/// The fields of fixed size at the start of a SAMPLE, in file order.
const FIXED: [SampleType; 9] = [
    SampleType::IDENTIFIER,
    SampleType::IP,
    SampleType::TID,
    SampleType::TIME,
    SampleType::ADDR,
    SampleType::ID,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::PERIOD,
];

/// What may stand behind the fields of fixed size beside a call chain.
const VARIABLE: [SampleType; 15] = [
    SampleType::READ,
    SampleType::RAW,
    SampleType::BRANCH_STACK,
    SampleType::REGS_USER,
    SampleType::STACK_USER,
    SampleType::WEIGHT,
    SampleType::WEIGHT_STRUCT,
    SampleType::DATA_SRC,
    SampleType::TRANSACTION,
    SampleType::REGS_INTR,
    SampleType::PHYS_ADDR,
    SampleType::CGROUP,
    SampleType::DATA_PAGE_SIZE,
    SampleType::CODE_PAGE_SIZE,
    SampleType::AUX,
];

/// The fields of the sample_id trailer, in file order.
const TRAILER: [SampleType; 6] = [
    SampleType::TID,
    SampleType::TIME,
    SampleType::ID,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::IDENTIFIER,
];

/// What of a record's layout depends on its event only.
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
    pub(crate) identifier: Option<u16>,
    pub(crate) ip: Option<u16>,
    pub(crate) tid: Option<u16>,
    pub(crate) time: Option<u16>,
    pub(crate) addr: Option<u16>,
    pub(crate) id: Option<u16>,
    pub(crate) stream_id: Option<u16>,
    pub(crate) cpu: Option<u16>,
    pub(crate) period: Option<u16>,
    /// First byte behind the fixed fields.
    pub(crate) fixed_end: u16,
    /// Behind the fixed fields there is a call chain at most.
    pub(crate) is_plain: bool,
    /// The sample_id trailer; all-`None` and length 0 without sample_id_all.
    pub(crate) trailer: TrailerLayout,
}

/// Where the fields of the sample_id trailer are: bytes back from the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TrailerLayout {
    /// Length of the trailer in bytes.
    pub(crate) len: u16,
    pub(crate) tid: Option<u16>,
    pub(crate) time: Option<u16>,
    pub(crate) id: Option<u16>,
    pub(crate) stream_id: Option<u16>,
    pub(crate) cpu: Option<u16>,
    pub(crate) identifier: Option<u16>,
}

impl SampleLayout {
    /// The layout that `attr` asks for.
    pub fn new(attr: &EventAttr) -> Self {
        let sample_type = attr.sample_type;
        let branches = attr.branch_sample_type;
        let before = |field: SampleType| offset_of(&FIXED, sample_type, field);
        let at = |field| before(field).map(|slots| RECORD_HEADER as u16 + slots * 8);
        let fixed = FIXED.iter().filter(|&&bit| sample_type.has(bit)).count();
        Self {
            sample_type,
            read_format: attr.read_format,
            branch_hw_index: branches.has(BranchSampleType::HW_INDEX),
            branch_counters: branches.has(BranchSampleType::COUNTERS),
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            identifier: at(SampleType::IDENTIFIER),
            ip: at(SampleType::IP),
            tid: at(SampleType::TID),
            time: at(SampleType::TIME),
            addr: at(SampleType::ADDR),
            id: at(SampleType::ID),
            stream_id: at(SampleType::STREAM_ID),
            cpu: at(SampleType::CPU),
            period: at(SampleType::PERIOD),
            fixed_end: (RECORD_HEADER + fixed * 8) as u16,
            is_plain: VARIABLE.iter().all(|&bit| !sample_type.has(bit)),
            trailer: if attr.flags.has(AttrFlags::SAMPLE_ID_ALL) {
                TrailerLayout::new(sample_type)
            } else {
                TrailerLayout::default()
            },
        }
    }

    /// Length of the sample_id trailer of the other records, in bytes.
    pub fn trailer_len(&self) -> usize {
        self.trailer.len.into()
    }
}

impl TrailerLayout {
    fn new(sample_type: SampleType) -> Self {
        let len = 8 * TRAILER.iter().filter(|&&bit| sample_type.has(bit)).count() as u16;
        let back = |field| offset_of(&TRAILER, sample_type, field).map(|slots| len - slots * 8);
        Self {
            len,
            tid: back(SampleType::TID),
            time: back(SampleType::TIME),
            id: back(SampleType::ID),
            stream_id: back(SampleType::STREAM_ID),
            cpu: back(SampleType::CPU),
            identifier: back(SampleType::IDENTIFIER),
        }
    }
}

/// How many 8-byte slots stand before `field`; `None` if it is not there.
fn offset_of(order: &[SampleType], sample_type: SampleType, field: SampleType) -> Option<u16> {
    sample_type.has(field).then(|| {
        let before = order.iter().take_while(|&&bit| bit != field);
        before.filter(|&&bit| sample_type.has(bit)).count() as u16
    })
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
        let u32_back = |back: Option<u16>, plus: usize| {
            let at = record.len().checked_sub(back?.into())?;
            (at >= RECORD_HEADER).then_some(())?;
            order.u32(record, at + plus)
        };
        let u64_back = |back: Option<u16>| {
            let at = record.len().checked_sub(back?.into())?;
            (at >= RECORD_HEADER).then_some(())?;
            order.u64(record, at)
        };
        Self {
            pid: u32_back(layout.tid, 0).map(|pid| pid as i32),
            tid: u32_back(layout.tid, 4).map(|tid| tid as i32),
            time: u64_back(layout.time),
            id: u64_back(layout.identifier).or_else(|| u64_back(layout.id)),
            stream_id: u64_back(layout.stream_id),
            cpu: u32_back(layout.cpu, 0),
        }
    }
}
