//! A session without a terminal: keys in, screens out.

use super::app::{App, Effect};
use super::views::View;
use super::worker::{self, Order, Reply};
use super::{Background, Charset, Colours, Look, Mouse, frame};
use crate::code::{Arch, CodeSource, FunctionCode, LineAt, NoCode};
use crate::sketch::Sketch;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use prof_profile::{
    ChainEnd, DsoId, EventId, Function, LocationId, Profile, Sample, StackId, StackTree, Svma,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Code for every function: a loop of three lines.
struct Loop;

impl CodeSource for Loop {
    fn function(&self, _: &Profile, function: &Function) -> Result<FunctionCode, NoCode> {
        let file: Arc<str> = Arc::from("/src/app.c");
        let line = |offset, line| LineAt {
            address: function.start.plus(offset),
            file: Arc::clone(&file),
            line,
        };
        Ok(FunctionCode {
            arch: Arch::X86_64,
            start: function.start,
            // push %rbp; call +0; dec %eax; jne -4; pop %rbp; ret
            bytes: vec![0x55, 0xe8, 0, 0, 0, 0, 0xff, 0xc8, 0x75, 0xfc, 0x5d, 0xc3],
            lines: vec![line(0, 1), line(6, 2), line(10, 3)],
        })
    }

    fn source(&self, file: &str) -> Option<String> {
        (file == "/src/app.c").then(|| "int f(int n)\n\twhile (--n);\n}\n".into())
    }

    fn name_at(&self, _: &Profile, _: DsoId, _: Svma) -> Option<String> {
        Some("helper".into())
    }
}

/// A session on a screen of characters, its worker included.
struct Bench {
    app: App,
    terminal: Terminal<TestBackend>,
    orders: mpsc::Sender<Order>,
    replies: mpsc::Receiver<Reply>,
    worker: Option<JoinHandle<()>>,
    /// Longest time that the session took for an answer of the worker.
    slowest_answer: Duration,
}

const PLAIN: Look = Look {
    colours: Colours::Full,
    background: Background::Dark,
    charset: Charset::Unicode,
};

impl Bench {
    fn new(profile: Profile, width: u16, height: u16) -> Self {
        Self::with_look(profile, width, height, PLAIN)
    }

    fn with_look(profile: Profile, width: u16, height: u16, look: Look) -> Self {
        let (orders, ordered) = mpsc::channel();
        let (told, replies) = mpsc::channel();
        let worker = std::thread::spawn(move || {
            let reply = |reply| told.send(reply).is_ok();
            worker::run(&ordered, &reply, &Loop);
        });
        let mut bench = Self {
            app: App::new("perf.data", look, Mouse::On),
            terminal: Terminal::new(TestBackend::new(width, height)).expect("a test backend"),
            orders,
            replies,
            worker: Some(worker),
            slowest_answer: Duration::ZERO,
        };
        bench.app.progress = None;
        bench.app.area = Rect::new(0, 0, width, height);
        bench.app.set_profile(Arc::new(profile));
        bench.settle();
        bench
    }

    /// Lets the worker answer all that is asked.
    fn settle(&mut self) {
        loop {
            let mut waiting = 0;
            if std::mem::take(&mut self.app.reselect) {
                let order = Order::Select {
                    generation: self.app.generation,
                    profile: self.app.profile.clone().expect("set before"),
                    selection: Box::new(self.app.history.now().clone()),
                };
                self.orders.send(order).expect("the worker lives");
                waiting += 1;
            }
            for ask in self.app.asks.drain(..) {
                self.orders.send(Order::Ask(ask)).expect("the worker lives");
                waiting += 1;
            }
            if waiting == 0 {
                return;
            }
            for _ in 0..waiting {
                let (generation, answer) = self.replies.recv().expect("the worker answers");
                let start = Instant::now();
                self.app.answer(generation, answer);
                self.slowest_answer = self.slowest_answer.max(start.elapsed());
            }
        }
    }

    fn press(&mut self, code: KeyCode) -> &mut Self {
        self.app.key(&KeyEvent::new(code, KeyModifiers::NONE));
        self.settle();
        self
    }

    /// Presses the key of each character; Enter for a line end, Esc for `^`.
    fn keys(&mut self, keys: &str) -> &mut Self {
        for key in keys.chars() {
            self.press(match key {
                '\n' => KeyCode::Enter,
                '^' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            });
        }
        self
    }

    fn click(&mut self, column: u16, row: u16) -> &mut Self {
        self.mouse(MouseEventKind::Down(MouseButton::Left), column, row)
    }

    fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) -> &mut Self {
        self.app.mouse(&MouseEvent {
            kind,
            column,
            row,
            modifiers: KeyModifiers::NONE,
        });
        self.settle();
        self
    }

    fn resize(&mut self, width: u16, height: u16) -> &mut Self {
        self.terminal.backend_mut().resize(width, height);
        self
    }

    /// The screen as lines.
    fn screen(&mut self) -> String {
        let app = &mut self.app;
        self.terminal
            .draw(|frame| {
                app.area = frame.area();
                frame::draw(app, frame.buffer_mut());
            })
            .expect("drawing on memory");
        let lines = self.terminal.backend().to_string();
        lines
            .lines()
            .map(|line| line.trim_matches('"').trim_end())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let (nobody, _) = mpsc::channel();
        self.orders = nobody;
        if let Some(worker) = self.worker.take() {
            let joined = worker.join();
            if !std::thread::panicking() {
                joined.expect("the worker does not panic");
            }
        }
    }
}

