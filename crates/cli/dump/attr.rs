//! The fields of a `perf_event_attr` that are set, as `perf evlist -v` names
//! them: for programs, and as perf writes them in a line.

use prof_abi::{AttrFlags, BranchSampleType, EventAttr, ReadFormat, SampleType};
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
            Value::Text(sample_type(attr).into_bytes().into()),
        ),
        (
            "read_format",
            Value::Text(read_format(attr).into_bytes().into()),
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
    let number = |name, value: u64| (name, value, value.to_string());
    let hex = |name, value: u64| (name, value, format!("{value:#x}"));
    let mut all = vec![
        number("type", attr.kind.into()),
        number("size", attr.size.into()),
        hex("config", attr.config),
        number("{ sample_period, sample_freq }", attr.sample_period),
        ("sample_type", attr.sample_type.0, sample_type(attr)),
        ("read_format", attr.read_format.0, read_format(attr)),
    ];
    all.extend(single_flags(attr));
    all.extend([
        number("{ wakeup_events, wakeup_watermark }", attr.wakeup.into()),
        number("bp_type", attr.bp_type.into()),
        hex("{ bp_addr, config1 }", attr.config1),
        hex("{ bp_len, config2 }", attr.config2),
        (
            "branch_sample_type",
            attr.branch_sample_type.0,
            branch_sample_type(attr),
        ),
        hex("sample_regs_user", attr.sample_regs_user),
        number("sample_stack_user", attr.sample_stack_user.into()),
        (
            "clockid",
            u64::from(attr.clockid != 0),
            attr.clockid.to_string(),
        ),
        hex("sample_regs_intr", attr.sample_regs_intr),
        number("aux_watermark", attr.aux_watermark.into()),
        number("sample_max_stack", attr.sample_max_stack.into()),
        number("aux_sample_size", attr.aux_sample_size.into()),
        number("sig_data", attr.sig_data),
    ]);
    let set = all.into_iter().filter(|(_, value, _)| *value != 0);
    set.map(|(name, _, text)| format!(", {} = {text}", name.to_lowercase()))
        .collect()
}

/// Each flag by its name in lower case, in the order of the bits; the two of
/// `precise_ip` are one number.
fn single_flags(attr: &EventAttr) -> Vec<(&'static str, u64, String)> {
    let mut all = Vec::new();
    for &(flag, name) in AttrFlags::NAMES {
        let precise: u64 = attr.precise_ip().into();
        all.push(match flag {
            AttrFlags::PRECISE_LOW => ("precise_ip", precise, precise.to_string()),
            AttrFlags::PRECISE_HIGH => continue,
            flag => (name, u64::from(attr.flags.has(flag)), "1".to_owned()),
        });
    }
    all
}

/// `IP|TID|TIME`, in perf's order: by bit, but for two that it names late.
fn sample_type(attr: &EventAttr) -> String {
    let place = |bit: SampleType| match bit {
        SampleType::DATA_SRC => (SampleType::REGS_INTR, 1),
        SampleType::WEIGHT => (SampleType::REGS_INTR, 2),
        bit => (bit, 0),
    };
    let mut names = SampleType::NAMES.to_vec();
    names.sort_by_key(|&(bit, _)| place(bit));
    let names = names.into_iter().map(|(bit, name)| (bit.0, name));
    named_bits(names, attr.sample_type.0)
}

fn read_format(attr: &EventAttr) -> String {
    let names = ReadFormat::NAMES.iter().map(|(bit, name)| (bit.0, *name));
    named_bits(names, attr.read_format.0)
}

fn branch_sample_type(attr: &EventAttr) -> String {
    let names = BranchSampleType::NAMES
        .iter()
        .map(|(bit, name)| (bit.0, *name));
    named_bits(names, attr.branch_sample_type.0)
}

/// Bits without a name as `bit25`.
fn named_bits(names: impl Iterator<Item = (u64, &'static str)>, set: u64) -> String {
    let mut left = set;
    let mut parts = Vec::new();
    for (bit, name) in names {
        if set & bit != 0 {
            parts.push(name.to_owned());
            left &= !bit;
        }
    }
    parts.extend(
        (0..64)
            .filter(|bit| left >> bit & 1 != 0)
            .map(|bit| format!("bit{bit}")),
    );
    parts.join("|")
}
