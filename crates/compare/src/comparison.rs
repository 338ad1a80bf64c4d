//! Rows of both sides, the change of each, and what may be said of it.

use crate::comparable::{check, notes};
use crate::matching::{Found, Functions, Matched, Side, matched, place, plain_symbol};
use crate::measure::{Measure, MeasureRow};
use crate::moved::{Flow, Judged, Move, Moved};
use crate::unit::Unit;
use crate::{Incomparable, Run};
use prof_report::keys::{DSO, SYMBOL, SortKey};
use prof_statistics::{
    Change, Control, Figure, Interval, Kind, Pairing, Prior, Question, Reach, Sides, Verdict,
    mean_interval, verdicts,
};
use std::cmp::Ordering;

/// What a change is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// Cost of a run, or of a unit of work.
    #[default]
    Cost,
    /// Share of the run.
    Share,
}

/// How recordings are compared.
#[derive(Debug, Clone)]
pub struct ComparisonOptions {
    /// Own code or with callees.
    pub side: Side,
    /// Costs or shares.
    pub by: By,
    /// A change smaller than this, percent of the total before, counts as none.
    pub bound: f64,
    /// The accepted rate of false discoveries among the reported changes.
    pub level: f64,
    /// How dependence between rows is accounted for.
    pub control: Control,
    /// Whether the runs of both sides form pairs.
    pub pairing: Pairing,
    /// Rows with a smaller share on both sides together, percent, are not
    /// tested.
    pub least_share: f64,
    /// Other measurements of the runs, such as wall time. They and the total
    /// are tested together with the rows, as one family.
    pub measures: Vec<Measure>,
}

impl Default for ComparisonOptions {
    fn default() -> Self {
        Self {
            side: Side::Own,
            by: By::Cost,
            bound: 2.0,
            level: 0.05,
            control: Control::Usual,
            pairing: Pairing::Independent,
            least_share: 0.0,
            measures: Vec::new(),
        }
    }
}

impl ComparisonOptions {
    /// How verdicts are found.
    fn question(&self) -> Question {
        Question {
            bound: self.bound,
            level: self.level,
            control: self.control,
        }
    }
}

/// A row's measurements on one side, as means over its runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneSide {
    /// Cost of a run, or of a unit of work, in the event's unit.
    pub cost: f64,
    /// Share of the run, percent.
    pub share: f64,
    /// Its 95 % interval, of the comparison's kind.
    pub interval: Interval,
    /// Samples of all runs.
    pub samples: u64,
}

/// A row of a comparison.
#[derive(Debug, Clone)]
pub struct ComparedRow {
    /// The value of each sort key, as recorded.
    pub names: Vec<String>,
    /// The same values, escaped for a terminal.
    pub shown: Vec<String>,
    /// The values before, for a function that was matched though its name
    /// changed; [`ComparedRow::names`] are those after.
    pub was: Option<Vec<String>>,
    /// Its measurements before.
    pub before: OneSide,
    /// Its measurements after.
    pub after: OneSide,
    /// After minus before, percent of the total before.
    pub change: Change,
    /// The interval of the change, with the confidence of the comparison.
    pub interval: Interval,
    /// Whether the change is significant. If cost moved between functions: the
    /// verdict on all of them together.
    pub verdict: Verdict,
    /// Whether its cost moved into other functions or came from them.
    pub moved: Option<Moved>,
    /// The least change of it that is found in nine of ten cases, percent of the
    /// total before.
    pub detectable: f64,
    /// With how many runs a side, or times the samples, a change of it by the
    /// bound is found in nine of ten cases.
    pub needs_for_bound: Option<u64>,
}

/// The total of each side.
#[derive(Debug, Clone, Copy)]
pub struct Total {
    /// Mean of the runs before, in the event's unit.
    pub before: f64,
    /// And after.
    pub after: f64,
    /// After minus before, percent of before.
    pub change: Change,
    /// The interval of the change.
    pub interval: Interval,
    /// Whether the change is significant; `None` with one run a side, whose
    /// variance between runs is unknown.
    pub verdict: Option<Verdict>,
}

