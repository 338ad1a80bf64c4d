//! Chains of samples of a process that is made up.

use super::{Chains, Decided};
use crate::address_space::Access;
use crate::mapped_dsos::MappedDso;
use crate::memory::{PIECE, TargetMemory};
use crate::outbox::Verdict;
use crate::processes::{MapEvent, Processes};
use crate::stack_starts::ALIKE;
use crate::stacks::{OpenFile, UserState};
use crate::thread_sample::{Naming, ThreadSample};
use crate::threads::Whose;
use crate::user_chain::UserChain;
use prof_abi::CpuMode;
use prof_profile::{Avma, ChainEnd, FileOffset};
use prof_unwind::{Machine, Registers, StackDump};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Run-time code has no file.
struct NoFiles;

impl OpenFile for NoFiles {
    fn open(&mut self, _: &MappedDso, _: i32) -> Option<prof_unwind::UnwindDso> {
        None
    }
}

const CODE: u64 = 0x1_0000;
const STACK: u64 = 0x7000_0000;
/// Frames of the stack.
const FRAMES: u64 = 40;

/// A process whose code is nothing but calls through a register, and its
/// stack.
#[derive(Default)]
struct Process {
    stack: RefCell<Vec<u8>>,
    is_gone: Cell<bool>,
    /// How often its stack was read.
    reads: Cell<u32>,
    /// How often a walk read a piece of it.
    walked: Cell<u32>,
}

impl TargetMemory for Rc<Process> {
    fn read(&self, _: i32, address: u64, out: &mut [u8]) -> usize {
        let call = [0xff, 0xd0];
        if (CODE..CODE + 0x1000).contains(&address) {
            let at = |index| call[(address as usize + index) % 2];
            (0..out.len()).for_each(|index| out[index] = at(index));
            return out.len();
        }
        // Looking for a call before what may be its return address is no
        // reading of the stack: a page of code at most.
        let is_piece = out.len() > 4096;
        self.reads.set(self.reads.get() + u32::from(is_piece));
        let is_walk = out.len() == PIECE as usize;
        self.walked.set(self.walked.get() + u32::from(is_walk));
        let stack = self.stack.borrow();
        // What is below the stack reads as nothing.
        let byte = |at: u64| {
            let at = at.checked_sub(STACK).map(|at| at as usize);
            at.map_or(Some(0), |at| stack.get(at).copied())
        };
        if self.is_gone.get() {
            return 0;
        }
        let there = (address..).map_while(byte);
        out.iter_mut()
            .zip(there)
            .map(|(to, byte)| *to = byte)
            .count()
    }

    fn read_words(&self, pid: i32, addresses: &[u64], out: &mut [u64]) -> usize {
        self.reads.set(self.reads.get() + 1);
        let mut word = [0; 8];
        let mut read = |&address: &u64| {
            let is_whole = self.read(pid, address, &mut word) == 8;
            is_whole.then(|| u64::from_le_bytes(word))
        };
        let words = addresses.iter().map_while(&mut read);
        out.iter_mut()
            .zip(words)
            .map(|(to, word)| *to = word)
            .count()
    }
}

/// The return address in frame `number`, counted from the innermost one.
fn caller(number: u64) -> u64 {
    match number + 1 {
        FRAMES => 0,
        next => CODE + 0x100 + 0x10 * next,
    }
}

/// Frame records, each with its return address.
fn stack() -> Vec<u8> {
    let record = |number| {
        let next = STACK + 16 * (number + 1);
        [next, caller(number)].map(u64::to_le_bytes).concat()
    };
    (0..FRAMES).flat_map(record).collect()
}

/// The addresses of all frames.
fn whole() -> Vec<u64> {
    let callers = (0..FRAMES - 1).map(caller);
    [CODE + 0x100].into_iter().chain(callers).collect()
}

struct Fixture {
    process: Rc<Process>,
    processes: Processes,
    chains: Chains<NoFiles, Rc<Process>>,
    /// See [`ThreadSample::later_sp`].
    later_sp: u64,
    /// What is read with samples.
    pieces: Vec<(u64, Vec<u8>)>,
    /// What the kernel finds by frame pointers.
    frames: Vec<u64>,
    /// Samples are of a thread that was read while it slept.
    is_asleep: bool,
}

impl Fixture {
    fn new() -> Self {
        let process = Rc::new(Process {
            stack: RefCell::new(stack()),
            ..Process::default()
        });
        let mut processes = Processes::for_unwinding();
        processes.map(&MapEvent {
            pid: 7,
            mode: CpuMode::User,
            start: Avma(CODE),
            length: 0x1000,
            offset: FileOffset(0),
            inode: None,
            build_id: None,
            access: Access::EXECUTE,
            path: b"//anon",
        });
        Self {
            chains: Chains::new(NoFiles, Rc::clone(&process)),
            process,
            processes,
            later_sp: 0,
            pieces: Vec::new(),
            frames: Vec::new(),
            is_asleep: false,
        }
    }

