//! Of frames that a thread left and came back to, how many need no more proof.

/// Frames that needed none when the thread left them, from the outermost on.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Returned {
    /// Frames up to this position, left ones too, needed no proof.
    settled: usize,
    /// Of those, which were found again word by word as they were, and in which
    /// drain; `None` while they are left.
    back: Option<(usize, usize, u64)>,
}

impl Returned {
    /// Of `known` frames, the first `steady` of which need no proof, those behind the
    /// first `len` are left.
    pub(super) fn leave(&mut self, known: usize, len: usize, steady: usize) {
        let steady = self.pass(steady, u64::MAX);
        self.settled = match steady == known {
            true => self.settled.max(steady),
            false => steady,
        };
        let back = self.back.filter(|&(from, ..)| from < len);
        self.back = back.map(|(from, until, now)| (from, until.min(len), now));
    }

    /// The frames from this position to that are known again in drain `now`.
    pub(super) fn come_back(&mut self, from: usize, until: usize, now: u64) {
        self.back = Some((from, until, now));
    }

    /// Only so many frames are as they were.
    pub(super) fn shorten(&mut self, count: usize) {
        self.settled = self.settled.min(count);
    }

    /// How many frames, left ones too, needed no proof.
    pub(super) fn settled(&self) -> usize {
        self.settled
    }

    /// How many frames need no proof in drain `now` if just the first `steady` do not
    /// as far as is known.
    pub(super) fn pass(&self, steady: usize, now: u64) -> usize {
        match self.back {
            Some((from, until, back)) if from == steady && back < now => {
                until.min(self.settled).max(steady)
            }
            _ => steady,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Returned;

    #[test]
    fn what_needed_no_proof_needs_none_when_it_is_back() {
        let mut returned = Returned::default();
        returned.leave(500, 300, 500);
        assert_eq!(returned.pass(300, 9), 300, "it is not there");
        returned.come_back(300, 450, 7);
        let of = |it: &Returned, steady: usize| it.pass(steady, 8);
        assert_eq!(
            returned.pass(300, 7),
            300,
            "samples of this drain are older"
        );
        assert_eq!(of(&returned, 300), 450, "the rest is not back");
        assert_eq!(of(&returned, 299), 299, "one outside of it needs proof");
        returned.shorten(400);
        assert_eq!((of(&returned, 300), of(&returned, 400)), (400, 400));
        returned.shorten(200);
        assert_eq!(of(&returned, 300), 300);
    }

    #[test]
    fn what_is_left_piece_by_piece_comes_back_as_a_whole() {
        let mut returned = Returned::default();
        returned.leave(500, 300, 500);
        returned.leave(300, 200, 300);
        returned.come_back(200, 500, 7);
        assert_eq!(returned.pass(200, 8), 500);
        // The innermost of them is left in the drain in which it came back.
        returned.leave(500, 499, 200);
        assert_eq!((returned.pass(200, 7), returned.pass(200, 8)), (200, 499));
        // So are all.
        returned.leave(500, 100, 200);
        assert_eq!(returned.pass(100, 9), 100);
        returned.come_back(100, 500, 9);
        assert_eq!(returned.pass(100, 10), 499);
        // One of those between needs proof.
        returned.leave(500, 300, 500);
        returned.leave(300, 200, 250);
        returned.come_back(200, 500, 11);
        assert_eq!(returned.pass(200, 12), 250);
    }
}
