//! Folded stacks: `outer;inner 42`.

use crate::ImportError;
use crate::builder::{Builder, Call, DsoAddress, Sum};
use prof_profile::{Profile, TaskId};

/// Whether a text's first lines each end with a number.
pub(crate) fn is_one(text: &str) -> bool {
    let mut lines = lines(text).take(16).peekable();
    lines.peek().is_some() && lines.all(|line| split(line).is_some())
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim_end);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The stack and its weight.
fn split(line: &str) -> Option<(&str, u64)> {
    let (stack, weight) = line.rsplit_once(' ')?;
    // Some tools write weights with decimals.
    let whole = weight.split_once('.').map_or(weight, |(whole, _)| whole);
    Some((stack, whole.parse().ok()?))
}

/// Marks behind names, and the dso that stands for their kind: of prof and
/// perf's scripts, and async-profiler's for what is interpreted, compiled by C1
/// and inlined.
const MARKS: [(&str, &str); 5] = [
    ("_[k]", "[kernel.kallsyms]"),
    ("_[j]", "[JIT]"),
    ("_[0]", "[JIT]"),
    ("_[1]", "[JIT]"),
    ("_[i]", ""),
];

/// Who runs, as the outermost frames of a stack tell.
#[derive(Debug, Default, Clone, Copy)]
struct Who<'t> {
    comm: &'t str,
    pid: i32,
    tid: i32,
}

/// What the outermost frames of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Roots {
    /// Names of threads, as perf's scripts and prof write them.
    Threads,
    /// Functions, as async-profiler and py-spy write them.
    Functions,
}

/// What the outermost frames are. One that has a mark, that is a place in a
/// script (`<module> (a.py:1)`), that names a class of Java (`java/lang/Thread.run`)
/// or that is where programs and threads begin is a function; then all are.
fn roots(text: &str) -> Roots {
    const BEGINNINGS: [&str; 8] = [
        "_start",
        "start_thread",
        "thread_start",
        "__libc_start_main",
        "clone",
        "clone3",
        "__clone3",
        "[unknown]",
    ];
    let is_function = |line: &str| {
        let Some((stack, _)) = split(line) else {
            return false;
        };
        let (who, frames) = who(stack);
        let first = frames.split(';').next().unwrap_or_default();
        let is_java = first
            .split_once('/')
            .is_some_and(|(package, class)| !package.contains(' ') && class.contains('.'));
        who.is_some()
            || MARKS.iter().any(|(mark, _)| first.ends_with(mark))
            || first.contains('(')
            || BEGINNINGS.contains(&first)
            || (is_java && !first.starts_with('/'))
    };
    match lines(text).any(is_function) {
        true => Roots::Functions,
        false => Roots::Threads,
    }
}

/// Takes frames off a stack that are no functions: py-spy's
/// `process 12:"python a.py"` and `thread (0x7f12): MainThread`,
/// async-profiler's `[main tid=12]`.
fn who(stack: &str) -> (Option<Who<'_>>, &str) {
    let mut found: Option<Who<'_>> = None;
    let mut rest = stack;
    loop {
        let (first, inner) = rest.split_once(';').unwrap_or((rest, ""));
        let who = found.unwrap_or_default();
        let Some(told) = told(first, who) else {
            return (found, rest);
        };
        found = Some(told);
        rest = inner;
    }
}

/// What one such frame tells, beside what those before it told.
fn told<'t>(frame: &'t str, before: Who<'t>) -> Option<Who<'t>> {
    let id = |text: &str| {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => text.parse().ok()?,
        };
        // Addresses of threads are larger than ids.
        Some(i32::try_from(number).unwrap_or(0))
    };
    if let Some((pid, command)) = frame
        .strip_prefix("process ")
        .and_then(|it| it.split_once(':'))
    {
        let comm = command.trim_matches('"');
        return Some(Who {
            pid: id(pid)?,
            comm,
            ..before
        });
    }
    if let Some((tid, comm)) = frame
        .strip_prefix("thread (")
        .and_then(|it| it.split_once(')'))
    {
        let comm = comm.strip_prefix(": ").unwrap_or(before.comm);
        return Some(Who {
            tid: id(tid)?,
            comm,
            ..before
        });
    }
    let inner = frame.strip_prefix('[')?.strip_suffix(']')?;
    let (comm, tid) = inner.rsplit_once("tid=")?;
    Some(Who {
        tid: id(tid)?,
        comm: comm.trim_end(),
        ..before
    })
}

/// Reads a profile of one event.
pub(crate) fn read(text: &str) -> Result<Profile, ImportError> {
    let mut builder = Builder::default();
    let event = builder.event("samples", false);
    let roots = roots(text);
    for line in lines(text) {
        let Some((stack, period)) = split(line) else {
            continue;
        };
        let (task, frames) = task(&mut builder, stack, roots);
        let mut locations = Vec::new();
        for frame in frames.split(';').filter(|frame| !frame.is_empty()) {
            let marked = MARKS
                .iter()
                .find_map(|(mark, dso)| Some((frame.strip_suffix(mark)?, *dso)));
            let (name, dso) = marked.unwrap_or((frame, ""));
            let dso = builder.name(dso);
            let place = DsoAddress {
                dso: builder.dso(dso),
                address: 0,
            };
            let call = Call {
                name: builder.name(&unfold(name)),
                ..Call::default()
            };
            locations.push(builder.location(place, &[call]));
        }
        let stack = builder.stack(locations.into_iter());
        builder.untimed(event, task, stack, Sum { period, count: 1 });
    }
    builder.finish("text of folded stacks")
}

