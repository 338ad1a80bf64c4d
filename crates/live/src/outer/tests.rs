use super::settled::PROBATION;
use super::{Known, OuterFrames};
use crate::memory::Copied;
use crate::slot_history::{CALM, SIGHTINGS, SlotHistory};
use crate::user_chain::UserChain;
use prof_unwind::{Base, FpFrom, StackDump};

pub(crate) fn frame(slot: u64, pc: u64) -> Known {
    Known {
        is_only: false,
        slot,
        pc,
        sp: slot + 8,
        key: pc,
        since: 0,
        looks: 0,
        link: None,
        fp: 0,
        fp_from: FpFrom::Callee,
        needs_fp: false,
        base: Base::Stack,
    }
}

fn outer() -> OuterFrames {
    let mut outer = OuterFrames::default();
    let inner = [frame(0xf00, 1), frame(0x1008, 2), frame(0x1100, 3)];
    outer.replace_inner(0, &inner);
    outer
}

fn slots(outer: &OuterFrames) -> Vec<u64> {
    outer
        .until(usize::MAX)
        .iter()
        .map(|frame| frame.slot)
        .collect()
}

#[test]
fn frames_below_the_stack_pointer_are_gone() {
    let mut outer = outer();
    let stack = [0_u64, 2].map(u64::to_le_bytes).concat();
    let dump = StackDump {
        start: 0x1000,
        bytes: &stack,
    };
    let copied = Copied {
        dump,
        pieces: &[],
        told: &[],
    };
    outer.settle(&copied, 8, 1);
    assert_eq!(slots(&outer), [0x1100, 0x1008]);
    assert_eq!(outer.find(0x1010, 2), Some(1));
    assert_eq!(outer.find(0x1010, 9), None);
}

#[test]
fn a_replaced_return_address_ends_what_is_known() {
    let mut outer = outer();
    let stack = [0_u64, 77].map(u64::to_le_bytes).concat();
    let dump = StackDump {
        start: 0x1000,
        bytes: &stack,
    };
    let copied = Copied {
        dump,
        pieces: &[],
        told: &[],
    };
    outer.settle(&copied, 8, 1);
    assert_eq!(slots(&outer), [0x1100]);
}

#[test]
fn what_was_read_with_the_sample_counts_like_the_copy() {
    let dump = StackDump {
        start: 0x1000,
        bytes: &[],
    };
    let piece = |pc: u64| [(0x1100, pc.to_le_bytes().to_vec())];
    for (pc, left) in [(3, &[0x1100, 0x1008][..]), (4, &[])] {
        let mut outer = outer();
        let pieces = piece(pc);
        let pieces = &pieces[..];
        outer.settle(
            &Copied {
                dump,
                pieces,
                told: &[],
            },
            8,
            1,
        );
        assert_eq!(slots(&outer), left);
    }
}

#[test]
fn frames_of_any_size_are_walked_anew() {
    let mut outer = OuterFrames::default();
    let mut frames = [
        frame(0x1000, 1),
        frame(0x1100, 2),
        frame(0x1200, 3),
        frame(0x1300, 4),
    ];
    // The caller of 2 hangs on a register; that of 3 on a frame pointer
    // which stands where it can be compared.
    frames[1].base = Base::Other;
    (frames[2].base, frames[2].fp) = (Base::Frame, 0x7777);
    frames[2].fp_from = FpFrom::Memory(0x11f8);
    outer.replace_inner(0, &frames);
    assert_eq!(outer.find(0x1308, 4), Some(0));
    assert_eq!(outer.find(0x1208, 3), Some(1));
    assert_eq!(outer.find(0x1108, 2), Some(2));
    assert_eq!(outer.find(0x1008, 1), None);
    for (fp, left) in [(0x7777_u64, &[0x1300, 0x1200][..]), (0x6666, &[0x1300])] {
        let words = [fp, 3].map(u64::to_le_bytes).concat();
        let dump = StackDump {
            start: 0x11f8,
            bytes: &words,
        };
        outer.settle(
            &Copied {
                dump,
                pieces: &[],
                told: &[],
            },
            8,
            1,
        );
        assert_eq!(slots(&outer), left);
    }
}

