//! `PERF_RECORD_SAMPLE`, read in place.

use crate::branch::{Branch, BranchFlags};
use crate::fields::{BodyError, Fields};
use crate::layout::{SampleId, SampleLayout};
use crate::order::SamplePart;
use crate::read_values::ReadValues;
use crate::skipping::in_fixed_part;
use prof_abi::{ByteOrder, CallchainContext, SampleType};
use std::ops::Range;

/// A sample, read in place: `layout` was built once from its event, the
/// variable parts were found (and checked) once in [`Sample::new`].
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    record: &'a [u8],
    layout: &'a SampleLayout,
    order: ByteOrder,
    parts: Parts,
}

/// Where the parts of variable size begin, with their counts, in bytes from
/// the start of the record; the layout says which are there. A part ends where
/// the next one begins.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    starts: [u32; SamplePart::VARIABLE],
    end: u32,
}

impl Parts {
    /// Finds the parts that `layout` tells of, from behind the fixed ones.
    #[inline]
    fn find(record: &[u8], layout: &SampleLayout, order: ByteOrder) -> Result<Self, BodyError> {
        let mut fields = Fields::new(record, order);
        fields
            .take(layout.fixed_end.into())
            .map_err(in_fixed_part)?;
        // Most samples have a call chain at most: that is worth a way of its
        // own, which is inlined.
        const CHAIN: usize = SamplePart::Callchain as usize - SamplePart::FIXED;
        if layout.variable & !(1 << CHAIN) != 0 {
            return Self::walk(record, layout, fields);
        }
        let mut starts = [0; SamplePart::VARIABLE];
        if layout.variable != 0 {
            starts[CHAIN] = layout.fixed_end.into();
            SamplePart::Callchain.skip(&mut fields, layout)?;
        }
        let end = (record.len() - fields.left()) as u32;
        Ok(Self { starts, end })
    }

    fn walk(
        record: &[u8],
        layout: &SampleLayout,
        mut fields: Fields<'_>,
    ) -> Result<Self, BodyError> {
        let mut parts = Self {
            end: layout.fixed_end.into(),
            ..Self::default()
        };
        let mut ahead = layout.variable;
        while ahead != 0 {
            let index = ahead.trailing_zeros() as usize;
            ahead &= ahead - 1;
            let part = SamplePart::ORDER.get(SamplePart::FIXED + index);
            if let (Some(part), Some(start)) = (part, parts.starts.get_mut(index)) {
                *start = parts.end;
                part.skip(&mut fields, layout)?;
                parts.end = (record.len() - fields.left()) as u32;
            }
        }
        Ok(parts)
    }

