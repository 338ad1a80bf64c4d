//! A pseudo-terminal with a program in it, and the screen it draws.

use crate::patience::{self, PATIENCE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A terminal with a program in it.
pub(crate) struct Terminal {
    /// Our end; closing it is closing the terminal.
    controller: Option<File>,
    /// The thread that reads what the program writes.
    reading: Option<JoinHandle<()>>,
    is_closed: Arc<AtomicBool>,
    screen: Arc<Mutex<Screen>>,
    child: Child,
}

impl Terminal {
    /// Starts `command` in a terminal of its own.
    pub(crate) fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let (controller, child) = started(command, columns, rows);
        let screen = Arc::new(Mutex::new(Screen::new(columns, rows)));
        let reader = controller.try_clone().expect("a copy");
        let seen = Arc::clone(&screen);
        let is_closed = Arc::new(AtomicBool::new(false));
        let closing = Arc::clone(&is_closed);
        let reading = thread::spawn(move || read_all(reader, &seen, &closing));
        Self {
            controller: Some(controller),
            reading: Some(reading),
            is_closed,
            screen,
            child,
        }
    }

    fn controller(&self) -> &File {
        self.controller.as_ref().expect("not closed yet")
    }

    /// Types bytes.
    pub(crate) fn send(&mut self, bytes: &str) -> &mut Self {
        let mut controller = self.controller();
        controller
            .write_all(bytes.as_bytes())
            .expect("the terminal takes keys");
        self
    }

    /// Waits until the screen shows `wanted`, also where a line that is too long
    /// goes on in the next one: how long it is depends on names of folders.
    pub(crate) fn wait_for(&mut self, wanted: &str) -> &mut Self {
        self.wait_until(&format!("{wanted:?} on the screen"), |screen| {
            let text = screen.text();
            let words: Vec<&str> = text.split_whitespace().collect();
            text.contains(wanted) || words.join(" ").contains(wanted)
        })
    }

    /// Waits until the screen is as it should be.
    pub(crate) fn wait_until(&mut self, what: &str, is_so: impl Fn(&Screen) -> bool) -> &mut Self {
        let start = Instant::now();
        while !self.look(&is_so) {
            let text = self.look(Screen::text);
            let cursor = self.look(Screen::selected).map(|(row, _)| row);
            assert!(
                start.elapsed() < PATIENCE,
                "waited for {what} in vain, the cursor is in {cursor:?}:\n{text}"
            );
            thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Presses and releases the left button on a cell, counted from 0.
    pub(crate) fn click(&mut self, column: usize, row: usize) -> &mut Self {
        let (column, row) = (column + 1, row + 1);
        self.send(&format!("\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m"))
    }

    /// Waits until the view's cursor is on a line with `wanted`; the line's
    /// row on the screen.
    pub(crate) fn wait_for_cursor(&mut self, wanted: &str) -> usize {
        let is_there = |screen: &Screen| {
            let (row, line) = screen.selected()?;
            line.contains(wanted).then_some(row)
        };
        self.wait_until(&format!("the cursor on {wanted:?}"), |screen| {
            is_there(screen).is_some()
        });
        self.look(is_there).expect("it is there")
    }

    /// What the screen shows now.
    pub(crate) fn look<T>(&self, at: impl Fn(&Screen) -> T) -> T {
        at(&self.screen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        *self.screen.lock().unwrap_or_else(PoisonError::into_inner) = Screen {
            is_alternate: true,
            ..Screen::new(columns, rows)
        };
        set_size(self.controller(), columns, rows);
        self
    }

    /// Whether lines are edited and keys echoed: not in raw mode.
    pub(crate) fn is_cooked(&self) -> bool {
        let modes = tcgetattr(self.controller()).expect("the modes").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn kill(&mut self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the program lives");
    }

    /// The state letter of the program in /proc: `S` sleeping, `T` stopped.
    pub(crate) fn state(&self) -> char {
        patience::state(self.child.id())
    }

    /// Ticks of CPU that the program has used.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        patience::cpu_ticks(self.child.id())
    }

    /// Closes the terminal, as when its window is closed.
    pub(crate) fn close(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        if let Some(reading) = self.reading.take() {
            reading.join().expect("the reader does not panic");
        }
        self.controller = None;
    }

    /// Waits for the program's end.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                self.read_to_the_end();
                return status;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "it does not end: {}",
                self.look(Screen::text)
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Terminal {
    /// Waits until all that the program wrote is on the screen: a terminal
    /// without programs ends.
    fn read_to_the_end(&self) {
        let start = Instant::now();
        let is_read = || self.reading.as_ref().is_none_or(JoinHandle::is_finished);
        while !is_read() && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `command` in a terminal; our end of that.
fn started(command: &Command, columns: u16, rows: u16) -> (File, Child) {
    let controller =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pty");
    grantpt(&controller).expect("grantpt");
    unlockpt(&controller).expect("unlockpt");
    let name = ptsname(&controller, Vec::new()).expect("ptsname");
    // Not the terminal of the tests, which may have none.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let user_end: OwnedFd =
        rustix::fs::open(name, flags, Mode::empty()).expect("the terminal's other end");
    set_size(&controller, columns, rows);
    let copy = || Stdio::from(user_end.try_clone().expect("a copy"));
    // setsid makes the terminal the controlling one without code of ours
    // between fork and exec.
    let mut in_session = Command::new("setsid");
    in_session
        .arg("--ctty")
        .arg(command.get_program())
        .args(command.get_args())
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .stdin(copy())
        .stdout(copy())
        .stderr(copy());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => in_session.env(key, value),
            None => in_session.env_remove(key),
        };
    }
    let child = in_session.spawn().expect("setsid starts");
    drop(user_end);
    (File::from(controller), child)
}

/// What `command` writes to a terminal of so many columns, without a pager.
pub(crate) fn written(command: Command, columns: u16) -> String {
    let called = format!("{command:?}");
    let (text, status) = written_at_end(command, columns);
    assert!(status.success(), "{called}");
    text
}

/// The same, however it ends.
pub(crate) fn written_at_end(mut command: Command, columns: u16) -> (String, ExitStatus) {
    command.env("PAGER", "cat");
    let (mut controller, mut child) = started(&command, columns, 24);
    let mut bytes = Vec::new();
    // It ends with an error when the program has gone.
    let _ = controller.read_to_end(&mut bytes);
    let status = child.wait().expect("it ended");
    let text = String::from_utf8(bytes).expect("UTF-8").replace('\r', "");
    // What was done meanwhile was told in lines that are gone.
    let lines = text
        .lines()
        .filter_map(|line| line.rsplit("\x1b[2K").next());
    (lines.map(|line| format!("{line}\n")).collect(), status)
}

/// Takes what the program writes until it or the terminal is gone.
fn read_all(mut reader: File, seen: &Mutex<Screen>, is_closed: &AtomicBool) {
    let mut bytes = [0; 4096];
    let pause = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    while !is_closed.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(&reader, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&pause)), Ok(1)) {
            continue;
        }
        // An error is the end of the program.
        let Ok(count @ 1..) = reader.read(&mut bytes) else {
            return;
        };
        let mut screen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        screen.take(bytes.get(..count).unwrap_or_default());
    }
}

fn set_size(terminal: &impl std::os::fd::AsFd, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).expect("a size");
}

