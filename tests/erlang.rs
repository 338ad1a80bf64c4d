//! Stacks of Erlang processes, which are in their heaps, and of C functions that they call,
//! which are on the stack of a scheduler's thread.

use crate::oracle::{fixture, have, prof, prof_command, scratch};
use std::process::Command;

/// Functions in the ring, see `ring.erl`.
const RING: usize = 8;

/// By names and order each stack tells whether a caller is wrong or left out. It is asked
/// for by no flag, and with frame pointers.
#[test]
fn functions_of_erlang_are_in_order_without_a_flag() {
    let test = "functions_of_erlang_are_in_order_without_a_flag";
    if !have(test, "erl") {
        return;
    }
    let directory = scratch().join("erlang-ring");
    std::fs::create_dir_all(&directory).expect("a directory");
    let compiler = Command::new("erlc")
        .arg("-o")
        .arg(&directory)
        .arg(fixture("programs").join("ring.erl"))
        .output()
        .expect("erlc starts");
    assert!(compiler.status.success(), "{compiler:?}");
    for flags in [&[][..], &["+JPperf", "true"]] {
        let data = scratch().join(format!("erlang-{}.data", flags.len()));
        let output = prof_command()
            .args([
                "record",
                "-q",
                "-g",
                "-F",
                "1999",
                "-e",
                "cpu-clock:u",
                "-o",
            ])
            .arg(&data)
            .args(["--", "erl"])
            .args(flags)
            .args(["-noshell", "-pa"])
            .arg(&directory)
            .args(["-run", "ring", "main", "2500"])
            .output()
            .expect("prof starts");
        assert!(output.status.success(), "{output:?}");
        let data = data.to_str().expect("UTF-8");
        let fields = [
            "script",
            "--max-stack",
            "2000",
            "-F",
            "ip,sym,dso",
            "-i",
            data,
        ];
        let script = prof(&fields).succeeded("script");
        let (mut of_ring, mut whole, mut from_c) = (0, 0, 0);
        for stack in script.text().split("\n\n").filter(|it| !it.is_empty()) {
            let number = |line: &str| {
                let (_, behind) = line.split_once(" ring:f")?;
                let (number, _) = behind.split_once("/1 ")?;
                number.parse::<usize>().ok()
            };
            let ring: Vec<usize> = stack.lines().filter_map(number).collect();
            let in_order = |pair: &[usize]| pair[0] == pair[1] % RING + 1;
            assert!(ring.windows(2).all(in_order), "{stack}");
            let innermost = stack.lines().find(|line| !line.trim().is_empty());
            let is_in_c = innermost.is_some_and(|it| it.contains("beam.smp"));
            let stands_for_others = stack.contains("(frames in the heap)");
            let (Some(outermost), false) = (ring.last(), stands_for_others) else {
                continue;
            };
            of_ring += 1;
            let loops = stack.contains(" ring:loop/1 ");
            whole += usize::from(loops);
            from_c += usize::from(loops && is_in_c);
            assert!(!loops || *outermost == 1, "{stack}");
        }
        // 99.9 of 100, and 30 to 40 of C, with nothing else running.
        assert!(of_ring >= 300, "{of_ring} stacks");
        assert!(whole * 100 >= of_ring * 95, "{whole} of {of_ring}");
        assert!(from_c * 10 >= of_ring, "{from_c} of {of_ring} from C");
    }
}
