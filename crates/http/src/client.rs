//! The client, for both directions.

use crate::Trust;
use crate::early::Early;
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::time::Duration;
use ureq::http::{HeaderName, HeaderValue, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, RustlsConnector, TcpConnector};
use ureq::{Agent, Error};

/// Bytes of an answer's text that are read.
const LONGEST_TEXT: u64 = 4 << 10;
/// Characters of it that are told.
const TOLD: usize = 200;

/// An HTTP client. Each request has a connection of its own.
pub struct Client {
    agent: Agent,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// The headers and body of a request.
#[derive(Debug, Clone, Copy)]
pub struct Message<'m> {
    /// Lines of the head, `NAME: VALUE`; see [`is_header`].
    pub headers: &'m [String],
    /// What the body is.
    pub content_type: &'m str,
    /// The bytes.
    pub body: &'m [u8],
}

/// The server's answer to a [`Message`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The value of `Retry-After`: when to ask again.
    pub retry_after: Option<Duration>,
    /// Where a redirection leads.
    pub location: Option<String>,
    /// The first line of the body, if the status is an error.
    pub text: String,
}

/// A download in progress.
pub struct Incoming {
    /// The status, such as 200.
    pub status: u16,
    /// Bytes of the body, if the server tells.
    pub length: Option<u64>,
    /// The body; read errors are explained in words.
    pub body: Box<dyn Read>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, length, .. } = self;
        write!(f, "Incoming {{ status: {status}, length: {length:?} }}")
    }
}

impl Client {
    /// A client that downloads files. It follows redirections and uses the
    /// proxies of the environment; `connect` and silence before the answer are
    /// limited in time.
    pub fn fetching(trust: Trust, connecting: Duration, silent: Duration) -> Self {
        let config = Agent::config_builder()
            .tls_config(trust.tls())
            .http_status_as_error(false)
            .user_agent(user_agent())
            .max_redirects(5)
            .timeout_connect(Some(connecting))
            .timeout_recv_response(Some(silent))
            .build();
        let agent = config.new_agent();
        Self { agent }
    }

    /// A client that uploads. It talks to the named server only: it follows no
    /// redirection and uses no proxy.
    pub fn sending(trust: Trust, connecting: Duration) -> Self {
        let config = Agent::config_builder()
            .tls_config(trust.tls())
            .http_status_as_error(false)
            .user_agent(user_agent())
            .max_redirects(0)
            .max_idle_connections(0)
            .proxy(None)
            .timeout_connect(Some(connecting))
            .build();
        let connector = TcpConnector::default().chain(Early);
        let connector = connector.chain(RustlsConnector::default());
        let agent = Agent::with_parts(config, connector, DefaultResolver::default());
        Self { agent }
    }

    /// Downloads from a URL; the whole body must arrive within `left`.
    ///
    /// # Errors
    /// If there is no answer in time, or the server is not who it should be.
    pub fn get(&self, url: &str, left: Duration) -> io::Result<Incoming> {
        let request = self.agent.get(url).config().timeout_global(Some(left));
        let answer = request.build().call().map_err(in_words)?;
        let status = answer.status().as_u16();
        let length = answer.body().content_length();
        let body = answer.into_body().into_with_config().limit(u64::MAX);
        Ok(Incoming {
            status,
            length,
            body: Box::new(Body(body.reader())),
        })
    }

    /// Sends a message; the answer must arrive within `left`. An answer counts
    /// even if the server sends it before it has read the whole message.
    ///
    /// # Errors
    /// If there is no answer in time, or the server is not who it should be.
    pub fn post(&self, url: &str, message: &Message<'_>, left: Duration) -> io::Result<Answer> {
        let request = self.agent.post(url).config().timeout_global(Some(left));
        let mut request = request.build().header("Connection", "close");
        for line in message.headers {
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            request = request.header(name, value);
        }
        let request = request.header("Content-Type", message.content_type);
        let answer = request.send(message.body).map_err(in_words)?;
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get("Retry-After");
        let retry_after = retry_after.and_then(|it| it.to_str().ok()?.trim().parse().ok());
        let location = answer.headers().get("Location");
        let location = location.filter(|_| (300..400).contains(&status));
        let location = location.map(|it| String::from_utf8_lossy(it.as_bytes()));
        let location = location.map(|it| it.chars().take(TOLD).collect());
        let mut text = Vec::new();
        if !(200..300).contains(&status) {
            // What came of it is told; the status says enough without.
            let body = answer.into_body().into_reader();
            let _ = body.take(LONGEST_TEXT).read_to_end(&mut text);
        }
        let text = String::from_utf8_lossy(&text);
        let text = text.lines().next().unwrap_or_default();
        Ok(Answer {
            status,
            retry_after: retry_after.map(Duration::from_secs),
            location,
            text: text.chars().take(TOLD).collect(),
        })
    }
}