/// What a terminal shows, as far as the program uses it.
pub(crate) struct Screen {
    cells: Vec<Vec<char>>,
    /// By cell: whether it is reversed or underlined, which without colours
    /// is the cursor's row or frame.
    marks: Vec<Vec<bool>>,
    is_reversed: bool,
    is_underlined: bool,
    column: usize,
    row: usize,
    /// What came of a sequence or character that is not complete yet.
    pending: Vec<u8>,
    pub(crate) is_alternate: bool,
    pub(crate) has_mouse: bool,
    pub(crate) has_cursor: bool,
    /// Whether the terminal was asked for its background (OSC 11).
    pub(crate) is_asked: bool,
    /// Numbers of the grounds that were drawn on, of 256 colours.
    pub(crate) grounds: BTreeSet<u8>,
}

impl Screen {
    fn new(columns: u16, rows: u16) -> Self {
        Self {
            cells: vec![vec![' '; usize::from(columns)]; usize::from(rows)],
            marks: vec![vec![false; usize::from(columns)]; usize::from(rows)],
            is_reversed: false,
            is_underlined: false,
            column: 0,
            row: 0,
            pending: Vec::new(),
            is_alternate: false,
            has_mouse: false,
            has_cursor: true,
            is_asked: false,
            grounds: BTreeSet::new(),
        }
    }

