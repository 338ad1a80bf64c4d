//! Folded stacks: `outer;inner 42`.

use crate::ImportError;
use crate::builder::{Builder, Call, Place};
use prof_profile::{Profile, Sample};

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

/// Marks behind names, and the dso that stands for their kind.
const MARKS: [(&str, &str); 3] = [
    ("_[k]", "[kernel.kallsyms]"),
    ("_[j]", "[JIT]"),
    ("_[i]", ""),
];

/// Reads a profile of one event. The outermost frame is the thread's name, as
/// perf's scripts and prof write them, unless it is a place in a script
/// (py-spy's `<module> (a.py:1)`).
pub(crate) fn read(text: &str) -> Result<Profile, ImportError> {
    let mut builder = Builder::default();
    let event = builder.event("samples", false);
    for line in lines(text) {
        let Some((stack, period)) = split(line) else {
            continue;
        };
        let (first, inner) = stack.split_once(';').unwrap_or((stack, ""));
        let (comm, frames) = match first.contains('(') {
            true => ("", stack),
            false => (first, inner),
        };
        let task = builder.task(0, 0, &unfold(comm));
        let mut locations = Vec::new();
        for frame in frames.split(';').filter(|frame| !frame.is_empty()) {
            let marked = MARKS
                .iter()
                .find_map(|(mark, dso)| Some((frame.strip_suffix(mark)?, *dso)));
            let (name, dso) = marked.unwrap_or((frame, ""));
            let place = Place {
                dso: builder.dso(dso),
                address: 0,
            };
            let call = Call {
                name: &unfold(name),
                file: "",
                line: 0,
            };
            locations.push(builder.location(place, &[call]));
        }
        let stack = builder.stack(locations.into_iter());
        let sample = Sample {
            time: 0,
            period,
            task,
            stack,
            cpu: None,
            event,
            wait: None,
        };
        builder.samples(sample, 1);
    }
    builder.finish("text of folded stacks")
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
