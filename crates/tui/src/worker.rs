//! The thread that computes, so that no key waits.
//!
//! It holds the scene of the selection in force. A new selection makes
//! everything asked about the one before void, but for files to be written:
//! generation numbers tell them apart, and the session drops answers of an old
//! generation.

use super::data::{Answer, Around, Ask, Certainties, Found, Hot, Order, Seen};
use super::writing;
use prof_profile::{FunctionId, Profile};
use prof_report::code::{Build, CodeSource};
use prof_report::keys::{DSO, SYMBOL};
use prof_report::model::{
    CallTree, Certainty, Changes, Growth, Heat, Judging, NodeId, Row, Rows, RowsOptions,
    RunsOfSides, Scene, Selection, Weight,
};
use prof_report::short::is_in_any_form;
use prof_report::waiting::{self, LaneMap, Lanes};
use prof_statistics::Pairing;
use regex::Regex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// An answer and the generation it belongs to.
pub(super) type Reply = (u64, Answer);

/// Runs until the session hangs up; `reply` says whether it still listens.
pub(super) fn run(
    orders: &Receiver<Order>,
    reply: &dyn Fn(Reply) -> bool,
    source: &dyn CodeSource,
) {
    let mut queue = Queue {
        orders,
        waiting: VecDeque::new(),
    };
    let mut next = queue.next();
    while let Some(order) = next.take() {
        let Order::Select {
            generation,
            profile,
            selection,
        } = order
        else {
            next = queue.next();
            continue;
        };
        let server = Server {
            profile: &profile,
            source,
            send: |answer| reply((generation, answer)),
        };
        next = server.serve(*selection, &mut queue);
    }
}

/// Orders that wait. A newer selection makes all questions before it void.
struct Queue<'a> {
    orders: &'a Receiver<Order>,
    waiting: VecDeque<Order>,
}

impl Queue<'_> {
    /// The next order that still matters; `None` when the session hung up.
    fn next(&mut self) -> Option<Order> {
        if self.waiting.is_empty() {
            self.waiting.push_back(self.orders.recv().ok()?);
        }
        self.waiting.extend(self.orders.try_iter());
        let newest = self
            .waiting
            .iter()
            .rposition(|order| matches!(order, Order::Select { .. }));
        if let Some(newest) = newest {
            // What was to be written is written of the selection it was
            // asked of.
            let mut at = 0;
            self.waiting.retain(|order| {
                at += 1;
                at > newest || matches!(order, Order::Ask(Ask::Write(_)))
            });
        }
        self.waiting.pop_front()
    }
}

/// Answers questions about a profile, and whom to.
struct Server<'a, S> {
    profile: &'a Arc<Profile>,
    source: &'a dyn CodeSource,
    /// Whether the session still listens.
    send: S,
}

impl<S: Fn(Answer) -> bool> Server<'_, S> {
    /// Answers for one selection; returns the order that ends it.
    fn serve(&self, selection: Selection, queue: &mut Queue<'_>) -> Option<Order> {
        let profile = self.profile;
        let scene = Scene::new(profile, selection);
        let seen = see(profile, &scene);
        let bottom_up = Growth::bottom_up(Arc::clone(&seen.tree), Arc::clone(&seen.keys));
        if !(self.send)(Answer::Seen(Box::new(seen.clone()), bottom_up)) {
            return None;
        }
        loop {
            let ask = match queue.next()? {
                Order::Ask(ask) => ask,
                select => return Some(select),
            };
            let answer = match ask {
                Ask::Around(key) => Answer::Around(Box::new(around(&seen, key))),
                Ask::Heat(rows, slices) => {
                    Answer::Heat(rows, slices, Heat::new(&scene, rows, slices))
                }
                Ask::Lanes(slices) => Answer::Lanes(
                    slices,
                    Box::new(LaneMap::new(Lanes::of_scene(&scene), slices)),
                ),
                Ask::Search(pattern) => Answer::Found(search(&seen, pattern)),
                Ask::Code(function) => Answer::Code(Box::new(code(&scene, function, self.source))),
                Ask::Sure(relative) => Answer::Sure(Arc::new(certainties(&scene, relative))),
                Ask::Changes(sides) => Answer::Changes(Arc::new(changes(&scene, sides))),
                Ask::Locks => Answer::Locks(locks(&scene)),
                Ask::Write(write) => Answer::Wrote(writing::perform(&scene, write)),
            };
            if !(self.send)(answer) {
                return None;
            }
        }
    }
}

