//! Code made of bytes, and the frames that it has.

use super::leaving::Leaving;
use super::{
    CallerFp, CodeFrame, Reaches, Slot, Wanted, ends_all, epilogue, follow, follow_kept, leaving,
    search, will_make_frame,
};
use crate::Machine;

const AT: u64 = 0x1000;

/// Reads code that stands at 0x1000.
pub(super) fn reader(code: &[u8]) -> impl FnMut(u64, &mut [u8]) -> usize {
    move |at: u64, out: &mut [u8]| {
        let rest = at.checked_sub(AT).and_then(|at| code.get(at as usize..));
        let rest = rest.unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        len
    }
}

fn at(code: &[u8], wanted: Wanted) -> Option<CodeFrame> {
    follow(Machine::X86_64, AT, wanted, &mut reader(code))
}

fn sp(offset: i64, caller_fp: Option<CallerFp>) -> Option<CodeFrame> {
    Some(CodeFrame {
        return_address: Slot::FromSp(offset),
        caller_fp,
    })
}

#[test]
fn pushes_and_locals_are_counted_on_every_way() {
    // 0: test %edi,%edi; 2: je 0x12; 4: push %rbx; 5: push %rbp;
    // 6: sub $0x18,%rsp; a: call 0x10; f: jmp 0x0; 11: nop; 12: ret
    let code = [
        0x85, 0xff, 0x74, 0x0e, 0x53, 0x55, 0x48, 0x83, 0xec, 0x18, 0xe8, 1, 0, 0, 0, 0xeb, 0xef,
        0x90, 0xc3,
    ];
    let callers = Some(CallerFp::InRegister);
    assert_eq!(at(&code, Wanted::Exact(AT + 5)), sp(8, callers));
    assert_eq!(at(&code, Wanted::Return(AT + 0xf)), sp(40, callers));
    assert_eq!(at(&code, Wanted::Exact(AT + 0x12)), sp(0, callers));
    // No way leads behind the jump.
    assert_eq!(at(&code, Wanted::Exact(AT + 0x11)), None);
    // Between two instructions there is none.
    assert_eq!(at(&code, Wanted::Exact(AT + 7)), None);
}

#[test]
fn a_copy_of_the_stack_pointer_serves_where_that_is_aligned() {
    // 0: sub $0x60,%rsp; 4: mov %rbx,(%rsp); 8: mov %rbp,8(%rsp); d: mov %rsp,%rbx;
    // 10: and $-0x1000,%rsp; 17: inc %ebp; 19: mov %rbx,%rsp; 1c: mov (%rsp),%rbx; 20: ret
    let code = [
        0x48, 0x83, 0xec, 0x60, 0x48, 0x89, 0x1c, 0x24, 0x48, 0x89, 0x6c, 0x24, 8, 0x48, 0x89,
        0xe3, 0x48, 0x81, 0xe4, 0, 0xf0, 0xff, 0xff, 0xff, 0xc5, 0x48, 0x89, 0xdc, 0x48, 0x8b,
        0x1c, 0x24, 0xc3,
    ];
    let callers = Some(CallerFp::InRegister);
    let saved = Some(CallerFp::Saved(0x58));
    let by_copy = |caller_fp| {
        Some(CodeFrame {
            return_address: Slot::KeptIn(3, 0x60),
            caller_fp,
        })
    };
    assert_eq!(at(&code, Wanted::Exact(AT + 0x10)), sp(0x60, callers));
    assert_eq!(at(&code, Wanted::Exact(AT + 0x17)), by_copy(callers));
    assert_eq!(at(&code, Wanted::Exact(AT + 0x19)), by_copy(saved));
    assert_eq!(at(&code, Wanted::Exact(AT + 0x1c)), sp(0x60, saved));
    // inc %ebx in place of inc %ebp: it is lost.
    let mut lost = code;
    lost[0x18] = 0xc3;
    assert_eq!(at(&lost, Wanted::Exact(AT + 0x19)), None);
    // mov %esp,%ebx is no copy; nor is one in a register that any may change: %rax.
    let mut half = code.to_vec();
    half[0xd] = 0x40;
    assert_eq!(at(&half, Wanted::Exact(AT + 0x17)), None);
    let mut any = code;
    any[0xf] = 0xe0;
    assert_eq!(at(&any, Wanted::Exact(AT + 0x17)), None);
}

