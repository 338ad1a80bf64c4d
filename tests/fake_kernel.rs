//! A kernel that refuses one thing of perf events: an ioctl or a flag of
//! perf_event_open(2), by a seccomp filter that looks at the arguments, or a
//! file of sysfs. What is recorded then is whole, or prof says what is lacking.

use crate::oracle::{Finished, have, may_record_all, prof, skipped};
use std::fs;
use std::path::Path;
use std::process::Command;

const PROF: &str = env!("CARGO_BIN_EXE_prof");

/// Installs a filter and runs a program below it. Arguments: the number of the
/// system call, where its argument is in `seccomp_data`, `jeq` or `jset`, the
/// value, the errno; then the program.
const BELOW: &str = "import ctypes, os, struct, sys
nr, at, how, value, errno = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
op = 0x15 if how == 'jeq' else 0x45
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, nr), (0x20, 0, 0, at), (op, 0, 1, value),
    (6, 0, 0, 0x50000 | errno), (6, 0, 0, 0x7fff0000)]
code = b''.join(struct.pack('HBBI', *step) for step in steps)
buffer = ctypes.create_string_buffer(code)
program = struct.pack('HxxxxxxP', len(steps), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, program, 0, 0): sys.exit(9)
os.execv(sys.argv[6], sys.argv[6:])";

/// What is refused: a name, the five arguments of [`BELOW`].
struct Refused(&'static str, [&'static str; 5]);

/// ioctl(2) is 16 on x86-64, its request the second argument; these answer
/// ENOTTY (25). perf_event_open(2) is 298, its flags are the fifth; EINVAL.
const REFUSED: [Refused; 15] = [
    Refused("ENABLE", ["16", "24", "jeq", "9216", "25"]),
    Refused("DISABLE", ["16", "24", "jeq", "9217", "25"]),
    Refused("REFRESH", ["16", "24", "jeq", "9218", "25"]),
    Refused("RESET", ["16", "24", "jeq", "9219", "25"]),
    Refused("SET_OUTPUT", ["16", "24", "jeq", "9221", "25"]),
    Refused("SET_FILTER", ["16", "24", "jeq", "1074275334", "25"]),
    Refused("ID", ["16", "24", "jeq", "2148017159", "25"]),
    Refused("PAUSE_OUTPUT", ["16", "24", "jeq", "1074013193", "25"]),
    Refused("PERIOD", ["16", "24", "jeq", "1074275332", "25"]),
    Refused("SET_BPF", ["16", "24", "jeq", "1074013192", "25"]),
    Refused("QUERY_BPF", ["16", "24", "jeq", "3221758986", "25"]),
    Refused("MODIFY_ATTRIBUTES", ["16", "24", "jeq", "1074275339", "25"]),
    Refused("FD_NO_GROUP", ["298", "48", "jset", "1", "22"]),
    Refused("FD_OUTPUT", ["298", "48", "jset", "2", "22"]),
    Refused("PID_CGROUP", ["298", "48", "jset", "4", "22"]),
];

/// What is recorded or counted. All of it has something to show.
const COMMANDS: [&str; 6] = [
    "record -q -e page-faults -c 1 -o FILE true",
    "record -q -a -e cpu-clock -c 1000000 -o FILE sleep 0.2",
    "record -q -e {page-faults,cs} -c 1 -o FILE true",
    "record -q -a -e cs -G / -c 1 -o FILE sleep 0.2",
    "stat -x, -a -e cs sleep 0.2",
    "record -q -e page-faults/overwrite/ -c 1 -m 16K -o FILE true",
];

/// What cannot be had without a thing: its name, the command's number, words
/// of the message.
const LACKING: [(&str, usize, &str); 10] = [
    ("ENABLE", 1, "cannot start the events"),
    ("ENABLE", 3, "cannot start the events"),
    ("ENABLE", 4, "cannot enable the counters"),
    ("DISABLE", 4, "cannot disable the counters"),
    ("ID", 0, "outside of the sandbox"),
    ("ID", 1, "outside of the sandbox"),
    ("ID", 2, "outside of the sandbox"),
    ("ID", 3, "outside of the sandbox"),
    ("ID", 5, "outside of the sandbox"),
    ("PID_CGROUP", 3, "without -G"),
];

fn below(refused: &Refused, line: &str) -> Finished {
    let run = Command::new("python3")
        .args(["-c", BELOW])
        .args(refused.1)
        .arg(PROF)
        .args(line.split(' '))
        .env("PROF_EMBED_MS", "0")
        .output();
    run.expect("python3 starts").into()
}

