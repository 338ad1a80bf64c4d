//! Threads for work in parallel: as many as can be started.
//!
//! With little memory (`ulimit -v`) or few processes (`ulimit -u`) a pool that
//! insists on its threads fails, and rayon's own one panics. Here threads are
//! started first, and the pool is as large as their number.

use crossbeam_channel::{Sender, bounded};
use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuilder};
use std::io;
use std::num::NonZero;
use std::sync::Once;
use std::thread;

/// Threads that this machine runs at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Creates the pool of threads for parallel work; if none can be started, work
/// runs on the calling thread. Call it before parallel work begins: only the
/// first call has an effect.
pub fn prepare_threads() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let asked = std::env::var("RAYON_NUM_THREADS").ok();
        let asked = asked.and_then(|number| number.parse().ok());
        let wanted = asked.filter(|&number| number > 0).unwrap_or_else(cores);
        let started = Started::up_to(wanted, "work");
        let pool = ThreadPoolBuilder::new();
        // Refused only if there is such a pool already.
        let _ = match started.0.len() {
            0 => pool.num_threads(1).use_current_thread().build_global(),
            threads => {
                let mut started = started.0.into_iter();
                pool.num_threads(threads)
                    .spawn_handler(|work| hand_over(&mut started, work))
                    .build_global()
            }
        };
    });
}

/// A pool of up to `wanted` threads; `None` if none can be started.
pub(crate) fn pool(wanted: usize, name: &str) -> Option<ThreadPool> {
    let started = Started::up_to(wanted, name);
    let threads = started.0.len();
    let mut started = started.0.into_iter();
    let pool = || {
        ThreadPoolBuilder::new()
            .num_threads(threads)
            .spawn_handler(|work| hand_over(&mut started, work))
            .build()
    };
    (threads > 0).then(pool)?.ok()
}

/// Threads that wait to be told what they are for.
struct Started(Vec<Sender<ThreadBuilder>>);

impl Started {
    fn up_to(wanted: usize, name: &str) -> Self {
        let start = |number| {
            let (give, given) = bounded::<ThreadBuilder>(1);
            thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || {
                    if let Ok(work) = given.recv() {
                        work.run();
                    }
                })
                .ok()
                .map(|_| give)
        };
        Self((0..wanted).map_while(start).collect())
    }
}

fn hand_over(
    started: &mut impl Iterator<Item = Sender<ThreadBuilder>>,
    work: ThreadBuilder,
) -> io::Result<()> {
    let next = started.next().ok_or(io::ErrorKind::OutOfMemory)?;
    next.send(work)
        .map_err(|_| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use super::{pool, prepare_threads};

    #[test]
    fn a_pool_has_the_threads_that_were_started() {
        let pool = pool(3, "test").expect("threads");
        assert_eq!(pool.current_num_threads(), 3);
        assert_eq!(pool.install(|| rayon::join(|| 1, || 2)), (1, 2));
        assert!(super::pool(0, "none").is_none());
        prepare_threads();
        prepare_threads();
        assert_eq!(rayon::join(|| 3, || 4), (3, 4));
    }
}
