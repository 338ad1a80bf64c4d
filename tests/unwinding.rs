//! `prof record -g`: stacks are complete, and never wrong.
//!
//! `fixtures/programs/shadow-stack.cc` is built without frame pointers. Each of its
//! functions has one possible caller or two, so a chain can be checked from
//! the names alone: a frame too many, one too few or a wrong one shows.

use crate::oracle::{NO_HOME, compiled, copy_program, have, may_record_all, prof_command, scratch};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Builds the fixture; `None` without a compiler.
fn program() -> Option<PathBuf> {
    let flags = ["-O2", "-fomit-frame-pointer", "-pthread"];
    compiled("unwinding", "shadow-stack.cc", &flags)
}

/// The chains of a recording, names only, innermost first.
fn chains(recording: &Path) -> Vec<Vec<String>> {
    let output = prof_command()
        .args(["script", "--max-stack", "20000", "-F", "comm,ip,sym", "-i"])
        .arg(recording)
        .output()
        .expect("prof starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut chains = Vec::new();
    for sample in text.split("\n\n") {
        let frames = sample.lines().skip(1);
        let name = |line: &str| line.trim().split_once(' ').map(|(_, name)| name.to_owned());
        chains.push(frames.filter_map(name).collect());
    }
    chains
}

/// `node<D, P>`'s numbers.
fn node(name: &str) -> Option<(u32, u32)> {
    let (_, numbers) = name.split_once("node<")?;
    let (depth, path) = numbers.split_once('>')?.0.split_once(", ")?;
    Some((depth.parse().ok()?, path.parse().ok()?))
}

/// Whether `caller` can have called `callee`; true for functions that the
/// fixture does not define.
fn can_call(caller: &str, callee: &str) -> bool {
    let starts = |names: &[&str]| names.iter().any(|name| caller.starts_with(name));
    if let Some((depth, path)) = node(callee) {
        return match depth.checked_sub(1) {
            Some(above) => node(caller) == Some((above, path / 2)),
            None => starts(&["tree"]),
        };
    }
    let plain = callee.split('(').next().unwrap_or_default();
    match plain {
        "tree" => starts(&["run", "grown"]),
        "leaf_a" | "leaf_b" => starts(&["even"]),
        "odd" => starts(&["even"]),
        "even" => starts(&["odd", "via_"]),
        "grown" => starts(&["on_stack"]),
        "on_stack" => starts(&["grow"]),
        "via_a" | "via_b" | "grow" | "tail_callee" => starts(&["run"]),
        "work" => node(caller).is_some() || starts(&["leaf_", "tail_callee", "on_signal"]),
        _ => true,
    }
}

/// What is wrong with a chain, if anything is.
fn contradiction(chain: &[String]) -> Option<String> {
    for pair in chain.windows(2) {
        if !can_call(&pair[1], &pair[0]) {
            return Some(format!("{} called by {}", pair[0], pair[1]));
        }
    }
    let has = |name: &str| chain.iter().any(|frame| frame.starts_with(name));
    let crossed = (has("leaf_a") && has("via_b")) || (has("leaf_b") && has("via_a"));
    crossed.then(|| "a leaf below the wrong branch".to_owned())
}

fn record(program: &Path, rate: &str, seconds: &str) -> Vec<Vec<String>> {
    let recording = scratch().join(format!("unwinding-{rate}.data"));
    let output = prof_command()
        .args(["record", "-q", "-F", rate, "-g", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(program)
        .arg(seconds)
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    chains(&recording)
}

/// At least so many chains, and how often the program was recorded for them,
/// each time until it has used 2 s of CPU time: where the host takes the CPUs
/// away, the clock goes on and the samples do not come.
fn record_enough(program: &Path, rate: &str, least: usize) -> (Vec<Vec<String>>, u32) {
    let mut chains = Vec::new();
    for recordings in 1..=50 {
        chains.extend(record(program, rate, "2"));
        if chains.len() >= least {
            return (chains, recordings);
        }
    }
    panic!("{} samples at {rate} Hz in 50 recordings", chains.len());
}

#[test]
fn no_chain_of_a_program_without_frame_pointers_is_wrong() {
    let Some(program) = program() else {
        return;
    };
    // At the high rate the copied pieces are small, and most of the deep
    // stacks must be read from the process.
    for rate in ["999", "4000"] {
        let start = Instant::now();
        let (chains, recordings) = record_enough(&program, rate, 200);
        // Of its two threads and what else runs, as long as that is little.
        let is_quiet = start.elapsed() < recordings * Duration::from_secs(4);
        for chain in &chains {
            assert_eq!(contradiction(chain), None, "{chain:?}");
        }
        // The program changes its stacks every few µs, on purpose.
        let deep = chains.iter().filter(|chain| chain.len() > 12).count();
        assert!(deep > 10, "{deep} deep chains");
        let is_rooted = |chain: &&Vec<String>| {
            let starts = ["clone", "_start", "_dl_start"];
            let outermost = chain.last();
            outermost.is_some_and(|last| starts.iter().any(|start| last.starts_with(start)))
        };
        let rooted = chains.iter().filter(is_rooted).count();
        // Where others take the CPUs the reader comes too late for many: the
        // program goes on meanwhile.
        // Without the right to see the kernel only what is read at once counts.
        let sees_kernel = crate::oracle::is_root();
        let least = match (rate, is_quiet) {
            // 80 on a quiet machine, 53 beside two other loads.
            ("999", true) if sees_kernel => 40,
            (_, true) => 25,
            _ => 10,
        };
        assert!(
            rooted * 100 >= chains.len() * least,
            "{rooted} of {} reach the start at {rate} Hz",
            chains.len()
        );
    }
}

#[test]
#[ignore = "takes minutes; run it with -- --ignored"]
fn no_chain_is_wrong_over_many_samples() {
    let wanted = std::env::var("PROF_SHADOW_SAMPLES").ok();
    let wanted: usize = wanted.map_or(100_000, |text| text.parse().expect("a number"));
    let Some(program) = program() else {
        return;
    };
    let (mut samples, mut rooted, mut wrong) = (0, 0, Vec::new());
    let rates = std::env::var("PROF_SHADOW_RATES");
    let rates = rates.unwrap_or_else(|_| "999 2500 4000 9000".to_owned());
    // Little is known of a stack when its thread has just started: half of the
    // recordings are short.
    let lengths = ["0.5", "0.5", "0.5", "0.5", "0.5", "0.5", "0.5", "4"];
    let each = rates
        .split(' ')
        .flat_map(|rate| lengths.map(|seconds| (rate, seconds)));
    for (rate, seconds) in each.cycle() {
        if samples >= wanted {
            break;
        }
        let chains = record(&program, rate, seconds);
        samples += chains.len();
        for chain in chains {
            let outermost = chain.last().map_or("", String::as_str);
            rooted += usize::from(outermost.starts_with("clone") || outermost == "_start");
            wrong.extend(contradiction(&chain).map(|what| format!("{rate} Hz: {what}")));
        }
        eprintln!(
            "{rate} Hz: {samples} samples, {rooted} complete, {} wrong",
            wrong.len()
        );
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Below a signal's handler, and where it ends, is what was interrupted; also while the
/// kernel sets the registers for the one or takes them back for the other.
#[test]
fn stacks_of_signals_go_on_with_what_was_interrupted() {
    let test = "stacks_of_signals_go_on_with_what_was_interrupted";
    let Some(program) = c_program(test, "signals") else {
        return;
    };
    let recording = scratch().join("unwinding-signals.data");
    let output = prof_command()
        .args(["record", "-q", "-F", "4000", "-g", "-o"])
        .args([recording.as_os_str(), "--".as_ref(), program.as_os_str()])
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let chains = chains(&recording);
    let is_end = |name: &String| name.starts_with("__restore_rt");
    let of_signals = chains.iter().filter_map(|chain| {
        let at = chain.iter().position(is_end)?;
        let before = at.checked_sub(1).and_then(|at| chain.get(at));
        Some((before.map_or("", String::as_str), &chain[at + 1..]))
    });
    let (mut all, mut whole) = (0, 0);
    for (before, below) in of_signals {
        // The kernel's functions end with the one that all system calls begin with.
        let is_kernel = before.starts_with("entry_SYSCALL") || before.starts_with("asm_");
        assert!(
            before.starts_with("on_signal") || before.is_empty() || is_kernel,
            "{before} called by the end of a signal"
        );
        let expected = ["syscall", "inner", "outer", "main"];
        for (name, expected) in below.iter().zip(expected) {
            assert!(name.starts_with(expected), "{below:?}");
        }
        all += 1;
        whole += usize::from(below.last().is_some_and(|last| last == "_start"));
    }
    assert!(all > 20, "{all} of {} samples", chains.len());
    // A system call in which the registers are taken back in part is cut.
    assert!(whole * 20 >= all * 19, "{whole} of {all} are whole");
}

/// Builds a C program of `fixtures/programs`; `None` without a compiler.
fn c_program(test: &str, name: &str) -> Option<PathBuf> {
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    compiled(test, &format!("{name}.c"), &flags)
}

/// The fixture of deep stacks.
fn deep_recursion(test: &str) -> Option<PathBuf> {
    c_program(test, "deep-recursion")
}

#[test]
fn stacks_of_more_than_a_mebibyte_reach_the_start() {
    let test = "stacks_of_more_than_a_mebibyte_reach_the_start";
    let Some(program) = deep_recursion(test) else {
        return;
    };
    for mode in ["sweep", "bottom", "walk"] {
        let recording = scratch().join(format!("deep-{mode}.data"));
        let status = prof_command()
            .args(["record", "-q", "-F", "250", "-g", "-o"])
            .arg(&recording)
            .arg("--")
            .arg(&program)
            .args([mode, "1"])
            .status()
            .expect("prof starts");
        assert!(status.success());
        let chains = chains(&recording);
        let chains: Vec<_> = chains.iter().filter(|chain| chain.len() > 1).collect();
        let deep = chains.iter().filter(|chain| chain.len() > 3000).count();
        assert!(
            deep > 20,
            "{deep} deep chains of {} in {mode}",
            chains.len()
        );
        let is_of = |frame: &&String| {
            let names = [mode, "work", "main", "clock", "__vdso"];
            !names.iter().any(|name| frame.contains(name))
        };
        // Frames of other functions: what called main, the loader's, and the
        // kernel's work at the start.
        let rooted = chains
            .iter()
            .filter(|chain| chain.last().is_some_and(|last| last == "_start"))
            .inspect(|chain| {
                let strangers = chain.iter().filter(is_of).count();
                assert!(strangers < 40, "{strangers} strange frames in {mode}");
            })
            .count();
        // Some samples go by before it is known that the stack is deep, and
        // where other tests take the CPUs the reader comes too late for many:
        // 97 % and more on a quiet machine. A plain user's reader must come at
        // once: 42 % at a load of 8.
        let least = if crate::oracle::is_root() { 50 } else { 20 };
        assert!(
            rooted * 100 >= chains.len() * least,
            "{rooted} of {} reach the start in {mode}",
            chains.len()
        );
    }
}

/// How many frames a line says that were left out in its place.
fn left_out(line: &str) -> Option<usize> {
    let count = line.strip_suffix(" frames left out]")?;
    count.rsplit_once('[')?.1.parse().ok()
}

/// A limit of frames holds, and perf shows what is left and how much is not.
#[test]
fn of_a_chain_longer_than_wanted_the_middle_is_left_out() {
    let test = "of_a_chain_longer_than_wanted_the_middle_is_left_out";
    let Some(program) = deep_recursion(test) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let recording = scratch().join("longer-than-wanted.data");
    let status = prof_command()
        .args(["record", "-q", "-F", "99", "-g", "--max-stack", "40", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(&program)
        .args(["bottom", "1"])
        .status()
        .expect("prof starts");
    assert!(status.success());
    let chains = chains(&recording);
    let cut = |chain: &&Vec<String>| chain.iter().any(|name| left_out(name).is_some());
    let cut: Vec<_> = chains.iter().filter(cut).collect();
    assert!(cut.len() > 10, "{} of {}", cut.len(), chains.len());
    for chain in cut {
        // Up to two of the kernel may stand in front.
        assert!((35..=60).contains(&chain.len()), "{} frames", chain.len());
    }
    let script = Command::new("perf")
        .env("HOME", NO_HOME)
        .args(["script", "-F", "comm,ip,sym,dso", "-i"])
        .arg(&recording)
        .output()
        .expect("perf starts");
    let text = String::from_utf8_lossy(&script.stdout);
    let marked = text
        .lines()
        .filter(|line| line.ends_with(" frames left out])"));
    assert!(marked.count() > 10, "{text}");
}

/// Of a chain that no record can hold, both ends are kept, and perf shows the
/// same of it.
#[test]
fn a_chain_longer_than_a_record_keeps_both_ends() {
    let test = "a_chain_longer_than_a_record_keeps_both_ends";
    let Some(program) = deep_recursion(test) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let recording = scratch().join("longer-than-a-record.data");
    let status = prof_command()
        .args(["record", "-q", "-F", "40", "-g", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(&program)
        .args(["bottom", "2"])
        .status()
        .expect("prof starts");
    assert!(status.success());
    let script = |tool: &mut Command| {
        let fields = ["--max-stack", "20000", "-F", "comm,time,ip,sym", "-i"];
        let output = tool.arg("script").args(fields).arg(&recording).output();
        String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned()
    };
    // The mark has a name with us; perf shows the mapping's beside it.
    let ours = script(&mut prof_command());
    let ours: Vec<String> = ours
        .lines()
        .map(|line| match (line.find('['), left_out(line)) {
            (Some(at), Some(_)) => format!("{}[unknown]", &line[..at]),
            _ => line.to_owned(),
        })
        .collect();
    let theirs = script(Command::new("perf").env("HOME", NO_HOME));
    let differs = ours
        .iter()
        .zip(theirs.lines())
        .find(|(our, their)| our != their);
    assert_eq!(differs, None);
    assert_eq!(ours.len(), theirs.lines().count());
    let chains = chains(&recording);
    // In front there may be an interrupt that arrived with the sample's.
    let of_user = |chain: &Vec<String>| {
        let first = chain
            .iter()
            .position(|name| name == "work" || name == "bottom");
        first.map(|first| chain[first..].to_vec())
    };
    let chains: Vec<Vec<String>> = chains.iter().filter_map(of_user).collect();
    // The recursion has 14 000 levels, more than a record holds; some chains
    // end earlier: nothing proved what called.
    let is_cut = |chain: &&Vec<String>| {
        let has_mark = chain.iter().any(|name| left_out(name).is_some());
        has_mark && chain.last().is_some_and(|last| last == "_start")
    };
    let cut: Vec<_> = chains.iter().filter(is_cut).collect();
    assert!(!cut.is_empty(), "none of {}", chains.len());
    for chain in cut {
        let names = |range: &[String]| range.join(" ");
        let gone: Vec<usize> = chain.iter().filter_map(|name| left_out(name)).collect();
        assert_eq!(gone.len(), 1, "one mark");
        assert!(chain.len() <= 7801 && chain.len() > 7801 * 7 / 8);
        // The levels, what stands in front, and what called the outermost;
        // fewer on the way down and up.
        let all = chain.len() - 1 + gone[0];
        assert!((7802..14_010).contains(&all), "{all} frames");
        assert_eq!(names(&chain[1..4]), "bottom bottom bottom");
        let outermost = names(&chain[chain.len() - 5..]);
        assert!(
            outermost.starts_with("bottom main __libc_start_call_main"),
            "{outermost}"
        );
        assert!(outermost.ends_with(" _start"), "{outermost}");
    }
}

/// Stacks that are written as they are can be unwound by perf, too: it needs
/// the mappings of what is not code.
#[test]
fn perf_unwinds_dumped_stacks_to_main() {
    let test = "perf_unwinds_dumped_stacks_to_main";
    if !have(test, "perf") {
        return;
    }
    let Some(program) = c_program(test, "no-frame-pointers") else {
        return;
    };
    let recording = scratch().join("dumped.data");
    let status = prof_command()
        .args(["record", "-q", "-F", "999", "--call-graph", "dwarf", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(&program)
        .stdout(std::process::Stdio::null())
        .status()
        .expect("prof starts");
    assert!(status.success());
    let read = Command::new("perf")
        .env("HOME", NO_HOME)
        .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"])
        .arg(&recording)
        .output()
        .expect("perf starts");
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    // The frame of `sorted` is longer than a dump.
    let is_at = |sample: &str, line: usize, name: &str| {
        let frame = sample.lines().nth(line);
        frame.is_some_and(|frame| frame.contains(name))
    };
    let samples = text.split("\n\n");
    let in_middle: Vec<&str> = samples
        .filter(|sample| is_at(sample, 1, " mix") && is_at(sample, 2, " middle"))
        .collect();
    assert!(in_middle.len() > 20, "{} samples there", in_middle.len());
    for sample in in_middle {
        assert!(
            sample.lines().any(|line| line.ends_with(" main")),
            "{sample}"
        );
    }
}

/// A member of a JSON object, by the path to it.
fn member<'a>(json: &'a serde_json::Value, path: &[&str]) -> &'a serde_json::Value {
    path.iter().fold(json, |value, name| &value[*name])
}

#[test]
fn the_report_gives_the_recorders_reasons_for_short_chains() {
    let Some(program) = program() else {
        return;
    };
    // At a high rate not every deep stack can be proved.
    record(&program, "9000", "1");
    let recording = scratch().join("unwinding-9000.data");
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = prof_command()
            .args(arguments)
            .arg("-i")
            .arg(&recording)
            .output();
        let output = output.expect("prof starts");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let report = json(&["report", "--json"]);
    let ends = member(&report, &["trust", "stacks", "ends"]);
    let header = json(&["dump", "--header", "--json"]).to_string();
    let told = header.replace('\\', "");
    assert!(
        told.contains(&format!("\"chain_ends\":{ends}")),
        "{ends} in {told}"
    );
    assert_eq!(ends["BrokenFramePointers"], serde_json::Value::Null);
    let caveats = member(&report, &["trust", "caveats"]).as_array();
    let short: Vec<&str> = caveats
        .expect("a list")
        .iter()
        .filter_map(|caveat| Some((caveat["what"].as_str()?, caveat["cause"].as_str()?)))
        .filter(|(what, _)| what.contains("cut short"))
        .map(|(_, cause)| cause)
        .collect();
    let reasons = ends.as_object().expect("an object").keys();
    let reasons = reasons.filter(|&end| end != "Root").count();
    assert_eq!(short.len(), reasons, "{short:?} for {ends}");
    // Each reason names modules.
    assert!(short.iter().all(|cause| cause.contains(" (")), "{short:?}");
}

#[test]
fn the_checker_finds_wrong_chains() {
    let chain = |names: &[&str]| -> Vec<String> { names.iter().map(|&n| n.into()).collect() };
    let good = chain(&["work", "node<1, 1>", "node<0, 0>", "tree", "run", "clone3"]);
    assert_eq!(contradiction(&good), None);
    assert!(contradiction(&chain(&["node<2, 1>", "node<0, 0>"])).is_some());
    assert!(contradiction(&chain(&["leaf_a", "even", "via_b", "run"])).is_some());
}

/// What kernel.perf_event_paranoid hides from a plain user is not needed to
/// read what lies beyond the copied piece, and what is read is right.
#[test]
fn a_plain_users_stacks_are_read_beyond_the_copied_piece() {
    let test = "a_plain_users_stacks_are_read_beyond_the_copied_piece";
    if !have(test, "setpriv") || !may_record_all(test) {
        return;
    }
    let programs = (c_program(test, "no-frame-pointers"), program());
    let (Some(large), Some(shadow)) = programs else {
        return;
    };
    let dir = std::env::temp_dir().join(format!("prof-beyond-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary folder");
    let prof = dir.join("prof");
    copy_program(Path::new(prof_command().get_program()), &prof);
    let recorded = |program: &Path, rate: &str, seconds: &[&str]| {
        let copy = dir.join("app");
        copy_program(program, &copy);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(&prof);
        command.args(["record", "-q", "-F", rate, "-g", "-o", "-"]);
        let output = command.arg(&copy).args(seconds).output();
        let output = output.expect("setpriv starts");
        assert!(output.status.success(), "{output:?}");
        let recording = dir.join("recording");
        std::fs::write(&recording, output.stdout).expect("it is written");
        let chains = chains(&recording);
        assert!(chains.len() > 50, "{} samples", chains.len());
        chains
    };
    // Where others take the CPUs the reader comes late, so the best counts: 85
    // to 95 of 100 on a quiet machine, 75 at a load of 10; without reading 30.
    let whole = |_| {
        let chains = recorded(&large, "4000", &[]);
        let whole = |chain: &&Vec<String>| chain.last().is_some_and(|last| last == "_start");
        chains.iter().filter(whole).count() * 100 / chains.len()
    };
    let best = (0..5).map(whole).max().unwrap_or(0);
    assert!(best >= 55, "{best} of 100 stacks reach the start");
    for chain in recorded(&shadow, "2500", &["2"]) {
        assert_eq!(contradiction(&chain), None, "{chain:?}");
    }
    std::fs::remove_dir_all(&dir).expect("it is there");
}
