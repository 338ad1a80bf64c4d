//! Asking HTTP servers for files and sending them profiles: you give a URL, and
//! get what came back or why nothing did, in a time that is bounded whatever
//! the server does.
//!
//! Whom to believe is told once, by a [`Trust`]; nothing is retried or kept here.
//!
//! ```no_run
//! use prof_http::{Client, Message, Trust};
//! use std::time::Duration;
//!
//! let client = Client::sending(Trust::default(), Duration::from_secs(5));
//! let message = Message {
//!     headers: &[],
//!     content_type: "text/plain",
//!     body: b"hello",
//! };
//! let answer = client.post("http://127.0.0.1:4040/ingest", &message, Duration::from_secs(30))?;
//! assert_eq!(answer.status, 200);
//! # Ok::<(), std::io::Error>(())
//! ```

mod client;
mod early;
mod trust;

pub use client::{Answer, Client, Incoming, Message, is_header, is_url};
pub use trust::{Trust, TrustError, explained};