    /// A sample of one drain, with `copied` bytes of the stack as it is.
    fn sample(&mut self, copied: usize) -> (Vec<u64>, Decided) {
        self.sample_of(0, copied)
    }

    /// The same where the frame of this number is the innermost one.
    fn sample_of(&mut self, number: usize, copied: usize) -> (Vec<u64>, Decided) {
        let start = STACK + 16 * number as u64;
        // Stack pointer and program counter, and before them the frame pointer.
        let (mask, values) = match self.is_asleep {
            true => (0b110 << 6, vec![start, CODE + 0x100]),
            false => (0b111 << 6, vec![start, start, CODE + 0x100]),
        };
        let registers = Registers::from_perf(Machine::X86_64, mask, values.into_iter());
        let bytes = self.process.stack.borrow()[16 * number..][..copied].to_vec();
        let sample = ThreadSample {
            tid: 7,
            state: UserState {
                pid: 7,
                registers: registers.expect("pc and sp"),
                dump: StackDump {
                    start,
                    bytes: &bytes,
                },
            },
            processes: &self.processes,
            pieces: &self.pieces,
            frames: &self.frames,
            told: &[],
            later_sp: self.later_sp,
            names: Naming::Proved,
        };
        self.chains.begin_drain();
        let mut chain = UserChain::default();
        let decided = self.chains.chain(&sample, &mut chain);
        (chain.pcs().collect(), decided)
    }
}

#[test]
fn what_was_copied_whole_needs_nothing_of_the_process() {
    let mut fixture = Fixture::new();
    let (chain, decided) = fixture.sample(stack().len());
    assert_eq!(chain, whole());
    let proven = Decided {
        end: ChainEnd::Root,
        trial: None,
    };
    assert_eq!((decided, fixture.process.reads.get()), (proven, 0));
}

#[test]
fn where_all_chains_end_is_told_to_who_copies() {
    let mut fixture = Fixture::new();
    let all = stack().len();
    let needed = |fixture: &Fixture| fixture.chains.starts.needed(7, STACK);
    (1..ALIKE).for_each(|_| drop(fixture.sample(all)));
    assert_eq!(needed(&fixture), None);
    fixture.sample(all);
    // The margin is beyond: all of the stack is needed here.
    let told = needed(&fixture).expect("told");
    assert!((all as u64..all as u64 + 512).contains(&told), "{told}");
    // Another stack, on which the thread runs in turns.
    let end = 16 * 20;
    fixture.process.stack.borrow_mut()[end..end + 16].fill(0);
    assert_eq!(fixture.sample(all).1.end, ChainEnd::Root);
    assert_eq!(needed(&fixture), None);
}

#[test]
fn what_lies_beyond_the_copy_is_believed_when_it_was_seen_to_stay() {
    let mut fixture = Fixture::new();
    let (first, decided) = fixture.sample(16 * 8);
    assert!(whole().starts_with(&first) && fixture.process.reads.get() > 0);
    assert_ne!(
        (decided.end, decided.trial),
        (ChainEnd::Root, None),
        "at once"
    );
    // The same again and again.
    let mut last = (first, None);
    for _ in 0..64 {
        let (chain, decided) = fixture.sample(16 * 8);
        assert!(whole().starts_with(&chain));
        last = (chain, decided.trial);
    }
    let (chain, trial) = last;
    assert_eq!(chain, whole());
    let trial = trial.expect("it rests on what was read later");
    assert_eq!(fixture.chains.judge(&trial), Verdict::Sure);
    assert!(whole().len() > trial.proven && trial.proven >= 8);
}

#[test]
fn a_slot_that_is_read_with_each_sample_is_not_in_doubt_for_ever() {
    let mut fixture = Fixture::new();
    (0..10).for_each(|_| drop(fixture.sample(16 * 8)));
    let slot = STACK + 16 * 20 + 8;
    let whose = Whose {
        tid: 7,
        has_fp: true,
    };
    let outer = fixture.chains.threads.of(whose);
    let at = outer.position(slot).expect("known");
    outer.changed(at, 0);
    let mut doubtful = outer.doubtful();
    assert!(doubtful.contains(&slot));
    fixture.pieces = vec![(slot, caller(20).to_le_bytes().to_vec())];
    for _ in 0..400 {
        fixture.sample(16 * 8);
        doubtful = fixture.chains.threads.of(whose).doubtful();
    }
    assert!(!doubtful.contains(&slot));
    assert_eq!(fixture.sample(16 * 8).0, whole());
}

