//! Cost that moved between a function and its callers.
//!
//! A compiler that inlines `f` into `main`, or takes a part of `main` out as a
//! function, makes one cheaper and the other as much dearer. Neither says
//! anything of the program, their sum does. Costs alone never show that
//! something moved; it is said only if the structure shows it:
//!
//! - Calls from the one to the other are less than [`LEFT`] of what they were
//!   (inlined), or were so before (taken out), or inline frames of one in the
//!   other came or went as much, where debug information tells them.
//! - One is surely cheaper and the other surely dearer, the smaller change at
//!   least [`BALANCE`] of the larger. Inline frames are proof enough for a
//!   function whose own change is not sure.
//!
//! Functions that calls of one kind join are one move: what was inlined into
//! what was inlined itself, or into several callers.

use crate::matching::{Functions, Matched, Parts, SAMPLES_OF_CALLS, Traits};
use prof_statistics::{Change, Interval, Verdict};
use rustc_hash::FxHashMap;

/// What of the weight of calls may be left of calls that are gone.
const LEFT: f64 = 0.1;
/// The smaller side of a move, by the larger.
const BALANCE: f64 = 0.5;
/// Parts below this are no evidence.
const LEAST: f64 = 0.002;

/// Functions between which cost moved, because code was inlined or extracted;
/// judged as one.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// Whether code was inlined into its callers; else it was extracted from
    /// them.
    pub is_inlined: bool,
    /// Functions that became cheaper.
    pub from: Vec<String>,
    /// Functions that became more expensive.
    pub into: Vec<String>,
    /// Cost of all of them together before and after, of a run or a unit of
    /// work.
    pub costs: [f64; 2],
    /// After minus before, of all of them, percent of the total before.
    pub change: Change,
    /// Where that truly is.
    pub interval: Interval,
    /// What may be said of it.
    pub verdict: Verdict,
}

/// The role of a row in a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// Its cost moved into others; with the index of the move in
    /// [`crate::Comparison::moves`].
    Into(usize),
    /// It received cost from others; likewise.
    From(usize),
}

impl Moved {
    /// The index of the move.
    pub fn place(self) -> usize {
        match self {
            Self::Into(place) | Self::From(place) => place,
        }
    }
}

/// Rows between which cost moved.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Flow {
    pub(crate) is_inlined: bool,
    pub(crate) from: Vec<usize>,
    pub(crate) into: Vec<usize>,
}

/// What is known of two functions, one of which calls the other, on both sides:
/// parts of the whole.
#[derive(Default)]
struct Link {
    calls: [f64; 2],
    inlined: [f64; 2],
}

/// What happened to calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They are gone: the code is in the caller.
    Inlined,
    /// They are new: the code was in the caller.
    TakenOut,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Evidence {
    Calls,
    InlineFrames,
}

impl Link {
    fn evidence(&self, way: Way, least: [f64; 2]) -> Option<Evidence> {
        let (with, without) = match way {
            Way::Inlined => (0, 1),
            Way::TakenOut => (1, 0),
        };
        let is_gone = |parts: [f64; 2], with: usize, without: usize| {
            parts[with] >= least[with] && parts[without] <= LEFT * parts[with]
        };
        // Inline frames are there where calls are not.
        if is_gone(self.inlined, without, with) {
            return Some(Evidence::InlineFrames);
        }
        is_gone(self.calls, with, without).then_some(Evidence::Calls)
    }
}

/// Rows and what was said of each, before anything moved.
pub(crate) struct Judged<'a> {
    pub(crate) rows: &'a [Matched],
    pub(crate) changes: &'a [Change],
    pub(crate) verdicts: &'a [Verdict],
}

