//! The TRACING_DATA section.

use super::payload::KernelTexts;
use super::{EventFormat, Surroundings};
use prof_abi::ByteOrder;
use rustc_hash::FxHashMap;

/// The ways in which a TRACING_DATA section can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TracingDataError {
    /// It does not begin with bytes 23, 8, 68 and `tracing`.
    #[error("tracing data does not begin with its magic number")]
    BadMagic,
    /// A part ends past the section.
    #[error("tracing data: {part} at byte {at} needs {needs} bytes, but {left} are left")]
    Short {
        /// Which part.
        part: &'static str,
        /// Where it begins, bytes from the start of the section.
        at: usize,
        /// Its size by what it says itself, bytes.
        needs: u64,
        /// What is there, bytes.
        left: usize,
    },
}

/// What a recording tells about its tracepoints.
///
/// | part | bytes |
/// |---|---|
/// | magic | `17 08 44 "tracing"` |
/// | version | text, NUL |
/// | byte order, size of long, page size | u8 (1: big), u8, u32 |
/// | `header_page`, `header_event` | name, NUL, u64 size, text |
/// | formats of ftrace's own events | u32 count, each u64 size, text |
/// | formats of the other systems | u32 count, each name, NUL, u32 count, each u64 size, text |
/// | kallsyms, printk formats | u32 size, text |
/// | command lines (version 0.6) | u64 size, text |
///
/// Source: `tools/perf/util/trace-event-info.c`; a section of perf 6.1 reads
/// to its last byte by this.
#[derive(Debug, Clone)]
pub struct TracingData {
    /// Version of the layout, `0.5` or `0.6`.
    pub version: String,
    /// Byte order of the payloads.
    pub order: ByteOrder,
    /// Size of a `long` in the recorded kernel, bytes.
    pub long_size: u8,
    /// Page size of the recorded machine, bytes.
    pub page_size: u32,
    /// The formats in file order.
    pub events: Vec<EventFormat>,
    /// Formats that could not be read.
    pub unreadable: u64,
    /// Why the section could not be read to its end.
    pub cut: Option<TracingDataError>,
    /// Bytes read, from the start of the section.
    pub len: usize,
    texts: KernelTexts,
    by_id: FxHashMap<u32, usize>,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    order: ByteOrder,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, part: &'static str, needs: u64) -> Result<&'a [u8], TracingDataError> {
        let left = self.bytes.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(needs)
            .ok()
            .and_then(|needs| left.get(..needs));
        let taken = taken.ok_or(TracingDataError::Short {
            part,
            at: self.at,
            needs,
            left: left.len(),
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    fn u32(&mut self, part: &'static str) -> Result<u32, TracingDataError> {
        let bytes = self.take(part, 4)?;
        Ok(self.order.u32(bytes, 0).unwrap_or(0))
    }

    fn u64(&mut self, part: &'static str) -> Result<u64, TracingDataError> {
        let bytes = self.take(part, 8)?;
        Ok(self.order.u64(bytes, 0).unwrap_or(0))
    }

    fn text(&mut self, part: &'static str) -> Result<String, TracingDataError> {
        let left = self.bytes.get(self.at..).unwrap_or_default();
        let len = left
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(left.len());
        let text = String::from_utf8_lossy(self.take(part, len as u64)?).into_owned();
        self.take(part, 1)?;
        Ok(text)
    }

    fn sized(&mut self, part: &'static str) -> Result<&'a [u8], TracingDataError> {
        let size = self.u64(part)?;
        self.take(part, size)
    }
}

impl TracingData {
    /// Reads a section, as far as it goes: what ends early keeps the formats
    /// before and says so in `cut`.
    ///
    /// # Errors
    /// If not even the part before the formats is there.
    pub fn parse(bytes: &[u8]) -> Result<Self, TracingDataError> {
        let mut cursor = Cursor {
            bytes,
            at: 0,
            order: ByteOrder::Little,
        };
        if cursor.take("magic number", 10)? != b"\x17\x08\x44tracing" {
            return Err(TracingDataError::BadMagic);
        }
        let version = cursor.text("version")?;
        if cursor.take("byte order", 1)? == [1] {
            cursor.order = ByteOrder::Big;
        }
        let long_size = cursor
            .take("size of long", 1)?
            .first()
            .copied()
            .unwrap_or(8);
        let page_size = cursor.u32("page size")?;
        let mut data = Self {
            version,
            order: cursor.order,
            long_size,
            page_size,
            events: Vec::new(),
            unreadable: 0,
            cut: None,
            len: 0,
            texts: KernelTexts::default(),
            by_id: FxHashMap::default(),
        };
        data.cut = data.read_formats(&mut cursor).err();
        data.len = cursor.at;
        Ok(data)
    }

    fn read_formats(&mut self, cursor: &mut Cursor<'_>) -> Result<(), TracingDataError> {
        for part in ["header_page", "header_event"] {
            cursor.text(part)?;
            cursor.sized(part)?;
        }
        self.read_system("ftrace", cursor)?;
        let systems = cursor.u32("number of systems")?;
        for _ in 0..systems {
            let system = cursor.text("system name")?;
            self.read_system(&system, cursor)?;
        }
        let kallsyms = cursor.u32("kallsyms")?;
        cursor.take("kallsyms", kallsyms.into())?;
        let printk = cursor.u32("printk formats")?;
        self.texts = KernelTexts::parse(cursor.take("printk formats", printk.into())?);
        if self.version != "0.5" {
            cursor.sized("command lines")?;
        }
        Ok(())
    }

    fn read_system(
        &mut self,
        system: &str,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), TracingDataError> {
        let count = cursor.u32("number of formats")?;
        for _ in 0..count {
            let text = cursor.sized("format")?;
            match EventFormat::parse(system, &String::from_utf8_lossy(text)) {
                Some(event) => {
                    self.by_id.entry(event.id).or_insert(self.events.len());
                    self.events.push(event);
                }
                None => self.unreadable += 1,
            }
        }
        Ok(())
    }

    /// The event with this number (`config` of its attr).
    pub fn event(&self, id: u64) -> Option<&EventFormat> {
        let index = self.by_id.get(&u32::try_from(id).ok()?)?;
        self.events.get(*index)
    }

    /// Appends the payload of event `id` as text to `out`; `function` tells
    /// the kernel function that holds an address, its name and start. Strings
    /// are copied as they are: the caller escapes.
    pub fn print(
        &self,
        id: u64,
        payload: &[u8],
        function: &dyn Fn(u64) -> Option<(String, u64)>,
        out: &mut Vec<u8>,
    ) {
        let Some(event) = self.event(id) else { return };
        let around = Surroundings {
            order: self.order,
            long_size: self.long_size,
            function,
            texts: &self.texts,
        };
        event.print(payload, &around, out);
    }
}
