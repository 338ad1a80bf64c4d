//! Samples: from fields, and from a recorded sample with another user stack.

use super::record::{RecordBuilder, RecordTooLong};
use crate::layout::RECORD_HEADER;
use crate::order::{SamplePart, Shape};
use crate::sample::Sample;
use prof_abi::{
    AttrFlags, BranchSampleType, ByteOrder, CallchainContext, CpuMode, EventAttr, Misc, RecordType,
    SampleType,
};

/// Values of a sample; those that the event does not ask for are not written.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampleFields<'a> {
    /// The mode the CPU was in, for `misc`.
    pub cpu_mode: CpuMode,
    /// Event id, for `ID` and `IDENTIFIER`.
    pub id: u64,
    /// Instruction pointer (avma).
    pub ip: u64,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Time in ns on the event's clock.
    pub time: u64,
    /// Data address.
    pub addr: u64,
    /// Stream id.
    pub stream_id: u64,
    /// CPU number.
    pub cpu: u32,
    /// Events this sample stands for.
    pub period: u64,
    /// Counter values, as `read_format` lays them out.
    pub read: &'a [u64],
    /// Call chain, leaf first, with its context markers.
    pub callchain: &'a [u64],
    /// Opaque bytes.
    pub raw: &'a [u8],
    /// Hardware index of the branch stack, if asked for.
    pub branch_hw_index: u64,
    /// Branches: from, to, flags; newest first.
    pub branches: &'a [[u64; 3]],
    /// User registers: ABI (0 none, 1 32 bit, 2 64 bit) and values by mask.
    pub regs_user: (u64, &'a [u64]),
    /// User stack from the stack pointer up, padded to 8 when written.
    pub stack_user: &'a [u8],
    /// Weight, in either form.
    pub weight: u64,
    /// Where the data came from.
    pub data_src: u64,
    /// Transaction abort reason.
    pub transaction: u64,
    /// Registers at the interrupt, as `regs_user`.
    pub regs_intr: (u64, &'a [u64]),
    /// Physical data address.
    pub phys_addr: u64,
    /// Cgroup id.
    pub cgroup: u64,
    /// Page size of the data address, bytes.
    pub data_page_size: u64,
    /// Page size of the instruction address, bytes.
    pub code_page_size: u64,
    /// AUX area data.
    pub aux: &'a [u8],
}

/// Writes `PERF_RECORD_SAMPLE` for one event.
///
/// Source of the order: perf_event_open(2), PERF_RECORD_SAMPLE.
#[derive(Debug, Clone, Copy)]
pub struct SampleEncoder {
    sample_type: SampleType,
    branch: BranchSampleType,
}

impl SampleEncoder {
    /// For samples of this event.
    pub fn new(attr: &EventAttr) -> Self {
        Self {
            sample_type: attr.sample_type,
            branch: attr.branch_sample_type,
        }
    }

    /// Appends the record to `out`.
    pub fn encode(
        &self,
        fields: &SampleFields<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordTooLong> {
        let misc = Misc::of_mode(fields.cpu_mode);
        let mut record = RecordBuilder::begin(out, RecordType::SAMPLE, misc);
        for part in SamplePart::of(SamplePart::ORDER, self.sample_type) {
            self.put(part, fields, &mut record);
        }
        record.end()
    }

    fn put(&self, part: SamplePart, fields: &SampleFields<'_>, record: &mut RecordBuilder<'_>) {
        match part.shape() {
            Shape::Word => record.u64(fields.word(part)),
            Shape::Halves if part == SamplePart::Tid => {
                record.u32(fields.pid);
                record.u32(fields.tid);
            }
            Shape::Halves => {
                record.u32(fields.cpu);
                record.u32(0);
            }
            Shape::Counters => fields.read.iter().for_each(|&value| record.u64(value)),
            Shape::Words => {
                record.u64(fields.callchain.len() as u64);
                fields.callchain.iter().for_each(|&ip| record.u64(ip));
            }
            Shape::Raw => {
                // The size counts the padding, so that size + 4 is aligned.
                let padded = (4 + fields.raw.len()).next_multiple_of(8) - 4;
                record.u32(padded as u32);
                record.bytes(fields.raw);
                record.pad(8);
            }
            Shape::Branches => self.put_branches(fields, record),
            Shape::Registers if part == SamplePart::RegsUser => {
                put_registers(fields.regs_user, record);
            }
            Shape::Registers => put_registers(fields.regs_intr, record),
            Shape::Stack => put_stack(fields.stack_user, record),
            Shape::Bytes => {
                record.u64(fields.aux.len().next_multiple_of(8) as u64);
                record.bytes(fields.aux);
            }
        }
    }

    fn put_branches(&self, fields: &SampleFields<'_>, record: &mut RecordBuilder<'_>) {
        record.u64(fields.branches.len() as u64);
        if self.branch.has(BranchSampleType::HW_INDEX) {
            record.u64(fields.branch_hw_index);
        }
        for &value in fields.branches.iter().flatten() {
            record.u64(value);
        }
        if self.branch.has(BranchSampleType::COUNTERS) {
            fields.branches.iter().for_each(|_| record.u64(0));
        }
    }
}

impl SampleFields<'_> {
    /// The value of a field that is one number.
    fn word(&self, part: SamplePart) -> u64 {
        match part {
            SamplePart::Identifier | SamplePart::Id => self.id,
            SamplePart::Ip => self.ip,
            SamplePart::Time => self.time,
            SamplePart::Addr => self.addr,
            SamplePart::StreamId => self.stream_id,
            SamplePart::Period => self.period,
            SamplePart::Weight => self.weight,
            SamplePart::DataSrc => self.data_src,
            SamplePart::Transaction => self.transaction,
            SamplePart::PhysAddr => self.phys_addr,
            SamplePart::Cgroup => self.cgroup,
            SamplePart::DataPageSize => self.data_page_size,
            SamplePart::CodePageSize => self.code_page_size,
            _ => 0,
        }
    }
}

/// Size, the bytes padded to 8, and unless there are none how many are valid.
fn put_stack(stack: &[u8], record: &mut RecordBuilder<'_>) {
    let padded = stack.len().next_multiple_of(8) as u64;
    record.u64(padded);
    record.bytes(stack);
    record.pad(8);
    if padded != 0 {
        record.u64(stack.len() as u64);
    }
}

/// ABI, then the values unless there are none.
fn put_registers((abi, values): (u64, &[u64]), record: &mut RecordBuilder<'_>) {
    record.u64(abi);
    if abi != 0 {
        values.iter().for_each(|&value| record.u64(value));
    }
}

/// Turns samples with registers and a piece of user stack into samples with a
/// call chain, as if the kernel had unwound.
///
/// ```text
/// opened:  head · READ · CALLCHAIN (kernel) · RAW · BRANCH_STACK · REGS_USER · STACK_USER · tail
/// written: head · READ · CALLCHAIN (kernel · USER · new) · RAW · BRANCH_STACK · tail
/// ```
#[derive(Debug, Clone)]
pub struct UserChainRewriter {
    written: EventAttr,
    /// The user register that becomes the sample's address.
    address_from: Option<u32>,
}

impl UserChainRewriter {
    /// For samples of an event opened with `attr`.
    pub fn new(attr: &EventAttr) -> Self {
        let mut written = attr.clone();
        written.sample_type = attr
            .sample_type
            .without(SampleType::REGS_USER | SampleType::STACK_USER)
            .with(SampleType::CALLCHAIN);
        written.flags = attr.flags.without(AttrFlags::EXCLUDE_CALLCHAIN_USER);
        written.sample_regs_user = 0;
        written.sample_stack_user = 0;
        Self {
            written,
            address_from: None,
        }
    }

    /// Makes the ADDR field of rewritten samples the value of this user
    /// register (the kernel's number), 0 where it was not recorded.
    pub fn take_address_from(&mut self, register: u32) {
        self.address_from = Some(register);
    }

    /// The event's attr as it describes the rewritten samples, for the file's
    /// header.
    pub fn written_attr(&self) -> &EventAttr {
        &self.written
    }

    /// Appends to `out` the sample with `user_chain`, leaf first and without
    /// a marker, as its user stack. A user part that its own call chain has
    /// is replaced.
    ///
    /// # Errors
    /// If the new stack does not fit into a record; `out` is then as it was.
    pub fn rewrite(
        &self,
        sample: &Sample<'_>,
        user_chain: &[u64],
        out: &mut Vec<u8>,
    ) -> Result<(), RecordTooLong> {
        self.rewrite_in_part(sample, (user_chain, 0), out)
            .map(|_| ())
    }

    /// The same with a user stack of which the first entries are given, and
    /// that has so many more. Where they belong in `out`: the record is whole
    /// when their words have been put in there.
    ///
    /// # Errors
    /// If the new stack does not fit into a record; `out` is then as it was.
    pub fn rewrite_in_part(
        &self,
        sample: &Sample<'_>,
        (user_chain, more): (&[u64], usize),
        out: &mut Vec<u8>,
    ) -> Result<usize, RecordTooLong> {
        const REPLACED: [SamplePart; 3] = [
            SamplePart::Callchain,
            SamplePart::RegsUser,
            SamplePart::StackUser,
        ];
        let begin = out.len();
        let mut rest = begin;
        with_others(sample, &REPLACED, out, |part, new| {
            if part == SamplePart::Callchain {
                put_chain(sample, (user_chain, more), new);
                rest = new.leave_out(more);
            }
        })?;
        if let Some(register) = self.address_from {
            let held = sample.regs_user().and_then(|held| held.get(register));
            put_words(sample, &[(SamplePart::Addr, held.unwrap_or(0))], begin, out);
        }
        Ok(rest)
    }
}

/// The chain of `sample` without its user part, then `user_chain`, counted with
/// so many `more` entries.
fn put_chain(
    sample: &Sample<'_>,
    (user_chain, more): (&[u64], usize),
    new: &mut RecordBuilder<'_>,
) {
    let is_user = |&entry: &u64| {
        CallchainContext::from_entry(entry).is_some_and(|marker| marker.cpu_mode() == CpuMode::User)
    };
    let kernel = sample.callchain().unwrap_or_default();
    let kernel = kernel.take_while(|entry| !is_user(entry));
    let user = user_chain.len() + more;
    let marker = usize::from(user != 0);
    let entries = kernel.clone().count() + marker + user;
    new.u64(entries as u64);
    kernel.for_each(|entry| new.u64(entry));
    if marker != 0 {
        new.u64(CallchainContext::USER.0);
    }
    new.u64s(user_chain);
}

/// Appends to `out` the sample with its user stack cut to `most` bytes (a
/// multiple of 8), and to what the kernel says is valid. Returns whether that
/// is shorter than the sample was; if not, nothing is appended.
pub fn shorten_user_stack(sample: &Sample<'_>, most: usize, out: &mut Vec<u8>) -> bool {
    let (Some(dump), Some(valid)) = (sample.stack_user_dumped(), sample.stack_user_valid()) else {
        return false;
    };
    let whole_words = usize::try_from(valid).ok();
    let Some(kept) = whole_words.and_then(|valid| valid.checked_next_multiple_of(8)) else {
        return false;
    };
    let kept = kept.min(most);
    let Some(stack) = dump.get(..kept).filter(|_| kept < dump.len()) else {
        return false;
    };
    let shortened = with_others(sample, &[SamplePart::StackUser], out, |_, new| {
        new.u64(kept as u64);
        new.bytes(stack);
        if kept > 0 {
            new.u64(valid.min(kept as u64));
        }
    });
    shortened.is_ok()
}

/// Appends a copy of the sample with another time (ns) and period, where it has
/// these fields.
pub fn with_time_and_period(sample: &Sample<'_>, time: u64, period: u64, out: &mut Vec<u8>) {
    let parts = [(SamplePart::Time, time), (SamplePart::Period, period)];
    with_words(sample, &parts, out);
}

/// What a sample of a wait says of it; see [`crate::WaitWord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsWait {
    /// When it ended, ns.
    pub end: u64,
    /// Period of the sample: the time it stands for, ns.
    pub period: u64,
    /// The first argument of the system call it waited in: of a futex its
    /// address (avma).
    pub address: u64,
    /// A [`crate::WaitWord`], encoded.
    pub word: u64,
}

