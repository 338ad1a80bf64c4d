//! Which code there is, and of which method.

use super::ManagedCode;
use super::contract::Contract;
use crate::memory::{Memory, int, word};

/// Levels of the map of ranges, bits of an address for each, and below them.
const LEVELS: u32 = 5;
const BITS: u32 = 8;
const CHUNK_BITS: u32 = 17;
/// Ranges in one chunk of 128 KiB.
const MAX_FRAGMENTS: usize = 64;
/// Bytes for which a nibble of the map stands, and what one word of it covers.
const BUCKET: u64 = 32;
const NIBBLES: u64 = 8;
/// Nibbles above this one make of their word an address.
const LAST_NIBBLE: u32 = 8;
/// Parts of a method that follow its first one.
const MAX_PARTS: u32 = 64;
/// Parts of compiled code that unwind each for itself.
const MAX_UNWIND: u32 = 256;
/// Slots of a bucket of the hash table, and buckets that are looked at.
const SLOTS: u64 = 4;
const MAX_BUCKETS: u32 = 16;
/// Smaller keys mean something else.
const FIRST_KEY: u64 = 2;
const SMALL_KEYS: u64 = 100;
/// More buckets were tried for a key when this bit of the first value is set.
const GOES_ON: u64 = 1 << 63;

/// Where the code of a process is told, and offsets of fields, bytes.
#[derive(Debug)]
pub(super) struct Ranges {
    /// The map's first level.
    top: u64,
    fragment_begin: u64,
    fragment_end: u64,
    fragment_range: u64,
    fragment_next: u64,
    range_begin: u64,
    range_heap: u64,
    range_module: u64,
    map_base: u64,
    map: u64,
    header_method: u64,
    header_unwind_count: u64,
    header_unwind: u64,
    module_image: u64,
    image_owner: u64,
    image_count: u64,
    image_functions: u64,
    image_methods: u64,
    /// Of the hash table's buckets.
    buckets: u64,
    bucket_size: u64,
    values: u64,
    value_mask: u64,
    /// Of the table of functions.
    function_size: u64,
    function_begin: u64,
    function_end: u64,
    /// Smaller headers are marks of code that is of no method.
    last_mark: u64,
}

impl Ranges {
    pub(super) fn of(contract: &Contract, memory: &mut impl Memory) -> Option<Self> {
        if contract.version("ExecutionManager") != Some(2)
            || contract.value("HashMapSlotsPerBucket") != Some(SLOTS)
        {
            return None;
        }
        let field = |kind: &str, name: &str| contract.field(kind, name);
        let map = contract.pointer("ExecutionManagerCodeRangeMapAddress", memory)?;
        Some(Self {
            top: map.checked_add(field("RangeSectionMap", "TopLevelData")?)?,
            fragment_begin: field("RangeSectionFragment", "RangeBegin")?,
            fragment_end: field("RangeSectionFragment", "RangeEndOpen")?,
            fragment_range: field("RangeSectionFragment", "RangeSection")?,
            fragment_next: field("RangeSectionFragment", "Next")?,
            range_begin: field("RangeSection", "RangeBegin")?,
            range_heap: field("RangeSection", "HeapList")?,
            range_module: field("RangeSection", "R2RModule")?,
            map_base: field("CodeHeapListNode", "MapBase")?,
            map: field("CodeHeapListNode", "HeaderMap")?,
            header_method: field("RealCodeHeader", "MethodDesc")?,
            header_unwind_count: field("RealCodeHeader", "NumUnwindInfos")?,
            header_unwind: field("RealCodeHeader", "UnwindInfos")?,
            module_image: field("Module", "ReadyToRunInfo")?,
            image_owner: field("ReadyToRunInfo", "CompositeInfo")?,
            image_count: field("ReadyToRunInfo", "NumRuntimeFunctions")?,
            image_functions: field("ReadyToRunInfo", "RuntimeFunctions")?,
            image_methods: field("ReadyToRunInfo", "EntryPointToMethodDescMap")?,
            buckets: field("HashMap", "Buckets")?,
            bucket_size: contract.size("Bucket")?,
            values: field("Bucket", "Values")?,
            value_mask: contract.value("HashMapValueMask")?,
            function_size: contract.size("RuntimeFunction")?,
            function_begin: field("RuntimeFunction", "BeginAddress")?,
            function_end: field("RuntimeFunction", "EndAddress")?,
            last_mark: contract.value("StubCodeBlockLast")?,
        })
    }