#[test]
fn the_way_beside_the_copying_of_arguments_tells_where_the_return_address_is() {
    // 0: test %esi,%esi; 2: jle 0xe; 4: mov %rsp,%r8; 7: sub %r10,%rsp;
    // a: inc %r8d (or nops); e: jmp *%rcx
    let copied = [
        0x85, 0xf6, 0x7e, 10, 0x49, 0x89, 0xe0, 0x4c, 0x29, 0xd4, 0x41, 0xff, 0xc0, 0x90, 0xff,
        0xe1,
    ];
    let mut kept = copied;
    kept[0xa..0xd].fill(0x90);
    for code in [copied, kept] {
        let callers = Some(CallerFp::InRegister);
        assert_eq!(at(&code, Wanted::Exact(AT + 0xe)), sp(0, callers));
    }
    let (mut nowhere, wanted) = (Reaches::default(), Wanted::Exact(u64::MAX));
    let mut leaves = |code: &[u8]| {
        let reached = search(Machine::X86_64, AT, wanted, &mut reader(code));
        nowhere.keep(AT, reached.expect_err("no way leads there"));
        nowhere.leaves(AT)
    };
    assert_eq!(leaves(&copied), Some(true));
    // jmp *%rcx below what was pushed: push %rax
    assert_eq!(leaves(&[0x50, 0xff, 0xe1]), Some(false));
    // call *%rcx; ret
    assert_eq!(leaves(&[0xff, 0xd1, 0xc3]), Some(false));
    assert_eq!(nowhere.leaves(AT + 1), None);
}

#[test]
fn a_frame_pointer_serves_where_the_stack_pointer_is_lost() {
    // 0: push %rbp; 1: mov %rsp,%rbp; 4: and $-32,%rsp; 8: sub %rax,%rsp;
    // b: call 0x11; 10: leave; 11: ret
    let code = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0, 0x48, 0x29, 0xc4, 0xe8, 1, 0, 0, 0, 0xc9,
        0xc3,
    ];
    let saved = Some(CallerFp::Saved(8));
    assert_eq!(at(&code, Wanted::Exact(AT + 4)), sp(8, saved));
    let by_fp = Some(CodeFrame {
        return_address: Slot::FromFp(8),
        caller_fp: saved,
    });
    assert_eq!(at(&code, Wanted::Return(AT + 0x10)), by_fp);
    let callers = Some(CallerFp::InRegister);
    assert_eq!(at(&code, Wanted::Exact(AT + 0x11)), sp(0, callers));
}

#[test]
fn what_follows_a_call_that_never_returns_is_another_function() {
    // 0: sub $8,%rsp; 4: call 0xa; 9: nop; a: push %rbx; b: ret
    let code = [0x48, 0x83, 0xec, 8, 0xe8, 1, 0, 0, 0, 0x90, 0x53, 0xc3];
    assert!(at(&code, Wanted::Return(AT + 9)).is_some());
    assert_eq!(at(&code, Wanted::Exact(AT + 11)), None);
}

#[test]
fn an_epilogue_tells_where_it_returns_to() {
    // add $0x28,%rsp; pop %rbx; pop %rbp; pop %r12; ret
    let code = [0x48, 0x83, 0xc4, 0x28, 0x5b, 0x5d, 0x41, 0x5c, 0xc3];
    let found = |from: u64| epilogue(Machine::X86_64, AT + from, &mut reader(&code));
    // The frame pointer is the second word of the three that are popped.
    let saved = Some(CallerFp::Saved(16));
    assert_eq!(found(0), sp(64, saved));
    assert_eq!(found(5), sp(16, saved));
    assert_eq!(found(8), sp(0, Some(CallerFp::InRegister)));
    assert_eq!(epilogue(Machine::X86_64, AT, &mut reader(&code[..8])), None);
    // Java's before 16: pop %rbp; mov 0x108(%r15),%r10; test %eax,(%r10); ret
    let code = [0x5d, 0x4d, 0x8b, 0x97, 8, 1, 0, 0, 0x41, 0x85, 2, 0xc3];
    let found = |from: u64| epilogue(Machine::X86_64, AT + from, &mut reader(&code));
    assert_eq!(found(0), sp(8, Some(CallerFp::Saved(8))));
    for at in [1, 8, 11] {
        assert_eq!(found(at), sp(0, Some(CallerFp::InRegister)), "{at}");
    }
    // mov 0x190(%r13),%rax; ret; with %rsp and %rbp in place of %rax.
    let loads = |target: u8| {
        let code = [0x49, 0x8b, target, 0x90, 1, 0, 0, 0xc3];
        epilogue(Machine::X86_64, AT, &mut reader(&code))
    };
    assert_eq!(loads(0x85), sp(0, Some(CallerFp::InRegister)));
    assert_eq!((loads(0xa5), loads(0xad)), (None, None));
}