/// Samples in a recording.
fn samples(file: &Path) -> usize {
    let run = prof(&["script", "-F", "event", "-i", &file.to_string_lossy()]);
    let run = run.succeeded("prof script");
    let text = run.text();
    text.lines().filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn a_kernel_without_one_ioctl_or_flag_costs_nothing_or_says_so() {
    let test = "a_kernel_without_one_ioctl_or_flag_costs_nothing_or_says_so";
    if !may_record_all(test) || !have(test, "python3") {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return skipped(test, "the filter has numbers of x86-64");
    }
    let folder = tempfile::tempdir().expect("a folder");
    for refused in &REFUSED {
        for (number, command) in COMMANDS.iter().enumerate() {
            let file = folder.path().join(format!("{}-{number}.data", refused.0));
            let run = below(refused, &command.replace("FILE", &file.to_string_lossy()));
            let what = format!("without {}, {command}: {}", refused.0, run.stderr);
            let mut lacking = LACKING
                .iter()
                .filter(|(name, at, _)| *name == refused.0 && *at == number);
            if let Some((_, _, words)) = lacking.next() {
                assert_eq!(run.code, 1, "{what}");
                assert!(run.stderr.contains(words), "{what}");
                assert!(!file.exists(), "{what}");
                continue;
            }
            // Rings are shared where several events are of one CPU.
            if refused.0 == "SET_OUTPUT" && run.code == 1 {
                assert!(run.stderr.contains("cannot share a ring"), "{what}");
                assert!(run.stderr.contains("outside of the sandbox"), "{what}");
                continue;
            }
            assert_eq!(run.code, 0, "{what}");
            if command.starts_with("record") {
                assert!(samples(&file) > 0, "{what}");
            }
        }
    }
}

/// A copy of what prof reads of `/sys` for events.
fn copied_sysfs(to: &Path) {
    let pmus = Path::new("/sys/bus/event_source/devices");
    for pmu in fs::read_dir(pmus).expect("there are PMUs").flatten() {
        let copy = to.join("bus/event_source/devices").join(pmu.file_name());
        fs::create_dir_all(&copy).expect("made");
        for file in fs::read_dir(pmu.path()).into_iter().flatten().flatten() {
            if let Ok(text) = fs::read(file.path()) {
                fs::write(copy.join(file.file_name()), text).expect("written");
            }
        }
    }
}

#[test]
fn a_sysfs_without_one_file_costs_what_it_tells_and_no_more() {
    let test = "a_sysfs_without_one_file_costs_what_it_tells_and_no_more";
    if !Path::new("/sys/bus/event_source/devices/software").exists() {
        return skipped(test, "there is no sysfs of PMUs");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("sys");
    copied_sysfs(&whole);
    let mut files = Vec::new();
    let pmus = whole.join("bus/event_source/devices");
    for pmu in fs::read_dir(&pmus).expect("copied").flatten() {
        let inside = fs::read_dir(pmu.path()).expect("a folder").flatten();
        files.extend(inside.map(|file| file.path()));
    }
    assert!(files.len() >= 4, "{files:?}");
    let run = |line: &str| -> Finished {
        let run = Command::new(PROF)
            .args(line.split(' '))
            .env("SYSFS_PATH", &whole)
            .env("PROF_EMBED_MS", "0")
            .output();
        run.expect("prof starts").into()
    };
    let to = folder.path().join("perf.data");
    let record = format!("record -q -e page-faults:u -c 1 -o {} true", to.display());
    for file in &files {
        let text = fs::read(file).expect("copied");
        for refused in [true, false] {
            // Not there, or there with nothing in it.
            match refused {
                true => fs::remove_file(file).expect("it was there"),
                false => fs::write(file, "").expect("written"),
            }
            let what = file.display();
            let recorded = run(&record);
            assert_eq!(recorded.code, 0, "{what}: {}", recorded.stderr);
            assert!(samples(&to) > 0, "{what}");
            let counted = run("stat -x, -e page-faults:u,cs true");
            assert_eq!(counted.code, 0, "{what}: {}", counted.stderr);
            for line in ["list", "doctor"] {
                let told = run(line);
                assert_eq!(told.code, 0, "{what}, {line}: {}", told.stderr);
            }
            // What needs it is refused in words.
            let probe = run("stat -e uprobe:/bin/true:main true");
            assert!([0, 1, 2].contains(&probe.code), "{what}: {}", probe.stderr);
            assert!(
                !probe.stderr.contains("panicked"),
                "{what}: {}",
                probe.stderr
            );
        }
        fs::write(file, text).expect("written");
    }
}

/// What is read of `/sys` beside PMUs: of CPUs, caches, nodes, memory, and the
/// kernel's build-id.
const OF_THE_MACHINE: [&str; 20] = [
    "devices/system/cpu/online",
    "devices/system/cpu/present",
    "devices/system/cpu/cpu0/topology/physical_package_id",
    "devices/system/cpu/cpu0/topology/core_id",
    "devices/system/cpu/cpu0/topology/die_id",
    "devices/system/cpu/cpu0/topology/thread_siblings_list",
    "devices/system/cpu/cpu0/topology/package_cpus_list",
    "devices/system/cpu/cpu0/topology/die_cpus_list",
    "devices/system/cpu/cpu0/topology",
    "devices/system/cpu/cpu0/cache",
    "devices/system/cpu/cpu0",
    "devices/system/cpu",
    "devices/system/node/online",
    "devices/system/node/node0/cpulist",
    "devices/system/node/node0/meminfo",
    "devices/system/node",
    "devices/system/memory/block_size_bytes",
    "devices/system",
    "kernel/notes",
    "",
];

/// Runs `prof` where a file of `/sys` is empty, or a folder.
fn without(file: &Path, empty: &Path, line: &str) -> Finished {
    let empty = match file.is_dir() {
        true => empty,
        false => Path::new("/dev/null"),
    };
    let run = Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"")
        .arg("sh")
        .args([empty, file])
        .arg(PROF)
        .args(line.split(' '))
        .env("PROF_EMBED_MS", "0")
        .output();
    run.expect("unshare starts").into()
}

#[test]
fn a_machine_that_tells_less_of_itself_is_recorded_and_counted_whole() {
    let test = "a_machine_that_tells_less_of_itself_is_recorded_and_counted_whole";
    if !may_record_all(test) || !have(test, "unshare") || !have(test, "perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("made");
    // Group and CPUs of each line.
    let groups = |by: &str, run: &Finished| -> Vec<(String, u32)> {
        assert_eq!(run.code, 0, "{by}: {}", run.stderr);
        let lines = run.stderr.lines().filter(|line| line.contains(",,"));
        let fields = lines.map(|line| line.split(',').collect::<Vec<_>>());
        let group = |of: Vec<&str>| (of[0].to_owned(), of[1].parse().expect("CPUs"));
        fields.map(group).collect()
    };
    let cpus = |groups: &[(String, u32)]| groups.iter().map(|(_, cpus)| cpus).sum::<u32>();
    let count = |by: &str| format!("stat -x, -a --per-{by} -e page-faults true");
    let all = cpus(&groups(
        "core",
        &prof(&count("core").split(' ').collect::<Vec<_>>()),
    ));
    let to = folder.path().join("perf.data");
    let record = format!("record -q -a -e page-faults -c 1 -o {} true", to.display());
    let files = OF_THE_MACHINE.map(|file| Path::new("/sys").join(file));
    let files: Vec<_> = files.iter().filter(|file| file.exists()).collect();
    assert!(files.len() >= 12, "{files:?}");
    for file in files {
        let what = file.display();
        let recorded = without(file, &empty, &record);
        assert_eq!(recorded.code, 0, "{what}: {}", recorded.stderr);
        assert!(samples(&to) > 0, "{what}");
        let header = ["report", "--header-only", "-I", "-i", &to.to_string_lossy()];
        let header = crate::oracle::perf(&header).succeeded(&what.to_string());
        let online = format!("# nrcpus online : {all}\n");
        assert!(header.text().contains(&online), "{what}: {}", header.text());
        for by in ["core", "socket", "node", "cache"] {
            let found = groups(by, &without(file, &empty, &count(by)));
            assert_eq!(cpus(&found), all, "{what}, {by}: {found:?}");
            // A CPU of unknown place is not on another one's core.
            if by == "core" && (file.ends_with("cpu0/topology") || file.ends_with("cpu0")) {
                let unknown = ("S-1-D0-C-1".to_owned(), 1);
                assert!(found.contains(&unknown), "{what}: {found:?}");
            }
        }
    }
}