/// Two processes, kernel and inlined code, recursion.
fn sketch() -> Sketch {
    let mut sketch = Sketch::new();
    let server = sketch.task(100, 100, "server");
    let worker = sketch.task(100, 101, "worker");
    let tool = sketch.task(200, 200, "tool");
    let ms = |count: u64| 1_000_000 * count;
    sketch.sample(server, "/bin/app:main;/bin/app:parse>next_token", ms(1), 40);
    sketch.sample(
        server,
        "/bin/app:main;/bin/app:parse;/lib/libc.so.6:memcpy",
        ms(2),
        20,
    );
    sketch.sample(
        worker,
        "/bin/app:main;/bin/app:eval;/bin/app:eval;/bin/app:eval",
        ms(3),
        15,
    );
    sketch.sample(
        worker,
        "/bin/app:main;[kernel.kallsyms]:do_syscall_64;[kernel.kallsyms]:vfs_read",
        ms(5),
        10,
    );
    sketch.sample(tool, "/bin/tool:main;/lib/libc.so.6:memcpy", ms(8), 10);
    sketch.sample(
        tool,
        "/bin/tool:main;/bin/tool:std::vector::push_back(int const&)",
        ms(9),
        5,
    );
    sketch.profile.origin.time_range = Some((ms(1), ms(9)));
    sketch
}

fn bench() -> Bench {
    Bench::new(sketch().profile, 100, 20)
}

// One picture of each tab.

#[test]
fn hotspots_show_functions_by_self_weight_and_fold_their_callers() {
    let mut bench = bench();
    insta::assert_snapshot!("hotspots", bench.screen());
    bench.press(KeyCode::Down).keys("\n");
    insta::assert_snapshot!("hotspots_open", bench.screen());
}

#[test]
fn the_call_tree_opens_to_its_first_branch_and_turns_around() {
    let mut bench = bench();
    insta::assert_snapshot!("tree", bench.keys("2").screen());
    insta::assert_snapshot!("tree_inverted", bench.keys("IE").screen());
}

#[test]
fn the_flame_graph_zooms_and_flips() {
    let mut bench = bench();
    insta::assert_snapshot!("flame", bench.keys("3").screen());
    insta::assert_snapshot!("flame_zoomed", bench.keys("j\n").screen());
    insta::assert_snapshot!("flame_flipped", bench.keys("^I").screen());
}

#[test]
fn the_flame_graph_tells_of_frames_that_no_column_is_left_for() {
    let mut sketch = Sketch::new();
    let tool = sketch.task(200, 200, "tool");
    sketch.sample(tool, "/bin/tool:main;/bin/tool:wide", 1_000_000, 998);
    sketch.sample(tool, "/bin/tool:main;/bin/tool:narrow", 2_000_000, 1);
    sketch.sample(tool, "/bin/tool:main;/bin/tool:slim", 3_000_000, 1);
    let mut bench = Bench::new(sketch.profile, 100, 20);
    let screen = bench.keys("3").screen();
    let row = screen.lines().nth(3).unwrap_or_default();
    assert!(row.contains("wide") && row.ends_with('+'), "{screen}");
    let screen = bench.press(KeyCode::Down).screen();
    assert!(
        screen.contains("(+2 narrower beside it, 0.20%)"),
        "{screen}"
    );
}

