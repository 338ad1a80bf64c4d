//! Answers that come before the whole request was sent.
//!
//! Who refuses a body may say why and close, long before it has read all of it;
//! the client then cannot write any more, which ureq takes for the end of all.
//! Here the rest is passed over, and what was said is read: without it a body
//! that is refused for good (413) would be sent again and again.

use std::io::ErrorKind;
use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// Makes [`Open`] transports of plain ones.
#[derive(Debug)]
pub(crate) struct Early;

impl<In: Transport> Connector<In> for Early {
    type Out = Open<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(|inner| Open {
            inner,
            unsent: None,
        }))
    }
}

/// A connection that is read after it could not be written.
#[derive(Debug)]
pub(crate) struct Open<T> {
    inner: T,
    /// Why it cannot be written any more.
    unsent: Option<Error>,
}

impl<T: Transport> Transport for Open<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        if self.unsent.is_some() {
            return Ok(());
        }
        match self.inner.transmit_output(amount, timeout) {
            Err(Error::Io(error)) if is_closed(error.kind()) => {
                self.unsent = Some(Error::Io(error));
                Ok(())
            }
            other => other,
        }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let read = self.inner.await_input(timeout);
        match (read, self.unsent.take()) {
            // Nothing was said: the first error is the reason.
            (Ok(false) | Err(_), Some(unsent)) => Err(unsent),
            (read, unsent) => {
                self.unsent = unsent;
                read
            }
        }
    }

    fn is_open(&mut self) -> bool {
        self.unsent.is_none() && self.inner.is_open()
    }
}

fn is_closed(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
    )
}
