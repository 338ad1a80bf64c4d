//! Whether the kernel saw the frames that a walk found.
//!
//! With a sample the kernel follows frame pointers as it takes it. Where the frames
//! beyond the copy are those that it found, they were there at the sample's time,
//! whatever their slots held before and since.
//!
//! A function that leaves the frame pointer as it is, as those that switch stacks do, is
//! not among them: of its frame the call in its caller tells which function it is.

/// Whether the kernel's return addresses are all among those of a whole stack, in the
/// same order, and with them all that were not copied; both innermost first. `walked`
/// says of each whether it lies beyond the copy. Of those one at a time may be missing
/// of the kernel's, between two that are not.
pub(super) fn is_told(
    walked: impl DoubleEndedIterator<Item = (u64, bool)>,
    kernel: impl DoubleEndedIterator<Item = u64>,
) -> bool {
    let mut kernel = kernel.rev();
    let (mut next, mut was_told, mut is_missing) = (kernel.next(), false, false);
    if next.is_none() {
        return false;
    }
    for (pc, is_beyond) in walked.rev() {
        let is_told = next == Some(pc);
        if is_told {
            next = kernel.next();
        }
        let may_be = is_told || !is_missing && (!is_beyond || was_told);
        if !may_be {
            return false;
        }
        (was_told, is_missing) = (is_told, !is_told && is_beyond);
    }
    !is_missing && next.is_none()
}

#[cfg(test)]
mod tests {
    use super::is_told;

    /// Those from 3 to 19 were not copied.
    fn told(walked: &[u64], kernel: &[u64]) -> bool {
        let walked = walked.iter().map(|&pc| (pc, pc > 2 && pc < 20));
        is_told(walked, kernel.iter().copied())
    }

    #[test]
    fn all_that_lies_beyond_the_copy_must_have_been_seen() {
        let kernel = [1, 2, 3, 5, 6, 7];
        assert!(told(&[1, 2, 3, 5, 6, 7], &kernel));
        assert!(
            told(&[1, 2, 3, 4, 5, 6, 7], &kernel),
            "4 keeps no frame pointer"
        );
        assert!(
            !told(&[1, 2, 3, 4, 4, 5, 6, 7], &kernel),
            "what called the inner one?"
        );
        assert!(!told(&[1, 2, 3, 5, 6], &kernel) && !told(&[1, 2, 5, 6, 7], &kernel));
        assert!(
            !told(&[1, 2, 3, 5, 6, 7, 8], &kernel),
            "a start that it did not see"
        );
        assert!(!told(&[1, 2, 3, 6, 5, 7], &kernel));
        assert!(!told(&[], &kernel) && !told(&[3], &[]) && !told(&[1], &[]));
    }

    #[test]
    fn what_was_copied_need_not_be_told() {
        assert!(told(&[1, 2, 3, 5, 20, 21, 22], &[1, 3, 5, 21]));
        assert!(told(&[1, 2, 3, 5, 20], &[1, 2, 3, 5]));
        assert!(!told(&[1, 2, 3, 20], &[1, 2]), "is 20 what called 3?");
        assert!(
            !told(&[1, 2, 3, 5, 20, 21], &[1, 5, 22]),
            "nor may others be"
        );
    }
}
