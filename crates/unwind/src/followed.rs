//! Frames of functions in files without unwind information, by their code.
//!
//! Assembly, and programs built without tables. The frame pointer is a general
//! register there, and stacks are full of old return addresses: a caller is
//! believed only if its call goes to a function whose code leads to the
//! callee's place with the return address exactly where it was found, or if the
//! callee's own code tells where it is: by keeping a frame pointer, or on its way to
//! a return.

use crate::code_frame::{CallerFp, CodeFrame, OwnFp, Slot, Wanted};
use crate::cursor::{Caller, DsoFrame};
use crate::dso::Start;
use crate::{
    Base, CallBefore, CodeAt, FpFrom, Machine, Process, Registers, StepBy, UnwindDsoId, Unwinder,
    fallback, signal_frame,
};
use prof_profile::{Avma, Bias, ChainEnd, Svma};

/// Slots of the stack in which a return address is looked for: frames of up
/// to 4 KiB on 64 bits. Larger ones are found by frame pointer, or where the code
/// from a symbol on, or up to a return, has the return address.
const SLOTS: u64 = 512;
/// How far above the word that keeps it a stack pointer is that was not aligned yet,
/// bytes: registers are saved between them, and what aligning leaves free.
const MOST_ABOVE_KEPT: u64 = 4096;
/// Code before a place in which the beginning of its function is looked for.
const BEFORE: u64 = 4096;
/// How much of a beginning may lie behind the place, bytes.
const BEGINNING: u64 = 16;
/// Beginnings that are tried.
const MAX_BEGINNINGS: usize = 8;
/// Places that the file has the address of that are tried.
const MAX_POINTED: usize = 64;
/// Places at which a function may begin that are tried, one every 16 bytes.
const ALIGNED: u64 = 64;

/// The caller of a frame in a dso without rules for it.
pub(crate) fn caller(
    unwinder: &mut Unwinder,
    at: DsoFrame<'_>,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let mut frame = Followed::new(unwinder, at);
    if frame.is_thread_start() {
        return Err(ChainEnd::Root);
    }
    if let Some(caller) = frame.by_epilogue(process) {
        return Ok(caller);
    }
    // Of an interrupted frame what is on top of the stack says more.
    if !frame.is_exact
        && let Some(caller) = frame.by_kept_fp(process)
    {
        return Ok(caller);
    }
    if let Some(caller) = frame.as_before(process) {
        return Ok(caller);
    }
    let is_cut = match frame.by_direct_call(process) {
        Search::Found(caller) => {
            frame.remember(&caller);
            return Ok(caller);
        }
        Search::Nothing { is_cut } => is_cut,
    };
    let by_symbol = frame.by_symbol(process);
    // That nothing is above it says nothing of where the place has it elsewhere.
    if by_symbol.is_none()
        && let Some(caller) = frame.by_first_call(process)
    {
        return Ok(caller);
    }
    let found = by_symbol
        .or_else(|| frame.by_beginning(process))
        .or_else(|| frame.by_kept_fp(process))
        .or_else(|| frame.by_returns(process))
        .or_else(|| frame.by_abi(process))
        .or_else(|| frame.by_pointer(process));
    match found {
        Some(caller) => {
            frame.remember(&caller);
            Ok(caller)
        }
        None if is_cut => Err(ChainEnd::StackCut),
        None => Err(ChainEnd::NoUnwindInfo),
    }
}

/// The caller of a frame in the function at `start`, as far as its code tells
/// it.
pub(crate) fn in_known_function(
    unwinder: &mut Unwinder,
    at: DsoFrame<'_>,
    start: Svma,
    process: &mut impl Process,
) -> Option<Caller> {
    let mut frame = Followed::new(unwinder, at);
    let (machine, wanted) = (frame.machine(), frame.wanted());
    let dso = frame.unwinder.dsos.get_mut(frame.id)?;
    let found = dso.code_frame(start, wanted, machine);
    let found = found.or_else(|| dso.pad_frame(start, wanted, machine))?;
    let caller = frame.caller_at(&found, process)?;
    let before = frame.call_before(&caller.registers, process)?;
    before.is_call().then_some(caller)
}

