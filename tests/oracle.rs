//! Runs the real `prof`, and the tools it is compared with.
//!
//! What a machine lacks is skipped with a printed reason. In CI
//! `PROF_TEST_REQUIRE` lists, with commas, the commands whose absence fails
//! the test instead.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Most bytes of a value that a failed test shows.
const MOST_SHOWN: usize = 4 << 10;

/// A value in a failed test's message: its beginning, if it is long.
pub(crate) fn excerpt(value: impl std::fmt::Debug) -> String {
    /// Refuses to go on when it is full.
    struct Room(String);
    impl std::fmt::Write for Room {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let left = MOST_SHOWN.saturating_sub(self.0.len());
            let mut end = text.len().min(left);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            self.0.push_str(&text[..end]);
            if end < text.len() {
                return Err(std::fmt::Error);
            }
            Ok(())
        }
    }
    let mut room = Room(String::new());
    match std::fmt::write(&mut room, format_args!("{value:?}")) {
        Ok(()) => room.0,
        Err(_) => room.0 + " … and more",
    }
}

#[test]
fn an_excerpt_of_a_long_value_is_short() {
    assert_eq!(excerpt([1, 2]), "[1, 2]");
    let long = excerpt(vec!["ü"; 100_000]);
    assert!(long.len() < MOST_SHOWN + 20 && long.ends_with(" … and more"));
}

/// A home without files, in which none can be made: perf reads ~/.perfconfig,
/// and `perf record` writes ~/.debug, from which a perf that reports at the
/// same time would take half-written files.
pub(crate) const NO_HOME: &str = "/dev/null";

/// What a finished command left.
pub(crate) struct Finished {
    /// Its standard output.
    pub(crate) stdout: Vec<u8>,
    /// Its standard error, as text.
    pub(crate) stderr: String,
    /// Its exit code; -1 when a signal ended it.
    pub(crate) code: i32,
}

impl Finished {
    /// Standard output as text; what is not UTF-8 is replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Itself, if it exited with 0.
    ///
    /// # Panics
    /// Otherwise, with its standard error.
    pub(crate) fn succeeded(self, what: &str) -> Self {
        assert_eq!(self.code, 0, "{what} failed:\n{}", self.stderr);
        self
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

/// The `prof` under test, not yet started; as perf it has no files of a home,
/// where others keep copies of programs with names of their own.
pub(crate) fn prof_command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prof"));
    command
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", NO_HOME)
        .env("PROF_EMBED_MS", "0")
        .env_remove("DEBUGINFOD_URLS");
    command
}

/// Runs `prof` with `args`.
pub(crate) fn prof<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Finished {
    prof_command()
        .args(args)
        .output()
        .expect("prof starts")
        .into()
}

/// Runs `perf` with `args`; to be called after [`have`] said it is there.
pub(crate) fn perf<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Finished {
    perf_at(Path::new("perf"), args)
}

/// The path of what the installed perf records of a command; `name` is the
/// file's.
pub(crate) fn recorded_by_perf(name: &str, options: &[&str], command: &[&str]) -> String {
    let recording = scratch().join(format!("{name}.data"));
    let path = recording.to_str().expect("a plain name");
    let args = [&["record", "-q"], options, &["-o", path, "--"], command].concat();
    perf(&args).succeeded("perf record");
    path.to_owned()
}

/// The perfs to compare with: the installed one, to be called after [`have`]
/// said it is there, and the one that `PROF_NEWEST_PERF` names; says so if it
/// names none.
pub(crate) fn perfs(test: &str) -> Vec<PathBuf> {
    let newest = std::env::var_os("PROF_NEWEST_PERF").map(PathBuf::from);
    if newest.is_none() {
        skipped(test, "PROF_NEWEST_PERF names no second perf");
    }
    [PathBuf::from("perf")].into_iter().chain(newest).collect()
}

/// Runs one of [`perfs`] with `args`. perf 6.1 sometimes dies when it has
/// recorded, while it looks for build-ids, on a loaded machine several times
/// in a row: then it is run again, a little later.
pub(crate) fn perf_at<A: AsRef<std::ffi::OsStr>>(program: &Path, args: &[A]) -> Finished {
    perf_within(Path::new("."), program, args)
}

/// [`perf_at`], which starts in `folder`.
pub(crate) fn perf_within<A: AsRef<std::ffi::OsStr>>(
    folder: &Path,
    program: &Path,
    args: &[A],
) -> Finished {
    const TRIES: usize = 60;
    const PAUSE: Duration = Duration::from_millis(500);
    let run = || -> Finished {
        let mut command = Command::new(program);
        // perf 6.1 prints fields of an attr from memory that it never wrote
        // (`evlist -v` of a stream), so what it gets is filled with zeros: the
        // C library fills with the complement. Not what perf records.
        if args.first().is_some_and(|first| first.as_ref() != "record") {
            command.env("MALLOC_PERTURB_", "255");
        }
        command
            .args(args)
            .current_dir(folder)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("DEBUGINFOD_URLS")
            .env("HOME", NO_HOME)
            .output()
            .expect("perf starts")
            .into()
    };
    let is_record = args.first().is_some_and(|it| it.as_ref() == "record");
    // It ends by an assertion, too, beside recorders of ours that ask for build-ids; a file
    // that it cannot read stays so.
    let is_dead = |run: &Finished| {
        let signs = [
            "stack smashing detected",
            "buffer overflow detected",
            "build-id.c",
        ];
        let signs = if is_record { &signs[..] } else { &signs[..1] };
        signs.iter().any(|sign| run.stderr.contains(sign))
    };
    let mut finished = run();
    for _ in 1..TRIES {
        if !is_dead(&finished) {
            break;
        }
        std::thread::sleep(PAUSE);
        finished = run();
    }
    finished
}

/// Options that give both tools a copy of the kernel's symbols: /proc/kallsyms
/// is written anew for each reader, which takes longer than a short report.
/// None where the kernel hides its addresses.
pub(crate) fn kernel_symbols() -> &'static [String] {
    static COPIED: OnceLock<Vec<String>> = OnceLock::new();
    COPIED.get_or_init(|| {
        let symbols = std::fs::read("/proc/kallsyms").unwrap_or_default();
        if symbols
            .iter()
            .take_while(|&&byte| byte != b' ')
            .all(|&byte| byte == b'0')
        {
            return Vec::new();
        }
        let path = scratch().join("kallsyms");
        let partial = scratch().join(format!("kallsyms-{}", std::process::id()));
        std::fs::write(&partial, symbols).expect("the target folder is writable");
        std::fs::rename(&partial, &path).expect("the target folder is writable");
        let path = path.to_str().expect("a UTF-8 path").to_owned();
        vec!["--kallsyms".to_owned(), path]
    })
}

