//! The caller of a frame by a row of rules.

use crate::cursor::{Base, Caller, FpFrom, StepBy};
use crate::expression;
use crate::memory::Process;
use crate::registers::Registers;
use crate::row::{Cfa, Row, Save};
use prof_profile::ChainEnd;

/// Computes the caller's registers by a row of rules.
pub(crate) fn apply(
    row: &Row,
    registers: &Registers,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let machine = registers.machine();
    let cfa = match &row.cfa {
        Cfa::Register { number, offset } => registers
            .known(*number)
            // A frame on the way could not tell it.
            .ok_or(ChainEnd::Unproven)?
            .wrapping_add_signed(*offset),
        Cfa::Expression(code) => expression::evaluate(code, registers, None, process)?,
    };
    let mut caller = *registers;
    let mut fp = FpFrom::Callee;
    // What is not saved elsewhere: the stack pointer is the CFA.
    caller.set(machine.sp(), cfa);
    for (number, save) in &row.saves {
        if is_popped(save, cfa, registers.sp()) {
            continue;
        }
        if *number == machine.fp() {
            fp = match save {
                Save::At(offset) => FpFrom::Memory(cfa.wrapping_add_signed(*offset)),
                _ => FpFrom::Other,
            };
        }
        match value_of(save, registers, cfa, process) {
            Ok(value) => caller.set(*number, value),
            Err(_) => caller.forget(*number),
        }
    }
    if row.return_address == Save::Undefined {
        return Err(ChainEnd::Root);
    }
    let pc = value_of(&row.return_address, registers, cfa, process)?;
    caller.set_pc(pc);
    Ok(Caller {
        registers: caller,
        is_exact: row.is_signal_frame,
        by: StepBy::Rules,
        base: match (&row.cfa, &row.return_address) {
            (Cfa::Register { number, .. }, Save::At(_)) if *number == machine.sp() => Base::Stack,
            (Cfa::Register { number, .. }, Save::At(_)) if *number == machine.fp() => Base::Frame,
            _ => Base::Other,
        },
        fp,
        slot: match row.return_address {
            Save::At(offset) => Some(cfa.wrapping_add_signed(offset)),
            _ => None,
        },
    })
}

/// Whether a register's slot lies below the stack pointer: an epilogue has
/// popped it and the register holds its value again. gcc describes only that
/// the CFA has changed there.
fn is_popped(save: &Save, cfa: u64, sp: u64) -> bool {
    matches!(save, Save::At(offset) if cfa.wrapping_add_signed(*offset) < sp)
}

/// The caller's value of a saved register.
fn value_of(
    save: &Save,
    registers: &Registers,
    cfa: u64,
    process: &mut impl Process,
) -> Result<u64, ChainEnd> {
    let word = registers.machine().word();
    let bad = ChainEnd::BadUnwindInfo;
    match save {
        Save::Undefined => Err(bad),
        Save::At(offset) => process
            .word(cfa.wrapping_add_signed(*offset), word)
            .ok_or(ChainEnd::StackCut),
        Save::Is(offset) => Ok(cfa.wrapping_add_signed(*offset)),
        Save::Register(number) => registers.known(*number).ok_or(bad),
        Save::AtExpression(code) => {
            let address = expression::evaluate(code, registers, Some(cfa), process)?;
            process.word(address, word).ok_or(ChainEnd::StackCut)
        }
        Save::IsExpression(code) => expression::evaluate(code, registers, Some(cfa), process),
        Save::Constant(value) => Ok(*value),
    }
}
