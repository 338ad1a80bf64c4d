//! Buffers that are kept for reuse.
//!
//! Fresh memory costs as much as to fill it, so buffers go back and forth. What
//! a busy moment needed is given up again when it is over: else a long recording
//! has, at its end, the memory of its worst moment in each of them.

/// Buffers that come back in a period. What none of it took, or filled, is given
/// up at its end.
const PERIOD: u32 = 256;

/// Buffers, no more and no larger than were of use lately.
#[derive(Debug)]
pub struct Spares {
    /// The one that came back last is the last.
    buffers: Vec<Vec<u8>>,
    /// Bytes of these.
    bytes: usize,
    most: usize,
    most_bytes: usize,
    /// Buffers that came back in this period.
    came: u32,
    /// The fewest that lay here in this period.
    unused: usize,
    /// The most bytes that were in one, in this period and in the one before.
    largest: [usize; 2],
}

impl Spares {
    /// Keeps so many buffers at most, of so many bytes together.
    pub fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            buffers: Vec::new(),
            bytes: 0,
            most,
            most_bytes,
            came: 0,
            unused: 0,
            largest: [0; 2],
        }
    }

    /// An empty buffer, a used one if there is one.
    pub fn take(&mut self) -> Vec<u8> {
        let mut buffer = self.take_filled();
        buffer.clear();
        buffer
    }

    /// The same with what was in it, which is to be written over.
    pub fn take_filled(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        self.unused = self.unused.min(self.buffers.len());
        buffer
    }

    /// Bytes of the buffers that lie here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a buffer back, with what was in it.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        let [lately, before] = &mut self.largest;
        *lately = buffer.len().max(*lately);
        let needed = (*lately).max(*before);
        if buffer.capacity() / 4 > needed {
            buffer.shrink_to(2 * needed);
        }
        let bytes = self.bytes + buffer.capacity();
        if self.buffers.len() < self.most && bytes <= self.most_bytes {
            self.bytes = bytes;
            self.buffers.push(buffer);
        }
        self.came += 1;
        if self.came == PERIOD {
            self.end_period();
        }
    }

    /// Frees all that lie here. What is of use comes back with the next ones: done
    /// every few seconds, none is larger than was of use in those.
    pub fn give_up(&mut self) {
        let (most, most_bytes) = (self.most, self.most_bytes);
        *self = Self::new(most, most_bytes);
    }

    fn end_period(&mut self) {
        for buffer in self.buffers.drain(..self.unused) {
            self.bytes -= buffer.capacity();
        }
        self.came = 0;
        self.unused = self.buffers.len();
        self.largest = [0, self.largest[0]];
    }
}

#[cfg(test)]
mod tests {
    use super::{PERIOD, Spares};

    /// Takes so many buffers, fills each and gives all back.
    fn round(spares: &mut Spares, count: usize, bytes: usize) {
        let taken: Vec<_> = (0..count).map(|_| spares.take()).collect();
        for mut buffer in taken {
            assert!(buffer.is_empty());
            buffer.resize(bytes, 1);
            spares.give_back(buffer);
        }
    }

    fn held(spares: &Spares) -> (usize, usize) {
        let bytes = spares.buffers.iter().map(Vec::capacity).sum();
        assert_eq!(spares.bytes, bytes);
        (spares.buffers.len(), bytes)
    }

    #[test]
    fn what_a_busy_moment_needed_is_given_up() {
        let mut spares = Spares::new(8, 1 << 20);
        round(&mut spares, 6, 100_000);
        assert_eq!(held(&spares), (6, 600_000));
        // Not at once: more such moments may come.
        for _ in 0..PERIOD / 2 {
            round(&mut spares, 1, 1000);
        }
        assert_eq!(held(&spares), (6, 600_000));
        for _ in 0..3 * PERIOD {
            round(&mut spares, 1, 1000);
        }
        let (buffers, bytes) = held(&spares);
        assert!(buffers == 1 && bytes <= 4000, "{buffers} of {bytes}");
    }

    #[test]
    fn what_is_used_all_the_time_stays() {
        let mut spares = Spares::new(8, 1 << 20);
        round(&mut spares, 3, 50_000);
        let whole = held(&spares);
        for number in 0..4 * PERIOD {
            // One large one among many small ones.
            let bytes = if number % 50 == 0 { 50_000 } else { 10 };
            round(&mut spares, 3, bytes);
        }
        assert_eq!(held(&spares), whole);
    }

    #[test]
    fn what_is_given_up_is_freed_and_comes_back() {
        let mut spares = Spares::new(8, 1 << 20);
        round(&mut spares, 3, 50_000);
        let taken = spares.take();
        spares.give_up();
        assert_eq!(held(&spares), (0, 0));
        spares.give_back(taken);
        round(&mut spares, 1, 100);
        assert_eq!(held(&spares).0, 1);
    }

    #[test]
    fn no_more_than_the_most_is_kept() {
        let mut spares = Spares::new(4, 1000);
        round(&mut spares, 9, 100);
        assert_eq!(held(&spares).0, 4);
        round(&mut spares, 4, 300);
        assert!(held(&spares).1 <= 1000);
    }
}