/// The caller of a frame of V8's own code, in the function at `start`: it
/// keeps frame pointers and calls through tables, jumps between functions
/// included, so what it was called by need not lead to it.
pub(crate) fn in_builtin(
    unwinder: &mut Unwinder,
    at: DsoFrame<'_>,
    start: Svma,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    if at.cursor.is_exact()
        && let Some(caller) = fallback::leaving(unwinder, at.cursor.registers(), process)
    {
        return Ok(caller);
    }
    let mut frame = Followed::new(unwinder, at);
    if let Some(caller) = frame.by_epilogue(process) {
        return Ok(caller);
    }
    let (machine, wanted) = (frame.machine(), frame.wanted());
    let dso = frame.unwinder.dsos.get_mut(frame.id);
    let found = dso.and_then(|dso| {
        let found = dso.code_frame(start, wanted, machine);
        // Some leave out who called them, and make a frame then; others are jumped to, and
        // take the frame down of who did.
        let makes_none = |found: &CodeFrame| found.caller_fp == Some(CallerFp::InRegister);
        match found.filter(|found| !makes_none(found)) {
            Some(found) => Some(found),
            None => dso.frame_by_fp(wanted, machine).or(found),
        }
    });
    let found = found.ok_or(ChainEnd::NoUnwindInfo)?;
    let caller = frame.caller_at(&found, process);
    let caller = caller.ok_or(ChainEnd::StackCut)?;
    let before = frame.call_before(&caller.registers, process);
    match before.is_none_or(CallBefore::is_call) {
        true => Ok(caller),
        false => Err(ChainEnd::Unproven),
    }
}

/// What came of looking through a stack.
#[expect(clippy::large_enum_variant, reason = "made once a frame, never kept")]
enum Search {
    Found(Caller),
    /// `is_cut`: the stack was not all there.
    Nothing {
        is_cut: bool,
    },
}

/// A frame whose caller is looked for.
struct Followed<'a> {
    unwinder: &'a mut Unwinder,
    registers: Registers,
    id: UnwindDsoId,
    bias: Bias,
    is_exact: bool,
}

impl<'a> Followed<'a> {
    fn new(unwinder: &'a mut Unwinder, at: DsoFrame<'_>) -> Self {
        let DsoFrame { cursor, id, bias } = at;
        Self {
            unwinder,
            registers: *cursor.registers(),
            id,
            bias,
            is_exact: cursor.is_exact(),
        }
    }

    fn machine(&self) -> Machine {
        self.registers.machine()
    }

    fn word(&self) -> u64 {
        u64::from(self.machine().word())
    }

    /// The frame's place in its file.
    fn wanted(&self) -> Wanted {
        let pc = self.bias.to_svma(Avma(self.registers.pc())).0;
        match self.is_exact {
            true => Wanted::Exact(pc),
            false => Wanted::Return(pc),
        }
    }

    /// The frame in the function at `entry`, if that leads here.
    fn in_function(&mut self, entry: u64) -> Option<CodeFrame> {
        let (machine, wanted) = (self.machine(), self.wanted());
        let entry = self.bias.to_svma(Avma(entry));
        let dso = self.unwinder.dsos.get_mut(self.id)?;
        dso.code_frame(entry, wanted, machine)
    }

