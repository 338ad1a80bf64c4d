//! Filters and transforms of the session: changed by keys, shown as chips,
//! taken back one by one.

use super::text;
use prof_profile::{DsoId, EventId, FunctionId, Profile, TaskId};
use prof_report::model::{
    Filter, ModeFilter, Recursion, Selection, TimeRange, Transform, parse_time_ranges,
};
use prof_report::short::is_in_any_form;
use regex::{Regex, RegexBuilder};
use std::collections::BTreeSet;

/// The selection in force and those before and after it.
#[derive(Debug, Default)]
pub(super) struct History {
    now: Selection,
    before: Vec<Selection>,
    after: Vec<Selection>,
    /// Filters with which the session begins, as they would be typed.
    given: Vec<String>,
    /// Whether the last profile had nothing for one of them.
    is_one_missing: bool,
}

/// Steps that can be taken back.
const STEPS: usize = 200;

impl History {
    pub(super) fn now(&self) -> &Selection {
        &self.now
    }

    /// Begins with these filters, as they would be typed.
    pub(super) fn give(&mut self, given: &[String]) {
        self.given = given.to_vec();
    }

    /// Puts the given filters in force for a profile that has come, as long as the user
    /// has changed nothing: names and times of a part of a recording are not all. Tells
    /// whether one holds now that did not before.
    ///
    /// # Errors
    /// Says of the first that the profile has nothing for what would have worked.
    pub(super) fn begin(&mut self, profile: &Profile) -> Result<bool, String> {
        if !self.before.is_empty() || !self.after.is_empty() {
            return Ok(false);
        }
        let now = &mut self.now;
        let all = self.given.iter();
        let all = all.map(|typed| apply_typed(now, profile, typed));
        let told = all.fold(Ok(()), Result::and);
        let was_missing = std::mem::replace(&mut self.is_one_missing, told.is_err());
        told.map(|()| was_missing)
    }

    /// Makes `next` the selection in force.
    pub(super) fn set(&mut self, next: Selection) {
        if self.before.len() == STEPS {
            self.before.remove(0);
        }
        self.before.push(std::mem::replace(&mut self.now, next));
        self.after.clear();
    }

    /// Changes a copy of the selection in force and puts it in force.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Selection)) {
        let mut next = self.now.clone();
        change(&mut next);
        self.set(next);
    }

    /// Back by one step; whether there was one.
    pub(super) fn undo(&mut self) -> bool {
        let Some(last) = self.before.pop() else {
            return false;
        };
        self.after.push(std::mem::replace(&mut self.now, last));
        true
    }

    /// Back by one step, if a filter or transform is in force: without one there is
    /// nothing to leave, and to take the end of the last one back would begin it again.
    pub(super) fn leave(&mut self) -> bool {
        !is_plain(&self.now) && self.undo()
    }

    /// Forth by one step that was taken back.
    pub(super) fn redo(&mut self) -> bool {
        let Some(next) = self.after.pop() else {
            return false;
        };
        self.before.push(std::mem::replace(&mut self.now, next));
        true
    }

    /// Without filters and transforms; whether there were any.
    pub(super) fn clear(&mut self) -> bool {
        if is_plain(&self.now) {
            return false;
        }
        self.change(|selection| {
            selection.scope.times.clear();
            selection.scope.cpus.clear();
            selection.filter = Filter::default();
            selection.transforms.clear();
            selection.inlines = true;
        });
        true
    }

    /// Another profile came: functions and dsos have other numbers. What
    /// is not in it is dropped.
    pub(super) fn remap(&mut self, remap: &Remap<'_>) {
        let steps = self.before.iter_mut().chain(&mut self.after);
        for selection in steps.chain([&mut self.now]) {
            let transforms = selection.transforms.iter();
            selection.transforms = transforms.filter_map(|&one| remap.transform(one)).collect();
        }
    }

    /// Shows another event; filters stay. Not a step of its own.
    pub(super) fn set_event(&mut self, event: EventId) {
        self.now.event = event;
        for selection in self.before.iter_mut().chain(&mut self.after) {
            selection.event = event;
        }
    }
}

/// Finds in a profile what another profile of the same recording, with fewer
/// names, calls by other numbers.
pub(super) struct Remap<'a> {
    pub(super) old: &'a Profile,
    pub(super) new: &'a Profile,
}

