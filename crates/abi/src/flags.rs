//! Flag sets and enumerations of the kernel, as numbers that keep what we do
//! not know.

/// A set of bits with named members; unknown bits stay.
macro_rules! flag_set {
    ($(#[$doc:meta])* $name:ident($int:ty) { $($(#[$member_doc:meta])* $member:ident = $bit:expr,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$member_doc])* pub const $member: Self = Self(1 << $bit);)*

            /// Every named bit with its name, lowest first.
            pub const NAMES: &'static [(Self, &'static str)] =
                &[$((Self::$member, stringify!($member)),)*];

            /// Whether all bits of `other` are set.
            #[inline]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// This set and the bits of `other`.
            #[inline]
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// This set without the bits of `other`.
            #[inline]
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// The bits that have no name here.
            pub const fn unknown(self) -> $int {
                self.0 & !(0 $(| (1 << $bit))*)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }
    };
}

flag_set! {
    /// `perf_event_attr.sample_type`: what a sample carries.
    SampleType(u64) {
        /// Instruction pointer.
        IP = 0,
        /// Process and thread id.
        TID = 1,
        /// Time in ns on the event's clock.
        TIME = 2,
        /// Data address.
        ADDR = 3,
        /// Counter values, laid out by `read_format`.
        READ = 4,
        /// Call chain.
        CALLCHAIN = 5,
        /// Event id (of the group leader).
        ID = 6,
        /// CPU number.
        CPU = 7,
        /// Events this sample stands for.
        PERIOD = 8,
        /// Event id (of the event itself).
        STREAM_ID = 9,
        /// Opaque bytes, a tracepoint's payload.
        RAW = 10,
        /// Branch records.
        BRANCH_STACK = 11,
        /// User registers.
        REGS_USER = 12,
        /// A piece of the user stack.
        STACK_USER = 13,
        /// Weight (latency) of the sample.
        WEIGHT = 14,
        /// Where the data came from.
        DATA_SRC = 15,
        /// Event id at a fixed place.
        IDENTIFIER = 16,
        /// Transaction abort reason.
        TRANSACTION = 17,
        /// Registers at the interrupt.
        REGS_INTR = 18,
        /// Physical data address.
        PHYS_ADDR = 19,
        /// A piece of the AUX area.
        AUX = 20,
        /// Cgroup id.
        CGROUP = 21,
        /// Page size of the data address, bytes.
        DATA_PAGE_SIZE = 22,
        /// Page size of the instruction address, bytes.
        CODE_PAGE_SIZE = 23,
        /// Weight in three parts.
        WEIGHT_STRUCT = 24,
    }
}

flag_set! {
    /// `perf_event_attr.read_format`: the layout of counter values.
    ReadFormat(u64) {
        /// Time enabled, ns.
        TOTAL_TIME_ENABLED = 0,
        /// Time running, ns.
        TOTAL_TIME_RUNNING = 1,
        /// Event id.
        ID = 2,
        /// All members of the group at once.
        GROUP = 3,
        /// Lost samples of this event.
        LOST = 4,
    }
}

