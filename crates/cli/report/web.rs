//! `prof report --web` and `--firefox`: a file for a browser, from a server on
//! loopback that knows one path, which nobody can guess.
//!
//! Other users of the machine can connect, and pages of strangers can make a
//! browser connect: without the path they get nothing, and a name of another
//! host that leads here (DNS rebinding) is refused by the Host header.

use crate::outcome::say;
use crate::percent::encoded;
use anyhow::Context;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a request's head at most.
const LONGEST_HEAD: usize = 16 << 10;
/// How long a browser may take for a request, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that are answered at a time.
const MOST_AT_A_TIME: usize = 16;

/// What is served.
pub(super) struct Served {
    pub(super) content: Vec<u8>,
    /// Its type for the browser.
    pub(super) kind: &'static str,
    /// What the last part of its path is.
    pub(super) name: &'static str,
    /// The site that opens it from elsewhere, if it is not opened itself: its
    /// origin, and what its address begins with, which the file's follows.
    pub(super) site: Option<(&'static str, &'static str)>,
}

/// The file and where it is served.
struct ServedAt {
    served: Served,
    /// `127.0.0.1:port` and `localhost:port`.
    hosts: [String; 2],
    path: String,
}

/// Serves until the process is ended, and opens the browser.
///
/// # Errors
/// If no port can be had.
pub(super) fn serve(served: Served) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
    let port = listener.local_addr()?.port();
    let place = Arc::new(ServedAt {
        hosts: ["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}")),
        path: format!("/{}/{}", secret()?, served.name),
        served,
    });
    let here = format!("http://{}{}", place.hosts[0], place.path);
    let url = match place.served.site {
        Some((_, begins)) => format!("{begins}{}", encoded(&here)),
        None => here,
    };
    say(&format!("serving {url}\n  until Ctrl-C"));
    open(&url);
    let busy = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // No descriptor is left: what is open ends soon.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        if busy.load(Ordering::Relaxed) >= MOST_AT_A_TIME {
            continue;
        }
        busy.fetch_add(1, Ordering::Relaxed);
        let (place, done) = (Arc::clone(&place), Arc::clone(&busy));
        let answering = move || {
            // Who went away needs no answer.
            let _ = answer(&place, stream);
            done.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().spawn(answering).is_err() {
            busy.fetch_sub(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// 128 bits that nobody can guess, as hexadecimal digits.
fn secret() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens the browser that `BROWSER` names, else the desktop's, if there is a
/// desktop.
fn open(url: &str) {
    let named = std::env::var_os("BROWSER").filter(|name| !name.is_empty());
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let browser = match named {
        Some(named) => named,
        None if has_desktop => "xdg-open".into(),
        None => return,
    };
    let started = Command::new(&browser)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut child) => {
            let _ = thread::Builder::new().spawn(move || child.wait());
        }
        Err(error) => say(&format!(
            "cannot start {}: {error}; open the address yourself",
            browser.display()
        )),
    }
}

/// What a request asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request<'h> {
    method: &'h str,
    path: &'h str,
    host: Option<&'h str>,
    origin: Option<&'h str>,
}

impl<'h> Request<'h> {
    /// From a head; `None` if it is none.
    fn parse(head: &'h str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let mut request = Self {
            method: first.next()?,
            path: first.next()?,
            ..Self::default()
        };
        if !first.next()?.starts_with("HTTP/1.") {
            return None;
        }
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let slot = match name.to_ascii_lowercase().as_str() {
                "host" => &mut request.host,
                "origin" => &mut request.origin,
                _ => continue,
            };
            // Of two hosts neither is believed.
            if slot.replace(value.trim()).is_some() {
                return None;
            }
        }
        Some(request)
    }
}