impl Remap<'_> {
    /// The function of the same name in the same dso.
    pub(super) fn function(&self, id: FunctionId) -> Option<FunctionId> {
        let about = self.old.functions.get(id.0 as usize)?;
        let name = self.old.name(about.name);
        let path = self.old.name(self.old.dso(about.dso).path);
        let same = self.new.functions.iter().position(|function| {
            self.new.name(function.name) == name
                && self.new.name(self.new.dso(function.dso).path) == path
        })?;
        u32::try_from(same).ok().map(FunctionId)
    }

    fn dso(&self, id: DsoId) -> Option<DsoId> {
        let path = self.old.name(self.old.dsos.get(id.0 as usize)?.path);
        let same = self
            .new
            .dsos
            .iter()
            .position(|dso| self.new.name(dso.path) == path)?;
        u32::try_from(same).ok().map(DsoId)
    }

    fn transform(&self, transform: Transform) -> Option<Transform> {
        Some(match transform {
            Transform::Focus(id) => Transform::Focus(self.function(id)?),
            Transform::Drop(id) => Transform::Drop(self.function(id)?),
            Transform::Merge(id) => Transform::Merge(self.function(id)?),
            Transform::MergeDso(id) => Transform::MergeDso(self.dso(id)?),
            Transform::CollapseRecursion(which) => Transform::CollapseRecursion(which),
        })
    }
}

/// Whether a selection shows everything as it is.
fn is_plain(selection: &Selection) -> bool {
    selection.inlines
        && selection.filter.is_empty()
        && selection.transforms.is_empty()
        && selection.scope.times.is_empty()
        && selection.scope.cpus.is_empty()
}

/// Only the samples in this dso, or all again.
pub(super) fn zoom_dso(selection: &mut Selection, profile: &Profile, dso: DsoId) {
    let name = profile.name(profile.dso(dso).short_name).to_string();
    zoom(&mut selection.filter.dsos, name);
}

/// Only the samples of this thread, or all again.
pub(super) fn zoom_thread(selection: &mut Selection, profile: &Profile, task: TaskId) {
    zoom(&mut selection.filter.tids, profile.task(task).tid);
}

/// Only the samples in the kernel, or all again.
pub(super) fn zoom_kernel(selection: &mut Selection) {
    let mode = &mut selection.filter.mode;
    *mode = match mode {
        Some(ModeFilter::Kernel) => None,
        _ => Some(ModeFilter::Kernel),
    };
}

/// A list of only `value`; if it is that already, an empty one.
pub(super) fn zoom<T: PartialEq>(list: &mut Vec<T>, value: T) {
    let is_zoomed = list.len() == 1 && list.contains(&value);
    list.clear();
    if !is_zoomed {
        list.push(value);
    }
}

/// Adds a transform, or removes it if it is there.
pub(super) fn toggle_transform(selection: &mut Selection, transform: Transform) {
    match selection
        .transforms
        .iter()
        .position(|&one| one == transform)
    {
        Some(at) => {
            selection.transforms.remove(at);
        }
        None => selection.transforms.push(transform),
    }
}

/// Keeps only a range of time; `None` for all of it.
pub(super) fn set_time(selection: &mut Selection, range: Option<TimeRange>) {
    selection.scope.times = range.into_iter().collect();
}

/// The time, ns, that all times on the screen are counted from: the first sample's,
/// which not every file tells by itself.
pub(super) fn origin_of_times(profile: &Profile) -> u64 {
    profile.time_span().map_or(0, |(first, _)| first)
}

