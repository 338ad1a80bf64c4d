//! Unpacks the zstd stream that COMPRESSED records are pieces of.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Room for unpacked bytes: at least the largest record and what a step of
/// zstd (128 KiB) gives.
const WINDOW: usize = 512 << 10;
/// The most one compressed record may unpack to, bytes. perf refuses more
/// than the size of a ring.
const MOST_PER_RECORD: u64 = 256 << 20;

/// The unpacked bytes of one stream of compressed records. One context lives
/// through the file, and a record may begin in one piece and end in the next.
pub(crate) struct Inflater {
    decoder: Option<Decoder<'static>>,
    packed: Vec<u8>,
    packed_at: usize,
    /// Set while zstd may hold output that did not fit.
    more: bool,
    produced: u64,
    window: Vec<u8>,
    start: usize,
    end: usize,
    /// Where the compressed record is in the file.
    pub(crate) offset: u64,
}

impl Inflater {
    pub(crate) fn new() -> Self {
        Self {
            decoder: None,
            packed: Vec::new(),
            packed_at: 0,
            more: false,
            produced: 0,
            window: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// Gives it the bytes of the next compressed record.
    pub(crate) fn push(&mut self, packed: &[u8], offset: u64) {
        self.packed.clear();
        self.packed.extend_from_slice(packed);
        self.packed_at = 0;
        self.more = true;
        self.produced = 0;
        self.offset = offset;
    }

    /// Unpacked bytes not yet consumed.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.window.get(self.start..self.end).unwrap_or_default()
    }

    pub(crate) fn at_place(&self, place: usize, len: usize) -> &[u8] {
        self.window.get(place..place + len).unwrap_or_default()
    }

    pub(crate) fn place(&self) -> usize {
        self.start
    }

    pub(crate) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
    }

    /// Drops what is left of the current record and of the stream's state;
    /// says how many packed bytes were not used.
    pub(crate) fn give_up(&mut self) -> u64 {
        let unused = self.packed.len() - self.packed_at;
        self.packed_at = self.packed.len();
        self.more = false;
        self.decoder = None;
        self.start = self.end;
        unused as u64
    }

    /// Makes `len` bytes available if the packed bytes have them.
    ///
    /// # Errors
    /// What zstd says, or that the bound was reached.
    pub(crate) fn ensure(&mut self, len: usize) -> Result<&[u8], String> {
        while self.end - self.start < len && self.more {
            self.step(len)?;
        }
        Ok(self.bytes())
    }

    fn step(&mut self, len: usize) -> Result<(), String> {
        let size = WINDOW.max(len);
        if self.window.len() < size {
            self.window.resize(size, 0);
        }
        self.window.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            empty => empty.insert(Decoder::new().map_err(|error| error.to_string())?),
        };
        let mut input = InBuffer::around(self.packed.get(self.packed_at..).unwrap_or_default());
        let room = self.window.get_mut(self.end..).unwrap_or_default();
        let room_len = room.len();
        let mut output = OutBuffer::around(room);
        decoder
            .run(&mut input, &mut output)
            .map_err(|error| error.to_string())?;
        let (used, made) = (input.pos(), output.pos());
        self.packed_at += used;
        self.end += made;
        self.produced += made as u64;
        // Full output may mean that more waits inside; no progress, that
        // nothing does.
        let drained = self.packed_at == self.packed.len() && made < room_len;
        self.more = !drained && (used > 0 || made > 0);
        if self.produced > MOST_PER_RECORD {
            return Err(format!("it unpacks to more than {MOST_PER_RECORD} bytes"));
        }
        Ok(())
    }
}