    /// Whether nothing called the frame: it is in the function at which the
    /// file is entered, or in that which starts threads, or where a stack that a program
    /// made for itself ends.
    fn is_thread_start(&mut self) -> bool {
        let (machine, wanted) = (self.machine(), self.wanted());
        let Some(dso) = self.unwinder.dsos.get_mut(self.id) else {
            return false;
        };
        match wanted {
            // A thread's start clears the frame pointer; callees may not have
            // told it.
            Wanted::Return(at) if !dso.is_in_entry(wanted, machine) => {
                let fp = self.registers.fp();
                match dso.start(Svma(at), machine) {
                    Some(Start::Thread) => fp.is_none_or(|fp| fp == 0),
                    Some(Start::Last) => true,
                    None => false,
                }
            }
            _ => dso.is_in_entry(wanted, machine),
        }
    }

    /// The caller, if only pops and a return follow.
    fn by_epilogue(&mut self, process: &mut impl Process) -> Option<Caller> {
        let Wanted::Exact(pc) = self.wanted() else {
            return None;
        };
        let dso = self.unwinder.dsos.get(self.id)?;
        let frame = dso.epilogue(Svma(pc), self.machine())?;
        let caller = self.caller_at(&frame, process)?;
        self.call_before(&caller.registers, process)?
            .is_call()
            .then_some(caller)
    }

    /// The caller where it was found when the frame's place was met before, if what
    /// stands there now may be its return address too.
    fn as_before(&mut self, process: &mut impl Process) -> Option<Caller> {
        let wanted = self.wanted();
        let frame = self.unwinder.dsos.get(self.id)?.found_frame(wanted)?;
        let caller = self.caller_at(&frame, process)?;
        self.may_come_here(&caller, process)?.then_some(caller)
    }

    /// Remembers where the caller was found.
    fn remember(&mut self, caller: &Caller) {
        let wanted = self.wanted();
        if let Some(frame) = self.frame_of(caller)
            && let Some(dso) = self.unwinder.dsos.get_mut(self.id)
        {
            dso.keep_found_frame(wanted, frame);
        }
    }

    /// The frame by which [`Self::caller_at`] tells the caller.
    fn frame_of(&self, caller: &Caller) -> Option<CodeFrame> {
        let slot = caller.slot?;
        let above = |address: u64| slot.wrapping_sub(address).cast_signed();
        Some(CodeFrame {
            return_address: match caller.base {
                Base::Stack => Slot::FromSp(above(self.registers.sp())),
                Base::Frame => Slot::FromFp(above(self.registers.fp()?)),
                _ => return None,
            },
            caller_fp: match caller.fp {
                FpFrom::Callee => Some(CallerFp::InRegister),
                FpFrom::Memory(at) => Some(CallerFp::Saved(above(at))),
                FpFrom::Other => None,
            },
        })
    }

    /// The caller by a return address whose call goes to this function.
    fn by_direct_call(&mut self, process: &mut impl Process) -> Search {
        let (sp, word) = (self.registers.sp(), self.word());
        let by_fp = self.registers.fp().filter(|&fp| fp >= sp);
        let by_fp = by_fp.and_then(|fp| fp.checked_add(word));
        let slots = (0..SLOTS).filter_map(|number| sp.checked_add(number * word));
        let mut is_cut = false;
        for slot in by_fp.into_iter().chain(slots) {
            let Some(value) = process.word(slot, self.machine().word()) else {
                is_cut = true;
                if Some(slot) == by_fp {
                    continue;
                }
                break;
            };
            if let Some(caller) = self.called_from(slot, value, process) {
                return Search::Found(caller);
            }
        }
        Search::Nothing { is_cut }
    }

    /// The caller, if `value` at `slot` is a return address that leads here.
    fn called_from(&mut self, slot: u64, value: u64, process: &mut impl Process) -> Option<Caller> {
        let CodeAt::Dso { .. } = process.place(Avma(value.wrapping_sub(1))) else {
            return None;
        };
        let CallBefore::Direct(by) = self.unwinder.call_before(self.machine(), value, process)?
        else {
            return None;
        };
        let entry = value.wrapping_add_signed(by);
        if !self.is_own(entry, process) {
            return None;
        }
        let frame = self.in_function(entry)?;
        (self.slot_of(&frame, process) == Some(slot))
            .then(|| self.caller_at(&frame, process))
            .flatten()
    }

