//! Kernels of several years, and one that refuses a single thing, in the place
//! of perf_event_open(2).

use super::features::without_optional;
use super::ladder::Opened;
use super::{Why, open_best, unknown_to};
use crate::events::{Precision, parse};
use crate::options::{Options, Target};
use crate::output::Destination;
use crate::plan::plan;
use crate::planned::{Limits, Planned};
use prof_abi::{AttrFlags, ByteOrder, EventAttr, ReadFormat, SampleType, attr_size, event_kind};
use prof_sys::OpenError;

/// What a kernel knows, as `perf_copy_attr()` and `perf_event_alloc()` check
/// it.
#[derive(Debug, Clone)]
struct Fake {
    name: &'static str,
    size: u32,
    flags: u64,
    sample_type: u64,
    read_format: u64,
    branches: u64,
    /// Counters of inherited events in samples (6.13).
    inherited_reads: bool,
    /// The highest `precise_ip` of its hardware.
    precise: u8,
    /// Whether the machine has counters of its CPUs.
    has_pmu: bool,
    /// Whether this user may not watch the kernel.
    hides_kernel: bool,
    /// Whether such a user may not ask for its part of call chains (7.2).
    hides_chains: bool,
}

const fn first(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Bits of flags, of sample_type, of read_format and of branch filters, and the
/// attr's size, by the history of the header; distributions patch more in than that, never
/// less.
const fn kernel(name: &'static str, size: u32, bits: [u32; 4]) -> Fake {
    Fake {
        name,
        size,
        flags: first(bits[0]),
        sample_type: first(bits[1]),
        read_format: first(bits[2]),
        branches: first(bits[3]),
        inherited_reads: false,
        precise: 3,
        has_pmu: true,
        hides_kernel: false,
        hides_chains: false,
    }
}

fn kernels() -> Vec<Fake> {
    let newest = kernel("6.19", attr_size::VER9, [40, 25, 5, 20]);
    vec![
        // Until write_backward, REGS_INTR, GROUP.
        kernel("4.9", attr_size::VER5, [28, 19, 4, 16]),
        // namespaces, PHYS_ADDR.
        kernel("4.19", attr_size::VER5, [29, 20, 4, 17]),
        // ksymbol, bpf_event, aux_output.
        kernel("5.4", attr_size::VER5, [32, 20, 4, 17]),
        // cgroup, text_poke; AUX, CGROUP.
        kernel("5.10", attr_size::VER6, [34, 22, 4, 18]),
        // build_id to sigtrap; page sizes, WEIGHT_STRUCT.
        kernel("5.15", attr_size::VER7, [38, 25, 4, 18]),
        // LOST.
        kernel("6.1", attr_size::VER7, [38, 25, 5, 19]),
        // config3.
        kernel("6.6", attr_size::VER8, [38, 25, 5, 19]),
        Fake {
            inherited_reads: true,
            ..newest
        },
    ]
}

impl Fake {
    fn newest() -> Self {
        kernels().pop().expect("a list")
    }

    fn open(&self, attr: &EventAttr) -> Result<(), OpenError> {
        let refused = |errno| {
            Err(OpenError {
                source: std::io::Error::from_raw_os_error(errno),
                kernel_attr_size: (errno == libc::E2BIG).then_some(self.size),
            })
        };
        let bytes = attr.encode(ByteOrder::NATIVE);
        let behind = bytes.get(self.size as usize..).unwrap_or_default();
        if behind.iter().any(|&byte| byte != 0) {
            return refused(libc::E2BIG);
        }
        let weights = SampleType::WEIGHT | SampleType::WEIGHT_STRUCT;
        let reads_inherited =
            attr.sample_type.has(SampleType::READ) && attr.flags.has(AttrFlags::INHERIT);
        if attr.flags.0 & !self.flags != 0
            || attr.sample_type.0 & !self.sample_type != 0
            || attr.read_format.0 & !self.read_format != 0
            || attr.branch_sample_type.0 & !self.branches != 0
            || attr.sample_type.has(weights)
            || reads_inherited && !self.inherited_reads
        {
            return refused(libc::EINVAL);
        }
        if self.hides_kernel && !attr.flags.has(AttrFlags::EXCLUDE_KERNEL) {
            return refused(libc::EACCES);
        }
        if self.hides_chains
            && attr.sample_type.has(SampleType::CALLCHAIN)
            && !attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL)
        {
            return refused(libc::EACCES);
        }
        if attr.kind == event_kind::HARDWARE && !self.has_pmu {
            return refused(libc::ENOENT);
        }
        if attr.precise_ip() > self.precise {
            return refused(libc::EOPNOTSUPP);
        }
        Ok(())
    }

    /// Whether it has all that `attr` asks for.
    fn has(&self, attr: &EventAttr) -> bool {
        self.open(attr).is_ok()
    }
}

