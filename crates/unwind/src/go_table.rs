//! The table of functions that Go programs carry: which rules it gives, and
//! which functions call which.

use crate::image::Image;
use crate::registers::Machine;
use crate::row::{Cfa, Row, Save};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use prof_pclntab::{Function, Loaded, Table};
use rustc_hash::FxHashMap;

/// Larger frames than any goroutine's stack may have are damage, bytes.
const LARGEST_FRAME: u64 = 1 << 30;

/// Instructions in which a function saves the frame pointer, if it does.
const PROLOGUE: usize = 12;

/// Bytes of so many.
const PROLOGUE_BYTES: usize = 128;

/// The longest function that is looked through for calls, bytes.
const LONGEST: usize = 1 << 16;

/// Closures whose makers are known at most.
const MOST_MAKERS: usize = 1 << 10;

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
    /// In which functions closures are made, by their first addresses.
    makers: FxHashMap<u64, Option<u64>>,
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

    /// The start of the function that makes the closure whose code starts at
    /// `closure`. That is the one after which it is named: where it is inlined
    /// into others, these make closures of their own.
    pub(crate) fn maker(&mut self, image: &Image, closure: u64) -> Option<u64> {
        if let Some(&known) = self.makers.get(&closure) {
            return known;
        }
        let found = self.function(image, closure).and_then(|(table, function)| {
            let name = table.name(image, &function)?;
            let (maker, number) = name.rsplit_once('.')?;
            let number = number.strip_prefix("func").unwrap_or(number);
            let is_number = number.parse::<u32>().is_ok();
            let is_closure = is_number && function.start == closure;
            let maker = is_closure.then(|| table.named(image, maker))?;
            Some(maker?.start)
        });
        if self.makers.len() >= MOST_MAKERS {
            self.makers.clear();
        }
        self.makers.insert(closure, found);
        found
    }

    /// Whether a goroutine's stack ends at the function that `svma` is in.
    pub(crate) fn is_outermost(&mut self, image: &Image, svma: u64) -> bool {
        self.function(image, svma)
            .is_some_and(|(_, function)| function.is_outermost())
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
