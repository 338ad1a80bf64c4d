//! A request that ends in time, whatever the receiver, the network and the
//! resolver of names do.

use super::waiting::Request;
use prof_http::{Answer, Client, Message, Trust};
use std::io::{self, ErrorKind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long a request may take, from connecting to the answer's head.
const ANSWERING: Duration = Duration::from_secs(30);
/// What the last request has at least.
const LEAST: Duration = Duration::from_secs(1);
/// How often is looked whether sending is over meanwhile.
const LOOKING: Duration = Duration::from_millis(100);

/// When sending is over, which is not known at first.
#[derive(Debug, Clone, Default)]
pub(super) struct Until(Arc<Mutex<Option<(Instant, Duration)>>>);

impl Until {
    /// It is over so long from now.
    pub(super) fn set(&self, left: Duration) {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *until = Some((Instant::now(), left));
    }

    pub(super) fn is_set(&self) -> bool {
        self.left().is_some()
    }

    /// Whether nothing is to be tried again.
    pub(super) fn is_over(&self) -> bool {
        self.left_of(Duration::ZERO) == Some(Duration::ZERO)
    }

    /// How long what is being sent has; `None` if the end is not known.
    pub(super) fn left(&self) -> Option<Duration> {
        self.left_of(LEAST)
    }

    fn left_of(&self, least: Duration) -> Option<Duration> {
        let until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, left) = (*until)?;
        Some(left.max(least).saturating_sub(from.elapsed()))
    }
}

/// Sends requests, each from a thread of its own, which is left to itself when
/// the time is over.
#[derive(Debug)]
pub(super) struct Poster {
    client: Arc<Client>,
    headers: Arc<[String]>,
}

impl Poster {
    pub(super) fn new(trust: Trust, headers: Vec<String>) -> Self {
        Self {
            client: Arc::new(Client::sending(trust, CONNECTING)),
            headers: headers.into(),
        }
    }

    /// Sends a request to this address.
    ///
    /// # Errors
    /// If there is no answer in time, or what [`Client::post`] says.
    pub(super) fn post(&self, url: &str, request: Request, until: &Until) -> io::Result<Answer> {
        let url = format!("{url}{}", request.query);
        let (client, headers) = (Arc::clone(&self.client), Arc::clone(&self.headers));
        let (gives, answer) = channel();
        let thread = thread::Builder::new().name("post".into());
        thread.spawn(move || {
            let message = Message {
                headers: &headers,
                content_type: &request.content_type,
                body: &request.body,
            };
            // Nobody may be waiting any more.
            let _ = gives.send(client.post(&url, &message, ANSWERING));
        })?;
        loop {
            let left = until.left().unwrap_or(LOOKING);
            return match answer.recv_timeout(left.min(LOOKING)) {
                Ok(answer) => answer,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    Err(io::Error::new(ErrorKind::TimedOut, "no answer in time"))
                }
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("sending failed")),
            };
        }
    }
}
