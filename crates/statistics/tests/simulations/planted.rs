//! Programs whose runs have something in common, as those of real ones do: equal
//! ones show no change, and planted changes are found with as many runs as earlier
//! ones named.

use crate::decisions::normal;
use crate::simulated::Random;
use crate::{assert_between, seed};
use prof_statistics::{
    Change, Control, Figure, Pairing, Prior, Question, Reach, Scatter, Sides, Verdict, runs_needed,
    verdicts,
};

/// How a program's runs scatter, in parts of what a row costs.
#[derive(Debug, Clone, Copy)]
struct Program {
    /// How many rows.
    rows: usize,
    /// Of all rows of a run together: how fast the machine was.
    shared: f64,
    /// Of a row by itself: a quarter of the rows nine, two and 1.3 times as much by
    /// variance as sampling.
    has_own: bool,
    /// Samples of a run.
    samples: f64,
}

/// Runs of both sides, by row.
type Runs = Vec<(Vec<Figure>, Vec<Figure>)>;

impl Program {
    /// Percent of the total: large, then ever smaller ones.
    fn cost(&self, row: usize) -> f64 {
        let of = |row: usize| 0.85_f64.powi(row as i32);
        100.0 * of(row) / (0..self.rows).map(of).sum::<f64>()
    }

    /// Of equal sides.
    fn equal(&self, runs: usize, random: &mut Random) -> Runs {
        let costs: Vec<f64> = (0..self.rows).map(|row| self.cost(row)).collect();
        let own: Vec<f64> = (0..self.rows)
            .map(|row| match self.has_own {
                true => {
                    let beyond = [0.0_f64, 1.0, 0.3, 8.0][row % 4];
                    (beyond / costs[row] * 100.0 / self.samples).sqrt()
                }
                false => 0.0,
            })
            .collect();
        drawn(&costs, &own, (self, 1.0), runs, random)
    }
}

/// Runs of rows that cost so many percent, each of which scatters by so much of
/// itself beside what all share and what sampling makes; the first is `factor` as
/// dear after.
fn drawn(
    costs: &[f64],
    own: &[f64],
    (program, factor): (&Program, f64),
    runs: usize,
    random: &mut Random,
) -> Runs {
    let mut rows: Runs = vec![Default::default(); costs.len()];
    for side in 0..2 {
        for _ in 0..runs {
            let speed = 1.0 + program.shared * normal(random);
            for (row, (cost, own)) in costs.iter().zip(own).enumerate() {
                let factor = if row == 0 && side == 1 { factor } else { 1.0 };
                let variance = cost * 100.0 / program.samples;
                let value = cost * factor * speed * (1.0 + own * normal(random));
                let figure = Figure {
                    value: value + variance.sqrt() * normal(random),
                    variance,
                };
                match side {
                    0 => rows[row].0.push(figure),
                    _ => rows[row].1.push(figure),
                }
            }
        }
    }
    rows
}

fn question(bound: f64) -> Question {
    Question {
        bound,
        level: 0.05,
        control: Control::Usual,
    }
}

fn changes(rows: &Runs) -> Vec<Change> {
    let sides = rows.iter().map(|(before, after)| Sides {
        before,
        after,
        pairing: Pairing::Independent,
    });
    let prior = Prior::of(sides.clone());
    sides.map(|sides| sides.change(prior)).collect()
}

fn is_change(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Faster | Verdict::Slower)
}

#[test]
fn runs_that_share_the_machine_s_speed_show_a_change_in_a_twentieth_at_most() {
    let mut random = Random::new(seed("A/A, shared"));
    for rows in [8, 20, 60] {
        for (shared, has_own, samples) in [
            (0.03, false, 600.0),
            (0.1, false, 600.0),
            (0.03, true, 600.0),
            (0.03, false, 20_000.0),
            (0.03, true, 20_000.0),
        ] {
            let program = Program {
                rows,
                shared,
                has_own,
                samples,
            };
            for runs in [3, 5] {
                let tries = 600;
                let is_wrong = |random: &mut Random| {
                    let changes = changes(&program.equal(runs, random));
                    verdicts(&changes, &question(2.0)).iter().any(is_change)
                };
                let wrong = (0..tries).filter(|_| is_wrong(&mut random)).count();
                let what = format!("{runs} runs a side of {program:?}");
                assert_between(wrong, tries, (0.0, 0.05), &what);
            }
        }
    }
}

