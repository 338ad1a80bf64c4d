//! Promises that hold for every view under every selection.

use super::*;
use crate::code::{Build, NoSource};
use crate::keys::{COMM, CPU, DSO, PID, SRCLINE, SYMBOL, SortKey, TID};
use prof_profile::{DsoId, FunctionId, Profile};
use prof_sketch::{Sketch, profile as sketch, samples};
use proptest::prelude::*;

fn filters() -> impl Strategy<Value = Filter> {
    prop_oneof![
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
            pids: vec![10],
            ..Filter::default()
        }),
        Just(Filter {
            mode: Some(ModeFilter::User),
            pids: vec![12],
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
    ]
}

fn selections() -> impl Strategy<Value = Selection> {
    let transform = prop_oneof![
        (0_u32..4).prop_map(|id| Transform::Focus(FunctionId(id))),
        (0_u32..4).prop_map(|id| Transform::Drop(FunctionId(id))),
        (0_u32..4).prop_map(|id| Transform::Merge(FunctionId(id))),
        (0_u32..2).prop_map(|id| Transform::MergeDso(DsoId(id))),
        Just(Transform::CollapseRecursion(Recursion::Direct)),
        Just(Transform::CollapseRecursion(Recursion::Any)),
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
    let self_of = prop_oneof![
        Just(SelfOf::Innermost),
        Just(SelfOf::Host),
        Just(SelfOf::HostAtLine)
    ];
    let keeps = prop_oneof![
        Just(None),
        Just(Some(StackEnd::Outermost)),
        Just(Some(StackEnd::Leaf))
    ];
    let options = (any::<bool>(), self_of, keeps);
    (
        scope,
        filters(),
        prop::collection::vec(transform, 0..3),
        options,
    )
        .prop_map(
            |(scope, filter, transforms, (inlines, self_of, keeps))| Selection {
                scope,
                filter,
                transforms,
                inlines,
                self_of,
                cut: keeps.map(|keeps| Cut {
                    pattern: regex::Regex::new("^[cd]$").expect("a pattern"),
                    keeps,
                }),
                ..Selection::default()
            },
        )
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

        for keys in [vec![SYMBOL], vec![COMM, DSO], vec![TID, CPU]] {
            let options = RowsOptions::by(keys.into_iter().map(SortKey::apart).collect());
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

    }

    #[test]
    fn the_sum_over_time_is_the_total_for_rows_of_any_kind(
        samples in samples(),
        selection in selections(),
        slices in 0_usize..9,
    ) {
        let profile = sketch(&samples);
        let scene = Scene::new(&profile, selection);
        let everywhere = Heat::new(&scene, HeatRows::All, slices);
        let all: Weight = everywhere.cells.iter().flatten().copied().sum();
        // A time range is seen against the rest.
        if scene.selection().scope.times.is_empty() {
            prop_assert_eq!(all, scene.total());
        }
        for kind in [HeatRows::Thread, HeatRows::Process, HeatRows::Cpu] {
            let heat = Heat::new(&scene, kind, slices);
            for (row, cells) in heat.rows.iter().zip(&heat.cells) {
                prop_assert_eq!(row.total, cells.iter().copied().sum());
            }
            let shown = heat.rows.iter().map(|row| row.shown);
            prop_assert_eq!(shown.sum::<Weight>(), scene.total());
            for slice in 0..slices.max(1) {
                let at = |heat: &Heat| -> Weight {
                    heat.cells.iter().filter_map(|cells| cells.get(slice)).copied().sum()
                };
                prop_assert_eq!(at(&heat), at(&everywhere));
            }
        }
    }

    #[test]
    fn code_views_sum_up_to_the_total_and_agree_with_the_table(
        samples in samples(),
        selection in selections(),
    ) {
        let profile = sketch(&samples);
        let changes_frames = !selection.transforms.is_empty()
            || selection.cut.is_some();
        let selection = Selection { inlines: true, ..selection };
        let scene = Scene::new(&profile, selection);
        let build = Build {
            profile: &profile,
            leaf_weights: &scene.weights_by_stack(),
            source: &NoSource,
            syntax: crate::code::Syntax::Att,
        };
        let rows = Rows::new(&scene, &RowsOptions::by(vec![SYMBOL.apart()]));
        let mut here = 0;
        for index in 0..profile.functions.len() {
            let function = FunctionId(index as u32);
            let view = build.view(function);
            prop_assert_eq!(view.all, build.leaf_weights.iter().sum::<u64>());
            prop_assert!(view.share.here <= view.share.total);
            // Each sample is in one function that is not inlined.
            if profile.name(profile.function(function).name) != "x" {
                here += view.share.here;
            }
            // A view of code shows the stacks as they were recorded.
            if changes_frames {
                continue;
            }
            let is_it = |row: &&Row| row.site.is_some_and(|site| scene.sites().get(site).function == function);
            let total = rows.list().iter().find(is_it).map_or(0, |row| row.total.period);
            prop_assert_eq!(view.share.total, total);
        }
        let all: u64 = build.leaf_weights.iter().sum();
        prop_assert_eq!(here, all);
        if !changes_frames {
            prop_assert_eq!(all, scene.total().period);
        }
    }

    #[test]
    fn levels_of_keys_have_the_weights_of_those_above(
        samples in samples(),
        selection in selections(),
    ) {
        let profile = sketch(&samples);
        let scene = Scene::new(&profile, selection);
        let keys = [PID, COMM, DSO, SYMBOL].map(SortKey::apart);
        let rows = |count: usize| {
            let keys = keys.get(..count).expect("as many").to_vec();
            Rows::new(&scene, &RowsOptions::by(keys))
        };
        for count in 1..keys.len() {
            let (upper, lower) = (rows(count), rows(count + 1));
            for above in upper.list() {
                let is_below = |row: &&Row| {
                    let same = lower.told(row).starts_with(upper.told(above));
                    let frame = |row: &Row| {
                        let keys = upper.keys_of_sites();
                        row.site.map(|site| keys.get(site.0 as usize).copied())
                    };
                    same && frame(row) == frame(above)
                };
                let below: Weight = lower.list().iter().filter(is_below).map(|row| row.own).sum();
                prop_assert_eq!(below, above.own);
            }
        }
    }

    #[test]
    fn a_growth_keeps_weight_on_every_level(samples in samples(), selection in selections()) {
        let profile = sketch(&samples);
        let mut selection = selection;
        if selection.self_of == SelfOf::HostAtLine {
            // Its rows are of tables alone: no node of a tree is theirs.
            selection.self_of = SelfOf::Host;
        }
        let scene = Scene::new(&profile, selection);
        let keys = scene.function_keys();
        let rows = Rows::new(&scene, &RowsOptions::by(vec![SYMBOL.apart()]));
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
    let rows = Rows::new(
        &scene,
        &RowsOptions::by([COMM, DSO, SYMBOL].map(SortKey::apart).to_vec()),
    );
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
fn inlined_code_counts_as_its_host_at_its_own_place() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    sketch.sample(task, "main;f>small", 1, 10);
    let selection = Selection {
        self_of: SelfOf::HostAtLine,
        granularity: Granularity::Line,
        ..Selection::default()
    };
    let scene = Scene::new(&sketch.profile, selection);
    let rows = Rows::new(
        &scene,
        &RowsOptions {
            frames: FrameLook {
                inline_rows: InlineRows::ByHost,
                ..FrameLook::default()
            },
            ..RowsOptions::by([SYMBOL, SRCLINE].map(SortKey::apart).to_vec())
        },
    );
    let mut found: Vec<(&str, SiteKind, u64, u64)> = Vec::new();
    for row in rows.list() {
        let site = scene.sites().get(row.site.unwrap());
        let name = site.name(&sketch.profile);
        found.push((name, site.kind, row.own.period, row.total.period));
    }
    found.sort_by_key(|&(name, _, own, _)| (name, own));
    let (function, inline) = (SiteKind::Function, SiteKind::Inline);
    assert_eq!(
        found,
        [
            // The sketch has no lines: the call is at the same place.
            ("f", function, 10, 10),
            ("main", function, 0, 10),
            ("small", inline, 0, 10)
        ]
    );
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
        let rows = Rows::new(
            &scene,
            &RowsOptions::by([COMM, DSO, SYMBOL].map(SortKey::apart).to_vec()),
        );
        let with_self = rows.list().iter().find(|row| row.own.period > 0).unwrap();
        let site = scene.sites().get(with_self.site.unwrap());
        assert_eq!(site.name(&sketch.profile), expected);
    }
}