/// Appends the sample taken when a thread left its CPU as the sample of the
/// wait that followed.
pub fn as_wait(sample: &Sample<'_>, wait: AsWait, out: &mut Vec<u8>) {
    let parts = [
        (SamplePart::Time, wait.end),
        (SamplePart::Addr, wait.address),
        (SamplePart::Period, wait.period),
        (SamplePart::Transaction, wait.word),
    ];
    with_words(sample, &parts, out);
}

/// Puts `entry` of each entry of the sample's call chain in its place, in the copy
/// of the sample at `begin` of `out`.
pub fn put_chain_entries(
    sample: &Sample<'_>,
    (out, begin): (&mut [u8], usize),
    entry: impl Fn(u64) -> u64,
) {
    let Some(place) = sample.place(SamplePart::Callchain) else {
        return;
    };
    // The first word is how many there are.
    let words = out.get_mut(begin + place.start + 8..begin + place.end);
    for word in words.unwrap_or_default().chunks_exact_mut(8) {
        let old = ByteOrder::NATIVE.u64(word, 0).unwrap_or(0);
        word.copy_from_slice(&entry(old).to_ne_bytes());
    }
}

/// Appends the sample with other values of fields of one number, of those that
/// it has.
fn with_words(sample: &Sample<'_>, parts: &[(SamplePart, u64)], out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(sample.record());
    put_words(sample, parts, begin, out);
}

