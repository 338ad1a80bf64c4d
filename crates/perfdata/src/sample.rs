//! `PERF_RECORD_SAMPLE`, read in place.

use crate::fields::{Fields, Short};
use crate::layout::{SampleId, SampleLayout};
use crate::read_values::ReadValues;
use prof_abi::{ByteOrder, CallchainContext, SampleType};

/// A part of a sample that did not fit into its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its {field} needs {} bytes, but {} are left", short.needs, short.left)]
pub struct BodyError {
    /// The field, as in the format's description.
    pub field: &'static str,
    /// The two numbers that disagree.
    pub short: Short,
}

/// A sample, read in place: `layout` was built once from its event, the
/// variable parts were found (and checked) once in [`Sample::new`].
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    record: &'a [u8],
    layout: &'a SampleLayout,
    order: ByteOrder,
    parts: Parts,
}

/// Where the parts of variable size are. Offsets count from the start of the
/// record; 0 says "not there", since the header is.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    read: (u32, u32),
    callchain: (u32, u32),
    raw: (u32, u32),
    branch_hw_index: u32,
    branches: (u32, u32),
    branch_counters: u32,
    regs_user: (u32, u32),
    stack_user: (u32, u32),
    stack_user_valid: u32,
    weight: u32,
    data_src: u32,
    transaction: u32,
    regs_intr: (u32, u32),
    phys_addr: u32,
    cgroup: u32,
    data_page_size: u32,
    code_page_size: u32,
    aux: (u32, u32),
    end: u32,
}

/// Walks the variable parts in file order.
struct Walk<'a> {
    fields: Fields<'a>,
    len: usize,
    parts: Parts,
}

impl<'a> Walk<'a> {
    fn at(&self) -> u32 {
        (self.len - self.fields.left()) as u32
    }

    /// A field of eight bytes: where it is.
    fn word(&mut self, wanted: bool, field: &'static str) -> Result<u32, BodyError> {
        if !wanted {
            return Ok(0);
        }
        let at = self.at();
        self.fields.u64().map_err(in_field(field))?;
        Ok(at)
    }

    /// `count` items of `width` bytes: where they are.
    fn run(&mut self, count: u64, width: usize, field: &'static str) -> Result<u32, BodyError> {
        let at = self.at();
        self.fields.items(count, width).map_err(in_field(field))?;
        Ok(at)
    }

    fn count(&mut self, field: &'static str) -> Result<u64, BodyError> {
        self.fields.u64().map_err(in_field(field))
    }

    #[inline]
    fn callchain(&mut self) -> Result<(), BodyError> {
        let nr = self.count("call chain")?;
        self.parts.callchain = (self.run(nr, 8, "call chain")?, nr as u32);
        Ok(())
    }

    fn raw(&mut self) -> Result<(), BodyError> {
        let size = self.fields.u32().map_err(in_field("raw data"))?;
        self.parts.raw = (self.run(size.into(), 1, "raw data")?, size);
        Ok(())
    }

    fn branches(&mut self, layout: &SampleLayout) -> Result<(), BodyError> {
        let nr = self.count("branch stack")?;
        self.parts.branch_hw_index = self.word(layout.branch_hw_index, "branch stack")?;
        self.parts.branches = (self.run(nr, Branch::SIZE, "branch stack")?, nr as u32);
        if layout.branch_counters {
            self.parts.branch_counters = self.run(nr, 8, "branch counters")?;
        }
        Ok(())
    }

    fn registers(&mut self, mask: u64, field: &'static str) -> Result<(u32, u32), BodyError> {
        let at = self.at();
        let abi = self.count(field)?;
        let values = if abi == 0 { 0 } else { mask.count_ones() };
        self.run(values.into(), 8, field)?;
        Ok((at, values))
    }

    fn stack(&mut self) -> Result<(), BodyError> {
        let size = self.count("user stack")?;
        self.parts.stack_user = (self.run(size, 1, "user stack")?, size as u32);
        self.parts.stack_user_valid = self.word(size != 0, "user stack")?;
        Ok(())
    }

    fn read(&mut self, layout: &SampleLayout) -> Result<(), BodyError> {
        let at = self.at();
        self.fields.read_format = layout.read_format;
        let values = ReadValues::take(&mut self.fields).map_err(in_field("counter values"))?;
        self.parts.read = (at, values.bytes().len() as u32);
        Ok(())
    }