/// Whether a text is a URL that can be asked.
pub fn is_url(text: &str) -> bool {
    let url: Option<Uri> = text.parse().ok();
    url.is_some_and(|url| url.scheme().is_some() && url.host().is_some())
}

/// Whether a text is a line of a request's head, `NAME: VALUE`.
pub fn is_header(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(name, value)| {
        let name: Result<HeaderName, _> = name.parse();
        let value: Result<HeaderValue, _> = value.parse();
        name.is_ok() && value.is_ok()
    })
}

fn user_agent() -> String {
    format!("prof/{}", env!("CARGO_PKG_VERSION"))
}

/// A body whose errors are in words.
struct Body<R>(R);

impl<R: Read> Read for Body<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0
            .read(buffer)
            .map_err(|error| match error.downcast::<Error>() {
                Ok(error) => in_words(error),
                Err(error) => error,
            })
    }
}

/// What a user can make of an error.
fn in_words(error: Error) -> io::Error {
    match error {
        Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            let what = "it closed the connection without an answer";
            io::Error::new(ErrorKind::UnexpectedEof, what)
        }
        Error::Io(error) => error,
        Error::Timeout(_) => io::Error::new(ErrorKind::TimedOut, "no answer in time"),
        Error::HostNotFound => io::Error::new(ErrorKind::NotFound, "its name has no address"),
        Error::Rustls(error) => io::Error::new(ErrorKind::InvalidData, error),
        error => io::Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, Message, is_header, is_url};
    use crate::Trust;
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    /// A server of one connection, which reads a little, says this and closes.
    fn says(text: &'static str) -> (String, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut some = [0; 16];
            stream.read_exact(&mut some).expect("it sends");
            stream.write_all(text.as_bytes()).expect("it reads");
        });
        (format!("http://{address}/a"), thread)
    }

    /// Sends more than sockets hold.
    fn post(url: &str) -> std::io::Result<super::Answer> {
        let client = Client::sending(Trust::default(), Duration::from_secs(60));
        let message = Message {
            headers: &["X-Scope-OrgID: a".to_owned()],
            content_type: "text/plain",
            body: &vec![0; 64 << 20],
        };
        client.post(url, &message, Duration::from_secs(60))
    }

    #[test]
    fn an_answer_counts_that_comes_before_all_was_sent() {
        let head = "HTTP/1.1 413 Too Large\r\nRetry-After: 7\r\nContent-Length: 13\r\n\r\n";
        let (url, thread) = says(Box::leak(format!("{head}too much\nmore").into()));
        let answer = post(&url).expect("an answer");
        thread.join().expect("it ends");
        assert_eq!((answer.status, answer.text.as_str()), (413, "too much"));
        assert_eq!(answer.retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn a_server_that_closes_or_says_something_else_gives_an_error() {
        let (url, thread) = says("");
        let error = post(&url).expect_err("no answer");
        thread.join().expect("it ends");
        let closed = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
        assert!(closed.contains(&error.kind()), "{error:?}");
        let (url, thread) = says("SSH-2.0\r\n\r\n");
        assert!(post(&url).is_err());
        thread.join().expect("it ends");
    }

    #[test]
    fn no_redirection_is_followed_where_something_is_sent() {
        let (url, thread) = says("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n");
        let answer = post(&url).expect("an answer");
        assert_eq!(answer.status, 302);
        assert_eq!(answer.location.as_deref(), Some("http://127.0.0.1:1/"));
        thread.join().expect("it ends");
    }

    #[test]
    fn what_cannot_be_asked_or_said_is_known() {
        assert!(is_url("http://a/b") && is_url("https://[::1]:8/a?b=c"));
        assert!(!is_url("a/b") && !is_url("http:///b"));
        assert!(is_header("Authorization: Bearer a") && is_header("X-A: "));
        assert!(!is_header("a b: c") && !is_header("a:b") && !is_header("a: \n"));
    }
}
