//! What the page shows, in columns: frames, the call tree, rows of samples.

use super::columns::{Column, Columns};
use super::lanes::LanesHeader;
use super::slices::Slices;
use crate::model::{NodeId, Scene, SiteId, Sure, shares_of_groups};
use crate::picture::LONGEST_NAME;
use crate::picture::folded::{dso_of, root_of};
use crate::picture::{Kind, PictureOptions, Roots, Scheme};
use crate::waiting::Lanes;
use crate::{harmless_json, short, trust};
use hashbrown::HashTable;
use prof_profile::{Sample, TaskId};
use prof_statistics::Share;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::Serialize;
use std::hash::BuildHasher;
use std::io;

/// Rows of samples, at most, as long as time can be told less finely.
const MOST_ROWS: usize = 2_000_000;
/// What is no number of anything.
const NONE: u32 = u32::MAX;

/// The data of a page as bytes.
pub(super) fn packed(
    scene: &Scene<'_>,
    options: &PictureOptions,
    title: &str,
) -> io::Result<Vec<u8>> {
    let mut grove = Grove::new(scene, options);
    let lanes = Lanes::of_scene(scene);
    // Only where the samples of the page are waits, too, can they be looked at.
    let lanes = Some(lanes).filter(|lanes| !lanes.list.is_empty() && has_waits(scene));
    let mut rows = SampleRows::new(Slices::of(grove.times(), lanes.as_ref()), MOST_ROWS);
    grove.add_samples(&mut rows);
    let (sure, order) = rayon::join(|| grove.sure(), || grove.order());
    let (rows, slices) = rows.finish(&order.number);
    let mut columns = Columns::default();
    grove.frames.write(&order.frames, &mut columns)?;
    write_intervals(&sure, &order.frames, &mut columns);
    grove.write_nodes(&order, &mut columns);
    write_rows(&rows, &mut columns);
    let lanes = lanes.zip(slices);
    let lanes = lanes.map(|(lanes, slices)| LanesHeader::write(lanes, slices, &mut columns));
    let lanes = lanes.map(|lanes| lanes.numbered(scene.profile(), &grove.thread_numbers));
    let header = Header {
        format: "prof-page-1",
        title,
        event: scene
            .event()
            .map_or(EventHeader::default(), |event| EventHeader {
                name: &event.name,
                unit: if event.weight_is_ns { "ns" } else { "events" },
            }),
        trust: trust::lines(scene.profile()),
        kinds: KINDS.map(|(_, word)| word),
        modules: &grove.frames.modules,
        threads: grove.threads(),
        time: slices,
        lanes,
        show: Show::of(options),
        counts: Counts {
            frames: order.frames.len(),
            nodes: grove.nodes.len() - 1,
            samples: rows.len(),
        },
        columns: columns.list(),
    };
    let mut text = Vec::new();
    harmless_json::write(&header, &mut text)?;
    columns.packed(&text)
}

#[derive(Serialize)]
struct Header<'a> {
    format: &'static str,
    title: &'a str,
    event: EventHeader<'a>,
    trust: Vec<String>,
    kinds: [&'static str; KINDS.len()],
    modules: &'a [String],
    threads: Vec<ThreadHeader<'a>>,
    time: Option<Slices>,
    lanes: Option<LanesHeader>,
    show: Show,
    counts: Counts,
    columns: &'a [Column],
}

#[derive(Default, Serialize)]
struct EventHeader<'a> {
    name: &'a str,
    unit: &'static str,
}

#[derive(Serialize)]
struct ThreadHeader<'a> {
    pid: i32,
    tid: i32,
    name: &'a str,
}

#[derive(Serialize)]
struct Counts {
    frames: usize,
    nodes: usize,
    samples: usize,
}

/// How the page opens.
#[derive(Serialize)]
struct Show {
    order: &'static str,
    colours: &'static str,
    min_share: f64,
}

impl Show {
    fn of(options: &PictureOptions) -> Self {
        Self {
            order: match (options.is_reversed, options.is_inverted) {
                (true, _) => "reversed",
                (false, true) => "icicle",
                (false, false) => "flame",
            },
            colours: match options.scheme {
                Scheme::Kind => "kind",
                Scheme::Dso => "module",
                Scheme::Hot => "hot",
            },
            min_share: options.min_width,
        }
    }
}