fn see(profile: &Arc<Profile>, scene: &Scene<'_>) -> Seen {
    let options = RowsOptions::by(vec![DSO.apart(), SYMBOL.apart()]);
    let hot = |row: &Row| {
        Some(Hot {
            site: row.site?,
            own: row.own,
            total: row.total,
        })
    };
    // The rows' own trees are gone before the whole tree is made.
    let hot = Rows::new(scene, &options)
        .list()
        .iter()
        .filter_map(hot)
        .collect();
    Seen {
        profile: Arc::clone(profile),
        tree: scene.shared_tree(),
        sites: scene.shared_sites(),
        keys: scene.function_keys().into(),
        hot,
        shown: scene.total(),
        scope: scene.scope_total(),
    }
}

/// Columns of lines about locks, which are written before a width is known.
const COLUMNS: usize = 80;

/// The locks that threads waited for, as `report --locks` has them.
fn locks(scene: &Scene<'_>) -> Vec<String> {
    let mut text = Vec::new();
    let profile = scene.profile();
    let locks = waiting::locks(profile, &waiting::Kept::of(profile, scene.selection()));
    // Nothing written to memory fails.
    let _ = waiting::text::write_locks(profile, &locks, COLUMNS, &mut text);
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(|line| line.trim_start_matches("# "));
    lines
        .map(|line| line.trim_start_matches('#').to_owned())
        .collect()
}

/// How sure the shares of functions are, of what is shown or of all.
fn certainties(scene: &Scene<'_>, relative: bool) -> Certainties {
    let options = RowsOptions::by(vec![DSO.apart(), SYMBOL.apart()]);
    let rows = Rows::new(scene, &options);
    let certainty = Certainty::new(scene, (&rows, &options), relative, true);
    let keys = scene.function_keys();
    let of = |row: &Row| {
        let key = *keys.get(row.site?.0 as usize)?;
        Some((key, certainty.of(row.key)))
    };
    rows.list().iter().filter_map(of).collect()
}

/// Between the recordings of a profile that is of those before and after.
fn changes(scene: &Scene<'_>, sides: RunsOfSides) -> Changes {
    let runs = sides.runs_of(scene.selection().event).map(|events| {
        let scenes = events.into_iter().map(|event| {
            let mut selection = scene.selection().clone();
            selection.event = event;
            Scene::new(scene.profile(), selection)
        });
        scenes.collect::<Vec<_>>()
    });
    let judging = Judging {
        least: 0.1,
        bound: 2.0,
        pairing: Pairing::Independent,
    };
    Changes::new([&runs[0], &runs[1]], judging)
}

fn around(seen: &Seen, key: u32) -> Around {
    let shared = || (Arc::clone(&seen.tree), Arc::clone(&seen.keys));
    let (tree, keys) = shared();
    let callers = Growth::callers(tree, keys, key);
    let (tree, keys) = shared();
    let callees = Growth::callees(tree, keys, key);
    Around {
        key,
        callers,
        callees,
    }
}

