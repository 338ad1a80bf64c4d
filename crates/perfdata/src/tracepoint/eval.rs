//! Values of arguments, by the rules of libtraceevent: every field is read
//! as an unsigned number of its size, casts cut, and nothing looks at signs.

use super::EventFormat;
use super::expr::Expr;
use super::payload::{Surroundings, number};
use prof_abi::ByteOrder;

/// A payload with what is needed to read it.
#[derive(Clone, Copy)]
pub(super) struct PayloadScope<'a> {
    /// Its format.
    pub(super) format: &'a EventFormat,
    /// Its bytes.
    pub(super) payload: &'a [u8],
    /// Byte order and names.
    pub(super) around: &'a Surroundings<'a>,
}

/// The value of an expression without fields.
pub(super) fn constant(expression: &Expr) -> u64 {
    evaluate(expression, None)
}

/// The number of a row of a table. A name that the kernel did not replace by
/// its number matches nothing, except the few that libtraceevent knows.
pub(super) fn row_number(expression: &Expr) -> u64 {
    const KNOWN: [(&str, u64); 12] = [
        ("HI_SOFTIRQ", 0),
        ("TIMER_SOFTIRQ", 1),
        ("NET_TX_SOFTIRQ", 2),
        ("NET_RX_SOFTIRQ", 3),
        ("BLOCK_SOFTIRQ", 4),
        ("IRQ_POLL_SOFTIRQ", 5),
        ("TASKLET_SOFTIRQ", 6),
        ("SCHED_SOFTIRQ", 7),
        ("HRTIMER_SOFTIRQ", 8),
        ("RCU_SOFTIRQ", 9),
        ("HRTIMER_NORESTART", 0),
        ("HRTIMER_RESTART", 1),
    ];
    match expression {
        Expr::Word(word) => {
            let known = KNOWN.iter().find(|(name, _)| name == word);
            known.map_or(u64::MAX, |&(_, number)| number)
        }
        other => constant(other),
    }
}

/// The value of `expression`; what has none is 0.
pub(super) fn value(expression: &Expr, scope: PayloadScope<'_>) -> u64 {
    evaluate(expression, Some(scope))
}

fn evaluate(expression: &Expr, scope: Option<PayloadScope<'_>>) -> u64 {
    match expression {
        Expr::Number(value) => *value,
        Expr::Text(text) => match text.as_slice() {
            [letter] => u64::from(*letter),
            _ => 0,
        },
        Expr::Field(index) => scope.map_or(0, |scope| {
            let field = scope.format.fields.get(*index);
            field.map_or(0, |field| field.value(scope.payload, scope.around.order))
        }),
        Expr::ArrayLength(index) => {
            scope.map_or(0, |scope| field_bytes(*index, scope).len() as u64)
        }
        Expr::Cast(size, inner) => cut(evaluate(inner, scope), *size),
        Expr::Pointer(_, inner) => evaluate(inner, scope),
        Expr::Index(base, index) => {
            let Some(scope) = scope else { return 0 };
            element(base, value(index, scope), scope)
        }
        Expr::Unary(operator, inner) => {
            let value = evaluate(inner, scope);
            match *operator {
                "!" => u64::from(value == 0),
                "~" => !value,
                "-" => value.wrapping_neg(),
                _ => value,
            }
        }
        Expr::Binary(operator, left, right) => {
            let left = evaluate(left, scope);
            match *operator {
                "&&" => u64::from(left != 0 && evaluate(right, scope) != 0),
                "||" => u64::from(left != 0 || evaluate(right, scope) != 0),
                _ => operation(operator, left, evaluate(right, scope)),
            }
        }
        Expr::Choice(condition, one, other) => {
            let chosen = if evaluate(condition, scope) != 0 {
                one
            } else {
                other
            };
            evaluate(chosen, scope)
        }
        Expr::Word(_)
        | Expr::Array(_)
        | Expr::Str(_)
        | Expr::Bitmask(_)
        | Expr::Flags(..)
        | Expr::Symbolic(..)
        | Expr::Hex(..)
        | Expr::Numbers(..) => 0,
    }
}

fn cut(value: u64, size: usize) -> u64 {
    match size {
        1 => value & 0xff,
        2 => value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    }
}

fn operation(operator: &str, left: u64, right: u64) -> u64 {
    match operator {
        "|" => left | right,
        "&" => left & right,
        "^" => left ^ right,
        "<<" => left.checked_shl(right as u32).unwrap_or(0),
        ">>" => left.checked_shr(right as u32).unwrap_or(0),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right).unwrap_or(0),
        "%" => left.checked_rem(right).unwrap_or(0),
        "==" => u64::from(left == right),
        "!=" => u64::from(left != right),
        "<" => u64::from(left < right),
        ">" => u64::from(left > right),
        "<=" => u64::from(left <= right),
        ">=" => u64::from(left >= right),
        _ => 0,
    }
}

/// The bytes of a field, wherever they are.
pub(super) fn field_bytes<'a>(index: usize, scope: PayloadScope<'a>) -> &'a [u8] {
    let field = scope.format.fields.get(index);
    field.map_or(&[], |field| field.bytes(scope.payload, scope.around.order))
}

/// The bytes an expression points to, with the size of its elements.
pub(super) fn pointed<'a>(expression: &Expr, scope: PayloadScope<'a>) -> Option<(&'a [u8], usize)> {
    match expression {
        Expr::Field(index) | Expr::Array(index) | Expr::Str(index) | Expr::Bitmask(index) => {
            let field = scope.format.fields.get(*index)?;
            Some((field_bytes(*index, scope), field.element_size.max(1)))
        }
        Expr::Pointer(size, inner) => Some((pointed(inner, scope)?.0, *size)),
        Expr::Cast(_, inner) => pointed(inner, scope),
        _ => None,
    }
}

fn element(base: &Expr, index: u64, scope: PayloadScope<'_>) -> u64 {
    let Some((bytes, size)) = pointed(base, scope) else {
        return 0;
    };
    let at = usize::try_from(index)
        .ok()
        .and_then(|index| index.checked_mul(size));
    at.map_or(0, |at| element_at(bytes, at, size, scope.around.order))
}

/// A number inside an array.
pub(super) fn element_at(bytes: &[u8], at: usize, size: usize, order: ByteOrder) -> u64 {
    number(bytes, at, size, order)
}
