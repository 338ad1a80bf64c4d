//! Callgrind's format: costs of functions by line, and of calls.
//!
//! Source: "Callgrind Format Specification" of Valgrind's manual.

use crate::ExportError;
use crate::choice::{Cell, Chosen};
use crate::used;
use prof_profile::{Frame, FunctionId, NameId, Profile, StackId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::{self, Write};

/// Writes the chosen samples; each event is two columns, its weight and how
/// many samples.
///
/// # Errors
/// If `out` cannot be written to.
pub(crate) fn write(chosen: &Chosen<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let mut graph = Graph::new(2 * chosen.events.len());
    graph.same = used::by_name(chosen.profile);
    let taken: Result<(), ExportError> = chosen.by_stack(|stack, cells| {
        graph.take(chosen.profile, stack, cells);
        Ok(())
    });
    taken?;
    Writer {
        chosen,
        graph: &graph,
        files: Numbered::default(),
        functions: Numbered::default(),
        objects: Numbered::default(),
    }
    .write(out)?;
    Ok(Vec::new())
}

/// A place in a function: the function, and a line of its file.
type SourceLine = (FunctionId, u32);

/// What functions cost and what they call.
struct Graph {
    columns: usize,
    /// Indices into `costs`.
    own: FxHashMap<SourceLine, usize>,
    calls: FxHashMap<(SourceLine, FunctionId), usize>,
    /// `columns` for each.
    costs: Vec<u64>,
    /// The file of each function, as far as known: readers take a function
    /// with lines of two files for two.
    homes: FxHashMap<FunctionId, Option<NameId>>,
    /// By `FunctionId`; see [`used::by_name`].
    same: Vec<FunctionId>,
    path: Vec<SourceLine>,
    cost: Vec<u64>,
    /// Functions of the path.
    seen: FxHashSet<FunctionId>,
}

impl Graph {
    fn new(columns: usize) -> Self {
        Self {
            columns,
            own: FxHashMap::default(),
            calls: FxHashMap::default(),
            costs: Vec::new(),
            homes: FxHashMap::default(),
            same: Vec::new(),
            path: Vec::new(),
            cost: Vec::new(),
            seen: FxHashSet::default(),
        }
    }

    /// Adds the samples of a stack.
    fn take(&mut self, profile: &Profile, stack: StackId, cells: &[Cell]) {
        self.cost.clear();
        self.cost.resize(self.columns, 0);
        for cell in cells {
            if let Some([period, samples]) = self.cost.get_mut(2 * cell.slot..2 * cell.slot + 2) {
                *period = period.saturating_add(cell.period);
                *samples += cell.samples;
            }
        }
        self.path.clear();
        for id in profile.stacks.locations(stack) {
            for frame in profile.frames_at(id) {
                let same = self.same.get(frame.function.0 as usize).copied();
                let function = same.unwrap_or(frame.function);
                let place = (function, self.line(function, frame));
                self.path.push(place);
            }
        }
        self.path.reverse();
        if self.path.is_empty() {
            self.path.push((NO_STACK, 0));
        }
        let leaf = self.path.last().copied().unwrap_or((NO_STACK, 0));
        self.add_own(leaf);
        self.calls_of_path();
    }

    /// Readers take for the inclusive cost of a function that of all calls to
    /// it. So of a function that is on the path several times only the
    /// outermost call has a cost; calls further in cost nothing, but are told.
    /// And all paths begin at one root: a function that some stacks are cut
    /// at would else miss them.
    fn calls_of_path(&mut self) {
        self.seen.clear();
        let path = std::mem::take(&mut self.path);
        let mut caller = (ROOT, 0);
        for &place in &path {
            let call = (caller, place.0);
            let slot = slot(&mut self.costs, &mut self.calls, call, self.columns);
            if self.seen.insert(place.0) {
                add(&mut self.costs, slot, &self.cost);
            }
            caller = place;
        }
        self.path = path;
    }

    /// The line of a frame in its function's file; 0 if it is of another one.
    fn line(&mut self, function: FunctionId, frame: &Frame) -> u32 {
        let home = self.homes.entry(function).or_insert(frame.file);
        if home.is_none() {
            *home = frame.file;
        }
        if *home == frame.file { frame.line } else { 0 }
    }

    fn add_own(&mut self, place: SourceLine) {
        let slot = slot(&mut self.costs, &mut self.own, place, self.columns);
        add(&mut self.costs, slot, &self.cost);
    }

    fn cost(&self, slot: usize) -> &[u64] {
        self.costs
            .get(slot..slot + self.columns)
            .unwrap_or_default()
    }
}

/// Stands for samples without a stack.
const NO_STACK: FunctionId = FunctionId(u32::MAX);
/// Calls what stacks begin with.
const ROOT: FunctionId = FunctionId(u32::MAX - 1);

/// What a function that is not of the profile is called.
fn made_up(function: FunctionId) -> &'static str {
    match function {
        ROOT => "[root]",
        _ => "[no stack]",
    }
}

fn slot<K: std::hash::Hash + Eq>(
    costs: &mut Vec<u64>,
    slots: &mut FxHashMap<K, usize>,
    key: K,
    columns: usize,
) -> usize {
    *slots.entry(key).or_insert_with(|| {
        costs.resize(costs.len() + columns, 0);
        costs.len() - columns
    })
}

fn add(costs: &mut [u64], slot: usize, cost: &[u64]) {
    let sums = costs.get_mut(slot..slot + cost.len()).unwrap_or_default();
    for (sum, &one) in sums.iter_mut().zip(cost) {
        *sum = sum.saturating_add(one);
    }
}