/// Kinds by number, and what they are called.
const KINDS: [(Kind, &str); 8] = [
    (Kind::Task, "thread"),
    (Kind::User, "user"),
    (Kind::Inline, "inlined"),
    (Kind::Jit, "run-time code"),
    (Kind::Kernel, "kernel"),
    (Kind::Unnamed, "no name"),
    (Kind::Waiting, "waiting"),
    (Kind::Runnable, "for a CPU"),
];

/// Whether samples of the scene's event are waits.
fn has_waits(scene: &Scene<'_>) -> bool {
    let event = scene.selection().event;
    let mut samples = scene.profile().samples.iter();
    samples.any(|sample| sample.event == event && sample.wait.is_some())
}

/// A frame of the page.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Frame {
    name: String,
    module: u32,
    kind: u32,
}

/// Frames, each once.
#[derive(Debug, Default)]
struct FrameTable {
    list: Vec<Frame>,
    index: FxHashMap<Frame, u32>,
    modules: Vec<String>,
    module_index: FxHashMap<String, u32>,
}

impl FrameTable {
    fn add(&mut self, name: &str, module: &str, kind: Kind) -> u32 {
        let modules = &mut self.modules;
        let known = self.module_index.get(module).copied();
        let module = known.unwrap_or_else(|| {
            let id = modules.len() as u32;
            modules.push(module.to_owned());
            self.module_index.insert(module.to_owned(), id);
            id
        });
        let kind = KINDS.iter().position(|(known, _)| *known == kind);
        let name: String = name.chars().take(LONGEST_NAME).collect();
        let frame = Frame {
            name,
            module,
            kind: kind.unwrap_or(0) as u32,
        };
        if let Some(&known) = self.index.get(&frame) {
            return known;
        }
        let id = self.list.len() as u32;
        self.list.push(frame.clone());
        self.index.insert(frame, id);
        id
    }

    /// Writes the frames in this order.
    fn write(&self, order: &[u32], columns: &mut Columns) -> io::Result<()> {
        let frames = || order.iter().filter_map(|&id| self.list.get(id as usize));
        let names: Vec<&str> = frames().map(|frame| frame.name.as_str()).collect();
        let mut text = Vec::new();
        harmless_json::write(&names, &mut text)?;
        columns.text("names", &text);
        let shorter: Vec<Vec<String>> = names.iter().map(|name| short::forms(name)).collect();
        let mut text = Vec::new();
        harmless_json::write(&shorter, &mut text)?;
        columns.text("shorter", &text);
        columns.numbers("frame_module", frames().map(|frame| frame.module.into()));
        columns.numbers("frame_kind", frames().map(|frame| frame.kind.into()));
        Ok(())
    }
}

/// A node of the tree before it is in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    parent: u32,
    frame: u32,
}

/// The call tree as it grows, and who was sampled.
struct Grove<'a> {
    scene: &'a Scene<'a>,
    options: &'a PictureOptions,
    frames: FrameTable,
    /// By `SiteId`.
    of_site: Vec<u32>,
    nodes: Vec<Node>,
    /// Nodes by parent and frame.
    index: HashTable<u32>,
    /// By path of the scene: the root below which it was met first, and its node.
    first: Vec<(u32, u32)>,
    /// Below further roots, by root and path.
    others: FxHashMap<(u32, u32), u32>,
    /// By task and, where roots are CPUs, CPU: its number and its root.
    tasks: FxHashMap<(TaskId, Option<u32>), (u32, u32)>,
    thread_numbers: FxHashMap<TaskId, u32>,
    threads: Vec<TaskId>,
}

/// The numbers that the page has for what there is.
struct Order {
    /// Frames by name.
    frames: Vec<u32>,
    /// By frame: its place among them.
    rank: Vec<u32>,
    /// Nodes, callers first.
    nodes: Vec<u32>,
    /// By node: its place among them.
    number: Vec<u32>,
}

impl<'a> Grove<'a> {
    fn new(scene: &'a Scene<'a>, options: &'a PictureOptions) -> Self {
        Self {
            scene,
            options,
            frames: FrameTable::default(),
            of_site: vec![NONE; scene.sites().len()],
            nodes: vec![Node {
                parent: NONE,
                frame: NONE,
            }],
            index: HashTable::new(),
            first: vec![(NONE, NONE); scene.paths().parents.len()],
            others: FxHashMap::default(),
            tasks: FxHashMap::default(),
            thread_numbers: FxHashMap::default(),
            threads: Vec::new(),
        }
    }

