//! The writing thread beside the draining one.
//!
//! What was copied out of the rings is in the caches of the CPU that copied it. Read on
//! another, each line of it comes from there: at 10 kHz that was a tenth of what the
//! recorder took. So the writing thread is let run where the draining one has run, as
//! long as it keeps up; one that does not is let run anywhere, beside it.

use crate::options::Affinity;
use prof_sys::prompt::{let_run_on_any, own_cpu, own_cpus};
use prof_sys::signal::Thread;

/// Lets the writing thread run where records are.
#[derive(Debug)]
pub(crate) struct Follower {
    /// Where it may run at all.
    all: Vec<u32>,
    /// Where it may run now, if that is one of them.
    at: Option<u32>,
    is_refused: bool,
}

impl Follower {
    /// Of a thread that may run where the calling one may; `None` where it is not
    /// to be moved.
    pub(crate) fn new(affinity: Affinity) -> Option<Self> {
        let all = match affinity {
            Affinity::System => own_cpus().ok()?,
            Affinity::Cpu | Affinity::Node => return None,
        };
        (all.len() > 1).then_some(Self {
            all,
            at: None,
            is_refused: false,
        })
    }

    /// Before records are sent to `writer`, which has done what it got if `is_idle`.
    pub(crate) fn before_sending(&mut self, writer: Thread, is_idle: bool) {
        let to = own_cpu().filter(|_| is_idle);
        let to = to.filter(|cpu| self.all.contains(cpu));
        if self.at == to || self.is_refused {
            return;
        }
        let moved = match to {
            Some(cpu) => let_run_on_any(writer, &[cpu]),
            None => let_run_on_any(writer, &self.all),
        };
        // Where it was moved to may have gone meanwhile; then it runs anywhere.
        self.is_refused = moved.is_err();
        if self.is_refused {
            let _ = let_run_on_any(writer, &self.all);
        }
        self.at = to;
    }
}

#[cfg(test)]
mod tests {
    use super::{Affinity, Follower, Thread, own_cpus};

    #[test]
    fn a_writer_that_keeps_up_is_where_records_are() {
        std::thread::spawn(|| {
            let all = own_cpus().expect("a set");
            let Some(mut follower) = Follower::new(Affinity::System) else {
                assert_eq!(all.len(), 1, "of the only CPU");
                return;
            };
            // Of this thread itself.
            let writer = Thread::current();
            follower.before_sending(writer, true);
            let here = own_cpus().expect("a set");
            assert_eq!(here.len(), 1);
            assert_eq!(follower.at, here.first().copied());
            follower.before_sending(writer, false);
            assert_eq!(own_cpus().expect("a set"), all);
        })
        .join()
        .expect("no panic");
        for affinity in [Affinity::Cpu, Affinity::Node] {
            assert!(Follower::new(affinity).is_none());
        }
    }
}