/// A comparison of recordings.
#[derive(Debug, Clone)]
pub struct Comparison {
    pub(crate) event: String,
    pub(crate) unit: Unit,
    pub(crate) options: ComparisonOptions,
    pub(crate) keys: Vec<SortKey>,
    pub(crate) before: Vec<Origin>,
    pub(crate) after: Vec<Origin>,
    /// Whether costs are of units of work.
    pub(crate) is_per_work: bool,
    /// Whether verdicts hold for other runs or only for these.
    pub kind: Kind,
    /// Limitations that the reader should know.
    pub notes: Vec<String>,
    /// Of all rows.
    pub total: Total,
    /// What else was measured.
    pub measures: Vec<MeasureRow>,
    /// Rows, significant and large changes first.
    pub rows: Vec<ComparedRow>,
    /// Functions between which cost moved.
    pub moves: Vec<Move>,
    /// The smallest change of a row, in percent of the total before, that these
    /// recordings would show in nine of ten cases.
    pub detectable: f64,
    /// The same if parts of the total were compared ([`By::Share`]); `None` if they
    /// are, or with one run a side. Where runs are slow and fast as wholes, it is
    /// much less.
    pub detectable_by_share: Option<f64>,
    /// With how many runs a side, or times the samples, a change of any row by the
    /// bound is found in nine of ten cases.
    pub needs_for_bound: Option<u64>,
}

/// A recording, as a comparison tells of it.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) name: String,
    pub(crate) samples: u64,
    pub(crate) total: f64,
}

/// Units of the figures that are tested: percent of the total before.
struct Scale<'a> {
    before: &'a [Run],
    after: &'a [Run],
    options: &'a ComparisonOptions,
    /// The mean total before, by unit of work.
    whole: f64,
}

impl Comparison {
    /// Compares runs of one event.
    ///
    /// # Errors
    /// If nothing true can be said of them.
    pub fn new(
        before: &[Run],
        after: &[Run],
        options: &ComparisonOptions,
    ) -> Result<Self, Incomparable> {
        check(before, after, options.by == By::Share)?;
        let keys = before.first().map_or(&[][..], Run::keys).to_vec();
        let (list, counterparts) = matched((before, after), &keys, options.side);
        let scale = Scale::new((before, after), options);
        let list: Vec<Matched> = list
            .into_iter()
            .filter(|row| scale.is_tested(row))
            .collect();
        let total = scale.total_change();
        let measures: Vec<Change> = options
            .measures
            .iter()
            .map(|measure| measure.change(options.pairing))
            .collect();
        let functions = |verdicts: &[Verdict]| {
            let tells = Self::tells_moves(&keys, options, verdicts);
            tells.then(|| counterparts.functions_of((before, after), &keys))
        };
        let detectable_by_share = scale.detectable_by_share(&list, (total, &measures));
        let (rows, moves, said) = scale.compared(list, (total, &measures), functions);
        let measures = options.measures.iter().zip(measures).zip(said.measures);
        let confidence = 1.0 - options.level;
        let first = before.first();
        Ok(Self {
            event: first.map_or_else(String::new, |run| run.event.clone()),
            unit: Unit::of(first.is_some_and(|run| run.weight_is_ns)),
            options: options.clone(),
            keys,
            before: before.iter().map(Origin::of).collect(),
            after: after.iter().map(Origin::of).collect(),
            is_per_work: before.iter().chain(after).any(|run| run.work != 1.0),
            kind: match before.len() + after.len() {
                2 => Kind::TheseRuns,
                _ => Kind::AnotherRun,
            },
            notes: counterparts
                .notes()
                .into_iter()
                .chain(notes(before, after))
                .collect(),
            total: scale.total(total, said.total),
            measures: measures
                .map(|((measure, change), verdict)| measure.row(change, confidence, verdict))
                .collect(),
            detectable: rows.iter().map(|row| row.detectable).fold(0.0, f64::max),
            detectable_by_share,
            needs_for_bound: most_needed(&rows),
            rows,
            moves,
        })
    }

    /// Whether rows are functions, so that cost may move between them, and any
    /// did change.
    fn tells_moves(keys: &[SortKey], options: &ComparisonOptions, verdicts: &[Verdict]) -> bool {
        let are_functions =
            place(keys, SYMBOL).is_some() && keys.iter().all(|key| [DSO, SYMBOL].contains(key));
        let is_sure = |verdict: &Verdict| matches!(verdict, Verdict::Faster | Verdict::Slower);
        are_functions && options.side == Side::Own && verdicts.iter().any(is_sure)
    }
}

/// On which side of which move a row is.
fn part_of(flows: &[Flow], at: usize) -> Option<Moved> {
    let mut places = flows.iter().enumerate();
    places.find_map(|(place, flow)| match at {
        at if flow.from.contains(&at) => Some(Moved::Into(place)),
        at if flow.into.contains(&at) => Some(Moved::From(place)),
        _ => None,
    })
}

