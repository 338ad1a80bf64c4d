//! A thread that runs as soon as an event of its CPU has a sample: before the
//! sampled thread goes on, as long as the scheduler lets it.

use crate::event::Event;
use crate::overflow;
use crate::signal::{SignalSet, Thread};
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

/// Wakes the calling thread for each sample of an event, by a signal that stays
/// blocked and is only waited for.
#[derive(Debug)]
pub struct SampleSignals {
    set: SignalSet,
    tid: libc::pid_t,
    /// It speaks of this thread, so it stays in it.
    here: PhantomData<*const ()>,
}

impl SampleSignals {
    /// For the calling thread.
    pub fn new() -> io::Result<Self> {
        let set = SignalSet::of(&[libc::SIGIO]);
        let signals = set.to_sigset();
        // SAFETY: reads an initialised set; no old mask is asked for.
        let errno = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut())
        };
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(errno));
        }
        // SAFETY: takes nothing and cannot fail.
        let tid = unsafe { libc::gettid() };
        let here = PhantomData;
        Ok(Self { set, tid, here })
    }

    /// From now on each sample of `event` sends the signal to this thread.
    pub fn begin(&self, event: &Event) -> io::Result<()> {
        overflow::set_owner(event, self.tid)?;
        overflow::set_async(event, true)
    }

    /// Stops the signals of `event`.
    pub fn end(&self, event: &Event) -> io::Result<()> {
        overflow::set_async(event, false)
    }

    /// Waits for a sample; false if none came within the time.
    pub fn wait(&self, timeout: Duration) -> bool {
        let signals = self.set.to_sigset();
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: reads an initialised set and a live local value; nothing
        // about the signal is asked for.
        let signal = unsafe {
            libc::sigtimedwait(&raw const signals, std::ptr::null_mut(), &raw const timeout)
        };
        signal == libc::SIGIO
    }
}

/// Pins the calling thread to one CPU.
pub fn run_on(cpu: u32) -> io::Result<()> {
    run_on_any(&[cpu])
}

/// Lets the calling thread run on these CPUs only; `EINVAL` if none of them is
/// there, or one has a number that no set holds.
pub fn run_on_any(cpus: &[u32]) -> io::Result<()> {
    set_cpus(0, cpus)
}

/// The same of another thread of this process; `ESRCH` if it has ended.
pub fn let_run_on_any(thread: Thread, cpus: &[u32]) -> io::Result<()> {
    set_cpus(thread.0, cpus)
}

/// `tid` 0 is the calling thread.
fn set_cpus(tid: libc::pid_t, cpus: &[u32]) -> io::Result<()> {
    // SAFETY: cpu_set_t is plain bits, of which zeros are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        let cpu = usize::try_from(cpu).unwrap_or(usize::MAX);
        if cpu >= MOST_CPUS {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the set is a live local value, and holds a bit of this number.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the kernel reads the live set.
    let result =
        unsafe { libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), &raw const set) };
    crate::checked(result).map(drop)
}

/// CPUs that a set holds.
const MOST_CPUS: usize = 8 * size_of::<libc::cpu_set_t>();

/// The CPUs that the calling thread may run on; `EINVAL` if the machine has more than a
/// set holds.
pub fn own_cpus() -> io::Result<Vec<u32>> {
    // SAFETY: cpu_set_t is plain bits, of which zeros are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread, and the kernel fills the live set.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    crate::checked(result)?;
    // SAFETY: the set is a live local value, and holds a bit of each of these numbers.
    let is_in = |&cpu: &u32| unsafe { libc::CPU_ISSET(cpu as usize, &set) };
    Ok((0..MOST_CPUS as u32).filter(is_in).collect())
}

/// The CPU that the calling thread runs on now.
pub fn own_cpu() -> Option<u32> {
    // SAFETY: takes nothing.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Lets the calling thread, and threads that it starts, run before all ordinary
/// ones whenever they have something to do: `SCHED_FIFO` at this priority, 1 to
/// 99. `EPERM` without CAP_SYS_NICE, if no limit allows it; `EINVAL` for another
/// priority.
pub fn run_first(priority: u8) -> io::Result<()> {
    // SAFETY: a plain C struct, for which all zeroes are valid; musl's has
    // fields of a policy that Linux lacks.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority.into();
    // SAFETY: 0 is the calling thread; the kernel reads a live local value.
    crate::checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) })
        .map(drop)
}