/// What is in force, one text each, for the header. Not escaped.
pub(super) fn chips(profile: &Profile, selection: &Selection) -> Vec<String> {
    let mut chips = Vec::new();
    let filter = &selection.filter;
    let mut list = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            chips.push(format!("{name}={}", values.join(",")));
        }
    };
    list("comm", filter.comms.clone());
    list("dso", filter.dsos.clone());
    list("symbol", filter.symbols.clone());
    // Threads of one name are told apart by number, numbers by name.
    let named = |&number: &i32| {
        let name = profile.last_name(number);
        let name = name.map(|name| format!(" {}", profile.name(name)));
        format!("{number}{}", name.unwrap_or_default())
    };
    list("pid", filter.pids.iter().map(named).collect());
    list("tid", filter.tids.iter().map(named).collect());
    list(
        "cpu",
        selection.scope.cpus.iter().map(u32::to_string).collect(),
    );
    let origin = origin_of_times(profile);
    let since = |time: u64| text::since(origin, time);
    let times = selection.scope.times.iter();
    list(
        "time",
        times
            .map(|range| {
                let end = Some(range.end).filter(|&end| end < u64::MAX);
                format!(
                    "{}..{}",
                    since(range.start),
                    end.map_or_else(String::new, since)
                )
            })
            .collect(),
    );
    if let Some(pattern) = &filter.frame {
        chips.push(format!("/{}/", pattern.as_str()));
    }
    match filter.mode {
        Some(ModeFilter::Kernel) => chips.push("kernel".into()),
        Some(ModeFilter::User) => chips.push("user".into()),
        None => {}
    }
    if !selection.inlines {
        chips.push("inlined as part of".into());
    }
    chips.extend(
        selection
            .transforms
            .iter()
            .map(|&transform| transform_chip(profile, transform)),
    );
    chips
}

fn transform_chip(profile: &Profile, transform: Transform) -> String {
    let function = |id: FunctionId| profile.name(profile.function(id).name);
    match transform {
        Transform::Focus(id) => format!("focus {}", function(id)),
        Transform::Drop(id) => format!("without {}", function(id)),
        Transform::Merge(id) => format!("merge {}", function(id)),
        Transform::MergeDso(dso) => {
            format!("merge {}", profile.name(profile.dso(dso).short_name))
        }
        Transform::CollapseRecursion(Recursion::Direct) => "direct recursion as one".into(),
        Transform::CollapseRecursion(Recursion::Any) => "recursion as one".into(),
    }
}

/// A pattern in which small letters match both cases and a capital only
/// itself.
///
/// # Errors
/// Says what is wrong with the pattern.
pub(super) fn smart_case(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .case_insensitive(!pattern.chars().any(char::is_uppercase))
        .size_limit(4 << 20)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the pattern is too large".to_string(),
            other => {
                let message = other.to_string();
                let last = message.lines().last().unwrap_or_default();
                format!(
                    "not a regular expression: {}",
                    last.trim_start_matches("error: ")
                )
            }
        })
}

/// The names of functions that are called so, or are shown so.
fn whole_names(profile: &Profile, typed: &[String]) -> Result<Vec<String>, String> {
    let functions = profile.functions.iter();
    let known: BTreeSet<&str> = functions.map(|it| profile.name(it.name)).collect();
    let mut names = Vec::new();
    for typed in typed {
        if known.contains(typed.as_str()) {
            names.push(typed.clone());
            continue;
        }
        let shown = known
            .iter()
            .filter(|name| is_in_any_form(name, |form| form == typed));
        let before = names.len();
        names.extend(shown.map(|&name| name.to_owned()));
        if names.len() == before {
            return Err(format!(
                "no function is called {typed}; without symbol= it is a pattern for parts of names"
            ));
        }
    }
    Ok(names)
}

/// Ranges of time: in seconds since the first sample, as the screen tells times, or
/// as recorded; with `ms` behind them in those.
fn times(profile: &Profile, typed: &str) -> Result<Vec<TimeRange>, String> {
    let span = profile.time_span();
    let ranges = parse_time_ranges(&in_seconds(typed), span).map_err(|error| error.to_string())?;
    if typed.contains('%') {
        return Ok(ranges);
    }
    let first = origin_of_times(profile);
    let last = span.map_or(u64::MAX, |(_, last)| last);
    let in_recording = |range: TimeRange| {
        if (first..=last).contains(&range.start) {
            return Ok(range);
        }
        let is_recorded = range.start == 0 && range.end >= first;
        let range = TimeRange {
            start: first.saturating_add(range.start),
            end: match is_recorded {
                true => range.end,
                false => first.saturating_add(range.end),
            },
        };
        match range.start > last {
            true => Err(format!(
                "the last sample is {} behind the first one; time=0.1,0.2 are seconds since that",
                text::since(first, last)
            )),
            false => Ok(range),
        }
    };
    ranges.into_iter().map(in_recording).collect()
}

