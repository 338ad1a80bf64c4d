//! One row of unwind rules: how to get from a frame to its caller.

use gimli::{
    CfaRule, EndianSlice, LittleEndian, Reader, RegisterRule, UnwindSection, UnwindTableRow,
};

/// A slice of an unwind section.
pub(crate) type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// How the canonical frame address is computed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Cfa {
    /// A register plus bytes.
    Register { number: u8, offset: i64 },
    /// A DWARF expression.
    Expression(Box<[u8]>),
}

/// How the caller's value of a register is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Save {
    /// It cannot be.
    Undefined,
    /// In memory at CFA plus bytes.
    At(i64),
    /// It is CFA plus bytes.
    Is(i64),
    /// In another register.
    Register(u8),
    /// In memory at the address of an expression.
    AtExpression(Box<[u8]>),
    /// It is the value of an expression.
    IsExpression(Box<[u8]>),
    /// It is this value.
    Constant(u64),
}

/// Rules for one range of code.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) cfa: Cfa,
    /// Registers by DWARF number, the return address left out; registers not
    /// listed keep their value.
    pub(crate) saves: Box<[(u8, Save)]>,
    /// Where the return address is.
    pub(crate) return_address: Save,
    /// Interrupted by a signal: the caller's pc is exact, not a return.
    pub(crate) is_signal_frame: bool,
    /// It keeps the registers that carry an exception to its handler, as only
    /// functions do that go there with another frame's registers.
    pub(crate) keeps_exception: bool,
}

impl Row {
    /// Copies a row out of gimli's table. `None` if an expression or a
    /// register number is beyond what unwinding uses.
    pub(crate) fn new<'a, S: UnwindSection<Bytes<'a>>>(
        row: &UnwindTableRow<usize>,
        section: &S,
        return_register: u16,
        is_signal_frame: bool,
    ) -> Option<Self> {
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Cfa::Register {
                number: u8::try_from(register.0).ok()?,
                offset: *offset,
            },
            CfaRule::Expression(expression) => {
                Cfa::Expression(expression.get(section).ok()?.0.to_slice().ok()?.into())
            }
        };
        let mut saves = Vec::new();
        let mut return_address = Save::Register(u8::try_from(return_register).ok()?);
        for (register, rule) in row.registers() {
            let Some(save) = save_of(rule, section)? else {
                continue;
            };
            match u8::try_from(register.0) {
                Ok(_) if register.0 == return_register => return_address = save,
                Ok(number) => saves.push((number, save)),
                Err(_) => {}
            }
        }
        // `EH_RETURN_DATA_REGNO` of x86-64 and x86, told apart by the column
        // of their return address.
        let of_exceptions: [u8; 2] = match return_register {
            16 => [0, 1],
            _ => [0, 2],
        };
        let is_saved = |wanted: &u8| saves.iter().any(|(number, _)| number == wanted);
        // A signal's frame has all registers.
        let keeps_exception = !is_signal_frame
            && matches!(return_register, 8 | 16)
            && of_exceptions.iter().all(is_saved);
        Some(Self {
            cfa,
            saves: saves.into(),
            return_address,
            is_signal_frame,
            keeps_exception,
        })
    }

    /// The rule on entry to a function and in what only jumps on: nothing
    /// saved, the return address at `bytes` below the CFA's end.
    pub(crate) fn pushed(sp: u8, bytes: i64, word: u8) -> Self {
        Self {
            cfa: Cfa::Register {
                number: sp,
                offset: bytes,
            },
            saves: Box::default(),
            return_address: Save::At(-i64::from(word)),
            is_signal_frame: false,
            keeps_exception: false,
        }
    }
}

/// A rule as ours; `Some(None)` for a register that keeps its value.
#[expect(
    clippy::option_option,
    reason = "outer: readable at all; inner: a rule is needed"
)]
fn save_of<'a, S: UnwindSection<Bytes<'a>>>(
    rule: &RegisterRule<usize>,
    section: &S,
) -> Option<Option<Save>> {
    Some(Some(match rule {
        RegisterRule::Undefined => Save::Undefined,
        RegisterRule::SameValue | RegisterRule::Architectural => return Some(None),
        RegisterRule::Offset(offset) => Save::At(*offset),
        RegisterRule::ValOffset(offset) => Save::Is(*offset),
        RegisterRule::Register(register) => Save::Register(u8::try_from(register.0).ok()?),
        RegisterRule::Expression(expression) => {
            Save::AtExpression(expression.get(section).ok()?.0.to_slice().ok()?.into())
        }
        RegisterRule::ValExpression(expression) => {
            Save::IsExpression(expression.get(section).ok()?.0.to_slice().ok()?.into())
        }
        RegisterRule::Constant(value) => Save::Constant(*value),
    }))
}
