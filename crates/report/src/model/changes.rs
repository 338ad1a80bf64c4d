//! What changed between two sides, and how sure that is.

use super::certainty::shares_of_paths;
use super::{Certainty, Rows, RowsOptions, Scene, SiteId};
use crate::keys::{DSO, SYMBOL};
use prof_statistics::{
    Change, Control, Figure, Interval, Pairing, Prior, Question, Share, Sides, Verdict, verdicts,
};
use rustc_hash::FxHashMap;

/// The cost of a row before and after, and what the difference means.
#[derive(Debug, Clone, Copy)]
pub struct Changed {
    /// Its cost before, mean of the runs, percent of the total before.
    pub before: f64,
    /// The same after.
    pub after: f64,
    /// After minus before, percent of the total before.
    pub change: Change,
    /// Whether the change is significant.
    pub verdict: Verdict,
}

/// How changes are judged.
#[derive(Debug, Clone, Copy)]
pub struct Judging {
    /// Paths below this cost on both sides together, percent of the total
    /// before, are not judged.
    pub least: f64,
    /// A change smaller than this, percent of the total before, counts as none.
    pub bound: f64,
    /// Whether runs of both sides form pairs.
    pub pairing: Pairing,
}

impl Changed {
    /// The 95 % interval of the change.
    pub fn interval(&self) -> Interval {
        self.change.interval(0.95)
    }

    /// The verdict in a word; for costs with callees, "more" or "less".
    pub fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Slower => "more",
            Verdict::Faster => "less",
            Verdict::Same => "the same",
            Verdict::Undecided { .. } => "not sure",
        }
    }
}

/// What is known of each pair of figures, in percent of the total before, by
/// run of each side; of what is judged, a twentieth of what is said may be
/// false.
pub(crate) fn changed(figures: &[(Vec<Figure>, Vec<Figure>)], judging: Judging) -> Vec<Changed> {
    let mean = |side: &[Figure]| {
        side.iter().map(|figure| figure.value).sum::<f64>() / side.len().max(1) as f64
    };
    let all = figures.iter().map(|(before, after)| Sides {
        before,
        after,
        pairing: judging.pairing,
    });
    let prior = Prior::of(all.clone());
    let changes: Vec<Change> = all.map(|sides| sides.change(prior)).collect();
    let judged: Vec<bool> = figures
        .iter()
        .map(|(before, after)| f64::midpoint(mean(before), mean(after)) >= judging.least)
        .collect();
    let tested = changes.iter().zip(&judged).filter(|(_, judged)| **judged);
    let tested: Vec<Change> = tested.map(|(change, _)| *change).collect();
    let question = Question {
        bound: judging.bound,
        level: 0.05,
        control: Control::Usual,
    };
    let mut said = verdicts(&tested, &question).into_iter();
    let parts = figures.iter().zip(&changes).zip(&judged);
    parts
        .map(|(((before, after), change), judged)| Changed {
            before: mean(before),
            after: mean(after),
            change: *change,
            verdict: match judged {
                true => said.next(),
                false => None,
            }
            .unwrap_or(Verdict::Undecided { needs: None }),
        })
        .collect()
}

/// Shares of a run as figures in percent of the total before, `factor` being
/// what a whole run is. What nothing was counted for is as unsure as the
/// surest that something was counted for.
pub(crate) fn figures(shares: &[Figure], factor: f64) -> Vec<Figure> {
    let known = shares.iter().map(|figure| figure.variance);
    let known = known.filter(|variance| *variance > 0.0);
    let least = known.fold(f64::INFINITY, f64::min);
    let least = Some(least).filter(|least| least.is_finite()).unwrap_or(0.0);
    let scaled = shares.iter().map(|figure| Figure {
        value: figure.value * factor,
        variance: match figure.variance > 0.0 {
            true => figure.variance,
            false => least,
        } * factor
            * factor,
    });
    scaled.collect()
}