/// What runs of programs on a busy machine of two CPUs scatter by.
const MEASURED: Program = Program {
    rows: 12,
    shared: 0.03,
    has_own: true,
    samples: 600.0,
};
/// Of a row by itself.
const OWN: f64 = 0.02;

/// Costs of the rows where the first one has this share, percent.
fn costs(share: f64) -> Vec<f64> {
    let of = |row: usize| 0.75_f64.powi(row as i32);
    let rest: f64 = (1..MEASURED.rows).map(of).sum();
    let rest = (1..MEASURED.rows).map(|row| (100.0 - share) * of(row) / rest);
    std::iter::once(share).chain(rest).collect()
}

/// Runs of both sides, the first row `dearer` percent dearer after.
fn planted((share, dearer): (f64, f64), runs: usize, random: &mut Random) -> Runs {
    let own = vec![OWN; MEASURED.rows];
    let factor = 1.0 + dearer / 100.0;
    drawn(&costs(share), &own, (&MEASURED, factor), runs, random)
}

/// Runs of an earlier comparison.
const PILOT: usize = 5;
/// Cells that would need more are left to the formula, which knows no limit.
const MOST: u64 = 150;

/// How many runs equal sides of [`PILOT`] name for a change of the first row by
/// `change`; and how many the textbook gives for the scatter that they showed.
fn named(share: f64, change: f64, random: &mut Random) -> (u64, u64) {
    let changes = changes(&planted((share, 0.0), PILOT, random));
    let reach = Reach::of(&changes, &question(change));
    let of_pilot = changes[0];
    let textbook = Scatter {
        df: f64::INFINITY,
        ..of_pilot.scatter()
    };
    let level = 0.05 / changes.len() as f64;
    let textbook = runs_needed(textbook, change, level).expect("a number");
    (
        reach.needs_for_bound(&of_pilot).expect("a number"),
        textbook,
    )
}

/// What came of a cell of the matrix.
#[derive(Default)]
struct Cell {
    tries: usize,
    found: usize,
    said: usize,
    wrong: usize,
    runs: u64,
}

fn tried(share: f64, dearer: f64, tries: usize, random: &mut Random) -> Cell {
    let change = share * dearer / 100.0;
    let mut cell = Cell::default();
    for _ in 0..tries {
        let (runs, textbook) = named(share, change, random);
        assert!(
            2 * runs <= 3 * (textbook + 1),
            "{runs} runs, the textbook {textbook}"
        );
        let changes = changes(&planted((share, dearer), runs as usize, random));
        let said = verdicts(&changes, &question(2.0));
        cell.tries += 1;
        cell.runs += runs;
        cell.found += usize::from(said[0] == Verdict::Slower);
        cell.said += said.iter().filter(|it| is_change(it)).count();
        cell.wrong += said[1..].iter().filter(|it| is_change(it)).count();
    }
    cell
}

#[test]
#[allow(clippy::print_stderr)]
fn planted_changes_are_found_with_the_runs_that_equal_sides_named() {
    let mut random = Random::new(seed("planted matrix"));
    let mut all = Cell::default();
    for share in [2.0, 5.0, 20.0, 50.0] {
        for dearer in [3.0, 5.0, 10.0, 30.0] {
            let change = share * dearer / 100.0;
            if named(share, change, &mut random).0 > MOST {
                // 2 % made 10 % dearer and less, 5 % made 5 % and less.
                continue;
            }
            let cell = tried(share, dearer, 200, &mut random);
            let what = format!("{share} % of the total made {dearer} % dearer");
            let mean = cell.runs / cell.tries as u64;
            eprintln!("{what}: {} of {}, {mean} runs", cell.found, cell.tries);
            assert_between(cell.found, cell.tries, (0.87, 1.0), &what);
            all.tries += cell.tries;
            all.found += cell.found;
            all.said += cell.said;
            all.wrong += cell.wrong;
        }
    }
    assert_between(all.found, all.tries, (0.9, 1.0), "found");
    eprintln!("{} of {} names are wrong", all.wrong, all.said);
    // Rows of a try share their threshold and the machine's speed, so this is no
    // binomial count.
    assert_between(all.wrong, all.said, (0.0, 0.05), "wrong of what is said");
}