/// Whether `command` can be run here. If not, says so with `test`'s name and,
/// where `PROF_TEST_REQUIRE` names the command, fails.
pub(crate) fn have(test: &str, command: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(command).is_file()));
    if !found {
        let required = std::env::var("PROF_TEST_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name == command),
            "{test} needs {command}, and PROF_TEST_REQUIRE lists it"
        );
        skipped(test, &format!("{command} is not installed"));
    }
    found
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether events of the whole system and the kernel can be recorded here;
/// says so if not.
pub(crate) fn may_record_all(test: &str) -> bool {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid: i32 = paranoid
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(i32::MAX);
    let may = is_root() || paranoid < 0;
    if !may {
        skipped(test, "recording all processes needs root");
    }
    may
}

/// Prints that `test` did not run, and why.
pub(crate) fn skipped(test: &str, why: &str) {
    eprintln!("skipped {test}: {why}");
}

/// A folder for what tests make and may keep between runs.
pub(crate) fn scratch() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).to_path_buf();
    std::fs::create_dir_all(&dir).expect("the target folder is writable");
    dir
}

/// The folder of perf.data files named by `PROF_CORPUS`; says so if there is
/// none.
pub(crate) fn corpus(test: &str) -> Option<PathBuf> {
    let Some(dir) = std::env::var_os("PROF_CORPUS") else {
        skipped(test, "PROF_CORPUS names no folder of recordings");
        return None;
    };
    let dir = PathBuf::from(dir);
    assert!(
        dir.is_dir(),
        "PROF_CORPUS is not a folder: {}",
        dir.display()
    );
    Some(dir)
}

/// A folder in which no file is found.
pub(crate) fn nowhere() -> PathBuf {
    let nowhere = scratch().join("an-empty-folder");
    std::fs::create_dir_all(&nowhere).expect("the target folder is writable");
    nowhere
}

/// A path under `fixtures/`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

/// Copies a program that is to be run. By a process of its own: were the copy
/// open for writing here while another test starts a process, that process
/// would have it open until its exec, and the copy could not be started
/// (ETXTBSY).
pub(crate) fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status();
    assert!(copied.expect("cp starts").success(), "{}", to.display());
}

/// Compiles `fixtures/programs/SOURCE` once for each set of `flags` and gives
/// the program's path. The compiler follows from the extension: `.c` gcc,
/// `.cc` g++, `.rs` rustc. `None`, with the reason printed, without it.
pub(crate) fn compiled(test: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let (stem, extension) = source.rsplit_once('.').expect("a source has an extension");
    let compiler = match extension {
        "c" => "gcc",
        "cc" => "g++",
        "rs" => "rustc",
        other => panic!("no compiler for .{other}"),
    };
    if !have(test, compiler) {
        return None;
    }
    let source = fixture("programs").join(source);
    let text = std::fs::read(&source).expect("the fixture's source is there");
    let key = flags.iter().flat_map(|flag| flag.bytes()).chain(text);
    let program = scratch().join(format!("{stem}-{:016x}", fnv1a(key)));
    // One compiler at a time: tests run in threads and share programs.
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !program.exists() {
        let partial = program.with_extension(format!("partial-{}", std::process::id()));
        let output = Command::new(compiler)
            .args(flags)
            .arg("-o")
            .arg(&partial)
            .arg(&source)
            .output()
            .expect("the compiler starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", source.display());
        std::fs::rename(&partial, &program).expect("the target folder is writable");
    }
    Some(program)
}

/// Time that the host of a virtual machine has taken from its CPUs, ns. A
/// thread that it takes the CPU from has no CPU time meanwhile, and does not
/// wait either: no record tells of that.
pub(crate) fn taken_by_host() -> u64 {
    /// `/proc/stat` counts in hundredths of a second.
    const NS_OF_TICK: u64 = 10_000_000;
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let field = text.split_whitespace().nth(8);
    let ticks = field.and_then(|ticks| ticks.parse::<u64>().ok());
    ticks.unwrap_or(0) * NS_OF_TICK
}

/// Fowler-Noll-Vo hash, 64 bits: names a cached program by what it is made of.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// What `.ci/consumers` installed; says so if it did not.
pub(crate) fn consumer(test: &str, path: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/consumers");
    let program = folder.join(path);
    if program.exists() {
        return Some(program);
    }
    let required = std::env::var("PROF_TEST_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name == "consumers");
    assert!(
        !is_required,
        "{test} needs {path} of .ci/consumers, and PROF_TEST_REQUIRE lists it"
    );
    skipped(
        test,
        &format!("target/consumers/{path} is not there: run .ci/consumers"),
    );
    None
}
