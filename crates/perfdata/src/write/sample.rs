//! Samples: from fields, and from a recorded sample with another user stack.

use super::record::{RecordBuilder, RecordTooLong};
use prof_abi::{
    AttrFlags, BranchSampleType, ByteOrder, CallchainContext, CpuMode, EventAttr, Misc, ReadFormat,
    RecordType, SampleType,
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
        let misc = Misc(super::record::misc_of(fields.cpu_mode));
        let mut record = RecordBuilder::begin(out, RecordType::SAMPLE, misc);
        self.head(fields, &mut record);
        self.variable_part(fields, &mut record);
        self.tail(fields, &mut record);
        record.end()
    }

    fn has(&self, bit: SampleType) -> bool {
        self.sample_type.has(bit)
    }

    /// The fields of 8 bytes at the beginning.
    fn head(&self, fields: &SampleFields<'_>, record: &mut RecordBuilder<'_>) {
        let pair = |low: u32, high: u32| match ByteOrder::NATIVE {
            ByteOrder::Little => u64::from(high) << 32 | u64::from(low),
            ByteOrder::Big => u64::from(low) << 32 | u64::from(high),
        };
        for (bit, value) in [
            (SampleType::IDENTIFIER, fields.id),
            (SampleType::IP, fields.ip),
            (SampleType::TID, pair(fields.pid, fields.tid)),
            (SampleType::TIME, fields.time),
            (SampleType::ADDR, fields.addr),
            (SampleType::ID, fields.id),
            (SampleType::STREAM_ID, fields.stream_id),
            (SampleType::CPU, pair(fields.cpu, 0)),
            (SampleType::PERIOD, fields.period),
        ] {
            if self.has(bit) {
                record.u64(value);
            }
        }
    }

    fn variable_part(&self, fields: &SampleFields<'_>, record: &mut RecordBuilder<'_>) {
        if self.has(SampleType::READ) {
            fields.read.iter().for_each(|&value| record.u64(value));
        }
        if self.has(SampleType::CALLCHAIN) {
            record.u64(fields.callchain.len() as u64);
            fields.callchain.iter().for_each(|&ip| record.u64(ip));
        }
        if self.has(SampleType::RAW) {
            // The size counts the padding, so that size + 4 is aligned.
            let padded = (4 + fields.raw.len()).next_multiple_of(8) - 4;
            record.u32(padded as u32);
            record.bytes(fields.raw);
            record.pad(8);
        }
        if self.has(SampleType::BRANCH_STACK) {
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
        if self.has(SampleType::REGS_USER) {
            put_registers(fields.regs_user, record);
        }
        if self.has(SampleType::STACK_USER) {
            let padded = fields.stack_user.len().next_multiple_of(8) as u64;
            record.u64(padded);
            record.bytes(fields.stack_user);
            record.pad(8);
            if padded != 0 {
                record.u64(fields.stack_user.len() as u64);
            }
        }
    }

    fn tail(&self, fields: &SampleFields<'_>, record: &mut RecordBuilder<'_>) {
        if self.has(SampleType::WEIGHT) || self.has(SampleType::WEIGHT_STRUCT) {
            record.u64(fields.weight);
        }
        if self.has(SampleType::DATA_SRC) {
            record.u64(fields.data_src);
        }
        if self.has(SampleType::TRANSACTION) {
            record.u64(fields.transaction);
        }
        if self.has(SampleType::REGS_INTR) {
            put_registers(fields.regs_intr, record);
        }
        for (bit, value) in [
            (SampleType::PHYS_ADDR, fields.phys_addr),
            (SampleType::CGROUP, fields.cgroup),
            (SampleType::DATA_PAGE_SIZE, fields.data_page_size),
            (SampleType::CODE_PAGE_SIZE, fields.code_page_size),
        ] {
            if self.has(bit) {
                record.u64(value);
            }
        }
        if self.has(SampleType::AUX) {
            record.u64(fields.aux.len().next_multiple_of(8) as u64);
            record.bytes(fields.aux);
        }
    }
}

/// ABI, then the values unless there are none.
fn put_registers((abi, values): (u64, &[u64]), record: &mut RecordBuilder<'_>) {
    record.u64(abi);
    if abi != 0 {
        values.iter().for_each(|&value| record.u64(value));
    }
}

