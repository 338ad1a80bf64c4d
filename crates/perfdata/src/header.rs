//! The file header: 16 bytes in pipe mode, 104 in file mode.

use crate::damage::Error;
use crate::fields::Fields;
use crate::section::Section;
use prof_abi::ByteOrder;

/// The two containers of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Header, attrs, data, features, with an index.
    #[default]
    File,
    /// Records only, to the end of the stream.
    Pipe,
}

/// The file header.
///
/// | offset | size | field                                              |
/// |-------:|-----:|----------------------------------------------------|
/// |      0 |    8 | magic `PERFILE2` (`PERFFILE` in version 1)         |
/// |      8 |    8 | header size: 104, or 16 in pipe mode               |
/// |     16 |    8 | bytes of an attr entry: attr and 16                |
/// |     24 |   16 | attrs: offset, size                                |
/// |     40 |   16 | data: offset, size                                 |
/// |     56 |   16 | event types (dead)                                 |
/// |     72 |   32 | features, one bit each                             |
///
/// The magic's bytes are reversed if the recording machine's were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// 2, or 1 for files of 2009 and 2010.
    pub version: u8,
    /// Which container.
    pub mode: Mode,
    /// Order of the bytes in all integers.
    pub order: ByteOrder,
    /// Size of the header, bytes.
    pub size: u64,
    /// Size of an entry in `attrs`, bytes.
    pub attr_entry: u64,
    /// The attrs and where their ids are.
    pub attrs: Section,
    /// The records.
    pub data: Section,
    /// `event_types`: obsolete, not read.
    pub event_types: Section,
    /// Which feature sections there are.
    pub features: [u64; 4],
}

/// Bytes of the header in pipe mode.
pub(crate) const PIPE_HEADER: usize = 16;
/// Bytes of the header in file mode.
pub(crate) const FILE_HEADER: usize = 104;
/// Bytes of the header of files from before the features.
const OLD_HEADER: u64 = 72;

impl Header {
    /// Reads magic and header size, which decide the mode.
    pub(crate) fn start(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Err(Error::Empty);
        }
        let (version, order) = match bytes.get(..8) {
            Some(b"PERFILE2") => (2, ByteOrder::Little),
            Some(b"2ELIFREP") => (2, ByteOrder::Big),
            Some(b"PERFFILE") => (1, ByteOrder::Little),
            Some(b"ELIFFREP") => (1, ByteOrder::Big),
            _ => return Err(not_perf_data(bytes)),
        };
        let size = order.u64(bytes, 8).ok_or(Error::HeaderCut {
            needs: PIPE_HEADER as u64,
            left: bytes.len() as u64,
        })?;
        let mode = match size {
            16 => Mode::Pipe,
            72 | 104 => Mode::File,
            _ => return Err(Error::HeaderSize { size }),
        };
        Ok(Self {
            version,
            mode,
            order,
            size,
            ..Self::default()
        })
    }

    /// Reads the rest of a file-mode header.
    pub(crate) fn finish(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let cut = |_| Error::HeaderCut {
            needs: self.size,
            left: bytes.len() as u64,
        };
        let mut fields = Fields::new(bytes, self.order);
        fields.take(PIPE_HEADER).map_err(cut)?;
        let mut word = || fields.u64().map_err(cut);
        self.attr_entry = word()?;
        for section in [&mut self.attrs, &mut self.data, &mut self.event_types] {
            *section = Section {
                offset: word()?,
                size: word()?,
            };
        }
        if self.size != OLD_HEADER {
            let words = [word()?, word()?, word()?, word()?];
            self.features = feature_words(words, self.order);
        }
        Ok(())
    }

    /// Whether feature `bit` is set.
    pub fn has_feature(&self, bit: u32) -> bool {
        let word = self.features.get(bit as usize / 64);
        word.is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    /// The features that are set, ascending.
    pub(crate) fn feature_bits(&self) -> impl Iterator<Item = u32> + '_ {
        (0..256).filter(|&bit| self.has_feature(bit))
    }
}

/// The bitmap of a foreign byte order may have been written as u64 or, on a
/// 32-bit machine, as u32. perf's test: HOSTNAME (bit 3) is always set; if it
/// is in neither reading, only build-ids are believed.
fn feature_words(words: [u64; 4], order: ByteOrder) -> [u64; 4] {
    const HOSTNAME: u64 = 1 << 3;
    const BUILD_ID: u64 = 1 << 2;
    let [first, ..] = words;
    if order == ByteOrder::Little || first & HOSTNAME != 0 || words == [0; 4] {
        return words;
    }
    let halves = words.map(|word| word.rotate_left(32));
    let [first, ..] = halves;
    if first & HOSTNAME != 0 {
        halves
    } else {
        [BUILD_ID, 0, 0, 0]
    }
}

/// The error for a file with another magic, saying what it looks like.
fn not_perf_data(bytes: &[u8]) -> Error {
    let looks: [(&[u8], &str); 8] = [
        (
            b"JiTD",
            "; it is a jitdump of a JIT compiler, which belongs beside a recording",
        ),
        (
            b"DTiJ",
            "; it is a jitdump of a JIT compiler, which belongs beside a recording",
        ),
        (
            b"\x1f\x8b",
            "; it is packed with gzip: unpack it first (gunzip)",
        ),
        (
            b"\x28\xb5\x2f\xfd",
            "; it is packed with zstd: unpack it first (unzstd)",
        ),
        (
            b"\xfd7zXZ",
            "; it is packed with xz: unpack it first (unxz)",
        ),
        (
            b"SIMPLEPERF",
            "; it is the output of simpleperf report-sample, not a recording",
        ),
        (
            b"\x7fELF",
            "; it is a program or library (ELF), which prof record -g would run and record",
        ),
        (
            b"PERF",
            "; a perf.data file of an unknown version, or damaged in its first bytes",
        ),
    ];
    let start = bytes.get(..bytes.len().min(16)).unwrap_or_default();
    let known = looks.iter().find(|(magic, _)| start.starts_with(magic));
    let is_text = start
        .iter()
        .all(|&byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let hint = match known {
        Some((_, hint)) => hint,
        None if is_text => "; it looks like text",
        None => "",
    };
    Error::NotPerfData {
        start: start.to_vec(),
        hint,
    }
}