    /// All samples that are shown, with their paths.
    fn shown(&self) -> impl Iterator<Item = (Sample, NodeId)> + 'a {
        let scene = self.scene;
        let shown = scene.shown_cells();
        let selection = scene.selection();
        scene.profile().samples.iter().filter_map(move |sample| {
            let is_shown = sample.event == selection.event
                && selection.scope.holds_time(sample.time)
                && shown.contains(sample.task, sample.cpu, sample.stack);
            let path = scene.path_of(scene.left_of(sample.stack));
            Some((sample, path.filter(|_| is_shown)?))
        })
    }

    /// When they were taken.
    fn times(&self) -> impl Iterator<Item = u64> + 'a {
        self.shown().map(|(sample, _)| sample.time)
    }

    /// Places them in the tree.
    fn add_samples(&mut self, rows: &mut SampleRows) {
        for (sample, path) in self.shown() {
            let (thread, root) = self.task(sample.task, sample.cpu);
            let root = self.dso_root(path).unwrap_or(root);
            let node = self.place(root, path.0);
            rows.add((node, thread), &sample);
        }
    }

    /// The number of a task, and the node that its stacks begin at.
    fn task(&mut self, id: TaskId, cpu: Option<u32>) -> (u32, u32) {
        let cpu = cpu.filter(|_| self.options.roots == Roots::Cpu);
        if let Some(&known) = self.tasks.get(&(id, cpu)) {
            return known;
        }
        let name = root_of(self.scene.profile(), self.options.roots, (id, cpu));
        let root = name.map_or(0, |name| {
            let frame = self.frames.add(&name, "", Kind::Task);
            self.child(0, frame)
        });
        let threads = &mut self.threads;
        let number = *self.thread_numbers.entry(id).or_insert_with(|| {
            threads.push(id);
            threads.len() as u32 - 1
        });
        self.tasks.insert((id, cpu), (number, root));
        (number, root)
    }

    /// Where roots are dsos, that of a path's innermost frame.
    fn dso_root(&mut self, path: NodeId) -> Option<u32> {
        if self.options.roots != Roots::Dso || path == NodeId::ROOT {
            return None;
        }
        let site = self.scene.paths().sites.get(path.index()).copied()?;
        let frame = self.frames.add(dso_of(self.scene, site), "", Kind::Task);
        Some(self.child(0, frame))
    }

    fn child(&mut self, parent: u32, frame: u32) -> u32 {
        let node = Node { parent, frame };
        let hash = |node: &Node| FxBuildHasher.hash_one(node);
        let nodes = &mut self.nodes;
        let is_same = |&id: &u32| nodes.get(id as usize) == Some(&node);
        if let Some(&known) = self.index.find(hash(&node), is_same) {
            return known;
        }
        let id = nodes.len() as u32;
        nodes.push(node);
        self.index.insert_unique(hash(&node), id, |&id| {
            nodes.get(id as usize).map_or(0, hash)
        });
        id
    }

    /// The node of a path below a root, if it has one.
    fn known(&self, root: u32, path: u32) -> Option<u32> {
        match self.first.get(path as usize) {
            Some(&(first, node)) if first == root => Some(node),
            Some(&(NONE, _)) => None,
            _ => self.others.get(&(root, path)).copied(),
        }
    }

    fn know(&mut self, root: u32, path: u32, node: u32) {
        match self.first.get_mut(path as usize) {
            Some(first @ (NONE, _)) => *first = (root, node),
            _ => {
                self.others.insert((root, path), node);
            }
        }
    }

    /// The node of a path of the scene below a root.
    fn place(&mut self, root: u32, path: u32) -> u32 {
        let (parents, sites) = (&self.scene.paths().parents, &self.scene.paths().sites);
        let mut missing = Vec::new();
        let mut at = path;
        let mut node = loop {
            if at == 0 {
                break root;
            }
            if let Some(known) = self.known(root, at) {
                break known;
            }
            missing.push(at);
            at = parents.get(at as usize).map_or(0, |parent| parent.0);
        };
        for at in missing.into_iter().rev() {
            let site = sites.get(at as usize).copied().unwrap_or(SiteId(0));
            let frame = self.frame(site);
            node = self.child(node, frame);
            self.know(root, at, node);
        }
        node
    }

    fn frame(&mut self, id: SiteId) -> u32 {
        let known = self.of_site.get(id.0 as usize).copied().unwrap_or(NONE);
        if known != NONE {
            return known;
        }
        let profile = self.scene.profile();
        let site = self.scene.sites().get(id);
        let module = profile.name(profile.dso(site.dso).short_name);
        let kind = Kind::of(self.scene, site);
        let frame = self.frames.add(site.name(profile), module, kind);
        if let Some(slot) = self.of_site.get_mut(id.0 as usize) {
            *slot = frame;
        }
        frame
    }

    fn threads(&self) -> Vec<ThreadHeader<'a>> {
        let profile = self.scene.profile();
        let tasks = self.threads.iter().map(|&id| profile.task(id));
        tasks
            .map(|task| ThreadHeader {
                pid: task.pid,
                tid: task.tid,
                name: profile.name(task.comm),
            })
            .collect()
    }

    /// Frames by name, nodes depth-first with siblings by name.
    fn order(&self) -> Order {
        let list = &self.frames.list;
        let mut frames: Vec<u32> = (0..list.len() as u32).collect();
        frames.sort_by(|&a, &b| list.get(a as usize).cmp(&list.get(b as usize)));
        let rank = inverse(&frames);
        let rank_of = |node: &Node| rank.get(node.frame as usize).copied().unwrap_or(0);
        let mut by_parent: Vec<(u32, u32, u32)> = (0..)
            .zip(&self.nodes)
            .skip(1)
            .map(|(id, node)| (node.parent, rank_of(node), id))
            .collect();
        by_parent.sort_unstable();
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let mut open = vec![0];
        while let Some(node) = open.pop() {
            nodes.push(node);
            let start = by_parent.partition_point(|&(parent, ..)| parent < node);
            let family = by_parent.get(start..).unwrap_or_default();
            let family = family.iter().take_while(|&&(parent, ..)| parent == node);
            let first = open.len();
            open.extend(family.map(|&(.., id)| id));
            if let Some(family) = open.get_mut(first..) {
                family.reverse();
            }
        }
        let number = inverse(&nodes);
        Order {
            frames,
            rank,
            nodes,
            number,
        }
    }

    /// How sure the shares of frames are.
    fn sure(&self) -> Vec<Sure> {
        shares_of_groups(self.scene, &self.of_site, self.frames.list.len())
    }

    fn write_nodes(&self, order: &Order, columns: &mut Columns) {
        let node = |id: u32| self.nodes.get(id as usize).copied();
        // A parent has a smaller id.
        let mut depths = vec![0_u32; self.nodes.len()];
        for id in 1..self.nodes.len() {
            let above = node(id as u32).and_then(|node| depths.get(node.parent as usize).copied());
            if let Some(slot) = depths.get_mut(id) {
                *slot = above.unwrap_or(0) + 1;
            }
        }
        let depth = |id: u32| depths.get(id as usize).copied().unwrap_or(0);
        let pairs = order.nodes.iter().zip(order.nodes.iter().skip(1));
        let up = pairs.map(|(&before, &id)| u64::from(depth(before) + 1 - depth(id)));
        columns.numbers("node_up", up);
        let frames = order.nodes.iter().skip(1).filter_map(|&id| node(id));
        let rank = |frame: u32| order.rank.get(frame as usize).copied().unwrap_or(0);
        columns.numbers("node_frame", frames.map(|node| rank(node.frame).into()));
    }
}

