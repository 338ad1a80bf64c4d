//! The fields of a sample by name, for listing.

use crate::body::{Style, Value, list_of};
use crate::sample::{Branch, Registers, Sample};
use std::borrow::Cow;

/// The fields that are there, in file order.
pub(crate) fn fields<'a>(sample: &Sample<'a>) -> Vec<(&'static str, Value<'a>)> {
    let number = |name, value: Option<u64>| value.map(|value| (name, Value::Number(value)));
    let hex = |name, value: Option<u64>| value.map(|value| (name, Value::Hex(value)));
    let signed = |name, value: Option<i32>| value.map(|value| (name, Value::Signed(value.into())));
    let bytes = |name, value: Option<&'a [u8]>| value.map(|value| (name, Value::Bytes(value)));
    let single = [
        number("identifier", sample.identifier()),
        hex("ip", sample.ip()),
        signed("pid", sample.pid()),
        signed("tid", sample.tid()),
        number("time", sample.time()),
        hex("addr", sample.addr()),
        number("id", sample.id()),
        number("stream_id", sample.stream_id()),
        number("cpu", sample.cpu().map(u64::from)),
        number("period", sample.period()),
        sample
            .read()
            .map(|read| ("read", crate::body::read_value(&read))),
        sample
            .callchain()
            .map(|chain| ("callchain", list_of(chain, Style::Hex))),
        bytes("raw", sample.raw()),
        hex("branch_hw_index", sample.branch_hw_index()),
        branches(sample),
        registers("regs_user", sample.regs_user()),
        bytes("stack_user", sample.stack_user_dumped()),
        number("stack_user_valid", sample.stack_user_valid()),
        number("weight", sample.weight()),
        weight_parts(sample),
        hex("data_src", sample.data_src()),
        hex("transaction", sample.transaction()),
        registers("regs_intr", sample.regs_intr()),
        hex("phys_addr", sample.phys_addr()),
        number("cgroup", sample.cgroup()),
        number("data_page_size", sample.data_page_size()),
        number("code_page_size", sample.code_page_size()),
        bytes("aux", sample.aux()),
    ];
    let mut fields: Vec<_> = single.into_iter().flatten().collect();
    if !sample.extra().is_empty() {
        fields.push(("extra", Value::Bytes(sample.extra())));
    }
    fields
}

fn weight_parts<'a>(sample: &Sample<'a>) -> Option<(&'static str, Value<'a>)> {
    let (_, second, third) = sample.weight_parts()?;
    let parts = [second, third].map(|part| Value::Number(part.into()));
    Some(("weight_more", Value::List(parts.to_vec())))
}

fn registers<'a>(
    name: &'static str,
    registers: Option<Registers<'a>>,
) -> Option<(&'static str, Value<'a>)> {
    let registers = registers?;
    Some((
        name,
        Value::Map(vec![
            ("abi", Value::Number(registers.abi)),
            ("mask", Value::Hex(registers.mask)),
            ("values", list_of(registers.values, Style::Hex)),
        ]),
    ))
}

fn branches<'a>(sample: &Sample<'a>) -> Option<(&'static str, Value<'a>)> {
    let branches = sample.branches()?;
    let mut counters = branches.counters();
    let list = branches.iter().map(|branch| {
        let mut parts = branch_parts(branch);
        if let Some(counter) = counters.as_mut().and_then(Iterator::next) {
            parts.push(("counters", Value::Hex(counter)));
        }
        Value::Map(parts)
    });
    Some(("branches", Value::List(list.collect())))
}

fn branch_parts<'a>(branch: Branch) -> Vec<(&'static str, Value<'a>)> {
    let flags = branch.flags;
    let mut set = Vec::new();
    for (name, is_set) in [
        ("mispredicted", flags.mispredicted()),
        ("predicted", flags.predicted()),
        ("in_transaction", flags.in_transaction()),
        ("abort", flags.abort()),
    ] {
        if is_set {
            set.push(Value::Text(Cow::Borrowed(name.as_bytes())));
        }
    }
    vec![
        ("from", Value::Hex(branch.from)),
        ("to", Value::Hex(branch.to)),
        ("flags", Value::List(set)),
        ("cycles", Value::Number(flags.cycles().into())),
        ("type", Value::Number(flags.kind().into())),
        ("speculation", Value::Number(flags.speculation().into())),
        ("new_type", Value::Number(flags.new_kind().into())),
        ("privilege", Value::Number(flags.privilege().into())),
    ]
}