    #[inline]
    fn all(&mut self, layout: &SampleLayout) -> Result<(), BodyError> {
        if !layout.is_plain {
            return self.all_that_vary(layout);
        }
        if layout.sample_type.has(SampleType::CALLCHAIN) {
            self.callchain()?;
        }
        self.parts.end = self.at();
        Ok(())
    }

    fn all_that_vary(&mut self, layout: &SampleLayout) -> Result<(), BodyError> {
        let has = |bit| layout.sample_type.has(bit);
        if has(SampleType::READ) {
            self.read(layout)?;
        }
        if has(SampleType::CALLCHAIN) {
            self.callchain()?;
        }
        if has(SampleType::RAW) {
            self.raw()?;
        }
        if has(SampleType::BRANCH_STACK) {
            self.branches(layout)?;
        }
        if has(SampleType::REGS_USER) {
            self.parts.regs_user = self.registers(layout.regs_user, "user registers")?;
        }
        if has(SampleType::STACK_USER) {
            self.stack()?;
        }
        let weight = has(SampleType::WEIGHT) || has(SampleType::WEIGHT_STRUCT);
        self.parts.weight = self.word(weight, "weight")?;
        self.parts.data_src = self.word(has(SampleType::DATA_SRC), "data source")?;
        self.parts.transaction = self.word(has(SampleType::TRANSACTION), "transaction")?;
        if has(SampleType::REGS_INTR) {
            self.parts.regs_intr = self.registers(layout.regs_intr, "interrupt registers")?;
        }
        self.parts.phys_addr = self.word(has(SampleType::PHYS_ADDR), "physical address")?;
        self.parts.cgroup = self.word(has(SampleType::CGROUP), "cgroup")?;
        self.parts.data_page_size = self.word(has(SampleType::DATA_PAGE_SIZE), "page size")?;
        self.parts.code_page_size = self.word(has(SampleType::CODE_PAGE_SIZE), "page size")?;
        if has(SampleType::AUX) {
            let size = self.count("AUX data")?;
            self.parts.aux = (self.run(size, 1, "AUX data")?, size as u32);
        }
        self.parts.end = self.at();
        Ok(())
    }
}

fn in_field(field: &'static str) -> impl Fn(Short) -> BodyError {
    move |short| BodyError { field, short }
}

impl<'a> Sample<'a> {
    /// The sample in `record` (header included).
    ///
    /// # Errors
    /// If a part claims more bytes than the record has.
    #[inline]
    pub fn new(
        record: &'a [u8],
        layout: &'a SampleLayout,
        order: ByteOrder,
    ) -> Result<Self, BodyError> {
        let mut fields = Fields::new(record, order);
        fields
            .take(layout.fixed_end.into())
            .map_err(in_field("fixed part"))?;
        let mut walk = Walk {
            fields,
            len: record.len(),
            parts: Parts::default(),
        };
        walk.all(layout)?;
        Ok(Self {
            record,
            layout,
            order,
            parts: walk.parts,
        })
    }

    #[inline]
    fn u64_at(&self, at: Option<u16>) -> Option<u64> {
        self.order.u64(self.record, at?.into())
    }

    fn part_u64(&self, at: u32) -> Option<u64> {
        (at != 0).then_some(())?;
        self.order.u64(self.record, at as usize)
    }