    /// Where the part with this number is; `variable` says which are there.
    #[inline]
    fn place(&self, index: usize, variable: u16) -> Option<Range<usize>> {
        let from_here = variable >> index;
        (from_here & 1 != 0).then_some(())?;
        let start = *self.starts.get(index)?;
        let end = match from_here >> 1 {
            0 => self.end,
            later => {
                let next = index + 1 + later.trailing_zeros() as usize;
                *self.starts.get(next)?
            }
        };
        Some(start as usize..end as usize)
    }
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
        Ok(Self {
            record,
            layout,
            order,
            parts: Parts::find(record, layout, order)?,
        })
    }

    /// Where a part is in the record, its count included.
    #[inline]
    pub(crate) fn place(&self, part: SamplePart) -> Option<Range<usize>> {
        let Some(index) = part.variable_index() else {
            let at = self.layout.at(part)?;
            return Some(at..at + 8);
        };
        self.parts.place(index, self.layout.variable)
    }

    /// The bytes of a part, its count included.
    #[inline]
    fn part(&self, part: SamplePart) -> Option<&'a [u8]> {
        self.record.get(self.place(part)?)
    }

    /// The bytes of a part behind its count of `width` bytes.
    #[inline]
    fn counted(&self, part: SamplePart, width: usize) -> Option<&'a [u8]> {
        self.part(part)?.get(width..)
    }

    #[inline]
    pub(crate) fn word(&self, part: SamplePart) -> Option<u64> {
        let at = match part.variable_index() {
            None => self.layout.at(part)?,
            Some(_) => self.place(part)?.start,
        };
        self.order.u64(self.record, at)
    }

    /// The two numbers that share a field.
    #[inline]
    pub(crate) fn halves(&self, part: SamplePart) -> Option<(u32, u32)> {
        let at = self.layout.at(part)?;
        let first = self.order.u32(self.record, at)?;
        Some((first, self.order.u32(self.record, at + 4)?))
    }

    /// The whole record, header included.
    pub(crate) fn record(&self) -> &'a [u8] {
        self.record
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
        self.word(SamplePart::Identifier)
    }

    /// Instruction pointer (avma).
    #[inline]
    pub fn ip(&self) -> Option<u64> {
        self.word(SamplePart::Ip)
    }

    /// Process id.
    #[inline]
    pub fn pid(&self) -> Option<i32> {
        self.halves(SamplePart::Tid).map(|(pid, _)| pid as i32)
    }

    /// Thread id.
    #[inline]
    pub fn tid(&self) -> Option<i32> {
        self.halves(SamplePart::Tid).map(|(_, tid)| tid as i32)
    }

    /// Time in ns on the event's clock.
    #[inline]
    pub fn time(&self) -> Option<u64> {
        self.word(SamplePart::Time)
    }

    /// Data address (avma).
    pub fn addr(&self) -> Option<u64> {
        self.word(SamplePart::Addr)
    }

    /// Event id, of the group leader.
    pub fn id(&self) -> Option<u64> {
        self.word(SamplePart::Id)
    }

    /// Event id, of the event itself.
    pub fn stream_id(&self) -> Option<u64> {
        self.word(SamplePart::StreamId)
    }

    /// CPU number; the reserved half of the field is ignored.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        self.halves(SamplePart::Cpu).map(|(cpu, _)| cpu)
    }

    /// Events this sample stands for, as recorded in it. Without the field
    /// the event's own period counts: [`crate::Event::period_of`].
    #[inline]
    pub fn period(&self) -> Option<u64> {
        self.word(SamplePart::Period)
    }

    /// Counter values.
    pub fn read(&self) -> Option<ReadValues<'a>> {
        let mut fields = Fields::new(self.part(SamplePart::Read)?, self.order);
        fields.read_format = self.layout.read_format;
        ReadValues::take(&mut fields).ok()
    }

    /// The call chain as recorded, leaf first, with its context markers; see
    /// [`CallchainContext`].
    pub fn callchain(&self) -> Option<Words<'a>> {
        let entries = self.counted(SamplePart::Callchain, 8)?;
        Some(Words::new(entries, self.order))
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
        self.counted(SamplePart::Raw, 4)
    }

    /// The branch stack, newest branch first.
    pub fn branches(&self) -> Option<Branches<'a>> {
        let part = self.part(SamplePart::Branches)?;
        let count = self.order.u64(part, 0)? as usize;
        let head = 8 + 8 * usize::from(self.layout.branch_hw_index);
        let (entries, counters) = part.get(head..)?.split_at_checked(count * Branch::SIZE)?;
        let has_counters = self.layout.branch_counters;
        Some(Branches {
            entries,
            counters: has_counters.then(|| Words::new(counters, self.order)),
            order: self.order,
        })
    }

    /// Where the newest branch stands in the hardware's ring.
    pub fn branch_hw_index(&self) -> Option<u64> {
        let part = self.part(SamplePart::Branches)?;
        let is_there = self.layout.branch_hw_index;
        is_there.then(|| self.order.u64(part, 8)).flatten()
    }

    /// User registers.
    pub fn regs_user(&self) -> Option<Registers<'a>> {
        self.registers(SamplePart::RegsUser)
    }

    /// Registers at the interrupt.
    pub fn regs_intr(&self) -> Option<Registers<'a>> {
        self.registers(SamplePart::RegsIntr)
    }

    pub(crate) fn registers(&self, part: SamplePart) -> Option<Registers<'a>> {
        Some(Registers {
            abi: self.word(part)?,
            mask: self.layout.mask_of(part),
            values: Words::new(self.counted(part, 8)?, self.order),
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
        let (dump, _) = self.stack_parts()?;
        Some(dump)
    }

    /// How many bytes of the user stack the kernel says are valid.
    pub fn stack_user_valid(&self) -> Option<u64> {
        let (_, valid) = self.stack_parts()?;
        self.order.u64(valid, 0)
    }

    /// The dump, and the field that says how much of it is valid; that is
    /// empty if the dump is.
    fn stack_parts(&self) -> Option<(&'a [u8], &'a [u8])> {
        let counted = self.counted(SamplePart::StackUser, 8)?;
        counted.split_at_checked(counted.len().saturating_sub(8))
    }

    /// Weight, usually a latency in cycles: WEIGHT whole, of WEIGHT_STRUCT
    /// the first part.
    pub fn weight(&self) -> Option<u64> {
        let word = self.word(SamplePart::Weight)?;
        let whole = self.layout.sample_type.has(SampleType::WEIGHT);
        Some(if whole { word } else { word & 0xffff_ffff })
    }

    /// The three parts of WEIGHT_STRUCT: weight, then two that depend on the
    /// machine (instruction latency, pipeline stage or retire latency).
    pub fn weight_parts(&self) -> Option<(u32, u16, u16)> {
        let split = self.layout.sample_type.has(SampleType::WEIGHT_STRUCT);
        let word = self.word(SamplePart::Weight).filter(|_| split)?;
        Some((word as u32, (word >> 32) as u16, (word >> 48) as u16))
    }

    /// Where the data came from; see `prof_abi::DataSource`.
    pub fn data_src(&self) -> Option<u64> {
        self.word(SamplePart::DataSrc)
    }

    /// Why a transaction ended; see `prof_abi::Transaction`.
    pub fn transaction(&self) -> Option<u64> {
        self.word(SamplePart::Transaction)
    }

    /// Physical data address.
    pub fn phys_addr(&self) -> Option<u64> {
        self.word(SamplePart::PhysAddr)
    }

    /// Cgroup id.
    pub fn cgroup(&self) -> Option<u64> {
        self.word(SamplePart::Cgroup)
    }

    /// Page size of the data address, bytes.
    pub fn data_page_size(&self) -> Option<u64> {
        self.word(SamplePart::DataPageSize)
    }

    /// Page size of the instruction address, bytes.
    pub fn code_page_size(&self) -> Option<u64> {
        self.word(SamplePart::CodePageSize)
    }

    /// A piece of the AUX area.
    pub fn aux(&self) -> Option<&'a [u8]> {
        self.counted(SamplePart::Aux, 8)
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

    #[inline]
    fn nth(&mut self, index: usize) -> Option<u64> {
        self.order.u64(self.chunks.nth(index)?, 0)
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