/// Frames whose callees saved no frame pointer hang on the one that a
/// frame further in has saved, or on the register.
#[test]
fn a_frame_pointer_counts_where_it_was_saved() {
    let frames = |from: FpFrom| {
        let mut frames = [0x1000, 0x1100, 0x1200, 0x1300].map(|slot| frame(slot, slot));
        frames.iter_mut().for_each(|frame| frame.fp = 0x7777);
        frames[1].fp_from = from;
        frames[2].base = Base::Frame;
        let mut outer = OuterFrames::default();
        outer.replace_inner(0, &frames);
        outer
    };
    let copied = |fp: u64, word: u64| [fp, 0, 0, word].map(u64::to_le_bytes).concat();
    for (from, fp, left) in [
        (FpFrom::Memory(0x10e8), 0x7777, 3),
        (FpFrom::Memory(0x10e8), 0x6666, 2),
        // In no slot: the register has it, which the walk compares.
        (FpFrom::Callee, 0x6666, 3),
    ] {
        let mut outer = frames(from);
        assert!((0..4).all(|at| {
            let known = outer.until(4)[at];
            outer.find(known.sp, known.key) == Some(at)
        }));
        let bytes = copied(fp, 0x1100);
        let dump = StackDump {
            start: 0x10e8,
            bytes: &bytes,
        };
        let copied = Copied {
            dump,
            pieces: &[],
            told: &[],
        };
        outer.settle(&copied, 8, 1);
        assert_eq!(slots(&outer).len(), left, "{from:?} {fp:#x}");
    }
    // Computed from something else: only as far in as that frame.
    let outer = frames(FpFrom::Other);
    let found = |slot: u64| outer.find(slot + 8, slot);
    assert_eq!((found(0x1100), found(0x1000)), (Some(2), None));
}

#[test]
fn what_was_verified_counts_for_its_drain_and_as_long_as_it_stays() {
    let mut outer = outer();
    assert!(!outer.is_verified(2, 7));
    outer.verified(2, 7);
    assert!(outer.is_verified(2, 7) && !outer.is_verified(2, 8));
    assert!(!outer.is_verified(1, 7) && !outer.is_verified(3, 7));
    outer.replace_inner(2, &[frame(0xe00, 9)]);
    assert!(outer.is_verified(2, 7), "of them none was replaced");
    outer.replace_inner(1, &[frame(0xe00, 9), frame(0xf00, 8)]);
    assert!(!outer.is_verified(2, 7));
}

#[test]
fn frames_left_behind_count_again_only_where_copied() {
    let dump = StackDump {
        start: 0x1000,
        bytes: &[],
    };
    let pieces = [(0x1100, 3_u64.to_le_bytes().to_vec())];
    for (pieces, left) in [(&pieces[..], &[0x1100][..]), (&[], &[])] {
        let mut outer = outer();
        outer.left_behind();
        outer.settle(
            &Copied {
                dump,
                pieces,
                told: &[],
            },
            8,
            1,
        );
        assert_eq!(slots(&outer), left);
        outer.settle(
            &Copied {
                dump,
                pieces: &[],
                told: &[],
            },
            8,
            1,
        );
        assert_eq!(slots(&outer), left);
    }
}

#[test]
fn frames_on_two_stacks_are_found_on_both() {
    let mut outer = outer();
    // Called from 0xf00's frame, on a stack that lies higher.
    let switched = [frame(0x8000, 5), frame(0x8100, 4)];
    outer.replace_inner(3, &switched);
    assert_eq!(slots(&outer), [0x1100, 0x1008, 0xf00, 0x8100, 0x8000]);
    for (at, slot) in slots(&outer).into_iter().enumerate() {
        let pc = outer.until(usize::MAX)[at].pc;
        assert_eq!(outer.find(slot + 8, pc), Some(at));
        assert!(
            outer
                .known(slot, pc)
                .is_some_and(|known| known.slot == slot)
        );
        assert_eq!(outer.known(slot, 99), None);
    }
}

