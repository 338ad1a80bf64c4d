//! Filters and transforms of the session: changed by keys, shown as chips,
//! taken back one by one.

use super::text;
use prof_profile::{DsoId, EventId, FunctionId, Profile, TaskId};
use prof_report::model::{
    Filter, ModeFilter, Recursion, Selection, TimeRange, Transform, parse_time_ranges,
};
use regex::{Regex, RegexBuilder};

/// The selection in force and those before and after it.
#[derive(Debug, Default)]
pub(super) struct History {
    now: Selection,
    before: Vec<Selection>,
    after: Vec<Selection>,
}

/// Steps that can be taken back.
const STEPS: usize = 200;

impl History {
    pub(super) fn now(&self) -> &Selection {
        &self.now
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
    let first = || profile.samples.get(0).map_or(0, |sample| sample.time);
    profile
        .origin
        .time_range
        .map_or_else(first, |(first, _)| first)
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
            .map(|range| format!("{}..{}", since(range.start), since(range.end)))
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
        "symbol" | "sym" => selection.filter.symbols = words(),
        "pid" => selection.filter.pids = numbers(values)?,
        "tid" => selection.filter.tids = numbers(values)?,
        "cpu" => selection.scope.cpus = numbers(values)?,
        "time" => {
            let span = profile.origin.time_range;
            selection.scope.times =
                parse_time_ranges(values, span).map_err(|error| error.to_string())?;
        }
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
}