/// Reads a request and answers it.
fn answer(place: &ServedAt, mut stream: TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    let head = String::from_utf8_lossy(&head);
    let request = Request::parse(&head);
    let (status, has_body) = match &request {
        Some(request) => place.status(request),
        None => ("400 Bad Request", false),
    };
    let mut out = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    out += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
    out += "Referrer-Policy: no-referrer\r\n";
    if let (Some((origin, _)), true) = (place.served.site, status.starts_with('2')) {
        out += &format!("Access-Control-Allow-Origin: {origin}\r\nVary: Origin\r\n");
        out += "Access-Control-Allow-Methods: GET\r\nAccess-Control-Allow-Headers: *\r\n";
        out += "Access-Control-Allow-Private-Network: true\r\n";
    }
    let content: &[u8] = if has_body { &place.served.content } else { b"" };
    if has_body {
        out += &format!("Content-Type: {}\r\n", place.served.kind);
    }
    out += &format!("Content-Length: {}\r\n\r\n", content.len());
    stream.write_all(out.as_bytes())?;
    if request.is_some_and(|request| request.method != "HEAD") {
        stream.write_all(content)?;
    }
    stream.flush()?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // What was not read would take the answer back when it is closed.
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let _ = io::copy(&mut stream.take(1 << 20), &mut io::sink());
    Ok(())
}

/// The head of a request, with the empty line.
fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > LONGEST_HEAD {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
    }
    Ok(head)
}

impl ServedAt {
    /// How a request is answered, and whether with the file.
    fn status(&self, request: &Request<'_>) -> (&'static str, bool) {
        let is_here = request
            .host
            .is_some_and(|host| self.hosts.iter().any(|own| own == host));
        let may_ask = match (request.origin, self.served.site) {
            (None, _) => true,
            (Some(origin), Some((site, _))) => origin == site,
            (Some(origin), None) => self.hosts.iter().any(|own| {
                origin
                    .strip_prefix("http://")
                    .is_some_and(|origin| origin == own)
            }),
        };
        if !is_here || !may_ask {
            return ("403 Forbidden", false);
        }
        if request.path != self.path {
            return ("404 Not Found", false);
        }
        match request.method {
            "GET" | "HEAD" => ("200 OK", true),
            "OPTIONS" if self.served.site.is_some() => ("204 No Content", false),
            _ => ("405 Method Not Allowed", false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, Served, ServedAt, encoded};

    #[test]
    fn only_who_knows_the_path_and_asks_this_host_is_answered() {
        let place = ServedAt {
            served: Served {
                content: Vec::new(),
                kind: "text/html",
                name: "a",
                site: None,
            },
            hosts: ["127.0.0.1:8", "localhost:8"].map(str::to_owned),
            path: "/secret/a".into(),
        };
        let status = |head: &str| {
            let request = Request::parse(head);
            request.map(|request| place.status(&request).0.get(..3).map(str::to_owned))
        };
        let of = |number: &str| Some(Some(number.to_owned()));
        assert_eq!(
            status("GET /secret/a HTTP/1.1\r\nHost: localhost:8\r\n\r\n"),
            of("200")
        );
        assert_eq!(
            status("GET /secret/a HTTP/1.1\r\nhost:127.0.0.1:8\r\n\r\n"),
            of("200")
        );
        assert_eq!(
            status("GET /secret/a HTTP/1.1\r\nHost: evil.example:8\r\n\r\n"),
            of("403")
        );
        assert_eq!(status("GET /secret/a HTTP/1.1\r\n\r\n"), of("403"));
        assert_eq!(
            status("GET / HTTP/1.1\r\nHost: localhost:8\r\n\r\n"),
            of("404")
        );
        assert_eq!(
            status("POST /secret/a HTTP/1.1\r\nHost: localhost:8\r\n\r\n"),
            of("405")
        );
        let other =
            "GET /secret/a HTTP/1.1\r\nHost: localhost:8\r\nOrigin: https://evil.example\r\n\r\n";
        assert_eq!(status(other), of("403"));
        let two = "GET /secret/a HTTP/1.1\r\nHost: localhost:8\r\nHost: evil\r\n\r\n";
        assert_eq!(status(two), None);
        assert_eq!(encoded("http://a:1/b"), "http%3A%2F%2Fa%3A1%2Fb");
    }
}