/// Rows whose changes are tested.
struct Tested {
    /// By row, by run of each side.
    figures: Vec<(Vec<Figure>, Vec<Figure>)>,
    prior: Option<Prior>,
    changes: Vec<Change>,
}

/// What may be said, where moves are judged as one each.
struct Said {
    rows: Vec<Verdict>,
    moves: Vec<Verdict>,
    /// Of the moves.
    changes: Vec<Change>,
    total: Option<Verdict>,
    measures: Vec<Verdict>,
}

impl Tested {
    fn new(scale: &Scale<'_>, rows: &[Matched]) -> Self {
        let figures: Vec<(Vec<Figure>, Vec<Figure>)> =
            rows.iter().map(|row| scale.figures(row)).collect();
        let sides = figures
            .iter()
            .map(|(before, after)| scale.sides(before, after));
        let prior = Prior::of(sides.clone());
        let changes: Vec<Change> = sides.map(|sides| sides.change(prior)).collect();
        Self {
            figures,
            prior,
            changes,
        }
    }

    /// The change of all rows of a move together. Of parts of a whole the sum
    /// scatters less than this says.
    fn change_of(&self, flow: &Flow, scale: &Scale<'_>) -> Change {
        let mut sums: (Vec<Figure>, Vec<Figure>) = Default::default();
        for at in flow.from.iter().chain(&flow.into) {
            let Some((before, after)) = self.figures.get(*at) else {
                continue;
            };
            for (sum, figures) in [(&mut sums.0, before), (&mut sums.1, after)] {
                sum.resize(figures.len(), Figure::default());
                for (sum, figure) in sum.iter_mut().zip(figures) {
                    sum.value += figure.value;
                    sum.variance += figure.variance;
                }
            }
        }
        scale.sides(&sums.0, &sums.1).change(self.prior)
    }

    /// What may be said if rows between which cost moved are judged together.
    fn said(&self, flows: &[Flow], family: (Change, &[Change]), scale: &Scale<'_>) -> Said {
        let sums = flows.iter().map(|flow| self.change_of(flow, scale));
        let sums: Vec<Change> = sums.collect();
        let alone = (0..self.changes.len()).filter(|&at| part_of(flows, at).is_none());
        let own = alone.clone().filter_map(|at| self.changes.get(at));
        let all: Vec<Change> = sums.iter().chain(own).copied().collect();
        let (mut moves, total, measures) = judged(&all, family, scale.options);
        let mut own = moves.split_off(sums.len()).into_iter();
        let rows = (0..self.changes.len()).map(|at| {
            let of_move = part_of(flows, at).and_then(|moved| moves.get(moved.place()).copied());
            let verdict = of_move.or_else(|| own.next());
            verdict.unwrap_or(Verdict::Undecided { needs: None })
        });
        Said {
            rows: rows.collect(),
            changes: sums,
            total,
            measures,
            moves,
        }
    }
}

/// What may be said of the rows, of the total and of the measures.
fn judged(
    rows: &[Change],
    (total, measures): (Change, &[Change]),
    options: &ComparisonOptions,
) -> (Vec<Verdict>, Option<Verdict>, Vec<Verdict>) {
    let question = options.question();
    if measures.is_empty() {
        let of_total = verdicts(&[total], &question).first().copied();
        return (verdicts(rows, &question), of_total, Vec::new());
    }
    // One family: each is as sure as the others.
    let all: Vec<Change> = rows
        .iter()
        .copied()
        .chain([total])
        .chain(measures.iter().copied())
        .collect();
    let mut of_rows = verdicts(&all, &question);
    let mut others = of_rows.split_off(rows.len()).into_iter();
    let of_total = others.next();
    (of_rows, of_total, others.collect())
}

impl Origin {
    fn of(run: &Run) -> Self {
        Self {
            name: run.name.clone(),
            samples: run.samples(),
            total: run.total(),
        }
    }
}

/// Of the row that scatters most: what holds for it holds for each.
fn most_needed(rows: &[ComparedRow]) -> Option<u64> {
    let of_rows = rows.iter().map(|row| row.needs_for_bound);
    of_rows.reduce(|one, other| Some(one?.max(other?)))?
}

/// What can be shown of each row, where all of these are tested together.
fn reach(
    rows: &[Change],
    (total, measures): (Change, &[Change]),
    options: &ComparisonOptions,
) -> Reach {
    let mut all = rows.to_vec();
    if !measures.is_empty() {
        all.push(total);
        all.extend(measures);
    }
    Reach::of(&all, &options.question())
}

