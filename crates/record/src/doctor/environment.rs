//! The settings that decide what may be profiled.

use super::attempts::{Attempts, EVERY_KERNEL_HAS};
use crate::reading::names;
use prof_sys::namespaces;
use prof_sys::settings::Settings;
use std::fs;
use std::io;
use std::path::Path;

/// A capability that matters for profiling: its bit in `CapEff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability(u32);

impl Capability {
    /// Locks memory without limit.
    pub(crate) const IPC_LOCK: Self = Self(14);
    /// Looks into other processes.
    pub(crate) const SYS_PTRACE: Self = Self(19);
    /// May do nearly everything.
    pub(crate) const SYS_ADMIN: Self = Self(21);
    /// Uses perf events as root does (Linux 5.8).
    pub const PERFMON: Self = Self(38);
}

/// The settings as found; `None` for what could not be read, which mostly
/// means that this kernel does not have it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// Effective user id.
    pub uid: Option<u32>,
    /// `CapEff`, a bit per capability.
    pub capabilities: u64,
    /// Linux release, as `6.18.2`.
    pub release: String,
    /// `kernel.perf_event_paranoid`: −1 everything, 0 no raw tracepoints, 1
    /// no CPU-wide events, 2 no kernel, 3 (Debian and others) nothing.
    pub paranoid: Option<i64>,
    /// `kernel.kptr_restrict`.
    pub kptr_restrict: Option<i64>,
    /// `kernel.yama.ptrace_scope`.
    pub ptrace_scope: Option<i64>,
    /// `kernel.perf_event_mlock_kb`: ring memory per CPU and user, KiB.
    pub mlock_kb: Option<i64>,
    /// `kernel.perf_event_max_sample_rate`, Hz.
    pub max_sample_rate: Option<i64>,
    /// `kernel.perf_cpu_time_max_percent`: of a CPU's time, what samples may
    /// take before the kernel lowers `max_sample_rate`; 0 and 100 are no limit.
    pub cpu_time_percent: Option<i64>,
    /// `kernel.perf_event_max_stack`, frames.
    pub max_stack: Option<i64>,
    /// Soft limit of locked memory, bytes; `None` for no limit.
    pub memlock_limit: Option<u64>,
    /// Hard limit of open files; `None` for no limit.
    pub file_limit: Option<u64>,
    /// CPUs online.
    pub cpus: u64,
    /// Names under /sys/bus/event_source/devices.
    pub pmus: Vec<String>,
    /// Whether the CPU says that it is virtual.
    pub virtual_machine: bool,
    /// Whether kernel addresses in /proc/kallsyms are real for this user.
    pub kernel_symbols: bool,
    /// Where tracefs is mounted.
    pub tracefs: Option<String>,
    /// Whether the files of its events can be read: their ids, to record them,
    /// and their formats, to show them.
    pub tracefs_readable: bool,
    /// Whether the list of mounts names tracefs where there is none: something
    /// else was mounted above it, as containers do with /sys.
    pub tracefs_hidden: bool,
    /// Whether this process is in a user namespace of its own, where
    /// capabilities do not reach the kernel's events.
    pub user_namespace: bool,
    /// Whether a seccomp filter looks at its system calls.
    pub seccomp: bool,
    /// What was tried.
    pub attempts: Attempts,
}

impl Environment {
    /// The environment of this process.
    pub fn read() -> Self {
        let settings = Self::settings();
        let tracefs = settings.tracefs.as_deref().map(Path::new);
        Self {
            attempts: Attempts::make(tracefs),
            ..settings
        }
    }

    /// The same with nothing tried.
    pub(crate) fn settings() -> Self {
        Self::read_under(Path::new("/"))
    }

    /// The same with another directory in the place of `/`.
    fn read_under(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let sysctl = |name: &str| text(&format!("proc/sys/kernel/{name}")).trim().parse().ok();
        let settings = Settings::read_in(&root.join("proc/sys/kernel"));
        let number = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
        let status = text("proc/self/status");
        let limits = text("proc/self/limits");
        let tracefs = tracefs_mount(&text("proc/self/mounts"));
        let events = tracefs.as_deref().map(|at| {
            let below = at.trim_start_matches('/');
            root.join(below).join("events")
        });
        Self {
            uid: field(&status, "Uid:").and_then(|ids| {
                let effective = ids.split_ascii_whitespace().nth(1)?;
                effective.parse().ok()
            }),
            capabilities: field(&status, "CapEff:")
                .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
                .unwrap_or(0),
            release: release(&text),
            paranoid: settings.paranoid,
            kptr_restrict: sysctl("kptr_restrict"),
            ptrace_scope: sysctl("yama/ptrace_scope"),
            mlock_kb: number(settings.mlock_kb),
            max_sample_rate: number(settings.max_sample_rate),
            cpu_time_percent: number(settings.cpu_time_percent),
            max_stack: number(settings.max_stack),
            memlock_limit: limit(&limits, "Max locked memory", 0),
            file_limit: limit(&limits, "Max open files", 1),
            cpus: crate::synthesize::online_cpus().len() as u64,
            pmus: names(&root.join("sys/bus/event_source/devices")),
            virtual_machine: text("proc/cpuinfo").contains(" hypervisor"),
            kernel_symbols: shows_addresses(&root.join("proc/kallsyms")),
            tracefs_readable: events.as_deref().is_some_and(has_readable_event),
            tracefs_hidden: events.is_some_and(|events| is_absent(&events)),
            tracefs,
            user_namespace: namespaces::maps_users(&text("proc/self/uid_map")),
            seccomp: field(&status, "Seccomp:").is_some_and(|mode| mode.trim() == "2"),
            attempts: Attempts::default(),
        }
    }

