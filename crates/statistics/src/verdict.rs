//! What may be said of a change.

use crate::{
    Adjusting, Change, Control, Kind, adjusted, adjusted_together, detectable, level_of_one_more,
    runs_needed, samples_needed,
};

/// Whether a row changed between two measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It costs less.
    Faster,
    /// It costs more.
    Slower,
    /// Its cost did not change by as much as the bound.
    Same,
    /// The data cannot tell.
    Undecided {
        /// Runs (of each side) or, where one a side was given, samples in
        /// units of those at hand that would decide in nine of ten tries;
        /// `None` if no number that anyone would measure does.
        needs: Option<u64>,
    },
}

/// The parameters of the tests.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// A change smaller than this, in the unit of the changes, counts as none.
    pub bound: f64,
    /// The accepted rate of false discoveries, such as 0.05.
    pub level: f64,
    /// How dependence between rows is accounted for.
    pub control: Control,
}

/// The verdict on each change. "Faster" or "slower" is said first, "same" of
/// what is left; each kind has its false discoveries controlled over all
/// rows, those of changes so that it holds for many comparisons together.
pub fn verdicts(changes: &[Change], question: &Question) -> Vec<Verdict> {
    let p_values: Vec<f64> = changes.iter().map(Change::p_value).collect();
    let of_difference = adjusted_together(&p_values, question.control);
    let p_values: Vec<f64> = changes
        .iter()
        .map(|change| change.p_of_as_large_as(question.bound))
        .collect();
    let of_equality = adjusted(&p_values, question.control);
    let level =
        |adjusted, how| level_of_one_more(adjusted, question.level, (how, question.control));
    let levels = [
        level(&of_difference, Adjusting::Together),
        level(&of_equality, Adjusting::Each),
    ];
    let both = of_difference.iter().zip(&of_equality);
    changes
        .iter()
        .zip(both)
        .map(|(change, (&differs, &equals))| match change.value {
            value if differs <= question.level && value < 0.0 => Verdict::Faster,
            value if differs <= question.level && value > 0.0 => Verdict::Slower,
            _ if equals <= question.level => Verdict::Same,
            _ => Verdict::Undecided {
                needs: needs(change, question.bound, levels),
            },
        })
        .collect()
}

/// What runs can show of rows that scatter as theirs do, at the level that what is
/// said of the other rows leaves.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    level: f64,
    bound: f64,
}

impl Reach {
    /// That of the runs of these changes.
    pub fn of(changes: &[Change], question: &Question) -> Self {
        let p_values: Vec<f64> = changes.iter().map(Change::p_value).collect();
        let of_difference = adjusted_together(&p_values, question.control);
        Self {
            level: level_of_one_more(
                &of_difference,
                question.level,
                (Adjusting::Together, question.control),
            ),
            bound: question.bound,
        }
    }

    /// The least change of this row that they show in nine of ten tries.
    pub fn detectable(&self, change: &Change) -> f64 {
        detectable(change.error, change.df, self.level)
    }

    /// How many runs of each side (or times the samples) show a change of this row
    /// by the bound in nine of ten tries.
    pub fn needs_for_bound(&self, change: &Change) -> Option<u64> {
        needed(change, self.bound, self.level)
    }
}

/// The same for a change of `difference` at a level.
fn needed(change: &Change, difference: f64, level: f64) -> Option<u64> {
    match change.kind {
        Kind::TheseRuns => samples_needed(change.error, difference, level),
        Kind::AnotherRun => runs_needed(change.scatter(), difference, level),
    }
}

/// Runs of each side that would decide if the change is as it seems: to show
/// it, or to show that it is below the bound, whichever is less. Each at the level
/// that what is said of the other rows leaves.
fn needs(change: &Change, bound: f64, [to_differ, to_equal]: [f64; 2]) -> Option<u64> {
    let to_show = needed(change, change.value, to_differ);
    let left = bound - change.value.abs();
    let to_exclude = (left > 0.0)
        .then(|| needed(change, left, 2.0 * to_equal))
        .flatten();
    let least = match (to_show, to_exclude) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    // A run more is more than is known now.
    let known = match change.kind {
        Kind::TheseRuns => 2,
        Kind::AnotherRun => (change.df / 2.0).floor().clamp(1.0, 1e6) as u64 + 1,
    };
    least.map(|least| least.max(known))
}

#[cfg(test)]
mod tests {
    use super::{Question, Reach, Verdict, verdicts};
    use crate::{Change, Control, Kind};

    fn change(value: f64, error: f64) -> Change {
        Change {
            value,
            error,
            df: 8.0,
            deviation: error * (5.0_f64 / 2.0).sqrt(),
            kind: Kind::AnotherRun,
        }
    }

    const QUESTION: Question = Question {
        bound: 2.0,
        level: 0.05,
        control: Control::Usual,
    };

    #[test]
    fn each_verdict_is_given_where_it_holds() {
        let changes = [
            change(-5.0, 0.3),
            change(4.0, 0.3),
            change(0.1, 0.2),
            change(1.5, 1.0),
        ];
        let found = verdicts(&changes, &QUESTION);
        assert_eq!(
            found[..3],
            [Verdict::Faster, Verdict::Slower, Verdict::Same]
        );
        let Verdict::Undecided { needs: Some(needs) } = found[3] else {
            panic!("{found:?}");
        };
        assert!((30..60).contains(&needs), "{needs}");
    }

    #[test]
    fn among_many_rows_more_runs_are_needed_for_one() {
        let open = change(0.9, 1.0);
        let needs = |others: usize| {
            let mut rows = vec![change(0.0, 0.8); others];
            rows.push(open);
            Reach::of(&rows, &QUESTION).needs_for_bound(&open).unwrap()
        };
        assert!(needs(20) > needs(4) && needs(4) > needs(0));
        // What runs show is what those that are named for it are for.
        let alone = Reach::of(&[open], &QUESTION);
        let least = alone.detectable(&open);
        let question = Question {
            bound: least,
            ..QUESTION
        };
        let again = Reach::of(&[open], &question).needs_for_bound(&open);
        assert!((5..=7).contains(&again.unwrap()), "{again:?}");
    }

    #[test]
    fn one_small_p_value_among_many_is_no_discovery() {
        // t = 3 alone is one; among a hundred rows it is not.
        let alone = [change(0.3, 0.1)];
        assert_eq!(verdicts(&alone, &QUESTION), [Verdict::Slower]);
        let mut many = vec![change(0.0, 0.1); 100];
        many[0] = change(0.3, 0.1);
        assert_eq!(verdicts(&many, &QUESTION)[0], Verdict::Same);
    }
}
