//! DWARF expressions in unwind rules, with a bound on their cost.

use crate::{Process, Registers};
use gimli::{Encoding, EndianSlice, EvaluationResult, Expression, Format, LittleEndian, Value};
use prof_profile::ChainEnd;

/// Most operations of one expression.
const MAX_STEPS: u32 = 10_000;

/// The value of `code` in the frame of `registers`; `cfa` is pushed first
/// where the rule says so.
///
/// # Errors
/// [`ChainEnd::StackCut`] where memory cannot be read; otherwise
/// [`ChainEnd::BadUnwindInfo`]: it fails, costs too much or needs what a frame
/// does not have.
pub(crate) fn evaluate(
    code: &[u8],
    registers: &Registers,
    cfa: Option<u64>,
    process: &mut impl Process,
) -> Result<u64, ChainEnd> {
    let bad = ChainEnd::BadUnwindInfo;
    let encoding = Encoding {
        address_size: registers.machine().word(),
        format: Format::Dwarf32,
        version: 4,
    };
    let mut evaluation = Expression(EndianSlice::new(code, LittleEndian)).evaluation(encoding);
    evaluation.set_max_iterations(MAX_STEPS);
    if let Some(cfa) = cfa {
        evaluation.set_initial_value(cfa);
    }
    let mut state = evaluation.evaluate().map_err(|_| bad)?;
    // Each answer lets at least one operation run, so this ends.
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory { address, size, .. } => {
                let value = read(process, address, size).ok_or(ChainEnd::StackCut)?;
                evaluation
                    .resume_with_memory(Value::Generic(value))
                    .map_err(|_| bad)?
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let number = u8::try_from(register.0).map_err(|_| bad)?;
                // The return address column stands for the pc.
                let value = match registers.known(number) {
                    Some(value) => value,
                    None if Some(number) == return_column(registers) => registers.pc(),
                    None => return Err(bad),
                };
                evaluation
                    .resume_with_register(Value::Generic(value))
                    .map_err(|_| bad)?
            }
            EvaluationResult::RequiresCallFrameCfa => evaluation
                .resume_with_call_frame_cfa(cfa.ok_or(bad)?)
                .map_err(|_| bad)?,
            _ => return Err(bad),
        };
    }
    match evaluation.value_result() {
        Some(Value::Generic(value)) => Ok(value),
        _ => Err(bad),
    }
}

/// The DWARF column that holds the pc, where the machine has one.
fn return_column(registers: &Registers) -> Option<u8> {
    match registers.machine() {
        crate::Machine::X86_64 => Some(16),
        crate::Machine::X86 => Some(8),
        crate::Machine::Aarch64 => None,
    }
}

/// A value of 1, 2, 4 or 8 bytes.
fn read(process: &mut impl Process, address: u64, size: u8) -> Option<u64> {
    match size {
        4 | 8 => process.word(address, size),
        1 | 2 => {
            let aligned = address & !3;
            let word = process.word(aligned, 4)?;
            let mask = (1_u64 << (u32::from(size) * 8)) - 1;
            Some(word >> ((address - aligned) * 8) & mask)
        }
        _ => None,
    }
}
