//! Folded stacks: `comm;outer;inner 42`.

use super::format::Spec;
use super::palette::Kind;
use super::{LONGEST_NAME, PictureError, PictureFormat, PictureOptions};
use crate::escape;
use crate::keys::{COMM, CPU, SortKey, TGID, TID};
use crate::model::{Apart, CallTree, GrowId, Growth, NodeId, Parts, Scene, SiteId, Weight};
use prof_profile::{NameId, Profile, Task, TaskId};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::str::FromStr;
use thiserror::Error;

/// How many frames a node and what it calls are.
fn frames_below(tree: &CallTree, node: NodeId) -> u64 {
    let mut frames = 0;
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        frames += 1;
        open.extend(tree.children(node));
    }
    frames
}

/// What the outermost frames of a picture are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Roots {
    /// Functions.
    None,
    /// Thread names.
    #[default]
    Comm,
    /// Processes: name and pid.
    Process,
    /// Threads: name and tid.
    Thread,
    /// CPUs that samples were taken on.
    Cpu,
    /// Dsos that samples were taken in.
    Dso,
}

/// A word that names no roots.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("graphs are by comm, process, thread, cpu, dso or none, not by {given}")]
pub struct RootsError {
    /// What was given.
    pub given: String,
}

impl FromStr for Roots {
    type Err = RootsError;

    fn from_str(text: &str) -> Result<Self, RootsError> {
        match text {
            "none" => Ok(Self::None),
            "comm" => Ok(Self::Comm),
            "process" => Ok(Self::Process),
            "thread" => Ok(Self::Thread),
            "cpu" => Ok(Self::Cpu),
            // `module` is what it was called first.
            "dso" | "module" => Ok(Self::Dso),
            _ => Err(RootsError { given: text.into() }),
        }
    }
}

/// A frame as it is drawn.
pub(crate) struct Drawn {
    /// Escaped, with its mark.
    pub(crate) text: String,
    pub(crate) kind: Kind,
    pub(crate) dso: String,
}

/// Frames of a scene as they are drawn, each made once.
pub(crate) struct Frames<'a> {
    scene: &'a Scene<'a>,
    by_site: Vec<Option<Box<str>>>,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(scene: &'a Scene<'a>) -> Self {
        Self {
            scene,
            by_site: vec![None; scene.sites().len()],
        }
    }

    pub(crate) fn text(&mut self, id: SiteId) -> &str {
        let scene = self.scene;
        match self.by_site.get_mut(id.0 as usize) {
            Some(slot) => slot.get_or_insert_with(|| text_of(scene, id).into_boxed_str()),
            None => "",
        }
    }

    pub(crate) fn drawn(&self, id: SiteId) -> Drawn {
        let site = self.scene.sites().get(id);
        let profile = self.scene.profile();
        Drawn {
            text: text_of(self.scene, id),
            kind: Kind::of(self.scene, site),
            dso: profile.name(profile.dso(site.dso).short_name).to_owned(),
        }
    }
}

fn text_of(scene: &Scene<'_>, id: SiteId) -> String {
    let site = scene.sites().get(id);
    let name = site.name(scene.profile());
    let name = match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => name.get(..end).unwrap_or_default(),
        None => name,
    };
    let mark = Kind::of(scene, site).mark();
    format!("{}{mark}", escape::folded(name))
}

/// Stacks in the order of a tree: equal beginnings are neighbours.
pub(crate) struct FoldedLine<'a> {
    /// Frames from the outermost inwards, separated by `;`.
    pub(crate) stack: &'a str,
    /// Weight of the samples with exactly these frames.
    pub(crate) weight: Weight,
}

/// What is to be folded.
pub(crate) struct Folder<'a> {
    scene: &'a Scene<'a>,
    frames: Frames<'a>,
    keys: Vec<u32>,
    /// Weight below which frames are left out; their weight stays with the
    /// caller.
    least: u64,
    is_reversed: bool,
    roots: Roots,
    /// By `SiteId`: whether it was written.
    pub(crate) used: Vec<bool>,
    /// Frames that were left out; of stacks turned around, the first of each
    /// branch.
    pub(crate) hidden: u64,
    /// The outermost frames, as written.
    pub(crate) root_names: Vec<String>,
}

impl<'a> Folder<'a> {
    pub(crate) fn new(scene: &'a Scene<'a>, options: &PictureOptions, least: u64) -> Self {
        Self {
            scene,
            frames: Frames::new(scene),
            keys: scene.function_keys(),
            least,
            is_reversed: options.is_reversed,
            roots: options.roots,
            used: vec![false; scene.sites().len()],
            hidden: 0,
            root_names: Vec::new(),
        }
    }

