//! Sending a body by HTTP/1.1, bounded in time whatever the receiver does.

use super::tls::Trust;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long connecting to one address may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long the rest may take, from the first byte sent to the answer's head.
const ANSWERING: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read.
const LONGEST_ANSWER: usize = 64 << 10;
/// Bytes that are handed to the kernel at once.
const PORTION: usize = 64 << 10;

/// Where to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// Whether it begins with `https`.
    pub(crate) is_encrypted: bool,
    /// Host and port, as the Host header has them.
    pub(crate) authority: String,
    host: String,
    port: u16,
    /// With the leading slash.
    pub(crate) path: String,
}

impl Url {
    /// From text.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const WRONG: &str = "not http://HOST/PATH or https://HOST/PATH";
        let (rest, is_encrypted) = match text.strip_prefix("https://") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("http://").ok_or(WRONG)?, false),
        };
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let is_plain = |it: char| it.is_ascii_graphic() && !"@\"'<>\\".contains(it);
        if authority.is_empty() || !text.chars().all(is_plain) {
            return Err(WRONG.into());
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| "its port is no number")?)
            }
            _ => (authority, if is_encrypted { 443 } else { 80 }),
        };
        Ok(Self {
            is_encrypted,
            authority: authority.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    /// As it is written, without the query.
    pub(crate) fn shown(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// What stands behind the path, with its question mark; or nothing.
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// How long the receiver wants to be left alone.
    pub(crate) retry_after: Option<Duration>,
    /// The first line of its text.
    pub(crate) text: String,
}

/// Sends a request; `headers` are lines of their own.
///
/// # Errors
/// If there is no answer in time, or the receiver is not who it should be.
pub(crate) fn post(
    url: &Url,
    trust: &Trust,
    headers: &[String],
    request: &Request,
) -> io::Result<Answer> {
    let mut stream = Bounded {
        stream: connect(url)?,
        until: Instant::now() + ANSWERING,
    };
    let head = head(url, headers, request);
    match url.is_encrypted {
        true => exchange(&mut trust.encrypted(&url.host, stream)?, &head, request),
        false => exchange(&mut stream, &head, request),
    }
}

fn head(url: &Url, headers: &[String], request: &Request) -> String {
    let mut head = format!(
        "POST {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: prof/{}\r\nConnection: close\r\n",
        url.path,
        request.query,
        url.authority,
        env!("CARGO_PKG_VERSION")
    );
    for header in headers {
        head += &format!("{header}\r\n");
    }
    head += &format!(
        "Content-Type: {}\r\nContent-Length: {}\r\n\r\n",
        request.content_type,
        request.body.len()
    );
    head
}

fn exchange(stream: &mut (impl Read + Write), head: &str, request: &Request) -> io::Result<Answer> {
    let sent = send(stream, head.as_bytes(), &request.body);
    // Who refuses may say why before it has read everything.
    match (receive(stream), sent) {
        (Ok(answer), _) => Ok(answer),
        (Err(_), Err(error)) | (Err(error), Ok(())) => Err(error),
    }
}

fn connect(url: &Url) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (url.host.as_str(), url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECTING) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A connection that ends at a time, however little comes at once.
#[derive(Debug)]
pub(super) struct Bounded {
    stream: TcpStream,
    until: Instant,
}

impl Bounded {
    /// What is left until then.
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(late()),
            false => Ok(left),
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer).map_err(in_words)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes).map_err(in_words)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "no answer in time")
}

/// A timeout of a socket, which is no word for anyone.
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock => late(),
        _ => error,
    }
}

fn send(stream: &mut impl Write, head: &[u8], body: &[u8]) -> io::Result<()> {
    for portion in std::iter::once(head).chain(body.chunks(PORTION)) {
        stream.write_all(portion)?;
    }
    stream.flush()
}

fn receive(stream: &mut impl Read) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(answer) = answer(&bytes) {
            return Ok(answer);
        }
        match stream.read(&mut buffer) {
            Ok(0) => {
                let what = "the receiver closed the connection without an answer";
                return Err(io::Error::new(ErrorKind::UnexpectedEof, what));
            }
            Ok(read) => bytes.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if bytes.len() > LONGEST_ANSWER {
            let what = "the receiver's answer is no HTTP";
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
    }
}

/// The answer, if its head is whole.
fn answer(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let (head, text) = bytes.split_at_checked(end + 4)?;
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let retry_after = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let seconds = name.eq_ignore_ascii_case("retry-after").then_some(value)?;
        Some(Duration::from_secs(seconds.trim().parse().ok()?))
    });
    let text = String::from_utf8_lossy(text);
    let text = text.lines().next().unwrap_or_default();
    Some(Answer {
        status,
        retry_after,
        text: text.chars().take(200).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Url, answer};
    use std::time::Duration;

    #[test]
    fn addresses_are_taken_apart_and_others_refused() {
        let url = Url::parse("http://store:4040/ingest").expect("an address");
        assert_eq!((url.host.as_str(), url.port), ("store", 4040));
        assert_eq!(url.path, "/ingest");
        let url = Url::parse("http://[::1]:8/a").expect("an address");
        assert_eq!((url.host.as_str(), url.port), ("::1", 8));
        assert_eq!(Url::parse("http://a/b").expect("an address").port, 80);
        let url = Url::parse("https://a/b").expect("an address");
        assert_eq!((url.port, url.shown().as_str()), (443, "https://a/b"));
        for wrong in [
            "ftp://a/b",
            "a/b",
            "http:///x",
            "http://a:x/",
            "http://a/\r\nX: y",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_tells_its_status_and_when_to_come_again() {
        let whole = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n\r\ntoo much\nmore";
        let told = answer(whole).expect("an answer");
        assert_eq!((told.status, told.text.as_str()), (503, "too much"));
        assert_eq!(told.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(answer(&whole[..20]), None);
        assert_eq!(answer(b"SSH-2.0\r\n\r\n"), None);
    }
}