fn options() -> Options {
    let command = Target::Command(vec!["true".into()]);
    Options::new(command, Destination::File("x".into()))
}

/// What `record` plans with these events and options.
fn planned(events: &str, change: impl FnOnce(&mut Options)) -> Vec<Planned> {
    let mut options = options();
    change(&mut options);
    let limits = Limits {
        whole_cpus: crate::planned::OnCpus::Never,
        may_choose: true,
        highest_frequency: 100_000,
        cpus: 2,
    };
    plan(&options, &parse(events, 0).expect("events"), limits)
}

fn opened(kernel: &Fake, planned: &Planned) -> Result<Opened<()>, OpenError> {
    open_best(planned, |attr| kernel.open(attr))
}

/// Recordings that every kernel since 4.9 can make.
fn everywhere() -> Vec<Planned> {
    let mut all = planned("cpu-clock", |_| ());
    all.extend(planned("cycles:P", |_| ()));
    all.extend(planned("{cycles,page-faults}:S", |_| ()));
    all.extend(planned("page-faults/period=1/u", |options| {
        options.extras.weight = true;
        options.extras.thread_counts = true;
        options.build_ids = true;
    }));
    all.extend(planned("cycles", |options| {
        options.stacks = crate::options::Stacks::LastBranch;
    }));
    all.extend(planned("cpu-clock", |options| {
        options.stacks = crate::options::Stacks::Unwound(8192);
        options.extras.switches = true;
        options.target = Target::System;
    }));
    all
}

#[test]
fn every_kernel_since_4_9_gives_all_that_it_has() {
    for kernel in kernels() {
        for planned in everywhere() {
            let what = format!("{} on {}", planned.name, kernel.name);
            let opened =
                opened(&kernel, &planned).unwrap_or_else(|error| panic!("{what}: {error}"));
            let attr = &opened.planned.attr;
            assert!(kernel.has(attr), "{what}");
            if kernel.has(&planned.attr) && planned.precision != Precision::Highest {
                assert_eq!(*attr, planned.attr, "{what}");
            }
            // Each bit that is gone is one that the kernel lacks.
            let lost = planned.attr.flags.0 & !attr.flags.0;
            let inherit = AttrFlags::INHERIT | AttrFlags::INHERIT_STAT;
            let reads = planned.attr.sample_type.has(SampleType::READ);
            let inherits = if reads && !kernel.inherited_reads {
                inherit.0
            } else {
                0
            };
            assert_eq!(lost & kernel.flags & !inherits, 0, "{what}");
            let lost = planned.attr.read_format.0 & !attr.read_format.0;
            assert_eq!(lost & kernel.read_format, 0, "{what}");
            let lost = planned.attr.branch_sample_type.0 & !attr.branch_sample_type.0;
            assert_eq!(lost & kernel.branches, 0, "{what}");
            let lost = planned.attr.sample_type.0 & !attr.sample_type.0;
            assert_eq!(lost & kernel.sample_type, 0, "{what}");
            if planned.precision == Precision::Highest {
                assert_eq!(attr.precise_ip(), kernel.precise, "{what}");
            }
            assert_eq!(
                !opened.notices.is_empty(),
                inherits != 0 && lost_inherit(&planned, attr)
            );
        }
    }
}