#[test]
fn the_frame_pointer_counts_where_loops_push_and_calls_pop() {
    // 0: push %rbp; 1: mov %rsp,%rbp; 4: push %rax; 5: dec %ecx; 7: jne 4;
    // 9: call 0xf; e: ret
    let code = [
        0x55, 0x48, 0x89, 0xe5, 0x50, 0xff, 0xc9, 0x75, 0xfb, 0xe8, 1, 0, 0, 0, 0xc3,
    ];
    let kept = |wanted| follow_kept(Machine::X86_64, AT, wanted, &mut reader(&code));
    let by_fp = Some(CodeFrame {
        return_address: Slot::FromFp(8),
        caller_fp: Some(CallerFp::Saved(8)),
    });
    assert_eq!(kept(Wanted::Exact(AT)), sp(0, Some(CallerFp::InRegister)));
    assert_eq!(kept(Wanted::Return(AT + 14)), by_fp);
    // 0: je 0xc; 2: push %rax; 3: call 0x20; 8: nop; c: ret
    let mut code = vec![0x74, 0x0a, 0x50, 0xe8, 0x18, 0, 0, 0];
    code.extend([0x90, 0x90, 0x90, 0x90, 0xc3]);
    let kept = |wanted| follow_kept(Machine::X86_64, AT, wanted, &mut reader(&code));
    let callers = Some(CallerFp::InRegister);
    assert_eq!(kept(Wanted::Exact(AT + 12)), sp(0, callers));
    // Whether the call took the argument off is not known.
    assert_eq!(kept(Wanted::Exact(AT + 8)), None);
}

#[test]
fn where_arguments_may_have_been_copied_the_way_beside_that_tells() {
    // 0: test %rax,%rax; 3: jle 0xa; 5: sub %rax,%rsp; 8: jmp 0xa;
    // a: mov 0x27(%rcx),%rcx; e: jmp *%rcx
    let beside = [
        0x48, 0x85, 0xc0, 0x7e, 5, 0x48, 0x29, 0xc4, 0xeb, 0, 0x48, 0x8b, 0x49, 0x27, 0xff, 0xe1,
    ];
    // 3: jg 7; 5: jmp 0xa; 7: sub %rax,%rsp
    let mut crossed = beside;
    crossed[3..10].copy_from_slice(&[0x7f, 2, 0xeb, 3, 0x48, 0x29, 0xc4]);
    let kept = |code: &[u8], at: u64| {
        let wanted = Wanted::Exact(AT + at);
        follow_kept(Machine::X86_64, AT, wanted, &mut reader(code))
    };
    let top = sp(0, Some(CallerFp::InRegister));
    for place in [10, 14] {
        assert_eq!(kept(&beside, place), top);
        assert_eq!(kept(&crossed, place), top);
    }
    assert_eq!(kept(&beside, 8), None, "by then it is lost");
}

#[test]
fn frames_are_seen_coming_and_arguments_going() {
    let ahead = |code: &[u8]| will_make_frame(Machine::X86_64, AT, &mut reader(code));
    // mov -0x20(%rcx),%rbx; test $1,%bl; jne .; push %rbp; mov %rsp,%rbp
    let checks = [
        0x48, 0x8b, 0x59, 0xe0, 0xf6, 0xc3, 1, 0x75, 0, 0x55, 0x48, 0x89, 0xe5,
    ];
    assert!(ahead(&checks) && ahead(&checks[9..]));
    assert!(!ahead(&checks[10..]) && !ahead(&[&[0x50], &checks[..]].concat()));
    // pop %r10; lea 8(%rsp,%rcx,8),%rsp; push %r10; ret
    let code = [0x41, 0x5a, 0x48, 0x8d, 0x64, 0xcc, 8, 0x41, 0x52, 0xc3];
    let known = |number| Some([0x100, 0, 2, 0, 0, 0, 0, 0x7000, 0, 0, 0xaa, 0][number as usize]);
    let found = |from: u64| leaving(AT + from, known, &mut reader(&code));
    let returns = |register, sp| Some(Leaving { register, sp });
    assert_eq!(found(0), returns(None, 0x7020));
    assert_eq!(found(2), returns(Some(10), 0x7018));
    assert_eq!(found(7), returns(Some(10), 0x7000));
    assert_eq!(found(9), None);
    // pop %rcx; add %rdx,%rsp; push %rcx; ret
    let code = [0x59, 0x48, 0x01, 0xd4, 0x51, 0xc3];
    let known = |number| Some(if number == 7 { 0x7000 } else { 0x20 });
    let found = leaving(AT, known, &mut reader(&code));
    assert_eq!(found, returns(None, 0x7028));
}

