//! Keys, clicks and sizes by chance: whatever was pressed before, the session
//! goes on, draws all of its screen, and leads back to where it began.
//!
//! A few hundred run always; `PROF_WALKS` says how many walks of each profile,
//! `PROF_SEED` of which numbers.

use super::{Bench, bench, clock, lanes};
use crate::binding_table::bindings;
use crate::data::Ask;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use prof_sketch::Sketch;

/// Steps of a walk.
const STEPS: usize = 60;
/// Columns and rows that the terminal may get.
const SIZES: [(u16, u16); 6] = [(100, 20), (80, 24), (200, 60), (40, 10), (20, 5), (131, 33)];

/// Numbers by chance: SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// What is done in a step.
#[derive(Debug, Clone, Copy)]
enum Step {
    Key(KeyEvent),
    Mouse(MouseEventKind, u16, u16),
    Size(u16, u16),
}

/// Every key that means something somewhere, as terminals send it, and letters
/// that are typed into prompts.
fn keys() -> Vec<KeyEvent> {
    let named = [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Enter,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Esc,
        KeyCode::F(1),
    ];
    let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
    let mut keys: Vec<KeyEvent> = named.into_iter().map(plain).collect();
    for key in bindings().flat_map(|binding| binding.keys) {
        let mut letters = key.chars();
        if let (Some(letter), None) = (letters.next(), letters.next()) {
            keys.push(plain(KeyCode::Char(letter)));
        }
        if let Some(letter) = key.strip_prefix("Ctrl-").and_then(|key| key.chars().next()) {
            let code = KeyCode::Char(letter.to_ascii_lowercase());
            keys.push(KeyEvent::new(code, KeyModifiers::CONTROL));
        }
    }
    keys.extend(
        "eamn05.=*"
            .chars()
            .map(|letter| plain(KeyCode::Char(letter))),
    );
    keys
}

fn step(chance: &mut Chance, keys: &[KeyEvent], (width, height): (u16, u16)) -> Step {
    const MOUSE: [MouseEventKind; 6] = [
        MouseEventKind::Down(MouseButton::Left),
        MouseEventKind::Down(MouseButton::Left),
        MouseEventKind::Up(MouseButton::Left),
        MouseEventKind::Drag(MouseButton::Left),
        MouseEventKind::ScrollUp,
        MouseEventKind::ScrollDown,
    ];
    match chance.below(20) {
        0 => {
            let (width, height) = chance.one_of(&SIZES);
            Step::Size(width, height)
        }
        1..=5 => {
            // Beside the screen, too: a terminal may have shrunk meanwhile.
            let column = chance.below(usize::from(width) + 2) as u16;
            let row = chance.below(usize::from(height) + 2) as u16;
            Step::Mouse(chance.one_of(&MOUSE), column, row)
        }
        _ => Step::Key(chance.one_of(keys)),
    }
}

/// Takes a step; nothing is written to a file.
fn take(bench: &mut Bench, step: Step) {
    match step {
        Step::Key(key) => {
            bench.app.key(&key);
            let asks = &mut bench.app.shared.asks;
            asks.retain(|ask| !matches!(ask, Ask::Write(_)));
            bench.settle();
        }
        Step::Mouse(kind, column, row) => {
            bench.mouse(kind, column, row);
        }
        Step::Size(width, height) => {
            bench.resize(width, height);
        }
    }
}

/// How many walks, and of which seed.
fn walks() -> (u64, u64) {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    (
        number("PROF_WALKS").unwrap_or(3),
        number("PROF_SEED").unwrap_or(20_271_124),
    )
}

/// A recursion of hundreds of frames, with branches.
fn deep() -> Bench {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "deep");
    for branch in 0..12 {
        let mut stack = vec!["/bin/app:main"];
        stack.extend(["/bin/app:walk", "/bin/app:walk>visit"].repeat(20 * branch));
        let leaf = format!("/bin/app:leaf_{branch}");
        stack.push(&leaf);
        sketch.sample(task, &stack.join(";"), 1 + branch as u64, 3);
    }
    Bench::new(sketch.profile, 100, 20)
}

fn empty() -> Bench {
    Bench::new(Sketch::new().profile, 100, 20)
}

#[test]
fn any_keys_lead_back() {
    let keys = keys();
    let (walks, seed) = walks();
    let begun = [
        ("ordinary", bench as fn() -> Bench),
        ("waits", clock::with_waits),
        ("lanes", || Bench::new(lanes::profile(), 100, 20)),
        ("deep", deep),
        ("empty", empty),
    ];
    for (name, begin) in begun {
        for walk in seed..seed + walks {
            let mut chance = Chance(walk);
            let mut bench = begin();
            let mut done = Vec::new();
            let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for _ in 0..STEPS {
                    let area = bench.app.shared.area;
                    let next = step(&mut chance, &keys, (area.width, area.height));
                    done.push(next);
                    take(&mut bench, next);
                    bench.screen();
                }
                lead_back(&mut bench)
            }));
            let what = || format!("{name}, walk {walk}: {done:?}");
            match walked {
                Ok(screen) => assert!(screen.contains("Hotspots"), "{}\n{screen}", what()),
                Err(_) => panic!("{}", what()),
            }
        }
    }
}

/// The screen of the first tab, after all that is open was closed.
fn lead_back(bench: &mut Bench) -> String {
    bench.resize(100, 20);
    for _ in 0..2 * STEPS {
        bench.press(KeyCode::Esc);
    }
    bench.press(KeyCode::Char('1')).screen()
}