/// The thread has gone on when the rest of its stack is read.
#[test]
fn a_word_that_came_with_a_sample_stands_above_what_is_there_later() {
    let mut fixture = Fixture::new();
    let slot = STACK + 16 * 20 + 8;
    fixture.pieces = vec![(slot, caller(20).to_le_bytes().to_vec())];
    let other = (CODE + 0x108).to_le_bytes();
    fixture.process.stack.borrow_mut()[16 * 20 + 8..][..8].copy_from_slice(&other);
    let (chain, decided) = fixture.sample(16 * 8);
    assert_eq!((chain, decided.end), (whole(), ChainEnd::Root));
}

#[test]
fn who_was_read_asleep_does_not_make_the_others_be_walked_anew() {
    let mut fixture = Fixture::new();
    (0..64).for_each(|_| drop(fixture.sample(16 * 8)));
    fixture.process.walked.set(0);
    for _ in 0..8 {
        fixture.is_asleep = true;
        fixture.sample(16 * 8);
        fixture.is_asleep = false;
        // Its own walk may read pieces.
        let before = fixture.process.walked.get();
        assert_eq!(fixture.sample(16 * 8).0, whole());
        assert_eq!(fixture.process.walked.get(), before);
    }
}

#[test]
fn without_the_process_a_chain_ends_where_its_copy_does() {
    let mut fixture = Fixture::new();
    fixture.process.is_gone.set(true);
    for _ in 0..64 {
        let (chain, decided) = fixture.sample(16 * 8);
        assert_eq!(chain, whole()[..9]);
        assert_eq!((decided.end, decided.trial), (ChainEnd::StackCut, None));
    }
}

#[test]
fn under_pressure_the_stack_of_the_process_is_not_read() {
    let mut fixture = Fixture::new();
    fixture.chains.pressed(true);
    let (chain, decided) = fixture.sample(16 * 8);
    assert_eq!(
        (chain, decided.end),
        (whole()[..9].to_vec(), ChainEnd::RecorderLate)
    );
    assert_eq!(fixture.process.reads.get(), 0);
}

#[test]
fn what_the_kernel_saw_as_well_is_believed_at_once() {
    let mut fixture = Fixture::new();
    fixture.frames = whole();
    // That nothing is outside of them it does not tell.
    fixture.pieces = vec![(STACK + stack().len() as u64 - 8, vec![0; 8])];
    let proven = Decided {
        end: ChainEnd::Root,
        trial: None,
    };
    let (chain, decided) = fixture.sample(16 * 8);
    assert_eq!((&chain, &decided), (&whole(), &proven));
    // From then on without a look at the process, pressed or not.
    fixture.process.reads.set(0);
    fixture.process.is_gone.set(true);
    for is_pressed in [false, true] {
        fixture.chains.pressed(is_pressed);
        assert_eq!(fixture.sample(16 * 8), (whole(), proven.clone()));
    }
    assert_eq!(fixture.process.reads.get(), 0);
    fixture.chains.pressed(false);
    let pieces = std::mem::take(&mut fixture.pieces);
    assert_ne!(fixture.sample(16 * 8), (whole(), proven.clone()));
    // It saw another caller this time.
    fixture.pieces = pieces;
    *fixture.frames.last_mut().expect("there are some") += 0x10;
    let (chain, decided) = fixture.sample(16 * 8);
    assert_ne!((chain, decided), (whole(), proven));
}

/// Its calls go through a register and say nothing: one look is not enough,
/// later ones decide.
#[test]
fn a_chain_that_was_never_seen_goes_on_trial() {
    for stays in [true, false] {
        let mut fixture = Fixture::new();
        let (chain, decided) = fixture.sample(16 * 8);
        assert_eq!((chain, decided.end), (whole(), ChainEnd::Root));
        let first = decided.trial.expect("it rests on what was read later");
        assert_eq!(fixture.chains.judge(&first), Verdict::Unsure);
        if !stays {
            let other = (CODE + 0x108).to_le_bytes();
            fixture.process.stack.borrow_mut()[16 * 20 + 8..][..8].copy_from_slice(&other);
        }
        for _ in 0..16 {
            fixture.sample(16 * 8);
        }
        let is_sure = fixture.chains.judge(&first) == Verdict::Sure;
        assert_eq!(is_sure, stays);
    }
}

/// The return address of 0 that ends the chain is the only word that was not
/// copied: what is read there later may be of another time.
#[test]
fn a_thread_starts_where_its_zero_was_seen_to_stay() {
    for stays in [true, false] {
        let mut fixture = Fixture::new();
        let all_but_it = stack().len() - 8;
        let (chain, decided) = fixture.sample(all_but_it);
        assert_eq!((chain, decided.end), (whole(), ChainEnd::Root));
        let first = decided.trial.expect("it rests on what was read later");
        assert_eq!(
            first.slots,
            STACK + all_but_it as u64..=STACK + all_but_it as u64
        );
        assert_eq!(fixture.chains.judge(&first), Verdict::Unsure);
        if !stays {
            let other = (CODE + 0x108).to_le_bytes();
            fixture.process.stack.borrow_mut()[all_but_it..].copy_from_slice(&other);
        }
        for _ in 0..16 {
            fixture.sample(all_but_it);
        }
        let is_sure = fixture.chains.judge(&first) == Verdict::Sure;
        assert_eq!(is_sure, stays);
    }
}

