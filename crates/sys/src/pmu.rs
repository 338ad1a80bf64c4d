//! What sysfs tells of a PMU, beside its events and their terms.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel lists PMUs.
pub const ROOT: &str = "/sys/bus/event_source/devices";

/// Who may read counters by an instruction (`rdpmc` of the PMU; x86).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserAccess {
    /// 0: nobody, the instruction faults.
    Nobody,
    /// 1: a process that has an event mapped (the default since 4.0).
    WithEvent,
    /// 2: everybody.
    Everybody,
}

/// A PMU's directory, as `/sys/bus/event_source/devices/cpu`.
///
/// Every file may be missing: what it says is then `None`, or empty. Source:
/// `Documentation/ABI/testing/sysfs-bus-event_source-devices*` of the kernel.
#[derive(Debug, Clone)]
pub struct Pmu {
    directory: PathBuf,
}

impl Pmu {
    /// The PMUs of this machine, by name.
    pub fn all() -> Vec<Self> {
        Self::all_in(Path::new(ROOT))
    }

    /// The same of another root, as a copy of another machine's sysfs.
    pub fn all_in(root: &Path) -> Vec<Self> {
        let entries = fs::read_dir(root).into_iter().flatten();
        let mut pmus: Vec<Self> = entries
            .filter_map(|entry| Some(Self::at(entry.ok()?.path())))
            .filter(|pmu| pmu.kind().is_some())
            .collect();
        pmus.sort_by(|one, other| one.directory.cmp(&other.directory));
        pmus
    }

    /// The PMU of a directory, whether that is there or not.
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Its name, the directory's.
    pub fn name(&self) -> Option<&str> {
        self.directory.file_name()?.to_str()
    }

    /// `type` for an attr; `None` if this is no PMU.
    pub fn kind(&self) -> Option<u32> {
        self.number("type")
    }

    /// The CPUs to open its events on, one for each unit (`cpumask`: uncore
    /// and RAPL PMUs, whose events are of no task).
    pub fn cpu_mask(&self) -> Option<Vec<u32>> {
        cpus(&self.text("cpumask")?)
    }

    /// The CPUs that it counts on (`cpus`: the core types of hybrid machines).
    pub fn cpus(&self) -> Option<Vec<u32>> {
        cpus(&self.text("cpus")?)
    }

    /// Who may read its counters by an instruction.
    pub fn user_access(&self) -> Option<UserAccess> {
        match self.number("rdpmc")? {
            0 => Some(UserAccess::Nobody),
            1 => Some(UserAccess::WithEvent),
            2 => Some(UserAccess::Everybody),
            _ => None,
        }
    }

    /// How many address filters an event of it can have.
    pub fn address_filters(&self) -> Option<u32> {
        self.number("nr_addr_filters")
    }

    /// After how many ms events that share its counters take turns.
    pub fn mux_interval(&self) -> Option<u32> {
        self.number("perf_event_mux_interval_ms")
    }

    /// What `caps` says under a name: `branches` (the depth of a branch
    /// stack), `max_precise` (the highest `precise_ip`), `pmu_name`,
    /// `branch_counter_nr`, `branch_counter_width` and others.
    pub fn capability(&self, name: &str) -> Option<String> {
        let is_plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        is_plain.then(|| self.text(&format!("caps/{name}")))?
    }