impl Judged<'_> {
    /// The rows between which cost moved, by the functions of both sides under
    /// the names that both know. No row is in two.
    pub(crate) fn flows(&self, sides: &[Functions; 2]) -> Vec<Flow> {
        let links = Links::of(sides);
        let mut rows: FxHashMap<usize, usize> = FxHashMap::default();
        for (at, row) in self.rows.iter().enumerate() {
            if let Some(place) = links.places.find(&row.key) {
                rows.insert(place, at);
            }
        }
        let mut flows: Vec<Flow> = Vec::new();
        for way in [Way::Inlined, Way::TakenOut] {
            for group in links.groups(way) {
                let flow = self.flow(&group, way, &rows);
                let is_taken = |at: &usize| {
                    let mut all = flows.iter().flat_map(|it| it.from.iter().chain(&it.into));
                    all.any(|other| other == at)
                };
                let flow = flow.filter(|it| !it.from.iter().chain(&it.into).any(is_taken));
                flows.extend(flow);
            }
        }
        flows
    }

    /// What moved between functions that calls join.
    fn flow(&self, group: &[Joint], way: Way, rows: &FxHashMap<usize, usize>) -> Option<Flow> {
        let mut flow = Flow {
            is_inlined: way == Way::Inlined,
            ..Flow::default()
        };
        let mut is_proven = false;
        for joint in group {
            let (giving, taking) = match way {
                Way::Inlined => (joint.called, joint.calling),
                Way::TakenOut => (joint.calling, joint.called),
            };
            let said = |place| {
                let at = rows.get(&place).copied()?;
                Some((at, *self.verdicts.get(at)?))
            };
            let by_frames = joint.evidence == Evidence::InlineFrames;
            is_proven |= by_frames;
            let may_be = |verdict: Verdict, sure: Verdict, opposite: Verdict| match by_frames {
                true => verdict != opposite,
                false => verdict == sure,
            };
            if let Some((at, verdict)) = said(giving)
                && may_be(verdict, Verdict::Faster, Verdict::Slower)
            {
                flow.from.push(at);
            }
            if let Some((at, verdict)) = said(taking)
                && may_be(verdict, Verdict::Slower, Verdict::Faster)
            {
                flow.into.push(at);
            }
        }
        for list in [&mut flow.from, &mut flow.into] {
            list.sort_unstable();
            list.dedup();
        }
        // What passes on what it got is on neither side, or on that of its sum.
        let value = |at: &usize| self.changes.get(*at).map_or(0.0, |change| change.value);
        flow.from.retain(|at| value(at) < 0.0);
        flow.into.retain(|at| value(at) > 0.0);
        let is_sure = |at: &usize| {
            let verdict = self.verdicts.get(*at);
            verdict.is_some_and(|it| matches!(it, Verdict::Faster | Verdict::Slower))
        };
        let sum = |list: &[usize]| list.iter().map(value).sum::<f64>().abs();
        let [less, more] = [sum(&flow.from), sum(&flow.into)];
        let is_balanced = less.min(more) >= BALANCE * less.max(more);
        let is_one = !flow.from.is_empty() && !flow.into.is_empty();
        let matters = flow.from.iter().chain(&flow.into).any(is_sure);
        let by_size = |a: &usize, b: &usize| value(b).abs().total_cmp(&value(a).abs());
        flow.from.sort_by(by_size);
        flow.into.sort_by(by_size);
        (is_one && matters && (is_balanced || is_proven)).then_some(flow)
    }
}

/// Two functions, by their places, and what shows that code moved between them.
#[derive(Clone, Copy)]
struct Joint {
    calling: usize,
    called: usize,
    evidence: Evidence,
}

/// What both sides know of calls.
struct Links {
    /// Functions of both sides.
    places: Functions,
    /// By caller and called.
    links: FxHashMap<(usize, usize), Link>,
    /// Parts that are evidence, by side.
    least: [f64; 2],
}

impl Links {
    fn of(sides: &[Functions; 2]) -> Self {
        let mut found = Self {
            places: Functions::default(),
            links: FxHashMap::default(),
            least: sides.each_ref().map(|side| {
                let samples = side.samples().max(1) as f64;
                LEAST.max(SAMPLES_OF_CALLS / samples)
            }),
        };
        for (side, functions) in sides.iter().enumerate() {
            let names = functions.names.iter().cloned();
            let places: Vec<usize> = names.map(|name| found.places.place(name)).collect();
            for (traits, &calling) in functions.traits.iter().zip(&places) {
                found.add(side, (traits, calling), &places);
            }
        }
        found
    }

    fn add(&mut self, side: usize, (traits, calling): (&Traits, usize), places: &[usize]) {
        let mut each = |parts: &Parts, of: fn(&mut Link) -> &mut [f64; 2]| {
            for (called, part) in parts {
                if let Some(&called) = places.get(*called) {
                    let link = self.links.entry((calling, called)).or_default();
                    of(link)[side] += part;
                }
            }
        };
        each(&traits.callees, |link| &mut link.calls);
        each(&traits.inlined, |link| &mut link.inlined);
    }

