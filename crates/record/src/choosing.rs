//! Which leavings of a CPU the kernel samples, where it chooses some by chance.

use crate::open::{OpenEvent, OpenSet};
use crate::options::Options;
use crate::planned::Role;
use crate::waits::{self, FloodGate, Thinner};
use prof_sys::RandomChoice;
use std::sync::Arc;

/// What lets the kernel choose which leavings it samples.
pub(crate) fn thinner(options: &Options, set: &OpenSet) -> Option<Thinner> {
    let most = options.waits?.stacks?;
    let is_of_waits = |event: &&OpenEvent| waits::is_of_waits(&event.planned.name);
    let event = set.events.iter().find(is_of_waits)?;
    if !waits::wants_thinned(options) || !waits::has_stacks(&event.planned.attr) {
        return None;
    }
    let clock = options.used_clock()?.id;
    let choice = match &set.choice {
        Some(choice) => choice.clone(),
        None => Arc::new(choice_of_own(event)?),
    };
    Some(Thinner::new(most, clock, choice))
}

/// What the draining thread does about floods of samples of leaving; nothing where rings
/// hold other samples, too, since their bytes do not tell which.
pub(crate) fn gate(thinner: &Thinner, set: &OpenSet) -> Option<FloodGate> {
    /// Header and fields but registers and stack.
    const OTHERS: u64 = 80;
    let is_of_waits = |event: &&OpenEvent| waits::is_of_waits(&event.planned.name);
    let mut sampling = set.events.iter();
    let others = sampling.any(|it| it.planned.role == Role::Samples && !is_of_waits(&it));
    let attr = &set.events.iter().find(is_of_waits)?.planned.attr;
    if others {
        return None;
    }
    let registers = 8 * u64::from(attr.sample_regs_user.count_ones());
    Some(thinner.gate(OTHERS + registers + u64::from(attr.sample_stack_user)))
}

/// What chooses among the samples that an event makes itself; `None` where the kernel
/// does not let this user.
fn choice_of_own(event: &OpenEvent) -> Option<RandomChoice> {
    let choice = RandomChoice::new().ok()?;
    for open in &event.descriptors {
        choice.attach(&open.event).ok()?;
    }
    Some(choice)
}
