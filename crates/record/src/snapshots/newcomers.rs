//! Threads of which nothing is known yet.
//!
//! What lies beyond the copied piece of a thread's first samples cannot be proved
//! later: nobody looked before. Where threads that begin have deep stacks as a rule
//! (each run of a compiler), the stacks of new ones are read at once.

use std::collections::HashMap;

/// So many samples of a thread are read unasked: by then the unwinder knows it. Of
/// programs that run for some ms the fifth was often cut while it was four.
const MOST_READ: u8 = 8;
/// Most threads that are remembered.
const MOST_THREADS: usize = 1 << 12;

/// Which threads are new.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    are_wanted: bool,
    /// By thread: how many samples were read unasked.
    read: HashMap<i32, u8>,
}

impl Newcomers {
    /// Whether the stacks of new threads are read from now on.
    pub(super) fn want(&mut self, are_wanted: bool) {
        self.are_wanted = are_wanted;
    }

    /// Whether a sample of a thread, of which nobody asked for anything, is one of its
    /// first, and to be read therefore.
    pub(super) fn wants(&mut self, tid: i32) -> bool {
        if !self.are_wanted {
            return false;
        }
        if self.read.len() >= MOST_THREADS && !self.read.contains_key(&tid) {
            self.read.clear();
        }
        let read = self.read.entry(tid).or_default();
        let is_new = *read < MOST_READ;
        *read += u8::from(is_new);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_READ, MOST_THREADS, Newcomers};

    #[test]
    fn only_the_first_samples_of_a_thread_are_read_unasked() {
        let mut newcomers = Newcomers::default();
        assert!(!newcomers.wants(1));
        newcomers.want(true);
        let wanted = |newcomers: &mut Newcomers, tid| {
            let all = (0..2 * MOST_READ).filter(|_| newcomers.wants(tid));
            all.count()
        };
        assert_eq!(wanted(&mut newcomers, 1), usize::from(MOST_READ));
        assert_eq!(wanted(&mut newcomers, 2), usize::from(MOST_READ));
        assert!(!newcomers.wants(1));
        newcomers.want(false);
        assert!(!newcomers.wants(3));
        newcomers.want(true);
        (0..2 * MOST_THREADS as i32).for_each(|tid| _ = newcomers.wants(tid));
        assert!(newcomers.read.len() <= MOST_THREADS);
    }
}
