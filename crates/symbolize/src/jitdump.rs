//! Jitdump files: what a JIT compiler did, record by record, with times.
//!
//! After a header, records of id, size and time: code was loaded (with its
//! name and bytes), moved, has these source lines, unwinds like this. Memory
//! is used again, so an address means different code at different times.
//! Source: `tools/perf/Documentation/jitdump-specification.txt` of Linux.

use crate::demangle::{self, Demangle};
use crate::elf::until_nul;
use crate::trusted_file::{JitFileError, read_trusted};
use crate::words::{u32_at, u64_at};
use crate::{Lookup, Symbol};
use object::Endianness;
use prof_profile::{Avma, Svma, UnnamedReason};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// "JiTD" as the first four bytes, read in the file's own byte order.
const MAGIC: u32 = 0x4a69_5444;
/// id (u32), size (u32) and time (u64).
const RECORD_HEADER: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
const UNWINDING_INFO: u32 = 4;
/// A source file name that stands for the one before it.
const SAME_FILE: &[u8] = &[0xff];
/// How much later than in the code V8 writes that a line begins: `perf inject`
/// once put code this far behind the start of a file, without regard to the
/// lines. It has since learned that they move along, so that V8's are now too
/// late there; the format's description knows of no distance.
const LATE_BY: u64 = 0x40;
/// With what V8 begins the names of code that has lines, newest first.
const NAMES_OF_V8: [&[u8]; 4] = [b"JS:", b"LazyCompile:", b"Function:", b"Script:"];
/// Pieces of code that are looked at for one address. Compilers have a few
/// versions of a function at an address; crafted files have more.
const VERSIONS_MAX: usize = 4096;

/// The code that a jitdump tells about.
#[derive(Debug)]
pub struct JitDump {
    bytes: Vec<u8>,
    /// Sorted by start, then in file order.
    codes: Vec<Code>,
    /// The furthest end among `codes` up to and including each.
    ends: Vec<u64>,
    lines: Vec<Line>,
    records: u64,
    damage: Option<JitDamage>,
    machine: u16,
}

/// Where a jitdump cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitDamage {
    /// Byte offset of the record in the file.
    pub offset: u64,
    /// The size that the record claims, in bytes.
    pub size: u64,
    /// Bytes left in the file from there on.
    pub left: u64,
}

/// A piece of code at a place from a time on.
#[derive(Debug, Clone)]
struct Code {
    start: u64,
    end: u64,
    /// When it came there.
    time: u64,
    /// Its place in the order of the file.
    sequence: u32,
    /// Process and thread that made it.
    task: (u32, u32),
    /// What the compiler calls it by.
    index: u64,
    /// Whether it was moved here.
    is_moved: bool,
    name: Range<usize>,
    bytes: Range<usize>,
    /// Its source lines in `JitDump::lines`.
    lines: Range<usize>,
    /// How far it was moved since `lines` were written.
    moved: u64,
    unwinding: Option<UnwindingInfo>,
}

/// A record of how the code that follows unwinds.
#[derive(Debug, Clone)]
struct UnwindingInfo {
    data: Range<usize>,
    /// Bytes of the data that are an `.eh_frame_hdr`, its last.
    header: u64,
    /// See [`JitUnwinding::mapped_size`].
    mapped: u64,
}

/// From this address on, code belongs to this line.
#[derive(Debug, Clone)]
struct Line {
    address: u64,
    line: u32,
    file: Range<usize>,
}

/// A piece of JIT code at one address, from the time it was loaded or moved
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitCode<'a> {
    /// The process that made it, as it knows itself.
    pub pid: u32,
    /// The thread that made it.
    pub tid: u32,
    /// The compiler's index of the code; unchanged when the code is moved.
    pub index: u64,
    /// Where it begins.
    pub start: Avma,
    /// When it came there, ns on the clock of the dump.
    pub time: u64,
    /// Its name.
    pub name: &'a [u8],
    /// Its instructions.
    pub bytes: &'a [u8],
    /// Its unwind information, if the dump has it.
    pub unwinding: Option<JitUnwinding<'a>>,
    /// Whether it was moved here from another address.
    pub moved: bool,
}