flag_set! {
    /// The flag word of `perf_event_attr`, offset 40, without `precise_ip`'s
    /// meaning: its two bits are 15 and 16.
    AttrFlags(u64) {
        /// Starts off.
        DISABLED = 0,
        /// Children inherit it.
        INHERIT = 1,
        /// Must always be on the PMU.
        PINNED = 2,
        /// Only group on the PMU.
        EXCLUSIVE = 3,
        /// No user mode.
        EXCLUDE_USER = 4,
        /// No kernel mode.
        EXCLUDE_KERNEL = 5,
        /// No hypervisor mode.
        EXCLUDE_HV = 6,
        /// Not in the idle task.
        EXCLUDE_IDLE = 7,
        /// MMAP records.
        MMAP = 8,
        /// COMM records.
        COMM = 9,
        /// `sample_period` is a frequency in Hz.
        FREQ = 10,
        /// Per-task counts on exit.
        INHERIT_STAT = 11,
        /// Enabled by the next exec.
        ENABLE_ON_EXEC = 12,
        /// FORK and EXIT records.
        TASK = 13,
        /// `wakeup` is a byte watermark.
        WATERMARK = 14,
        /// Low bit of `precise_ip`.
        PRECISE_LOW = 15,
        /// High bit of `precise_ip`.
        PRECISE_HIGH = 16,
        /// MMAP records of data mappings.
        MMAP_DATA = 17,
        /// All records carry the sample_id trailer.
        SAMPLE_ID_ALL = 18,
        /// Not in the host.
        EXCLUDE_HOST = 19,
        /// Not in guests.
        EXCLUDE_GUEST = 20,
        /// No kernel part in chains.
        EXCLUDE_CALLCHAIN_KERNEL = 21,
        /// No user part in chains.
        EXCLUDE_CALLCHAIN_USER = 22,
        /// MMAP2 records.
        MMAP2 = 23,
        /// COMM records mark an exec.
        COMM_EXEC = 24,
        /// Time by `clockid`.
        USE_CLOCKID = 25,
        /// SWITCH records.
        CONTEXT_SWITCH = 26,
        /// Ring filled from its end.
        WRITE_BACKWARD = 27,
        /// NAMESPACES records.
        NAMESPACES = 28,
        /// KSYMBOL records.
        KSYMBOL = 29,
        /// BPF_EVENT records.
        BPF_EVENT = 30,
        /// Output into the AUX area.
        AUX_OUTPUT = 31,
        /// CGROUP records; of a CPU only with MMAP, COMM, TASK or such beside
        /// it (seen on Linux 6.18).
        CGROUP = 32,
        /// TEXT_POKE records.
        TEXT_POKE = 33,
        /// Build-ids in MMAP2.
        BUILD_ID = 34,
        /// Only threads inherit.
        INHERIT_THREAD = 35,
        /// Removed at exec.
        REMOVE_ON_EXEC = 36,
        /// SIGTRAP on overflow.
        SIGTRAP = 37,
        /// User part of chains delivered later.
        DEFER_CALLCHAIN = 38,
        /// CALLCHAIN_DEFERRED records here.
        DEFER_OUTPUT = 39,
    }
}

flag_set! {
    /// `perf_event_attr.branch_sample_type`.
    BranchSampleType(u64) {
        /// Branches to user.
        USER = 0,
        /// To kernel.
        KERNEL = 1,
        /// To the hypervisor.
        HV = 2,
        /// Any branch.
        ANY = 3,
        /// Any call.
        ANY_CALL = 4,
        /// Any return.
        ANY_RETURN = 5,
        /// Indirect calls.
        IND_CALL = 6,
        /// Transaction aborts.
        ABORT_TX = 7,
        /// In a transaction.
        IN_TX = 8,
        /// Outside transactions.
        NO_TX = 9,
        /// Conditional branches.
        COND = 10,
        /// Call stack mode (LBR).
        CALL_STACK = 11,
        /// Indirect jumps.
        IND_JUMP = 12,
        /// Direct calls.
        CALL = 13,
        /// Without flags.
        NO_FLAGS = 14,
        /// Without cycles.
        NO_CYCLES = 15,
        /// With the branch type.
        TYPE_SAVE = 16,
        /// With the hardware index: one u64 after `nr`.
        HW_INDEX = 17,
        /// With the privilege level.
        PRIV_SAVE = 18,
        /// With counters: one u64 per entry after all entries.
        COUNTERS = 19,
    }
}

flag_set! {
    /// `flags` of an AUX record: what became of the data. Source: the kernel's
    /// UAPI header.
    AuxFlags(u64) {
        /// The area was full, and the rest is missing.
        TRUNCATED = 0,
        /// A snapshot, of an area that overwrites.
        OVERWRITE = 1,
        /// There are gaps.
        PARTIAL = 2,
        /// Two samples fell together (Arm SPE).
        COLLISION = 3,
    }
}

impl AuxFlags {
    /// The PMU's format of the data (`PMU_FORMAT_TYPE_MASK`): of CoreSight 0 is
    /// its own frames and 1 raw.
    pub const fn format(self) -> u8 {
        (self.0 >> 8) as u8
    }
}

/// The number in a record header that says what the record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordType(pub u32);

