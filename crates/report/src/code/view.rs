//! One function with the weight of each instruction and line.

use super::{CodeSource, Flow, FunctionCode, Instruction, Syntax, disassemble};
use prof_profile::{
    DsoId, Frame, FunctionId, Location, LocationId, NameId, Profile, StackId, Svma,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The weight of a piece of code, in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Of samples taken in it, inlined bodies included.
    pub here: u64,
    /// Of samples taken in it or in what it calls; each sample once.
    pub total: u64,
}

impl Share {
    fn add(&mut self, other: Self) {
        self.here = self.here.saturating_add(other.here);
        self.total = self.total.saturating_add(other.total);
    }
}

/// One instruction of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeRow {
    /// What it is.
    pub instruction: Instruction,
    /// Its weight.
    pub share: Share,
    /// The name of the target of a jump or call out of the function.
    pub target_name: Option<String>,
    /// The name of the data it reads or writes relative to itself.
    pub data_name: Option<String>,
    /// Index of the row its jump goes to, if inside the function.
    pub target_row: Option<usize>,
    /// Its line: index in [`FunctionView::files`] and number from 1.
    pub line: Option<(usize, u32)>,
}

/// One line of source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    /// Index in [`FunctionView::files`].
    pub file: usize,
    /// Number, from 1.
    pub line: u32,
    /// Its weight.
    pub share: Share,
    /// Level of inlining: 0 for the function's own lines.
    pub depth: u16,
    /// The function inlined there, for depths above 0.
    pub inlined: Option<FunctionId>,
}

/// A source file of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path as debug information has it.
    pub path: Arc<str>,
    /// Its lines, if it can be read.
    pub text: Option<Vec<String>>,
    /// Whether it was written to after the program: its lines may be others than
    /// those that were compiled.
    pub is_newer: bool,
}

impl SourceFile {
    /// What a reader should know of its lines, if anything.
    pub fn remark(&self) -> Option<&'static str> {
        match (&self.text, self.is_newer) {
            (None, _) => Some("it is not here"),
            (Some(_), true) => Some("it is newer than the program"),
            (Some(_), false) => None,
        }
    }

    /// Whether a line, counted from 1, is there to be shown.
    pub fn has_line(&self, number: u32) -> bool {
        let lines = self.text.as_ref().map_or(0, Vec::len);
        (1..=lines).contains(&(number as usize))
    }

    /// A line's text, from 1; empty if it is not there.
    pub fn line(&self, number: u32) -> &str {
        let index = (number as usize).checked_sub(1);
        index
            .and_then(|index| self.text.as_ref()?.get(index))
            .map_or("", String::as_str)
    }
}

/// The code of one function, with weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionView {
    /// Which function.
    pub function: FunctionId,
    /// For a function that is only inlined: the function whose code is shown,
    /// the one that it was sampled in most.
    pub host: Option<FunctionId>,
    /// Weight of all samples that pass the filters.
    pub all: u64,
    /// Weight of the function.
    pub share: Share,
    /// Its instructions, by address; empty if [`FunctionView::no_code`] says
    /// why.
    pub instructions: Vec<CodeRow>,
    /// The bytes of those, from the function's start.
    pub code: Vec<u8>,
    /// Its source lines with weight, each followed by the lines inlined there,
    /// in the order of the file.
    pub lines: Vec<SourceRow>,
    /// The files that lines refer to.
    pub files: Vec<SourceFile>,
    /// Why there are no instructions.
    pub no_code: Option<String>,
    /// Weight of another build of the function, which is on none of the rows
    /// above.
    pub other_build: Share,
}

/// What a view is built from.
#[derive(Clone, Copy)]
pub struct Build<'a> {
    /// The recording.
    pub profile: &'a Profile,
    /// The weight of the samples with exactly this stack, by `StackId`.
    pub leaf_weights: &'a [u64],
    /// Who reads code.
    pub source: &'a dyn CodeSource,
    /// How instructions are written.
    pub syntax: Syntax,
}

