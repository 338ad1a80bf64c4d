//! The table's header and its entries.

use crate::values::{Kind, List, value_at};
use crate::{Loaded, bytes_at, text_at, u32_at};

/// Functions of the largest programs: some 10^6.
const MOST_FUNCTIONS: u64 = 1 << 26;
/// In a table of more functions none is searched by its name: a second one of that name
/// could not be ruled out without looking at all.
const MOST_SEARCHED: u64 = 1 << 18;
/// Bytes of an entry that every version has.
const ENTRY: usize = 40;

/// A program's function table. Addresses are those of the file.
///
/// Layout of the header, after 8 bytes of magic, padding, instruction quantum
/// and pointer size (P), in words of P bytes: functions, files, start of the
/// code, then how far behind the header are names, compilation units, files,
/// values by address, functions.
///
/// Source: `runtime.pcHeader`, `runtime._func` and `runtime.funcdata` of Go
/// 1.18 to 1.24; checked on programs of Go 1.19, the newer layout on made-up tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub(crate) base: u64,
    pub(crate) version: Version,
    /// Bytes that addresses of instructions are multiples of.
    pub(crate) quantum: u8,
    pub(crate) pointer: u8,
    count: u64,
    text: u64,
    names: u64,
    units: u64,
    files: u64,
    pub(crate) values: u64,
    functions: u64,
}

/// Versions whose tables differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// 1.18 and 1.19.
    Go118,
    /// 1.20 and later: entries have the line at which a function starts.
    Go120,
}

/// One function of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    name: u32,
    frame: u32,
    file: u32,
    line: u32,
    unit: u32,
    flags: u8,
    data: Data,
}

/// Where values of a function are that only some have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Data {
    /// Address of the first offset.
    at: u64,
    /// How many tables of values by address.
    by_address: u32,
    /// How many others, behind those.
    others: u8,
}

impl Function {
    /// Whether a stack ends at it: `runtime.goexit`, `runtime.mstart`, the
    /// program's entry, signal handlers.
    pub fn is_outermost(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Whether it switches stacks, so that the table does not describe its
    /// stack pointer.
    pub fn switches_stacks(&self) -> bool {
        self.flags & 2 != 0
    }
}

impl Table {
    /// Reads the header at `base`. `text` is where the section with the
    /// program's code starts, for versions that do not say it.
    pub fn open(file: &impl Loaded, base: u64, text: Option<u64>) -> Option<Self> {
        let [a, b, c, d, 0, 0, quantum @ (1 | 2 | 4), pointer @ (4 | 8)] = bytes_at(file, base)?
        else {
            return None;
        };
        let version = match u32::from_le_bytes([a, b, c, d]) {
            0xffff_fff0 => Version::Go118,
            0xffff_fff1 => Version::Go120,
            _ => return None,
        };
        let word = |number: u64| pointer_at(file, base.checked_add(8)?, pointer, number);
        let part = |number: u64| base.checked_add(word(number)?);
        let table = Self {
            base,
            version,
            quantum,
            pointer,
            count: word(0).filter(|count| (1..=MOST_FUNCTIONS).contains(count))?,
            text: word(2).filter(|&text| text != 0).or(text)?,
            names: part(3)?,
            units: part(4)?,
            files: part(5)?,
            values: part(6)?,
            functions: part(7)?,
        };
        table.is_plausible(file).then_some(table)
    }

    /// Whether its first function begins where its entry says.
    fn is_plausible(&self, file: &impl Loaded) -> bool {
        let first = self.entry(file, 0).and_then(|(start, offset)| {
            let same = u32_at(file, self.functions.checked_add(offset.into())?)?;
            (self.text.checked_add(same.into())? == start).then_some(())
        });
        first.is_some() && self.start_of(file, self.count).is_some()
    }

    /// The address at which function `number` starts, or for the number
    /// behind the last, at which that one ends.
    fn start_of(&self, file: &impl Loaded, number: u64) -> Option<u64> {
        let at = self.functions.checked_add(number.checked_mul(8)?)?;
        self.text.checked_add(u32_at(file, at)?.into())
    }

    /// Where function `number` starts, and where its entry is.
    fn entry(&self, file: &impl Loaded, number: u64) -> Option<(u64, u32)> {
        let at = self.functions.checked_add(number.checked_mul(8)?)?;
        let [a, b, c, d, offset @ ..] = bytes_at::<8>(file, at)?;
        let start = u32::from_le_bytes([a, b, c, d]);
        let start = self.text.checked_add(start.into())?;
        Some((start, u32::from_le_bytes(offset)))
    }

    /// The function at an address.
    pub fn function(&self, file: &impl Loaded, at: u64) -> Option<Function> {
        let (mut low, mut high) = (0, self.count);
        if at < self.start_of(file, 0)? || at >= self.start_of(file, self.count)? {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.start_of(file, middle)? <= at {
                true => low = middle,
                false => high = middle,
            }
        }
        let (start, offset) = self.entry(file, low)?;
        let end = self.start_of(file, low + 1)?;
        self.read(file, (start, end), offset)
            .filter(|function| (function.start..function.end).contains(&at))
    }

