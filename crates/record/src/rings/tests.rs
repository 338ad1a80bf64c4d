//! Sharing out on machines of 1 to 256 CPUs, with a kernel that counts as the
//! real one does.

use super::{ENOUGH, Lockable, RingLimit, RingMemory, Size, share_out};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// How `perf_mmap()` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Formula {
    /// Since Linux 5.5.
    Current,
    /// Before, what is beyond the user's part was counted again with each
    /// ring, and only `mm->pinned_vm` was checked.
    Before5_5,
}

/// The counters of one user, in pages.
#[derive(Debug, Clone)]
struct Kernel {
    formula: Formula,
    /// `sysctl_perf_event_mlock` times CPUs.
    user_limit: u64,
    /// `user->locked_vm`.
    locked: u64,
}

/// `mm->pinned_vm` and `RLIMIT_MEMLOCK` of one recorder, in pages.
#[derive(Debug, Clone)]
struct Process {
    limit: u64,
    pinned: u64,
}

/// Refused with EPERM.
#[derive(Debug, PartialEq, Eq)]
struct Refused;

impl Kernel {
    /// Maps a ring, as `perf_mmap()` decides.
    fn map(&mut self, process: &mut Process, bytes: u64) -> Result<(), Refused> {
        assert!(bytes.is_power_of_two() && bytes >= PAGE, "EINVAL");
        let pages = bytes / PAGE + 1;
        let locked = match self.formula {
            Formula::Current => self.locked.min(self.user_limit),
            Formula::Before5_5 => self.locked,
        };
        let extra = (locked + pages).saturating_sub(self.user_limit);
        if process.pinned + extra > process.limit {
            return Err(Refused);
        }
        process.pinned += extra;
        self.locked += match self.formula {
            Formula::Current => pages - extra,
            Formula::Before5_5 => pages,
        };
        Ok(())
    }

    /// Maps all rings or none.
    fn map_all(&mut self, process: &mut Process, rings: u64, bytes: u64) -> Result<u64, Refused> {
        let before = (self.clone(), process.clone());
        for _ in 0..rings {
            if self.map(process, bytes).is_err() {
                (*self, *process) = before;
                return Err(Refused);
            }
        }
        Ok(bytes)
    }

    /// A recorder from its plan to its rings: bytes of each, and refusals.
    fn record(&mut self, lockable: &Lockable, rings: u64, wanted: u64) -> (Option<u64>, u32) {
        let mut process = Process {
            limit: lockable.process / PAGE,
            pinned: 0,
        };
        let mut tried = 0;
        let given = share_out(
            lockable.sizes(rings, wanted),
            |_| true,
            |bytes| {
                tried += 1;
                self.map_all(&mut process, rings, bytes)
            },
        );
        match given {
            Ok(bytes) => (Some(bytes), tried - 1),
            Err(Refused) => (None, tried),
        }
    }
}

/// Limits of a process: none at all, each kind of round number, and odd ones.
fn process_limits() -> Vec<u64> {
    let mut limits = vec![0, u64::MAX, 5 * PAGE, 1000 * 1000, 8 * MIB - 1];
    limits.extend((12..=34).map(|bits| 1 << bits));
    limits
}

/// Every machine of 1 to 256 CPUs with every limit.
fn each_machine(mut check: impl FnMut(Kernel, Lockable, u64, u64)) {
    for cpus in 1..=256 {
        for process in process_limits() {
            for per_cpu in [0, 4, 64, 516, 2052] {
                for wanted in [512 << 10, 8 * MIB] {
                    let lockable = Lockable {
                        user: per_cpu * 1024 * cpus,
                        cpus,
                        process,
                        page: PAGE,
                    };
                    let kernel = Kernel {
                        formula: Formula::Current,
                        user_limit: lockable.user / PAGE,
                        locked: 0,
                    };
                    check(kernel, lockable, cpus, wanted);
                }
            }
        }
    }
}

#[test]
fn a_lone_recorder_gets_equal_rings_wherever_the_smallest_fit() {
    each_machine(|mut kernel, lockable, cpus, wanted| {
        let what = format!("{cpus} CPUs, {lockable:?}, {wanted} wanted");
        let (given, refusals) = kernel.clone().record(&lockable, cpus, wanted);
        // What the kernel itself says of rings of one page each.
        let mut process = Process {
            limit: lockable.process / PAGE,
            pinned: 0,
        };
        let possible = kernel.map_all(&mut process, cpus, PAGE).is_ok();
        assert_eq!(given.is_some(), possible, "{what}");
        let Some(given) = given else {
            assert_eq!(refusals, 1, "the plan knew: {what}");
            return;
        };
        assert_eq!(refusals, 0, "the plan knew: {what}");
        assert!(given.is_power_of_two() && given <= wanted, "{what}");
        // At most halved twice for a recorder beside it.
        let fits = |bytes| lockable.allows(lockable.locked_by(cpus, bytes));
        assert!(
            given == wanted || !fits(given * 4) || lockable.process / cpus < 2 * ENOUGH,
            "{given} of {what}"
        );
        assert!(given >= ENOUGH || !fits(given * 4), "{given} of {what}");
    });
}

#[test]
fn two_recorders_of_one_user_work_side_by_side() {
    each_machine(|mut kernel, lockable, cpus, wanted| {
        let what = format!("{cpus} CPUs, {lockable:?}, {wanted} wanted");
        let (first, _) = kernel.record(&lockable, cpus, wanted);
        let (second, _) = kernel.record(&lockable, cpus, wanted);
        match first {
            // Nothing is left to share.
            None | Some(PAGE) => {}
            Some(first) => {
                let second = second.unwrap_or_else(|| panic!("refused: {what}"));
                assert!(second >= (first / 2).min(ENOUGH), "{second}: {what}");
            }
        }
    });
}