impl Build<'_> {
    /// The view of one function.
    pub fn view(&self, function: FunctionId) -> FunctionView {
        let mut view = FunctionView {
            function,
            host: None,
            all: self
                .leaf_weights
                .iter()
                .fold(0, |sum, weight| sum.saturating_add(*weight)),
            share: Share::default(),
            instructions: Vec::new(),
            code: Vec::new(),
            lines: Vec::new(),
            files: Vec::new(),
            no_code: None,
            other_build: Share::default(),
        };
        let found = self.weigh(function);
        view.share = found.share;
        view.other_build = found.other_build;
        let (place, weights) = found.place(function);
        let mut files = Files {
            of: self,
            dso: self.profile.function(place).dso,
            all: Vec::new(),
        };
        view.host = Some(place).filter(|&place| place != function);
        match self
            .source
            .function(self.profile, self.profile.function(place))
        {
            Ok(code) => {
                view.instructions = self.code_rows(place, &code, weights, &mut files);
                view.code = code.bytes;
            }
            Err(reason) => view.no_code = Some(reason.to_string()),
        }
        view.lines = self.source_rows(&found, &mut files);
        view.files = files.all;
        view
    }

    /// What fell on the function's addresses and lines.
    fn weigh(&self, function: FunctionId) -> Weighed {
        let mut found = Weighed::default();
        let totals = self.subtree_totals();
        let mut places = Places::new(self.profile.stacks.len());
        let mut outer = Vec::new();
        for index in 1..self.profile.stacks.len() {
            let Ok(id) = u32::try_from(index).map(StackId) else {
                break;
            };
            let (Some((caller, location)), Some(&total)) =
                (self.profile.stacks.get(id), totals.get(index))
            else {
                continue;
            };
            let frames = self.profile.frames_at(location);
            let level = frames.iter().position(|frame| frame.function == function);
            let Some(level) = level else {
                places.pass(id, caller);
                continue;
            };
            places.note(id, caller, location);
            if total == 0 {
                continue;
            }
            let here = self.leaf_weights.get(index).copied().unwrap_or(0);
            outer.clear();
            outer.extend(places.of(caller));
            found.add(self.profile, location, level, Share { here, total }, &outer);
        }
        found
    }

    /// For each stack, the weight of the samples whose stacks go through it.
    fn subtree_totals(&self) -> Vec<u64> {
        let mut totals = self.leaf_weights.to_vec();
        totals.resize(self.profile.stacks.len(), 0);
        // A caller's id is smaller than its callees'.
        for index in (1..totals.len()).rev() {
            let weight = totals.get(index).copied().unwrap_or(0);
            let caller = u32::try_from(index)
                .ok()
                .and_then(|id| self.profile.stacks.get(StackId(id)));
            if let Some(above) = caller.and_then(|(caller, _)| totals.get_mut(caller.0 as usize)) {
                *above = above.saturating_add(weight);
            }
        }
        totals
    }

    fn code_rows(
        &self,
        function: FunctionId,
        code: &FunctionCode,
        weights: &BTreeMap<Svma, Share>,
        files: &mut Files<'_>,
    ) -> Vec<CodeRow> {
        let dso = self.profile.function(function).dso;
        let instructions = disassemble(code.arch, self.syntax, code.start, &code.bytes);
        let starts: Vec<Svma> = instructions.iter().map(|one| one.address).collect();
        let mut rows: Vec<CodeRow> = Vec::with_capacity(instructions.len());
        for instruction in instructions {
            let target = match instruction.flow {
                Flow::Jump(target) | Flow::Call(target) => target,
                Flow::Next | Flow::Return => None,
            };
            let target_row = target.and_then(|target| starts.binary_search(&target).ok());
            let outside = target.filter(|_| target_row.is_none());
            let target_name =
                outside.and_then(|target| self.source.name_at(self.profile, dso, target));
            let data_name = instruction
                .data
                .and_then(|data| self.source.data_at(self.profile, dso, data));
            let line =
                line_of(code, instruction.address).map(|(path, line)| (files.index(path), line));
            rows.push(CodeRow {
                instruction,
                share: Share::default(),
                target_name,
                data_name,
                target_row,
                line,
            });
        }
        for (&address, &share) in weights {
            let at = starts.partition_point(|&start| start <= address);
            if let Some(row) = at.checked_sub(1).and_then(|at| rows.get_mut(at)) {
                row.share.add(share);
            }
        }
        rows
    }

    fn source_rows(&self, found: &Weighed, files: &mut Files<'_>) -> Vec<SourceRow> {
        let names = &self.profile.names;
        let mut rows: Vec<SourceRow> = Vec::new();
        let mut order: Vec<_> = found.by_line.iter().collect();
        order.sort_by_key(|(path, _)| {
            path.iter()
                .map(|step| (names.get(step.file), step.line, step.function))
                .collect::<Vec<_>>()
        });
        for (path, &share) in order {
            let Some(last) = path.last() else { continue };
            let depth = u16::try_from(path.len() - 1).unwrap_or(u16::MAX);
            let file = files.index(&Arc::from(names.get(last.file)));
            rows.push(SourceRow {
                file,
                line: last.line,
                share,
                depth,
                inlined: (depth > 0).then_some(last.function),
            });
        }
        rows
    }
}

