//! A sample's fields back to bytes: the inverse of [`Sample::new`].

use crate::fields::Encoder;
use crate::order::{SamplePart, Shape};
use crate::sample::{Branches, Registers, Sample};

/// Appends the body of `sample`, field by field, in file order.
pub(crate) fn encode(sample: &Sample<'_>, out: &mut Encoder) {
    for part in SamplePart::of(SamplePart::ORDER, sample.layout().sample_type) {
        put(sample, part, out);
    }
    out.bytes(sample.extra());
}

fn put(sample: &Sample<'_>, part: SamplePart, out: &mut Encoder) {
    match part.shape() {
        Shape::Word => {
            if let Some(word) = sample.word(part) {
                out.u64(word);
            }
        }
        Shape::Halves => {
            if let Some((first, second)) = sample.halves(part) {
                out.u32(first);
                out.u32(second);
            }
        }
        Shape::Counters => {
            if let Some(read) = sample.read() {
                out.bytes(read.bytes());
            }
        }
        Shape::Words => {
            if let Some(chain) = sample.callchain() {
                out.u64(chain.len() as u64);
                chain.for_each(|entry| out.u64(entry));
            }
        }
        Shape::Raw => {
            if let Some(raw) = sample.raw() {
                out.u32(raw.len() as u32);
                out.bytes(raw);
            }
        }
        Shape::Branches => {
            if let Some(branches) = sample.branches() {
                put_branches(&branches, sample.branch_hw_index(), out);
            }
        }
        Shape::Registers => put_registers(sample.registers(part), out),
        Shape::Stack => put_stack(sample, out),
        Shape::Bytes => {
            if let Some(aux) = sample.aux() {
                out.u64(aux.len() as u64);
                out.bytes(aux);
            }
        }
    }
}

fn put_stack(sample: &Sample<'_>, out: &mut Encoder) {
    if let Some(stack) = sample.stack_user_dumped() {
        out.u64(stack.len() as u64);
        out.bytes(stack);
        if let Some(valid) = sample.stack_user_valid() {
            out.u64(valid);
        }
    }
}

fn put_branches(branches: &Branches<'_>, hw_index: Option<u64>, out: &mut Encoder) {
    out.u64(branches.iter().len() as u64);
    if let Some(index) = hw_index {
        out.u64(index);
    }
    for branch in branches.iter() {
        out.u64(branch.from);
        out.u64(branch.to);
        out.u64(branch.flags.to_file(out.order()));
    }
    branches
        .counters()
        .into_iter()
        .flatten()
        .for_each(|counter| out.u64(counter));
}

fn put_registers(registers: Option<Registers<'_>>, out: &mut Encoder) {
    if let Some(registers) = registers {
        out.u64(registers.abi);
        registers.values.for_each(|value| out.u64(value));
    }
}