    /// Whether an address is in the frame's own dso.
    fn is_own(&self, at: u64, process: &mut impl Process) -> bool {
        matches!(process.place(Avma(at)), CodeAt::Dso { id, .. } if id == self.id)
    }

    /// The caller through a pointer or a linkage stub, if a symbol tells where
    /// the function begins.
    fn by_symbol(&mut self, process: &mut impl Process) -> Option<Caller> {
        let entry = self.symbol()?;
        let frame = self.in_function(entry)?;
        let caller = self.caller_at(&frame, process)?;
        self.may_lead_here(&caller, process)?.then_some(caller)
    }

    /// The address of the last symbol at or before the frame's place.
    fn symbol(&mut self) -> Option<u64> {
        let pc = self.registers.pc();
        let at = self.bias.to_svma(Avma(pc - u64::from(!self.is_exact)));
        let dso = self.unwinder.dsos.get_mut(self.id)?;
        let start = dso.symbol_before(at)?;
        Some(pc.wrapping_sub(self.bias.to_svma(Avma(pc)).0 - start.0))
    }

    /// The caller, if that is the first code of a thread. Nothing is above
    /// its call on the stack, so the function that was called is the one that
    /// leads to the return address there, wherever it begins.
    fn by_first_call(&mut self, process: &mut impl Process) -> Option<Caller> {
        let (mut slot, word) = (self.registers.sp(), self.word());
        let end = slot.checked_add(SLOTS * word)?;
        while !self.starts_thread(process.word(slot, word as u8)?, process) {
            slot = slot.checked_add(word).filter(|&slot| slot < end)?;
        }
        let entries = self.symbol().into_iter().chain(self.aligned());
        for entry in entries.collect::<Vec<_>>() {
            if let Some(frame) = self.in_function(entry)
                && self.slot_of(&frame, process) == Some(slot)
            {
                return self.caller_at(&frame, process);
            }
        }
        None
    }

    /// Whether threads begin with the call before an address.
    fn starts_thread(&mut self, value: u64, process: &mut impl Process) -> bool {
        let CodeAt::Dso { id, bias } = process.place(Avma(value.wrapping_sub(1))) else {
            return false;
        };
        let machine = self.machine();
        let before = self.unwinder.call_before(machine, value, process);
        let dso = self.unwinder.dsos.get_mut(id);
        before.is_some_and(CallBefore::is_call)
            && dso.is_some_and(|dso| dso.starts_thread(bias.to_svma(Avma(value)), machine))
    }

    /// Addresses up to the pc at which compilers let functions begin.
    fn aligned(&self) -> impl Iterator<Item = u64> + use<> {
        let pc = self.registers.pc();
        (0..ALIGNED).map(move |number| (pc & !15).wrapping_sub(number * 16))
    }

    /// The caller through a pointer or a linkage stub: no call tells where
    /// the function begins, but how it begins may.
    fn by_beginning(&mut self, process: &mut impl Process) -> Option<Caller> {
        for entry in self.beginnings() {
            let Some(frame) = self.in_function(entry) else {
                continue;
            };
            let caller = self.caller_at(&frame, process)?;
            return self.may_come_here(&caller, process)?.then_some(caller);
        }
        None
    }