    /// The code at an address, and its method.
    pub(super) fn code_at(&self, pc: u64, memory: &mut impl Memory) -> Option<ManagedCode> {
        let range = self.range_at(pc, memory)?;
        let begin = follow(range, self.range_begin, memory)?;
        let found = match follow(range, self.range_module, memory)? {
            0 => {
                let heap = follow(range, self.range_heap, memory)?;
                self.compiled((pc, begin), heap, memory)
            }
            module => self.precompiled((pc, begin), module, memory),
        };
        found.filter(|found| found.code.contains(&pc))
    }

    /// Whether code is still there and of the same method.
    pub(super) fn is_still(&self, found: &ManagedCode, memory: &mut impl Memory) -> bool {
        let mut method = || {
            let header = word(memory, found.code.start.checked_sub(8)?)?;
            (header == found.header).then(|| follow(header, self.header_method, memory))?
        };
        found.header == 0 || method() == Some(found.method)
    }

    fn range_at(&self, pc: u64, memory: &mut impl Memory) -> Option<u64> {
        let mut at = self.top;
        for level in (0..LEVELS).rev() {
            let index = pc >> (CHUNK_BITS + level * BITS) & 0xff;
            // The lowest bit is a mark, as of those below.
            at = follow(at, index * 8, memory)? & !1;
            if at == 0 {
                return None;
            }
        }
        for _ in 0..MAX_FRAGMENTS {
            let begin = follow(at, self.fragment_begin, memory)?;
            let end = follow(at, self.fragment_end, memory)?;
            if (begin..end).contains(&pc) {
                return Some(follow(at, self.fragment_range, memory)? & !1);
            }
            at = follow(at, self.fragment_next, memory)? & !1;
        }
        None
    }

    /// Code that was compiled while the program ran.
    fn compiled(
        &self,
        (pc, begin): (u64, u64),
        heap: u64,
        memory: &mut impl Memory,
    ) -> Option<ManagedCode> {
        let base = follow(heap, self.map_base, memory)?;
        let map = follow(heap, self.map, memory)?;
        let start = base.checked_add(start_before(pc.checked_sub(base)?, map, memory)?)?;
        let header = word(memory, start.checked_sub(8)?)?;
        if header <= self.last_mark {
            return None;
        }
        let method = follow(header, self.header_method, memory)?;
        let count = int(memory, header.checked_add(self.header_unwind_count)?)?;
        let parts = header.checked_add(self.header_unwind)?;
        let mut end = start;
        for number in 0..count.min(MAX_UNWIND) {
            let (_, to) = self.function(parts, number, memory)?;
            end = end.max(begin.checked_add(to)?);
        }
        Some(ManagedCode {
            code: start..end,
            method,
            header,
        })
    }