fn lost_inherit(planned: &Planned, attr: &EventAttr) -> bool {
    planned.attr.flags.has(AttrFlags::INHERIT) && !attr.flags.has(AttrFlags::INHERIT)
}

#[test]
fn chains_are_deferred_where_a_kernel_can() {
    // covers unit: ATTR-58, ATTR-59
    let (chains, output) = (AttrFlags::DEFER_CALLCHAIN, AttrFlags::DEFER_OUTPUT);
    let planned = planned("cpu-clock,page-faults", |options| {
        options.stacks = crate::options::Stacks::Deferred;
    });
    // As perf 7.2 has it: all chains, and records of them where those of mappings are.
    let flags = |of: AttrFlags| planned.iter().map(move |it| it.attr.flags.has(of));
    assert!(flags(output).eq(flags(AttrFlags::MMAP2)) && flags(output).any(|has| has));
    for planned in planned {
        let samples = planned.attr.sample_type.has(SampleType::CALLCHAIN);
        assert_eq!(planned.attr.flags.has(chains), samples, "{}", planned.name);
        for kernel in kernels() {
            let opened = opened(&kernel, &planned).expect("chains are possible");
            let attr = &opened.planned.attr;
            let can = kernel.name == "6.19";
            assert_eq!(attr.flags.has(chains), can && samples, "{}", kernel.name);
            assert_eq!(attr.sample_type, planned.attr.sample_type);
            let told = opened
                .notices
                .iter()
                .filter(|it| it.contains("cannot defer"));
            assert_eq!(
                told.count(),
                usize::from(!can && samples),
                "{}",
                kernel.name
            );
        }
    }
    let bare = self::planned("cpu-clock", |options| {
        options.stacks = crate::options::Stacks::FramePointers;
    });
    assert!(bare.iter().all(|it| !it.attr.flags.has(chains | output)));
}

#[test]
fn what_an_option_needs_and_a_kernel_lacks_is_named_with_its_release() {
    type Change = fn(&mut Options);
    let asked: [(&str, &str, Change); 5] = [
        ("--data-page-size", "5.11", |options| {
            options.extras.data_page_size = true
        }),
        ("--code-page-size", "5.11", |options| {
            options.extras.code_page_size = true
        }),
        ("--all-cgroups", "5.7", |options| {
            options.extras.cgroups = true
        }),
        ("--phys-data", "4.14", |options| {
            options.extras.physical_addresses = true
        }),
        ("--namespaces", "4.12", |options| {
            options.extras.namespaces = true
        }),
    ];
    let number = |release: &str| {
        let (major, minor) = release.split_once('.').expect("two numbers");
        let number = |text: &str| text.parse::<u32>().expect("a number");
        (number(major), number(minor))
    };
    for kernel in kernels() {
        for (option, since, change) in asked {
            let planned = &planned("cpu-clock", change)[0];
            let is_new = number(since) > number(kernel.name);
            let opened = opened(&kernel, planned);
            assert_eq!(opened.is_err(), is_new, "{option} on {}", kernel.name);
            let unknown = unknown_to(&planned.attr, |attr| kernel.has(attr));
            if is_new {
                let unknown = unknown.expect("named");
                assert_eq!((unknown.option, unknown.why), (option, Why::Since(since)));
                assert!(unknown.sentence().contains(since));
            }
        }
    }
}

/// Every bit of the four words that may be refused alone.
fn each_bit(mut refused: impl FnMut(Fake, &str)) {
    for bit in 0..40 {
        let mut kernel = Fake::newest();
        kernel.flags &= !(1 << bit);
        refused(kernel, &format!("flag {bit}"));
    }
    for bit in 0..25 {
        let mut kernel = Fake::newest();
        kernel.sample_type &= !(1 << bit);
        refused(kernel, &format!("part {bit} of samples"));
    }
    for bit in 0..20 {
        let mut kernel = Fake::newest();
        kernel.branches &= !(1 << bit);
        refused(kernel, &format!("branches {bit}"));
    }
    for bit in 0..5 {
        let mut kernel = Fake::newest();
        kernel.read_format &= !(1 << bit);
        refused(kernel, &format!("part {bit} of counts"));
    }
}

