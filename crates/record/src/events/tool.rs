//! Events that are no events of the kernel: times that `prof stat` takes itself.

/// What a tool event tells, all in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Time since counting began.
    Duration,
    /// CPU time of what is counted, in user space.
    User,
    /// The same in the kernel.
    System,
}

const TOOLS: [(&str, Tool); 3] = [
    ("duration_time", Tool::Duration),
    ("user_time", Tool::User),
    ("system_time", Tool::System),
];

/// Figures of the machine, which perf tells as if they were counts.
const CONSTANTS: [&str; 11] = [
    "core_wide",
    "has_pmem",
    "num_cores",
    "num_cpus",
    "num_cpus_online",
    "num_dies",
    "num_packages",
    "slots",
    "smt_on",
    "system_tsc_freq",
    "target_cpu",
];

/// Whether perf has a tool event of this name that is no count.
pub(super) fn is_constant(name: &str) -> bool {
    CONSTANTS.contains(&name)
}

impl Tool {
    /// The one of this name, in upper or lower case.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        let is_it = |known: &str| known.eq_ignore_ascii_case(name);
        let (_, tool) = TOOLS.iter().find(|(known, _)| is_it(known))?;
        Some(*tool)
    }

    /// The names of all, as `-e` takes them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TOOLS.iter().map(|(name, _)| *name)
    }
}