#[test]
fn an_ordinary_user_has_large_rings_on_every_machine() {
    // The kernel's and systemd's defaults, as of `record -g`.
    let given = |cpus: u64| {
        let lockable = Lockable {
            user: 516 * 1024 * cpus,
            cpus,
            process: 8 * MIB,
            page: PAGE,
        };
        let mut kernel = Kernel {
            formula: Formula::Current,
            user_limit: lockable.user / PAGE,
            locked: 0,
        };
        kernel.record(&lockable, cpus, 8 * MIB)
    };
    for (cpus, kib) in [
        (1, 8192),
        (2, 4096),
        (4, 2048),
        (6, 1024),
        (8, 1024),
        (12, 1024),
        (16, 1024),
        (20, 512),
        (24, 512),
        (32, 512),
        (48, 512),
        (96, 256),
        (256, 256),
    ] {
        assert_eq!(given(cpus), (Some(kib << 10), 0), "{cpus} CPUs");
    }
}

#[test]
fn what_others_hold_is_found_out_by_halving() {
    let lockable = Lockable {
        user: 2 * 516 * 1024,
        cpus: 2,
        process: 0,
        page: PAGE,
    };
    for taken in 0..=258 {
        let mut kernel = Kernel {
            formula: Formula::Current,
            user_limit: 258,
            locked: taken,
        };
        let (given, _) = kernel.record(&lockable, 2, 8 * MIB);
        // Two rings of a page and their control pages.
        assert_eq!(given.is_some(), taken <= 258 - 4, "{taken} pages taken");
        if let Some(given) = given {
            let left = (258 - taken) * PAGE;
            assert!(2 * (given + PAGE) <= left && given <= 256 << 10);
            let twice = 2 * (2 * given + PAGE) <= left;
            assert!(!twice || given == 256 << 10, "{given} with {taken} taken");
        }
    }
}

#[test]
fn old_kernels_count_more_and_still_give_rings() {
    // covers unit: RING-16, SYS-06
    each_machine(|kernel, lockable, cpus, wanted| {
        let mut old = Kernel {
            formula: Formula::Before5_5,
            ..kernel
        };
        let mut process = Process {
            limit: lockable.process / PAGE,
            pinned: 0,
        };
        let possible = old.clone().map_all(&mut process, cpus, PAGE).is_ok();
        let (given, _) = old.record(&lockable, cpus, wanted);
        assert_eq!(given.is_some(), possible, "{cpus} CPUs, {lockable:?}");
    });
}

#[test]
fn what_is_not_for_room_is_not_tried_again() {
    let mut tried = Vec::new();
    let result: Result<(), i32> = share_out(
        [8, 4, 2],
        |&errno| errno == 1,
        |size| {
            tried.push(size);
            Err(if size == 8 { 1 } else { 22 })
        },
    );
    assert_eq!((result, tried), (Err(22), vec![8, 4]));
}

#[test]
fn what_was_given_is_told_with_what_was_wanted() {
    let full = RingMemory {
        rings: 2,
        bytes: 8 * MIB,
        wanted: 8 * MIB,
        limit: None,
        piece: None,
    };
    assert_eq!(full.to_string(), "2 rings of 8 MiB");
    for (limit, name) in [
        (RingLimit::Locked, "ulimit -l"),
        (RingLimit::AddressSpace, "ulimit -v"),
        (RingLimit::Memory, "no more memory"),
    ] {
        let less = RingMemory {
            rings: 1,
            bytes: 256 << 10,
            limit: Some(limit),
            ..full
        };
        let expected = format!("1 ring of 256 KiB instead of 8 MiB ({name})");
        assert_eq!(less.to_string(), expected);
    }
    let of = RingLimit::of_refusal;
    assert_eq!(of(libc::EPERM, Some(1 << 20)), RingLimit::Locked);
    assert_eq!(of(libc::ENOMEM, Some(1 << 20)), RingLimit::AddressSpace);
    assert_eq!(of(libc::ENOMEM, None), RingLimit::Memory);
    assert_eq!(Size(1536 << 10).to_string(), "1536 KiB");
}

#[test]
fn more_room_is_what_the_limits_leave() {
    let lockable = Lockable {
        user: 1032 << 10,
        cpus: 2,
        process: 64 << 10,
        page: 4096,
    };
    let of = |bytes, limit, lockable: Lockable| {
        let rings = RingMemory {
            rings: 2,
            bytes,
            wanted: 8 * MIB,
            limit,
            piece: None,
        };
        rings.more_room(&lockable, "sudo sysctl")
    };
    let root = Lockable {
        process: u64::MAX,
        ..lockable
    };
    assert_eq!(of(8 * MIB, None, root), "-m 16M");
    assert_eq!(of(32 * MIB, None, root), "-m 64M");
    assert_eq!(
        of(256 << 10, Some(RingLimit::Locked), lockable),
        "sudo sysctl kernel.perf_event_mlock_kb=8712, or a lower -F"
    );
    // As large as asked for, and no larger one may be locked.
    assert_eq!(
        of(8 * MIB, None, lockable),
        "sudo sysctl kernel.perf_event_mlock_kb=16904 and -m 16M, or a lower -F"
    );
    let by_space = of(256 << 10, Some(RingLimit::AddressSpace), lockable);
    assert_eq!(by_space, "a lower -F");
}
