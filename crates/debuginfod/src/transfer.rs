//! One file from one server.

use crate::{Settings, SettingsError};
use prof_http::{Client, Trust};
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const PORTION: usize = 64 << 10;
/// Bytes after which is told how many there are.
const TELLING: u64 = 1 << 20;

/// Fetches files.
pub(crate) struct Transfer {
    client: Client,
    silent: Duration,
    size: u64,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Transferred {
    All,
    /// The server does not have it.
    Nowhere,
}

impl Transfer {
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let is_encrypted = |server: &String| server.starts_with("https://");
        let trust = match settings.servers.iter().any(is_encrypted) {
            true => Trust::of_system().map_err(|_| SettingsError::NoAuthority)?,
            false => Trust::default(),
        };
        Ok(Self {
            client: Client::fetching(trust, CONNECTING, settings.silent),
            silent: settings.silent,
            size: settings.size,
        })
    }

    /// Writes what is at a URL to a file, in the time that is left.
    ///
    /// # Errors
    /// If the server is away, sends something else, too much, or too slowly.
    pub(crate) fn get(
        &self,
        (url, left): (&str, Duration),
        to: &mut File,
        watch: &dyn Fn(u64, Option<u64>),
    ) -> io::Result<Transferred> {
        let mut answer = self.client.get(url, left)?;
        match answer.status {
            200 => {}
            404 | 410 => return Ok(Transferred::Nowhere),
            status => return Err(io::Error::other(format!("it answers {status}"))),
        }
        let all = answer.length;
        if all.is_some_and(|all| all > self.size) {
            return Err(self.too_large());
        }
        watch(0, all);
        let mut buffer = vec![0; PORTION];
        let (mut done, mut told) = (0, 0);
        let mut pace = Pace::new(self.silent);
        loop {
            let read = match answer.body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            to.write_all(buffer.get(..read).unwrap_or_default())?;
            done += read as u64;
            if done > self.size {
                return Err(self.too_large());
            }
            pace.check(done)?;
            if done - told >= TELLING {
                told = done;
                watch(done, all);
            }
        }
        match all {
            Some(all) if all != done => {
                let what = format!("it sent {done} of {all} bytes");
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, what))
            }
            _ => Ok(Transferred::All),
        }
    }

    fn too_large(&self) -> io::Error {
        let most = self.size >> 20;
        let what = format!("a file of more than {most} MB is left out (DEBUGINFOD_MAXSIZE=BYTES)");
        io::Error::new(io::ErrorKind::FileTooLarge, what)
    }
}

/// Whether bytes come at a bearable pace: 100 KB in the time that a server may
/// be silent, as elfutils asks for.
struct Pace {
    silent: Duration,
    since: Instant,
    done: u64,
}

impl Pace {
    const LEAST: u64 = 100 << 10;

    fn new(silent: Duration) -> Self {
        Self {
            silent,
            since: Instant::now(),
            done: 0,
        }
    }

    fn check(&mut self, done: u64) -> io::Result<()> {
        if done - self.done >= Self::LEAST {
            (self.done, self.since) = (done, Instant::now());
        } else if self.since.elapsed() > self.silent {
            let what = "it is too slow (DEBUGINFOD_TIMEOUT=SECONDS)";
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        Ok(())
    }
}
