//! Stacks as a line of names: where in the program a thread waited or ran.

use crate::escape;
use crate::short::shortened;
use prof_abi::CpuMode;
use prof_profile::{DsoKind, LocationId, Profile, StackId};

/// The frame that replaces the stacks of threads that wait for work.
pub const FOLDED: &str = "[idle: waits for work]";

/// Whether a stack is that frame.
pub(super) fn is_folded(profile: &Profile, stack: StackId) -> bool {
    let mut locations = profile.stacks.locations(stack);
    let first = locations.next().map(|at| profile.frames_at(at));
    let first = first.and_then(|frames| frames.first());
    first.is_some_and(|frame| profile.name(profile.function(frame.function).name) == FOLDED)
}

/// The names of the user functions of a stack, innermost first; those of the
/// kernel, if it has no others.
pub(super) fn names(profile: &Profile, stack: StackId) -> Vec<String> {
    let user = of_mode(profile, stack, |mode| mode != CpuMode::Kernel);
    match user.is_empty() {
        true => of_mode(profile, stack, |_| true),
        false => user,
    }
}

/// How the names of files begin whose inner functions tell nothing to whoever
/// called them.
const OF_LIBC: [&str; 5] = ["libc.so", "libc-", "libpthread", "ld-musl", "[vdso]"];

/// The dsos of functions that a runtime told of, between its own.
const OF_RUNTIMES: [&str; 4] = ["[python]", "[java]", "[js]", "[dotnet]"];

/// The names for a line: as `names`, but of libc's innermost functions only
/// the one that was called, and where a runtime told of functions, theirs behind
/// the first name: those of its interpreter tell nothing to who wrote them.
pub fn shown(profile: &Profile, stack: StackId) -> Vec<String> {
    let names = without_libc(profile, stack, 1);
    let is_told = |&at: &LocationId| {
        let dso = profile.dso(profile.location(at).dso);
        OF_RUNTIMES.contains(&profile.name(dso.short_name))
    };
    let told = names_of(profile, of_code(profile, stack).filter(is_told));
    match (told.as_slice(), names.first()) {
        ([], _) | (_, None) => names,
        ([innermost, ..], Some(first)) if innermost == first => told,
        (_, Some(first)) => [vec![first.clone()], told].concat(),
    }
}

/// The names without any of libc's innermost functions: the program's own.
pub(super) fn own(profile: &Profile, stack: StackId) -> Vec<String> {
    without_libc(profile, stack, 0)
}

fn without_libc(profile: &Profile, stack: StackId, kept: usize) -> Vec<String> {
    let mut names = names(profile, stack);
    let locations = of_code(profile, stack);
    let user = locations.filter(|&at| profile.location(at).mode != CpuMode::Kernel);
    let of_libc = user.take_while(|&at| {
        let dso = profile.dso(profile.location(at).dso);
        let name = profile.name(dso.short_name);
        OF_LIBC.iter().any(|begin| name.starts_with(begin))
    });
    let inner: usize = of_libc.map(|at| profile.frames_at(at).len()).sum();
    // A thread may have nothing else.
    if inner < names.len() {
        names.drain(..inner.saturating_sub(kept));
    }
    names
}

/// The places of a stack, innermost first, without what was waited for, which
/// views may put on top ([`Profile::show_wait_states`]); one that has nothing else
/// keeps it.
fn of_code(profile: &Profile, stack: StackId) -> impl Iterator<Item = LocationId> + '_ {
    let mut locations = profile.stacks.locations(stack).peekable();
    let is_state = |at: LocationId| {
        let kind = profile.dso(profile.location(at).dso).kind;
        matches!(kind, DsoKind::Waiting | DsoKind::Runnable)
    };
    let first = locations.next();
    let on_top = first.filter(|&at| is_state(at) && locations.peek().is_some());
    first
        .filter(|_| on_top.is_none())
        .into_iter()
        .chain(locations)
}

fn of_mode(profile: &Profile, stack: StackId, keeps: impl Fn(CpuMode) -> bool) -> Vec<String> {
    let locations = of_code(profile, stack);
    names_of(
        profile,
        locations.filter(|&location| keeps(profile.location(location).mode)),
    )
}

fn names_of(profile: &Profile, locations: impl Iterator<Item = LocationId>) -> Vec<String> {
    let frames = locations.flat_map(|location| profile.frames_at(location));
    frames
        .map(|frame| {
            let name = profile.name(profile.function(frame.function).name);
            escape::terminal(name).into_owned()
        })
        .collect()
}