    /// Whether this process has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities & 1 << capability.0 != 0
    }

    /// Why no tracepoint can be looked up; `None` if they can.
    pub(crate) fn no_tracefs(&self) -> Option<String> {
        match &self.tracefs {
            None => Some("tracefs is not mounted".to_owned()),
            Some(at) if self.tracefs_hidden => Some(format!(
                "{at} is hidden by another mount above it, as in containers"
            )),
            Some(at) if !self.tracefs_readable => {
                Some(format!("{at} is not readable for this user"))
            }
            Some(_) => None,
        }
    }

    /// Whether `perf_event_paranoid` does not apply to this process.
    pub(crate) fn may_use_all_events(&self) -> bool {
        self.has(Capability::PERFMON) || self.has(Capability::SYS_ADMIN)
    }

    /// Whether even what every setting allows is refused.
    pub(crate) fn is_sandboxed(&self) -> bool {
        let is_allowed = self.may_use_all_events() || self.paranoid.is_some_and(|level| level <= 2);
        is_allowed && matches!(self.attempts.own_user, Some(Err(_)))
    }

    /// The PMUs that count CPU cycles: `cpu`, `cpu_core` and `cpu_atom`,
    /// `armv8_pmuv3_0` and the like.
    pub(crate) fn cpu_pmus(&self) -> impl Iterator<Item = &str> {
        let is_cpu =
            |name: &&str| *name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv8_");
        self.pmus.iter().map(String::as_str).filter(is_cpu)
    }
}

/// The release, also where /proc/sys is hidden.
fn release(text: &dyn Fn(&str) -> String) -> String {
    let release = text("proc/sys/kernel/osrelease");
    if !release.is_empty() {
        return release.trim().to_owned();
    }
    let version = text("proc/version");
    let mut words = version.split_ascii_whitespace();
    words.nth(2).unwrap_or_default().to_owned()
}

/// What stands behind a key at the start of a line.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key))
}

/// The soft (0) or hard (1) value in a line of /proc/PID/limits.
fn limit(limits: &str, name: &str, column: usize) -> Option<u64> {
    let values = field(limits, name)?;
    values.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// The mount point of tracefs, the one under debugfs last.
fn tracefs_mount(mounts: &str) -> Option<String> {
    let mut points: Vec<&str> = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let point = fields.next()?;
            (fields.next()? == "tracefs").then_some(point)
        })
        .collect();
    points.sort_by_key(|point| point.contains("/debug/"));
    points.first().map(|&point| point.to_owned())
}

/// Whether the files that a recording needs of a tracepoint can be read; that
/// their directories can be listed says nothing of it.
fn has_readable_event(events: &Path) -> bool {
    let event = events.join(EVERY_KERNEL_HAS);
    ["id", "format"]
        .iter()
        .all(|name| fs::read(event.join(name)).is_ok_and(|text| !text.is_empty()))
}