/// Names that are written in full once, and by number from then on.
#[derive(Default)]
struct Numbered {
    numbers: FxHashMap<u64, usize>,
}

impl Numbered {
    fn of(&mut self, key: u64, name: impl FnOnce() -> String) -> String {
        let next = self.numbers.len() + 1;
        let mut is_new = false;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            is_new = true;
            next
        });
        if is_new {
            format!("({number}) {}", name())
        } else {
            format!("({number})")
        }
    }
}

struct Writer<'a, 'p> {
    chosen: &'a Chosen<'p>,
    graph: &'a Graph,
    files: Numbered,
    functions: Numbered,
    objects: Numbered,
}

impl Writer<'_, '_> {
    fn write(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.head(out)?;
        let graph = self.graph;
        let mut calls: Vec<(&(SourceLine, FunctionId), usize)> = graph
            .calls
            .iter()
            .map(|(call, &slot)| (call, slot))
            .collect();
        calls.sort_unstable_by_key(|((caller, callee), _)| (*caller, *callee));
        let mut own: Vec<(SourceLine, usize)> =
            graph.own.iter().map(|(at, &slot)| (*at, slot)).collect();
        own.sort_unstable();
        let mut functions: Vec<FunctionId> = own.iter().map(|(at, _)| at.0).collect();
        functions.extend(calls.iter().map(|(((caller, _), _), _)| *caller));
        functions.sort_unstable();
        functions.dedup();
        let (mut own, mut calls) = (own.into_iter().peekable(), calls.into_iter().peekable());
        for id in functions {
            let (object, file) = (self.object(id), self.file(id));
            let function = self.function(id);
            writeln!(out, "\nob={object}\nfl={file}\nfn={function}")?;
            while let Some(((_, line), slot)) = own.next_if(|((function, _), _)| *function == id) {
                costs(line, graph.cost(slot), out)?;
            }
            while let Some((((_, line), callee), slot)) =
                calls.next_if(|(((function, _), _), _)| *function == id)
            {
                self.call(*callee, out)?;
                costs(*line, graph.cost(slot), out)?;
            }
        }
        Ok(())
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.chosen.profile;
        writeln!(
            out,
            "# callgrind format\nversion: 1\ncreator: prof\npositions: line"
        )?;
        let command = plain(&profile.origin.command_line.join(" "));
        if !command.is_empty() {
            writeln!(out, "cmd: {command}")?;
        }
        let events = self.chosen.events.iter();
        let events = events.filter_map(|id| profile.events.get(usize::from(id.0)));
        let mut columns = Vec::new();
        for event in events {
            let column = event
                .name
                .replace(|it: char| !it.is_ascii_alphanumeric(), "_");
            let samples = match self.chosen.events.len() {
                1 => "Samples".to_owned(),
                _ => format!("Samples_{column}"),
            };
            writeln!(out, "event: {column} : {}", plain(&event.name))?;
            writeln!(out, "event: {samples} : Samples of {}", plain(&event.name))?;
            columns.extend([column, samples]);
        }
        writeln!(out, "events: {}", columns.join(" "))
    }

    fn call(&mut self, callee: FunctionId, out: &mut dyn Write) -> io::Result<()> {
        let (object, file) = (self.object(callee), self.file(callee));
        let function = self.function(callee);
        let target = self.chosen.profile.functions.get(callee.0 as usize);
        let target = target
            .and_then(|it| it.defined_at)
            .map_or(0, |(_, line)| line);
        writeln!(
            out,
            "cob={object}\ncfl={file}\ncfn={function}\ncalls=1 {target}"
        )
    }

    /// The file of a function; without one its dso, so that readers keep
    /// functions of one name in two dsos apart.
    fn file(&mut self, function: FunctionId) -> String {
        let profile = self.chosen.profile;
        if let Some(file) = self.graph.homes.get(&function).copied().flatten() {
            return self.files.of(file.0.into(), || plain(profile.name(file)));
        }
        let dso = profile.functions.get(function.0 as usize).map(|it| it.dso);
        let key = (1 << 32) | dso.map_or(u64::from(u32::MAX), |dso| dso.0.into());
        self.files.of(key, || match dso {
            Some(dso) => {
                let name = profile.name(profile.dso(dso).short_name);
                plain(&format!("[{}]", name.trim_matches(['[', ']'])))
            }
            None => "???".into(),
        })
    }

    fn object(&mut self, function: FunctionId) -> String {
        let profile = self.chosen.profile;
        let dso = profile.functions.get(function.0 as usize).map(|it| it.dso);
        let key = dso.map_or(u64::MAX, |dso| dso.0.into());
        let path = || dso.map_or("[none]", |dso| profile.name(profile.dso(dso).path));
        self.objects.of(key, || plain(path()))
    }

    fn function(&mut self, function: FunctionId) -> String {
        let profile = self.chosen.profile;
        let known = profile.functions.get(function.0 as usize);
        let name = known.map_or(made_up(function), |it| profile.name(it.name));
        self.functions.of(function.0.into(), || plain(name))
    }
}

/// A line of costs; trailing columns of 0 may be left out.
fn costs(line: u32, costs: &[u64], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{line}")?;
    for cost in costs {
        write!(out, " {cost}")?;
    }
    writeln!(out)
}

/// A name for one line: control characters are made visible.
fn plain(name: &str) -> String {
    prof_report::escape::terminal(name).into_owned()
}
