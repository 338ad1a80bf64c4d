//! Bytes of a file, unpacked, and no more of them than are read.

use crate::{GZIP, ImportError, MOST_BYTES};
use flate2::read::MultiGzDecoder;
use std::fmt;
use std::io::{self, Cursor, Read};

/// What a file holds, unpacked as it is read. Of packed bytes no more than
/// [`MOST_BYTES`] are read.
pub(crate) fn unpacked<'i>(input: impl Read + 'i) -> Result<Box<dyn Read + 'i>, ImportError> {
    let mut input: Box<dyn Read + 'i> = Box::new(input);
    // Twice: some servers pack what is packed.
    for _ in 0..2 {
        let mut head = Vec::new();
        input.by_ref().take(2).read_to_end(&mut head)?;
        let is_packed = head == GZIP;
        let whole = Cursor::new(head).chain(input);
        if !is_packed {
            return Ok(Box::new(whole));
        }
        input = Box::new(MultiGzDecoder::new(Limited::new(whole, MOST_BYTES, 0)));
    }
    Ok(input)
}

/// Reads so many bytes; an error if there are more.
pub(crate) struct Limited<R> {
    input: R,
    most: u64,
    left: u64,
}

/// There are more bytes than this.
#[derive(Debug)]
struct Exceeded(u64);

impl fmt::Display for Exceeded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "more than {} bytes", self.0)
    }
}

impl std::error::Error for Exceeded {}

impl<R: Read> Limited<R> {
    /// At most `most` bytes, of which `read` were read before.
    pub(crate) fn new(input: R, most: u64, read: u64) -> Self {
        Self {
            input,
            most,
            left: most.saturating_sub(read),
        }
    }
}

/// How many bytes are read at most, if an error is that there are more.
pub(crate) fn exceeded(error: &io::Error) -> Option<u64> {
    let inner = error.get_ref()?.downcast_ref::<Exceeded>()?;
    Some(inner.0)
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        let left = self.left.checked_sub(length as u64);
        self.left = left.ok_or_else(|| io::Error::other(Exceeded(self.most)))?;
        Ok(length)
    }
}