#[test]
fn a_kernel_that_refuses_one_bit_costs_that_bit_or_is_told() {
    each_bit(|kernel, what| {
        for planned in everywhere() {
            let asks = !kernel.has(&planned.attr);
            match opened(&kernel, &planned) {
                Ok(opened) if asks => {
                    let (wanted, got) = (&planned.attr, &opened.planned.attr);
                    let gone = (wanted.flags.0 ^ got.flags.0) & !(3 << 15);
                    let gone = gone.count_ones()
                        + (wanted.sample_type.0 & !got.sample_type.0).count_ones()
                        + (wanted.branch_sample_type.0 ^ got.branch_sample_type.0).count_ones()
                        + (wanted.read_format.0 ^ got.read_format.0).count_ones();
                    // KSYMBOL and BPF_EVENT go together, so does INHERIT_STAT.
                    assert!((1..=2).contains(&gone), "{what}: {gone} of {wanted:?}");
                }
                Ok(opened) => {
                    let precise = AttrFlags::PRECISE_LOW | AttrFlags::PRECISE_HIGH;
                    let (wanted, got) = (planned.attr.flags, opened.planned.attr.flags);
                    assert_eq!(wanted.without(precise), got.without(precise), "{what}");
                }
                // What cannot be given up; the error is the kernel's own.
                Err(error) => assert_eq!((asks, error.errno()), (true, libc::EINVAL), "{what}"),
            }
        }
    });
}

#[test]
fn a_kernel_with_an_old_attr_is_told_by_its_size_and_the_term_is_named() {
    let mut newer = planned("cpu-clock", |_| ())[0].clone();
    newer.attr.config3 = 1;
    for kernel in kernels() {
        let knows = kernel.size >= attr_size::VER8;
        match opened(&kernel, &newer) {
            Ok(_) => assert!(knows, "{}", kernel.name),
            Err(error) => {
                assert_eq!(
                    (knows, error.errno()),
                    (false, libc::E2BIG),
                    "{}",
                    kernel.name
                );
                assert_eq!(error.kernel_attr_size, Some(kernel.size));
                let unknown = unknown_to(&newer.attr, |attr| kernel.has(attr));
                assert_eq!(unknown.map(|unknown| unknown.option), Some("config3="));
            }
        }
    }
}

#[test]
fn a_machine_without_counters_is_told_by_old_kernels_too() {
    for mut kernel in kernels() {
        kernel.has_pmu = false;
        for events in ["cycles", "cycles:P", "{cycles,page-faults}:S"] {
            let planned = planned(events, |options| options.build_ids = true);
            let refused = opened(&kernel, &planned[0]).expect_err("it has none");
            assert_eq!(refused.errno(), libc::ENOENT, "{events} on {}", kernel.name);
        }
        let clock = &planned("cpu-clock", |options| options.build_ids = true)[0];
        assert!(opened(&kernel, clock).is_ok(), "{}", kernel.name);
    }
}

#[test]
fn a_user_from_whom_old_kernels_hide_records_user_space() {
    for mut kernel in kernels() {
        kernel.hides_kernel = true;
        for events in ["cpu-clock", "cycles:P"] {
            let planned = &planned(events, |options| options.build_ids = true)[0];
            let opened = opened(&kernel, planned).expect("user space may be seen");
            let flags = opened.planned.attr.flags;
            assert!(flags.has(AttrFlags::EXCLUDE_KERNEL), "{}", kernel.name);
            assert_eq!(opened.notices.len(), 1, "{:?}", opened.notices);
        }
    }
}