/// Names are not cut shorter than this.
const SHORTEST: usize = 8;

/// Longer names than this are shown by their type and method.
const LONGEST: usize = 40;

/// How the names begin of what a language's own library puts between the program
/// and what it waits in.
const OF_LANGUAGES: [&str; 17] = [
    "std::",
    "<std::",
    "core::",
    "<core::",
    "alloc::",
    "<alloc::",
    "__gthread_",
    "__gnu_cxx::",
    "runtime.",
    "runtime/",
    "internal/",
    "sync.",
    "syscall.",
    "java.",
    "jdk.",
    "sun.",
    "[",
];

/// What compilers put behind the names of variants of a function.
const VARIANTS: [&str; 3] = [".constprop.", ".isra.", ".part."];

/// A name without what a line has no room for: the version of a symbol of a
/// library, the variant of a function, the folder of a Python function's file,
/// arguments of templates.
fn brief(name: &str) -> String {
    if let Some((function, file)) = name.strip_prefix("py::").and_then(|it| it.rsplit_once(':')) {
        let file = file.rsplit('/').next().unwrap_or(file);
        return format!("py::{function}:{file}");
    }
    let name = match name.split_once('@') {
        Some((symbol, _)) if !symbol.is_empty() => symbol,
        _ => name,
    };
    let variant = VARIANTS.iter().filter_map(|it| name.find(it)).min();
    let name = variant.map_or(name, |at| name.get(..at).unwrap_or(name));
    shortened(name, |form| form.chars().count() <= LONGEST).into_owned()
}

/// Which of the names behind the first is the innermost of the program's own.
fn own_at(names: &[String]) -> Option<usize> {
    let is_own = |name: &String| {
        let is_named = !name.starts_with("0x") && !name.contains("+0x");
        is_named && !OF_LANGUAGES.iter().any(|begin| name.starts_with(begin))
    };
    let found = names.iter().skip(1).position(is_own);
    found.map(|at| at + 1)
}

/// `inner < outer < …` within so many columns: at least one name, cut if it has
/// to be, and of more than fit the innermost ones; where the program's own are not
/// among these, the innermost of its own for one or more of them:
/// `inner < … < own < …`.
pub fn line(names: &[String], columns: usize) -> String {
    let names: Vec<String> = names.iter().map(|name| brief(name)).collect();
    let (line, shown) = innermost(&names, columns);
    let Some((own, name)) = own_at(&names).and_then(|at| Some((at, names.get(at)?))) else {
        return line;
    };
    if own < shown {
        return line;
    }
    let rest = if own + 1 < names.len() { " < …" } else { "" };
    let end = format!(" < {name}{rest}");
    let room = columns.saturating_sub(end.chars().count());
    let inner = names.get(..own).unwrap_or_default();
    let fits = |&count: &usize| {
        let parts = inner.get(..count).unwrap_or_default();
        let length: usize = parts.iter().map(|name| name.chars().count() + 3).sum();
        // In place of the last " < " there is " < …", if any is left out.
        length.saturating_sub(3) + if count < own { 4 } else { 0 } <= room
    };
    let Some(count) = (1..=own).rev().find(fits) else {
        return line;
    };
    let left_out = if count < own { " < …" } else { "" };
    let inner = inner.get(..count).unwrap_or_default().join(" < ");
    format!("{inner}{left_out}{end}")
}

/// The innermost names that fit, and how many they are.
fn innermost(names: &[String], columns: usize) -> (String, usize) {
    let (mut line, mut shown) = (String::new(), 0);
    for (index, name) in names.iter().enumerate() {
        let between = if index == 0 { "" } else { " < " };
        let rest = if index + 1 < names.len() {
            " < …"
        } else {
            ""
        };
        let needed = [&line, between, name, rest].map(|part| part.chars().count());
        if index > 0 && needed.iter().sum::<usize>() > columns {
            line.push_str(" < …");
            break;
        }
        line.push_str(between);
        let room = columns.saturating_sub(rest.chars().count()).max(SHORTEST);
        match index == 0 && name.chars().count() > room {
            true => line.extend(name.chars().take(room - 1).chain(['…'])),
            false => line.push_str(name),
        }
        shown += 1;
    }
    match line.is_empty() {
        true => ("[no stack]".to_owned(), 0),
        false => (line, shown),
    }
}