/// A wide function and two hundred that are narrower than a cell; two of
/// them call the same, and one beside a second wide function does.
fn narrow_ones() -> Sketch {
    let mut sketch = Sketch::new();
    let tool = sketch.task(200, 200, "tool");
    let mut add = |stack: &str, weight| sketch.sample(tool, stack, 1_000_000, weight);
    add("tool:main;tool:wide", 7800);
    add("tool:main;tool:second;tool:broad", 1180);
    add("tool:main;tool:second;tool:slim;tool:needle", 20);
    for name in 0..100 {
        let callee = match name {
            27 => ";tool:haystack;tool:needle",
            72 => ";tool:needle",
            _ => "",
        };
        add(&format!("tool:main;tool:narrow_{name}{callee}"), 10);
    }
    sketch
}

#[test]
fn search_finds_merged_frames_of_the_flame_graph() {
    let mut bench = Bench::new(narrow_ones().profile, 100, 12);
    let screen = bench.keys("3/needle").screen();
    assert!(screen.contains("1 function, in 0.40% of"), "{screen}");
    insta::assert_snapshot!("flame_found_merged", bench.keys("\n").screen());
    insta::assert_snapshot!("flame_found_beside", bench.keys("nn").screen());
    // Where there is a match is seen wherever the cursor is.
    let found = bench.app.theme.found();
    let lit = |bench: &mut Bench| {
        bench.screen();
        let buffer = bench.terminal.backend().buffer();
        let cells = buffer.content.iter().zip(0_u16..);
        let is_lit = |cell: &ratatui::buffer::Cell| Some(cell.bg) == found.bg;
        cells
            .filter(|(cell, _)| is_lit(cell))
            .map(|(cell, at)| (at % 100, at / 100, cell.symbol().to_string()))
            .collect::<Vec<_>>()
    };
    let beside = (89, 4, "+".to_string());
    let [left, right] = [93, 97].map(|column| (column, 3, "▒".to_string()));
    assert_eq!(lit(&mut bench), [left.clone(), right.clone()]);
    bench.press(KeyCode::Home);
    assert_eq!(lit(&mut bench), [left, right, beside]);
    // Around the end, and back.
    let place = |bench: &mut Bench| bench.screen().find('▶');
    let places = ["n", "n", "n", "n", "N"].map(|key| place(bench.keys(key)));
    let [first, second, third, again, back] = places;
    assert!(first < second && second < third, "{places:?}");
    assert_eq!((again, back), (first, third));
    // Enter shows it.
    insta::assert_snapshot!("flame_found_zoomed", bench.keys("\n").screen());
    // No other is in what is zoomed into.
    let screen = bench.keys("n").screen();
    assert!(screen.contains("no other match in this view"), "{screen}");
    // If none is, the whole is back.
    let screen = bench.keys("/broad\n").screen();
    assert!(screen.contains("▶broad"), "{screen}");
    assert!(screen.contains("▏wide"), "{screen}");
}

#[test]
fn the_cursor_is_seen_on_merged_frames() {
    let mut bench = Bench::new(narrow_ones().profile, 100, 12);
    bench.keys("3j").press(KeyCode::Right);
    let row = |bench: &mut Bench, row| {
        let screen = bench.screen();
        screen.lines().nth(row).unwrap_or_default().to_string()
    };
    assert!(row(&mut bench, 3).contains("▶second"));
    // Beside the last cell are narrower ones.
    bench.keys("jl");
    let line = row(&mut bench, 4);
    assert_eq!(line.chars().nth(89), Some('▶'), "{line}");
    let screen = bench.screen();
    assert!(screen.contains("[.] slim"), "{screen}");
    assert!(
        screen.contains("(narrower than a column; Enter zooms in)"),
        "{screen}"
    );
    // What they call is not drawn.
    let screen = bench.keys("j").screen();
    assert!(screen.contains("too narrow to be drawn"), "{screen}");
    bench.keys("h");
    assert!(row(&mut bench, 4).contains("▶broad"));
    let screen = bench.click(89, 4).screen();
    assert!(screen.contains("[.] slim"), "{screen}");
    // Up from it is its caller; a merged cell is one for the cursor, too.
    bench.keys("kll");
    let line = row(&mut bench, 3);
    assert!(line.contains("▶▒"), "{line}");
    let screen = bench.screen();
    assert!(
        screen.contains("(one cell for 10 frames, together"),
        "{screen}"
    );
    // Twice the same is Enter.
    let column = line
        .chars()
        .position(|it| it == '▶')
        .expect("on the screen");
    let column = u16::try_from(column).expect("small");
    bench.click(column, 3);
    assert!(row(&mut bench, 3).starts_with("▶narrow_"));
}

