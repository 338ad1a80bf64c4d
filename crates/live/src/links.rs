//! Which function can have called which, from where.
//!
//! A return address read from a running process is believed only if its call
//! leads to the function that it is said to have called. A direct call shows
//! that itself, or refutes it unless it was seen before in a copied stack: a
//! tail call may have led on. Calls through pointers and linkage stubs leave
//! it open: such a link is learnt from a chain that went through it and was
//! confirmed by later samples.
//!
//! A function that was only ever called from one place was called from there at the
//! sample's time, too, if that is what its slot says later: whether the slot has changed
//! meanwhile then does not matter. So the outer frames of threads that were just started,
//! each time in the same way, need not be seen to stay.

use crate::processes::Processes;
use crate::stacks::{Beyond, OpenFile, StackUnwinder, UserState};
use prof_profile::Avma;
use prof_unwind::{CallBefore, CodeAt, Cursor, FunctionAt, Process, UnwindDsoId};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

/// Most links that are remembered.
const MAX_LINKS: usize = 1 << 18;

/// The call at an address of a file, and the function it ran, as a hash of
/// both: of this many, two that are the same by chance are not to be expected.
pub(super) type Link = u64;

/// Pairs of addresses that were looked up last; a power of two.
const RECENT: usize = 4096;

/// A function, and the place that called it, as hashes of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    callee: u64,
    caller: u64,
}

/// Who has called a function so far.
#[derive(Debug, Clone, Copy)]
struct Caller {
    place: u64,
    /// How often that was seen, each time the frame was another.
    times: u8,
    /// No other was.
    is_only: bool,
}

/// So often one place must have been seen to call a function to count as the only one
/// that does.
const ONLY: u8 = 5;

/// Links seen in copied stacks.
#[derive(Debug)]
pub(super) struct Links {
    seen: FxHashSet<Link>,
    /// By callee.
    callers: FxHashMap<u64, Caller>,
    /// Hashes of pairs of addresses, each at a place of its own: to look up
    /// what was learnt just before is most of the work.
    recent: Box<[u64]>,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            seen: FxHashSet::default(),
            callers: FxHashMap::default(),
            recent: vec![0; RECENT].into(),
        }
    }
}

/// Where to look things up for one sample.
pub(super) struct Around<'a, F> {
    pub(super) stacks: &'a mut StackUnwinder<F>,
    pub(super) processes: &'a Processes,
    pub(super) state: &'a UserState<'a>,
}

impl Links {
    /// Remembers that `caller` was found outside of `callee` in a copied
    /// stack.
    pub(super) fn learn<F: OpenFile>(
        &mut self,
        around: &mut Around<'_, F>,
        callee: &Cursor,
        caller: &Cursor,
    ) {
        if self.is_recent(around.state.pid, callee, caller) {
            return;
        }
        let mut beyond = ();
        // The caller last: its rules are looked up next.
        let callee = part(around, callee.lookup(), &mut beyond);
        let caller = part(around, caller.lookup(), &mut beyond);
        if let (Some(caller), Some(callee)) = (caller, callee) {
            if self.seen.len() >= MAX_LINKS {
                self.seen.clear();
                self.recent.fill(0);
            }
            self.seen.insert(link(&caller, &callee));
            if let Some(call) = Call::of(&caller, &callee) {
                self.count(call);
            }
        }
    }

    /// Remembers links and calls of a chain that was confirmed: of a frame larger than
    /// any copy no other way tells what called.
    pub(super) fn confirm(&mut self, links: &[Link], calls: &[Call]) {
        if self.seen.len() < MAX_LINKS {
            self.seen.extend(links);
        }
        calls.iter().for_each(|&call| self.count(call));
    }

    fn count(&mut self, call: Call) {
        if self.callers.len() >= MAX_LINKS {
            self.callers.clear();
        }
        let caller = self.callers.entry(call.callee).or_insert(Caller {
            place: call.caller,
            times: 0,
            is_only: true,
        });
        caller.times = caller.times.saturating_add(1);
        caller.is_only &= caller.place == call.caller;
    }

    /// Whether the function that a frame is in which returns to `callee` was only ever
    /// called from right before `caller`.
    pub(super) fn is_only_caller<F: OpenFile>(
        &self,
        around: &mut Around<'_, F>,
        (callee, caller): (u64, u64),
    ) -> bool {
        let mut beyond = ();
        let [callee, caller] = [callee, caller].map(|pc| {
            let at = Avma(pc.checked_sub(1)?);
            part(around, at, &mut beyond)
        });
        let (Some(callee), Some(caller)) = (callee, caller) else {
            return false;
        };
        Call::of(&caller, &callee).is_some_and(|call| self.is_only(call))
    }