    fn part(&self, (at, len): (u32, u32)) -> Option<&'a [u8]> {
        (at != 0).then_some(())?;
        self.record
            .get(at as usize..(at as usize).checked_add(len as usize)?)
    }

    fn words(&self, (at, count): (u32, u32)) -> Option<Words<'a>> {
        let bytes = self.part((at, count.checked_mul(8)?))?;
        Some(Words::new(bytes, self.order))
    }

    /// The layout it was read by.
    pub fn layout(&self) -> &'a SampleLayout {
        self.layout
    }

    /// The byte order of its integers.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// The event id at the fixed place.
    pub fn identifier(&self) -> Option<u64> {
        self.u64_at(self.layout.identifier)
    }

    /// Instruction pointer (avma).
    #[inline]
    pub fn ip(&self) -> Option<u64> {
        self.u64_at(self.layout.ip)
    }

    /// Process id.
    #[inline]
    pub fn pid(&self) -> Option<i32> {
        let at = usize::from(self.layout.tid?);
        self.order.u32(self.record, at).map(|pid| pid as i32)
    }

    /// Thread id.
    #[inline]
    pub fn tid(&self) -> Option<i32> {
        let at = usize::from(self.layout.tid?) + 4;
        self.order.u32(self.record, at).map(|tid| tid as i32)
    }

    /// Time in ns on the event's clock.
    #[inline]
    pub fn time(&self) -> Option<u64> {
        self.u64_at(self.layout.time)
    }

    /// Data address (avma).
    pub fn addr(&self) -> Option<u64> {
        self.u64_at(self.layout.addr)
    }

    /// Event id, of the group leader.
    pub fn id(&self) -> Option<u64> {
        self.u64_at(self.layout.id)
    }

    /// Event id, of the event itself.
    pub fn stream_id(&self) -> Option<u64> {
        self.u64_at(self.layout.stream_id)
    }

    /// CPU number; the reserved half of the field is ignored.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        self.order.u32(self.record, self.layout.cpu?.into())
    }

    /// The half of the CPU field that has no meaning.
    pub(crate) fn cpu_reserved(&self) -> Option<u32> {
        let at = usize::from(self.layout.cpu?) + 4;
        self.order.u32(self.record, at)
    }

    /// Events this sample stands for, as recorded in it. Without the field
    /// the event's own period counts: [`crate::Event::period_of`].
    #[inline]
    pub fn period(&self) -> Option<u64> {
        self.u64_at(self.layout.period)
    }

    /// Counter values.
    pub fn read(&self) -> Option<ReadValues<'a>> {
        let mut fields = Fields::new(self.part(self.parts.read)?, self.order);
        fields.read_format = self.layout.read_format;
        ReadValues::take(&mut fields).ok()
    }

    /// The call chain as recorded, leaf first, with its context markers; see
    /// [`CallchainContext`].
    pub fn callchain(&self) -> Option<Words<'a>> {
        self.words(self.parts.callchain)
    }

    /// The cookie of a user call chain that a CALLCHAIN_DEFERRED record tells
    /// later; the chain then ends with a marker and this.
    pub fn deferred_cookie(&self) -> Option<u64> {
        let mut chain = self.callchain()?;
        let before = chain.len().checked_sub(2)?;
        let marker = chain.nth(before)?;
        let cookie = chain.next()?;
        (marker == CallchainContext::USER_DEFERRED.0).then_some(cookie)
    }

    /// Opaque bytes; a tracepoint's payload. May end in padding.
    pub fn raw(&self) -> Option<&'a [u8]> {
        self.part(self.parts.raw)
    }

    /// The branch stack, newest branch first.
    pub fn branches(&self) -> Option<Branches<'a>> {
        let (at, count) = self.parts.branches;
        let entries = self.part((at, count.checked_mul(Branch::SIZE as u32)?))?;
        Some(Branches {
            entries,
            counters: self.words((self.parts.branch_counters, count)),
            order: self.order,
        })
    }

    /// Where the newest branch stands in the hardware's ring.
    pub fn branch_hw_index(&self) -> Option<u64> {
        self.part_u64(self.parts.branch_hw_index)
    }

    /// User registers.
    pub fn regs_user(&self) -> Option<Registers<'a>> {
        self.registers(self.parts.regs_user, self.layout.regs_user)
    }

    /// Registers at the interrupt.
    pub fn regs_intr(&self) -> Option<Registers<'a>> {
        self.registers(self.parts.regs_intr, self.layout.regs_intr)
    }

    fn registers(&self, (at, count): (u32, u32), mask: u64) -> Option<Registers<'a>> {
        Some(Registers {
            abi: self.part_u64(at)?,
            mask,
            values: self.words((at + 8, count))?,
        })
    }

    /// The user stack from the stack pointer upwards, as far as it is valid.
    pub fn stack_user(&self) -> Option<&'a [u8]> {
        let all = self.stack_user_dumped()?;
        let valid = self.stack_user_valid().unwrap_or(0).min(all.len() as u64);
        all.get(..valid as usize)
    }

    /// The user stack with its bytes that are not valid.
    pub fn stack_user_dumped(&self) -> Option<&'a [u8]> {
        self.part(self.parts.stack_user)
    }

    /// How many bytes of the user stack the kernel says are valid.
    pub fn stack_user_valid(&self) -> Option<u64> {
        self.part_u64(self.parts.stack_user_valid)
    }

    /// Weight, usually a latency in cycles: WEIGHT whole, of WEIGHT_STRUCT
    /// the first part.
    pub fn weight(&self) -> Option<u64> {
        let word = self.part_u64(self.parts.weight)?;
        let whole = self.layout.sample_type.has(SampleType::WEIGHT);
        Some(if whole { word } else { word & 0xffff_ffff })
    }

    /// The three parts of WEIGHT_STRUCT: weight, then two that depend on the
    /// machine (instruction latency, pipeline stage or retire latency).
    pub fn weight_parts(&self) -> Option<(u32, u16, u16)> {
        let split = self.layout.sample_type.has(SampleType::WEIGHT_STRUCT);
        let word = self.part_u64(self.parts.weight).filter(|_| split)?;
        Some((word as u32, (word >> 32) as u16, (word >> 48) as u16))
    }

    /// Where the data came from; see `prof_abi::DataSource`.
    pub fn data_src(&self) -> Option<u64> {
        self.part_u64(self.parts.data_src)
    }

    /// Why a transaction ended; see `prof_abi::Transaction`.
    pub fn transaction(&self) -> Option<u64> {
        self.part_u64(self.parts.transaction)
    }

    /// Physical data address.
    pub fn phys_addr(&self) -> Option<u64> {
        self.part_u64(self.parts.phys_addr)
    }

    /// Cgroup id.
    pub fn cgroup(&self) -> Option<u64> {
        self.part_u64(self.parts.cgroup)
    }

    /// Page size of the data address, bytes.
    pub fn data_page_size(&self) -> Option<u64> {
        self.part_u64(self.parts.data_page_size)
    }

    /// Page size of the instruction address, bytes.
    pub fn code_page_size(&self) -> Option<u64> {
        self.part_u64(self.parts.code_page_size)
    }

    /// A piece of the AUX area.
    pub fn aux(&self) -> Option<&'a [u8]> {
        self.part(self.parts.aux)
    }

    /// Bytes behind the last known part: of sample_type bits not known here.
    pub fn extra(&self) -> &'a [u8] {
        self.record
            .get(self.parts.end as usize..)
            .unwrap_or_default()
    }

    /// The fields that the other records have in their trailer.
    pub fn sample_id(&self) -> SampleId {
        SampleId {
            pid: self.pid(),
            tid: self.tid(),
            time: self.time(),
            id: self.identifier().or_else(|| self.id()),
            stream_id: self.stream_id(),
            cpu: self.cpu(),
        }
    }

    /// Splits the call chain into addresses with the mode they were in.
    pub fn frames(&self) -> impl Iterator<Item = (prof_abi::CpuMode, u64)> + 'a {
        let mut mode = prof_abi::CpuMode::Unknown;
        let mut is_cookie = false;
        self.callchain()
            .into_iter()
            .flatten()
            .filter_map(move |entry| {
                if std::mem::take(&mut is_cookie) {
                    return None;
                }
                match CallchainContext::from_entry(entry) {
                    Some(context) => {
                        mode = context.cpu_mode();
                        is_cookie = context == CallchainContext::USER_DEFERRED;
                        None
                    }
                    None => Some((mode, entry)),
                }
            })
    }
}