#[test]
fn a_function_without_a_cell_is_zoomed_into() {
    let mut bench = Bench::new(narrow_ones().profile, 100, 12);
    let screen = bench.keys("/haystack\n^g").screen();
    assert!(screen.contains("▶haystack"), "{screen}");
    let screen = bench.keys("^").screen();
    assert!(screen.contains("▏wide"), "{screen}");
}

#[test]
fn callers_and_callees_stand_above_each_other() {
    let mut bench = bench();
    insta::assert_snapshot!("callers", bench.keys("/memcpy\nc").screen());
}

#[test]
fn code_shows_lines_instructions_and_jumps() {
    let mut bench = bench();
    insta::assert_snapshot!("code", bench.keys("/eval\na").screen());
}

#[test]
fn threads_show_their_share_over_time() {
    let mut bench = bench();
    insta::assert_snapshot!("threads", bench.keys("6").screen());
}

#[test]
fn the_timeline_shows_when_and_selects_a_range() {
    let mut bench = bench();
    insta::assert_snapshot!("timeline", bench.keys("7").screen());
    bench.keys("\n").press(KeyCode::End).keys("\n");
    assert!(bench.screen().contains("6 samples"), "{}", bench.screen());
    bench.press(KeyCode::Home).keys("\n").keys("\n1");
    let screen = bench.screen();
    assert!(screen.contains("  1 sample  time=0 ns.."), "{screen}");
}

#[test]
fn a_range_is_dragged_over_the_timeline() {
    let left = MouseButton::Left;
    let mut bench = bench();
    bench.keys("7").screen();
    bench.mouse(MouseEventKind::Down(left), 18, 4);
    let screen = bench.mouse(MouseEventKind::Drag(left), 60, 4).screen();
    assert!(screen.contains("Enter ends the range"), "{screen}");
    // Past the edge is up to the end.
    bench.mouse(MouseEventKind::Drag(left), 5000, 4);
    let screen = bench.mouse(MouseEventKind::Up(left), 5000, 4).screen();
    assert!(screen.contains(" time=0 ns.."), "{screen}");
    assert!(screen.contains("  6 samples"), "{screen}");
    bench.keys("u");
    // A press that does not move only begins a range; the next ends it.
    bench.mouse(MouseEventKind::Down(left), 18, 4);
    bench.mouse(MouseEventKind::Up(left), 18, 4);
    let screen = bench.screen();
    assert!(screen.contains("Enter ends the range"), "{screen}");
    assert!(!screen.contains(" time="), "{screen}");
    bench.mouse(MouseEventKind::Down(left), 18, 4);
    let screen = bench.mouse(MouseEventKind::Up(left), 18, 4).screen();
    assert!(screen.contains("  1 sample  time=0 ns.."), "{screen}");
}

#[test]
fn help_finds_commands_by_name() {
    let mut bench = bench();
    // What it does does not say the word.
    let screen = bench.keys("?/collapse recur").screen();
    assert!(screen.contains("calls itself once"), "{screen}");
    let screen = bench.keys("\n").screen();
    assert!(screen.contains("recursion as one"), "{screen}");
}

#[test]
fn help_and_the_palette_come_from_the_bindings() {
    let mut bench = bench();
    insta::assert_snapshot!("help", bench.keys("?").screen());
    insta::assert_snapshot!("palette", bench.keys("^:zoom").screen());
    // Enter runs the command: only samples of the module.
    bench.keys("^:zoom module\n");
    assert!(bench.screen().contains(" dso=app"), "{}", bench.screen());
}

// Behaviour.