fn search(seen: &Seen, pattern: Regex) -> Found {
    let profile = &seen.profile;
    // A function is asked once, however many sites it has.
    let matching: Vec<bool> = profile
        .functions
        .iter()
        .map(|function| {
            let name = profile.name(function.name);
            is_in_any_form(name, |form| pattern.is_match(form))
        })
        .collect();
    let sites: Arc<[bool]> = seen
        .sites
        .iter()
        .map(|site| match site.kind {
            prof_report::model::SiteKind::Dso => pattern.is_match(site.name(profile)),
            _ => matching
                .get(site.function.0 as usize)
                .copied()
                .unwrap_or(false),
        })
        .collect();
    let functions = seen
        .hot
        .iter()
        .filter(|row| sites.get(row.site.0 as usize) == Some(&true))
        .count();
    let reach = Reach::new(&seen.tree, &sites);
    Found {
        pattern,
        sites,
        leads: reach.leads.into(),
        functions,
        covered: reach.covered,
    }
}

/// Where marked frames are in a call tree.
struct Reach {
    /// By `NodeId`: whether there is one in or below the node.
    leads: Vec<bool>,
    /// Weight of the samples with one: the outermost of a stack counts.
    covered: Weight,
}

impl Reach {
    fn new(tree: &CallTree, sites: &[bool]) -> Self {
        let is_marked = |node: NodeId| {
            let site = tree.site(node).map_or(usize::MAX, |site| site.0 as usize);
            sites.get(site).copied().unwrap_or(false)
        };
        let nodes = || (1..tree.len()).filter_map(|index| u32::try_from(index).ok().map(NodeId));
        let parent = |node: NodeId| tree.parent(node).map_or(usize::MAX, NodeId::index);
        // A parent's id is smaller than its children's.
        let mut covered = Weight::ZERO;
        let mut inside = vec![false; tree.len()];
        for node in nodes() {
            let is_below = inside.get(parent(node)).copied().unwrap_or(false);
            if is_marked(node) && !is_below {
                covered += tree.total(node);
            }
            if let Some(slot) = inside.get_mut(node.index()) {
                *slot = is_below || is_marked(node);
            }
        }
        let mut leads = vec![false; tree.len()];
        for node in nodes().rev() {
            let is_shown = tree.total(node).period > 0;
            let leads_on = leads.get(node.index()).copied().unwrap_or(false);
            if is_shown && (leads_on || is_marked(node)) {
                for at in [node.index(), parent(node)] {
                    if let Some(slot) = leads.get_mut(at) {
                        *slot = true;
                    }
                }
            }
        }
        Self { leads, covered }
    }
}

fn code(
    scene: &Scene<'_>,
    function: FunctionId,
    source: &dyn CodeSource,
) -> prof_report::code::FunctionView {
    let build = Build {
        profile: scene.profile(),
        leaf_weights: &scene.weights_by_stack(),
        source,
        syntax: prof_report::code::Syntax::Att,
    };
    build.view(function)
}

#[cfg(test)]
mod tests {
    use super::{Ask, Order, Queue};
    use crate::writing::{Form, IfTaken, Write};
    use prof_profile::Profile;
    use prof_report::model::Selection;
    use std::collections::VecDeque;
    use std::sync::{Arc, mpsc};

    #[test]
    fn a_newer_selection_makes_questions_void_but_no_file() {
        let (sender, orders) = mpsc::channel();
        let select = |generation| Order::Select {
            generation,
            profile: Arc::new(Profile::default()),
            selection: Box::new(Selection::default()),
        };
        let write = Order::Ask(Ask::Write(Write {
            path: "a.txt".into(),
            form: Form::Text(String::new()),
            taken: IfTaken::Ask,
        }));
        let sent = [select(1), Order::Ask(Ask::Around(7)), write, select(2)];
        for order in sent.into_iter().chain([Order::Ask(Ask::Around(8))]) {
            sender.send(order).expect("it is there");
        }
        drop(sender);
        let mut queue = Queue {
            orders: &orders,
            waiting: VecDeque::new(),
        };
        let mut next = || queue.next();
        assert!(matches!(next(), Some(Order::Ask(Ask::Write(_)))));
        assert!(matches!(next(), Some(Order::Select { generation: 2, .. })));
        assert!(matches!(next(), Some(Order::Ask(Ask::Around(8)))));
        assert!(next().is_none());
    }
}
