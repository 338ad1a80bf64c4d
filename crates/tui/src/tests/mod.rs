//! A session without a terminal: keys in, screens out.

mod clock;
mod flame;
mod keys;
mod lanes;
mod pictures;
mod place;
mod screen;
mod selection;
mod time;
mod walk;
mod written;

use super::app::App;
use super::data::Order;
use super::worker::{self, Reply};
use super::{Background, Charset, Colours, Look, Mouse, frame};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use prof_profile::{
    DsoId, EventId, Function, LocationId, Profile, Sample, StackId, StackTree, Svma,
};
use prof_report::code::{Arch, CodeSource, FunctionCode, LineAt, NoCode};
use prof_sketch::Sketch;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Code for every function: a loop of three lines, which are not known of
/// `bare`.
struct Loop;

impl CodeSource for Loop {
    fn function(&self, profile: &Profile, function: &Function) -> Result<FunctionCode, NoCode> {
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
            lines: match profile.name(function.name) {
                "bare" => Vec::new(),
                _ => vec![line(0, 1), line(6, 2), line(10, 3)],
            },
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
        bench.app.shared.progress = None;
        bench.app.shared.area = Rect::new(0, 0, width, height);
        bench.app.set_profile(Arc::new(profile));
        bench.settle();
        bench
    }

    /// Lets the worker answer all that is asked.
    fn settle(&mut self) {
        loop {
            let mut waiting = 0;
            if let Some(order) = self.app.shared.order() {
                self.orders.send(order).expect("the worker lives");
                waiting += 1;
            }
            for ask in self.app.shared.asks.drain(..) {
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

    /// Lets the worker answer a new selection, and nothing that is asked
    /// because of it.
    fn settle_one(&mut self) {
        let order = self.app.shared.order().expect("a new selection");
        self.orders.send(order).expect("the worker lives");
        let (generation, answer) = self.replies.recv().expect("the worker answers");
        self.app.answer(generation, answer);
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
        self.app.resized(Rect::new(0, 0, width, height));
        self.settle();
        self
    }

    /// The screen as lines.
    fn screen(&mut self) -> String {
        let app = &mut self.app;
        self.terminal
            .draw(|frame| {
                app.shared.area = frame.area();
                frame::draw(&app.shared, &app.tabs, frame.buffer_mut());
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
            wait: None,
        });
    }
    profile
}
