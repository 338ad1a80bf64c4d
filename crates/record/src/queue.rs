//! Between the draining and the writing thread: pieces of records, and their
//! buffers on the way back.
//!
//! Waiting is sleeping. Channels look again and again for a while before they
//! sleep, some hundred times a second in vain.

use crate::traces::TracePiece;
use prof_live::Spares;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Buffers kept for reuse, and the most bytes of these.
const SPARE_BUFFERS: usize = 3;
const SPARE_BYTES: usize = 12 << 20;

/// What goes through the queue.
#[derive(Debug)]
enum Sent {
    Piece(Piece),
    Trace(TracePiece),
    EndOfNewest,
}

/// What one drain of all rings gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) records: Vec<u8>,
    /// When the drain began, ns on the clock of the records: what the rings got
    /// before is here or was sent before. 0 if that is not known.
    pub(crate) began: u64,
}

#[derive(Debug)]
struct State {
    pieces: VecDeque<Sent>,
    spare: Spares,
    is_closed: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            pieces: VecDeque::new(),
            spare: Spares::new(SPARE_BUFFERS, SPARE_BYTES),
            is_closed: false,
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reuse(&self, buffer: Vec<u8>) {
        self.state().spare.give_back(buffer);
    }
}

/// A queue's two ends.
pub(crate) fn queue() -> (Sender, Receiver) {
    let inner = Arc::new(Inner::default());
    (Sender(inner.clone()), Receiver(inner))
}

/// Where pieces go in. Dropped, it ends the queue.
#[derive(Debug)]
pub(crate) struct Sender(Arc<Inner>);

impl Sender {
    /// Adds a piece.
    pub(crate) fn send(&self, piece: Piece) {
        self.add(Sent::Piece(piece));
    }

    /// Adds a piece of a trace.
    pub(crate) fn send_trace(&self, piece: TracePiece) {
        self.add(Sent::Trace(piece));
    }

    /// What overwritten rings held when they were asked for has been sent.
    pub(crate) fn end_newest(&self) {
        self.add(Sent::EndOfNewest);
    }

    fn add(&self, sent: Sent) {
        self.0.state().pieces.push_back(sent);
        self.0.changed.notify_one();
    }

    /// Takes a buffer back that was not needed.
    pub(crate) fn reuse(&self, buffer: Vec<u8>) {
        self.0.reuse(buffer);
    }

    /// An empty buffer, a used one if there is one.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        self.0.state().spare.take()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_one();
    }
}

/// Where pieces come out.
#[derive(Debug)]
pub(crate) struct Receiver(Arc<Inner>);

/// What came within a time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Piece(Piece),
    Trace(TracePiece),
    /// Overwritten rings were read: what they held came before.
    EndOfNewest,
    /// Nothing.
    Nothing,
    /// Nothing, and nothing will.
    Ended,
}

impl Receiver {
    /// Waits for the next piece.
    pub(crate) fn next(&self, timeout: Duration) -> Next {
        let waits = |state: &mut State| state.pieces.is_empty() && !state.is_closed;
        let waited = self
            .0
            .changed
            .wait_timeout_while(self.0.state(), timeout, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.pieces.pop_front() {
            Some(Sent::Piece(piece)) => Next::Piece(piece),
            Some(Sent::Trace(piece)) => Next::Trace(piece),
            Some(Sent::EndOfNewest) => Next::EndOfNewest,
            None if state.is_closed => Next::Ended,
            None => Next::Nothing,
        }
    }

    /// Takes a piece's buffer back.
    pub(crate) fn give_back(&self, buffer: Vec<u8>) {
        self.0.reuse(buffer);
    }

    /// Frees the buffers that wait for use.
    pub(crate) fn give_up_spares(&self) {
        self.0.state().spare.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::{Next, Piece, queue};
    use std::time::Duration;

    #[test]
    fn pieces_come_in_order_until_the_sender_is_gone() {
        let (sender, receiver) = queue();
        let piece = |byte| Piece {
            records: vec![byte],
            began: 0,
        };
        assert_eq!(receiver.next(Duration::ZERO), Next::Nothing);
        let sending = std::thread::spawn(move || {
            sender.send(piece(1));
            sender.end_newest();
            sender.send(piece(2));
        });
        let long = Duration::from_secs(60);
        assert_eq!(receiver.next(long), Next::Piece(piece(1)));
        assert_eq!(receiver.next(long), Next::EndOfNewest);
        assert_eq!(receiver.next(long), Next::Piece(piece(2)));
        assert_eq!(receiver.next(long), Next::Ended);
        sending.join().expect("no panic");
    }

    #[test]
    fn buffers_come_back_empty() {
        let (sender, receiver) = queue();
        assert_eq!(sender.buffer().capacity(), 0);
        receiver.give_back(vec![7; 100]);
        let buffer = sender.buffer();
        assert!(buffer.is_empty() && buffer.capacity() >= 100);
        (0..100).for_each(|_| receiver.give_back(vec![7]));
        let reused = (0..100).filter(|_| sender.buffer().capacity() > 0);
        assert_eq!(reused.count(), super::SPARE_BUFFERS);
        receiver.give_back(vec![7]);
        receiver.give_up_spares();
        assert_eq!(sender.buffer().capacity(), 0);
    }
}