#[test]
fn a_user_from_whom_new_kernels_hide_chains_has_those_of_user_space() {
    let mut kernel = Fake::newest();
    (kernel.hides_kernel, kernel.hides_chains) = (true, true);
    let stacks = [
        crate::options::Stacks::FramePointers,
        crate::options::Stacks::Unwound(8192),
    ];
    for (events, stacks) in ["cpu-clock", "cpu-clock:u"].iter().zip(stacks) {
        let planned = &planned(events, |options| options.stacks = stacks)[0];
        let opened = opened(&kernel, planned).expect("user space may be seen");
        let attr = opened.planned.attr;
        assert!(attr.sample_type.has(SampleType::CALLCHAIN), "{events}");
        assert!(attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL));
        let is_told = usize::from(*events == "cpu-clock");
        assert_eq!(opened.notices.len(), is_told, "{:?}", opened.notices);
        // Older ones are asked as before.
        kernel.hides_chains = false;
        let attr = open_best(planned, |attr| kernel.open(attr));
        let attr = attr.expect("user space may be seen").planned.attr;
        assert_eq!(
            attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL),
            planned.attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL)
        );
        kernel.hides_chains = true;
    }
}

#[test]
fn precision_is_that_of_the_hardware_on_old_kernels_too() {
    for mut kernel in kernels() {
        for precise in 0..=3 {
            kernel.precise = precise;
            let planned = &planned("cycles:P", |_| ())[0];
            let opened = opened(&kernel, planned).expect("less is possible");
            assert_eq!(opened.planned.attr.precise_ip(), precise, "{}", kernel.name);
        }
    }
}

#[test]
fn other_errors_are_not_tried_again() {
    let planned = &planned("cpu-clock:u", |_| ())[0];
    for errno in [
        libc::EMFILE,
        libc::ENOSYS,
        libc::ESRCH,
        libc::EBUSY,
        libc::ENODEV,
    ] {
        let mut tried = 0;
        let refused = open_best(planned, |_| -> Result<(), OpenError> {
            tried += 1;
            Err(OpenError {
                source: std::io::Error::from_raw_os_error(errno),
                kernel_attr_size: None,
            })
        });
        assert_eq!(refused.expect_err("refused").errno(), errno);
        assert_eq!(tried, 1, "{errno}");
    }
}

#[test]
fn clocks_of_hardware_events_are_those_that_an_interrupt_may_read() {
    // covers unit: ATTR-45
    let with_clock = |events: &str, clockid| {
        let mut planned = planned(events, |_| ())[0].clone();
        planned.attr.clockid = clockid;
        planned.attr.flags = planned.attr.flags | AttrFlags::USE_CLOCKID;
        // As perf_event_set_clock() has it.
        let opens = |attr: &EventAttr| {
            let is_safe = [1, 4].contains(&attr.clockid);
            !attr.flags.has(AttrFlags::USE_CLOCKID) || attr.kind == 1 || is_safe
        };
        unknown_to(&planned.attr, opens).map(|unknown| unknown.option)
    };
    assert_eq!(with_clock("cycles", libc::CLOCK_BOOTTIME), Some("-k"));
    assert_eq!(with_clock("r1a8", libc::CLOCK_REALTIME), Some("-k"));
    assert_eq!(with_clock("cycles", libc::CLOCK_MONOTONIC), None);
    assert_eq!(with_clock("cpu-clock", libc::CLOCK_TAI), None);
}

#[test]
fn nothing_that_was_asked_for_is_given_up() {
    let planned = &planned("cpu-clock", |options| {
        options.extras.cgroups = true;
        options.extras.data_page_size = true;
        options.extras.namespaces = true;
    })[0];
    let bare = without_optional(&planned.attr);
    assert!(bare.flags.has(AttrFlags::CGROUP | AttrFlags::NAMESPACES));
    assert!(bare.sample_type.has(SampleType::DATA_PAGE_SIZE));
    assert!(!bare.read_format.has(ReadFormat::LOST));
}
