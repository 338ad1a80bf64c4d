//! Frames of Go functions, by the table that Go programs carry.
//!
//! Go has no `.eh_frame`, and a stripped program no `.debug_frame`. Its own
//! table says at every instruction how far the stack pointer is below the
//! return address, at which functions a stack ends, and which functions
//! switch stacks, so that it cannot say it of them:
//!
//! ```text
//!   goroutine's stack                 system stack
//!   ┌──────────────────┐ goexit       ┌─────────────────┐
//!   │ caller           │              │                 │
//!   │  its return slot │◄─ rbp + 8    │ systemstack     │
//!   │  saved rbp       │◄─ rbp        │  (keeps rbp)    │
//!   ├──────────────────┤              ├─────────────────┤
//!   │ return address   │◄─ wanted     │ what it called  │
//!   └──────────────────┘              └─────────────────┘
//! ```

use crate::image::Image;
use crate::row::{Cfa, Row, Save};
use crate::unwinder::{Caller, DsoFrame};
use crate::{Base, CallBefore, CodeAt, Cursor, FpFrom, Machine, Process, StepBy, Unwinder};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use prof_pclntab::{Function, Loaded, Table};
use prof_profile::{Avma, ChainEnd, Svma};

/// Larger frames than any goroutine's stack may have are damage, bytes.
const LARGEST_FRAME: u64 = 1 << 30;
/// Instructions in which a function saves the frame pointer, if it does.
const PROLOGUE: usize = 12;
/// Bytes of so many.
const PROLOGUE_BYTES: usize = 128;
/// The longest function that is looked through for calls, bytes.
const LONGEST: usize = 1 << 16;
/// Slots of a frame in which the call that switched stacks is looked for: the
/// functions that do so are small.
const SLOTS: u64 = 256;

/// Functions on top of which nothing ever returns to their callers.
const NEVER_LEFT: [&str; 2] = ["runtime.mcall", "runtime.morestack"];
/// Functions that interrupted code seems to have called.
const INJECTED: [&str; 3] = [
    "runtime.asyncPreempt",
    "runtime.sigpanic",
    "runtime.sigpanic0",
];
/// Called by the kernel with a frame of its own around it.
const SIGNAL_HANDLER: &str = "runtime.sigtramp";

/// What the table says of an address.
#[derive(Debug)]
pub(crate) enum GoRules {
    /// The rules there.
    Row(Row),
    /// The function sets the stack pointer in ways of its own.
    Switches,
}

/// A direct call.
#[derive(Debug)]
pub(crate) struct GoCall {
    /// Where it returns to.
    pub(crate) back: u64,
    /// Addresses that were loaded since the call before.
    loaded: Vec<u64>,
}

impl GoCall {
    /// Whether the function at `closure` is passed on: its address is loaded,
    /// or that of a value which holds it.
    pub(crate) fn passes(&self, image: &Image, closure: u64) -> bool {
        self.loaded.iter().any(|&address| {
            let mut word = [0; 8];
            address == closure
                || (image.read_svma(address, &mut word) && u64::from_le_bytes(word) == closure)
        })
    }
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

/// A file's table, looked for when first needed.
#[derive(Debug, Default)]
pub(crate) struct GoTable {
    opened: bool,
    table: Option<Table>,
}

impl Loaded for Image {
    fn read(&self, svma: u64, out: &mut [u8]) -> usize {
        self.read_svma_up_to(svma, out)
    }
}

impl GoTable {
    /// The rules at `svma` and its function's start; `None` where there is no
    /// Go code.
    pub(crate) fn find(
        &mut self,
        image: &Image,
        svma: u64,
        machine: Machine,
    ) -> Option<(GoRules, u64)> {
        if machine == Machine::Aarch64 {
            return None;
        }
        let (table, function) = self.function(image, svma)?;
        let size = table.frame_size(image, &function, svma)?;
        if size > LARGEST_FRAME {
            return None;
        }
        let name = || table.name(image, &function).unwrap_or_default();
        let is_outermost = match (function.is_outermost(), function.switches_stacks()) {
            (true, _) => name() != SIGNAL_HANDLER,
            (false, true) => NEVER_LEFT.contains(&name().as_str()),
            (false, false) => false,
        };
        if !is_outermost && function.switches_stacks() {
            return Some((GoRules::Switches, function.start));
        }
        let mut row = row(machine, size as i64);
        if is_outermost {
            row.return_address = Save::Undefined;
        }
        row.is_signal_frame = INJECTED.contains(&name().as_str());
        let kept = kept_fp(table, image, &function, machine);
        let fp = match kept {
            Some((from, below)) if svma >= from && below <= size as i64 => {
                Some(Save::At(-i64::from(machine.word()) - below))
            }
            Some((from, _)) if svma >= from => Some(Save::Undefined),
            // Only functions with a frame use the register.
            Some(_) => None,
            None if size == 0 => None,
            None => Some(Save::Undefined),
        };
        let saves = row.saves.iter().cloned();
        row.saves = saves.chain(fp.map(|save| (machine.fp(), save))).collect();
        Some((GoRules::Row(row), function.start))
    }