#[test]
fn search_is_incremental_and_says_what_it_covers() {
    let mut bench = bench();
    let screen = bench.keys("/MEM").screen();
    assert!(screen.contains("0 functions"), "{screen}");
    let screen = bench.keys("^/mem").screen();
    assert!(screen.contains("/mem/ 1 function, in 30.00%"), "{screen}");
    let screen = bench.keys("\n").screen();
    assert!(screen.contains("[.] memcpy  /lib/libc.so.6"), "{screen}");
    let screen = bench.keys("/(").screen();
    assert!(screen.contains("not a regular expression"), "{screen}");
}

#[test]
fn n_opens_the_way_to_the_next_match_in_the_tree() {
    let mut bench = bench();
    bench.keys("2C/push_back\n");
    let screen = bench.screen();
    assert!(screen.contains("std::vector::push_back"), "{screen}");
    assert!(screen.contains("▾ [.] main"), "{screen}");
}

#[test]
fn filters_hold_in_all_views_and_are_taken_back() {
    let mut bench = bench();
    let screen = bench.keys("fcomm=tool\n").screen();
    assert!(screen.contains("2 of 6 samples"), "{screen}");
    assert!(screen.contains(" comm=tool"), "{screen}");
    for view in ["2", "3", "6"] {
        let screen = bench.keys(view).screen();
        assert!(!screen.contains("parse"), "{view}: {screen}");
        assert!(screen.contains(" comm=tool"), "{view}: {screen}");
    }
    let screen = bench.keys("1u").screen();
    assert!(screen.contains("  6 samples"), "{screen}");
    let screen = bench.keys("U").screen();
    assert!(screen.contains(" comm=tool"), "{screen}");
    let screen = bench.press(KeyCode::Backspace).screen();
    assert!(screen.contains("  6 samples"), "{screen}");
}

#[test]
fn a_filter_that_keeps_nothing_says_how_to_go_back() {
    let mut bench = bench();
    let screen = bench.keys("fcomm=nobody\n").screen();
    assert!(screen.contains("the filters keep no sample"), "{screen}");
    let screen = bench.keys("ftid=x\n").screen();
    assert!(screen.contains("is not a number"), "{screen}");
    let screen = bench.keys("f[\n").screen();
    assert!(screen.contains("not a regular expression"), "{screen}");
}

#[test]
fn a_selection_that_takes_long_says_so() {
    let mut bench = bench();
    bench.keys("fcomm=tool");
    // As the session does when the worker does not answer.
    bench.app.key(&KeyEvent::from(KeyCode::Enter));
    bench.app.is_slow = true;
    let screen = bench.screen();
    assert!(screen.contains("computing; what was before"), "{screen}");
    assert!(screen.contains("next_token"), "{screen}");
    bench.settle();
    let screen = bench.screen();
    assert!(!screen.contains("computing"), "{screen}");
    assert!(!screen.contains("next_token"), "{screen}");
}

#[test]
fn a_recording_without_samples_says_so() {
    let mut bench = Bench::new(Sketch::new().profile, 80, 12);
    assert!(
        bench.screen().contains("no samples of this event"),
        "{}",
        bench.screen()
    );
    for view in ["2", "3", "4", "5", "6", "7", "1"] {
        bench
            .keys(view)
            .keys("\n+EC")
            .press(KeyCode::Down)
            .press(KeyCode::End);
        bench.screen();
    }
}

#[test]
fn transforms_are_chips_and_toggle() {
    let mut bench = bench();
    bench.keys("/eval\n^R");
    let screen = bench.screen();
    assert!(screen.contains("recursion as one"), "{screen}");
    let screen = bench.keys("2E").screen();
    assert_eq!(screen.matches("[.] eval").count(), 1, "{screen}");
    let screen = bench.keys("R").screen();
    assert!(!screen.contains("recursion as one"), "{screen}");
}

#[test]
fn clicks_select_fold_sort_and_switch_tabs() {
    let mut bench = bench();
    // The heading of the total.
    let screen = bench.click(5, 2).screen();
    assert!(screen.contains("Total▾"), "{screen}");
    bench.screen();
    let screen = bench.click(15, 0).screen();
    assert!(
        screen
            .lines()
            .nth(2)
            .is_some_and(|line| line.contains("Symbol")),
        "{screen}"
    );
    // The fold sign of the first row, in the tree.
    let rows = bench.screen().lines().count();
    let open = bench.screen();
    let closed = bench.click(2 * 8 + 11 + 16, 3).screen();
    assert_eq!(closed.lines().count(), rows);
    assert_ne!(open, closed);
}