    /// The names under `caps`.
    pub fn capabilities(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.join("caps"));
        let entries = entries.into_iter().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    fn text(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.directory.join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    fn number(&self, file: &str) -> Option<u32> {
        self.text(file)?.parse().ok()
    }
}

/// A list of CPUs, as `0-3,8`; `None` for anything else, or for more than the
/// 65536 CPUs that no machine has.
fn cpus(text: &str) -> Option<Vec<u32>> {
    const MOST: u32 = 1 << 16;
    let mut cpus = Vec::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::{Pmu, UserAccess, cpus};
    use std::fs;

    #[test]
    fn a_tree_of_another_machine_is_read() {
        // covers unit: SFS-03, SFS-07, SFS-08, SFS-09, SFS-10, RDP-06
        let root = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        put("cpu_core/type", "4\n");
        put("cpu_core/cpus", "0-3,8\n");
        put("cpu_core/rdpmc", "1\n");
        put("cpu_core/caps/branches", "32\n");
        put("cpu_core/caps/max_precise", "3\n");
        put("cpu_core/perf_event_mux_interval_ms", "4\n");
        put("uncore_imc_0/type", "16\n");
        put("uncore_imc_0/cpumask", "0,28\n");
        put("intel_pt/type", "9\n");
        put("intel_pt/nr_addr_filters", "2\n");
        put("intel_pt/rdpmc", "7\n");
        put("no_pmu/uevent", "");
        let pmus = Pmu::all_in(root.path());
        let names: Vec<_> = pmus.iter().filter_map(Pmu::name).collect();
        assert_eq!(names, ["cpu_core", "intel_pt", "uncore_imc_0"]);
        let [core, trace, uncore] = &pmus[..] else {
            panic!("three");
        };
        assert_eq!(core.kind(), Some(4));
        assert_eq!(core.cpus(), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(core.cpu_mask(), None);
        assert_eq!(core.user_access(), Some(UserAccess::WithEvent));
        assert_eq!(core.capability("branches").as_deref(), Some("32"));
        assert_eq!(core.capability("../type"), None);
        assert_eq!(core.capabilities(), ["branches", "max_precise"]);
        assert_eq!(core.mux_interval(), Some(4));
        assert_eq!(trace.address_filters(), Some(2));
        assert_eq!(trace.user_access(), None, "a value of tomorrow");
        assert_eq!(uncore.cpu_mask(), Some(vec![0, 28]));
    }

    #[test]
    fn each_file_may_be_missing_by_itself() {
        // covers unit: SFS-01, SFS-02, SFS-03, SFS-07, SFS-08, SFS-09, SFS-10
        let files = [
            ("type", "4"),
            ("cpumask", "0"),
            ("cpus", "0-1"),
            ("rdpmc", "2"),
            ("nr_addr_filters", "2"),
            ("perf_event_mux_interval_ms", "4"),
            ("caps/branches", "32"),
        ];
        let known = |pmu: &Pmu| {
            [
                pmu.kind().is_some(),
                pmu.cpu_mask().is_some(),
                pmu.cpus().is_some(),
                pmu.user_access().is_some(),
                pmu.address_filters().is_some(),
                pmu.mux_interval().is_some(),
                pmu.capability("branches").is_some(),
            ]
        };
        for missing in 0..files.len() {
            let root = tempfile::tempdir().expect("a folder");
            fs::create_dir(root.path().join("caps")).expect("made");
            for (place, (file, text)) in files.iter().enumerate() {
                if place != missing {
                    fs::write(root.path().join(file), text).expect("written");
                }
            }
            let mut expected = [true; 7];
            expected[missing] = false;
            let pmu = Pmu::at(root.path().to_owned());
            assert_eq!(known(&pmu), expected, "{}", files[missing].0);
            // Garbage is as good as nothing.
            fs::write(root.path().join(files[missing].0), "\u{1}x").expect("written");
            let text_is_text = missing == 6;
            assert_eq!(known(&pmu)[missing], text_is_text);
        }
    }

    #[test]
    fn lists_of_cpus_are_ranges() {
        // covers unit: SFS-07
        assert_eq!(cpus("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cpus(""), Some(vec![]));
        assert_eq!(cpus("x"), None);
        assert_eq!(cpus("0-4000000000"), None);
    }

    #[test]
    fn this_machine_has_software_events_and_turns() {
        // covers live: SFS-01, SFS-02, SFS-10
        let pmus = Pmu::all();
        if pmus.is_empty() {
            println!("skipped: sysfs is hidden here");
            return;
        }
        let software = pmus.iter().find(|pmu| pmu.name() == Some("software"));
        assert_eq!(software.and_then(Pmu::kind), Some(1));
        let turns = pmus.iter().find_map(Pmu::mux_interval);
        assert!(turns.is_some_and(|ms| ms > 0), "{turns:?}");
    }
}