/// A time, ns, in the unit that fits: three digits.
pub(super) fn time(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        ..999.5 => return format!("{ns:.0} ns"),
        ..999.5e3 => (ns / 1e3, "µs"),
        ..999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    match value {
        ..9.995 => format!("{value:.2} {unit}"),
        ..99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{line, names, shown, time};
    use prof_profile::{Wait, WaitKind, WaitState};
    use prof_sketch::Sketch;

    #[test]
    fn what_a_wait_was_for_is_no_function_that_waits() {
        let mut sketch = Sketch::new();
        let task = sketch.task(7, 7, "app");
        sketch.sample(task, "app:main;libc.so.6:wait", 1, 5);
        let futex = Wait {
            state: WaitState::Blocked,
            kind: WaitKind::Futex,
            ..Wait::default()
        };
        let mut profile = sketch.profile;
        profile.samples.set_wait(0, futex);
        let of_wait = |profile: &prof_profile::Profile| {
            let stack = profile.samples.stacks()[0];
            (names(profile, stack), shown(profile, stack))
        };
        let before = of_wait(&profile);
        assert_eq!(before.1, ["wait", "main"]);
        profile.show_wait_states();
        assert_eq!(of_wait(&profile), before);
    }

    #[test]
    fn functions_that_a_runtime_told_of_are_shown_without_its_own() {
        let mut sketch = Sketch::new();
        let mut shown_of = |stack: &str| {
            let stack = sketch.stack(stack);
            shown(&sketch.profile, stack)
        };
        let python = "app:main;[python]:py::outer;app:eval;[python]:py::nap;app:eval";
        assert_eq!(
            shown_of(&format!("{python};libc.so.6:sleep;libc.so.6:clock")),
            ["sleep", "py::nap", "py::outer"]
        );
        assert_eq!(shown_of(python), ["eval", "py::nap", "py::outer"]);
        assert_eq!(shown_of("app:main;[java]:A.run"), ["A.run"]);
        let kernel = "app:main;[python]:py::f;app:eval;[kernel.kallsyms]:read";
        assert_eq!(shown_of(kernel), ["eval", "py::f"]);
        assert_eq!(shown_of("app:main;app:eval"), ["eval", "main"]);
    }

    #[test]
    fn a_line_keeps_the_innermost_names_that_fit() {
        let names = ["inner", "middle", "outer"].map(str::to_owned);
        assert_eq!(line(&names, 80), "inner < middle < outer");
        assert_eq!(line(&names, 20), "inner < middle < …");
        assert_eq!(line(&names, 3), "inner < …");
        let long = ["a_long_name_of_a_function".to_owned(), "outer".to_owned()];
        assert_eq!(line(&long, 14), "a_long_na… < …");
        assert_eq!(line(&[], 9), "[no stack]");
        assert_eq!(line(&["sem.constprop.0".to_owned()], 9), "sem");
        let names = [
            "nanosleep@GLIBC_2.2.5",
            "py::A.nap:/home/me/app.py",
            "@plain",
        ];
        let brief = "nanosleep < py::A.nap:app.py < @plain";
        assert_eq!(line(&names.map(str::to_owned), 80), brief);
    }

    #[test]
    fn a_line_has_a_function_of_the_program_where_there_is_room() {
        let names = [
            "pthread_mutex_lock",
            "__gthread_mutex_lock",
            "std::mutex::lock",
            "std::lock_guard<std::mutex>::lock_guard",
            "lock_user",
            "std::thread::run",
            "libstdc++.so.6+0xd4490",
        ];
        let names = names.map(str::to_owned);
        let of = |columns| line(&names, columns);
        assert_eq!(of(44), "pthread_mutex_lock < … < lock_user < …");
        assert_eq!(
            of(61),
            "pthread_mutex_lock < __gthread_mutex_lock < … < lock_user < …"
        );
        assert_eq!(of(37), "pthread_mutex_lock < …", "one too few");
        assert_eq!(
            line(&names[..5], 40),
            "pthread_mutex_lock < … < lock_user",
            "the outermost"
        );
        let foreign = line(&names[..4], 44);
        assert_eq!(foreign, "pthread_mutex_lock < …");
        let template = "a::Queue<std::basic_string<char, std::char_traits<char> > >::pop";
        let names = ["wait".to_owned(), template.to_owned()];
        assert_eq!(line(&names, 44), "wait < a::Queue<std::basic_string>::pop");
    }

    #[test]
    fn times_have_three_digits() {
        let shown = [0, 999, 1_000, 99_940, 999_600, 1_500_000_000].map(time);
        let expected = ["0 ns", "999 ns", "1.00 µs", "99.9 µs", "1.00 ms", "1.50 s"];
        assert_eq!(shown, expected);
    }
}