#[test]
fn every_size_is_drawn_and_small_ones_say_what_is_enough() {
    let mut bench = bench();
    for view in ["1", "2", "3", "4", "5", "6", "7", "?"] {
        bench.keys(view);
        for (width, height) in [
            (1, 1),
            (10, 3),
            (39, 9),
            (40, 10),
            (80, 24),
            (300, 100),
            (40, 100),
        ] {
            let screen = bench.resize(width, height).screen();
            if width < 40 || height < 10 {
                assert!(
                    screen.is_empty() || !screen.contains("Hotspots"),
                    "{screen}"
                );
            }
        }
    }
    let screen = bench.resize(30, 8).screen();
    assert!(
        screen.replace('\n', " ").contains("40x10 is enough"),
        "{screen}"
    );
}

#[test]
fn without_unicode_or_colour_nothing_is_lost() {
    let look = Look {
        colours: Colours::None,
        background: Background::Dark,
        charset: Charset::Ascii,
    };
    let mut bench = Bench::with_look(sketch().profile, 100, 20, look);
    for view in ["1", "2E", "3", "4", "/eval\na", "6", "7", "?"] {
        let screen = bench.keys(view).screen();
        assert!(screen.is_ascii(), "{view}: {screen}");
        for cell in &bench.terminal.backend().buffer().content {
            use ratatui::style::Color;
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{view}");
        }
        bench.keys("^");
    }
    insta::assert_snapshot!("flame_ascii", bench.keys("^^3").screen());
}

#[test]
fn hostile_names_reach_no_terminal_raw() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "co\x1b]0;x\x07mm");
    let long = "L".repeat(65_536);
    let evil = [
        "a\x1b[2Jb",
        "line\nend",
        "\u{202e}rtl",
        "\u{9b}31m",
        "tab\tbell\x07",
        &long,
    ];
    for name in evil {
        let stack = format!(
            "/bin/\x1bapp:main\x1b[31m;/bin/\x1bapp:{}",
            name.replace([':', ';', '>'], "")
        );
        sketch.sample(task, &stack, 1, 10);
    }
    let mut bench = Bench::new(sketch.profile, 80, 20);
    for view in ["1", "2E", "3", "4", "5", "6", "7", "i", "?"] {
        bench.keys(view).screen();
        bench.press(KeyCode::Down).screen();
        for cell in &bench.terminal.backend().buffer().content {
            let is_hidden = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
            assert!(!cell.symbol().chars().any(is_hidden), "{:?}", cell.symbol());
        }
        bench.keys("^");
    }
}

#[test]
fn a_name_longer_than_its_column_is_whole_in_the_detail() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "comm");
    let name = format!("begin_{}_end", "x".repeat(150));
    sketch.sample(task, &format!("/bin/app:{name}"), 1, 10);
    let mut bench = Bench::new(sketch.profile, 80, 24);
    let whole = bench.screen().replace('\n', "");
    assert!(whole.contains(&name), "{whole}");
}

#[test]
fn a_detail_longer_than_its_place_is_cut_once() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    sketch.sample(task, &format!("app:{}", "f".repeat(2000)), 1, 10);
    let mut bench = Bench::new(sketch.profile, 60, 12);
    let screen = bench.screen();
    let cut = screen.lines().nth_back(1).unwrap_or_default();
    assert!(cut.ends_with("ffff…"), "{screen}");
    assert_eq!(cut.chars().count(), 60, "{screen}");
}

#[test]
fn a_deep_row_moves_left_so_that_its_name_is_seen() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    let names: Vec<String> = (0..60).map(|depth| format!("app:level_{depth}")).collect();
    sketch.sample(task, &names.join(";"), 1, 10);
    let mut bench = Bench::new(sketch.profile, 80, 20);
    let screen = bench.keys("2E").press(KeyCode::End).screen();
    assert!(screen.contains("  [.] level_59"), "{screen}");
    assert!(screen.contains("▾ [.] level_45"), "{screen}");
    // Where the fold sign is drawn, there a click folds.
    let (row, line) = screen
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains("level_50"))
        .expect("on the screen");
    let column = line.find('▾').expect("it has callees");
    let column = line.get(..column).expect("a boundary").chars().count();
    let (row, column) = (row as u16, column as u16);
    let screen = bench.click(column, row).screen();
    assert!(screen.contains("▸ [.] level_50"), "{screen}");
    assert!(!screen.contains("level_51"), "{screen}");
    bench.press(KeyCode::Home);
    let screen = bench.screen();
    assert!(screen.contains("▾ [.] level_0\n"), "{screen}");
}