#[test]
fn slots_inside_of_a_changed_one_are_not_calm() {
    let mut outer = OuterFrames::default();
    assert!(outer.is_calm(0x1000, 1));
    outer.history.observe_any(0x2000, 1);
    outer.history.observe_any(0x1000, 50);
    let calm = |slots: [u64; 4], now| slots.map(|slot| outer.is_calm(slot, now));
    let slots = [0x800, 0x1000, 0x1008, 0x2008];
    assert_eq!(calm(slots, 60), [false, false, false, true]);
    assert_eq!(calm(slots, 2 + CALM), [false, false, true, true]);
    assert_eq!(calm(slots, 51 + CALM), [true; 4]);
    outer.history.observe_any(0x3000, 500);
    assert!(!outer.is_calm(0x2008, 501));
}

#[test]
fn slots_above_all_recent_changes_are_calm() {
    let mut outer = OuterFrames::default();
    outer.is_deep();
    let uncalm = |outer: &OuterFrames, now| outer.uncalm_slots(now);
    assert_eq!(uncalm(&outer, 1), 0..0);
    outer.observe(&[frame(0x3000, 1), frame(0x1000, 1)], 1);
    assert_eq!(uncalm(&outer, 2), 0..0, "seen, not changed");
    outer.observe(&[frame(0x3000, 2)], 10);
    outer.observe(&[frame(0x1000, 2)], 20);
    assert_eq!(uncalm(&outer, 21), 0x1000..0x3001);
    outer.history.observe_any(0x2000, 30);
    let ends = [31, 11 + CALM, 21 + CALM].map(|now| uncalm(&outer, now).end);
    assert_eq!(ends, [0x3001, 0x2001, 0x2001]);
    assert_eq!(uncalm(&outer, 31 + CALM), 0..0);
    // It never says more than the slots themselves.
    for now in [31, 11 + CALM, 21 + CALM, 31 + CALM] {
        for slot in [0x1000, 0x2000, 0x3000, 0x4000] {
            assert!(uncalm(&outer, now).contains(&slot) || outer.is_calm(slot, now));
        }
    }
    // However often slots change, few drains are noted.
    for now in 0..10_000 {
        outer.history.observe_any(0x10_0000 - now, 1000 + now);
    }
    assert!(outer.history.noted() <= 1 + SlotHistory::MOST_NOTED);
}

#[test]
fn what_was_seen_often_is_sure() {
    // As a known frame that stays.
    let mut outer = outer();
    for now in 1..=u64::from(SIGHTINGS) {
        assert!(!outer.is_sure(0x1008, 2));
        outer.look(now);
        outer.look(now);
    }
    assert!(outer.is_sure(0x1008, 2));
    assert!(!outer.is_sure(0x1008, 9));
    // As one that comes and goes.
    let mut outer = OuterFrames::default();
    outer.is_deep();
    for now in 1..=u64::from(SIGHTINGS) {
        assert!(!outer.is_sure(0x1008, 2));
        outer.observe(&[frame(0x1008, 2), frame(0x1100, 3)], now);
        outer.observe(&[frame(0x1008, 2)], now);
    }
    assert!(outer.is_sure(0x1008, 2) && outer.is_sure(0x1100, 3));
    outer.observe(&[frame(0x1008, 4)], 100);
    assert!(!outer.is_sure(0x1008, 2) && !outer.is_sure(0x1008, 4));
}

#[test]
fn steady_frames_need_no_more_proof_until_their_slots_change() {
    let mut outer = outer();
    outer.is_deep();
    for now in 1..=u64::from(SIGHTINGS) {
        assert_eq!(outer.steady(2, now), 0);
        outer.look(now);
    }
    let now = u64::from(SIGHTINGS) + 1;
    assert_eq!((outer.steady(2, now), outer.steady(1, now)), (2, 1));
    // What is new of the inner frames changes nothing of the outer ones.
    let new = Known {
        looks: SIGHTINGS,
        ..frame(0xe00, 9)
    };
    outer.replace_inner(2, &[new]);
    assert_eq!((outer.steady(3, now), outer.until(9).len()), (2, 3));
    // Read as something else on the way to somewhere else.
    outer.observe(&[frame(0x1008, 2)], now);
    outer.observe(&[frame(0x1008, 7)], now);
    assert_eq!(outer.steady(2, now), 1);
    outer.observe(&[frame(0x1100, 3)], now);
    outer.observe(&[frame(0x1100, 4)], now);
    assert_eq!(outer.steady(2, now), 0);
}

