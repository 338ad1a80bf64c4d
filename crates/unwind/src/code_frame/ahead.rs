//! Code is read some bytes ahead: what comes next is wanted next.

use super::ReadCode;

/// Bytes read at once.
const AHEAD: usize = 128;

/// Reads code as `read` does, and some more than is asked for.
pub(crate) fn ahead(mut read: impl ReadCode) -> impl ReadCode {
    let (mut start, mut got, mut bytes) = (0_u64, 0, [0; AHEAD]);
    move |at: u64, out: &mut [u8]| {
        if out.len() > AHEAD {
            return read(at, out);
        }
        let from = |start: u64, got: usize| {
            let from = usize::try_from(at.checked_sub(start)?).ok()?;
            (from + out.len() <= got).then_some(from)
        };
        let from = from(start, got).unwrap_or_else(|| {
            (start, got) = (at, read(at, &mut bytes));
            0
        });
        let there = bytes.get(from..got).unwrap_or_default();
        let len = there.len().min(out.len());
        let (to, from) = (out.get_mut(..len), there.get(..len));
        if let (Some(to), Some(from)) = (to, from) {
            to.copy_from_slice(from);
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::{AHEAD, ahead};
    use std::cell::Cell;

    #[test]
    fn what_comes_next_is_not_read_again() {
        let code: Vec<u8> = (0..=255).chain(0..=100).collect();
        let reads = Cell::new(0);
        let mut read = ahead(|at: u64, out: &mut [u8]| {
            reads.set(reads.get() + 1);
            let rest = code.get(at as usize..).unwrap_or_default();
            let len = rest.len().min(out.len());
            out[..len].copy_from_slice(&rest[..len]);
            len
        });
        let mut same = |at: usize, len: usize| {
            let mut out = vec![0; len];
            let got = read(at as u64, &mut out);
            let rest = code.get(at..).unwrap_or_default();
            assert_eq!(got, rest.len().min(len));
            assert_eq!(out[..got], rest[..got]);
            reads.replace(0)
        };
        assert_eq!(same(10, 15), 1);
        assert_eq!(same(10 + AHEAD - 15, 15), 0);
        assert_eq!(same(9, 15), 1);
        // At the end there is less, behind it nothing; and more than is kept.
        assert_eq!(same(350, 15), 1);
        assert_eq!(same(400, 15), 1);
        assert_eq!(same(0, AHEAD + 1), 1);
    }
}