#[test]
fn a_written_view_has_whole_names_and_all_rows() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    let long = format!("app:{}end", "f".repeat(700));
    sketch.sample(task, &format!("app:main;{long}"), 1, 10);
    let bench = Bench::new(sketch.profile, 80, 12);
    let text = frame::text(&bench.app);
    assert!(text.contains("fffend\n"), "{text}");
    assert!(!text.contains('…'), "{text}");
    let bench = Bench::new(million(), 80, 24);
    let text = frame::text(&bench.app);
    let rows = text.lines().filter(|line| line.contains("[.] ")).count();
    assert_eq!(rows, bench.app.hotspots.len());
    // Of what is too much, it says how much is not there.
    let mut bench = bench;
    bench.keys("2E");
    let shown = bench.app.tree.len();
    let text = frame::text(&bench.app);
    let rows = text.lines().filter(|line| line.contains("[.] ")).count();
    let left = text.lines().last().and_then(|line| {
        let words = line.strip_prefix("# ")?.split(' ').next()?;
        words.parse::<usize>().ok()
    });
    assert!(rows >= shown.min(400), "{rows} of {shown}");
    assert_eq!(rows + left.unwrap_or(0), shown);
}

#[test]
fn the_line_of_trust_keeps_what_matters_on_a_narrow_screen() {
    let mut profile = sketch().profile;
    profile.trust.lost = 12;
    profile.trust.frames = 1000;
    profile.trust.chain_ends.insert(ChainEnd::Root, 98);
    profile.trust.chain_ends.insert(ChainEnd::StackCut, 2);
    let mut bench = Bench::new(profile, 80, 20);
    for width in [70, 80, 100, 120, 200] {
        let screen = bench.resize(width, 20).screen();
        let line = screen.lines().last().unwrap_or_default();
        let told = ["12 lost", "98.0 % of ", "100 % of frames"];
        assert!(told.iter().all(|it| line.contains(it)), "{width}: {line}");
        assert!(!line.contains('…'), "{width}: {line}");
    }
}

#[test]
fn a_bad_figure_of_trust_stands_out_by_sign_and_colour() {
    let mut profile = sketch().profile;
    profile.trust.frames = 1000;
    profile.trust.chain_ends.insert(ChainEnd::Root, 3);
    profile.trust.chain_ends.insert(ChainEnd::StackCut, 997);
    for colours in [Colours::Full, Colours::Sixteen, Colours::None] {
        let look = Look { colours, ..PLAIN };
        let mut bench = Bench::with_look(profile.clone(), 120, 20, look);
        for width in [40, 60, 80, 100, 120, 200] {
            let screen = bench.resize(width, 20).screen();
            let line = screen.lines().last().unwrap_or_default();
            assert!(line.contains("!0.3 % "), "{width}: {line}");
            assert_eq!(line.matches('!').count(), 1, "{width}: {line}");
            let column = line.find('!').and_then(|at| u16::try_from(at).ok());
            let buffer = bench.terminal.backend().buffer();
            let style = |x| buffer.cell((x, 19)).map(|cell| (cell.fg, cell.modifier));
            let column = column.expect("on the screen");
            assert_ne!(style(column), style(0), "{width}: {colours:?}");
            assert_ne!(style(column + 4), style(0), "{width}: {colours:?}");
        }
    }
    // What is lost is bad in any number; what is well bears no sign.
    profile.trust.lost = 1;
    profile.trust.chain_ends.insert(ChainEnd::Root, 99_997);
    let screen = Bench::new(profile, 120, 20).screen();
    let line = screen.lines().last().unwrap_or_default();
    assert!(line.contains("!1 lost"), "{line}");
    assert_eq!(line.matches('!').count(), 1, "{line}");
}

