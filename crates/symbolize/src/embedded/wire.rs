//! Integers of embedded bytes: LEB128, seven bits a byte, the lowest first.

/// Appends an integer.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a length and bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Memory that what is read may take, bytes.
const MEMORY_MAX: usize = 256 << 20;

/// Bytes that are read from the front.
pub(super) struct Cursor<'a>(pub(super) &'a [u8], usize);

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes, MEMORY_MAX)
    }

    /// Counts memory that something takes; `None` if it is too much.
    pub(super) fn take_memory(&mut self, bytes: usize) -> Option<()> {
        self.1 = self.1.checked_sub(bytes)?;
        Some(())
    }

    /// The next integer.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits.checked_shl(shift)?.checked_shr(shift)? != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next integer, as an index or another small number.
    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// How many things follow, of which each takes a byte at least.
    pub(super) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    /// A length and as many bytes.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A list: its count, and as many things.
    pub(super) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.count()?;
        // Each takes a byte here, and more in memory: grown as they come.
        let mut all = Vec::new();
        for _ in 0..count {
            // What it points to is counted by its bytes, roughly.
            let before = self.0.len();
            all.push(one(self)?);
            self.take_memory(2 * size_of::<T>() + before.saturating_sub(self.0.len()))?;
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, put};

    #[test]
    fn integers_come_back_and_lies_do_not() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(Cursor::new(&out).number(), Some(value));
            out.pop();
            assert_eq!(Cursor::new(&out).number(), None, "cut short");
        }
        assert_eq!(Cursor::new(&[0xff; 10]).number(), None, "more than 64 bits");
        let mut claim = Vec::new();
        put(&mut claim, 1 << 40);
        assert_eq!(Cursor::new(&claim).count(), None, "more than there is");
    }
}
