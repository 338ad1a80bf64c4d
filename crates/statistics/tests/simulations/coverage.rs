//! 95 % intervals contain the truth in 93 to 97 % of 1000 recordings.

use crate::simulated::{
    Coverage, Method, Program, SHAPES, SHARES, Shape, TICKS, path_fixed, path_redrawn,
};
use crate::{assert_between, seed};

const TRIES: usize = 1000;

fn holds(shape: Shape) {
    let seed = seed(&format!("coverage of {shape:?}"));
    for share in SHARES {
        let program = Program {
            shape,
            share,
            ticks: TICKS,
        };
        let fixed = path_fixed(program, Method::Ours, TRIES, seed);
        check(&fixed, &format!("{shape:?} {share}, sampled again"));
        if fixed.hits < 30.0 {
            let width = fixed.width_to_oracle;
            assert!(width < 1.5, "{shape:?} {share}: {width} times as wide");
        }
        let redrawn = path_redrawn(program, 5, TRIES, seed ^ 1);
        check(&redrawn, &format!("{shape:?} {share}, run again"));
    }
}

#[track_caller]
fn check(coverage: &Coverage, what: &str) {
    assert_between(coverage.inside, coverage.tries, (0.93, 0.97), what);
}

#[test]
fn of_a_steady_program() {
    holds(Shape::Steady);
}

#[test]
fn of_threads_that_do_different_things() {
    holds(Shape::Threads);
}

#[test]
fn of_phases() {
    holds(Shape::Phases);
}

#[test]
fn of_bursts() {
    holds(Shape::Bursts);
}

#[test]
fn of_samples_that_are_lost_in_pieces() {
    holds(Shape::Lossy);
}

#[test]
fn of_periods_that_follow_the_phases() {
    holds(Shape::Periods);
}

/// Recordings of 800 samples, which have four phases, and of a function with half a
/// percent four samples.
#[test]
fn of_few_samples_and_few_phases() {
    let seed = seed("coverage of short runs");
    for shape in SHAPES {
        for share in SHARES {
            let program = Program {
                shape,
                share,
                ticks: 800,
            };
            let fixed = path_fixed(program, Method::Ours, TRIES, seed);
            let what = format!("short {shape:?} {share}");
            assert_between(fixed.inside, fixed.tries, (0.93, 1.0), &what);
            let width = fixed.width_to_oracle;
            assert!(width < 1.5, "{what}: {width} times as wide");
        }
    }
}

/// The table at `Moments::share`: `benches/coverage` runs this with 5000 tries
/// (`PROF_TRIES`).
#[test]
#[ignore = "a bench"]
#[allow(clippy::print_stdout)]
fn table_of_methods() {
    let given = std::env::var("PROF_TRIES").ok();
    let tries = given.and_then(|text| text.parse().ok()).unwrap_or(5000);
    let seed = seed("table");
    println!("{tries} tries each: percent inside (width / oracle's)");
    let programs = SHAPES.into_iter().flat_map(|shape| {
        SHARES.map(|share| Program {
            shape,
            share,
            ticks: TICKS,
        })
    });
    for program in programs {
        let mut line = format!(
            "{:8} {:4} %",
            format!("{:?}", program.shape),
            100.0 * program.share
        );
        let mut add = |name: &str, of: &Coverage| {
            let width = of.width_to_oracle;
            line.push_str(&format!("  {name} {:.1} ({width:.2})", of.percent()));
        };
        let others = [Method::Independent, Method::Blocks, Method::Differences];
        for method in others {
            let of = path_fixed(program, method, tries, seed);
            add(&format!("{method:?}"), &of);
        }
        let ours = path_fixed(program, Method::Ours, tries, seed);
        add("ours", &ours);
        let redrawn = [3, 5].map(|runs| path_redrawn(program, runs, tries, seed));
        add("3 runs", &redrawn[0]);
        add("5 runs", &redrawn[1]);
        println!("{line}");
        for of in redrawn.iter().chain([&ours]) {
            check(of, &line);
        }
    }
}