impl<'a> Scale<'a> {
    fn new((before, after): (&'a [Run], &'a [Run]), options: &'a ComparisonOptions) -> Self {
        let costs = before.iter().map(|run| run.total() / run.work);
        Self {
            whole: costs.sum::<f64>() / before.len().max(1) as f64,
            before,
            after,
            options,
        }
    }

    fn sides<'f>(&self, before: &'f [Figure], after: &'f [Figure]) -> Sides<'f> {
        Sides {
            before,
            after,
            pairing: self.options.pairing,
        }
    }

    /// Whether a row is large enough, as mean of both sides: which rows are
    /// tested must not depend on how they changed.
    fn is_tested(&self, row: &Matched) -> bool {
        let mean = |runs: &[Found]| {
            let sum: f64 = runs.iter().map(|run| run.share.value).sum();
            100.0 * sum / runs.len().max(1) as f64
        };
        f64::midpoint(mean(&row.before), mean(&row.after)) >= self.options.least_share
    }

    /// What a share of this run is in percent of the total before.
    fn factor(&self, run: &Run) -> f64 {
        match self.options.by {
            By::Share => 100.0,
            By::Cost => 100.0 * run.total() / run.work / self.whole,
        }
    }

    /// What [`Comparison::detectable_by_share`] is.
    fn detectable_by_share(&self, list: &[Matched], family: (Change, &[Change])) -> Option<f64> {
        if self.options.by == By::Share || self.before.len() + self.after.len() < 3 {
            return None;
        }
        let options = ComparisonOptions {
            by: By::Share,
            ..self.options.clone()
        };
        let by_share = Scale {
            options: &options,
            ..*self
        };
        let tested = Tested::new(&by_share, list);
        let reach = reach(&tested.changes, family, &options);
        let of_rows = tested.changes.iter().map(|it| reach.detectable(it));
        Some(of_rows.fold(0.0, f64::max))
    }

    fn side(&self, runs: &[Run], found: &[Found]) -> Vec<Figure> {
        let both = runs.iter().zip(found);
        both.map(|(run, found)| {
            let factor = self.factor(run);
            Figure {
                value: found.share.value * factor,
                variance: found.share.variance * factor * factor,
            }
        })
        .collect()
    }

    fn figures(&self, row: &Matched) -> (Vec<Figure>, Vec<Figure>) {
        (
            self.side(self.before, &row.before),
            self.side(self.after, &row.after),
        )
    }

    /// Rows with their verdicts, what moved between them, and what else was
    /// said. `functions` are those of both sides, if cost may have moved.
    fn compared(
        &self,
        list: Vec<Matched>,
        family: (Change, &[Change]),
        functions: impl Fn(&[Verdict]) -> Option<[Functions; 2]>,
    ) -> (Vec<ComparedRow>, Vec<Move>, Said) {
        let tested = Tested::new(self, &list);
        let (verdicts, ..) = judged(&tested.changes, family, self.options);
        let flows = functions(&verdicts).map_or_else(Vec::new, |sides| {
            let judged = Judged {
                rows: &list,
                changes: &tested.changes,
                verdicts: &verdicts,
            };
            judged.flows(&sides)
        });
        let mut said = tested.said(&flows, family, self);
        let mut moves: Vec<Move> = Vec::new();
        for ((flow, change), verdict) in flows.iter().zip(&said.changes).zip(&said.moves) {
            moves.push(self.moved((flow, &list), *change, *verdict));
        }
        let verdicts = std::mem::take(&mut said.rows);
        let reach = reach(&tested.changes, family, self.options);
        let parts = list.into_iter().zip(tested.changes).zip(verdicts);
        let mut rows: Vec<ComparedRow> = parts
            .enumerate()
            .map(|(at, ((row, change), verdict))| ComparedRow {
                moved: part_of(&flows, at),
                detectable: reach.detectable(&change),
                needs_for_bound: reach.needs_for_bound(&change),
                ..self.row(row, change, verdict)
            })
            .collect();
        rows.sort_by(|a, b| by_weight_of_verdict((a, b), &moves));
        (rows, moves, said)
    }

