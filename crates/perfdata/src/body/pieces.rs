//! Pieces of bodies that are more than one integer.

use super::{Field, Style, Value, bodies, list_of};
use crate::fields::{Encoder, Fields, Short, until_nul};
use crate::sample::Words;
use prof_abi::{BuildId, ByteOrder, Misc};
use std::borrow::Cow;

/// A name up to the end of the body: NUL-terminated, padded to 8. Of a name
/// that was read the padding is kept, because some writers leave old bytes in
/// it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name<'a> {
    bytes: &'a [u8],
    /// Whether `bytes` are the whole field, with NUL and padding.
    is_field: bool,
}

/// The longest name in a record, in bytes without its NUL; the kernel's
/// `PATH_MAX` less one.
const MAX_NAME: usize = 4095;

/// The longest name of a thread, as the kernel cuts it.
const MAX_COMM: usize = 15;

impl<'a> Name<'a> {
    /// A name to be written: up to its first NUL, at most 4095 bytes.
    pub fn new(name: &'a [u8]) -> Self {
        Self::at_most(name, MAX_NAME)
    }

    /// The name of a thread to be written: at most 15 bytes, as the kernel's.
    pub fn of_thread(name: &'a [u8]) -> Self {
        Self::at_most(name, MAX_COMM)
    }

    fn at_most(name: &'a [u8], most: usize) -> Self {
        let name = until_nul(name);
        Self {
            bytes: name.get(..most).unwrap_or(name),
            is_field: false,
        }
    }

    /// The whole field as it stands in a record.
    pub(crate) fn field(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            is_field: true,
        }
    }

    /// The name without NUL and padding.
    pub fn bytes(&self) -> &'a [u8] {
        until_nul(self.bytes)
    }

    /// Whether a NUL ends it.
    pub(crate) fn ends(&self) -> bool {
        !self.is_field || self.bytes.contains(&0)
    }
}

impl std::fmt::Debug for Name<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?}", String::from_utf8_lossy(self.bytes()))
    }
}

impl<'a> Field<'a> for Name<'a> {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        Ok(Self::field(fields.rest()))
    }
    fn put(&self, out: &mut Encoder) {
        out.bytes(self.bytes);
        if !self.is_field {
            out.u8(0);
            out.pad8();
        }
    }
    fn value(&self, _: Style) -> Value<'a> {
        Value::Text(Cow::Borrowed(self.bytes()))
    }
}

/// A name in a field of `N` bytes, NUL-terminated; what follows the NUL is
/// kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedText<const N: usize>(pub [u8; N]);

impl<const N: usize> FixedText<N> {
    /// A name to be written: cut so that a NUL ends it.
    pub fn new(name: &[u8]) -> Self {
        let mut field = [0; N];
        for (to, &from) in field.iter_mut().take(N - 1).zip(until_nul(name)) {
            *to = from;
        }
        Self(field)
    }

    /// The name without NUL and padding.
    pub fn bytes(&self) -> &[u8] {
        until_nul(&self.0)
    }
}

impl<'a, const N: usize> Field<'a> for FixedText<N> {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        <[u8; N]>::take(fields).map(Self)
    }
    fn put(&self, out: &mut Encoder) {
        out.bytes(&self.0);
    }
    fn value(&self, _: Style) -> Value<'a> {
        Value::Text(Cow::Owned(self.bytes().to_vec()))
    }
}

/// Which file a mapping is of: 24 bytes of an MMAP2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileIdentity {
    /// Device, inode and its generation.
    Inode {
        /// Device, major.
        major: u32,
        /// Device, minor.
        minor: u32,
        /// Inode number.
        inode: u64,
        /// Counts reuse of the number.
        generation: u64,
    },
    /// A build-id; `misc` has MMAP_BUILD_ID.
    BuildId {
        /// Its length in bytes, at most 20.
        size: u8,
        /// Reserved.
        reserved: [u8; 3],
        /// The bytes, padded.
        bytes: [u8; 20],
    },
}

impl FileIdentity {
    /// No file: anonymous memory, the kernel without a build-id.
    pub const NONE: Self = Self::Inode {
        major: 0,
        minor: 0,
        inode: 0,
        generation: 0,
    };

    /// A file by its build-id, of which 20 bytes are kept.
    pub fn of_build_id(id: &BuildId) -> Self {
        let (bytes, size) = recorded_build_id(id);
        Self::BuildId {
            size,
            reserved: [0; 3],
            bytes,
        }
    }

    /// The build-id, where there is one.
    pub fn build_id(&self) -> Option<BuildId> {
        match self {
            Self::Inode { .. } => None,
            Self::BuildId { size, bytes, .. } => {
                BuildId::new(bytes.get(..usize::from(*size).min(bytes.len()))?)
            }
        }
    }
}

/// The 20 bytes that a record has room for, and how many of them are in use.
pub(crate) fn recorded_build_id(id: &BuildId) -> ([u8; BuildId::RECORDED_MAX], u8) {
    let mut bytes = [0; BuildId::RECORDED_MAX];
    let mut len = 0;
    for (to, &from) in bytes.iter_mut().zip(id.as_bytes()) {
        *to = from;
        len += 1;
    }
    (bytes, len)
}