    /// Whether the file is a Go program.
    pub(crate) fn is_there(&mut self, image: &Image) -> bool {
        self.opened(image).is_some()
    }

    fn opened(&mut self, image: &Image) -> Option<&Table> {
        if !self.opened {
            self.opened = true;
            self.table = open(image);
        }
        self.table.as_ref()
    }

    fn function(&mut self, image: &Image, svma: u64) -> Option<(&Table, Function)> {
        let table = self.opened(image)?;
        let function = table.function(image, svma)?;
        Some((table, function))
    }

    /// The direct calls to `target` in the function at `start`.
    pub(crate) fn calls_to(
        &self,
        image: &Image,
        start: u64,
        target: u64,
        machine: Machine,
    ) -> Vec<GoCall> {
        let found = self
            .table
            .as_ref()
            .and_then(|table| table.function(image, start));
        let Some(function) = found.filter(|function| function.start == start) else {
            return Vec::new();
        };
        let len = usize::try_from(function.end - start).unwrap_or(usize::MAX);
        let mut code = vec![0; len.min(LONGEST)];
        let got = image.read_svma_up_to(start, &mut code);
        let bitness = u32::from(machine.word()) * 8;
        let code = code.get(..got).unwrap_or_default();
        let mut calls = Vec::new();
        let mut loaded = Vec::new();
        for instruction in Decoder::with_ip(bitness, code, start, DecoderOptions::NONE) {
            if instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand() {
                loaded.push(instruction.ip_rel_memory_address());
            }
            if !is_call(&instruction) {
                continue;
            }
            let loaded = std::mem::take(&mut loaded);
            if instruction.flow_control() == FlowControl::Call
                && instruction.near_branch_target() == target
            {
                let back = instruction.next_ip();
                calls.push(GoCall { back, loaded });
            }
        }
        calls
    }

    /// Bytes between the stack pointer at `svma` and the return address.
    pub(crate) fn frame_size(&mut self, image: &Image, svma: u64) -> Option<u64> {
        let (table, function) = self.function(image, svma)?;
        table.frame_size(image, &function, svma)
    }
}

fn open(image: &Image) -> Option<Table> {
    let text = image.text.as_ref().map(|text| text.svma.start);
    match image.go_table {
        Some(at) => Table::open(image, at, text),
        None if image.may_hide_go_table() => prof_pclntab::find(image, image.loaded(), text),
        None => None,
    }
}

/// The return address is so many bytes above the stack pointer; registers
/// that C functions keep, Go functions do not.
fn row(machine: Machine, size: i64) -> Row {
    let word = machine.word();
    let lost: &[u8] = match machine {
        Machine::X86 => &[3, 6, 7],
        _ => &[3, 12, 13, 14, 15],
    };
    Row {
        cfa: Cfa::Register {
            number: machine.sp(),
            offset: size + i64::from(word),
        },
        saves: lost
            .iter()
            .map(|&number| (number, Save::Undefined))
            .collect(),
        ..Row::pushed(machine.sp(), i64::from(word), word)
    }
}

/// From which address on a function has saved the frame pointer, and how far
/// below its return address.
fn kept_fp(
    table: &Table,
    image: &Image,
    function: &Function,
    machine: Machine,
) -> Option<(u64, i64)> {
    let mut code = [0; PROLOGUE_BYTES];
    let got = image.read_svma_up_to(function.start, &mut code);
    let bitness = u32::from(machine.word()) * 8;
    let code = code.get(..got)?;
    let mut decoder = Decoder::with_ip(bitness, code, function.start, DecoderOptions::NONE);
    for _ in 0..PROLOGUE {
        let instruction = decoder.decode();
        if instruction.is_invalid() || instruction.next_ip() >= function.end {
            return None;
        }
        let size_at = |at| Some(table.frame_size(image, function, at)? as i64);
        if let Some(above) = stores_fp(&instruction) {
            let size = size_at(instruction.ip())?;
            return Some((instruction.next_ip(), size.checked_sub(above)?));
        }
        let is_next = matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        );
        let writes_fp = instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().full_register() == Register::RBP
            && !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
        if !is_next || writes_fp {
            return None;
        }
    }
    None
}