/// A run of u64 in the file's byte order.
#[derive(Debug, Clone)]
pub struct Words<'a> {
    chunks: std::slice::ChunksExact<'a, u8>,
    order: ByteOrder,
}

impl<'a> Words<'a> {
    pub(crate) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self {
            chunks: bytes.chunks_exact(8),
            order,
        }
    }
}

/// None at all.
impl Default for Words<'_> {
    fn default() -> Self {
        Self::new(&[], ByteOrder::default())
    }
}

impl Iterator for Words<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.order.u64(self.chunks.next()?, 0)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

impl ExactSizeIterator for Words<'_> {}

impl PartialEq for Words<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.clone().eq(other.clone())
    }
}

impl Eq for Words<'_> {}

/// Register values of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers<'a> {
    /// 0 none (a kernel thread), 1 of a 32-bit task, 2 of a 64-bit task.
    pub abi: u64,
    /// Which registers were asked for, one bit each; ascending order.
    pub mask: u64,
    /// Their values; empty if `abi` is 0.
    pub values: Words<'a>,
}

impl Registers<'_> {
    /// The value of register number `index`, `None` if it was not recorded.
    pub fn get(&self, index: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(index)?;
        (self.mask & bit != 0).then_some(())?;
        let before = (self.mask & (bit - 1)).count_ones();
        self.values.clone().nth(before as usize)
    }

    /// Every (register number, value).
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let mask = self.mask;
        let numbers = (0..64).filter(move |bit| mask >> bit & 1 != 0);
        numbers.zip(self.values.clone())
    }
}

