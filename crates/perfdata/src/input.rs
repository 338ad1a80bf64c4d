//! A window over a stream of bytes that remembers where in the file it is.

use crate::damage::Error;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Bytes read at once. Large enough that a read costs little beside its copy,
/// small enough to stay in the CPU's cache.
const WINDOW: usize = 512 << 10;

/// A part of a file, read front to back by position, so that others may read
/// the same file.
#[derive(Debug)]
pub(crate) struct FilePart {
    file: File,
    at: u64,
    end: u64,
}

impl FilePart {
    pub(crate) fn new(file: File, start: u64, end: u64) -> Self {
        Self {
            file,
            at: start,
            end,
        }
    }
}

impl Read for FilePart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The kernel refuses offsets above this; no file has bytes there.
        let end = self.end.min(i64::MAX as u64);
        let left = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(0);
        }
        let wanted = buffer.len().min(left);
        let buffer = buffer.get_mut(..wanted).unwrap_or_default();
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Reads `part` of `file` as far as it is there.
pub(crate) fn read_part(file: &File, offset: u64, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let part = File::try_clone(file)?;
    FilePart::new(part, offset, offset.saturating_add(size)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes of a stream, a window at a time.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    window: Vec<u8>,
    start: usize,
    end: usize,
    /// Where in the file `start` is.
    offset: u64,
    ended: bool,
    /// Bytes read at once, if a record needs no more.
    least: usize,
}

impl Input {
    /// Reads `source`, whose first byte is at `offset` of the file.
    pub(crate) fn new(source: Box<dyn Read + Send>, offset: u64) -> Self {
        Self::with_window(source, offset, WINDOW as u64)
    }

    /// The same for a source of about `len` bytes, which needs no more room.
    pub(crate) fn with_window(source: Box<dyn Read + Send>, offset: u64, len: u64) -> Self {
        Self {
            source,
            window: Vec::new(),
            start: 0,
            end: 0,
            offset,
            ended: false,
            least: WINDOW.min(usize::try_from(len).unwrap_or(WINDOW)),
        }
    }

    /// Offset in the file of the first byte of [`Input::bytes`].
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// What is in the window.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.window.get(self.start..self.end).unwrap_or_default()
    }

    /// Part of the window that begins at this place of it; see [`Input::place`].
    #[inline]
    pub(crate) fn at_place(&self, place: usize, len: usize) -> &[u8] {
        self.window.get(place..place + len).unwrap_or_default()
    }

    /// Where in the window [`Input::bytes`] begins: stays valid until bytes
    /// are asked for again.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        self.start
    }

    /// Makes `len` bytes available, or as many as there are.
    #[inline]
    pub(crate) fn ensure(&mut self, len: usize) -> Result<&[u8], Error> {
        if self.end - self.start < len && !self.ended {
            self.fill(len)?;
        }
        Ok(self.bytes())
    }

    #[cold]
    fn fill(&mut self, len: usize) -> Result<(), Error> {
        let size = self.least.max(len);
        if self.window.len() < size {
            self.window.resize(size, 0);
        }
        self.window.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < len {
            let free = self.window.get_mut(self.end..).unwrap_or_default();
            match self.source.read(free) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.offset + self.end as u64;
                    return Err(Error::Io { offset, source });
                }
            }
        }
        Ok(())
    }

    /// Steps over `len` bytes of the window.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize) {
        let len = len.min(self.end - self.start);
        self.start += len;
        self.offset += len as u64;
    }

    /// Steps over `len` bytes, read or not; says how many there were.
    pub(crate) fn skip(&mut self, len: u64) -> Result<u64, Error> {
        let mut left = len;
        while left > 0 {
            let there = self.ensure(1)?.len() as u64;
            if there == 0 {
                break;
            }
            let step = there.min(left);
            self.consume(step as usize);
            left -= step;
        }
        Ok(len - left)
    }

    /// Takes up to `len` bytes out; nothing is reserved for more than there is.
    pub(crate) fn take(&mut self, len: u64) -> Result<Vec<u8>, Error> {
        let mut taken = Vec::new();
        while (taken.len() as u64) < len {
            let there = self.ensure(1)?;
            if there.is_empty() {
                break;
            }
            let step = (there.len() as u64).min(len - taken.len() as u64) as usize;
            taken.extend_from_slice(there.get(..step).unwrap_or_default());
            self.consume(step);
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::Input;

    #[test]
    fn a_window_keeps_the_rest_when_it_moves_on() {
        let bytes: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
        let mut input = Input::new(Box::new(std::io::Cursor::new(bytes.clone())), 100);
        let mut at = 0;
        for step in [1, 65_528, 7, 1 << 19, 3, 900_000].into_iter().cycle() {
            let there = step.min(input.ensure(step).expect("memory").len());
            assert_eq!(input.offset(), 100 + at as u64);
            assert_eq!(input.bytes()[..there], bytes[at..at + there]);
            if there == 0 {
                break;
            }
            input.consume(there);
            at += there;
        }
        assert_eq!(at, bytes.len());
    }
}