/// `100ms,2s` as `0.1,2`.
fn in_seconds(typed: &str) -> String {
    let one = |word: &str| {
        let plain = word.trim();
        match (plain.strip_suffix("ms"), plain.strip_suffix('s')) {
            (Some(ms), _) => match ms.trim().parse::<f64>() {
                Ok(ms) => format!("{:.9}", ms / 1e3),
                Err(_) => word.to_owned(),
            },
            (None, Some(seconds)) => seconds.trim().to_owned(),
            (None, None) => word.to_owned(),
        }
    };
    typed.split(',').map(one).collect::<Vec<_>>().join(",")
}

/// Puts a filter that was typed in force.
///
/// # Errors
/// Says what would have worked.
pub(super) fn apply_typed(
    selection: &mut Selection,
    profile: &Profile,
    typed: &str,
) -> Result<(), String> {
    let typed = typed.trim();
    match typed {
        "" => return Err("nothing to filter by".into()),
        "kernel" => {
            selection.filter.mode = Some(ModeFilter::Kernel);
            return Ok(());
        }
        "user" => {
            selection.filter.mode = Some(ModeFilter::User);
            return Ok(());
        }
        _ => {}
    }
    let Some((name, values)) = typed.split_once('=') else {
        selection.filter.frame = Some(smart_case(typed)?);
        return Ok(());
    };
    let words = || {
        values
            .split(',')
            .map(|word| word.trim().to_string())
            .collect()
    };
    match name.trim() {
        "comm" => selection.filter.comms = words(),
        "dso" => selection.filter.dsos = words(),
        "symbol" | "sym" => selection.filter.symbols = whole_names(profile, &words())?,
        "pid" => selection.filter.pids = numbers(values)?,
        "tid" => selection.filter.tids = numbers(values)?,
        "cpu" => selection.scope.cpus = numbers(values)?,
        "time" => selection.scope.times = times(profile, values)?,
        // `operator==` and the like are names, not keys.
        name if is_key(name) => {
            return Err(format!(
                "there is no filter {name}=; there are {}, kernel and user; a pattern may say [=]",
                KEYS.map(|key| format!("{key}=")).join(", ")
            ));
        }
        _ => selection.filter.frame = Some(smart_case(typed)?),
    }
    Ok(())
}

/// What can stand before `=`.
const KEYS: [&str; 7] = ["comm", "dso", "symbol", "pid", "tid", "cpu", "time"];

/// Whether a word before `=` was meant as a key.
fn is_key(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    name != "operator" && !name.is_empty() && name.chars().all(is_letter)
}