    fn row(&self, row: Matched, change: Change, verdict: Verdict) -> ComparedRow {
        ComparedRow {
            before: one_side(self.before, &row.before),
            after: one_side(self.after, &row.after),
            names: row.names,
            shown: row.shown,
            was: row.was,
            interval: change.interval(1.0 - self.options.level),
            change,
            verdict,
            moved: None,
            detectable: f64::INFINITY,
            needs_for_bound: None,
        }
    }

    /// What is told of cost that moved between rows.
    fn moved(&self, (flow, rows): (&Flow, &[Matched]), change: Change, verdict: Verdict) -> Move {
        let names = |list: &[usize]| -> Vec<String> {
            let rows = list.iter().filter_map(|at| rows.get(*at));
            let symbol = self
                .before
                .first()
                .and_then(|run| place(run.keys(), SYMBOL));
            let names = rows.filter_map(|row| row.names.get(symbol?));
            names.map(|name| plain_symbol(name).into_owned()).collect()
        };
        let all = || flow.from.iter().chain(&flow.into);
        let cost = |runs: &[Run], of: &dyn Fn(&Matched) -> &Vec<Found>| -> f64 {
            let rows = all().filter_map(|at| rows.get(*at));
            rows.map(|row| one_side(runs, of(row)).cost).sum()
        };
        Move {
            is_inlined: flow.is_inlined,
            from: names(&flow.from),
            into: names(&flow.into),
            costs: [
                cost(self.before, &|row| &row.before),
                cost(self.after, &|row| &row.after),
            ],
            interval: change.interval(1.0 - self.options.level),
            change,
            verdict,
        }
    }

    /// That of the total; sampling makes no scatter in it.
    fn total_change(&self) -> Change {
        let of = |runs: &[Run]| -> Vec<Figure> {
            let cost = |run: &Run| 100.0 * run.total() / run.work / self.whole;
            let figure = |run: &Run| Figure {
                value: cost(run),
                // A sample more or less.
                variance: (cost(run) / run.samples().max(1) as f64).powi(2),
            };
            runs.iter().map(figure).collect()
        };
        self.sides(&of(self.before), &of(self.after)).change(None)
    }

    fn total(&self, change: Change, verdict: Option<Verdict>) -> Total {
        Total {
            before: self.whole,
            after: self.whole * (1.0 + change.value / 100.0),
            interval: change.interval(1.0 - self.options.level),
            verdict: verdict.filter(|_| change.kind == Kind::AnotherRun),
            change,
        }
    }
}

fn one_side(runs: &[Run], found: &[Found]) -> OneSide {
    let count = runs.len().max(1) as f64;
    let both = || runs.iter().zip(found);
    let costs = both().map(|(run, found)| found.weight / run.work);
    let shares: Vec<Figure> = found.iter().map(|found| found.share).collect();
    let interval = mean_interval(&shares, 0.95).scaled(100.0);
    OneSide {
        cost: costs.sum::<f64>() / count,
        share: 100.0 * shares.iter().map(|share| share.value).sum::<f64>() / count,
        interval: Interval {
            low: interval.low.clamp(0.0, 100.0),
            high: interval.high.clamp(0.0, 100.0),
        },
        samples: found.iter().map(|found| found.samples).sum(),
    }
}

/// What is sure and matters most, then what moved, then what might matter, then
/// what is the same. Of what moved, its sum matters.
fn by_weight_of_verdict((a, b): (&ComparedRow, &ComparedRow), moves: &[Move]) -> Ordering {
    let of_move = |row: &ComparedRow| row.moved.and_then(|moved| moves.get(moved.place()));
    let class = |row: &ComparedRow| match row.verdict {
        Verdict::Faster | Verdict::Slower => 0,
        _ if row.moved.is_some() => 1,
        Verdict::Undecided { .. } => 2,
        Verdict::Same => 3,
    };
    // The end of the interval that is nearer to no change.
    let at_least = |row: &ComparedRow| {
        let interval = of_move(row).map_or(row.interval, |it| it.interval);
        let nearer = interval.low.abs().min(interval.high.abs());
        if interval.contains(0.0) { 0.0 } else { nearer }
    };
    let size = |row: &ComparedRow| row.before.share.max(row.after.share);
    class(a)
        .cmp(&class(b))
        .then_with(|| at_least(b).total_cmp(&at_least(a)))
        .then_with(|| match class(a) {
            0 | 1 => b.change.value.abs().total_cmp(&a.change.value.abs()),
            _ => size(b).total_cmp(&size(a)),
        })
        .then_with(|| a.names.cmp(&b.names))
}

#[cfg(test)]
pub(crate) mod tests;
