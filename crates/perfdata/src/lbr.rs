//! Call chains that the hardware kept (`--call-graph lbr`).

use crate::event::Event;
use crate::sample::Sample;
use prof_abi::{BranchSampleType, CallchainContext};

/// Replaces the user part of a sample's call chain by its branch stack, if
/// the event asks the hardware to keep calls there; `false` if not.
///
/// The result has one context marker before each user entry: these are the
/// calls themselves, not the addresses behind them.
///
/// ```text
///   chain     KERNEL k1 k2 USER u1 u2        (u: by frame pointers)
///   branches  from0 -> to0, from1 -> to1
///   out       KERNEL k1 k2 USER to0 USER from0 USER from1
/// ```
pub fn call_chain_of_branches(event: &Event, sample: &Sample<'_>, out: &mut Vec<u64>) -> bool {
    out.clear();
    let keeps_calls = event.attr.branch_sample_type;
    if !keeps_calls.has(BranchSampleType::CALL_STACK) {
        return false;
    }
    let user = CallchainContext::USER.0;
    let (Some(chain), Some(branches)) = (sample.callchain(), sample.branches()) else {
        return false;
    };
    let Some(newest) = branches.iter().next() else {
        return false;
    };
    let kernel = chain.clone().take_while(|&entry| entry != user).count();
    if kernel == chain.len() {
        return false;
    }
    out.extend(chain.take(kernel));
    out.extend([user, newest.to]);
    out.extend(branches.iter().flat_map(|branch| [user, branch.from]));
    true
}

#[cfg(test)]
mod tests {
    use super::call_chain_of_branches;
    use crate::event::{Event, Events};
    use crate::{Body, Record};
    use prof_abi::{
        BranchSampleType, ByteOrder, CallchainContext, EventAttr, RecordType, SampleType,
    };

    fn chain(asked: BranchSampleType, chain: &[u64], branches: &[(u64, u64)]) -> Option<Vec<u64>> {
        let attr = EventAttr {
            sample_type: SampleType::CALLCHAIN | SampleType::BRANCH_STACK,
            branch_sample_type: asked,
            ..EventAttr::default()
        };
        let mut events = Events::new(ByteOrder::Little);
        events.push(Event::new(attr, Vec::new()));
        let mut body = vec![chain.len() as u64];
        body.extend(chain);
        body.push(branches.len() as u64);
        body.extend(branches.iter().flat_map(|&(from, to)| [from, to, 0]));
        let mut bytes = RecordType::SAMPLE.0.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend((8 + body.len() as u16 * 8).to_le_bytes());
        bytes.extend(body.iter().flat_map(|word| word.to_le_bytes()));
        let record = Record::new(&bytes, 0, &events)?;
        let Body::Sample(sample) = record.decode() else {
            panic!("a sample");
        };
        let mut out = Vec::new();
        call_chain_of_branches(record.event()?, &sample, &mut out).then_some(out)
    }

    #[test]
    fn branches_take_the_place_of_the_user_part() {
        // covers unit: BR-05
        let (kernel, user) = (CallchainContext::KERNEL.0, CallchainContext::USER.0);
        let stack = BranchSampleType::CALL_STACK;
        let branches = [(0x20, 0x10), (0x40, 0x30)];
        assert_eq!(
            chain(stack, &[kernel, 1, 2, user, 3], &branches),
            Some(vec![kernel, 1, 2, user, 0x10, user, 0x20, user, 0x40])
        );
        assert_eq!(chain(stack, &[kernel, 1], &branches), None, "no user part");
        assert_eq!(chain(stack, &[user, 3], &[]), None, "no branches");
        let any = BranchSampleType::ANY;
        assert_eq!(chain(any, &[user, 3], &branches), None, "not a call stack");
    }
}