/// Unwind information of JIT code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitUnwinding<'a> {
    /// Contents of an `.eh_frame`.
    pub eh_frame: &'a [u8],
    /// Contents of an `.eh_frame_hdr`.
    pub eh_frame_hdr: &'a [u8],
    /// Bytes of them that stand in memory, behind the code; no more than they
    /// have.
    pub mapped_size: u64,
}

impl JitDump {
    /// Reads a jitdump that root or one of `owners` wrote, and that nobody
    /// else can write to.
    ///
    /// # Errors
    ///
    /// See [`JitFileError`].
    pub fn open(path: &Path, owners: &[u32]) -> Result<Self, JitFileError> {
        Self::parse(read_trusted(path, owners)?)
    }

    /// Reads a jitdump. A record that makes no sense is passed over; one
    /// whose size makes no sense ends the file ([`JitDump::damage`]).
    ///
    /// # Errors
    ///
    /// [`JitFileError::Damaged`] if the header is not that of a jitdump.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, JitFileError> {
        let (endian, first) = read_header(&bytes)?;
        let machine = u32_at(&bytes, 12, endian).unwrap_or(0);
        let mut reader = Reader::new(&bytes, endian);
        let damage = reader.read_from(first);
        reader.put_lines_in_place();
        let Reader {
            mut codes,
            lines,
            records,
            ..
        } = reader;
        codes.sort_by_key(|code| code.start);
        let ends = codes
            .iter()
            .scan(0, |furthest: &mut u64, code| {
                *furthest = code.end.max(*furthest);
                Some(*furthest)
            })
            .collect();
        Ok(Self {
            codes,
            ends,
            lines,
            records,
            damage,
            machine: u16::try_from(machine).unwrap_or(0),
            bytes,
        })
    }

    /// The code that was at an address at a time (ns on the clock of the dump,
    /// usually `CLOCK_MONOTONIC`); without a time, the last code there.
    pub fn lookup(&self, avma: Avma, time: Option<u64>, demangle: Demangle) -> Lookup {
        let Some(code) = self.code_at(avma, time) else {
            return Lookup::unnamed(UnnamedReason::NoSymbolThere);
        };
        let mut lookup = Lookup::of_symbol(Symbol {
            name: demangle::name(self.slice(&code.name), demangle).into(),
            start: Svma(code.start),
            size: code.end - code.start,
        });
        if let (Some(frame), Some(line)) = (lookup.frames.first_mut(), self.line_at(code, avma)) {
            let file = self.slice(&line.file);
            let file: Arc<str> = String::from_utf8_lossy(file).into();
            frame.file = Some(file);
            frame.line = line.line;
        }
        lookup
    }

    /// The instruction bytes of the code that was at an address at a time,
    /// and where they start.
    pub fn code_bytes(&self, avma: Avma, time: Option<u64>) -> Option<(Avma, &[u8])> {
        let code = self.code_at(avma, time)?;
        Some((Avma(code.start), self.slice(&code.bytes)))
    }

    /// Where the source lines of the code that was last at an address begin:
    /// addresses in ascending order, files and lines.
    pub fn line_rows(&self, avma: Avma) -> Vec<(Avma, String, u32)> {
        let Some(code) = self.code_at(avma, None) else {
            return Vec::new();
        };
        let lines = self.lines.get(code.lines.clone()).unwrap_or_default();
        let row = |line: &Line| {
            let file = String::from_utf8_lossy(self.slice(&line.file)).into_owned();
            (Avma(line.address.wrapping_add(code.moved)), file, line.line)
        };
        let mut rows: Vec<_> = lines.iter().map(row).collect();
        rows.sort_by_key(|&(address, ..)| address);
        rows
    }

    /// Unwind information of the code that was at an address at a time, if the
    /// dump has it.
    pub fn unwinding(&self, avma: Avma, time: Option<u64>) -> Option<JitUnwinding<'_>> {
        self.unwinding_of(self.code_at(avma, time)?)
    }

    fn unwinding_of(&self, code: &Code) -> Option<JitUnwinding<'_>> {
        let info = code.unwinding.as_ref()?;
        let data = self.slice(&info.data);
        let table = data.len().checked_sub(usize::try_from(info.header).ok()?)?;
        let (eh_frame, eh_frame_hdr) = data.split_at_checked(table)?;
        Some(JitUnwinding {
            eh_frame,
            eh_frame_hdr,
            mapped_size: info.mapped.min(data.len() as u64),
        })
    }

    /// All code in the order in which it was loaded and moved.
    pub fn codes(&self) -> impl Iterator<Item = JitCode<'_>> {
        let mut codes: Vec<&Code> = self.codes.iter().collect();
        codes.sort_by_key(|code| code.sequence);
        codes.into_iter().map(|code| JitCode {
            pid: code.task.0,
            tid: code.task.1,
            index: code.index,
            start: Avma(code.start),
            time: code.time,
            name: self.slice(&code.name),
            bytes: self.slice(&code.bytes),
            unwinding: self.unwinding_of(code),
            moved: code.is_moved,
        })
    }

    /// The machine that the code is for: `e_machine` of ELF.
    pub fn machine(&self) -> u16 {
        self.machine
    }

    /// How many pieces of code there are.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there is no code.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// How many records were read.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Where the file cannot be read any further, if it is damaged.
    pub fn damage(&self) -> Option<JitDamage> {
        self.damage
    }

    fn code_at(&self, avma: Avma, time: Option<u64>) -> Option<&Code> {
        let after = self.codes.partition_point(|code| code.start <= avma.0);
        let candidates = self.codes.iter().zip(&self.ends).take(after).rev();
        candidates
            .take_while(|(_, furthest)| **furthest > avma.0)
            .take(VERSIONS_MAX)
            .map(|(code, _)| code)
            .filter(|code| avma.0 < code.end && time.is_none_or(|time| code.time <= time))
            .max_by_key(|code| (code.time, code.sequence))
    }

    fn line_at(&self, code: &Code, avma: Avma) -> Option<&Line> {
        let lines = self.lines.get(code.lines.clone())?;
        let address = avma.0.wrapping_sub(code.moved);
        let covering = lines.iter().filter(|line| line.address <= address);
        covering.max_by_key(|line| line.address)
    }

    fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }
}