/// A line at one level of inlining.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Step {
    file: NameId,
    line: u32,
    function: FunctionId,
}

/// What fell on a function.
#[derive(Debug, Default)]
struct Weighed {
    share: Share,
    /// See [`FunctionView::other_build`].
    other_build: Share,
    /// By address, in each function in whose code this one stands: itself,
    /// or those it is inlined into.
    by_address: BTreeMap<FunctionId, BTreeMap<Svma, Share>>,
    /// By line of the function, then of what is inlined there, inwards.
    by_line: FxHashMap<Vec<Step>, Share>,
}

/// The address of the instruction that was executing.
fn executing(location: &Location) -> Svma {
    if location.is_return {
        location.address.minus(1)
    } else {
        location.address
    }
}

/// The lines of a location from the frame at `level` inwards.
fn steps(frames: &[Frame], level: usize) -> impl Iterator<Item = Step> + '_ {
    let inwards = frames.get(..=level).unwrap_or_default().iter().rev();
    inwards.map_while(|frame| {
        Some(Step {
            file: frame.file.filter(|_| frame.line > 0)?,
            line: frame.line,
            function: frame.function,
        })
    })
}

impl Weighed {
    /// In whose code the function is shown, with the weights there: in its
    /// own, or where it is inlined most.
    fn place(&self, function: FunctionId) -> (FunctionId, &BTreeMap<Svma, Share>) {
        static NONE: BTreeMap<Svma, Share> = BTreeMap::new();
        if let Some(own) = self.by_address.get(&function) {
            return (function, own);
        }
        let weight = |shares: &BTreeMap<Svma, Share>| -> u64 {
            shares
                .values()
                .fold(0, |sum, share| sum.saturating_add(share.here))
        };
        let heaviest = self
            .by_address
            .iter()
            .max_by_key(|(_, shares)| weight(shares));
        heaviest.map_or((function, &NONE), |(&host, shares)| (host, shares))
    }

    /// Counts a stack whose innermost location holds the function at `level`
    /// of its frames; `outer` are the other locations of the stack with it.
    fn add(
        &mut self,
        profile: &Profile,
        id: LocationId,
        level: usize,
        share: Share,
        outer: &[LocationId],
    ) {
        let location = profile.location(id);
        let frames = profile.frames_at(id);
        let once = Share {
            total: if outer.is_empty() { share.total } else { 0 },
            ..share
        };
        self.share.add(once);
        if !profile.is_of_known_build(id) {
            self.other_build.add(once);
            return;
        }
        let address = executing(location);
        if let Some(host) = frames.last() {
            let seen = outer
                .iter()
                .any(|&other| executing(profile.location(other)) == address);
            let in_host = self.by_address.entry(host.function).or_default();
            in_host.entry(address).or_default().add(Share {
                total: if seen { 0 } else { share.total },
                ..share
            });
        }
        let path: Vec<Step> = steps(frames, level).collect();
        for len in 1..=path.len() {
            let prefix = path.get(..len).unwrap_or_default();
            let function = prefix.first().map(|step| step.function);
            let seen = outer.iter().any(|&other| {
                let frames = profile.frames_at(other);
                let level = frames
                    .iter()
                    .position(|frame| Some(frame.function) == function);
                level.is_some_and(|level| steps(frames, level).take(len).eq(prefix.iter().copied()))
            });
            self.by_line.entry(prefix.to_vec()).or_default().add(Share {
                total: if seen { 0 } else { share.total },
                ..share
            });
        }
    }
}

/// Which locations of a stack hold a function, each once: recursion counts a
/// sample once. Stacks share those of their callers, so that a recursion of
/// thousands of frames costs no more than its few places.
struct Places {
    /// By stack: the last of its places, counted from 1; 0 for none.
    last: Vec<usize>,
    /// A place, and which was known before it.
    all: Vec<(LocationId, usize)>,
}

impl Places {
    /// For so many stacks.
    fn new(stacks: usize) -> Self {
        Self {
            last: vec![0; stacks],
            all: Vec::new(),
        }
    }

    /// The innermost frame of a stack is of another function.
    fn pass(&mut self, stack: StackId, caller: StackId) {
        let last = self.last_of(caller);
        self.set(stack, last);
    }

    /// The innermost frame of a stack holds the function.
    fn note(&mut self, stack: StackId, caller: StackId, location: LocationId) {
        let mut last = self.last_of(caller);
        if !self.of(caller).any(|known| known == location) {
            self.all.push((location, last));
            last = self.all.len();
        }
        self.set(stack, last);
    }