    /// The lines.
    pub(crate) fn text(&self) -> String {
        let lines = self.cells.iter().map(|line| {
            let line: String = line.iter().collect();
            line.trim_end().to_string()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The line that holds the cursor of a view, below tabs and filters.
    pub(crate) fn selected(&self) -> Option<(usize, String)> {
        let rows = self.marks.iter().enumerate().skip(2);
        let mut marked = rows.filter(|(_, row)| row.contains(&true));
        let (at, _) = marked.next()?;
        let line: String = self.cells.get(at)?.iter().collect();
        Some((at, line.trim().to_string()))
    }

    fn take(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        while let Some(used) = self.step() {
            self.pending.drain(..used);
        }
    }

    /// Acts on the first character or sequence; its length, if it is whole.
    fn step(&mut self) -> Option<usize> {
        let pending = std::mem::take(&mut self.pending);
        let used = match *pending.first().unwrap_or(&0) {
            _ if pending.is_empty() => None,
            0x1b => self.escape(&pending),
            b'\r' => {
                self.column = 0;
                Some(1)
            }
            b'\n' => {
                self.row += 1;
                Some(1)
            }
            0..0x20 => Some(1),
            first => {
                let len = match first {
                    0..0x80 => 1,
                    0x80..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    _ => 4,
                };
                let letter = pending
                    .get(..len)
                    .and_then(|bytes| str::from_utf8(bytes).ok());
                letter.map(|letter| {
                    letter.chars().for_each(|letter| self.put(letter));
                    len
                })
            }
        };
        self.pending = pending;
        used
    }

    fn put(&mut self, letter: char) {
        let line = self.cells.get_mut(self.row);
        if let Some(cell) = line.and_then(|line| line.get_mut(self.column)) {
            *cell = letter;
        }
        let marks = self.marks.get_mut(self.row);
        if let Some(mark) = marks.and_then(|marks| marks.get_mut(self.column)) {
            *mark = self.is_reversed || self.is_underlined;
        }
        self.column += 1;
    }

    fn escape(&mut self, bytes: &[u8]) -> Option<usize> {
        match bytes.get(1)? {
            b'[' => {
                let end = bytes
                    .iter()
                    .skip(2)
                    .position(|byte| (0x40..0x7f).contains(byte))?
                    + 2;
                let words = bytes.get(2..end).map(String::from_utf8_lossy)?.into_owned();
                self.control(&words, *bytes.get(end)?);
                Some(end + 1)
            }
            b']' => {
                let end = bytes.iter().position(|&byte| byte == 7)?;
                self.is_asked |= bytes.get(2..end) == Some(b"11;?");
                Some(end + 1)
            }
            _ => Some(2),
        }
    }

    fn control(&mut self, words: &str, last: u8) {
        let number = |at: usize| {
            words
                .split(';')
                .nth(at)
                .and_then(|word| word.parse::<usize>().ok())
        };
        match last {
            b'H' => {
                self.row = number(0).unwrap_or(1).saturating_sub(1);
                self.column = number(1).unwrap_or(1).saturating_sub(1);
            }
            b'J' => {
                self.cells.iter_mut().for_each(|line| line.fill(' '));
                self.marks.iter_mut().for_each(|line| line.fill(false));
            }
            b'm' => self.style(words),
            b'h' | b'l' => {
                let is_on = last == b'h';
                match words {
                    "?1049" => self.is_alternate = is_on,
                    "?1000" => self.has_mouse = is_on,
                    "?25" => self.has_cursor = is_on,
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn style(&mut self, words: &str) {
        let mut words = words.split(';');
        while let Some(word) = words.next() {
            match word {
                "" | "0" => (self.is_reversed, self.is_underlined) = (false, false),
                "4" => self.is_underlined = true,
                "7" => self.is_reversed = true,
                "24" => self.is_underlined = false,
                "27" => self.is_reversed = false,
                // A colour's number is no style.
                "38" | "48" | "58" => {
                    let parts = if words.next() == Some("2") { 3 } else { 1 };
                    let number: Vec<&str> = words.by_ref().take(parts).collect();
                    if let ("48", [number]) = (word, number.as_slice()) {
                        self.grounds.extend(number.parse::<u8>());
                    }
                }
                _ => {}
            }
        }
    }
}
