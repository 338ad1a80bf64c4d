//! The fields of a `perf_event_attr` that are set, as `perf evlist -v` names
//! them: for programs, and as perf writes them in a line.

use prof_abi::{AttrFlags, EventAttr};
use prof_perfdata::Value;
use std::borrow::Cow;

type Fields<'a> = Vec<(&'static str, Value<'a>)>;

/// Type, size and config always, the others where they are not 0.
pub(super) fn fields<'a>(attr: &EventAttr) -> Fields<'a> {
    let mut fields = vec![
        ("type", Value::Number(attr.kind.into())),
        ("size", Value::Number(attr.size.into())),
        ("config", Value::Hex(attr.config)),
        (
            if attr.is_freq() {
                "sample_freq"
            } else {
                "sample_period"
            },
            Value::Number(attr.sample_period),
        ),
        (
            "sample_type",
            Value::Text(attr.sample_type_text().into_bytes().into()),
        ),
        (
            "read_format",
            Value::Text(attr.read_format_text().into_bytes().into()),
        ),
    ];
    fields.extend(flags(attr));
    let rest = [
        ("branch_sample_type", attr.branch_sample_type.0),
        ("sample_regs_user", attr.sample_regs_user),
        ("sample_regs_intr", attr.sample_regs_intr),
        ("bp_type", attr.bp_type.into()),
        ("config1", attr.config1),
        ("config2", attr.config2),
        ("config3", attr.config3),
        ("config4", attr.config4),
        ("sig_data", attr.sig_data),
        ("aux_action", attr.aux_action.into()),
    ];
    let set = rest.into_iter().filter(|&(_, value)| value != 0);
    fields.extend(set.map(|(name, value)| (name, Value::Hex(value))));
    let counts = [
        ("wakeup", attr.wakeup.into()),
        ("sample_stack_user", attr.sample_stack_user.into()),
        ("aux_watermark", attr.aux_watermark.into()),
        ("sample_max_stack", attr.sample_max_stack.into()),
        ("aux_sample_size", attr.aux_sample_size.into()),
    ];
    let set = counts.into_iter().filter(|&(_, value)| value != 0);
    fields.extend(set.map(|(name, value): (_, u64)| (name, Value::Number(value))));
    if attr.flags.has(AttrFlags::USE_CLOCKID) {
        fields.push(("clockid", Value::Signed(attr.clockid.into())));
    }
    if !attr.tail.is_empty() {
        fields.push(("longer by", Value::Number(attr.tail.len() as u64)));
    }
    fields
}

/// The flags that are set, each a field of its own, in lower case.
fn flags<'a>(attr: &EventAttr) -> Fields<'a> {
    let precise = AttrFlags::PRECISE_LOW | AttrFlags::PRECISE_HIGH;
    let mut fields = Vec::new();
    let mut list = Vec::new();
    for &(flag, name) in AttrFlags::NAMES {
        if attr.flags.has(flag) && !precise.has(flag) {
            list.push(Value::Text(Cow::Owned(name.to_lowercase().into_bytes())));
        }
    }
    let unknown = attr.flags.unknown();
    let unknown_bits = (0..64).filter(|bit| unknown >> bit & 1 != 0);
    list.extend(unknown_bits.map(|bit| Value::Text(Cow::Owned(format!("bit{bit}").into_bytes()))));
    fields.push(("flags", Value::List(list)));
    if attr.precise_ip() != 0 {
        fields.push(("precise_ip", Value::Number(attr.precise_ip().into())));
    }
    fields
}

/// What is set, as perf writes it behind the name and the ids of an event:
/// `, type = 1, size = 128, …, disabled = 1`.
pub(super) fn text(attr: &EventAttr) -> String {
    let fields = attr.set_fields().into_iter();
    fields
        .map(|(name, value)| format!(", {name} = {value}"))
        .collect()
}
