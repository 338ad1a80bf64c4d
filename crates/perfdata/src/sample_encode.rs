//! A sample's fields back to bytes: the inverse of [`Sample::new`].

use crate::fields::Encoder;
use crate::sample::{Branches, Registers, Sample};
use prof_abi::SampleType;

/// Appends the body of `sample`, field by field, in file order.
pub(crate) fn encode(sample: &Sample<'_>, out: &mut Encoder) {
    let layout = sample.layout();
    let has = |bit| layout.sample_type.has(bit);
    let word = |out: &mut Encoder, value: Option<u64>| {
        if let Some(value) = value {
            out.u64(value);
        }
    };
    word(out, sample.identifier());
    word(out, sample.ip());
    if let Some((pid, tid)) = sample.pid().zip(sample.tid()) {
        out.u32(pid as u32);
        out.u32(tid as u32);
    }
    for value in [
        sample.time(),
        sample.addr(),
        sample.id(),
        sample.stream_id(),
    ] {
        word(out, value);
    }
    if let Some((cpu, reserved)) = sample.cpu().zip(sample.cpu_reserved()) {
        out.u32(cpu);
        out.u32(reserved);
    }
    word(out, sample.period());
    if let Some(read) = sample.read() {
        out.bytes(read.bytes());
    }
    if let Some(chain) = sample.callchain() {
        out.u64(chain.len() as u64);
        chain.for_each(|entry| out.u64(entry));
    }
    if let Some(raw) = sample.raw() {
        out.u32(raw.len() as u32);
        out.bytes(raw);
    }
    if let Some(branches) = sample.branches() {
        encode_branches(&branches, sample.branch_hw_index(), out);
    }
    encode_registers(sample.regs_user(), out);
    if let Some(stack) = sample.stack_user_dumped() {
        out.u64(stack.len() as u64);
        out.bytes(stack);
        word(out, sample.stack_user_valid());
    }
    match sample.weight_parts() {
        Some((weight, second, third)) => {
            out.u64(u64::from(weight) | u64::from(second) << 32 | u64::from(third) << 48);
        }
        None => word(out, sample.weight()),
    }
    word(out, sample.data_src());
    word(out, sample.transaction());
    encode_registers(sample.regs_intr(), out);
    for value in [
        sample.phys_addr(),
        sample.cgroup(),
        sample.data_page_size(),
        sample.code_page_size(),
    ] {
        word(out, value);
    }
    if let Some(aux) = sample.aux().filter(|_| has(SampleType::AUX)) {
        out.u64(aux.len() as u64);
        out.bytes(aux);
    }
    out.bytes(sample.extra());
}

fn encode_branches(branches: &Branches<'_>, hw_index: Option<u64>, out: &mut Encoder) {
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

fn encode_registers(registers: Option<Registers<'_>>, out: &mut Encoder) {
    if let Some(registers) = registers {
        out.u64(registers.abi);
        registers.values.for_each(|value| out.u64(value));
    }
}