    /// Whether no other place calls that function, as far as was ever seen.
    fn is_only(&self, call: Call) -> bool {
        let caller = self.callers.get(&call.callee);
        caller.is_some_and(|it| it.is_only && it.place == call.caller && it.times >= ONLY)
    }

    /// Whether this pair of a process was learnt just before; if not, it counts
    /// as such from now on. Where other code is mapped at both addresses by
    /// then, that is not learnt once.
    fn is_recent(&mut self, pid: i32, callee: &Cursor, caller: &Cursor) -> bool {
        let mut hasher = FxHasher::default();
        (pid, callee.lookup().0, caller.lookup().0).hash(&mut hasher);
        let hash = hasher.finish();
        let Some(recent) = self.recent.get_mut(hash as usize % RECENT) else {
            return false;
        };
        std::mem::replace(recent, hash) == hash
    }

    /// Whether the call that returns to `caller` can have led to `callee`.
    pub(super) fn judge<F: OpenFile>(
        &self,
        around: &mut Around<'_, F>,
        callee: &Cursor,
        caller: &Cursor,
        beyond: &mut impl Beyond,
    ) -> Judged {
        if caller.is_exact() {
            // Interrupted by a signal, not by a call.
            return Proof::Open.into();
        }
        // What a scheduler of Erlang's machine runs is called once, and never returns.
        let (told, pid) = (&around.stacks.told_rules, around.state.pid);
        if told.runs_schedulers(pid, callee.lookup().0) || told.stands_for_others(pid, caller.pc())
        {
            return Judged {
                is_only: true,
                ..Proof::Shown.into()
            };
        }
        let machine = caller.registers().machine();
        let call = {
            let (unwinder, mut process) = around.stacks.at(around.processes, around.state, beyond);
            unwinder.call_before(machine, caller.pc(), &mut process)
        };
        let target = match call {
            // Nothing called a goroutine, and that is what stands above each.
            Some(CallBefore::None) if begins_stacks(around, caller.lookup(), beyond) => {
                return Proof::Shown.into();
            }
            // Code whose runtime tells of it was shown to be returned to.
            Some(CallBefore::None) if is_told_of(around, caller.pc(), beyond) => {
                return Proof::Open.into();
            }
            // Nothing to be read: JIT code of a process that is gone.
            None | Some(CallBefore::None) => return Proof::Refuted.into(),
            Some(CallBefore::Direct(by)) => Some(caller.pc().wrapping_add_signed(by)),
            Some(CallBefore::Indirect) => None,
        };
        let callee = part(around, callee.lookup(), beyond);
        let caller = part(around, caller.lookup(), beyond);
        let (Some(callee), Some(caller)) = (callee, caller) else {
            // Code without unwind information: its frame pointer led here.
            return Proof::Open.into();
        };
        let link = link(&caller, &callee);
        let call = Call::of(&caller, &callee);
        let judged = |proof| self.judged(proof, call);
        if self.seen.contains(&link) {
            return judged(Proof::Shown);
        }
        let (Part::Function(callee), Part::Function(_)) = (callee, caller) else {
            return Proof::Open.into();
        };
        // Linkage stubs have no function of their own.
        let call_target = target.map(Avma);
        match call_target.and_then(|target| function(around, target, beyond)) {
            None => judged(Proof::Open).teaching(link),
            Some(target) if target.is_same(&callee) => judged(Proof::Shown),
            // Of a stub nothing is on the stack.
            Some(_) => match call_target
                .and_then(|at| stub_target(around, at, beyond))
                .and_then(|at| function(around, at, beyond))
            {
                Some(behind) if behind.is_same(&callee) => judged(Proof::Shown),
                _ => Proof::Refuted.into(),
            },
        }
    }

    /// What is judged of a call, with what is known of its caller.
    fn judged(&self, proof: Proof, call: Option<Call>) -> Judged {
        Judged {
            proof,
            link: None,
            call,
            is_only: call.is_some_and(|call| self.is_only(call)),
        }
    }
}

/// What is known of a call that was read from a running process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    pub(super) proof: Proof,
    /// If that stays open, and both functions are known, what is to be learnt once
    /// it is confirmed.
    pub(super) link: Option<Link>,
    /// If both functions are known, who called whom.
    pub(super) call: Option<Call>,
    /// Whether no other place calls that function, as far as was ever seen: then it
    /// did so at the time of the sample, too.
    pub(super) is_only: bool,
}