    /// The caller by the frame record, if the function keeps a frame pointer.
    fn by_kept_fp(&mut self, process: &mut impl Process) -> Option<Caller> {
        if self.machine() != Machine::X86_64 {
            return None;
        }
        let (sp, fp) = (self.registers.sp(), self.registers.fp()?);
        if fp < sp || !fp.is_multiple_of(self.word()) {
            return None;
        }
        let wanted = self.wanted();
        let dso = self.unwinder.dsos.get_mut(self.id)?;
        let is_own = match dso.kept_fp(wanted)? {
            OwnFp::PoppedFrom(above) => sp.checked_add_signed(above) == Some(fp),
            // Code without a frame may have its caller's locals in hand.
            OwnFp::Used => !self.is_exact || !self.is_return_on_top(process)?,
        };
        if !is_own {
            return None;
        }
        let record = CodeFrame {
            return_address: Slot::FromFp(8),
            caller_fp: Some(CallerFp::Saved(8)),
        };
        let caller = self.caller_at(&record, process)?;
        // What is called may jump on to here, so where its call goes proves nothing.
        let before = self.call_before(&caller.registers, process)?;
        before.is_call().then_some(caller)
    }

    /// Whether a return address is on top of the stack.
    fn is_return_on_top(&self, process: &mut impl Process) -> Option<bool> {
        let mut above = self.registers;
        above.set_pc(process.word(self.registers.sp(), self.machine().word())?);
        let before = self.call_before(&above, process);
        Some(before.is_some_and(CallBefore::is_call))
    }

    /// The caller by the ways to a return, in the slot where they find it.
    fn by_returns(&mut self, process: &mut impl Process) -> Option<Caller> {
        let (machine, wanted) = (self.machine(), self.wanted());
        let dso = self.unwinder.dsos.get_mut(self.id)?;
        let frame = dso.return_frame(wanted, machine)?;
        let caller = self.caller_at(&frame, process)?;
        // What is called may jump on to an interrupted place.
        let before = self.call_before(&caller.registers, process)?;
        let leads = (self.is_exact && before.is_call()) || self.may_come_here(&caller, process)?;
        if leads && matches!(frame.return_address, Slot::KeptIn(..) | Slot::KeptAt(..)) {
            let dso = self.unwinder.dsos.get_mut(self.id)?;
            dso.keep_found_frame(wanted, frame);
        }
        leads.then_some(caller)
    }

    /// The same where calls are believed to keep the stack.
    fn by_abi(&mut self, process: &mut impl Process) -> Option<Caller> {
        // What stands behind the end of a signal is another function, and the kernel may
        // have given the stack back to what was interrupted.
        let pc = self.registers.pc();
        if self.machine() != Machine::X86_64
            || signal_frame::is_behind_end(self.unwinder, pc, process)
        {
            return None;
        }
        let (wanted, beyond_16) = (self.wanted(), self.registers.sp() % 16);
        let dso = self.unwinder.dsos.get_mut(self.id)?;
        let frame = dso.abi_frame(wanted, beyond_16 as u8)?;
        let caller = self.caller_at(&frame, process)?;
        self.may_come_here(&caller, process)?.then_some(caller)
    }

    /// The caller of a function that never returns, through a pointer that the file has.
    /// A place that is pointed to may be the case of a `switch`: there the stack pointer
    /// is a multiple of 16, as it is not where a function begins.
    fn by_pointer(&mut self, process: &mut impl Process) -> Option<Caller> {
        let machine = self.machine();
        let (pc, wanted) = (self.registers.pc(), self.wanted());
        if machine != Machine::X86_64 || signal_frame::is_behind_end(self.unwinder, pc, process) {
            return None;
        }
        let at = self.bias.to_svma(Avma(pc - u64::from(!self.is_exact)));
        let dso = self.unwinder.dsos.get_mut(self.id)?;
        let places: Vec<_> = dso.pointed_before(at).take(MAX_POINTED).collect();
        places.into_iter().find_map(|place| {
            let dso = self.unwinder.dsos.get_mut(self.id)?;
            let frame = dso.code_frame(place, wanted, machine)?;
            let slot = self.slot_of(&frame, process)?;
            let caller = (slot % 16 == 8).then(|| self.caller_at(&frame, process))??;
            self.may_lead_here(&caller, process)?.then_some(caller)
        })
    }

