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

/// The CPU's cycle counter, which traces are timed by; 0 where there is none.
#[cfg(target_arch = "x86_64")]
pub fn cycles() -> u64 {
    // SAFETY: reads a register that every x86-64 CPU lets programs read.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The CPU's cycle counter, which traces are timed by; 0 where there is none.
#[cfg(not(target_arch = "x86_64"))]
pub fn cycles() -> u64 {
    0
}

/// Cycles of the counter for each of the crystal's clock, as numerator and
/// denominator (`CPUID` 0x15); 0 and 0 where the CPU does not say.
#[cfg(target_arch = "x86_64")]
pub fn crystal_ratio() -> (u32, u32) {
    const CRYSTAL: u32 = 0x15;
    #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
    // SAFETY: every x86-64 CPU has the instruction.
    let (most, ratio) = unsafe {
        (
            std::arch::x86_64::__cpuid(0).eax,
            std::arch::x86_64::__cpuid(CRYSTAL),
        )
    };
    match most >= CRYSTAL {
        true => (ratio.ebx, ratio.eax),
        false => (0, 0),
    }
}

/// Cycles of the counter for each of the crystal's clock, as numerator and
/// denominator; 0 and 0 where the CPU does not say.
#[cfg(not(target_arch = "x86_64"))]
pub fn crystal_ratio() -> (u32, u32) {
    (0, 0)
}

/// CPU time that this process has used, user and kernel.
pub fn own_cpu_time() -> Duration {
    now(libc::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from_nanos)
}

/// CPU time that the calling thread has used, user and kernel.
pub fn own_thread_cpu_time() -> Duration {
    now(libc::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from_nanos)
}

/// A moment as the clocks of this place show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Year, as 2026.
    pub year: i64,
    /// Month, from 0.
    pub month: usize,
    /// Day of the month, from 1.
    pub day: u32,
    /// Day of the week, from 0 for Sunday.
    pub week_day: usize,
    /// Hour, minute and second.
    pub time: (u32, u32, u32),
}

impl LocalTime {
    /// As `ctime(3)`: `Sat Nov 21 23:59:08 2026`.
    pub fn as_ctime(&self) -> String {
        const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let (hour, minute, second) = self.time;
        format!(
            "{} {} {:2} {hour:02}:{minute:02}:{second:02} {}",
            DAYS.get(self.week_day).unwrap_or(&"???"),
            MONTHS.get(self.month).unwrap_or(&"???"),
            self.day,
            self.year
        )
    }

    /// `2026-11-21 23:59:08`.
    pub fn as_date(&self) -> String {
        let (hour, minute, second) = self.time;
        let (month, day) = (self.month + 1, self.day);
        format!(
            "{}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}",
            self.year
        )
    }
}

/// What clocks here show so many seconds after the start of 1970; `None` for
/// a year that has no number.
pub fn local_time(seconds: i64) -> Option<LocalTime> {
    // SAFETY: `tm` is integers and a pointer that nobody follows; zeros are
    // a value of it.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live local values. The call reads TZ from
    // the environment, which no thread of ours changes.
    let made = unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) };
    if made.is_null() {
        return None;
    }
    let number = |value: libc::c_int| u32::try_from(value).ok();
    Some(LocalTime {
        year: i64::from(tm.tm_year) + 1900,
        month: number(tm.tm_mon)? as usize,
        day: number(tm.tm_mday)?,
        week_day: number(tm.tm_wday)? as usize,
        time: (number(tm.tm_hour)?, number(tm.tm_min)?, number(tm.tm_sec)?),
    })
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
    fn a_moment_is_written_as_the_c_library_does() {
        let time = super::LocalTime {
            year: 2026,
            month: 10,
            day: 1,
            week_day: 0,
            time: (3, 4, 5),
        };
        assert_eq!(time.as_ctime(), "Sun Nov  1 03:04:05 2026");
        assert_eq!(time.as_date(), "2026-11-01 03:04:05");
        // Wherever this runs, clocks are less than a day apart.
        let start = super::local_time(86_400 * 365).expect("a year with a number");
        assert!([1970, 1971].contains(&start.year), "{start:?}");
        assert_eq!(super::local_time(i64::MAX), None);
    }

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