/// Checks the header: u32 magic, version, header size, machine, padding, pid;
/// u64 time, flags. Returns the byte order and where records start.
fn read_header(bytes: &[u8]) -> Result<(Endianness, usize), JitFileError> {
    let damaged = |what: String| Err(JitFileError::Damaged(what));
    let magic = u32_at(bytes, 0, Endianness::Little);
    let endian = match magic {
        Some(MAGIC) => Endianness::Little,
        Some(other) if other.swap_bytes() == MAGIC => Endianness::Big,
        _ => return damaged("it does not start with the mark of a jitdump".to_owned()),
    };
    let version = u32_at(bytes, 4, endian).unwrap_or(0);
    let size = u32_at(bytes, 8, endian).unwrap_or(0) as usize;
    if version != 1 {
        return damaged(format!("its version is {version}, known is 1"));
    }
    if size < 40 || size > bytes.len() {
        return damaged(format!(
            "its header of {size} bytes is not within 40 and the {} there are",
            bytes.len()
        ));
    }
    Ok((endian, size))
}

/// Collects code from records.
struct Reader<'a> {
    bytes: &'a [u8],
    endian: Endianness,
    codes: Vec<Code>,
    /// Where each code index is now, in `codes`.
    by_index: FxHashMap<u64, usize>,
    lines: Vec<Line>,
    /// Lines for the code that is loaded next, and its address.
    next_lines: Option<(u64, Range<usize>)>,
    next_unwinding: Option<UnwindingInfo>,
    /// How far from the start of its code any list of lines begins, at least.
    first_line: Option<u64>,
    /// Whether V8 named code that has lines.
    is_of_v8: bool,
    records: u64,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], endian: Endianness) -> Self {
        Self {
            bytes,
            endian,
            codes: Vec::new(),
            by_index: FxHashMap::default(),
            lines: Vec::new(),
            next_lines: None,
            next_unwinding: None,
            first_line: None,
            is_of_v8: false,
            records: 0,
        }
    }

    /// Reads records up to the end or the first one without sensible size.
    fn read_from(&mut self, first: usize) -> Option<JitDamage> {
        let mut at = first;
        while at < self.bytes.len() {
            let left = self.bytes.len() - at;
            let size = u32_at(self.bytes, at + 4, self.endian).unwrap_or(0) as usize;
            if size < RECORD_HEADER || size > left {
                return Some(JitDamage {
                    offset: at as u64,
                    size: size as u64,
                    left: left as u64,
                });
            }
            // A record that is too short for its kind is passed over.
            let _ = self.record(at..at + size);
            self.records += 1;
            at += size;
        }
        None
    }

    fn record(&mut self, range: Range<usize>) -> Option<()> {
        let id = u32_at(self.bytes, range.start, self.endian)?;
        let time = u64_at(self.bytes, range.start + 8, self.endian)?;
        let body = range.start + RECORD_HEADER..range.end;
        match id {
            CODE_LOAD => self.load(body, time),
            CODE_MOVE => self.moved(body, time),
            DEBUG_INFO => self.debug_info(body),
            UNWINDING_INFO => self.unwinding_info(body),
            _ => Some(()),
        }
    }

    /// The u64 at `at` bytes into a record's body.
    fn long(&self, body: &Range<usize>, at: usize) -> Option<u64> {
        u64_at(self.bytes.get(body.clone())?, at, self.endian)
    }

    /// u32 pid, tid; u64 vma, address, size, index; name, NUL; code.
    fn load(&mut self, body: Range<usize>, time: u64) -> Option<()> {
        let (start, size) = (self.long(&body, 16)?, self.long(&body, 24)?);
        let index = self.long(&body, 32)?;
        let task = |at| u32_at(self.bytes, body.start + at, self.endian);
        let task = (task(0)?, task(4)?);
        let name_at = body.start + 40;
        let name = until_nul(self.bytes.get(name_at..body.end)?);
        let code_at = name_at + name.len() + 1;
        let code_end = code_at.checked_add(usize::try_from(size).ok()?)?;
        if code_end > body.end {
            return None;
        }
        let lines = match self.next_lines.take() {
            Some((address, lines)) if address == start => lines,
            _ => 0..0,
        };
        self.note_lines(start, &lines, name);
        let code = Code {
            start,
            end: start.checked_add(size)?,
            time,
            sequence: u32::try_from(self.codes.len()).ok()?,
            task,
            index,
            is_moved: false,
            name: name_at..name_at + name.len(),
            bytes: code_at..code_end,
            lines,
            moved: 0,
            unwinding: self.next_unwinding.take(),
        };
        self.by_index.insert(index, self.codes.len());
        self.codes.push(code);
        Some(())
    }

    fn note_lines(&mut self, start: u64, lines: &Range<usize>, name: &[u8]) {
        let lines = self.lines.get(lines.clone()).unwrap_or_default();
        let first = lines.iter().map(|line| line.address.wrapping_sub(start));
        if let Some(first) = first.min() {
            self.first_line = Some(self.first_line.map_or(first, |least| least.min(first)));
            self.is_of_v8 |= NAMES_OF_V8.iter().any(|start| name.starts_with(start));
        }
    }

    /// Takes V8's lines back to where they are. Every function has one at its
    /// start, so that a list that begins before [`LATE_BY`] is of a V8 that
    /// writes the true addresses.
    fn put_lines_in_place(&mut self) {
        let is_late = self.is_of_v8 && self.first_line >= Some(LATE_BY);
        for line in self.lines.iter_mut().filter(|_| is_late) {
            line.address = line.address.wrapping_sub(LATE_BY);
        }
    }

    /// u32 pid, tid; u64 vma, old address, new address, size, index.
    fn moved(&mut self, body: Range<usize>, time: u64) -> Option<()> {
        let start = self.long(&body, 24)?;
        let size = self.long(&body, 32)?;
        let index = self.long(&body, 40)?;
        let old = self.codes.get(*self.by_index.get(&index)?)?;
        let code = Code {
            start,
            end: start.checked_add(size.min(old.end - old.start))?,
            time,
            sequence: u32::try_from(self.codes.len()).ok()?,
            is_moved: true,
            moved: old.moved.wrapping_add(start.wrapping_sub(old.start)),
            ..old.clone()
        };
        self.by_index.insert(index, self.codes.len());
        self.codes.push(code);
        Some(())
    }

    /// u64 address, count; then per line u64 address, u32 line, u32
    /// discriminator, file name, NUL.
    fn debug_info(&mut self, body: Range<usize>) -> Option<()> {
        let address = self.long(&body, 0)?;
        let count = self.long(&body, 8)?;
        let first = self.lines.len();
        let mut at = body.start + 16;
        let mut file = 0..0;
        // Each entry takes at least 17 bytes of the record, whatever `count`.
        for _ in 0..count {
            let Some(entry) = self.bytes.get(at..body.end).filter(|it| it.len() > 16) else {
                break;
            };
            let line_address = u64_at(entry, 0, self.endian)?;
            let line = u32_at(entry, 8, self.endian)?;
            let name = until_nul(entry.get(16..)?);
            if name != SAME_FILE {
                file = at + 16..at + 16 + name.len();
                // Some versions of V8 write a name that they freed before.
                // Where its bytes hold a NUL, all that follows is read at
                // the wrong place, so that none of the lines can be believed.
                if line_address < address || !is_file_name(name) {
                    self.lines.truncate(first);
                    return None;
                }
            }
            self.lines.push(Line {
                address: line_address,
                line,
                file: file.clone(),
            });
            at += 16 + name.len() + 1;
        }
        self.next_lines = Some((address, first..self.lines.len()));
        Some(())
    }

    /// u64 size of the data, size of its `.eh_frame_hdr`, mapped size; data:
    /// an `.eh_frame`, then its `.eh_frame_hdr`.
    fn unwinding_info(&mut self, body: Range<usize>) -> Option<()> {
        let size = usize::try_from(self.long(&body, 0)?).ok()?;
        let header = self.long(&body, 8)?;
        let start = body.start.checked_add(24)?;
        let end = start.checked_add(size)?;
        if end > body.end || header > size as u64 {
            return None;
        }
        self.next_unwinding = Some(UnwindingInfo {
            data: start..end,
            header,
            mapped: self.long(&body, 16)?,
        });
        Some(())
    }
}