/// A recorded sample could not be rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedSample {
    /// A field's length passes the end of the record.
    #[error("a sample of {record} bytes ends inside its {field}")]
    Cut {
        /// The field.
        field: &'static str,
        /// The record's length in bytes.
        record: usize,
    },
    /// The new stack does not fit.
    #[error(transparent)]
    TooLong(#[from] RecordTooLong),
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
    attr: EventAttr,
    written: EventAttr,
    head_words: usize,
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
        let head = SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::ADDR
            | SampleType::ID
            | SampleType::STREAM_ID
            | SampleType::CPU
            | SampleType::PERIOD;
        Self {
            attr: attr.clone(),
            written,
            head_words: (attr.sample_type.0 & head.0).count_ones() as usize,
        }
    }

    /// The event as the rewritten samples are, for the file's header.
    pub fn written_attr(&self) -> &EventAttr {
        &self.written
    }

    /// Appends to `out` the sample `record` (header included) with
    /// `user_chain`, leaf first and without a marker, as its user stack. A
    /// user part that its own call chain has is replaced. On an error `out`
    /// is as it was.
    pub fn rewrite(
        &self,
        record: &[u8],
        user_chain: &[u64],
        out: &mut Vec<u8>,
    ) -> Result<(), MalformedSample> {
        let parts = self.parts(record)?;
        let misc = Misc(ByteOrder::NATIVE.u16(record, 4).unwrap_or(0));
        let mut new = RecordBuilder::begin(out, RecordType::SAMPLE, misc);
        new.bytes(parts.before_chain);
        let marker = usize::from(!user_chain.is_empty());
        let entries = parts.kernel_chain.len() / 8 + marker + user_chain.len();
        new.u64(entries as u64);
        new.bytes(parts.kernel_chain);
        if marker != 0 {
            new.u64(CallchainContext::USER.0);
        }
        user_chain.iter().for_each(|&ip| new.u64(ip));
        new.bytes(parts.before_regs);
        new.bytes(parts.tail);
        Ok(new.end()?)
    }

    fn parts<'a>(&self, record: &'a [u8]) -> Result<Parts<'a>, MalformedSample> {
        let sample_type = self.attr.sample_type;
        let mut walk = Walk { record, at: 8 };
        walk.words(self.head_words, "fixed fields")?;
        if sample_type.has(SampleType::READ) {
            self.skip_read(&mut walk)?;
        }
        let before_chain = walk.since(8);
        let mut kernel_chain: &[u8] = &[];
        if sample_type.has(SampleType::CALLCHAIN) {
            let entries = walk.u64("CALLCHAIN")?;
            kernel_chain = kernel_part(walk.counted_words(entries, "CALLCHAIN")?);
        }
        let regs_at = walk.at;
        if sample_type.has(SampleType::RAW) {
            let size = walk.u32("RAW")?;
            walk.bytes(u64::from(size), "RAW")?;
        }
        if sample_type.has(SampleType::BRANCH_STACK) {
            self.skip_branches(&mut walk)?;
        }
        let before_regs = walk.since(regs_at);
        if sample_type.has(SampleType::REGS_USER) && walk.u64("REGS_USER")? != 0 {
            let registers = self.attr.sample_regs_user.count_ones() as usize;
            walk.words(registers, "REGS_USER")?;
        }
        if sample_type.has(SampleType::STACK_USER) {
            let size = walk.u64("STACK_USER")?;
            if size != 0 {
                walk.bytes(size, "STACK_USER")?;
                walk.u64("STACK_USER")?; // how much of it is valid
            }
        }
        Ok(Parts {
            before_chain,
            kernel_chain,
            before_regs,
            tail: record.get(walk.at..).unwrap_or_default(),
        })
    }

    fn skip_read(&self, walk: &mut Walk<'_>) -> Result<(), MalformedSample> {
        let format = self.attr.read_format;
        let count = |bits: ReadFormat| (format.0 & bits.0).count_ones() as usize;
        let times = count(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
        let per_value = 1 + count(ReadFormat::ID | ReadFormat::LOST);
        if format.has(ReadFormat::GROUP) {
            let values = walk.u64("READ")?;
            walk.words(times, "READ")?;
            for _ in 0..per_value {
                walk.counted_words(values, "READ")?;
            }
        } else {
            walk.words(times + per_value, "READ")?;
        }
        Ok(())
    }

    fn skip_branches(&self, walk: &mut Walk<'_>) -> Result<(), MalformedSample> {
        let branch = self.attr.branch_sample_type;
        let entries = walk.u64("BRANCH_STACK")?;
        if branch.has(BranchSampleType::HW_INDEX) {
            walk.u64("BRANCH_STACK")?;
        }
        let words = 3 + usize::from(branch.has(BranchSampleType::COUNTERS));
        for _ in 0..words {
            walk.counted_words(entries, "BRANCH_STACK")?;
        }
        Ok(())
    }
}

