//! Promises that hold for every view under every selection.

use super::*;
use crate::sketch::Sketch;
use prof_profile::{DsoId, FunctionId, Profile};
use proptest::prelude::*;

fn sketch(samples: &[(u8, Vec<u8>, u8)]) -> Profile {
    let mut sketch = Sketch::new();
    for (time, (task, stack, period)) in samples.iter().enumerate() {
        let tid = 10 + i32::from(task % 3);
        let comm = ["sh", "app"][usize::from(task % 2)];
        let task = sketch.task(10, tid, comm);
        let frames: Vec<String> = stack.iter().map(|&byte| frame(byte)).collect();
        sketch.sample(task, &frames.join(";"), time as u64 + 1, u64::from(*period));
    }
    sketch.profile
}

fn frame(byte: u8) -> String {
    let name = (b'a' + byte % 6) as char;
    match byte % 11 {
        0 => format!("lib.so:{name}"),
        1 => format!("app:{name}>x"),
        2 => format!("[kernel.kallsyms]:{name}"),
        _ => format!("app:{name}"),
    }
}

fn selections() -> impl Strategy<Value = Selection> {
    let transform = prop_oneof![
        (0_u32..4).prop_map(|id| Transform::Focus(FunctionId(id))),
        (0_u32..4).prop_map(|id| Transform::Drop(FunctionId(id))),
        (0_u32..4).prop_map(|id| Transform::Merge(FunctionId(id))),
        (0_u32..2).prop_map(|id| Transform::MergeModule(DsoId(id))),
        Just(Transform::CollapseRecursion(Recursion::Direct)),
        Just(Transform::CollapseRecursion(Recursion::Any)),
    ];
    let filter = prop_oneof![
        Just(Filter::default()),
        Just(Filter {
            comms: vec!["app".into()],
            ..Filter::default()
        }),
        Just(Filter {
            dsos: vec!["lib.so".into()],
            ..Filter::default()
        }),
        Just(Filter {
            symbols: vec!["b".into()],
            ..Filter::default()
        }),
        Just(Filter {
            tids: vec![11],
            ..Filter::default()
        }),
        Just(Filter {
            mode: Some(ModeFilter::Kernel),
            ..Filter::default()
        }),
        Just(Filter {
            frame: regex::Regex::new("[ab]").ok(),
            ..Filter::default()
        }),
    ];
    let scope = prop_oneof![
        Just(Scope::default()),
        Just(Scope {
            cpus: vec![1],
            ..Scope::default()
        }),
        Just(Scope {
            times: vec![TimeRange { start: 2, end: 9 }],
            ..Scope::default()
        }),
    ];
    let limit = prop_oneof![
        Just(None),
        Just(Some((2, StackEnd::Leaf))),
        Just(Some((2, StackEnd::Outermost))),
    ];
    let options = (any::<bool>(), any::<bool>(), limit);
    (
        scope,
        filter,
        prop::collection::vec(transform, 0..3),
        options,
    )
        .prop_map(
            |(scope, filter, transforms, (inlines, host, max_stack))| Selection {
                scope,
                filter,
                transforms,
                inlines,
                self_of: if host {
                    SelfOf::Host
                } else {
                    SelfOf::Innermost
                },
                max_stack,
                ..Selection::default()
            },
        )
}

fn samples() -> impl Strategy<Value = Vec<(u8, Vec<u8>, u8)>> {
    let stack = prop::collection::vec(any::<u8>(), 1..6);
    prop::collection::vec((any::<u8>(), stack, 1_u8..), 0..24)
}

/// Samples that pass, counted one by one.
fn expected(profile: &Profile, scene: &Scene<'_>) -> Weight {
    let selection = scene.selection();
    let shown = scene.shown_cells();
    profile
        .samples
        .iter()
        .filter(|sample| shown.contains(sample.task, sample.cpu, sample.stack))
        .filter(|sample| {
            let times = &selection.scope.times;
            times.is_empty() || times.iter().any(|range| range.holds(sample.time))
        })
        .map(|sample| Weight {
            period: sample.period,
            samples: 1,
        })
        .sum()
}