#[test]
fn frames_that_needed_no_proof_need_none_when_the_thread_is_back() {
    let stack: Vec<Known> = (0..1000).map(|at| frame(0x10_0000 - 16 * at, 1)).collect();
    let mut outer = OuterFrames::default();
    outer.is_deep();
    let mut now = 1;
    while now <= 2 * u64::from(SIGHTINGS) {
        walk(&mut outer, &stack, now);
        now += 1;
    }
    assert_eq!(outer.steady(1000, now), 1000);
    walk(&mut outer, &stack[..300], now);
    assert_eq!(walk(&mut outer, &stack, now + 1), Some(false));
    assert_eq!(outer.steady(1000, now + 1), 300, "its samples may be older");
    assert!(outer.is_settled_until(999, now + 1));
    assert_eq!(outer.steady(1000, now + 2), 1000);
    // One was seen as another meanwhile: what is inside of it needs proof.
    let now = now + 2;
    walk(&mut outer, &stack[..300], now);
    outer.observe(&[frame(stack[700].slot, 1)], now);
    outer.observe(&[frame(stack[700].slot, 2)], now);
    assert_eq!(walk(&mut outer, &stack, now + 1), Some(false));
    assert!(!outer.is_settled_until(999, now + 1));
    assert_eq!(outer.steady(1000, now + 2), 700);
}

#[test]
fn many_frames_that_come_back_leave_those_inside_of_them_to_come_back() {
    let stack: Vec<Known> = (0..6000).map(|at| frame(0x10_0000 - 16 * at, 1)).collect();
    let mut outer = OuterFrames::default();
    outer.is_deep();
    walk(&mut outer, &stack, 1);
    walk(&mut outer, &stack[..300], 2);
    let few = stack.get(..300 + 2000).expect("of 6000");
    assert_eq!(walk(&mut outer, few, 3), Some(false));
    assert_eq!(walk(&mut outer, &stack, 4), Some(false));
}

#[test]
fn after_a_long_walk_just_those_slots_have_changed_that_hold_something_else() {
    let stack: Vec<Known> = (0..1000).map(|at| frame(0x10_0000 - 16 * at, 1)).collect();
    let mut other = stack.clone();
    // One frame calls from elsewhere, and the places of two are those of one.
    other[600].pc = 2;
    let gone = other.remove(700).slot;
    let inner_first = |frames: &[Known]| frames.iter().rev().copied().collect::<Vec<_>>();
    let mut outer = OuterFrames::default();
    outer.is_deep();
    outer.observe_long(&inner_first(&stack), 0, 1);
    outer.replace_inner(0, &inner_first(&stack));
    assert_eq!(outer.uncalm_slots(2), 0..0, "all of it is new");
    outer.observe_long(&inner_first(&stack), 0, 2);
    assert_eq!(outer.uncalm_slots(3), 0..0);
    outer.observe_long(&inner_first(&other[500..]), 500, 3);
    assert_eq!(outer.uncalm_slots(4), gone..stack[600].slot + 1);
    let calm = |at: usize| outer.is_calm(stack[at].slot, 4);
    let uncalm: Vec<usize> = (0..stack.len()).filter(|&at| !calm(at)).collect();
    assert_eq!(uncalm, [600, 700]);
}