#[test]
fn the_kernel_s_name_is_whole_where_there_is_a_column_for_it() {
    let mut bench = bench();
    for width in [80, 100, 119, 120] {
        let screen = bench.resize(width, 20).screen();
        assert!(screen.contains("[kernel.kallsyms] "), "{width}: {screen}");
    }
}

#[test]
fn keys_that_act_outside_leave_effects() {
    let mut bench = bench();
    bench
        .app
        .key(&KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL));
    bench.keys("/eval\nae");
    let edit = Effect::Edit {
        file: "/src/app.c".into(),
        line: 1,
    };
    assert!(bench.app.effects.contains(&Effect::Suspend));
    assert!(bench.app.effects.contains(&edit), "{:?}", bench.app.effects);
    bench.keys("q");
    assert!(bench.app.effects.contains(&Effect::Quit));
}

#[test]
fn shares_are_of_all_or_of_what_is_kept() {
    let mut bench = bench();
    let screen = bench.keys("fcomm=tool\n").screen();
    assert!(screen.contains(" 10.00%  10.00%"), "{screen}");
    let screen = bench.keys("F").screen();
    assert!(screen.contains(" 66.67%  66.67%"), "{screen}");
}

#[test]
fn a_limit_hides_small_rows() {
    let mut bench = bench();
    assert!(bench.screen().contains("push_back"));
    bench.keys("L");
    bench.press(KeyCode::Backspace).keys("6\n");
    let screen = bench.screen();
    assert!(!screen.contains("push_back"), "{screen}");
    assert!(screen.contains(">= 6%"), "{screen}");
}

/// A million distinct stacks of depth 8 to 47 over 7200 functions.
fn million() -> Profile {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "comm");
    for name in 0..7200 {
        sketch.stack(&format!("/bin/app:function_{name}"));
    }
    let mut profile = sketch.profile;
    profile.stacks = StackTree::default();
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut time = 0;
    while profile.stacks.len() < 1_000_000 {
        let mut stack = StackId::EMPTY;
        for level in 0..8 + random(40) {
            // Two ways at first, then sixty: narrow at the root, broad below.
            let width = if level < 3 { 2 } else { 60 };
            let location = level % 120 * 60 + random(width);
            let location = u32::try_from(location).expect("small");
            stack = profile.stacks.push(stack, LocationId(location));
        }
        time += 1_000;
        profile.samples.push(Sample {
            time,
            period: 1 + random(1000),
            task,
            stack,
            cpu: Some(0),
            event: EventId(0),
        });
    }
    profile
}

/// Longest time from a key to the drawn screen, the worker's time apart.
#[test]
#[ignore = "measures time: run it alone, with --release"]
fn a_key_is_answered_within_16_ms_at_a_million_nodes() {
    let mut bench = Bench::new(million(), 200, 60);
    let mut slowest = Vec::new();
    for keys in [
        "1", "o", "G", "2", "E", "G", "I", "\n", "e", "E", "3", "j", "\n", "l", "^", "c", "e", "6",
        "7", "1",
    ] {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '^' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            let start = Instant::now();
            bench.app.key(&KeyEvent::new(code, KeyModifiers::NONE));
            bench.screen();
            slowest.push((start.elapsed(), key, bench.app.view));
            bench.settle();
            let start = Instant::now();
            bench.screen();
            slowest.push((start.elapsed(), 'd', bench.app.view));
        }
    }
    slowest.sort_by_key(|&(time, ..)| std::cmp::Reverse(time));
    slowest.truncate(5);
    slowest.push((bench.slowest_answer, 'a', View::Hotspots));
    let limit = Duration::from_millis(16);
    assert!(
        slowest.iter().all(|&(time, ..)| time <= limit),
        "{slowest:?}"
    );
}

#[test]
fn the_selection_is_written_in_the_form_of_the_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = bench();
    bench.keys("fcomm=tool\n");
    for (name, wanted) in [
        ("a.txt", "memcpy"),
        ("a.folded", "main;memcpy 10"),
        ("a.svg", "<svg"),
        ("a.html", "<html"),
    ] {
        let path = folder.path().join(name);
        let clear = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
        bench.keys("w").app.key(&clear);
        bench.keys(&format!("{}\n", path.display()));
        let text = std::fs::read_to_string(&path).expect("it was written");
        assert!(text.contains(wanted), "{name}: {text}");
        assert!(!text.contains("next_token"), "{name}: {text}");
    }
}
