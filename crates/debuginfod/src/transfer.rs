//! One file from one server.

use crate::{Settings, SettingsError};
use rustls::pki_types::CertificateDer;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Error};

/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const PORTION: usize = 64 << 10;
/// Bytes after which is told how many there are.
const TELLING: u64 = 1 << 20;

/// Fetches files.
pub(crate) struct Transfer {
    agent: Agent,
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
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
        if settings.servers.iter().any(is_encrypted) {
            tls = tls.root_certs(authorities()?);
        }
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            .user_agent(format!("prof/{}", env!("CARGO_PKG_VERSION")))
            .max_redirects(5)
            .timeout_connect(Some(CONNECTING))
            .timeout_recv_response(Some(settings.silent))
            .build();
        Ok(Self {
            agent: config.new_agent(),
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
        let request = self.agent.get(url).config().timeout_global(Some(left));
        let answer = request.build().call().map_err(in_words)?;
        match answer.status().as_u16() {
            200 => {}
            404 | 410 => return Ok(Transferred::Nowhere),
            status => return Err(io::Error::other(format!("it answers {status}"))),
        }
        let all = answer.body().content_length();
        if all.is_some_and(|all| all > self.size) {
            return Err(self.too_large());
        }
        watch(0, all);
        let mut body = answer
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader();
        let mut buffer = vec![0; PORTION];
        let (mut done, mut told) = (0, 0);
        let mut pace = Pace::new(self.silent);
        loop {
            let read = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(of_body(error)),
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

/// The authorities that this system believes.
fn authorities() -> Result<RootCerts, SettingsError> {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        return Err(SettingsError::NoAuthority);
    }
    let certificates = found
        .iter()
        .map(|it: &CertificateDer<'_>| Certificate::from_der(it).to_owned());
    Ok(RootCerts::Specific(Arc::new(certificates.collect())))
}

/// The error that stands behind one of reading a body.
fn of_body(error: io::Error) -> io::Error {
    match error.downcast::<Error>() {
        Ok(error) => in_words(error),
        Err(error) => error,
    }
}

/// What a user can make of an error.
fn in_words(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::Timeout(_) => io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
        Error::HostNotFound => io::Error::new(io::ErrorKind::NotFound, "its name has no address"),
        error => io::Error::other(error.to_string()),
    }
}