#[test]
fn an_address_that_a_register_holds_is_returned_to_behind_pushes_for_others() {
    // 0: push %rbp; 1: mov %rsp,%rbp; 4: push %r12; 6: mov %rsp,%r10; 9: cmp %r11,%r10;
    // c: jb; 12: push %r15; 14: mov %rdx,%rax; 17: ret
    let code = [
        0x55, 0x48, 0x89, 0xe5, 0x41, 0x54, 0x49, 0x89, 0xe2, 0x4d, 0x39, 0xda, 0x0f, 0x82, 1, 0,
        0, 0, 0x41, 0x57, 0x48, 0x89, 0xd0, 0xc3,
    ];
    let known = |number| Some(if number == 7 { 0x7000 } else { 0x20 });
    let found = |code: &[u8], from: u64| leaving(AT + from, known, &mut reader(code));
    let returns = |sp| {
        let register = Some(15);
        Some(Leaving { register, sp })
    };
    assert_eq!(found(&code, 4), returns(0x6ff8));
    assert_eq!(found(&code, 6), returns(0x7000));
    assert_eq!(found(&code, 0x12), returns(0x7000));
    // The frame is not made yet; nothing is pushed any more.
    assert_eq!(found(&code, 1), None);
    assert_eq!(found(&code, 0x14), None);
    // The register does not hold it yet: mov %r10,%r15.
    let later = [&[0x4d, 0x89, 0xd7], &code[0x12..]].concat();
    assert_eq!(found(&later, 0), None);
    // call in between.
    let calls = [&[0xe8, 0, 0, 0, 0], &code[0x12..]].concat();
    assert_eq!(found(&calls, 0), None);
}

#[test]
fn a_call_that_ends_all_is_known_by_what_stands_behind_it() {
    let ends = |code: &[u8]| ends_all(Machine::X86_64, AT, &mut reader(code));
    // xor %rdi,%rdi; call _exit; hlt
    let put_there = [0x48, 0x31, 0xff, 0xe8, 1, 0, 0, 0, 0xf4];
    assert!(ends(&put_there));
    // call *%rax; ud2
    assert!(ends(&[0xff, 0xd0, 0x0f, 0x0b]));
    // Something that goes on.
    assert!(!ends(&[0x48, 0x31, 0xff, 0xe8, 1, 0, 0, 0, 0x90]));
    assert!(!ends(&put_there[..8]));
    // ret; hlt; jmp; a call of another kind of end before.
    for first in [&[0xc3][..], &[0xf4], &[0xeb, 0x00], &[0x0f, 0x0b]] {
        assert!(!ends(&[first, &put_there].concat()));
    }
    assert!(!ends(&[&[0x90; 4][..], &put_there].concat()));
}

#[test]
fn any_bytes_come_to_an_end() {
    let mut seed = 1_u32;
    for _ in 0..2000 {
        let code: Vec<u8> = (0..64)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect();
        for machine in [Machine::X86_64, Machine::X86] {
            follow(machine, AT, Wanted::Exact(AT + 40), &mut reader(&code));
            follow_kept(machine, AT, Wanted::Exact(AT + 40), &mut reader(&code));
            epilogue(machine, AT, &mut reader(&code));
            ends_all(machine, AT, &mut reader(&code));
            will_make_frame(machine, AT, &mut reader(&code));
        }
        leaving(AT, |_| Some(u64::MAX), &mut reader(&code));
    }
    // A jump to itself.
    assert_eq!(at(&[0xeb, 0xfe], Wanted::Exact(AT + 2)), None);
}

#[test]
fn a_function_is_followed_before_those_that_it_jumps_to() {
    // 0: test %edi,%edi; 2: je 7 (or jne); 4: two bytes; 6: what is wanted; 7: jmp to 20 000 nops
    let far = |at: i32| [&[0xe9][..], &(64 - at - 5).to_le_bytes()].concat();
    let push_pop_ret = [0x53, 0x5b, 0xc3];
    let nops = |code: Vec<u8>| [&code[..], &vec![0x90; 64 - code.len()], &[0x90; 20_000]].concat();
    let jumps_first = [&[0x85, 0xff, 0x74, 5][..], &far(4), &push_pop_ret].concat();
    let jumps_last = [&[0x85, 0xff, 0x74, 3][..], &push_pop_ret, &far(7)].concat();
    let pushed = sp(8, Some(CallerFp::InRegister));
    assert_eq!(at(&nops(jumps_first), Wanted::Exact(AT + 10)), pushed);
    let jumps_last = nops(jumps_last);
    assert_eq!(at(&jumps_last, Wanted::Exact(AT + 5)), pushed);
    // What is jumped to is looked at as far as there is room for it.
    assert_eq!(
        at(&jumps_last, Wanted::Exact(AT + 99)),
        sp(0, Some(CallerFp::InRegister))
    );
    assert_eq!(at(&jumps_last, Wanted::Exact(AT + 19_000)), None);
}