/// The costs of a function before and after.
#[derive(Debug, Clone, Copy)]
pub struct ChangedFunction {
    /// One of its sites.
    pub site: SiteId,
    /// Its own code.
    pub own: Changed,
    /// Its own code and what it calls.
    pub total: Changed,
    /// Samples in its own code before and after.
    pub samples: [u64; 2],
}

/// What changed between events of one profile, seen through one selection.
#[derive(Debug, Clone)]
pub struct Changes {
    /// By [`super::NodeId`]: the change of the samples through the path.
    pub paths: Vec<Changed>,
    /// In no order.
    pub functions: Vec<ChangedFunction>,
    /// Weight of what is shown, before and after, mean of the runs.
    pub totals: [f64; 2],
}

/// What a function has in one run.
#[derive(Clone, Copy)]
struct OfRun {
    site: SiteId,
    own: Share,
    total: Share,
}

/// Judges what runs have, by side.
struct Judge {
    /// By run: its weight, percent of the mean one before.
    factors: [Vec<f64>; 2],
    judging: Judging,
}

/// The shares of a run, thing by thing.
type OfThings = Vec<Figure>;

impl Judge {
    /// What changed of each thing; of each side by run, all with as many things.
    /// Those below `least` are not judged.
    fn judge(&self, of: [Vec<OfThings>; 2], least: f64) -> Vec<Changed> {
        let [before, after] = &of;
        let scaled = |side: &[OfThings], factors: &[f64]| -> Vec<OfThings> {
            let runs = side.iter().zip(factors);
            runs.map(|(run, factor)| figures(run, *factor)).collect()
        };
        let before = scaled(before, &self.factors[0]);
        let after = scaled(after, &self.factors[1]);
        let count = before.iter().chain(&after).map(Vec::len).max();
        let at = |side: &[OfThings], thing: usize| -> Vec<Figure> {
            let runs = side.iter();
            runs.filter_map(|run| run.get(thing).copied()).collect()
        };
        let things = 0..count.unwrap_or(0);
        let both: Vec<_> = things
            .map(|thing| (at(&before, thing), at(&after, thing)))
            .collect();
        let judging = Judging {
            least,
            ..self.judging
        };
        changed(&both, judging)
    }
}

/// What functions have in a run, by their number.
type OfFunctions = FxHashMap<u32, OfRun>;