    /// Those of a stack.
    fn of(&self, stack: StackId) -> impl Iterator<Item = LocationId> {
        let mut at = self.last_of(stack);
        std::iter::from_fn(move || {
            let &(location, before) = self.all.get(at.checked_sub(1)?)?;
            at = before;
            Some(location)
        })
    }

    fn last_of(&self, stack: StackId) -> usize {
        self.last.get(stack.0 as usize).copied().unwrap_or(0)
    }

    fn set(&mut self, stack: StackId, last: usize) {
        if let Some(place) = self.last.get_mut(stack.0 as usize) {
            *place = last;
        }
    }
}

/// Source files met so far, each read once.
struct Files<'a> {
    of: &'a Build<'a>,
    /// Whose sources they are.
    dso: DsoId,
    all: Vec<SourceFile>,
}

impl Files<'_> {
    fn index(&mut self, path: &Arc<str>) -> usize {
        if let Some(index) = self.all.iter().position(|file| file.path == *path) {
            return index;
        }
        let source = self.of.source;
        let text = source.source(path);
        self.all.push(SourceFile {
            path: Arc::clone(path),
            is_newer: text.is_some() && source.is_newer(self.of.profile, self.dso, path),
            text: text.map(|text| text.lines().map(expand_tabs).collect()),
        });
        self.all.len() - 1
    }
}

/// Tabs as the editor shows them, every 8 columns.
fn expand_tabs(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for character in line.chars() {
        if character == '\t' {
            let used = text.chars().count() % 8;
            text.extend(std::iter::repeat_n(' ', 8 - used));
        } else {
            text.push(character);
        }
    }
    text
}

fn line_of(code: &FunctionCode, address: Svma) -> Option<(&Arc<str>, u32)> {
    let at = code.lines.partition_point(|entry| entry.address <= address);
    let entry = code.lines.get(at.checked_sub(1)?)?;
    (entry.line > 0).then_some((&entry.file, entry.line))
}

#[cfg(test)]
mod tests {
    use super::{Build, FunctionView, Places, Share};
    use crate::code::NoSource;
    use crate::model::{Scene, Selection};
    use prof_profile::{FunctionId, LocationId, Profile, StackId};
    use prof_sketch::Sketch;

    fn view(profile: &Profile, name: &str) -> FunctionView {
        let scene = Scene::new(profile, Selection::default());
        let found = profile
            .functions
            .iter()
            .position(|function| profile.name(function.name) == name);
        let function = FunctionId(found.expect("a function of the sketch") as u32);
        let build = Build {
            profile,
            leaf_weights: &scene.weights_by_stack(),
            source: &NoSource,
            syntax: crate::code::Syntax::Att,
        };
        build.view(function)
    }

    #[test]
    fn recursion_counts_a_sample_once() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "comm");
        sketch.sample(task, "main;eval;eval;eval", 1, 15);
        sketch.sample(task, "main;eval;leaf", 2, 5);
        let seen = view(&sketch.profile, "eval");
        let share = Share {
            here: 15,
            total: 20,
        };
        assert_eq!((seen.share, seen.all), (share, 20));
    }

    #[test]
    fn a_stack_has_each_place_of_a_function_once() {
        let mut places = Places::new(100_001);
        let of = |places: &Places, stack| -> Vec<u32> {
            places.of(StackId(stack)).map(|place| place.0).collect()
        };
        // A recursion from two places, and a branch off its start.
        for stack in 1..=99_999 {
            let place = LocationId(stack % 2);
            places.note(StackId(stack), StackId(stack - 1), place);
        }
        places.pass(StackId(100_000), StackId(1));
        assert!(of(&places, 0).is_empty());
        assert_eq!(of(&places, 1), [1]);
        assert_eq!(of(&places, 99_999), [0, 1]);
        assert_eq!(of(&places, 100_000), [1]);
        assert_eq!(places.all.len(), 2);
    }

    #[test]
    fn an_inlined_function_is_shown_where_it_is_inlined_most() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "comm");
        sketch.sample(task, "main;cold>tiny", 1, 5);
        sketch.sample(task, "main;hot>tiny", 2, 10);
        let seen = view(&sketch.profile, "tiny");
        let host = seen.host.map(|host| {
            let about = sketch.profile.function(host);
            sketch.profile.name(about.name)
        });
        assert_eq!(host, Some("hot"));
        assert_eq!(
            seen.share,
            Share {
                here: 15,
                total: 15
            }
        );
        assert!(seen.no_code.is_some());
    }
}