impl Judged {
    /// The same, with what is to be learnt of it once it is confirmed.
    fn teaching(self, link: Link) -> Self {
        Self {
            link: Some(link),
            ..self
        }
    }
}

impl From<Proof> for Judged {
    fn from(proof: Proof) -> Self {
        Self {
            proof,
            link: None,
            call: None,
            is_only: false,
        }
    }
}

/// What the code says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The function's code calls that function, or a stub that jumps there.
    Shown,
    /// It goes through a pointer or a stub: it may.
    Open,
    /// It goes elsewhere, and was not seen to end up there by a tail call.
    Refuted,
}

fn function<F: OpenFile>(
    around: &mut Around<'_, F>,
    at: Avma,
    beyond: &mut impl Beyond,
) -> Option<FunctionAt> {
    let machine = around.state.registers.machine();
    let (unwinder, mut process) = around.stacks.at(around.processes, around.state, beyond);
    unwinder.function(machine, at, &mut process)
}

fn stub_target<F: OpenFile>(
    around: &mut Around<'_, F>,
    start: Avma,
    beyond: &mut impl Beyond,
) -> Option<Avma> {
    let machine = around.state.registers.machine();
    let (unwinder, mut process) = around.stacks.at(around.processes, around.state, beyond);
    unwinder.stub_target(machine, start, &mut process)
}

fn begins_stacks<F: OpenFile>(
    around: &mut Around<'_, F>,
    at: Avma,
    beyond: &mut impl Beyond,
) -> bool {
    let machine = around.state.registers.machine();
    let (unwinder, mut process) = around.stacks.at(around.processes, around.state, beyond);
    unwinder.begins_goroutines(machine, at, &mut process)
}

fn is_told_of<F: OpenFile>(around: &mut Around<'_, F>, pc: u64, beyond: &mut impl Beyond) -> bool {
    let (_, mut process) = around.stacks.at(around.processes, around.state, beyond);
    process.runtime_code(Avma(pc)).is_some()
}

/// Code that calls or is called.
#[derive(Debug, Clone, Copy)]
enum Part {
    Function(FunctionAt),
    /// A place in code made at run time, of a process: where its
    /// functions begin is not known.
    Made(i32, Avma),
}

fn part<F: OpenFile>(
    around: &mut Around<'_, F>,
    at: Avma,
    beyond: &mut impl Beyond,
) -> Option<Part> {
    if let Some(function) = function(around, at, beyond) {
        return Some(Part::Function(function));
    }
    let (_, mut process) = around.stacks.at(around.processes, around.state, beyond);
    let is_made = process.place(at) == CodeAt::Anonymous;
    is_made.then_some(Part::Made(around.state.pid, at))
}

impl Call {
    /// Of functions of files only.
    fn of(caller: &Part, callee: &Part) -> Option<Self> {
        let (Part::Function(caller), Part::Function(callee)) = (caller, callee) else {
            return None;
        };
        let hash = |it: (UnwindDsoId, u64)| {
            let mut hasher = FxHasher::default();
            it.hash(&mut hasher);
            hasher.finish()
        };
        Some(Self {
            callee: hash((callee.dso, callee.start.0)),
            caller: hash((caller.dso, caller.at.0)),
        })
    }
}

fn link(caller: &Part, callee: &Part) -> Link {
    let mut hasher = FxHasher::default();
    match caller {
        Part::Function(caller) => (caller.dso, caller.at.0).hash(&mut hasher),
        Part::Made(pid, at) => (pid, at.0, true).hash(&mut hasher),
    }
    match callee {
        Part::Function(callee) => (callee.dso, callee.start.0).hash(&mut hasher),
        Part::Made(pid, at) => (pid, at.0, true).hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{Call, Links, ONLY};

    #[test]
    fn the_only_caller_is_one_that_was_seen_again_and_again() {
        let mut links = Links::default();
        let call = |callee, caller| Call { callee, caller };
        for times in 0..ONLY {
            assert!(!links.is_only(call(1, 10)), "{times}");
            links.confirm(&[], &[call(1, 10), call(2, 10)]);
        }
        assert!(links.is_only(call(1, 10)) && links.is_only(call(2, 10)));
        assert!(!links.is_only(call(1, 11)) && !links.is_only(call(3, 10)));
        // Another calls it, once.
        links.confirm(&[], &[call(1, 11)]);
        (0..ONLY).for_each(|_| links.confirm(&[], &[call(1, 10)]));
        assert!(!links.is_only(call(1, 10)) && !links.is_only(call(1, 11)));
        assert!(links.is_only(call(2, 10)));
    }
}