/// The pieces of a sample that stay.
struct Parts<'a> {
    before_chain: &'a [u8],
    kernel_chain: &'a [u8],
    before_regs: &'a [u8],
    tail: &'a [u8],
}

/// A chain without its user part: up to the first user marker.
fn kernel_part(chain: &[u8]) -> &[u8] {
    let is_user = |entry: &[u8]| {
        ByteOrder::NATIVE
            .u64(entry, 0)
            .and_then(CallchainContext::from_entry)
            .is_some_and(|marker| marker.cpu_mode() == CpuMode::User)
    };
    let user = chain.chunks_exact(8).position(is_user);
    let end = user.map_or(chain.len(), |entry| entry * 8);
    chain.get(..end).unwrap_or(chain)
}

/// A position in a record that never passes its end.
struct Walk<'a> {
    record: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn take(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], MalformedSample> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.record.get(self.at..end));
        let taken = taken.ok_or(MalformedSample::Cut {
            field,
            record: self.record.len(),
        })?;
        self.at += len;
        Ok(taken)
    }

    fn bytes(&mut self, len: u64, field: &'static str) -> Result<&'a [u8], MalformedSample> {
        self.take(usize::try_from(len).unwrap_or(usize::MAX), field)
    }

    fn words(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], MalformedSample> {
        self.take(count.saturating_mul(8), field)
    }

    /// Words whose count stands in the record.
    fn counted_words(
        &mut self,
        count: u64,
        field: &'static str,
    ) -> Result<&'a [u8], MalformedSample> {
        self.words(usize::try_from(count).unwrap_or(usize::MAX), field)
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, MalformedSample> {
        let word = self.take(8, field)?;
        Ok(ByteOrder::NATIVE.u64(word, 0).unwrap_or(0))
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, MalformedSample> {
        let word = self.take(4, field)?;
        Ok(ByteOrder::NATIVE.u32(word, 0).unwrap_or(0))
    }

    fn since(&self, start: usize) -> &'a [u8] {
        self.record.get(start..self.at).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{MalformedSample, SampleEncoder, SampleFields, UserChainRewriter};
    use prof_abi::{AttrFlags, CallchainContext, CpuMode, EventAttr, ReadFormat, SampleType};

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
        let mut rewritten = Vec::new();
        rewriter
            .rewrite(&encoded(&rich_attr(), &RICH), &[61, 62], &mut rewritten)
            .expect("whole");
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
    fn a_user_part_from_the_kernel_is_replaced() {
        let attr = rich_attr();
        let fields = SampleFields {
            callchain: &[KERNEL, 21, USER, 7, 8, 9],
            ..RICH
        };
        let rewriter = UserChainRewriter::new(&attr);
        let mut out = Vec::new();
        rewriter
            .rewrite(&encoded(&attr, &fields), &[], &mut out)
            .expect("whole");
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
        let rewriter = UserChainRewriter::new(&attr);
        let mut out = Vec::new();
        rewriter
            .rewrite(&encoded(&attr, &fields), &[], &mut out)
            .expect("whole");
        assert_eq!(out, encoded(rewriter.written_attr(), &fields));
    }

    #[test]
    fn a_cut_sample_is_an_error_at_every_length_and_writes_nothing() {
        let attr = rich_attr();
        let whole = encoded(&attr, &RICH);
        let rewriter = UserChainRewriter::new(&attr);
        // The last nine words are copied as they are, whatever is there.
        for len in 8..whole.len() - 9 * 8 {
            let mut out = vec![1];
            let result = rewriter.rewrite(&whole[..len], &[1], &mut out);
            assert!(matches!(result, Err(MalformedSample::Cut { .. })), "{len}");
            assert_eq!(out, [1]);
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
        let result = UserChainRewriter::new(&attr).rewrite(&bytes, &[], &mut Vec::new());
        assert!(matches!(result, Err(MalformedSample::Cut { .. })));
    }

    #[test]
    fn a_chain_that_does_not_fit_is_an_error() {
        let attr = EventAttr {
            sample_type: SampleType::CALLCHAIN,
            ..EventAttr::default()
        };
        let bytes = encoded(&attr, &SampleFields::default());
        let result = UserChainRewriter::new(&attr).rewrite(&bytes, &[1; 9000], &mut Vec::new());
        assert!(matches!(result, Err(MalformedSample::TooLong(_))));
    }
}