impl<'a> Field<'a> for FileIdentity {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        if fields.misc.has(Misc::MMAP_BUILD_ID) {
            return Ok(Self::BuildId {
                size: fields.u8()?,
                reserved: Field::take(fields)?,
                bytes: Field::take(fields)?,
            });
        }
        Ok(Self::Inode {
            major: fields.u32()?,
            minor: fields.u32()?,
            inode: fields.u64()?,
            generation: fields.u64()?,
        })
    }
    fn put(&self, out: &mut Encoder) {
        match *self {
            Self::Inode {
                major,
                minor,
                inode,
                generation,
            } => {
                out.u32(major);
                out.u32(minor);
                out.u64(inode);
                out.u64(generation);
            }
            Self::BuildId {
                size,
                reserved,
                bytes,
            } => {
                out.u8(size);
                out.bytes(&reserved);
                out.bytes(&bytes);
            }
        }
    }
    fn value(&self, _: Style) -> Value<'a> {
        match *self {
            Self::Inode {
                major,
                minor,
                inode,
                generation,
            } => Value::Map(vec![
                ("major", Value::Number(major.into())),
                ("minor", Value::Number(minor.into())),
                ("inode", Value::Number(inode)),
                ("generation", Value::Number(generation)),
            ]),
            Self::BuildId { .. } => {
                let build_id = self.build_id();
                let text = build_id.map_or(Value::Word("none"), Value::BuildId);
                Value::Map(vec![("build_id", text)])
            }
        }
    }
}

/// u64 count, then that many u64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedWords<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> CountedWords<'a> {
    /// The words.
    pub fn iter(&self) -> Words<'a> {
        Words::new(self.bytes, self.order)
    }
}

impl<'a> Field<'a> for CountedWords<'a> {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        let nr = fields.u64()?;
        Ok(Self {
            bytes: fields.items(nr, 8)?,
            order: fields.order(),
        })
    }
    fn put(&self, out: &mut Encoder) {
        out.u64((self.bytes.len() / 8) as u64);
        out.bytes(self.bytes);
    }
    fn value(&self, _: Style) -> Value<'a> {
        list_of(self.iter(), Style::Hex)
    }
}

/// u64 count, then that many entries of one size.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a, T> {
    /// Those that were read, in the file's order.
    bytes: &'a [u8],
    order: ByteOrder,
    /// Those to be written.
    new: &'a [T],
}

impl<T: Entry + PartialEq> PartialEq for Pairs<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Entry + Eq> Eq for Pairs<'_, T> {}

/// An entry of [`Pairs`].
pub trait Entry: Copy {
    /// Bytes of one entry.
    const SIZE: usize;
    /// From `SIZE` bytes in the file's order.
    fn from_bytes(bytes: &[u8], order: ByteOrder) -> Option<Self>;
    /// Appends its `SIZE` bytes.
    fn put(&self, out: &mut Encoder);
    /// Its fields by name.
    fn listed(&self) -> Vec<(&'static str, Value<'static>)>;
}

impl<'a, T: Entry> Pairs<'a, T> {
    /// Entries to be written.
    pub fn new(entries: &'a [T]) -> Self {
        Self {
            bytes: &[],
            order: ByteOrder::NATIVE,
            new: entries,
        }
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let order = self.order;
        let chunks = self.bytes.chunks_exact(T::SIZE);
        let read = chunks.filter_map(move |entry| T::from_bytes(entry, order));
        read.chain(self.new.iter().copied())
    }
}

impl<'a, T: Entry> Field<'a> for Pairs<'a, T> {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        let nr = fields.u64()?;
        Ok(Self {
            bytes: fields.items(nr, T::SIZE)?,
            order: fields.order(),
            new: &[],
        })
    }
    fn put(&self, out: &mut Encoder) {
        out.u64((self.bytes.len() / T::SIZE + self.new.len()) as u64);
        out.bytes(self.bytes);
        self.new.iter().for_each(|entry| entry.put(out));
    }
    fn value(&self, _: Style) -> Value<'a> {
        Value::List(
            self.iter()
                .map(|entry| Value::Map(entry.listed()))
                .collect(),
        )
    }
}

bodies! {
    /// One namespace of a task.
    Namespace {
        /// Device of the namespace file.
        device ("dev"): u64,
        /// Its inode, which names the namespace.
        inode: u64,
    }

    /// An entry of an ID_INDEX.
    IdEntry {
        /// Event id.
        id: u64,
        /// Number of its ring.
        ring ("idx"): u64,
        /// CPU; -1 any.
        cpu: i64,
        /// Thread; -1 any.
        tid: i64,
    }

    /// A thread that was asked for.
    ThreadMapEntry {
        /// Thread id; -1 all.
        pid: i64,
        /// Its name.
        comm: FixedText<16>,
    }

    /// A setting of perf stat.
    StatConfigEntry {
        /// 0 aggregation, 1 interval, 2 scale.
        tag: u64,
        /// Its value.
        value: u64,
    }

    /// An event id of simpleperf.
    EventIdEntry {
        /// Event number.
        event: u64,
        /// Its id.
        id: u64,
    }

    /// A variable of a BPF program.
    MetadataEntry {
        /// Its name.
        key: FixedText<64>,
        /// Its value.
        value: FixedText<256>,
    }
}