impl Changes {
    /// Compares scenes of events of one profile, by run of each side. Their selections
    /// must be equal but for the event, so that all have the same paths.
    pub fn new(sides: [&[Scene<'_>]; 2], judging: Judging) -> Self {
        let paths = sides.map(|side| side.iter().map(shares_of_paths).collect::<Vec<_>>());
        let totals = paths.each_ref().map(|side| {
            let sum: f64 = side.iter().map(|(_, total)| total).sum();
            sum / side.len().max(1) as f64
        });
        let whole = totals[0].max(f64::MIN_POSITIVE);
        let judge = Judge {
            factors: paths.each_ref().map(|side| {
                let runs = side.iter();
                runs.map(|(_, total)| 100.0 * total / whole).collect()
            }),
            judging,
        };
        let of_paths = paths.map(|side| {
            let figures = |shares: Vec<Share>| shares.iter().map(Share::figure).collect();
            side.into_iter()
                .map(|(shares, _)| figures(shares))
                .collect()
        });
        let functions = sides.map(|side| side.iter().map(functions).collect());
        Self {
            paths: judge.judge(of_paths, judging.least),
            functions: changed_functions(&functions, &judge),
            totals,
        }
    }
}

fn changed_functions(sides: &[Vec<OfFunctions>; 2], judge: &Judge) -> Vec<ChangedFunction> {
    let all = || sides.iter().flatten();
    let mut keys: Vec<u32> = all().flat_map(|run| run.keys().copied()).collect();
    keys.sort_unstable();
    keys.dedup();
    let pick = |of: &dyn Fn(&OfRun) -> Share| -> [Vec<OfThings>; 2] {
        let figure = |found: Option<&OfRun>| match found {
            Some(found) => of(found).figure(),
            None => Figure::default(),
        };
        let run = |run: &OfFunctions| keys.iter().map(|key| figure(run.get(key))).collect();
        sides.each_ref().map(|side| side.iter().map(run).collect())
    };
    // As a table of all of them has it (prof diff); of a picture most paths are tiny.
    let own = judge.judge(pick(&|run| run.own), 0.0);
    let total = judge.judge(pick(&|run| run.total), 0.0);
    let both = keys.iter().zip(own.into_iter().zip(total));
    let changed = both.filter_map(|(key, (own, total))| {
        let samples = sides.each_ref().map(|side| {
            let runs = side.iter().filter_map(|run| run.get(key));
            runs.map(|run| run.own.samples).sum()
        });
        Some(ChangedFunction {
            site: all().find_map(|run| run.get(key))?.site,
            own,
            total,
            samples,
        })
    });
    changed.collect()
}

/// The functions of a scene by their number.
fn functions(scene: &Scene<'_>) -> OfFunctions {
    let options = RowsOptions::by(vec![DSO.apart(), SYMBOL.apart()]);
    let rows = Rows::new(scene, &options);
    let certainty = Certainty::new(scene, (&rows, &options), true, true);
    let keys = scene.function_keys();
    let of = |row: &super::Row| {
        let site = row.site?;
        let sure = certainty.of(row.key);
        let key = *keys.get(site.0 as usize)?;
        Some((
            key,
            OfRun {
                site,
                own: sure.own,
                total: sure.total,
            },
        ))
    };
    rows.list().iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::{Changes, Judging};
    use crate::model::{Scene, Selection};
    use prof_profile::{Event, EventId};
    use prof_sketch::Sketch;
    use prof_statistics::{Pairing, Verdict};

    #[test]
    fn what_grew_and_what_vanished_is_told_by_path_and_by_function() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        let parts = [
            (0, "app:main;app:f", 400),
            (0, "app:main;app:gone", 200),
            (0, "app:main;app:g", 400),
            (1, "app:main;app:f", 600),
            (1, "app:main;app:g", 401),
        ];
        let mut event = Vec::new();
        for (at, (side, stack, count)) in parts.into_iter().enumerate() {
            for step in 0..count {
                sketch.sample(task, stack, at as u64 * 1000 + step, 10);
                event.push(side);
            }
        }
        let mut event = event.into_iter();
        sketch.profile.samples.filter_map(|sample| {
            let event = EventId(event.next()?);
            Some(prof_profile::Sample { event, ..*sample })
        });
        sketch.profile.events.push(Event::default());
        let scene = |event| {
            let selection = Selection {
                event: EventId(event),
                ..Selection::default()
            };
            Scene::new(&sketch.profile, selection)
        };
        let judging = Judging {
            least: 0.1,
            bound: 2.0,
            pairing: Pairing::Independent,
        };
        let [before, after] = [[scene(0)], [scene(1)]];
        let changes = Changes::new([&before, &after], judging);
        let [before] = before;
        assert_eq!(changes.paths.len(), before.tree().len());
        let of = |name: &str| {
            let mut functions = changes.functions.iter();
            let found =
                functions.find(|it| before.sites().get(it.site).name(&sketch.profile) == name);
            *found.expect("a function")
        };
        assert_eq!(of("f").own.verdict, Verdict::Slower);
        assert_eq!(of("gone").own.verdict, Verdict::Faster);
        assert_eq!(of("gone").samples, [200, 0]);
        assert_eq!(of("g").own.verdict, Verdict::Same);
        assert!((of("f").own.change.value - 20.0).abs() < 1e-9);
        assert!((of("main").total.before - 100.0).abs() < 1e-9);
    }
}