/// Whether nothing is there; what may not be looked at may be there.
fn is_absent(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether the first function has an address, which a hidden one has not. What
/// stands before it, per-CPU variables, has offsets: of Linux 6.1 some 10 KiB of
/// them. Not more is read than that takes: the whole list takes the kernel 30 ms.
fn shows_addresses(kallsyms: &Path) -> bool {
    use std::io::BufRead;
    const MOST_BEFORE: usize = 10_000;
    let Ok(file) = fs::File::open(kallsyms) else {
        return false;
    };
    let lines = io::BufReader::with_capacity(4096, file).lines();
    // A failed read ends it, which counts as hidden.
    let mut lines = lines.map_while(Result::ok).take(MOST_BEFORE);
    let is_function = |line: &String| matches!(line.split(' ').nth(1), Some("T" | "t"));
    lines.find(is_function).is_some_and(|line| {
        let digits = line.split(' ').next().unwrap_or_default();
        u64::from_str_radix(digits, 16).is_ok_and(|address| address > 1 << 32)
    })
}

#[cfg(test)]
mod tests {
    use super::{Capability, Environment};
    use std::fs;
    use std::path::Path;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn every_setting_is_found_where_linux_has_it() {
        // covers unit: SYS-01, SYS-07, SYS-08
        let directory = tempfile::tempdir().expect("temporary directory");
        let root = directory.path();
        put(
            root,
            "proc/self/status",
            "Uid:\t1000\t1001\t1000\t1000\nCapEff:\t0000004000004000\n",
        );
        put(
            root,
            "proc/self/limits",
            "Max open files            1024                 524288               files\n\
             Max locked memory         8388608              unlimited            bytes\n",
        );
        put(
            root,
            "proc/self/mounts",
            "x /sys/kernel/debug/tracing tracefs rw 0 0\nx /sys/kernel/tracing tracefs rw 0 0\n",
        );
        let event = "sys/kernel/tracing/events/sched/sched_switch";
        let found = Environment::read_under(root);
        assert!(found.tracefs_hidden && !found.tracefs_readable);
        let why = found.no_tracefs().expect("there is none");
        assert!(why.contains("hidden"), "{why}");
        put(root, &format!("{event}/id"), "314\n");
        let found = Environment::read_under(root);
        assert!(!found.tracefs_hidden && !found.tracefs_readable);
        let why = found.no_tracefs().expect("not readable");
        assert!(why.contains("not readable for this user"), "{why}");
        put(root, &format!("{event}/format"), "name: sched_switch\n");
        put(root, "proc/sys/kernel/perf_event_paranoid", "-1\n");
        put(root, "proc/sys/kernel/yama/ptrace_scope", "2\n");
        put(root, "proc/sys/kernel/perf_cpu_time_max_percent", "25\n");
        put(root, "proc/kallsyms", "ffffffff81000000 T _text\n");
        put(root, "proc/version", "Linux version 6.18.5 (x@y) #1 SMP\n");
        put(
            root,
            "proc/self/uid_map",
            "         0       1000          1\n",
        );
        put(root, "sys/bus/event_source/devices/cpu_core/type", "4\n");
        put(root, "sys/bus/event_source/devices/msr/type", "9\n");
        let found = Environment::read_under(root);
        assert_eq!(found.uid, Some(1001));
        assert!(found.has(Capability::PERFMON) && found.has(Capability::IPC_LOCK));
        assert!(!found.has(Capability::SYS_ADMIN));
        assert!(found.may_use_all_events());
        assert_eq!(found.file_limit, Some(524_288));
        assert_eq!(found.memlock_limit, Some(8_388_608));
        assert_eq!(found.tracefs.as_deref(), Some("/sys/kernel/tracing"));
        assert!(found.tracefs_readable && found.kernel_symbols);
        assert_eq!(found.no_tracefs(), None);
        assert_eq!((found.paranoid, found.ptrace_scope), (Some(-1), Some(2)));
        assert_eq!(found.kptr_restrict, None);
        assert_eq!(found.cpu_time_percent, Some(25));
        assert_eq!(found.release, "6.18.5");
        assert!(found.user_namespace && !found.seccomp);
        assert_eq!(found.cpu_pmus().collect::<Vec<_>>(), ["cpu_core"]);
    }

    #[test]
    fn nothing_readable_is_nothing_known() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let found = Environment::read_under(directory.path());
        let nothing = Environment {
            cpus: found.cpus,
            ..Environment::default()
        };
        assert_eq!(found, nothing);
    }

    #[test]
    fn hidden_kernel_addresses_are_zeros() {
        // covers unit: CAP-03
        let directory = tempfile::tempdir().expect("temporary directory");
        let zeros = "0000000000000000 T _stext\n0000000000000000 T _text\n";
        put(directory.path(), "proc/kallsyms", zeros);
        assert!(!Environment::read_under(directory.path()).kernel_symbols);
    }

    #[test]
    fn per_cpu_variables_before_the_functions_have_offsets() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let root = directory.path();
        // As Linux 6.1 has them.
        for (step, function, is_shown) in [(64, 0xffff_ffff_9280_0000_u64, true), (0, 0, false)] {
            let offsets = (0..500).map(|number| step * number);
            let variables = offsets.map(|offset| format!("{offset:016x} A variable\n"));
            let list: String = variables.collect();
            let list = format!("{list}{function:016x} T startup_64\n");
            put(root, "proc/kallsyms", &list);
            assert_eq!(Environment::read_under(root).kernel_symbols, is_shown);
        }
    }
}