/// Who runs, and the functions.
fn task<'t>(builder: &mut Builder, stack: &'t str, roots: Roots) -> (TaskId, &'t str) {
    let (who, frames) = match roots {
        Roots::Functions => who(stack),
        Roots::Threads => {
            let (comm, inner) = stack.split_once(';').unwrap_or((stack, ""));
            let who = Who {
                comm,
                ..Who::default()
            };
            (Some(who), inner)
        }
    };
    let who = who.unwrap_or_default();
    let comm = builder.name(&unfold(who.comm));
    (builder.task(who.pid, who.tid, comm), frames)
}

/// A name as it was before it was escaped; see `escape::folded` of the reports.
fn unfold(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, escape)) = rest.split_once('\\') {
        out.push_str(before);
        let mut known = |character: char, length: usize| {
            out.push(character);
            length
        };
        let digits = escape.strip_prefix("u{").and_then(|it| it.split_once('}'));
        let code = |digits: &str| char::from_u32(u32::from_str_radix(digits, 16).ok()?);
        let length = match (escape.chars().next(), digits) {
            (Some('\\'), _) => known('\\', 1),
            (Some('n'), _) => known('\n', 1),
            (Some('t'), _) => known('\t', 1),
            (Some('r'), _) => known('\r', 1),
            (Some('e'), _) => 1,
            (Some('u'), Some((digits, _))) => match code(digits) {
                Some(character) => known(character, digits.len() + 3),
                None => known('\\', 0),
            },
            (Some('x'), _) => match escape.get(1..3).and_then(code) {
                Some(character) => known(character, 3),
                None => known('\\', 0),
            },
            _ => known('\\', 0),
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::{read, unfold};

    /// By stack: name of the thread, its ids, functions with their dsos.
    fn stacks(text: &str) -> Vec<(String, i32, i32, String)> {
        let profile = read(text).expect("folded");
        let rows = profile.samples.iter().map(|sample| {
            let task = profile.task(sample.task);
            let places = profile.stacks.locations(sample.stack);
            let names = places.map(|id| {
                let function = profile.function(profile.frames_at(id)[0].function);
                let dso = profile.name(profile.dso(function.dso).short_name);
                format!("{} {dso}", profile.name(function.name))
            });
            let names: Vec<String> = names.collect();
            (
                profile.name(task.comm).to_owned(),
                task.pid,
                task.tid,
                names.join(";"),
            )
        });
        rows.collect()
    }

    #[test]
    fn async_profilers_stacks_begin_with_functions_or_threads_with_ids() {
        let plain = "Main.main;Main.work 21\njava/lang/Thread.run;a/B.lambda$run$0 3\n";
        let unknown = "Main.work [unknown];Main.main [unknown]";
        assert_eq!(stacks(plain)[0], (String::new(), 0, 0, unknown.into()));
        let marked = "[main tid=12];Main.main_[0];Main.work_[j];sys_read_[k] 2\n";
        let kinds = "sys_read [kernel.kallsyms];Main.work [JIT];Main.main [JIT]";
        assert_eq!(stacks(marked)[0], ("main".into(), 0, 12, kinds.into()));
    }

    #[test]
    fn py_spys_stacks_tell_process_and_thread() {
        let plain = "<module> (a.py:9);work (a.py:3) 7\n";
        let functions = "work (a.py:3) [unknown];<module> (a.py:9) [unknown]";
        assert_eq!(stacks(plain)[0], (String::new(), 0, 0, functions.into()));
        let told = "process 7:\"python a.py\";thread (0x7F0011223344): MainThread;<module> (a.py:9);work (a.py:3) 7\n";
        assert_eq!(
            stacks(told)[0],
            ("MainThread".into(), 7, 0, functions.into())
        );
        let native = "process 7:\"python a.py\";thread (12);work (a.py:3) 7\n";
        assert_eq!(stacks(native)[0].0, "python a.py");
        assert_eq!(stacks(native)[0].2, 12);
    }

    #[test]
    fn stacks_get_their_threads_marks_and_weights() {
        let profile = read("app;main;work_[k] 3\napp;main 2\nsh 1\n").expect("folded");
        assert_eq!(profile.events[0].period, 6);
        assert_eq!(profile.tasks.len(), 2);
        let depths = profile
            .samples
            .iter()
            .map(|it| profile.stacks.locations(it.stack).count());
        assert_eq!(depths.collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(unfold("a\\u{3b}b\\\\c\\ed\\x1b"), "a;b\\cd\u{1b}");
    }
}