/// How far above the stack pointer, as it is before, an instruction puts the
/// frame pointer.
fn stores_fp(instruction: &Instruction) -> Option<i64> {
    let is = |register: Register, wanted| register.full_register() == wanted;
    match instruction.mnemonic() {
        Mnemonic::Push if is(instruction.op0_register(), Register::RBP) => {
            Some(i64::from(instruction.stack_pointer_increment()))
        }
        Mnemonic::Mov
            if instruction.op0_kind() == OpKind::Memory
                && is(instruction.op1_register(), Register::RBP)
                && is(instruction.memory_base(), Register::RSP)
                && instruction.memory_index() == Register::None =>
        {
            Some(instruction.memory_displacement64() as i32 as i64)
        }
        _ => None,
    }
}

/// The caller of a frame whose return address is the first of a function:
/// one that the kernel or the run-time library put there.
pub(crate) fn not_called(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let registers = frame.cursor.registers();
    if let Some(caller) = crate::fallback::from_signal(unwinder, registers, process) {
        return Ok(caller);
    }
    let as_entered = Cursor::innermost(*registers);
    let as_entered = DsoFrame {
        cursor: &as_entered,
        ..frame
    };
    unwinder.by_rules(as_entered, process)
}

/// Whether a frame is of a Go function that switches stacks.
pub(crate) fn switches_stacks(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> bool {
    let CodeAt::Dso { id, bias } = process.place(cursor.lookup()) else {
        return false;
    };
    let machine = cursor.registers().machine();
    let dso = unwinder.dsos.get_mut(id);
    dso.is_some_and(|dso| dso.switches_stacks(bias.to_svma(cursor.lookup()), machine))
}

/// Where the function of a frame starts.
pub(crate) fn start_of(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Option<u64> {
    let machine = cursor.registers().machine();
    let found = unwinder.function(machine, cursor.lookup(), process)?;
    Some(cursor.lookup().0.wrapping_sub(found.at.0 - found.start.0))
}

/// The caller of a function that has switched stacks, or may have.
pub(crate) fn switched(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let DsoFrame { cursor, id, bias } = frame;
    let registers = cursor.registers();
    let machine = registers.machine();
    let at = bias.to_svma(cursor.lookup());
    let dso = unwinder.dsos.get_mut(id).ok_or(ChainEnd::FileMissing)?;
    let start = dso.function(at, machine).ok_or(ChainEnd::Unproven)?;
    if let Some(caller) = crate::followed::in_known_function(unwinder, frame, start, process) {
        return Ok(caller);
    }
    if cursor.is_exact() {
        return Err(ChainEnd::Unproven);
    }
    let entry = cursor.lookup().0.wrapping_sub(at.0 - start.0);
    match by_only_call(unwinder, cursor, entry, process) {
        Some(caller) => Ok(caller),
        None => by_frame_of_caller(unwinder, cursor, entry, process),
    }
}

/// The caller of the function at `entry`, which left the frame pointer as it
/// was: it points into the frame of a function that is known by the call to
/// it, and that calls `entry` in one place only, or in one with the closure
/// that runs.
fn by_only_call(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    entry: u64,
    process: &mut impl Process,
) -> Option<Caller> {
    let registers = cursor.registers();
    let machine = registers.machine();
    let word = u64::from(machine.word());
    let fp = registers.fp().filter(|fp| fp.is_multiple_of(word))?;
    let outer = process.word(fp.checked_add(word)?, machine.word())?;
    let (back, size) = only_call(unwinder, machine, (entry, cursor.called()), outer, process)?;
    let sp = fp.checked_add(word)?.checked_sub(size)?;
    let mut caller = *registers;
    caller.set(machine.sp(), sp);
    caller.set_pc(back);
    Some(Caller {
        registers: caller,
        is_exact: false,
        by: StepBy::Frame,
        base: Base::Frame,
        fp: FpFrom::Callee,
        slot: sp.checked_sub(word),
    })
}

/// Of the function that the call before `outer` leads to: where its only call of
/// the function at `entry` returns to, or the only one with this closure, and the
/// size of its frame there, right below whose end the frame pointer is saved.
fn only_call(
    unwinder: &mut Unwinder,
    machine: Machine,
    (entry, closure): (u64, Option<u64>),
    outer: u64,
    process: &mut impl Process,
) -> Option<(u64, u64)> {
    let CallBefore::Direct(by) = unwinder.call_before(machine, outer, process)? else {
        return None;
    };
    let start = outer.wrapping_add_signed(by);
    let CodeAt::Dso { id, bias } = process.place(Avma(start)) else {
        return None;
    };
    let dso = unwinder.dsos.get_mut(id)?;
    let (start, target) = (bias.to_svma(Avma(start)), bias.to_svma(Avma(entry)));
    let closure = closure.map(|at| bias.to_svma(Avma(at)));
    let calls = dso.calls_to(start, (target, closure), machine);
    let &[Svma(back)] = calls.as_slice() else {
        return None;
    };
    let size = dso.go_frame_with_fp(Svma(back - 1), machine)?;
    // As far as the entry is from its place in the file.
    Some((back.wrapping_add(entry.wrapping_sub(target.0)), size))
}

/// Of the Go function at `at`, which has no frame, and which the function called
/// that returns to `outer`: where it returns to, and the size of the frame there,
/// if that function calls it in one place only.
pub(crate) fn caller_of_frameless(
    unwinder: &mut Unwinder,
    machine: Machine,
    (at, outer): (Avma, u64),
    process: &mut impl Process,
) -> Option<(u64, u64)> {
    let CodeAt::Dso { id, bias } = process.place(at) else {
        return None;
    };
    let dso = unwinder.dsos.get_mut(id)?;
    let svma = bias.to_svma(at);
    if dso.go_frame_size(svma)? != 0 {
        return None;
    }
    let start = dso.function(svma, machine)?;
    let entry = at.0.wrapping_sub(svma.0.wrapping_sub(start.0));
    only_call(unwinder, machine, (entry, None), outer, process)
}

/// The caller of the function at `entry`, which left the frame pointer as it
/// was: the one return address below it whose call goes to `entry` from a
/// frame that ends where the frame pointer says.
fn by_frame_of_caller(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    entry: u64,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let registers = cursor.registers();
    let machine = registers.machine();
    let word = u64::from(machine.word());
    let fp = registers.fp().ok_or(ChainEnd::Unproven)?;
    if fp == 0 || !fp.is_multiple_of(word) {
        return Err(ChainEnd::Unproven);
    }
    let mut found = None;
    for number in 1..=SLOTS {
        let Some(slot) = fp.checked_sub(number * word) else {
            break;
        };
        let Some(pc) = process.word(slot, machine.word()) else {
            match number {
                1 => return Err(ChainEnd::StackCut),
                _ => break,
            }
        };
        if frame_below(unwinder, pc, process) != Some(fp - slot) {
            continue;
        }
        let call = unwinder.call_before(machine, pc, process);
        if !matches!(call, Some(CallBefore::Direct(by)) if pc.wrapping_add_signed(by) == entry) {
            continue;
        }
        if found.replace((slot, pc)).is_some() {
            return Err(ChainEnd::Unproven);
        }
    }
    let (slot, pc) = found.ok_or(ChainEnd::Unproven)?;
    let mut caller = *registers;
    caller.set(machine.sp(), slot.wrapping_add(word));
    caller.set_pc(pc);
    Ok(Caller {
        registers: caller,
        is_exact: false,
        by: StepBy::Frame,
        base: Base::Frame,
        fp: FpFrom::Callee,
        slot: Some(slot),
    })
}

/// Frame size of the Go function that `pc` returns to.
fn frame_below(unwinder: &mut Unwinder, pc: u64, process: &mut impl Process) -> Option<u64> {
    let before = Avma(pc.checked_sub(1)?);
    let CodeAt::Dso { id, bias } = process.place(before) else {
        return None;
    };
    let dso = unwinder.dsos.get_mut(id)?;
    dso.go_frame_size(bias.to_svma(before))
}