/// Puts values in the place of fields of one number, of those that `sample`
/// has, in its copy at `begin`; what stands before them is not changed there.
fn put_words(sample: &Sample<'_>, parts: &[(SamplePart, u64)], begin: usize, out: &mut [u8]) {
    for &(part, value) in parts {
        let place = sample.place(part);
        let field = place.and_then(|at| out.get_mut(begin + at.start..begin + at.end));
        if let Some(field) = field {
            field.copy_from_slice(&value.to_ne_bytes());
        }
    }
}

/// Appends the sample with what `put` writes for each part of `replaced`,
/// which are in file order and may be parts that the sample lacks.
fn with_others(
    sample: &Sample<'_>,
    replaced: &[SamplePart],
    out: &mut Vec<u8>,
    mut put: impl FnMut(SamplePart, &mut RecordBuilder<'_>),
) -> Result<(), RecordTooLong> {
    let record = sample.record();
    let misc = Misc(ByteOrder::NATIVE.u16(record, 4).unwrap_or(0));
    let mut new = RecordBuilder::begin(out, RecordType::SAMPLE, misc);
    let (mut copied, mut at) = (RECORD_HEADER, RECORD_HEADER);
    for &part in SamplePart::ORDER {
        let place = sample.place(part).unwrap_or(at..at);
        if replaced.contains(&part) {
            new.bytes(record.get(copied..place.start).unwrap_or_default());
            put(part, &mut new);
            copied = place.end;
        }
        at = place.end;
    }
    new.bytes(record.get(copied..).unwrap_or_default());
    new.end()
}

#[cfg(test)]
mod tests {
    use super::{RecordTooLong, SampleEncoder, SampleFields, UserChainRewriter};
    use crate::layout::SampleLayout;
    use crate::sample::Sample;
    use prof_abi::{
        AttrFlags, ByteOrder, CallchainContext, CpuMode, EventAttr, ReadFormat, SampleType,
    };

    const KERNEL: u64 = CallchainContext::KERNEL.0;
    const USER: u64 = CallchainContext::USER.0;

    fn words(bytes: &[u8]) -> Vec<u64> {
        bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
            .collect()
    }

    fn encoded(attr: &EventAttr, fields: &SampleFields<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        SampleEncoder::new(attr)
            .encode(fields, &mut out)
            .expect("short");
        out
    }

    /// The bytes of a sample of `attr`, with another user chain.
    fn rewritten(
        attr: &EventAttr,
        bytes: &[u8],
        user_chain: &[u64],
    ) -> Result<Vec<u8>, RecordTooLong> {
        let layout = SampleLayout::new(attr);
        let sample = Sample::new(bytes, &layout, ByteOrder::NATIVE).expect("whole");
        let mut out = vec![1];
        let result = UserChainRewriter::new(attr).rewrite(&sample, user_chain, &mut out);
        assert_eq!(out.remove(0), 1, "what stands before is left alone");
        assert_eq!(result.is_err(), out.is_empty());
        result.map(|()| out)
    }

    /// Every field that the writer can be asked for, but `AUX`.
    fn rich_attr() -> EventAttr {
        EventAttr {
            sample_type: SampleType((1 << 24) - 1).without(SampleType::AUX),
            read_format: ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED,
            sample_regs_user: 0b101,
            sample_regs_intr: 0b1,
            sample_stack_user: 16,
            flags: AttrFlags::EXCLUDE_CALLCHAIN_USER,
            ..EventAttr::default()
        }
    }

    const RICH: SampleFields<'_> = SampleFields {
        cpu_mode: CpuMode::User,
        id: 1,
        ip: 2,
        pid: 3,
        tid: 4,
        time: 5,
        addr: 6,
        stream_id: 7,
        cpu: 8,
        period: 9,
        read: &[2, 100, 11, 12, 13, 14],
        callchain: &[KERNEL, 21],
        raw: &[1, 2, 3, 4],
        branch_hw_index: 0,
        branches: &[[31, 32, 33]],
        regs_user: (2, &[41, 42]),
        stack_user: &[5; 12],
        weight: 51,
        data_src: 52,
        transaction: 53,
        regs_intr: (2, &[54]),
        phys_addr: 55,
        cgroup: 56,
        data_page_size: 57,
        code_page_size: 58,
        aux: &[],
    };

    #[test]
    fn fields_come_in_the_order_of_the_manual() {
        let bytes = encoded(&rich_attr(), &RICH);
        assert_eq!(bytes[..6], [9, 0, 0, 0, 2, 0]);
        let body = words(&bytes[8..]);
        assert_eq!(body[..9], [1, 2, 4 << 32 | 3, 5, 6, 1, 7, 8, 9]);
        assert_eq!(body[9..15], [2, 100, 11, 12, 13, 14]);
        assert_eq!(body[15..18], [2, KERNEL, 21]);
        assert_eq!(body[18], 0x0403_0201 << 32 | 4);
        assert_eq!(body[19..23], [1, 31, 32, 33]);
        assert_eq!(body[23..26], [2, 41, 42]);
        let stack = 0x0505_0505;
        assert_eq!(body[26..30], [16, stack << 32 | stack, stack, 12]);
        assert_eq!(body[30..], [51, 52, 53, 2, 54, 55, 56, 57, 58]);
    }

    #[test]
    fn a_rewritten_sample_is_what_its_own_attr_describes() {
        let rewriter = UserChainRewriter::new(&rich_attr());
        let bytes = encoded(&rich_attr(), &RICH);
        let rewritten = rewritten(&rich_attr(), &bytes, &[61, 62]).expect("short");
        let expected = SampleFields {
            callchain: &[KERNEL, 21, USER, 61, 62],
            ..RICH
        };
        assert_eq!(rewritten, encoded(rewriter.written_attr(), &expected));
        let written = rewriter.written_attr();
        assert!(!written.sample_type.has(SampleType::STACK_USER));
        assert_eq!(
            [
                written.sample_regs_user,
                u64::from(written.sample_stack_user)
            ],
            [0, 0]
        );
        assert!(!written.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_USER));
    }

    #[test]
    fn the_rest_of_a_chain_can_be_put_in_later() {
        let bytes = encoded(&rich_attr(), &RICH);
        let layout = SampleLayout::new(&rich_attr());
        let sample = Sample::new(&bytes, &layout, ByteOrder::NATIVE).expect("whole");
        let mut rewriter = UserChainRewriter::new(&rich_attr());
        rewriter.take_address_from(0);
        let mut whole = vec![1];
        let chain = [61, 62, 63];
        rewriter
            .rewrite(&sample, &chain, &mut whole)
            .expect("short");
        for given in 0..=3 {
            let (inner, outer) = chain.split_at(given);
            let mut out = vec![1];
            let at = rewriter
                .rewrite_in_part(&sample, (inner, outer.len()), &mut out)
                .expect("short");
            let outer: Vec<u8> = outer.iter().copied().flat_map(u64::to_ne_bytes).collect();
            out.splice(at..at, outer);
            assert_eq!(out, whole, "{given}");
        }
        let mut out = vec![1];
        let too_long = rewriter.rewrite_in_part(&sample, (&chain, 9000), &mut out);
        assert!(too_long.is_err() && out == [1]);
    }

    #[test]
    fn a_sample_without_a_chain_gets_one_in_its_place() {
        let attr = EventAttr {
            sample_type: rich_attr().sample_type.without(SampleType::CALLCHAIN),
            ..rich_attr()
        };
        let bytes = encoded(&attr, &RICH);
        let expected = SampleFields {
            callchain: &[USER, 61],
            ..RICH
        };
        let written = UserChainRewriter::new(&attr).written_attr().clone();
        let rewritten = rewritten(&attr, &bytes, &[61]).expect("short");
        assert_eq!(rewritten, encoded(&written, &expected));
    }

    #[test]
    fn a_user_part_from_the_kernel_is_replaced() {
        let fields = SampleFields {
            callchain: &[KERNEL, 21, USER, 7, 8, 9],
            ..RICH
        };
        let bytes = encoded(&rich_attr(), &fields);
        let out = rewritten(&rich_attr(), &bytes, &[]).expect("short");
        assert_eq!(words(&out[8 + 15 * 8..])[..3], [2, KERNEL, 21]);
    }

    #[test]
    fn a_sample_without_registers_or_stack_is_rewritten_too() {
        let attr = rich_attr();
        let fields = SampleFields {
            regs_user: (0, &[]),
            stack_user: &[],
            ..RICH
        };
        let out = rewritten(&attr, &encoded(&attr, &fields), &[]).expect("short");
        let written = UserChainRewriter::new(&attr).written_attr().clone();
        assert_eq!(out, encoded(&written, &fields));
    }

    #[test]
    fn a_cut_sample_is_an_error_at_every_length() {
        let whole = encoded(&rich_attr(), &RICH);
        let layout = SampleLayout::new(&rich_attr());
        for len in 8..whole.len() {
            let cut = Sample::new(&whole[..len], &layout, ByteOrder::NATIVE);
            assert!(cut.is_err(), "{len}");
        }
    }

    #[test]
    fn a_count_near_the_top_of_u64_is_an_error() {
        let attr = EventAttr {
            sample_type: SampleType::CALLCHAIN,
            ..EventAttr::default()
        };
        let mut bytes = encoded(&attr, &SampleFields::default());
        bytes[8..16].copy_from_slice(&(1_u64 << 61).to_ne_bytes());
        let layout = SampleLayout::new(&attr);
        assert!(Sample::new(&bytes, &layout, ByteOrder::NATIVE).is_err());
    }

    #[test]
    fn a_chain_that_does_not_fit_is_an_error() {
        let attr = EventAttr {
            sample_type: SampleType::CALLCHAIN,
            ..EventAttr::default()
        };
        let bytes = encoded(&attr, &SampleFields::default());
        assert!(rewritten(&attr, &bytes, &[1; 9000]).is_err());
    }
}