    /// Calls `emit` for each line of all groups.
    pub(crate) fn run(
        &mut self,
        emit: &mut dyn FnMut(FoldedLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.roots == Roots::Dso {
            return self.run_dsos(emit);
        }
        let key = match self.roots {
            Roots::None | Roots::Dso => None,
            Roots::Comm => Some(COMM),
            Roots::Process => Some(TGID),
            Roots::Thread => Some(TID),
            Roots::Cpu => Some(CPU),
        };
        let aparts: Vec<Apart> = key.into_iter().map(SortKey::apart).collect();
        let parts = Parts::new(self.scene, &aparts, 1);
        let mut named: Vec<(String, &CallTree)> = parts
            .iter()
            .map(|(id, part)| (self.root_name(parts.first(id)), &part.tree))
            .collect();
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (root, tree) in named {
            self.walk_either(root, tree, emit)?;
        }
        Ok(())
    }

    fn walk_either(
        &mut self,
        root: String,
        tree: &CallTree,
        emit: &mut dyn FnMut(FoldedLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.root_names.push(root.clone());
        if self.is_reversed {
            self.walk_callers(root, tree, emit)
        } else {
            self.walk(root, tree, emit)
        }
    }

    /// The same by the dso of the innermost frame: one tree after the
    /// other, as each is as large as all.
    fn run_dsos(
        &mut self,
        emit: &mut dyn FnMut(FoldedLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let scene = self.scene;
        let tree = scene.shared_tree();
        let dso = |site: SiteId| dso_of(scene, site);
        let mut names = BTreeSet::new();
        tree.walk(|node| {
            if let Some(site) = tree.site(node).filter(|_| !tree.own(node).is_zero()) {
                names.insert(dso(site));
            }
        });
        for name in names {
            let part = tree.only(|site| dso(site) == name);
            self.walk_either(escape::folded(name).into_owned(), &part, emit)?;
        }
        // Samples without a frame are in no dso.
        let weight = tree.own(NodeId::ROOT);
        if !weight.is_zero() {
            let stack = "[unknown]";
            self.root_names.push(stack.into());
            emit(FoldedLine { stack, weight })?;
        }
        Ok(())
    }

    /// The root of the samples that are grouped with this one.
    fn root_name(&self, sample: u32) -> String {
        let profile = self.scene.profile();
        let sample = profile.samples.get(sample as usize);
        let name = sample.and_then(|it| root_of(profile, self.roots, (it.task, it.cpu)));
        name.map_or_else(String::new, |name| escape::folded(&name).into_owned())
    }

    fn push(&mut self, stack: &mut String, site: SiteId) {
        if !stack.is_empty() {
            stack.push(';');
        }
        stack.push_str(self.frames.text(site));
        if let Some(used) = self.used.get_mut(site.0 as usize) {
            *used = true;
        }
    }

    /// Top-down.
    fn walk(
        &mut self,
        root: String,
        tree: &CallTree,
        emit: &mut dyn FnMut(FoldedLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut stack = root;
        let mut open = vec![(NodeId::ROOT, stack.len())];
        while let Some((node, outer)) = open.pop() {
            stack.truncate(outer);
            if let Some(site) = tree.site(node) {
                self.push(&mut stack, site);
            }
            let (heavy, light) = self.split(tree, node);
            let weight = tree.own(node) + light;
            if !weight.is_zero() && !stack.is_empty() {
                emit(FoldedLine {
                    stack: &stack,
                    weight,
                })?;
            }
            let inner = stack.len();
            open.extend(heavy.into_iter().rev().map(|node| (node, inner)));
        }
        Ok(())
    }

    /// The children to draw by name, so that pictures of similar recordings
    /// look similar; and the weight of those too light to draw.
    fn split(&mut self, tree: &CallTree, node: NodeId) -> (Vec<NodeId>, Weight) {
        let mut light = Weight::ZERO;
        let mut heavy = Vec::new();
        for &child in tree.children(node) {
            if tree.total(child).period < self.least {
                light += tree.total(child);
                self.hidden += frames_below(tree, child);
            } else {
                heavy.push(child);
            }
        }
        let mut named: Vec<(String, NodeId)> = heavy
            .into_iter()
            .map(|node| {
                let site = tree.site(node);
                (
                    site.map_or("", |site| self.frames.text(site)).to_owned(),
                    node,
                )
            })
            .collect();
        named.sort();
        (named.into_iter().map(|(_, node)| node).collect(), light)
    }

    /// Bottom-up.
    fn walk_callers(
        &mut self,
        root: String,
        tree: &CallTree,
        emit: &mut dyn FnMut(FoldedLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let keys = std::mem::take(&mut self.keys);
        let mut growth = Growth::bottom_up(tree, keys.as_slice());
        let mut stack = root;
        let outer = stack.len();
        let mut open: Vec<(GrowId, usize)> =
            growth.roots().iter().rev().map(|&id| (id, outer)).collect();
        while let Some((id, outer)) = open.pop() {
            stack.truncate(outer);
            let site = growth.example(id).and_then(|node| tree.site(node));
            if let Some(site) = site {
                self.push(&mut stack, site);
            }
            let mut weight = growth.own(id);
            let inner = stack.len();
            let mut heavy = Vec::new();
            for child in growth.children(id) {
                if growth.total(child).period < self.least {
                    weight += growth.total(child);
                    self.hidden += 1;
                } else {
                    heavy.push((child, inner));
                }
            }
            open.extend(heavy.into_iter().rev());
            if !weight.is_zero() {
                emit(FoldedLine {
                    stack: &stack,
                    weight,
                })?;
            }
        }
        self.keys = keys;
        Ok(())
    }
}

/// What the outermost frame of the samples of a task on a CPU is called, if
/// there is one around the functions.
pub(super) fn root_of(
    profile: &Profile,
    roots: Roots,
    (task, cpu): (TaskId, Option<u32>),
) -> Option<String> {
    let Task { pid, tid, comm } = *profile.task(task);
    let named = |name: Option<NameId>, number: i32| {
        let name = name.map_or("", |name| profile.name(name));
        format!("{name}-{number}")
    };
    match roots {
        Roots::Cpu => Some(match cpu {
            Some(cpu) => format!("cpu-{cpu}"),
            None => "cpu-unknown".to_owned(),
        }),
        Roots::Comm => Some(profile.name(comm).to_owned()),
        Roots::Process => {
            let of_process = || profile.tasks.iter().rev().find(|task| task.pid == pid);
            let of_process = || of_process().map(|task| task.comm);
            Some(named(profile.last_name(pid).or_else(of_process), pid))
        }
        Roots::Thread => Some(named(profile.last_name(tid), tid)),
        Roots::None | Roots::Dso => None,
    }
}

/// The dso of a frame.
pub(super) fn dso_of<'p>(scene: &Scene<'p>, site: SiteId) -> &'p str {
    let profile = scene.profile();
    profile.name(profile.dso(scene.sites().get(site).dso).short_name)
}

/// What is to be drawn, if there is anything.
pub(super) fn scene_of<'p>(
    profile: &'p Profile,
    options: &PictureOptions,
) -> Result<Scene<'p>, PictureError> {
    let scene = Scene::new(profile, options.selection.clone());
    if !scene.total().is_zero() {
        return Ok(scene);
    }
    let event = scene.event();
    let name = event.map_or_else(|| "any event".to_owned(), |event| event.name.clone());
    let name = escape::terminal(&name).into_owned();
    let samples = profile
        .samples
        .iter()
        .filter(|sample| sample.event == scene.selection().event)
        .count() as u64;
    if samples == 0 {
        return Err(PictureError::NoSamples { event: name });
    }
    Err(PictureError::AllHidden {
        event: name,
        samples,
    })
}

/// A line for each stack.
pub const FOLDED: PictureFormat = PictureFormat::of(&Spec {
    ends: &["folded", "txt"],
    told: ".folded (or .txt)",
    about: "A line for each stack",
    is_text: true,
    draw: |profile, options, out| folded(profile, options, out),
    draw_diff: None,
});

/// Writes folded stacks, every sample in one of them: frames separated by
/// `;`, a space, the sum of periods. `parse_frame` of the tests reads a frame
/// back.
///
/// # Errors
/// If there is nothing to write, or `out` cannot be written to.
pub fn folded(
    profile: &Profile,
    options: &PictureOptions,
    out: &mut impl io::Write,
) -> Result<(), PictureError> {
    let scene = scene_of(profile, options)?;
    let mut line = String::new();
    Folder::new(&scene, options, 0).run(&mut |FoldedLine { stack, weight }| {
        line.clear();
        let _ = writeln!(line, "{stack} {}", weight.period);
        out.write_all(line.as_bytes())
    })?;
    Ok(())
}

/// A frame of a folded stack as recorded: its name, and what it is as far as
/// the mark tells.
#[cfg(test)]
pub(super) fn parse_frame(frame: &str) -> (String, Kind) {
    let marked = [Kind::Inline, Kind::Jit, Kind::Kernel]
        .into_iter()
        .find_map(|kind| Some((frame.strip_suffix(kind.mark())?, kind)));
    let (name, kind) = marked.unwrap_or((frame, Kind::User));
    (escape::unfold(name), kind)
}
