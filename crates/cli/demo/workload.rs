//! The built-in program that `prof demo` records: threads that each do one
//! thing worth seeing in a profile, for a given time.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{self, Write};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Runs every part in a thread of its name until the time is over.
pub(super) fn run(time: Duration) -> io::Result<()> {
    let end = Instant::now() + time;
    let shared = Mutex::new(0);
    let parts: [(&str, &(dyn Fn(Instant) + Sync)); 7] = [
        ("recursion", &recurse),
        ("inlining", &inline),
        ("sorting", &sort),
        ("hashing", &hash),
        ("locking-1", &|end| lock(&shared, end)),
        ("locking-2", &|end| lock(&shared, end)),
        ("system-calls", &call_system),
    ];
    thread::scope(|scope| {
        for (name, part) in parts {
            let builder = thread::Builder::new().name(name.to_owned());
            builder.spawn_scoped(scope, move || part(end))?;
        }
        Ok(())
    })
}

fn is_over(end: Instant) -> bool {
    Instant::now() >= end
}

/// Deep stacks: a binary tree built and summed by recursion.
fn recurse(end: Instant) {
    while !is_over(end) {
        black_box(sum_tree(&build_tree(14)));
    }
}

struct Tree {
    value: u64,
    branches: Option<Box<[Tree; 2]>>,
}

#[inline(never)]
fn build_tree(depth: u32) -> Tree {
    Tree {
        value: u64::from(depth),
        branches: depth
            .checked_sub(1)
            .map(|below| Box::new([build_tree(below), build_tree(below)])),
    }
}

#[inline(never)]
fn sum_tree(tree: &Tree) -> u64 {
    let below: u64 = tree
        .branches
        .iter()
        .flat_map(|two| two.iter())
        .map(sum_tree)
        .sum();
    tree.value + below
}

/// Inlined frames: points of the Mandelbrot set, each step two calls deep.
fn inline(end: Instant) {
    let mut row = 0;
    while !is_over(end) {
        let imaginary = f64::from(row % 200) / 100.0 - 1.0;
        for column in 0..300 {
            let real = f64::from(column) / 100.0 - 2.0;
            black_box(steps_to_escape(Complex { real, imaginary }));
        }
        row += 1;
    }
}

#[derive(Clone, Copy)]
struct Complex {
    real: f64,
    imaginary: f64,
}

impl Complex {
    #[inline(always)]
    fn square(self) -> Self {
        Self {
            real: self.real * self.real - self.imaginary * self.imaginary,
            imaginary: 2.0 * self.real * self.imaginary,
        }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self {
            real: self.real + other.real,
            imaginary: self.imaginary + other.imaginary,
        }
    }

    #[inline(always)]
    fn has_escaped(self) -> bool {
        self.real * self.real + self.imaginary * self.imaginary > 4.0
    }
}

#[inline(never)]
fn steps_to_escape(point: Complex) -> u32 {
    const MOST: u32 = 500;
    let mut at = point;
    for step in 0..MOST {
        if at.has_escaped() {
            return step;
        }
        at = at.square().plus(point);
    }
    MOST
}

/// Xorshift: the same numbers in every run.
struct Numbers(u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Some(self.0)
    }
}

/// Library code with a comparison of ours in it.
fn sort(end: Instant) {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    while !is_over(end) {
        let mut some: Vec<u64> = numbers.by_ref().take(50_000).collect();
        some.sort_by(|left, right| compare_low_bits(*left, *right));
        black_box(some.last());
    }
}

#[inline(never)]
fn compare_low_bits(left: u64, right: u64) -> std::cmp::Ordering {
    (left & 0xff_ffff).cmp(&(right & 0xff_ffff))
}

/// Hashing, and the memory it touches.
fn hash(end: Instant) {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    while !is_over(end) {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for number in numbers.by_ref().take(50_000) {
            count_word(&mut counts, number % 10_007);
        }
        black_box(counts.len());
    }
}

#[inline(never)]
fn count_word(counts: &mut HashMap<u64, u32>, word: u64) {
    *counts.entry(word).or_default() += 1;
}

/// Two threads that want the same lock.
fn lock(shared: &Mutex<u64>, end: Instant) {
    while !is_over(end) {
        for _ in 0..1000 {
            add_under_lock(shared);
        }
    }
}

#[inline(never)]
fn add_under_lock(shared: &Mutex<u64>) {
    // Nobody panics while holding it; if so, the sum does not matter.
    if let Ok(mut sum) = shared.lock() {
        *sum = black_box(sum.wrapping_add(1));
    }
}

/// Time in the kernel: files read and bytes written away.
fn call_system(end: Instant) {
    let Ok(mut sink) = std::fs::OpenOptions::new().write(true).open("/dev/null") else {
        return; // a sandbox without devices: the other parts are enough
    };
    while !is_over(end) {
        for _ in 0..100 {
            // What is read, and whether, does not matter.
            let text = std::fs::read("/proc/self/stat").unwrap_or_default();
            let _ = sink.write_all(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Complex, build_tree, run, steps_to_escape, sum_tree};
    use std::time::{Duration, Instant};

    #[test]
    fn every_part_ends_when_the_time_is_over() {
        let start = Instant::now();
        run(Duration::from_millis(10)).expect("threads start");
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn the_parts_do_what_they_say() {
        // Depths 2, 1, 1, 0, 0, 0, 0.
        assert_eq!(sum_tree(&build_tree(2)), 4);
        let point = |real| Complex {
            real,
            imaginary: 0.0,
        };
        assert_eq!(steps_to_escape(point(0.0)), 500);
        assert_eq!(steps_to_escape(point(3.0)), 0);
    }
}