proptest! {
    #[test]
    fn the_sum_of_self_is_the_total_in_every_view(samples in samples(), selection in selections()) {
        let profile = sketch(&samples);
        let scene = Scene::new(&profile, selection);
        let total = expected(&profile, &scene);
        let tree = scene.tree();
        prop_assert_eq!(scene.total(), total);
        let own: Weight = (0..tree.len()).map(|index| tree.own(NodeId(index as u32))).sum();
        prop_assert_eq!(own, total);

        for keys in [vec![SortKey::Symbol], vec![SortKey::Comm, SortKey::Dso], vec![SortKey::Tid, SortKey::Cpu]] {
            let options = RowsOptions { keys, ..RowsOptions::default() };
            let rows = Rows::new(&scene, &options);
            let own: Weight = rows.list().iter().map(|row| row.own).sum();
            prop_assert_eq!(own, total);
            for row in rows.list() {
                prop_assert!(row.own.samples <= row.total.samples);
                prop_assert!(row.total.samples <= total.samples);
            }
        }

        let keys = scene.function_keys();
        let bottom_up = Growth::bottom_up(tree, &keys);
        let leaves: Weight = bottom_up.roots().iter().map(|&id| bottom_up.total(id)).sum();
        let at_root = tree.own(NodeId::ROOT);
        prop_assert_eq!(leaves + at_root, total);

        let heat = Heat::new(&scene, HeatRows::Thread, 5);
        if scene.selection().scope.times.is_empty() {
            let cells: Weight = heat.cells.iter().flatten().copied().sum();
            prop_assert_eq!(cells, total);
        }
    }

    #[test]
    fn a_growth_keeps_weight_on_every_level(samples in samples(), selection in selections()) {
        let profile = sketch(&samples);
        let scene = Scene::new(&profile, selection);
        let keys = scene.function_keys();
        let rows = Rows::new(&scene, &RowsOptions { keys: vec![SortKey::Symbol], ..RowsOptions::default() });
        for row in rows.list() {
            let Some(key) = row.site.and_then(|site| keys.get(site.0 as usize).copied()) else { continue };
            for mut growth in [
                Growth::callers(scene.tree(), &keys, key),
                Growth::callees(scene.tree(), &keys, key),
            ] {
                let whole: Weight = growth.roots().iter().map(|&id| growth.total(id)).sum();
                prop_assert_eq!(whole, row.total);
                let mut open = growth.roots().to_vec();
                while let Some(id) = open.pop() {
                    let children = growth.children(id);
                    prop_assert_eq!(growth.has_children(id), !children.is_empty());
                    let below: Weight = children.iter().map(|&child| growth.total(child)).sum();
                    prop_assert_eq!(below + growth.own(id), growth.total(id));
                    open.extend(children);
                }
            }
        }
    }
}

#[test]
fn a_recursive_function_counts_once_per_sample() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    sketch.sample(task, "main;f;g;f", 1, 10);
    sketch.sample(task, "main;f", 2, 5);
    let scene = Scene::new(&sketch.profile, Selection::default());
    let rows = Rows::new(&scene, &RowsOptions::default());
    let found: Vec<(&str, u64, u64)> = rows
        .list()
        .iter()
        .map(|row| {
            let site = scene.sites().get(row.site.unwrap());
            let name = site.name(&sketch.profile);
            (name, row.total.period, row.own.period)
        })
        .collect();
    assert_eq!(found, [("f", 15, 15), ("main", 15, 0), ("g", 10, 0)]);
}

#[test]
fn inlined_code_belongs_to_its_host_if_asked() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    sketch.sample(task, "main;f>small", 1, 10);
    for (self_of, expected) in [(SelfOf::Host, "f"), (SelfOf::Innermost, "small")] {
        let selection = Selection {
            self_of,
            ..Selection::default()
        };
        let scene = Scene::new(&sketch.profile, selection);
        let rows = Rows::new(&scene, &RowsOptions::default());
        let with_self = rows.list().iter().find(|row| row.own.period > 0).unwrap();
        let site = scene.sites().get(with_self.site.unwrap());
        assert_eq!(site.name(&sketch.profile), expected);
    }
}