    /// Functions that are joined by calls of which the same became.
    fn groups(&self, way: Way) -> Vec<Vec<Joint>> {
        let joints = self.links.iter().filter_map(|(&(calling, called), link)| {
            let evidence = link.evidence(way, self.least)?;
            Some(Joint {
                calling,
                called,
                evidence,
            })
        });
        let mut joints: Vec<Joint> = joints.collect();
        joints.sort_by_key(|joint| (joint.calling, joint.called));
        let mut roots: Vec<usize> = (0..self.places.names.len()).collect();
        for joint in &joints {
            let [one, other] = [joint.calling, joint.called].map(|at| root(&roots, at));
            if let Some(root) = roots.get_mut(one.max(other)) {
                *root = one.min(other);
            }
        }
        let mut groups: FxHashMap<usize, Vec<Joint>> = FxHashMap::default();
        for joint in joints {
            let group = groups.entry(root(&roots, joint.calling)).or_default();
            group.push(joint);
        }
        let mut groups: Vec<(usize, Vec<Joint>)> = groups.into_iter().collect();
        groups.sort_by_key(|(root, _)| *root);
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

/// The first of the functions that are joined with one. Roots never rise, so
/// that this ends.
fn root(roots: &[usize], mut at: usize) -> usize {
    while let Some(&up) = roots.get(at)
        && up != at
    {
        at = up;
    }
    at
}

#[cfg(test)]
mod tests {
    use crate::comparison::tests::run;
    use crate::{Comparison, ComparisonOptions, Moved, Run};
    use prof_statistics::Verdict;

    /// What is said of each function.
    fn said(before: &[Run], after: &[Run]) -> (Vec<(String, Verdict, Option<Moved>)>, Comparison) {
        let compared = Comparison::new(before, after, &ComparisonOptions::default()).unwrap();
        let rows = compared.rows.iter();
        let mut said: Vec<_> = rows
            .map(|row| (row.names[1].clone(), row.verdict, row.moved))
            .collect();
        said.sort_by(|a, b| a.0.cmp(&b.0));
        (said, compared)
    }

    #[test]
    fn what_was_inlined_into_its_caller_is_a_move_with_an_unchanged_sum() {
        let before = [run(
            "a",
            &[
                ("app:main", 100),
                ("app:main;app:scan", 300),
                ("app:main;app:parse;app:peek", 200),
                ("app:main;app:parse", 100),
            ],
        )];
        // `peek` is inlined into `parse`, and that into `main`.
        let after = [run("b", &[("app:main", 400), ("app:main;app:scan", 300)])];
        let (rows, compared) = said(&before, &after);
        let (into, from) = (Some(Moved::Into(0)), Some(Moved::From(0)));
        let expected = [
            ("main", from),
            ("parse", into),
            ("peek", into),
            ("scan", None),
        ];
        let expected = expected.map(|(name, moved)| (name.to_owned(), Verdict::Same, moved));
        assert_eq!(rows, expected);
        let of_all = &compared.moves[0];
        assert!(of_all.change.value.abs() < 1e-9 && of_all.interval.contains(0.0));
        assert_eq!(
            (&of_all.from[..], &of_all.into[..]),
            (
                &["peek".to_owned(), "parse".to_owned()][..],
                &["main".to_owned()][..],
            )
        );
        // The other way: taken out.
        let (rows, _) = said(&after, &before);
        assert_eq!(rows[0].2, into);
        assert_eq!(rows[2].2, from);
    }

    #[test]
    fn a_change_behind_a_move_is_one_of_the_sum() {
        let parts = [
            ("app:main", 100),
            ("app:main;app:f", 300),
            ("app:main;app:g", 600),
        ];
        let before = [run("a", &parts)];
        let after = [run("b", &[("app:main", 520), ("app:main;app:g", 600)])];
        let (rows, compared) = said(&before, &after);
        let f = ("f".to_owned(), Verdict::Slower, Some(Moved::Into(0)));
        assert_eq!(rows[0], f, "its verdict is that of the sum");
        let sum = &compared.moves[0];
        assert!((sum.change.value - 12.0).abs() < 1e-9, "{sum:?}");
    }

    #[test]
    fn opposite_changes_without_evidence_are_two() {
        let side = |main: u64, f: u64| [run("r", &[("app:main", main), ("app:main;app:f", f)])];
        // It is still called.
        let (rows, compared) = said(&side(300, 500), &side(500, 300));
        assert!(compared.moves.is_empty());
        assert_eq!(rows[0].1, Verdict::Faster);
        assert_eq!(rows[1].1, Verdict::Slower);
        // It is gone, and its caller is not dearer.
        let gone = [run("r", &[("app:main", 300)])];
        let (rows, compared) = said(&side(300, 500), &gone);
        assert!(compared.moves.is_empty());
        assert_eq!(rows[0].1, Verdict::Faster);
        // Nobody called it.
        let alone = [run("r", &[("app:main", 300), ("app:f", 500)])];
        let (_, compared) = said(&alone, &[run("r", &[("app:main", 800)])]);
        assert!(compared.moves.is_empty());
    }

    #[test]
    fn inline_frames_show_what_moved_in_part() {
        let before = [run("a", &[("app:main", 2000), ("app:main;app:f", 600)])];
        let parts = [
            ("app:main", 2000),
            ("app:main>f", 300),
            ("app:main;app:f", 300),
        ];
        let (rows, compared) = said(&before, &[run("b", &parts)]);
        assert_eq!(rows[0].2, Some(Moved::Into(0)));
        assert_eq!(rows[1].2, Some(Moved::From(0)));
        assert_eq!(compared.moves[0].verdict, Verdict::Same);
    }
}