/// Writes how sure the shares of frames in this order are.
fn write_intervals(sure: &[Sure], order: &[u32], columns: &mut Columns) {
    let shares: [fn(&Sure) -> Share; 2] = [|sure| sure.own, |sure| sure.total];
    let names = [
        ["frame_own_low", "frame_own_range"],
        ["frame_total_low", "frame_total_range"],
    ];
    for (names, share) in names.into_iter().zip(shares) {
        let ends = order
            .iter()
            .filter_map(|&id| sure.get(id as usize))
            .map(|sure| {
                let interval = share(sure).interval(0.95).scaled(1000.0);
                (interval.low.round() as u64, interval.high.round() as u64)
            });
        let ends: Vec<(u64, u64)> = ends.collect();
        let [low, range] = names;
        columns.numbers(low, ends.iter().map(|(low, _)| *low));
        let ranges = ends.iter().map(|(low, high)| high.saturating_sub(*low));
        columns.numbers(range, ranges);
    }
}

/// By number: its place in `order`.
fn inverse(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, &number) in (0..).zip(order) {
        if let Some(slot) = places.get_mut(number as usize) {
            *slot = place;
        }
    }
    places
}

/// Samples of one node, thread and time slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellSamples {
    node: u32,
    thread: u32,
    slice: u32,
    count: u32,
    period: u64,
}