    /// Whether the call before a caller's pc goes through a pointer, or a stub
    /// of this file or another, or to a function that leads here: the frame may be
    /// larger than the stack that was looked through for such calls.
    fn may_lead_here(&mut self, caller: &Caller, process: &mut impl Process) -> Option<bool> {
        let pc = caller.registers.pc();
        Some(match self.call_before(&caller.registers, process)? {
            CallBefore::Indirect => true,
            CallBefore::Direct(by) => {
                let target = pc.wrapping_add_signed(by);
                !self.is_own(target, process)
                    || self.is_stub(target)
                    || caller
                        .slot
                        .is_some_and(|slot| self.called_from(slot, pc, process).is_some())
            }
            CallBefore::None => false,
        })
    }

    /// The same, or whether that function may jump to here.
    fn may_come_here(&mut self, caller: &Caller, process: &mut impl Process) -> Option<bool> {
        Some(self.may_lead_here(caller, process)? || self.may_jump_here(caller, process))
    }

    /// Whether the call before a caller's pc goes to a function that leaves by a jump
    /// through a pointer, which may be to here: V8's calls of built-in functions do, and
    /// functions that choose one for the machine's CPU.
    fn may_jump_here(&mut self, caller: &Caller, process: &mut impl Process) -> bool {
        let Some(CallBefore::Direct(by)) = self.call_before(&caller.registers, process) else {
            return false;
        };
        let (machine, target) = (
            self.machine(),
            caller.registers.pc().wrapping_add_signed(by),
        );
        let dso = self.unwinder.dsos.get_mut(self.id);
        dso.is_some_and(|dso| dso.leaves_by_pointer(self.bias.to_svma(Avma(target)), machine))
    }

    fn is_stub(&self, at: u64) -> bool {
        let dso = self.unwinder.dsos.get(self.id);
        dso.is_some_and(|dso| dso.is_stub(self.bias.to_svma(Avma(at))))
    }

    /// Addresses up to the pc that look like a function's first, the nearest
    /// first.
    fn beginnings(&self) -> Vec<u64> {
        let machine = self.machine();
        let pc = self.bias.to_svma(Avma(self.registers.pc()));
        let Some(dso) = self.unwinder.dsos.get(self.id) else {
            return Vec::new();
        };
        let (start, code) = dso.code_around(pc, BEFORE, BEGINNING);
        let before = pc.0 - start.0;
        let first = self.registers.pc().wrapping_sub(before);
        (0..=before as usize)
            .rev()
            .filter(|&at| {
                let rest = code.get(at..).unwrap_or_default();
                begins_function(machine, rest)
            })
            .take(MAX_BEGINNINGS)
            .map(|at| first.wrapping_add(at as u64))
            .collect()
    }

    /// Where the frame's return address is.
    fn slot_of(&mut self, frame: &CodeFrame, process: &mut impl Process) -> Option<u64> {
        match frame.return_address {
            Slot::FromSp(offset) => self.registers.sp().checked_add_signed(offset),
            Slot::FromFp(offset) => self.registers.fp()?.checked_add_signed(offset),
            Slot::KeptIn(number, offset) => {
                let is_kept = self.is_exact || self.is_kept_by_callee(number, process)?;
                let held = self.registers.known(number).filter(|_| is_kept)?;
                let slot = held.checked_add_signed(offset)?;
                (slot >= self.registers.sp()).then_some(slot)
            }
            Slot::KeptAt(above, offset) => {
                let word = self.registers.sp().checked_add_signed(above)?;
                let kept = process.word(word, self.machine().word())?;
                let is_above = kept > word && kept - word <= MOST_ABOVE_KEPT;
                let slot = kept.checked_add_signed(offset)?;
                (is_above && slot.is_multiple_of(self.word())).then_some(slot)
            }
        }
    }

