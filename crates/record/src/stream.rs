//! Where a stream goes: standard output, a FIFO, a socket or a device, none of
//! which may hold us up for ever.

use prof_sys::wait_writable;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long to wait before looking again for a reader, or for a wish to give
/// up.
const TICK: Duration = Duration::from_millis(50);
/// What a pipe that is writable takes without blocking, bytes (`PIPE_BUF`).
const SURE_TO_FIT: usize = 4096;

/// What is asked while a FIFO has no reader: whether to go on waiting, after
/// at most so long.
pub(crate) type KeepWaiting<'a> = &'a mut dyn FnMut(Duration) -> bool;

/// Told when nobody wants to wait any more for a reader that takes nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct GiveUp(Arc<AtomicBool>);

impl GiveUp {
    /// Lets a write that waits for the reader fail.
    pub(crate) fn now(&self) {
        // ORDERING: Relaxed; nothing is published by it, and soon is enough.
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_wished(&self) -> bool {
        // ORDERING: Relaxed, as in `now`.
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream that is written to.
#[derive(Debug)]
pub(crate) struct Stream {
    file: File,
    give_up: GiveUp,
    /// Its reader may be slow: pipes and sockets.
    has_reader: bool,
}

/// The other side of a stream, to be watched.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Hung up when nobody reads any more.
    pub(crate) descriptor: OwnedFd,
    /// For when it takes nothing.
    pub(crate) give_up: GiveUp,
}

impl Stream {
    /// Standard output, without std's line buffering.
    pub(crate) fn stdout() -> io::Result<Self> {
        Self::new(File::from(io::stdout().as_fd().try_clone_to_owned()?))
    }

    /// Opens a FIFO, socket or device. `None` if nobody opened the FIFO for
    /// reading and `keep_waiting` had enough.
    pub(crate) fn open(
        path: &Path,
        kind: FileType,
        keep_waiting: KeepWaiting<'_>,
    ) -> io::Result<Option<Self>> {
        if kind.is_socket() {
            let socket = UnixStream::connect(path)?;
            return Self::new(File::from(OwnedFd::from(socket))).map(Some);
        }
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_NOCTTY);
        if !kind.is_fifo() {
            return Self::new(options.open(path)?).map(Some);
        }
        // Blocking, it would wait for a reader, deaf to every signal.
        options.custom_flags(libc::O_NONBLOCK);
        loop {
            match options.open(path) {
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                    if !keep_waiting(TICK) {
                        return Ok(None);
                    }
                }
                opened => return Self::new(opened?).map(Some),
            }
        }
    }

    fn new(file: File) -> io::Result<Self> {
        let kind = file.metadata()?.file_type();
        Ok(Self {
            file,
            give_up: GiveUp::default(),
            has_reader: kind.is_fifo() || kind.is_socket(),
        })
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.file.is_terminal()
    }

    pub(crate) fn reader(&self) -> io::Result<Reader> {
        Ok(Reader {
            descriptor: self.file.as_fd().try_clone_to_owned()?,
            give_up: self.give_up.clone(),
        })
    }
}

impl Write for Stream {
    /// Never blocks for longer than a reader is waited for.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.has_reader {
            return self.file.write(bytes);
        }
        let some = bytes.get(..SURE_TO_FIT).unwrap_or(bytes);
        loop {
            if wait_writable(self.file.as_fd(), TICK)? {
                match self.file.write(some) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    written => return written,
                }
            }
            if self.give_up.is_wished() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;
    use std::io::{ErrorKind, Write};
    use std::os::fd::{AsFd, OwnedFd};

    /// A pipe's writing end as a stream, and its reading end.
    fn pipe() -> (Stream, std::io::PipeReader) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let file = std::fs::File::from(OwnedFd::from(writer));
        (Stream::new(file).expect("a pipe"), reader)
    }

    #[test]
    fn a_reader_that_takes_nothing_is_given_up() {
        let (mut stream, _reader) = pipe();
        stream.give_up.now();
        // More than any pipe holds.
        let error = stream.write_all(&vec![0; 4 << 20]).expect_err("stuck");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_reader_that_is_gone_is_told_and_seen() {
        let (mut stream, reader) = pipe();
        stream.write_all(b"some").expect("room");
        let watched = stream.reader().expect("a descriptor");
        let mut set = prof_sys::PollSet::default();
        let place = set.add_end(watched.descriptor.as_fd());
        set.wait(Some(std::time::Duration::ZERO)).expect("poll");
        assert!(!set.is_hung_up(place));
        drop(reader);
        set.wait(None).expect("poll");
        assert!(set.is_hung_up(place));
        let error = stream.write_all(b"more").expect_err("nobody");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_fifo_without_a_reader_is_waited_for_as_long_as_asked() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo starts").success());
        let kind = std::fs::metadata(&path).expect("there").file_type();
        let mut asked = 0;
        let opened = Stream::open(&path, kind, &mut |_| {
            asked += 1;
            asked < 3
        });
        assert!(opened.expect("waited").is_none());
        assert_eq!(asked, 3);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || std::fs::read(path)
        });
        let opened = Stream::open(&path, kind, &mut |tick| {
            std::thread::sleep(tick);
            true
        });
        let mut stream = opened.expect("opened").expect("a reader");
        stream.write_all(b"whole").expect("written");
        drop(stream);
        assert_eq!(reader.join().expect("read").expect("read"), b"whole");
    }
}
