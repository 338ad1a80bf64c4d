//! Clocks by the numbers that `perf_event_attr.clockid` uses, and our own CPU
//! time.

use std::io;
use std::time::Duration;

/// Wall-clock time since 1970 (`CLOCK_REALTIME`).
pub const REALTIME: i32 = libc::CLOCK_REALTIME;
/// Since boot, adjusted, without suspend (`CLOCK_MONOTONIC`).
pub const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
/// Since boot, not adjusted (`CLOCK_MONOTONIC_RAW`).
pub const MONOTONIC_RAW: i32 = libc::CLOCK_MONOTONIC_RAW;
/// Since boot, with suspend (`CLOCK_BOOTTIME`).
pub const BOOTTIME: i32 = libc::CLOCK_BOOTTIME;
/// International atomic time (`CLOCK_TAI`).
pub const TAI: i32 = libc::CLOCK_TAI;

/// The time of a clock in ns; `EINVAL` if there is no such clock.
pub fn now(clock: i32) -> io::Result<u64> {
    let mut time = ZERO;
    // SAFETY: the kernel writes one timespec to a live local value.
    crate::checked(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    Ok(nanoseconds(&time))
}

/// The resolution of a clock in ns; `EINVAL` if there is no such clock.
pub fn resolution(clock: i32) -> io::Result<u64> {
    let mut time = ZERO;
    // SAFETY: the kernel writes one timespec to a live local value.
    crate::checked(unsafe { libc::clock_getres(clock, &raw mut time) })?;
    Ok(nanoseconds(&time))
}

/// CPU time that this process has used, user and kernel.
pub fn own_cpu_time() -> Duration {
    now(libc::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from_nanos)
}

const ZERO: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

fn nanoseconds(time: &libc::timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    #[test]
    fn clocks_run_and_a_wrong_one_is_refused() {
        for clock in [
            super::REALTIME,
            super::MONOTONIC,
            super::MONOTONIC_RAW,
            super::BOOTTIME,
        ] {
            let first = super::now(clock).expect("clock");
            assert!(super::now(clock).expect("clock") >= first);
            assert!(super::resolution(clock).expect("clock") > 0);
        }
        assert!(super::own_cpu_time() > std::time::Duration::ZERO);
        let error = super::now(999).expect_err("no such clock");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let error = super::resolution(999).expect_err("no such clock");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
