//! The kernel's settings for events, under `/proc/sys/kernel`.

use std::fs;
use std::path::Path;

/// What the administrator has set; `None` for what this kernel does not have
/// or does not show. Nothing is cached: the kernel itself lowers
/// `max_sample_rate`.
///
/// Source: `Documentation/admin-guide/sysctl/kernel.rst` of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// `perf_event_paranoid`: −1 everything, 0 no raw tracepoints, 1 no
    /// CPU-wide events, 2 no kernel, 3 and up (Debian and others) nothing.
    /// Missing, the kernel has no perf events or /proc/sys is hidden.
    pub paranoid: Option<i64>,
    /// `perf_event_max_sample_rate`, Hz.
    pub max_sample_rate: Option<u64>,
    /// `perf_cpu_time_max_percent`: of a CPU's time, what sampling may take
    /// before the kernel lowers `max_sample_rate`; 0 and 100 are no limit.
    pub cpu_time_percent: Option<u64>,
    /// `perf_event_max_stack`, frames of a call chain.
    pub max_stack: Option<u64>,
    /// `perf_event_max_contexts_per_stack`: how many markers a call chain may
    /// have beside its frames.
    pub max_contexts: Option<u64>,
    /// `perf_event_mlock_kb`: ring memory per CPU and user, KiB.
    pub mlock_kb: Option<u64>,
    /// `perf_user_access`: whether counters can be read by an instruction
    /// (arm64, 5.17).
    pub user_access: Option<u64>,
}

impl Settings {
    /// Those of this machine.
    pub fn read() -> Self {
        Self::read_in(Path::new("/proc/sys/kernel"))
    }

    /// Those of another directory.
    pub fn read_in(directory: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(directory.join(name)).ok();
        let number = |name: &str| text(name)?.trim().parse().ok();
        Self {
            paranoid: text("perf_event_paranoid").and_then(|text| text.trim().parse().ok()),
            max_sample_rate: number("perf_event_max_sample_rate"),
            cpu_time_percent: number("perf_cpu_time_max_percent"),
            max_stack: number("perf_event_max_stack"),
            max_contexts: number("perf_event_max_contexts_per_stack"),
            mlock_kb: number("perf_event_mlock_kb"),
            user_access: number("perf_user_access"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use crate::event::{Event, Target};
    use crate::testing::{page_faults, permitted};
    use prof_abi::{AttrFlags, EventAttr, SampleType};

    #[test]
    fn every_setting_has_its_file() {
        // covers unit: SYS-01, SYS-02, SYS-05, SYS-07, RDP-08
        let folder = tempfile::tempdir().expect("a folder");
        let none = Settings::read_in(folder.path());
        assert_eq!(none, Settings::default());
        for (name, value) in [
            ("perf_event_paranoid", "-1"),
            ("perf_event_max_sample_rate", "100000"),
            ("perf_cpu_time_max_percent", "25"),
            ("perf_event_max_stack", "127"),
            ("perf_event_max_contexts_per_stack", "8"),
            ("perf_event_mlock_kb", "516"),
            ("perf_user_access", "1"),
        ] {
            std::fs::write(folder.path().join(name), format!("{value}\n")).expect("written");
        }
        let expected = Settings {
            paranoid: Some(-1),
            max_sample_rate: Some(100_000),
            cpu_time_percent: Some(25),
            max_stack: Some(127),
            max_contexts: Some(8),
            mlock_kb: Some(516),
            user_access: Some(1),
        };
        assert_eq!(Settings::read_in(folder.path()), expected);
    }

    #[test]
    fn the_kernel_keeps_to_its_settings() {
        // covers live: SYS-01, SYS-02, SYS-03, SYS-04, SYS-05, SYS-06, SYS-07, ATTR-77, ERR-15
        let settings = Settings::read();
        if settings.paranoid.is_none() || !permitted() {
            println!("skipped: /proc/sys is hidden here");
            return;
        }
        assert!(settings.mlock_kb.is_some() && settings.cpu_time_percent.is_some());
        assert!(settings.max_contexts.is_some_and(|most| most >= 1));
        let deepest = settings.max_stack.expect("since 4.8");
        let errno = |attr: EventAttr| {
            let opened = Event::open(&attr, Target::THIS, None);
            opened.err().map(|error| error.errno())
        };
        let deep = |frames: u64| EventAttr {
            sample_period: 1,
            sample_type: SampleType::CALLCHAIN,
            sample_max_stack: u16::try_from(frames).expect("a stack"),
            ..page_faults()
        };
        assert_eq!(errno(deep(deepest)), None);
        assert_eq!(errno(deep(deepest + 1)), Some(libc::EOVERFLOW));
        let highest = settings.max_sample_rate.expect("since 2.6.32");
        let often = |hertz| EventAttr {
            config: 0,
            sample_period: hertz,
            flags: page_faults().flags | AttrFlags::FREQ | AttrFlags::DISABLED,
            ..page_faults()
        };
        assert_eq!(errno(often(highest)), None);
        assert_eq!(errno(often(highest + 1)), Some(libc::EINVAL));
    }
}