macro_rules! entries {
    ($($name:ident = $size:expr,)*) => {$(
        impl Entry for $name {
            const SIZE: usize = $size;
            fn from_bytes(bytes: &[u8], order: ByteOrder) -> Option<Self> {
                Self::decode(&mut Fields::new(bytes, order)).ok()
            }
            fn put(&self, out: &mut Encoder) {
                self.encode(out);
            }
            fn listed(&self) -> Vec<(&'static str, Value<'static>)> {
                self.fields()
            }
        }
    )*};
}

entries! {
    Namespace = 16,
    IdEntry = 32,
    ThreadMapEntry = 24,
    StatConfigEntry = 16,
    EventIdEntry = 16,
    MetadataEntry = 320,
}

/// A set of CPUs in one of three forms.
///
/// u16 kind, then: 0 u16 nr, u16 cpus; 1 u16 nr, u16 word size (4 or 8), 4
/// bytes of padding if 8, mask words; 2 u8 any_cpu, u8 padding, u16 first,
/// u16 last. What follows is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuMap<'a> {
    /// A set that was read, in the file's order.
    bytes: &'a [u8],
    order: ByteOrder,
    /// One to be written.
    new: Option<&'a [u16]>,
}

/// The CPU of a list that stands for any: -1.
const ANY_CPU: u16 = u16::MAX;

/// The most CPUs a map is listed with; above it a mask is damaged.
const MAX_CPUS: usize = 1 << 20;

impl<'a> CpuMap<'a> {
    /// From the bytes behind a record header or an EVENT_UPDATE's id.
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self {
            bytes,
            order,
            new: None,
        }
    }

    /// A list of CPUs to be written; an empty one means any. Lists take more
    /// room than masks and ranges, but every perf that knows the record reads
    /// them.
    pub fn of(cpus: &'a [u16]) -> Self {
        Self {
            bytes: &[],
            order: ByteOrder::NATIVE,
            new: Some(if cpus.is_empty() { &[ANY_CPU] } else { cpus }),
        }
    }

    /// The CPUs; -1 for "any". Empty if it cannot be read.
    pub fn cpus(&self) -> Vec<i32> {
        match self.new {
            Some(cpus) => cpus.iter().copied().map(signed).collect(),
            None => self.read().unwrap_or_default(),
        }
    }

    fn read(&self) -> Result<Vec<i32>, Short> {
        let mut fields = Fields::new(self.bytes, self.order);
        match fields.u16()? {
            0 => {
                let nr = fields.u16()?;
                let mut list = Fields::new(fields.items(nr.into(), 2)?, self.order);
                let cpus = std::iter::from_fn(|| list.u16().ok());
                Ok(cpus.map(signed).collect())
            }
            1 => {
                let nr = fields.u16()?;
                let width = usize::from(fields.u16()?);
                if width == 8 {
                    fields.take(2)?;
                }
                let mut words = Fields::new(fields.items(nr.into(), width)?, self.order);
                Ok(mask_bits(&mut words, width))
            }
            2 => {
                let any = fields.u8()? != 0;
                fields.u8()?;
                let range = i32::from(fields.u16()?)..=i32::from(fields.u16()?);
                Ok(any.then_some(-1).into_iter().chain(range).collect())
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// A CPU of a list, in which 65535 is -1, "any CPU".
fn signed(cpu: u16) -> i32 {
    cpu.cast_signed().into()
}

/// The numbers of the bits that are set in words of `width` bytes.
fn mask_bits(words: &mut Fields<'_>, width: usize) -> Vec<i32> {
    let word = || match width {
        8 => words.u64().ok(),
        4 => words.u32().ok().map(u64::from),
        _ => None,
    };
    let bits =
        std::iter::from_fn(word).flat_map(|word| (0..width * 8).map(move |bit| word >> bit & 1));
    let set = bits.take(MAX_CPUS).enumerate().filter(|&(_, bit)| bit == 1);
    set.map(|(cpu, _)| cpu as i32).collect()
}

impl<'a> Field<'a> for CpuMap<'a> {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        let order = fields.order();
        let map = Self::new(fields.rest(), order);
        map.read()?;
        Ok(map)
    }
    fn put(&self, out: &mut Encoder) {
        out.bytes(self.bytes);
        if let Some(cpus) = self.new {
            const LIST: u16 = 0;
            out.u16(LIST);
            out.u16(cpus.len() as u16);
            cpus.iter().for_each(|&cpu| out.u16(cpu));
        }
    }
    fn value(&self, _: Style) -> Value<'a> {
        let cpus = self.cpus().into_iter();
        Value::List(cpus.map(|cpu| Value::Signed(cpu.into())).collect())
    }
}
