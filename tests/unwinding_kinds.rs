//! `prof record -g` on programs of every kind: stacks reach the start, and the
//! recorder stays small.

use crate::oracle::{compiled, copy_program, have, prof, prof_command, scratch, skipped};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most memory that a recorder may have used, KiB.
const MOST_MEMORY: u64 = 64 << 10;

/// Builds `every-kind.c` with these options; `None`, with the reason printed,
/// where the compiler cannot.
fn build(name: &str, options: &[&str]) -> Option<PathBuf> {
    if !have(name, "gcc") {
        return None;
    }
    let program = scratch().join(format!("every-kind-{name}"));
    let built = Command::new("gcc")
        .args(["-O2", "-fomit-frame-pointer"])
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs/every-kind.c"))
        .output()
        .expect("gcc starts");
    if !built.status.success() {
        skipped(name, &format!("gcc {options:?} is not possible here"));
        return None;
    }
    Some(program)
}

/// Records a command; the peak of the recorder's memory, KiB.
fn record(recording: &Path, rate: &str, command: &[&str]) -> u64 {
    let mut recorder = prof_command()
        .args(["record", "-q", "-F", rate, "-g", "-o"])
        .arg(recording)
        .arg("--")
        .args(command)
        .spawn()
        .expect("prof starts");
    let status = format!("/proc/{}/status", recorder.id());
    let mut peak = 0;
    loop {
        // Gone from the moment of its end, so what is read is of its life.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let memory = line.and_then(|line| line.trim().strip_suffix(" kB"));
        peak = memory.and_then(|text| text.parse().ok()).unwrap_or(peak);
        if let Some(ended) = recorder.try_wait().expect("a child") {
            assert!(ended.success(), "{command:?}");
            return peak;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Samples that reach the start and all with a user stack, as the recorder
/// tells.
fn complete(recording: &Path) -> (u64, u64) {
    let output = prof_command()
        .args(["report", "--json", "-i"])
        .arg(recording)
        .output()
        .expect("prof starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stacks = &report["trust"]["stacks"];
    let number = |name: &str| stacks[name].as_u64().expect("a number");
    (number("complete"), number("judged"))
}

/// Records and requires complete stacks. Only samples from before the first
/// instruction of the program, in exec and the loader, may lack something.
fn assert_complete(name: &str, command: &[&str]) {
    let recording = scratch().join(format!("every-kind-{name}.data"));
    record(&recording, "999", command);
    let (complete, judged) = complete(&recording);
    assert!(judged >= 200, "{name}: {judged} samples");
    assert!(
        complete + 8 >= judged,
        "{name}: {complete} of {judged} stacks are complete"
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn programs_of_every_kind_reach_the_start() {
    for (name, options) in [
        ("plain", &[][..]),
        ("static", &["-static"]),
        ("static-pie", &["-static-pie"]),
        ("32-bit", &["-m32"]),
        ("32-bit-static", &["-m32", "-static"]),
    ] {
        if let Some(program) = build(name, options) {
            assert_complete(name, &[text(&program), "work", "300"]);
        }
    }
}

/// Code made at run time without a frame pointer, through which no way can be followed:
/// it jumps through a table.
#[test]
fn kernels_that_jump_through_tables_have_callers() {
    let test = "kernels_that_jump_through_tables_have_callers";
    let Some(program) = compiled(test, "kernel-jit.c", &["-O2"]) else {
        return;
    };
    assert_complete("kernel-jit", &[text(&program)]);
    let recording = scratch().join("every-kind-kernel-jit.data");
    let script = prof(&["script", "-F", "ip,sym", "-i", text(&recording)]);
    let script = script.succeeded("script").text();
    let name = |line: &str| line.trim().split_once(' ').map(|(_, name)| name.to_owned());
    let stacks = script.split("\n\n");
    let stacks = stacks.map(|stack| stack.lines().filter_map(name).collect::<Vec<_>>());
    let in_kernel = stacks.filter(|stack| stack.iter().any(|it| it == "[unknown]"));
    let mut count = 0;
    for stack in in_kernel {
        let made = stack.iter().position(|it| it == "[unknown]").unwrap_or(0);
        let callers: Vec<&str> = stack.iter().skip(made + 1).map(String::as_str).collect();
        assert!(callers.starts_with(&["run_kernel", "main"]), "{stack:?}");
        count += 1;
    }
    assert!(count >= 200, "{count} samples in the kernel");
}

/// Stacks that a program made for itself, as boost and PHP do, end where their first
/// function would return to.
#[test]
fn stacks_of_fibres_reach_their_start() {
    let test = "stacks_of_fibres_reach_their_start";
    let Some(program) = compiled(test, "fibres.c", &["-O2", "-fomit-frame-pointer"]) else {
        return;
    };
    assert_complete("fibres", &[text(&program), "600"]);
    let recording = scratch().join("every-kind-fibres.data");
    let script = prof(&["script", "-F", "ip,sym", "-i", text(&recording)]);
    let script = script.succeeded("script").text();
    let (mut of_fibres, mut of_main) = (0, 0);
    for stack in script.split("\n\n") {
        let is_in = |name: &str| stack.lines().any(|line| line.trim().ends_with(name));
        // Those of functions that run, not of what switches between the stacks.
        if !is_in(" deep") {
            continue;
        }
        match is_in(" first") || is_in(" second") {
            true => of_fibres += 1,
            false => of_main += 1,
        }
        let outermost = stack.trim_end().lines().last().unwrap_or_default();
        let start = if is_in(" main") { "_start" } else { "begins" };
        assert!(outermost.ends_with(start), "{stack}");
        assert!(
            is_in(" main") != (is_in(" first") || is_in(" second")),
            "{stack}"
        );
    }
    assert!(of_fibres > 100 && of_main > 50, "{of_fibres} {of_main}");
}

/// Callees of what jumps through a table, which no call leads to, in a stripped program
/// without unwind information. Each stack goes on in the function that called through it.
#[test]
fn what_a_table_leads_to_was_called_by_who_calls_through_it() {
    let test = "what_a_table_leads_to_was_called_by_who_calls_through_it";
    let options = [
        "-O1",
        "-fomit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
        "-s",
    ];
    let Some(program) = compiled(test, "table-calls.c", &options) else {
        return;
    };
    assert_complete("table-calls", &[text(&program), "600"]);
}

/// Functions that jump to each other, as those that GHC compiles, were called by who entered
/// them, however they call C themselves; with symbols and without.
#[test]
fn functions_that_jump_were_called_by_who_entered_them() {
    let test = "functions_that_jump_were_called_by_who_entered_them";
    let options = ["-O1", "-fomit-frame-pointer"];
    let Some(stripped) = compiled(
        &format!("{test}-stripped"),
        "jumping-calls.c",
        &[&options[..], &["-s"]].concat(),
    ) else {
        return;
    };
    assert_complete("jumping-stripped", &[text(&stripped), "600"]);
    let Some(program) = compiled(test, "jumping-calls.c", &options) else {
        return;
    };
    assert_complete("jumping", &[text(&program), "600"]);
    let recording = scratch().join("every-kind-jumping.data");
    let script = prof(&["script", "-F", "ip,sym", "-i", text(&recording)]);
    let script = script.succeeded("script").text();
    let (mut first, mut second, mut cut) = (0, 0, 0);
    for stack in script.split("\n\n") {
        let names = stack.lines().filter_map(|line| line.trim().split_once(' '));
        let mut names = names.map(|(_, name)| name).peekable();
        let in_c = names.next_if_eq(&"called_in_c").is_some();
        match names.next() {
            Some("jump_first") if !in_c => first += 1,
            Some("jump_second") => second += 1,
            _ => continue,
        }
        let callers: Vec<&str> = names.take(5).collect();
        let expected = ["schedules", "schedules", "schedules", "schedules", "main"];
        assert_eq!(
            callers,
            expected.get(..callers.len()).unwrap_or_default(),
            "{stack}"
        );
        cut += usize::from(callers.len() < expected.len());
    }
    assert!(first > 50 && second > 20, "{first} and {second}");
    // Beside other programs the first ones come too late.
    assert!(cut * 20 <= first + second, "{cut} of {first} and {second}");
}

/// Stacks through code that PCRE2 made, which keeps no frame pointer.
#[test]
fn compiled_regular_expressions_have_callers() {
    let test = "compiled_regular_expressions_have_callers";
    if !have(test, "grep") {
        return;
    }
    let words = scratch().join("regular.txt");
    let line = "abacadae bfbdcacf fedcbaab aabbccdd eeffaabb dcdcefab\n";
    // grep fails if nothing matches.
    std::fs::write(&words, line.repeat(100_000) + "accefx a\n").expect("written");
    let recording = scratch().join("regular.data");
    let words = text(&words);
    // The library's own frame is of 32 KiB, so whole stacks are not asked for.
    let pattern = r"(a|b)+[cd]{2,}(?=ef)(\w+) \1";
    record(
        &recording,
        "1999",
        &["grep", "-acP", pattern, words, words, words],
    );
    let output = prof_command()
        .args(["script", "-F", "ip,dso", "-i"])
        .arg(&recording)
        .output()
        .expect("prof starts");
    let listed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = listed.lines().collect();
    let is_made = |line: &str| line.contains("/perf-");
    let made = lines.iter().filter(|line| is_made(line)).count();
    if made == 0 {
        return skipped(test, "grep -P compiles nothing");
    }
    let pairs = lines.windows(2).filter(|pair| is_made(pair[0]));
    let callers: Vec<&str> = pairs.map(|pair| pair[1]).collect();
    let by_library = callers.iter().filter(|line| line.contains("libpcre2"));
    let by_library = by_library.count();
    assert!(made >= 50, "{made} samples of it");
    assert!(
        by_library * 100 >= made * 97,
        "{by_library} of {made} were called by the library"
    );
}

#[test]
fn programs_that_are_deleted_or_have_no_file_reach_the_start() {
    let Some(program) = build("file", &[]) else {
        return;
    };
    let doomed = scratch().join("every-kind-doomed");
    copy_program(&program, &doomed);
    let doomed = text(&doomed);
    // Its name is that of the task from the exec on.
    let script = format!(
        "{doomed} work 300 & until grep -q every-kind-doom /proc/$!/comm; do :; done; \
         rm {doomed}; wait"
    );
    assert_complete("deleted", &["sh", "-c", &script]);
    let program = text(&program);
    assert_complete("memfd", &[program, "memfd", program, "300"]);
    let script = format!("exec sh -c 'exec sh -c \"exec {program} work 300\"'");
    assert_complete("exec-chain", &["sh", "-c", &script]);
}

/// What is read of a stack when its sample is drained is another's by then.
#[test]
fn frames_of_kilobytes_that_come_and_go_are_whole_at_10_khz() {
    let test = "frames_of_kilobytes_that_come_and_go_are_whole_at_10_khz";
    let Some(program) = compiled(test, "batches.c", &["-O2", "-pthread"]) else {
        return;
    };
    let busy = || {
        Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
    };
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let busy: Vec<_> = (0..cpus).map(|_| busy().expect("sh starts")).collect();
    // As large as is good, and as a plain user may lock by default.
    let recorded: Vec<_> = [&[][..], &["-m", "4M"]]
        .iter()
        .map(|rings| {
            let recording = scratch().join(format!("every-kind-batches{}.data", rings.len()));
            let mut recorder = prof_command();
            recorder.args(["record", "-q", "-F", "10000", "-g", "-o"]);
            recorder.arg(&recording).args(*rings).arg("--");
            let ended = recorder.arg(&program).args(["1000", "3000", "3000"]);
            (recording, ended.status())
        })
        .collect();
    for mut busy in busy {
        busy.kill().expect("it runs");
        busy.wait().expect("it ends");
    }
    for (recording, ended) in recorded {
        assert!(ended.expect("prof starts").success());
        let (complete, judged) = complete(&recording);
        assert!(judged >= 300, "{judged} samples");
        assert!(
            complete * 100 >= judged * 95,
            "{complete} of {judged} stacks are complete"
        );
    }
}

/// At high rates less is copied while all stacks are shallow, by an event of its own.
#[test]
fn stacks_that_become_deep_are_whole_at_10_khz_and_none_is_sampled_twice() {
    let test = "stacks_that_become_deep_are_whole_at_10_khz_and_none_is_sampled_twice";
    let Some(program) = compiled(test, "phases.c", &["-O2"]) else {
        return;
    };
    let recording = scratch().join("every-kind-phases.data");
    let took = scratch().join("every-kind-phases.took");
    let mut recorder = prof_command();
    recorder.args(["record", "-v", "-F", "10000", "-g", "-o"]);
    recorder.arg(&recording).arg("--").arg(&program);
    let ended = recorder.args(["2000", "100"]).arg(&took).output();
    let ended = ended.expect("prof starts");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{told}");
    let changes = |of: &str| told.matches(of).count();
    // A plain user's event is of tasks alone, and a busy machine may go on by CPUs.
    match changes("stacks are shallow") {
        0 => skipped(test, "nothing was shallow"),
        shallow => assert!(
            shallow >= changes("stacks are deeper") && changes("stacks are deeper") > 0,
            "{told}"
        ),
    }
    let (complete, judged) = complete(&recording);
    assert!(
        complete * 100 >= judged * 98,
        "{complete} of {judged} stacks are complete"
    );
    let seconds = std::fs::read_to_string(&took).expect("the program wrote it");
    let due = 10_000.0 * seconds.trim().parse::<f64>().expect("a number");
    let share = judged as f64 / due;
    assert!((0.85..1.03).contains(&share), "{judged} of {due}");
}

#[test]
fn plugins_that_come_and_go_are_told_apart() {
    let one = build("one.so", &["-shared", "-fPIC", "-DPLUGIN_FRAME=100"]);
    let two = build("two.so", &["-shared", "-fPIC", "-DPLUGIN_FRAME=3000"]);
    let program = build("host", &["-DPLUGINS"]);
    if let (Some(one), Some(two), Some(program)) = (one, two, program) {
        let command = [text(&program), "plugins", text(&one), text(&two), "500"];
        assert_complete("plugins", &command);
    }
}

#[test]
fn another_mount_namespace_has_files_of_its_own() {
    let test = "another_mount_namespace_has_files_of_its_own";
    let can_unshare = Command::new("unshare").args(["-m", "true"]).status();
    if !can_unshare.is_ok_and(|status| status.success()) {
        skipped(test, "unshare -m is not permitted");
        return;
    }
    let Some(program) = build("namespace", &[]) else {
        return;
    };
    let place = scratch().join("every-kind-mount");
    std::fs::create_dir_all(&place).expect("made");
    let (program, place) = (text(&program), text(&place));
    let script = format!(
        "mount -t tmpfs none {place} && cp {program} {place}/own && exec {place}/own work 300"
    );
    assert_complete("namespace", &["unshare", "-m", "sh", "-c", &script]);
}

#[test]
fn the_recorder_stays_small() {
    let recording = scratch().join("every-kind-many.data");
    let script = "i=0; while [ $i -lt 2000 ]; do /bin/true; i=$((i+1)); done";
    let peak = record(&recording, "4000", &["sh", "-c", script]);
    assert!(
        (1..MOST_MEMORY).contains(&peak),
        "short processes: {peak} KiB"
    );
    if let Some(program) = build("busy", &[]) {
        let script = format!("{0} work 1000 & {0} work 1000; wait", text(&program));
        let peak = record(&recording, "10000", &["sh", "-c", &script]);
        assert!((1..MOST_MEMORY).contains(&peak), "10 kHz: {peak} KiB");
    }
}