    /// Code of an image that was compiled before.
    fn precompiled(
        &self,
        (pc, begin): (u64, u64),
        module: u64,
        memory: &mut impl Memory,
    ) -> Option<ManagedCode> {
        let image = follow(module, self.module_image, memory)?;
        let image = follow(image, self.image_owner, memory)?;
        let count = int(memory, image.checked_add(self.image_count)?)?;
        let functions = follow(image, self.image_functions, memory)?;
        let within = pc.checked_sub(begin)?;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.function(functions, middle, memory)?.0 <= within {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let last = low.checked_sub(1)?;
        let (from, to) = self.function(functions, last, memory)?;
        let code = begin.checked_add(from)?..begin.checked_add(to)?;
        let methods = image.checked_add(self.image_methods)?;
        // What handles exceptions of a method stands behind it.
        for number in (last.saturating_sub(MAX_PARTS)..=last).rev() {
            let (from, _) = self.function(functions, number, memory)?;
            let method = self.looked_up(begin.checked_add(from)?, methods, memory)?;
            if method != 0 {
                return Some(ManagedCode {
                    code,
                    method,
                    header: 0,
                });
            }
        }
        None
    }

    /// Begin and end of a function of a table, from where its range begins.
    fn function(&self, table: u64, number: u32, memory: &mut impl Memory) -> Option<(u64, u64)> {
        let at = table.checked_add(u64::from(number).checked_mul(self.function_size)?)?;
        let from = int(memory, at.checked_add(self.function_begin)?)?;
        let to = int(memory, at.checked_add(self.function_end)?)?;
        Some((from.into(), to.into()))
    }

    /// What the hash table has for a key; 0 if nothing.
    fn looked_up(&self, key: u64, table: u64, memory: &mut impl Memory) -> Option<u64> {
        let buckets = follow(table, self.buckets, memory)?;
        let count = int(memory, buckets)?;
        let key = match key < FIRST_KEY {
            true => key + SMALL_KEYS,
            false => key,
        };
        // Numbers of 32 bits that wrap.
        let step = ((key >> 5) as u32).wrapping_add(1);
        let step = step.checked_rem(count.checked_sub(1)?)?.wrapping_add(1);
        let mut number = (key >> 2) as u32;
        for _ in 0..count.min(MAX_BUCKETS) {
            // The first one holds the count.
            let index = u64::from(number.checked_rem(count)?) + 1;
            let bucket = buckets.checked_add(index.checked_mul(self.bucket_size)?)?;
            let values = bucket.checked_add(self.values)?;
            for slot in 0..SLOTS {
                if follow(bucket, slot * 8, memory)? == key {
                    return Some((follow(values, slot * 8, memory)? & self.value_mask) << 1);
                }
            }
            if word(memory, values)? & GOES_ON == 0 {
                break;
            }
            number = number.wrapping_add(step);
        }
        Some(0)
    }
}

fn follow(from: u64, offset: u64, memory: &mut impl Memory) -> Option<u64> {
    word(memory, from.checked_add(offset)?)
}

/// Where the code at an offset begins, by the map of nibbles: from the highest to the
/// lowest of a word each stands for 32 bytes, and is where code begins in them, in units
/// of 4 bytes from 1 on. A word that lies within one piece of code as a whole has the
/// address of its beginning.
fn start_before(offset: u64, map: u64, memory: &mut impl Memory) -> Option<u64> {
    let bucket = offset / BUCKET;
    let mut words = |index: u64| int(memory, map.checked_add(index.checked_mul(4)?)?);
    let mut index = bucket / NIBBLES;
    let here = words(index)?;
    if let Some(start) = start_of_whole(here) {
        return Some(start);
    }
    let begins = |word: u32, index: u64, nibble: u64| {
        let value = word >> (4 * (NIBBLES - 1 - nibble)) & 0xf;
        let within = u64::from(value.checked_sub(1)?) * 4;
        Some((index * NIBBLES + nibble) * BUCKET + within)
    };
    let mut last = (0..=bucket % NIBBLES).rev();
    let found = last.find_map(|nibble| begins(here, index, nibble).filter(|&it| it <= offset));
    if found.is_some() {
        return found;
    }
    index = index.checked_sub(1)?;
    let before = words(index)?;
    start_of_whole(before).or_else(|| {
        (0..NIBBLES)
            .rev()
            .find_map(|nibble| begins(before, index, nibble))
    })
}

/// Where code begins that covers all for which a word stands.
fn start_of_whole(word: u32) -> Option<u64> {
    let units = (word & 0xf).checked_sub(LAST_NIBBLE + 1)?;
    Some(u64::from((word & !0xf) + units * 4))
}