/// Whether bytes read like the name of a file.
fn is_file_name(bytes: &[u8]) -> bool {
    let is_text = |name: &str| !name.is_empty() && !name.chars().any(char::is_control);
    std::str::from_utf8(bytes).is_ok_and(is_text)
}

#[cfg(test)]
mod tests {
    use super::JitDump;
    use crate::Demangle;
    use prof_profile::Avma;

    /// Builds a jitdump in one byte order.
    struct Dump {
        bytes: Vec<u8>,
        is_big: bool,
    }

    impl Dump {
        fn new(is_big: bool) -> Self {
            let mut dump = Self {
                bytes: Vec::new(),
                is_big,
            };
            for word in [super::MAGIC, 1, 40, 62, 0, 7] {
                dump.u32(word);
            }
            dump.u64(0);
            dump.u64(0);
            dump
        }

        fn u32(&mut self, value: u32) {
            let bytes = if self.is_big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            };
            self.bytes.extend(bytes);
        }

        fn u64(&mut self, value: u64) {
            let bytes = if self.is_big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            };
            self.bytes.extend(bytes);
        }

        fn record(&mut self, id: u32, time: u64, longs: &[u64], tail: &[u8], pids: bool) {
            let size = 16 + if pids { 8 } else { 0 } + longs.len() * 8 + tail.len();
            self.u32(id);
            self.u32(size as u32);
            self.u64(time);
            if pids {
                self.u32(7);
                self.u32(7);
            }
            for &long in longs {
                self.u64(long);
            }
            self.bytes.extend(tail);
        }

        fn load(&mut self, time: u64, start: u64, index: u64, name: &str, code: &[u8]) {
            let tail = [name.as_bytes(), &[0], code].concat();
            let size = code.len() as u64;
            self.record(0, time, &[start, start, size, index], &tail, true);
        }
    }

    fn name(dump: &JitDump, address: u64, time: Option<u64>) -> Option<String> {
        let found = dump.lookup(Avma(address), time, Demangle::Yes);
        found.symbol.map(|symbol| symbol.name.to_string())
    }

    #[test]
    fn an_address_means_what_was_there_at_that_time() {
        for is_big in [false, true] {
            let mut dump = Dump::new(is_big);
            dump.load(10, 0x1000, 1, "first", &[0x90; 32]);
            dump.load(20, 0x1010, 2, "second", &[0xcc; 16]);
            // Moves the first to 0x2000 at time 30.
            dump.record(1, 30, &[0x2000, 0x1000, 0x2000, 32, 1], &[], true);
            let dump = JitDump::parse(dump.bytes).expect("a dump");
            assert_eq!(name(&dump, 0x1018, Some(15)).as_deref(), Some("first"));
            assert_eq!(name(&dump, 0x1018, Some(25)).as_deref(), Some("second"));
            assert_eq!(name(&dump, 0x1018, Some(5)), None);
            assert_eq!(name(&dump, 0x1018, None).as_deref(), Some("second"));
            assert_eq!(name(&dump, 0x2000, Some(29)), None);
            assert_eq!(name(&dump, 0x201f, Some(30)).as_deref(), Some("first"));
            let code = dump.code_bytes(Avma(0x1018), Some(25));
            assert_eq!(code, Some((Avma(0x1010), &[0xcc; 16][..])));
        }
    }

    #[test]
    fn lines_and_unwinding_belong_to_the_code_that_follows() {
        let mut dump = Dump::new(false);
        let mut tail = Vec::new();
        for (address, line, file) in [(0x1000u64, 3u32, &b"a.js"[..]), (0x1008, 4, b"\xff")] {
            tail.extend(address.to_le_bytes());
            tail.extend(line.to_le_bytes());
            tail.extend([0; 4]);
            tail.extend(file);
            tail.push(0);
        }
        dump.record(2, 9, &[0x1000, 2], &tail, false);
        dump.record(4, 9, &[5, 2, 3], b"abcDE", false);
        dump.load(10, 0x1000, 1, "f", &[0; 16]);
        dump.load(11, 0x3000, 2, "g", &[0; 16]);
        let dump = JitDump::parse(dump.bytes).expect("a dump");
        let found = dump.lookup(Avma(0x100a), Some(10), Demangle::Yes);
        let frame = found.frames.first().expect("a frame");
        assert_eq!((frame.file.as_deref(), frame.line), (Some("a.js"), 4));
        let rows = dump.line_rows(Avma(0x1004));
        let row = |address, line| (Avma(address), "a.js".to_owned(), line);
        assert_eq!(rows, [row(0x1000, 3), row(0x1008, 4)]);
        assert!(dump.line_rows(Avma(0x9000)).is_empty());
        let unwinding = dump.unwinding(Avma(0x1000), None).expect("it tells");
        assert_eq!(
            (unwinding.eh_frame, unwinding.eh_frame_hdr),
            (&b"abc"[..], &b"DE"[..])
        );
        assert_eq!(unwinding.mapped_size, 3);
        assert_eq!(dump.unwinding(Avma(0x3000), None), None);
    }

    #[test]
    fn lines_of_v8_are_taken_back_to_their_code() {
        // Of two functions; those of another compiler, or of a V8 without the
        // distance, begin where their code does.
        for (names, first, expected) in [
            (["JS:*f a.js:1:1", "JS:*g a.js:9:1"], [0x40, 0x44], [0, 4]),
            (["JS:*f a.js:1:1", "JS:*g a.js:9:1"], [0, 0x44], [0, 0x44]),
            (["f", "g"], [0x40, 0x44], [0x40, 0x44]),
        ] {
            let mut dump = Dump::new(false);
            for (index, (name, first)) in (1..).zip(names.iter().zip(first)) {
                let start: u64 = 0x1000 * index;
                let mut tail = Vec::new();
                for (address, line) in [(start + first, 3_u32), (start + first + 8, 4)] {
                    tail.extend(address.to_le_bytes());
                    tail.extend(line.to_le_bytes());
                    tail.extend(*b"\0\0\0\0a.js\0");
                }
                dump.record(2, 9, &[start, 2], &tail, false);
                dump.load(10, start, index, name, &[0; 0x80]);
            }
            let dump = JitDump::parse(dump.bytes).expect("a dump");
            for (start, expected) in [0x1000, 0x2000].into_iter().zip(expected) {
                let rows = dump.line_rows(Avma(start));
                let places: Vec<(u64, u32)> = rows
                    .iter()
                    .map(|(address, _, line)| (address.0 - start, *line))
                    .collect();
                assert_eq!(places, [(expected, 3), (expected + 8, 4)], "{names:?}");
            }
        }
    }

    #[test]
    fn lines_with_garbage_for_a_file_are_none() {
        // As of a V8: the second file's name was freed before it was written.
        for garbage in [
            &b"D\xde\x02\0\0\0\0\0\xa0ork.js"[..],
            b"\x03.js",
            b"\0\0work.js",
        ] {
            let mut dump = Dump::new(false);
            let mut tail = Vec::new();
            for (address, file) in [
                (0x1000u64, &b"a.js"[..]),
                (0x1004, garbage),
                (0x1008, garbage),
            ] {
                tail.extend(address.to_le_bytes());
                tail.extend([1, 0, 0, 0, 0, 0, 0, 0]);
                tail.extend(file);
                tail.push(0);
            }
            dump.record(2, 9, &[0x1000, 3], &tail, false);
            dump.load(10, 0x1000, 1, "f", &[0; 16]);
            let dump = JitDump::parse(dump.bytes).expect("a dump");
            assert!(dump.line_rows(Avma(0x1000)).is_empty(), "{garbage:?}");
            let found = dump.lookup(Avma(0x100a), Some(10), Demangle::Yes);
            let frame = found.frames.first().expect("a frame");
            assert_eq!((&*frame.name, frame.file.as_deref()), ("f", None));
        }
    }

    #[test]
    fn what_comes_before_damage_stays() {
        let mut dump = Dump::new(false);
        dump.load(10, 0x1000, 1, "f", &[0; 16]);
        let whole = dump.bytes.len();
        dump.load(11, 0x2000, 2, "g", &[0; 16]);
        for length in whole + 1..dump.bytes.len() {
            let cut = JitDump::parse(dump.bytes[..length].to_vec()).expect("a dump");
            assert_eq!((cut.len(), cut.records()), (1, 1));
            let damage = cut.damage().expect("it was cut");
            assert_eq!(damage.offset, whole as u64);
        }
        for length in 0..40 {
            assert!(JitDump::parse(dump.bytes[..length].to_vec()).is_err());
        }
    }

    #[test]
    fn flipped_bytes_never_panic() {
        let mut dump = Dump::new(false);
        dump.record(2, 9, &[0x1000, u64::MAX], b"12345678abcdefghfile\0", false);
        dump.load(10, 0x1000, 1, "f", &[0; 16]);
        dump.record(1, 30, &[0x2000, 0x1000, u64::MAX - 2, 32, 1], &[], true);
        for at in 0..dump.bytes.len() {
            for flip in [0xff, 0x80, 1] {
                let mut bytes = dump.bytes.clone();
                bytes[at] ^= flip;
                if let Ok(dump) = JitDump::parse(bytes) {
                    let _ = dump.lookup(Avma(0x1004), Some(50), Demangle::Yes);
                    let _ = dump.unwinding(Avma(0x1004), None);
                }
            }
        }
    }
}