/// `struct sched_attr` in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// The size that the kernel knows it by (`SCHED_ATTR_SIZE_VER0`).
const SCHED_ATTR_SIZE: u32 = 48;
const _: () = assert!(size_of::<SchedAttr>() == SCHED_ATTR_SIZE as usize);

/// Lets the calling thread run soon after it has something to do: in slices so
/// short that the scheduler prefers it to others, from Linux 6.12 on, and with
/// a better niceness where that is allowed. It gets no more of a busy CPU than
/// its share. True if it got the niceness.
pub fn run_soon() -> bool {
    const NICENESS: i32 = -10;
    // SAFETY: takes numbers only; on Linux 0 is the calling thread, and -1 may
    // be its niceness, which is what is asked for.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    set_slice(NICENESS)
        .or_else(|_| set_slice(nice))
        .is_ok_and(|nice| nice == NICENESS)
}

/// An ordinary thread of this niceness, with the shortest slice.
fn set_slice(nice: i32) -> io::Result<i32> {
    /// What the kernel takes at least, ns.
    const SHORTEST: u64 = 100_000;
    let attr = SchedAttr {
        size: SCHED_ATTR_SIZE,
        policy: libc::SCHED_OTHER.cast_unsigned(),
        nice,
        runtime: SHORTEST,
        ..SchedAttr::default()
    };
    // SAFETY: 0 is the calling thread; the kernel reads a live local value of
    // the size that it tells, and no flags are asked for.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    match result {
        0 => Ok(nice),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        SampleSignals, let_run_on_any, own_cpu, own_cpus, run_first, run_on, run_on_any, run_soon,
        set_slice,
    };
    use crate::event::{Event, Target};
    use crate::signal::Thread;
    use prof_abi::{AttrFlags, EventAttr, SampleType};
    use std::time::Duration;

    #[test]
    fn a_sample_wakes_until_it_is_ended() {
        let attr = EventAttr {
            kind: 1,
            config: 2, // page faults
            sample_period: 1,
            sample_type: SampleType::IP,
            flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
            ..EventAttr::default()
        };
        let Ok(event) = Event::open(&attr, Target::THIS, None) else {
            println!("skipped: perf_event_open is not permitted here");
            return;
        };
        let ring = crate::Ring::map(&event, 1).expect("a page");
        let signals = SampleSignals::new().expect("blocked");
        let fault = || std::hint::black_box(vec![1_u8; 4 << 20]);
        signals.begin(&event).expect("begun");
        fault();
        assert!(signals.wait(Duration::from_secs(10)));
        signals.end(&event).expect("ended");
        while signals.wait(Duration::ZERO) {}
        fault();
        assert!(!signals.wait(Duration::from_millis(1)));
        assert!(ring.waiting() > 0);
    }

    #[test]
    fn a_thread_with_a_short_slice_is_an_ordinary_one() {
        std::thread::spawn(|| {
            let better = run_soon();
            // SAFETY: takes numbers only.
            let (policy, nice) = unsafe {
                let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
                (libc::sched_getscheduler(0), nice)
            };
            assert_eq!(policy, libc::SCHED_OTHER);
            assert_eq!(better, nice == -10);
            // Less is always allowed.
            assert!(set_slice(19).is_ok());
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn another_thread_is_let_run_on_some_cpus() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(Thread::current()).expect("received");
            let _ = ended.recv();
            (own_cpus().expect("a set"), own_cpu())
        });
        let all = own_cpus().expect("a set");
        let one = *all.last().expect("this one");
        let other = told.recv().expect("sent");
        let_run_on_any(other, &[one]).expect("it may run there");
        drop(end);
        assert_eq!(thread.join().expect("no panic"), (vec![one], Some(one)));
        assert_eq!(own_cpus().expect("a set"), all, "this thread is as it was");
    }

    #[test]
    fn a_thread_stays_on_its_cpu_or_is_refused() {
        std::thread::spawn(|| {
            assert_eq!(
                run_on(u32::MAX).expect_err("no such CPU").raw_os_error(),
                Some(libc::EINVAL)
            );
            let none = run_on_any(&[]).expect_err("nowhere to run");
            assert_eq!(none.raw_os_error(), Some(libc::EINVAL));
            let refused = run_first(100).expect_err("99 is the highest");
            assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
            if let Err(error) = run_first(1) {
                assert_eq!(error.raw_os_error(), Some(libc::EPERM));
            }
        })
        .join()
        .expect("no panic");
    }
}