    /// Whether what the frame has called keeps a register: then that holds what it did where
    /// the innermost frame was interrupted.
    fn is_kept_by_callee(&mut self, number: u8, process: &mut impl Process) -> Option<bool> {
        let (machine, pc) = (self.machine(), self.registers.pc());
        let CallBefore::Direct(by) = self.unwinder.call_before(machine, pc, process)? else {
            return Some(false);
        };
        let entry = pc.wrapping_add_signed(by);
        if !self.is_own(entry, process) {
            return Some(false);
        }
        let entry = self.bias.to_svma(Avma(entry));
        let dso = self.unwinder.dsos.get_mut(self.id)?;
        Some(dso.keeps_register(entry, number, machine))
    }

    /// The caller's registers, as the frame has them.
    fn caller_at(&mut self, frame: &CodeFrame, process: &mut impl Process) -> Option<Caller> {
        let machine = self.machine();
        let slot = self.slot_of(frame, process)?;
        let mut caller = self.registers;
        // The code was not followed for what else it saves.
        let others: &[u8] = match machine {
            Machine::X86 => &[3, 6, 7],
            _ => &[3, 12, 13, 14, 15],
        };
        others.iter().for_each(|&number| caller.forget(number));
        let fp = match frame.caller_fp {
            Some(CallerFp::InRegister) => FpFrom::Callee,
            Some(CallerFp::Saved(below)) => {
                let at = slot.checked_add_signed(below.checked_neg()?)?;
                caller.set(machine.fp(), process.word(at, machine.word())?);
                FpFrom::Memory(at)
            }
            None => {
                caller.forget(machine.fp());
                FpFrom::Other
            }
        };
        caller.set_pc(process.word(slot, machine.word())?);
        caller.set(machine.sp(), slot.checked_add(self.word())?);
        Some(Caller {
            registers: caller,
            is_exact: false,
            by: StepBy::Frame,
            base: match frame.return_address {
                Slot::FromSp(_) => Base::Stack,
                Slot::FromFp(_) => Base::Frame,
                Slot::KeptIn(..) | Slot::KeptAt(..) => Base::Other,
            },
            fp,
            slot: Some(slot),
        })
    }

    /// What stands before the caller's pc; `None` if that is no code.
    fn call_before(&self, caller: &Registers, process: &mut impl Process) -> Option<CallBefore> {
        self.unwinder
            .call_before(self.machine(), caller.pc(), process)
    }
}

/// Whether code is how functions begin that keep a frame pointer, or those of
/// Go, which ask for the limit of the stack first.
fn begins_function(machine: Machine, code: &[u8]) -> bool {
    match (machine, code) {
        // push %ebp; mov %esp,%ebp
        (Machine::X86, [0x55, 0x89, 0xe5, ..] | [0x55, 0x8b, 0xec, ..]) => true,
        (Machine::X86_64, code) => matches!(
            code,
            // push %rbp; mov %rsp,%rbp
            [0x55, 0x48, 0x89, 0xe5, ..]
                | [0x55, 0x48, 0x8b, 0xec, ..]
                // cmp 0x10(%r14),%rsp; or of what is N below: lea N(%rsp),%r12;
                // cmp 0x10(%r14),%r12
                | [0x49, 0x3b, 0x66, 0x10, ..]
                | [0x4c, 0x8d, 0x64, 0x24, _, 0x4d, 0x3b, 0x66, 0x10, ..]
                | [0x4c, 0x8d, 0xa4, 0x24, _, _, _, _, 0x4d, 0x3b, 0x66, 0x10, ..]
                // sub $N,%rsp; mov %rbp,M(%rsp); lea M(%rsp),%rbp
                | [0x48, 0x83, 0xec, _, 0x48, 0x89, 0x6c, 0x24, _, 0x48, 0x8d, 0x6c, 0x24, ..]
                | [0x48, 0x81, 0xec, _, _, _, _, 0x48, 0x89, 0xac, 0x24, ..]
        ),
        _ => false,
    }
}
