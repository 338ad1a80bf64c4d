//! Folded stacks: `outer;inner 42`.

use crate::builder::{Builder, Call, DsoAddress, Sum};
use crate::{HEAD_BYTES, ImportError};
use prof_profile::{EventId, LocationId, NameId, Profile, Sample, StackId};
use std::io::{BufRead, Read};

/// What tables of names and stacks may take, in bytes.
const MOST_MEMORY: usize = 384 << 20;

/// Whether a text's first lines each end with a number.
pub(crate) fn is_one(text: &str) -> bool {
    let mut lines = text.lines().filter_map(content).take(16).peekable();
    lines.peek().is_some() && lines.all(|line| split(line).is_some())
}

/// What a line has, if it is no comment.
fn content(line: &str) -> Option<&str> {
    let line = line.trim_end();
    (!line.is_empty() && !line.starts_with('#')).then_some(line)
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

/// Whether the outermost frame is a function: it has a mark, is a place in a
/// script (`<module> (a.py:1)`), names a class of Java (`java/lang/Thread.run`)
/// or is where programs and threads begin. Then all are.
fn is_function(stack: &str) -> bool {
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

/// Reads a profile of one event, line by line.
pub(crate) fn read(mut text: impl BufRead) -> Result<Profile, ImportError> {
    let mut stacks = Stacks::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = HEAD_BYTES as u64 + 1;
        let length = text.by_ref().take(most).read_until(b'\n', &mut line)?;
        if length == 0 {
            return stacks.builder.finish(FORMAT);
        }
        if length > HEAD_BYTES {
            return Err(ImportError::TooMany { format: FORMAT });
        }
        let line = String::from_utf8_lossy(&line);
        if let Some((stack, period)) = content(&line).and_then(split) {
            stacks.add(stack, period)?;
        }
    }
}

const FORMAT: &str = "text of folded stacks";

/// The stacks so far.
struct Stacks {
    builder: Builder,
    event: EventId,
    roots: Roots,
    /// The functions of the last line, outermost first, and where in it each
    /// ends and which stack it ends: equal beginnings are often in turn.
    last: String,
    ends: Vec<(usize, StackId)>,
    /// Bytes of the names.
    names: usize,
    /// What names and stacks may take, in bytes; see [`Stacks::memory`].
    most_memory: usize,
}

impl Stacks {
    fn new() -> Self {
        let mut builder = Builder::default();
        let event = builder.event("samples", false);
        Self {
            builder,
            event,
            roots: Roots::Threads,
            last: String::new(),
            ends: Vec::new(),
            names: 0,
            most_memory: MOST_MEMORY,
        }
    }

    fn add(&mut self, stack: &str, period: u64) -> Result<(), ImportError> {
        if self.roots == Roots::Threads && is_function(stack) {
            self.roots = Roots::Functions;
            self.threads_are_functions();
        }
        let (who, frames) = match self.roots {
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
        let before = self.builder.profile.tasks.len();
        let comm = self.builder.name(&unfold(who.comm));
        let task = self.builder.task(who.pid, who.tid, comm);
        self.names += who.comm.len() * (self.builder.profile.tasks.len() - before);
        let stack = self.stack(frames);
        let sum = Sum { period, count: 1 };
        self.builder.untimed(self.event, task, stack, sum);
        if self.memory() > self.most_memory {
            return Err(ImportError::TooMany { format: FORMAT });
        }
        Ok(())
    }

    /// The stack of functions that come outermost first.
    fn stack(&mut self, frames: &str) -> StackId {
        let pairs = frames.bytes().zip(self.last.bytes());
        let common = pairs.take_while(|(new, old)| new == old).count();
        // Behind a name that both have stands a semicolon in both.
        let kept = self.ends.partition_point(|&(end, _)| end < common);
        self.ends.truncate(kept);
        let (mut start, mut stack) = match self.ends.last() {
            Some(&(end, stack)) => (end + 1, stack),
            None => (0, StackId::EMPTY),
        };
        self.last.truncate(start);
        let rest = frames.get(start..).unwrap_or_default();
        self.last.push_str(rest);
        for frame in rest.split(';') {
            start += frame.len();
            if !frame.is_empty() {
                let location = self.location(frame);
                stack = self.builder.profile.stacks.push(stack, location);
            }
            self.ends.push((start, stack));
            start += 1;
        }
        stack
    }

    fn location(&mut self, frame: &str) -> LocationId {
        let builder = &mut self.builder;
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
        let before = builder.profile.locations.len();
        let location = builder.location(place, &[call]);
        self.names += frame.len() * (builder.profile.locations.len() - before);
        location
    }

    /// What was taken for threads so far were functions, as a later line tells.
    fn threads_are_functions(&mut self) {
        self.last.clear();
        self.ends.clear();
        let builder = &mut self.builder;
        let comms: Vec<NameId> = builder.profile.tasks.iter().map(|it| it.comm).collect();
        let roots = comms.into_iter().map(|comm| {
            let place = DsoAddress {
                dso: builder.dso(None),
                address: 0,
            };
            let name = Some(comm).filter(|&comm| !builder.profile.name(comm).is_empty());
            let call = Call {
                name,
                ..Call::default()
            };
            let root = name.map(|_| builder.location(place, &[call]));
            root.map_or(StackId::EMPTY, |root| builder.stack([root].into_iter()))
        });
        let roots: Vec<StackId> = roots.collect();
        builder.forget_tasks();
        let task = builder.task(0, 0, None);
        let Profile {
            samples, stacks, ..
        } = &mut builder.profile;
        let mut path = Vec::new();
        samples.filter_map(|sample| {
            let root = roots.get(sample.task.0 as usize).copied();
            path.clear();
            path.extend(stacks.locations(sample.stack));
            let outermost_first = path.iter().rev();
            let root = root.unwrap_or(StackId::EMPTY);
            let stack = outermost_first.fold(root, |caller, &id| stacks.push(caller, id));
            Some(Sample {
                task,
                stack,
                ..*sample
            })
        });
    }

    /// What the tables take about, in bytes, grown as they are.
    fn memory(&self) -> usize {
        let profile = &self.builder.profile;
        self.names
            + profile.locations.len() * 300
            + profile.tasks.len() * 100
            + profile.stacks.len() * 50
            + profile.samples.len() * 24
    }
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
    use super::{ImportError, Stacks, read, unfold};

    /// By stack: name of the thread, its ids, functions with their dsos.
    fn stacks(text: &str) -> Vec<(String, i32, i32, String)> {
        let profile = read(text.as_bytes()).expect("folded");
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
        let profile = read(&b"app;main;work_[k] 3\napp;main 2\nsh 1\n"[..]).expect("folded");
        assert_eq!(profile.events[0].period, 6);
        assert_eq!(profile.tasks.len(), 2);
        let depths = profile
            .samples
            .iter()
            .map(|it| profile.stacks.locations(it.stack).count());
        assert_eq!(depths.collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(unfold("a\\u{3b}b\\\\c\\ed\\x1b"), "a;b\\cd\u{1b}");
    }

    #[test]
    fn a_function_among_the_threads_makes_functions_of_all() {
        let late = "Main.main;Main.work 2\n;odd 3\nMain.main 1\n[main tid=12];Main.main_[0] 4\n";
        let first = "[main tid=12];Main.main_[0] 4\nMain.main;Main.work 2\n;odd 3\nMain.main 1\n";
        let mut expected = stacks(first);
        expected.rotate_left(1);
        assert_eq!(stacks(late), expected);
        let tasks = read(late.as_bytes()).expect("folded").tasks;
        assert_eq!(tasks.len(), 2, "no threads are left of functions");
    }

    #[test]
    fn stacks_that_begin_alike_are_what_they_are_alone() {
        let lines = [
            "app;main;work;a 1",
            "app;main;work;ab 1",
            "app;main;work 1",
            "app;main;work;a 1",
            "sh;main;worker;a 1",
            "app;main;;work;\u{e4} 1",
            "app;main;;work;\u{e5} 1",
            "app 1",
            "app;m 1",
        ];
        let together = stacks(&(lines.join("\n") + "\n"));
        let alone: Vec<_> = lines.iter().flat_map(|line| stacks(line)).collect();
        assert_eq!(together, alone);
    }

    #[test]
    fn so_many_names_are_refused_that_memory_stays_bounded() {
        let mut stacks = Stacks::new();
        stacks.most_memory = 1 << 20;
        let long = "x".repeat(1 << 10);
        let refused = (0..2000).find_map(|number| {
            let stack = format!("app;{long}{number}");
            stacks.add(&stack, 1).err()
        });
        assert!(matches!(refused, Some(ImportError::TooMany { .. })));
        assert!(
            (500 << 10..1 << 20).contains(&stacks.names),
            "{}",
            stacks.names
        );
    }
}
