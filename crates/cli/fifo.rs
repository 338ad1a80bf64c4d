//! Reading a recording from a FIFO whose writer may be late, or never come.

use prof_sys::PollSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// How long a writer may take to come. `prof record -o FIFO & prof report -i
/// FIFO` starts both at once.
const WRITER_COMES_WITHIN: Duration = Duration::from_secs(5);

/// The reading end, which does not block in `open`.
pub(crate) struct Fifo {
    file: File,
    poll: PollSet,
    /// Read to see whether somebody writes.
    first: Option<u8>,
}

impl Fifo {
    /// Opens it and waits until there is something to read.
    ///
    /// # Errors
    /// If it cannot be opened, or nobody has opened it for writing after five
    /// seconds.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        let mut poll = PollSet::default();
        poll.add(file.as_fd());
        let mut fifo = Self {
            file,
            poll,
            first: None,
        };
        let is_ready = fifo.poll.wait(Some(WRITER_COMES_WITHIN))? > 0;
        if !is_ready && !fifo.has_writer()? {
            let why = "it is a FIFO that nobody writes to; start what writes to it first, \
                       as: prof record -o FIFO -- ./app &";
            return Err(io::Error::new(ErrorKind::NotConnected, why));
        }
        Ok(fifo)
    }

    /// Without one, reading finds the end instead of nothing yet.
    fn has_writer(&mut self) -> io::Result<bool> {
        let mut byte = [0];
        match self.file.read(&mut byte) {
            Ok(0) => Ok(false),
            Ok(_) => {
                self.first = byte.first().copied();
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl Read for Fifo {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let (Some(place), Some(first)) = (buffer.first_mut(), self.first) {
            *place = first;
            self.first = None;
            return Ok(1);
        }
        loop {
            match self.file.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.poll.wait(None)?,
                done => return done,
            };
        }
    }
}
