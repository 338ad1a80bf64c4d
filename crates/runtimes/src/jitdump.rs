//! What a jitdump file tells of unwinding, read while it grows.
//!
//! Records of id, size (4 bytes each) and time (8 bytes) follow a header. That
//! of unwind information stands before the load of the code it is for; its
//! data are an `.eh_frame` and, as their last bytes, an `.eh_frame_hdr`, and
//! count as if they stood behind the code, from the next multiple of 8 on.
//! Source: `tools/perf/Documentation/jitdump-specification.txt` and `genelf.c`
//! of Linux.

use std::ops::Range;

/// "JiTD" of a machine of this byte order.
const MAGIC: u32 = 0x4a69_5444;
/// Bytes of the header without what later versions add.
const HEADER: u64 = 40;
/// Bytes of what each record begins with.
const RECORD: u64 = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const UNWINDING_INFO: u32 = 4;
/// The longest unwind information of one piece of code, bytes.
const MAX_UNWINDING: u64 = 1 << 20;

/// A piece of JIT code and where it was loaded or moved to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpedCode {
    /// Its addresses.
    pub code: Range<u64>,
    /// Its unwind information.
    pub how: Unwinding,
}

/// Unwind information of a piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwinding {
    /// The contents of an `.eh_frame`, loaded at an address.
    EhFrame {
        /// Where it counts as standing.
        at: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// None in the dump.
    Unknown,
    /// That of the address from which the code was moved.
    AsAt(u64),
}

/// Reads bytes at an offset of the file; returns how many there were.
pub trait ReadAt: FnMut(u64, &mut [u8]) -> usize {}
impl<F: FnMut(u64, &mut [u8]) -> usize> ReadAt for F {}

/// A jitdump that is still being written, and how far it was read.
#[derive(Debug)]
pub struct JitDumpTail {
    /// Offset of the next record.
    next: u64,
    /// The `.eh_frame` for the code that is loaded next.
    pending: Option<Vec<u8>>,
    is_damaged: bool,
}

impl JitDumpTail {
    /// Reads the header; `None` if it is not that of a jitdump, or not there
    /// yet.
    pub fn open(read: &mut impl ReadAt) -> Option<Self> {
        let magic = u32::from_le_bytes(bytes(read, 0)?);
        let next = u64::from(u32::from_le_bytes(bytes(read, 8)?));
        (magic == MAGIC && next >= HEADER).then_some(Self {
            next,
            pending: None,
            is_damaged: false,
        })
    }

    /// Reads up to `most` further complete records and calls `found` for each
    /// piece of code. A record with an impossible size ends the file for good.
    pub fn read(&mut self, read: &mut impl ReadAt, most: usize, found: &mut dyn FnMut(DumpedCode)) {
        for _ in 0..most {
            if self.is_damaged || self.record(read, found).is_none() {
                return;
            }
        }
    }

    /// Reads one record; `None` if it is not all there.
    fn record(&mut self, read: &mut impl ReadAt, found: &mut dyn FnMut(DumpedCode)) -> Option<()> {
        let id = u32::from_le_bytes(bytes(read, self.next)?);
        let size = u64::from(u32::from_le_bytes(bytes(read, self.next.checked_add(4)?)?));
        let Some(end) = self.next.checked_add(size).filter(|_| size >= RECORD) else {
            self.is_damaged = true;
            return None;
        };
        // Compilers write a record in pieces.
        let _last: [u8; 1] = bytes(read, end - 1)?;
        let body = Body {
            start: self.next + RECORD,
            end,
        };
        match id {
            UNWINDING_INFO => self.pending = body.eh_frame(read),
            CODE_LOAD => {
                let eh_frame = self.pending.take();
                if let Some(code) = body.code((16, 24), read) {
                    // The code's size is rounded up, not its end.
                    let size = (code.end - code.start).checked_next_multiple_of(8);
                    let at = size.and_then(|size| code.start.checked_add(size));
                    let how = match (eh_frame, at) {
                        (Some(bytes), Some(at)) => Unwinding::EhFrame { at, bytes },
                        _ => Unwinding::Unknown,
                    };
                    found(DumpedCode { code, how });
                }
            }
            CODE_MOVE => {
                if let (Some(code), Some(old)) = (body.code((24, 32), read), body.word(16, read)) {
                    let how = Unwinding::AsAt(old);
                    found(DumpedCode { code, how });
                }
            }
            _ => {}
        }
        self.next = end;
        Some(())
    }
}

/// What of a record follows its size and time, as offsets in the file.
struct Body {
    start: u64,
    end: u64,
}

impl Body {
    fn word(&self, at: u64, read: &mut impl ReadAt) -> Option<u64> {
        let at = self.start + at;
        (at + 8 <= self.end).then(|| bytes(read, at).map(u64::from_le_bytes))?
    }

    /// The range whose address and size stand at these places: of a load
    /// behind process, thread (4 bytes each) and another address, of a move
    /// behind the old address, too.
    fn code(&self, (address, size): (u64, u64), read: &mut impl ReadAt) -> Option<Range<u64>> {
        let start = self.word(address, read)?;
        let end = start.checked_add(self.word(size, read)?)?;
        (start < end).then_some(start..end)
    }

