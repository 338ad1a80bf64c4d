//! Functions that leave for a landing pad: `_Unwind_RaiseException`,
//! `_Unwind_Resume` and their like.
//!
//! They overwrite what they saved on entry, the return address among it, with
//! what the frame has that handles the exception, and then go there:
//!
//! ```text
//!   call uw_install_context_1   ◄─ from here on nothing tells the caller
//!   call _Unwind_DebugHook
//!   ...
//!   mov  %rcx,%rsp              ◄─ CFA by another register: only there
//!   pop  %rcx
//!   jmp  *%rcx
//! ```

use crate::Machine;
use crate::image::Image;
use crate::row::Cfa;
use crate::tables::{Found, Tables};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use std::ops::Range;

/// The longest function that is looked through, bytes.
const LONGEST: usize = 1 << 14;

/// Where such a function leaves, by addresses in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EhReturn(Range<u64>);

impl EhReturn {
    /// Looks through the function at `start`; `None` if it does not leave in
    /// this way.
    pub(crate) fn find(
        image: &Image,
        tables: &mut Tables,
        start: u64,
        machine: Machine,
    ) -> Option<Self> {
        let mut code = vec![0; LONGEST];
        let got = image.read_svma_up_to(start, &mut code);
        let bitness = u32::from(machine.word()) * 8;
        let mut decoder = Decoder::with_ip(bitness, code.get(..got)?, start, DecoderOptions::NONE);
        let (mut calls, mut left): (Vec<u64>, Option<Range<u64>>) = (Vec::new(), None);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let Found::Row { row, function } = tables.find(image, instruction.ip()) else {
                break;
            };
            if function != start {
                break;
            }
            let by_other = match row.cfa {
                Cfa::Register { number, .. } => ![machine.sp(), machine.fp()].contains(&number),
                Cfa::Expression(_) => true,
            };
            let is_by_fp =
                matches!(row.cfa, Cfa::Register { number, .. } if number == machine.fp());
            match &mut left {
                Some(_) if is_by_fp => break,
                Some(left) => left.end = instruction.next_ip(),
                None if by_other => left = Some(instruction.ip()..instruction.next_ip()),
                None if instruction.flow_control() == FlowControl::Call => {
                    calls.push(instruction.next_ip());
                }
                None => {}
            }
        }
        let end = left?.end;
        // The last call is that of the debugger's hook.
        let last = calls.pop().unwrap_or(start);
        Some(Self(calls.pop().unwrap_or(last)..end))
    }

    /// Whether nothing tells the caller of a frame that executes at `pc` or
    /// returns to it.
    pub(crate) fn is_leaving(&self, pc: u64) -> bool {
        self.0.contains(&pc)
    }
}