#[test]
fn a_slot_that_changed_unseen_is_on_probation() {
    let mut outer = outer();
    outer.changed(1, 7);
    assert_eq!(slots(&outer), [0x1100]);
    assert!(!outer.is_trusted() && !outer.is_settled(0x1008));
    // Samples that may have been taken before it was read tell nothing.
    outer.explain(0x1000, 7);
    outer.explain(0x1000, 8);
    assert!(!outer.is_doubtful(&(0x1000..=0x2000), &[]));
    assert!(outer.may_be_doubtful(&(0x1000..=0x2000), &[]));
    outer.explain(0x1000, 9);
    assert!(outer.is_doubtful(&(0x1000..=0x2000), &[]));
    assert!(!outer.may_be_doubtful(&(0x1000..=0x2000), &[]));
    assert!(outer.is_settled(0x1100));
    let asked = (0..PROBATION).filter(|_| !outer.is_settled(0x1008)).count();
    assert_eq!(asked, usize::from(PROBATION) - 1);
    assert!(outer.is_trusted());
}

#[test]
fn a_slot_whose_frame_the_thread_has_left_may_change() {
    for drain in [7, 8] {
        let mut outer = outer();
        outer.changed(1, 7);
        outer.explain(0x1010, drain);
        assert!(outer.is_trusted(), "{drain}");
        assert!(outer.is_settled(0x1008));
    }
}

/// A walk from the inside of a stack, outermost frame first, in drain `now`; which
/// kind of popped frames came back, if any did.
fn walk(outer: &mut OuterFrames, stack: &[Known], now: u64) -> Option<bool> {
    let same = outer.until(usize::MAX).iter().zip(stack);
    let there = same.take_while(|(known, frame)| known.stands_as(frame));
    let there = there.count();
    outer.truncate(there);
    outer.look(now);
    let (mut inner, mut joined, mut came_back) = (Vec::new(), 0, None);
    for frame in stack.iter().rev() {
        inner.push(*frame);
        if let Some(at) = outer.find(frame.sp, frame.key) {
            joined = at;
            break;
        }
        let Some(at) = outer.find_popped(frame.sp, frame.key) else {
            continue;
        };
        let is_other = |popped: &Known| {
            let at = stack.partition_point(|frame| frame.slot > popped.slot);
            !stack.get(at).is_some_and(|frame| frame.stands_as(popped))
        };
        let popped = outer.popped_from(at).enumerate();
        match popped.filter(|(_, popped)| is_other(popped)).last() {
            Some((outward, _)) => drop(outer.popped_changed(at, outward)),
            None => {
                came_back = Some(outer.frames.left().is_empty());
                joined = outer.revive(at, now);
                break;
            }
        }
    }
    outer.steady(joined, now);
    outer.replace_inner(joined, &inner);
    came_back
}

#[test]
fn frames_that_come_back_are_those_that_were_left() {
    let mut seed = 7_u64;
    let mut below = |limit: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005);
        seed = seed.wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % limit
    };
    let (mut outer, mut stack) = (OuterFrames::default(), Vec::new());
    let mut came_back = [0; 2];
    for now in 1..600 {
        let len = below(stack.len() + 1);
        stack.truncate(len);
        // Mostly the same function, sometimes one frame of another, or a few.
        let other = below(4 * (1200 - len));
        let (more, few) = match below(3) {
            0 => (below(4), true),
            _ => (below(1200 - len), false),
        };
        for at in len..len + more {
            let pc = if few || at == len + other { 2 } else { 1 };
            stack.push(frame(0x10_0000 - 16 * at as u64, pc));
        }
        if let Some(others_stood_there) = walk(&mut outer, &stack, now) {
            came_back[usize::from(others_stood_there)] += 1;
        }
        let known = outer.until(usize::MAX);
        assert_eq!(known.len(), stack.len(), "drain {now}");
        let same = known.iter().zip(&stack);
        assert_eq!(same.filter(|(known, it)| !known.stands_as(it)).count(), 0);
        let mut chain = UserChain::default();
        let shared = outer.share(below(stack.len() + 1), &mut chain.outer);
        let expected = stack[..shared].iter().rev().map(|frame| frame.pc);
        assert_eq!(
            chain.pcs().collect::<Vec<_>>(),
            expected.collect::<Vec<_>>()
        );
    }
    assert!(came_back.iter().all(|&count| count > 20), "{came_back:?}");
}