#[test]
fn a_chain_of_a_thread_that_moved_on_is_cut_at_first() {
    let mut fixture = Fixture::new();
    fixture.later_sp = STACK + 16 * 30;
    let (chain, decided) = fixture.sample(16 * 8);
    assert!(chain.len() < whole().len() && whole().starts_with(&chain));
    assert_eq!((decided.end, decided.trial), (ChainEnd::Unproven, None));
}

/// Levels of a recursion.
const LEVELS: usize = 1500;
/// Where it calls itself.
const AGAIN: u64 = CODE + 0x200;

/// A process that is so deep in a recursion, without what it does innermost.
fn recursion() -> Fixture {
    let fixture = Fixture::new();
    let record = |level: usize| {
        let next = STACK + 16 * (level as u64 + 1);
        let pc = if level + 1 < LEVELS { AGAIN } else { 0 };
        [next, pc].map(u64::to_le_bytes).concat()
    };
    *fixture.process.stack.borrow_mut() = (0..LEVELS).flat_map(record).collect();
    fixture
}

/// What its chain is from the frame of this number on.
fn recursion_from(number: usize) -> Vec<u64> {
    let callers = LEVELS - 1 - number;
    [CODE + 0x100]
        .into_iter()
        .chain(vec![AGAIN; callers])
        .collect()
}

/// Bytes copied with its samples.
const OF_RECURSION: usize = 16 * 8;

#[test]
fn frames_that_a_thread_comes_back_to_are_not_walked_anew() {
    let mut fixture = recursion();
    assert_eq!(fixture.sample(OF_RECURSION).0, recursion_from(0));
    assert!(fixture.process.walked.replace(0) > 0);
    for number in [700, 1200, 100, 999] {
        let (chain, decided) = fixture.sample_of(number, OF_RECURSION);
        assert_eq!(chain, recursion_from(number));
        assert_eq!(decided.end, ChainEnd::Root);
        // Down again, through all that was left.
        let (chain, decided) = fixture.sample(OF_RECURSION);
        assert_eq!((chain, decided.end), (recursion_from(0), ChainEnd::Root));
        let slots = decided.trial.expect("read later than the sample").slots;
        assert_eq!(*slots.end(), STACK + 16 * LEVELS as u64 - 8);
    }
    assert_eq!(fixture.process.walked.get(), 0);
}

/// A word of a frame that the thread had left has changed when it comes back.
#[test]
fn frames_that_changed_meanwhile_are_found_as_they_are() {
    const OTHER: u64 = CODE + 0x300;
    for changed in [10, 64, 300, 699] {
        let mut fixture = recursion();
        fixture.sample(OF_RECURSION);
        fixture.sample_of(700, OF_RECURSION);
        let word = changed * 16 + 8..changed * 16 + 16;
        fixture.process.stack.borrow_mut()[word].copy_from_slice(&OTHER.to_le_bytes());
        let (chain, _) = fixture.sample(OF_RECURSION);
        let mut expected = recursion_from(0);
        expected[changed + 1] = OTHER;
        assert!(expected.starts_with(&chain), "{changed}");
        // The frame pointer of another frame leads past some frames.
        let mut fixture = recursion();
        fixture.sample(OF_RECURSION);
        fixture.sample_of(700, OF_RECURSION);
        let word = changed * 16..changed * 16 + 8;
        let further = STACK + 16 * 900;
        fixture.process.stack.borrow_mut()[word].copy_from_slice(&further.to_le_bytes());
        let (chain, decided) = fixture.sample(OF_RECURSION);
        let mut expected = recursion_from(0);
        expected.truncate(changed + 1 + LEVELS - 900);
        assert!(expected.starts_with(&chain), "{changed}");
        assert!(
            decided.end != ChainEnd::Root || chain == expected,
            "{changed}"
        );
    }
}

#[test]
fn under_pressure_frames_are_not_compared_with_the_process() {
    let mut fixture = recursion();
    fixture.sample(OF_RECURSION);
    fixture.sample_of(700, OF_RECURSION);
    fixture.process.reads.set(0);
    fixture.chains.pressed(true);
    let (chain, decided) = fixture.sample(OF_RECURSION);
    assert_eq!(decided.end, ChainEnd::RecorderLate);
    assert!(chain.len() < 12 && recursion_from(0).starts_with(&chain));
    assert_eq!(fixture.process.reads.get(), 0);
}