    /// Reads an entry: the start's offset; name, arguments, deferred return,
    /// frame sizes, files, lines, number of tables, unit, from 1.20 on the
    /// first line, 4 bytes each; kind, flags, nothing, number of other data,
    /// 1 byte each.
    fn read(&self, file: &impl Loaded, range: (u64, u64), offset: u32) -> Option<Function> {
        let at = self.functions.checked_add(offset.into())?;
        let entry: [u8; ENTRY] = bytes_at(file, at)?;
        let word = |number: usize| {
            let bytes = entry.get(number * 4..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let kinds = match self.version {
            Version::Go118 => 36,
            Version::Go120 => 40,
        };
        let [_, flags, _, others] = bytes_at(file, at.checked_add(kinds)?)?;
        Some(Function {
            start: range.0,
            end: range.1,
            name: word(1)?,
            frame: word(4)?,
            file: word(5)?,
            line: word(6)?,
            unit: word(8)?,
            flags,
            data: Data {
                at: at.checked_add(kinds + 4)?,
                by_address: word(7)?,
                others,
            },
        })
    }

    /// The function of this name; `None` if there is none, or several as with
    /// instances of a generic function, and in the largest programs. Looks at every
    /// entry.
    pub fn named(&self, file: &impl Loaded, name: &str) -> Option<Function> {
        let mut wanted = name.as_bytes().to_vec();
        wanted.push(0);
        let mut text = vec![0; wanted.len()];
        let mut found = None;
        if self.count > MOST_SEARCHED {
            return None;
        }
        for number in 0..self.count {
            let (start, offset) = self.entry(file, number)?;
            let at = self.functions.checked_add(offset.into())?;
            let at_name = u32_at(file, at.checked_add(4)?)?;
            let got = file.read(self.names.checked_add(at_name.into())?, &mut text);
            if text.get(..got) == Some(&wanted) && found.replace(start).is_some() {
                return None;
            }
        }
        self.function(file, found?)
    }

    /// Size of the frame before the instruction at `at`, in bytes: how far the
    /// stack pointer is below its value on entry to `function`.
    pub fn frame_size(&self, file: &impl Loaded, function: &Function, at: u64) -> Option<u64> {
        let size = value_at(file, self.list(function, Kind::Frame(function.frame))?, at)?;
        u64::try_from(size).ok()
    }

    /// A list of values of a function; `None` if it has none of this kind.
    pub(crate) fn list(&self, function: &Function, kind: Kind) -> Option<List> {
        let offset = Some(kind.offset()).filter(|&offset| offset != 0)?;
        Some(List {
            place: self.values.checked_add(offset.into())?,
            start: function.start,
            quantum: self.quantum,
        })
    }

    /// The function's name, with its package.
    pub fn name(&self, file: &impl Loaded, function: &Function) -> Option<String> {
        self.name_at(file, function.name)
    }

    pub(crate) fn name_at(&self, file: &impl Loaded, offset: u32) -> Option<String> {
        let name = text_at(file, self.names.checked_add(offset.into())?)?;
        (!name.is_empty()).then_some(name)
    }

    /// The source file and the line, from 1, of the instruction at `at`.
    pub fn line(
        &self,
        file: &impl Loaded,
        function: &Function,
        at: u64,
    ) -> Option<(Option<String>, u32)> {
        let line = value_at(file, self.list(function, Kind::Line(function.line))?, at)?;
        let files = self.list(function, Kind::File(function.file));
        let number = files.and_then(|list| value_at(file, list, at));
        let path = || {
            let number = function.unit.checked_add(u32::try_from(number?).ok()?)?;
            let offset = self.units.checked_add(u64::from(number) * 4)?;
            let offset = u32_at(file, offset).filter(|&offset| offset != u32::MAX)?;
            text_at(file, self.files.checked_add(offset.into())?)
        };
        Some((path(), u32::try_from(line).ok()?))
    }

    /// Where a function's table number `number` of values by address is.
    pub(crate) fn by_address(
        &self,
        file: &impl Loaded,
        function: &Function,
        number: u32,
    ) -> Option<u32> {
        let data = &function.data;
        let at = (number < data.by_address)
            .then(|| data.at.checked_add(u64::from(number) * 4))
            .flatten()?;
        u32_at(file, at).filter(|&offset| offset != 0)
    }

    /// Offset of a function's other data number `number`.
    pub(crate) fn other(&self, file: &impl Loaded, function: &Function, number: u8) -> Option<u32> {
        let data = &function.data;
        let before = u64::from(data.by_address).checked_add(number.into())?;
        let at = (number < data.others)
            .then(|| data.at.checked_add(before * 4))
            .flatten()?;
        u32_at(file, at).filter(|&offset| offset != u32::MAX)
    }

    /// Addresses of the parts that the run-time library points to, in its
    /// order: header, names.
    pub(crate) fn parts(&self) -> [u64; 2] {
        [self.base, self.names]
    }
}

/// Word `number` of `pointer` bytes each from `svma` on.
pub(crate) fn pointer_at(file: &impl Loaded, svma: u64, pointer: u8, number: u64) -> Option<u64> {
    let at = svma.checked_add(number.checked_mul(pointer.into())?)?;
    match pointer {
        8 => bytes_at(file, at).map(u64::from_le_bytes),
        _ => u32_at(file, at).map(u64::from),
    }
}