fn numbers<T: std::str::FromStr>(values: &str) -> Result<Vec<T>, String> {
    values
        .split(',')
        .map(|word| {
            let word = word.trim();
            word.parse()
                .map_err(|_| format!("{word:?} is not a number; numbers go like 1,2"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{History, apply_typed, chips, smart_case};
    use prof_profile::Profile;
    use prof_report::model::Selection;

    #[test]
    fn capitals_make_case_count() {
        assert!(smart_case("malloc").is_ok_and(|pattern| pattern.is_match("Malloc")));
        assert!(smart_case("Malloc").is_ok_and(|pattern| !pattern.is_match("malloc")));
        let message = smart_case("(a").expect_err("an open group");
        assert!(message.contains("unclosed group"), "{message}");
        assert!(smart_case("(a{500}){500}").is_err());
    }

    #[test]
    fn a_typed_filter_is_shown_as_it_was_meant() {
        let profile = Profile::default();
        let mut selection = Selection::default();
        for typed in ["comm=a,b", "cpu=0,3", "kernel", "^std::"] {
            apply_typed(&mut selection, &profile, typed).expect(typed);
        }
        assert_eq!(
            chips(&profile, &selection),
            ["comm=a,b", "cpu=0,3", "/^std::/", "kernel"]
        );
        let message = apply_typed(&mut selection, &profile, "pid=x").expect_err("no number");
        assert!(message.contains("numbers go like"), "{message}");
        for pattern in [
            "operator==",
            "operator=",
            "a<b>=c",
            "foo[=]bar",
            "==",
            "->=",
        ] {
            assert!(apply_typed(&mut selection, &profile, pattern).is_ok());
        }
        for unknown in ["foo=bar", "thread=1", "Comm=a"] {
            let message = apply_typed(&mut selection, &profile, unknown).expect_err(unknown);
            let key = unknown.split('=').next().expect("a key");
            let wanted = format!("no filter {key}=; there are comm=, dso=, symbol=, pid=");
            assert!(message.contains(&wanted), "{message}");
        }
    }

    #[test]
    fn changes_are_taken_back_and_made_again() {
        let profile = Profile::default();
        let mut history = History::default();
        history.change(|selection| selection.filter.pids = vec![7]);
        history.change(|selection| selection.filter.tids = vec![8]);
        assert!(history.undo());
        assert_eq!(chips(&profile, history.now()), ["pid=7"]);
        assert!(history.redo());
        assert!(!history.redo());
        assert!(history.clear());
        assert!(chips(&profile, history.now()).is_empty());
        assert!(history.undo());
        assert_eq!(chips(&profile, history.now()), ["pid=7", "tid=8"]);
    }

    #[test]
    fn given_filters_hold_until_the_user_changes_them() {
        let given = ["comm=app".to_owned(), "symbol=late".to_owned()];
        let mut history = History::default();
        history.give(&given);
        let mut sketch = prof_sketch::Sketch::new();
        let message = history
            .begin(&sketch.profile)
            .expect_err("no such function");
        assert!(message.contains("no function is called late"), "{message}");
        assert_eq!(chips(&sketch.profile, history.now()), ["comm=app"]);
        let dso = sketch.dso("/bin/app", prof_profile::DsoKind::File);
        sketch.location(dso, &["late"]);
        assert_eq!(history.begin(&sketch.profile), Ok(true));
        let both = ["comm=app", "symbol=late"];
        assert_eq!(chips(&sketch.profile, history.now()), both);
        assert!(!history.undo(), "they are where the session begins");
        assert!(history.clear());
        assert_eq!(history.begin(&sketch.profile), Ok(false));
        assert!(chips(&sketch.profile, history.now()).is_empty());
        assert!(history.undo());
        assert_eq!(chips(&sketch.profile, history.now()), both);
    }

    #[test]
    fn times_are_those_of_the_screen_or_of_the_recording() {
        let mut sketch = prof_sketch::Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "app:main", 1, 1);
        let mut profile = sketch.profile;
        const S: u64 = 1_000_000_000;
        profile.origin.time_range = Some((5000 * S, 5002 * S));
        let of = |typed: &str| {
            let ranges = super::times(&profile, typed)?;
            Ok::<_, String>(
                ranges
                    .iter()
                    .map(|it| (it.start, it.end))
                    .collect::<Vec<_>>(),
            )
        };
        let second = vec![(5000 * S + S / 2, 5001 * S)];
        assert_eq!(of("0.5,1"), Ok(second.clone()));
        assert_eq!(of("500ms,1s"), Ok(second.clone()));
        assert_eq!(of("5000.5,5001"), Ok(second));
        assert_eq!(of(",5001"), Ok(vec![(5000 * S, 5001 * S)]));
        assert_eq!(of(",1"), Ok(vec![(5000 * S, 5001 * S)]));
        assert_eq!(of("1"), Ok(vec![(5001 * S, u64::MAX)]));
        assert_eq!(of("50%-100%"), Ok(vec![(5001 * S, 5002 * S)]));
        let late = of("3,4").expect_err("behind the end");
        assert!(late.contains("2.000 s behind the first"), "{late}");
        assert!(of("2,1").is_err() && of("x").is_err());
    }

    #[test]
    fn a_function_is_filtered_by_the_name_that_is_shown() {
        let mut sketch = prof_sketch::Sketch::new();
        let dso = sketch.dso("/bin/app", prof_profile::DsoKind::File);
        let name = "std::vector<int, std::allocator<int> >::push_back(int const&)";
        sketch.location(dso, &[name]);
        let profile = sketch.profile;
        let of = |typed: &str| super::whole_names(&profile, &[typed.to_owned()]);
        assert_eq!(of(name), Ok(vec![name.to_owned()]));
        assert_eq!(of("std::vector::push_back"), Ok(vec![name.to_owned()]));
        assert!(of("std::vector::pop_back").is_err());
    }
}