/// One branch: `perf_branch_entry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Address of the branch instruction (avma).
    pub from: u64,
    /// Where it went (avma).
    pub to: u64,
    /// What is known of it.
    pub flags: BranchFlags,
}

impl Branch {
    /// Bytes of one entry.
    pub const SIZE: usize = 24;
}

/// The bit-fields of a branch entry, in little-endian numbering: bit 0
/// mispredicted, 1 predicted, 2 in a transaction, 3 abort, 4-19 cycles, 20-23
/// type, 24-25 speculation, 26-29 new type, 30-32 privilege.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchFlags(pub u64);

/// (first bit in little-endian numbering, bits) of each field.
const BRANCH_FIELDS: [(u32, u32); 9] = [
    (0, 1),
    (1, 1),
    (2, 1),
    (3, 1),
    (4, 16),
    (20, 4),
    (24, 2),
    (26, 4),
    (30, 3),
];

impl BranchFlags {
    /// From the file's integer. C bit-fields of a big-endian machine start at
    /// the top: there `mispred` is bit 63.
    pub fn from_file(word: u64, order: ByteOrder) -> Self {
        Self(match order {
            ByteOrder::Little => word,
            ByteOrder::Big => each_field(|low, top, bits| (word >> top & bits) << low),
        })
    }

    /// The file's integer again.
    pub fn to_file(self, order: ByteOrder) -> u64 {
        match order {
            ByteOrder::Little => self.0,
            ByteOrder::Big => each_field(|low, top, bits| (self.0 >> low & bits) << top),
        }
    }

    fn bits(self, shift: u32, count: u32) -> u64 {
        self.0 >> shift & ((1 << count) - 1)
    }

    /// The target was mispredicted.
    pub fn mispredicted(self) -> bool {
        self.bits(0, 1) != 0
    }

    /// The target was predicted; neither bit: the machine does not tell.
    pub fn predicted(self) -> bool {
        self.bits(1, 1) != 0
    }

    /// In a transaction.
    pub fn in_transaction(self) -> bool {
        self.bits(2, 1) != 0
    }

    /// A transaction abort.
    pub fn abort(self) -> bool {
        self.bits(3, 1) != 0
    }

    /// Cycles since the branch before.
    pub fn cycles(self) -> u16 {
        self.bits(4, 16) as u16
    }

    /// `PERF_BR_*`.
    pub fn kind(self) -> u8 {
        self.bits(20, 4) as u8
    }

    /// `PERF_BR_SPEC_*`.
    pub fn speculation(self) -> u8 {
        self.bits(24, 2) as u8
    }

    /// `PERF_BR_NEW_*`, where [`BranchFlags::kind`] is 15.
    pub fn new_kind(self) -> u8 {
        self.bits(26, 4) as u8
    }

    /// `PERF_BR_PRIV_*`.
    pub fn privilege(self) -> u8 {
        self.bits(30, 3) as u8
    }
}

/// Joins what `part` makes of every field: its place from the bottom, its
/// place from the top, its bits; the reserved rest is one more field.
fn each_field(part: impl Fn(u32, u32, u64) -> u64) -> u64 {
    let reserved = (33, 31);
    let fields = BRANCH_FIELDS.iter().chain(std::iter::once(&reserved));
    fields.fold(0, |word, &(low, count)| {
        word | part(low, 64 - low - count, (1 << count) - 1)
    })
}

/// The branch stack of a sample.
#[derive(Debug, Clone)]
pub struct Branches<'a> {
    entries: &'a [u8],
    counters: Option<Words<'a>>,
    order: ByteOrder,
}

impl<'a> Branches<'a> {
    /// The branches, newest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Branch> + use<'a> {
        let order = self.order;
        let word = move |entry: &[u8], at| order.u64(entry, at).unwrap_or(0);
        self.entries
            .chunks_exact(Branch::SIZE)
            .map(move |entry| Branch {
                from: word(entry, 0),
                to: word(entry, 8),
                flags: BranchFlags::from_file(word(entry, 16), order),
            })
    }

    /// The counters of each branch, where they were asked for.
    pub fn counters(&self) -> Option<Words<'a>> {
        self.counters.clone()
    }
}