macro_rules! record_types {
    ($($(#[$doc:meta])* $name:ident = $value:expr,)*) => {
        impl RecordType {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The name without its prefix (`MMAP2`), `None` if unknown.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

record_types! {
    /// A range was mapped.
    MMAP = 1,
        /// Records were lost.
    LOST = 2,
        /// A thread's name.
    COMM = 3,
        /// A thread ended.
    EXIT = 4,
        /// Sampling too often, stopped.
    THROTTLE = 5,
        /// And resumed.
    UNTHROTTLE = 6,
        /// A thread began.
    FORK = 7,
        /// Counter values.
    READ = 8,
        /// A sample.
    SAMPLE = 9,
        /// A range was mapped, with inode or build-id.
    MMAP2 = 10,
        /// New bytes in the AUX area.
    AUX = 11,
        /// Instruction tracing began.
    ITRACE_START = 12,
        /// Samples were lost.
    LOST_SAMPLES = 13,
        /// Context switch of a task.
    SWITCH = 14,
        /// Context switch on a CPU.
    SWITCH_CPU_WIDE = 15,
        /// A task's namespaces.
    NAMESPACES = 16,
        /// Kernel symbol added or removed.
    KSYMBOL = 17,
        /// BPF program loaded or unloaded.
    BPF_EVENT = 18,
        /// A cgroup's path.
    CGROUP = 19,
        /// Kernel text changed.
    TEXT_POKE = 20,
        /// Hardware id of an AUX event.
    AUX_OUTPUT_HW_ID = 21,
        /// User chain of an earlier sample.
    CALLCHAIN_DEFERRED = 22,
        /// An attr and its ids (pipe mode).
    HEADER_ATTR = 64,
        /// Dead.
    EVENT_TYPE = 65,
        /// Tracepoint formats follow.
    TRACING_DATA = 66,
        /// A build-id.
    BUILD_ID = 67,
        /// Every ring was drained once.
    FINISHED_ROUND = 68,
        /// Ids to event, CPU and thread.
    ID_INDEX = 69,
        /// AUX trace parameters.
    AUXTRACE_INFO = 70,
        /// AUX trace data follows.
    AUXTRACE = 71,
        /// AUX decoding failed.
    AUXTRACE_ERROR = 72,
        /// The threads that were asked for.
    THREAD_MAP = 73,
        /// The CPUs that were asked for.
    CPU_MAP = 74,
        /// perf stat configuration.
    STAT_CONFIG = 75,
        /// A perf stat value.
    STAT = 76,
        /// End of a perf stat interval.
    STAT_ROUND = 77,
        /// Unit, scale, name or CPUs of an event.
    EVENT_UPDATE = 78,
        /// TSC to perf time.
    TIME_CONV = 79,
        /// A feature section (pipe mode).
    HEADER_FEATURE = 80,
        /// zstd bytes.
    COMPRESSED = 81,
        /// End of the synthesised records.
    FINISHED_INIT = 82,
        /// zstd bytes with their length.
    COMPRESSED2 = 83,
        /// Variables of a BPF program.
    BPF_METADATA = 84,
        /// perf sched stats of a CPU.
    SCHEDSTAT_CPU = 85,
        /// perf sched stats of a domain.
    SCHEDSTAT_DOMAIN = 86,
        /// simpleperf: a kernel symbol table.
    SIMPLEPERF_KERNEL_SYMBOL = 32769,
        /// simpleperf: a file.
    SIMPLEPERF_DSO = 32770,
        /// simpleperf: a symbol.
    SIMPLEPERF_SYMBOL = 32771,
        /// simpleperf: part of a large record.
    SIMPLEPERF_SPLIT = 32772,
        /// simpleperf: end of parts.
    SIMPLEPERF_SPLIT_END = 32773,
        /// simpleperf: event ids.
    SIMPLEPERF_EVENT_ID = 32774,
        /// simpleperf: an unwound chain.
    SIMPLEPERF_CALLCHAIN = 32775,
        /// simpleperf: how the unwinding went.
    SIMPLEPERF_UNWINDING_RESULT = 32776,
        /// simpleperf: tracepoint formats.
    SIMPLEPERF_TRACING_DATA = 32777,
        /// simpleperf: text for its developers.
    SIMPLEPERF_DEBUG = 32778,
}

impl RecordType {
    /// Whether the kernel writes it (below 64), so that it may carry the
    /// sample_id trailer.
    pub const fn is_kernel(self) -> bool {
        self.0 < 64
    }
}

/// The `misc` field of a record header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Misc(pub u16);

impl Misc {
    /// MMAP*: /proc maps could not be read to the end.
    pub const PROC_MAP_PARSE_TIMEOUT: Self = Self(1 << 12);
    /// MMAP*: a data mapping.
    pub const MMAP_DATA: Self = Self(1 << 13);
    /// COMM: by exec.
    pub const COMM_EXEC: Self = Self(1 << 13);
    /// FORK: synthesised for a task seen at exec.
    pub const FORK_EXEC: Self = Self(1 << 13);
    /// SWITCH*: off the CPU.
    pub const SWITCH_OUT: Self = Self(1 << 13);
    /// SAMPLE: the address is exact.
    pub const EXACT_IP: Self = Self(1 << 14);
    /// SWITCH*: preempted.
    pub const SWITCH_OUT_PREEMPT: Self = Self(1 << 14);
    /// MMAP2: a build-id stands in place of the inode.
    pub const MMAP_BUILD_ID: Self = Self(1 << 14);
    /// Build-id records: the size byte is valid.
    pub const BUILD_ID_SIZE: Self = Self(1 << 15);
    /// LOST_SAMPLES: dropped by a BPF filter.
    pub const LOST_SAMPLES_BPF: Self = Self(1 << 15);

    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits that say in which mode the CPU was.
    pub const fn of_mode(mode: CpuMode) -> Self {
        Self(match mode {
            CpuMode::Unknown => 0,
            CpuMode::Kernel => 1,
            CpuMode::User => 2,
            CpuMode::Hypervisor => 3,
            CpuMode::GuestKernel => 4,
            CpuMode::GuestUser => 5,
        })
    }

    /// These bits and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These bits less those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The mode the CPU was in.
    #[inline]
    pub const fn cpu_mode(self) -> CpuMode {
        match self.0 & 7 {
            1 => CpuMode::Kernel,
            2 => CpuMode::User,
            3 => CpuMode::Hypervisor,
            4 => CpuMode::GuestKernel,
            5 => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }
}

/// The mode a CPU was in, from `misc` or from a context marker in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum CpuMode {
    /// Not told.
    #[default]
    Unknown,
    /// Kernel of the host.
    Kernel,
    /// User space of the host.
    User,
    /// Hypervisor.
    Hypervisor,
    /// Kernel of a guest.
    GuestKernel,
    /// User space of a guest.
    GuestUser,
}

/// A value in a call chain that is not an address but says in which mode the
/// addresses after it were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallchainContext(pub u64);

impl CallchainContext {
    /// Hypervisor addresses follow.
    pub const HV: Self = Self(-32_i64 as u64);
    /// Kernel addresses follow.
    pub const KERNEL: Self = Self(-128_i64 as u64);
    /// User addresses follow.
    pub const USER: Self = Self(-512_i64 as u64);
    /// The user part comes later; the next value is its cookie.
    pub const USER_DEFERRED: Self = Self(-640_i64 as u64);
    /// Guest addresses follow.
    pub const GUEST: Self = Self(-2048_i64 as u64);
    /// Guest kernel addresses follow.
    pub const GUEST_KERNEL: Self = Self(-2176_i64 as u64);
    /// Guest user addresses follow.
    pub const GUEST_USER: Self = Self(-2560_i64 as u64);
    /// The smallest value that is a marker.
    pub const MAX: u64 = -4095_i64 as u64;

    /// `value` as a marker, `None` if it is an address.
    #[inline]
    pub const fn from_entry(value: u64) -> Option<Self> {
        if value >= Self::MAX {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The mode of the addresses that follow; `Unknown` for new markers.
    pub const fn cpu_mode(self) -> CpuMode {
        match self {
            Self::HV => CpuMode::Hypervisor,
            Self::KERNEL => CpuMode::Kernel,
            Self::USER | Self::USER_DEFERRED => CpuMode::User,
            Self::GUEST | Self::GUEST_KERNEL => CpuMode::GuestKernel,
            Self::GUEST_USER => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }
}

/// `config` of `PERF_TYPE_SOFTWARE` events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Software(pub u64);

impl Software {
    /// CPU time by the CPU's clock, ns.
    pub const CPU_CLOCK: Self = Self(0);
    /// CPU time of the task, ns.
    pub const TASK_CLOCK: Self = Self(1);
    /// A task leaves its CPU.
    pub const CONTEXT_SWITCHES: Self = Self(3);
    /// A task goes to another CPU.
    pub const CPU_MIGRATIONS: Self = Self(4);
    /// Counts nothing; carries side-band records.
    pub const DUMMY: Self = Self(9);
    /// A BPF program writes something.
    pub const BPF_OUTPUT: Self = Self(10);
    /// A task of another cgroup comes to a CPU.
    pub const CGROUP_SWITCHES: Self = Self(11);
}

#[cfg(test)]
mod tests {
    use super::{AuxFlags, BranchSampleType, CpuMode, Misc};

    #[test]
    fn aux_flags_are_bits_and_a_format() {
        // covers unit: AUX-07, AUX-08, AUX-09, AUX-10, AUX-11
        let flags = AuxFlags(0x105);
        assert!(flags.has(AuxFlags::TRUNCATED | AuxFlags::PARTIAL));
        assert!(!flags.has(AuxFlags::OVERWRITE) && !flags.has(AuxFlags::COLLISION));
        assert_eq!((flags.format(), flags.unknown()), (1, 0x100));
        let names: Vec<_> = AuxFlags::NAMES.iter().map(|&(bit, _)| bit.0).collect();
        assert_eq!(names, [1, 2, 4, 8]);
    }

    #[test]
    fn bits_of_misc_mean_something_else_in_each_record() {
        // covers unit: HDR-03, HDR-04, HDR-05, HDR-06, HDR-07, HDR-08, HDR-09, HDR-10, HDR-12, HDR-13
        let modes = [0, 1, 2, 3, 4, 5, 6].map(|mode| Misc(mode | 1 << 15).cpu_mode());
        let expected = [
            CpuMode::Unknown,
            CpuMode::Kernel,
            CpuMode::User,
            CpuMode::Hypervisor,
            CpuMode::GuestKernel,
            CpuMode::GuestUser,
            CpuMode::Unknown,
        ];
        assert_eq!(modes, expected);
        assert!(Misc(1 << 12).has(Misc::PROC_MAP_PARSE_TIMEOUT));
        for bit_13 in [
            Misc::MMAP_DATA,
            Misc::COMM_EXEC,
            Misc::FORK_EXEC,
            Misc::SWITCH_OUT,
        ] {
            assert_eq!(bit_13, Misc(1 << 13));
        }
        for bit_14 in [
            Misc::EXACT_IP,
            Misc::SWITCH_OUT_PREEMPT,
            Misc::MMAP_BUILD_ID,
        ] {
            assert_eq!(bit_14, Misc(1 << 14));
        }
    }

    #[test]
    fn branch_filters_have_the_kernels_bits() {
        // covers unit: BR-01, BR-03, BR-04, BR-06, BR-07, BR-08, BR-11
        let names: Vec<&str> = BranchSampleType::NAMES
            .iter()
            .map(|(_, name)| *name)
            .collect();
        let expected = [
            "USER",
            "KERNEL",
            "HV",
            "ANY",
            "ANY_CALL",
            "ANY_RETURN",
            "IND_CALL",
            "ABORT_TX",
            "IN_TX",
            "NO_TX",
            "COND",
            "CALL_STACK",
            "IND_JUMP",
            "CALL",
            "NO_FLAGS",
            "NO_CYCLES",
            "TYPE_SAVE",
            "HW_INDEX",
            "PRIV_SAVE",
            "COUNTERS",
        ];
        assert_eq!(names, expected);
        for (bit, (flag, _)) in BranchSampleType::NAMES.iter().enumerate() {
            assert_eq!(flag.0, 1 << bit);
        }
    }
}
