//! The fields of a sample by name, for listing.

use crate::body::value::{Style, Value, list_of, read_value};
use crate::branch::Branch;
use crate::order::{SamplePart, Shape};
use crate::sample::{Registers, Sample};
use std::borrow::Cow;

/// The fields that are there, in file order.
pub(crate) fn fields<'a>(sample: &Sample<'a>) -> Vec<(&'static str, Value<'a>)> {
    let mut fields = Vec::new();
    for part in SamplePart::of(SamplePart::ORDER, sample.layout().sample_type) {
        list(sample, part, &mut fields);
    }
    if !sample.extra().is_empty() {
        fields.push(("extra", Value::Bytes(sample.extra())));
    }
    fields
}

/// Appends what is listed of one part: some are more than one field.
fn list<'a>(sample: &Sample<'a>, part: SamplePart, fields: &mut Vec<(&'static str, Value<'a>)>) {
    let value = match part {
        SamplePart::Tid => {
            let pid = sample.pid().map(|pid| ("pid", Value::Signed(pid.into())));
            fields.extend(pid);
            sample.tid().map(|tid| Value::Signed(tid.into()))
        }
        SamplePart::Cpu => sample.cpu().map(|cpu| Value::Number(cpu.into())),
        SamplePart::Ip | SamplePart::Addr | SamplePart::PhysAddr => hex(sample, part),
        SamplePart::DataSrc | SamplePart::Transaction => hex(sample, part),
        SamplePart::Weight => sample.weight().map(Value::Number),
        _ => match part.shape() {
            Shape::Word | Shape::Halves => sample.word(part).map(Value::Number),
            Shape::Counters => sample.read().map(|read| read_value(&read)),
            Shape::Words => sample.callchain().map(|chain| list_of(chain, Style::Hex)),
            Shape::Raw => sample.raw().map(Value::Bytes),
            Shape::Branches => {
                let index = sample.branch_hw_index().map(Value::Hex);
                fields.extend(index.map(|index| ("branch_hw_index", index)));
                branches(sample)
            }
            Shape::Registers => sample.registers(part).map(registers),
            Shape::Stack => sample.stack_user_dumped().map(Value::Bytes),
            Shape::Bytes => sample.aux().map(Value::Bytes),
        },
    };
    fields.extend(value.map(|value| (part.listed(), value)));
    fields.extend(more_of(sample, part));
}

fn hex<'a>(sample: &Sample<'a>, part: SamplePart) -> Option<Value<'a>> {
    sample.word(part).map(Value::Hex)
}

/// What is listed behind a part itself.
fn more_of<'a>(sample: &Sample<'a>, part: SamplePart) -> Option<(&'static str, Value<'a>)> {
    match part {
        SamplePart::StackUser => {
            let valid = sample.stack_user_valid()?;
            Some(("stack_user_valid", Value::Number(valid)))
        }
        SamplePart::Weight => {
            let (_, second, third) = sample.weight_parts()?;
            let parts = [second, third].map(|part| Value::Number(part.into()));
            Some(("weight_more", Value::List(parts.to_vec())))
        }
        _ => None,
    }
}

fn registers(registers: Registers<'_>) -> Value<'_> {
    Value::Map(vec![
        ("abi", Value::Number(registers.abi)),
        ("mask", Value::Hex(registers.mask)),
        ("values", list_of(registers.values, Style::Hex)),
    ])
}

fn branches<'a>(sample: &Sample<'a>) -> Option<Value<'a>> {
    let branches = sample.branches()?;
    let mut counters = branches.counters();
    let list = branches.iter().map(|branch| {
        let mut parts = branch_parts(branch);
        if let Some(counter) = counters.as_mut().and_then(Iterator::next) {
            parts.push(("counters", Value::Hex(counter)));
        }
        Value::Map(parts)
    });
    Some(Value::List(list.collect()))
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