/// The rows of samples, and the time slices, which get longer until there are
/// few enough rows.
struct SampleRows {
    rows: Vec<CellSamples>,
    /// How many there may be in the end.
    most: usize,
    /// When there are so many, equal ones are put together.
    room: usize,
    slices: Option<Slices>,
}

impl SampleRows {
    fn new(slices: Option<Slices>, most: usize) -> Self {
        Self {
            rows: Vec::new(),
            most,
            room: 2 * most,
            slices,
        }
    }

    /// Adds a sample of a node and a thread.
    fn add(&mut self, (node, thread): (u32, u32), sample: &Sample) {
        if self.rows.len() >= self.room {
            self.shorten();
            self.room = 2 * self.rows.len().max(self.most);
        }
        let slice = self.slices.map_or(0, |slices| slices.at(sample.time));
        self.rows.push(CellSamples {
            node,
            thread,
            slice: u32::try_from(slice).unwrap_or(u32::MAX),
            count: 1,
            period: sample.period,
        });
    }

    /// Puts equal rows together, and makes slices longer where that is not enough.
    fn shorten(&mut self) {
        let place = |row: &CellSamples| (row.node, row.thread, row.slice);
        self.rows.sort_unstable_by_key(place);
        loop {
            self.rows.dedup_by(|row, kept| {
                let is_same = place(row) == place(kept);
                if is_same {
                    kept.count += row.count;
                    kept.period = kept.period.saturating_add(row.period);
                }
                is_same
            });
            let fine = self.slices.filter(|slices| slices.slices > 1);
            let Some(fine) = fine.filter(|_| self.rows.len() > self.most) else {
                return;
            };
            self.slices = Some(fine.halved());
            for row in &mut self.rows {
                row.slice /= 2;
            }
        }
    }

    /// The rows by the numbers of nodes.
    fn finish(mut self, number: &[u32]) -> (Vec<CellSamples>, Option<Slices>) {
        for row in &mut self.rows {
            row.node = number.get(row.node as usize).copied().unwrap_or(0);
        }
        self.shorten();
        (self.rows, self.slices)
    }
}

fn write_rows(rows: &[CellSamples], columns: &mut Columns) {
    let before = std::iter::once(0).chain(rows.iter().map(|row| row.node));
    let steps = rows.iter().zip(before);
    columns.numbers(
        "sample_node",
        steps.map(|(row, before)| u64::from(row.node - before)),
    );
    columns.numbers("sample_thread", rows.iter().map(|row| row.thread.into()));
    columns.numbers("sample_slice", rows.iter().map(|row| row.slice.into()));
    columns.numbers("sample_count", rows.iter().map(|row| row.count.into()));
    columns.numbers("sample_period", rows.iter().map(|row| row.period));
}

#[cfg(test)]
mod tests {
    use super::{SampleRows, Slices};
    use prof_profile::{EventId, Sample, StackId, TaskId};

    #[test]
    fn rows_put_together_on_the_way_are_those_put_together_at_the_end() {
        let made = |room: usize| {
            let slices = Slices::new(0, 9_999, 1000);
            let mut rows = SampleRows::new(Some(slices), 40);
            rows.room = room;
            for at in 0..10_000_u64 {
                let sample = Sample {
                    time: at * 7919 % 10_000,
                    period: at,
                    task: TaskId(0),
                    stack: StackId::EMPTY,
                    cpu: None,
                    event: EventId(0),
                    wait: None,
                };
                rows.add((at as u32 % 3, at as u32 % 2), &sample);
            }
            let (rows, slices) = rows.finish(&[2, 0, 1]);
            (rows, slices.map(|slices| (slices.slice, slices.slices)))
        };
        let (early, late) = (made(80), made(usize::MAX));
        assert_eq!(early, late);
        assert!(early.0.len() <= 40);
        assert_eq!(early.0.iter().map(|row| row.count).sum::<u32>(), 10_000);
    }
}