    /// Sizes of all data, of their `.eh_frame_hdr`, of what is mapped (8 bytes
    /// each), and the data.
    fn eh_frame(&self, read: &mut impl ReadAt) -> Option<Vec<u8>> {
        const DATA: u64 = 24;
        let size = self.word(0, read)?.checked_sub(self.word(8, read)?)?;
        let from = self.start + DATA;
        if size == 0 || size > MAX_UNWINDING || from.checked_add(size)? > self.end {
            return None;
        }
        let mut bytes = vec![0; size as usize];
        (read(from, &mut bytes) == bytes.len()).then_some(bytes)
    }
}

fn bytes<const N: usize>(read: &mut impl ReadAt, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (read(at, &mut bytes) == N).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{DumpedCode, JitDumpTail, Unwinding};

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn record(id: u32, body: &[u8]) -> Vec<u8> {
        let mut record = id.to_le_bytes().to_vec();
        record.extend((16 + body.len() as u32).to_le_bytes());
        record.extend([0; 8]);
        record.extend(body);
        record
    }

    fn header() -> Vec<u8> {
        let mut header = 0x4a69_5444_u32.to_le_bytes().to_vec();
        header.extend(1_u32.to_le_bytes());
        header.extend(40_u32.to_le_bytes());
        header.resize(40, 0);
        header
    }

    /// Unwind information, a load, one without, a move.
    fn dump() -> Vec<u8> {
        let mut dump = header();
        let mut unwinding = words(&[7, 4, 0]);
        unwinding.extend(b"abcHEAD\0");
        dump.extend(record(4, &unwinding));
        let mut load = words(&[1, 0x1000, 0x1000, 13, 1]);
        load.extend(b"f\0");
        load.extend([0x90; 13]);
        dump.extend(record(0, &load));
        dump.extend(record(0, &words(&[1, 0x2000, 0x2000, 8, 2])));
        dump.extend(record(1, &words(&[1, 0, 0x1000, 0x3000, 13, 1])));
        dump
    }

    fn read(tail: &mut JitDumpTail, file: &[u8], most: usize) -> Vec<DumpedCode> {
        let mut codes = Vec::new();
        let mut read = reader(file);
        tail.read(&mut read, most, &mut |code| codes.push(code));
        codes
    }

    fn reader(file: &[u8]) -> impl FnMut(u64, &mut [u8]) -> usize {
        |at: u64, out: &mut [u8]| {
            let from = file.get(at as usize..).unwrap_or_default();
            let len = from.len().min(out.len());
            out[..len].copy_from_slice(&from[..len]);
            len
        }
    }

    fn expected() -> Vec<DumpedCode> {
        let at = |code, how| DumpedCode { code, how };
        vec![
            at(
                0x1000..0x100d,
                Unwinding::EhFrame {
                    at: 0x1010,
                    bytes: b"abc".to_vec(),
                },
            ),
            at(0x2000..0x2008, Unwinding::Unknown),
            at(0x3000..0x300d, Unwinding::AsAt(0x1000)),
        ]
    }

    #[test]
    fn unwind_information_is_for_the_code_that_follows() {
        let dump = dump();
        let mut tail = JitDumpTail::open(&mut reader(&dump)).expect("a jitdump");
        assert_eq!(read(&mut tail, &dump, 100), expected());
        assert_eq!(read(&mut tail, &dump, 100), [], "each once");
    }

    #[test]
    fn a_file_that_grows_byte_by_byte_tells_the_same() {
        let dump = dump();
        assert!(JitDumpTail::open(&mut reader(&dump[..11])).is_none());
        let mut tail = JitDumpTail::open(&mut reader(&dump[..40])).expect("a jitdump");
        let steps = 40..=dump.len();
        let codes = steps.flat_map(|len| read(&mut tail, &dump[..len], 1));
        assert_eq!(codes.collect::<Vec<_>>(), expected());
    }

    #[test]
    fn sizes_that_lie_end_the_file_or_the_record() {
        let mut short = header();
        short.extend([0, 0, 0, 0, 15, 0, 0, 0]);
        short.extend([0; 64]);
        let mut tail = JitDumpTail::open(&mut reader(&short)).expect("a jitdump");
        assert_eq!(read(&mut tail, &short, usize::MAX), []);
        // A header, and code, of more bytes than there are addresses.
        for (unwinding, code) in [
            ([4, 7, 0], 13),
            ([u64::MAX, 0, 0], 13),
            ([7, 4, 0], u64::MAX),
        ] {
            let mut dump = header();
            dump.extend(record(4, &words(&unwinding)));
            dump.extend(record(0, &words(&[1, 0x1000, 0x1000, code, 1])));
            let mut tail = JitDumpTail::open(&mut reader(&dump)).expect("a jitdump");
            let codes = read(&mut tail, &dump, usize::MAX);
            assert!(codes.iter().all(|code| code.how == Unwinding::Unknown));
        }
    }
}
