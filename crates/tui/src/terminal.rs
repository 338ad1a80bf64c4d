//! The terminal itself: taken over, given back whatever happens, and waited
//! on together with signals and the worker.

use super::error::Error;
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Stdout, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether the mouse sends events to us instead of selecting text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mouse {
    /// Clicks and the wheel work; the terminal's own selection needs Shift.
    On,
    /// The terminal keeps the mouse.
    Off,
}

/// Signals that end the session.
const ENDING: [i32; 4] = [SIGTERM, SIGHUP, SIGQUIT, SIGINT];

/// What became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// There is input to read.
    Input,
    /// The size may have changed.
    Resized,
    /// We were stopped and go on; the screen is empty again.
    Resumed,
    /// A stop was asked for (`kill -TSTP`).
    Suspend,
    /// A worker has something, or the time is up.
    Other,
    /// The terminal is gone.
    Gone,
    /// This signal asks us to end.
    Ended(i32),
}

/// Lets another thread wake the session. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Waker(Arc<UnixStream>);

impl Waker {
    /// Makes the session look at its channels.
    pub(super) fn wake(&self) {
        // A full pipe wakes as well as one more byte would.
        let _ = (&*self.0).write(&[1]);
    }
}

/// The terminal in raw mode on its alternate screen, until dropped.
pub(super) struct Screen {
    /// Never dropped: its own drop prints to stderr if the terminal is gone,
    /// and panics if stderr is on it. [`leave`] does what has to be done.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    mouse: Mouse,
    signals: Signals,
    /// Where keys come from if not from stdin, as crossterm chooses it.
    tty: Option<File>,
}

impl Screen {
    /// Takes the terminal over and installs the panic hook that gives it
    /// back.
    pub(super) fn open(mouse: Mouse) -> Result<Self, Error> {
        let signals = Signals::install().map_err(Error::Signals)?;
        restore_on_panic();
        enter(mouse).map_err(Error::Terminal)?;
        let terminal =
            Terminal::new(CrosstermBackend::new(io::stdout())).map_err(Error::Terminal)?;
        let tty = if io::stdin().is_terminal() {
            None
        } else {
            Some(File::open("/dev/tty").map_err(Error::Terminal)?)
        };
        Ok(Self {
            terminal: ManuallyDrop::new(terminal),
            mouse,
            signals,
            tty,
        })
    }

    /// All of the screen.
    pub(super) fn area(&self) -> Result<Rect, Error> {
        let size = self.terminal.size().map_err(Error::Terminal)?;
        Ok(Rect::from((Position::ORIGIN, size)))
    }

    /// Draws one frame.
    pub(super) fn draw(&mut self, show: impl FnOnce(&mut ratatui::Frame<'_>)) -> Result<(), Error> {
        self.terminal
            .draw(show)
            .map(|_| ())
            .map_err(Error::Terminal)
    }

    /// Forgets what is on the screen, so that the next frame is drawn whole.
    pub(super) fn forget(&mut self) -> Result<(), Error> {
        // Not `clear`: that asks the terminal where its cursor is, and waits
        // for an answer that may never come.
        let area = self.area()?;
        self.terminal.resize(area).map_err(Error::Terminal)
    }

    /// Switches who gets the mouse.
    pub(super) fn set_mouse(&mut self, mouse: Mouse) -> Result<(), Error> {
        self.mouse = mouse;
        match mouse {
            Mouse::On => execute!(io::stdout(), EnableMouseCapture),
            Mouse::Off => execute!(io::stdout(), DisableMouseCapture),
        }
        .map_err(Error::Terminal)
    }

    /// Asks what background there is; the answer comes among the keys.
    pub(super) fn ask_background(&mut self) -> Result<(), Error> {
        let mut out = io::stdout();
        out.write_all(super::background::QUESTION)
            .and_then(|()| out.flush())
            .map_err(Error::Terminal)
    }

    /// Gives the terminal back while `work` runs, then takes it again.
    pub(super) fn lend<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Error> {
        leave();
        let result = work();
        enter(self.mouse).map_err(Error::Terminal)?;
        self.forget()?;
        Ok(result)
    }

    /// Stops this process as Ctrl-Z does; returns when it is continued.
    pub(super) fn suspend(&mut self) -> Result<(), Error> {
        self.lend(|| low_level::emulate_default_handler(SIGTSTP))?
            .map_err(Error::Signals)
    }

    /// A handle that wakes [`Screen::wait`].
    pub(super) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.signals.wake_end))
    }

    /// Blocks until something happens or `timeout` is over; without one,
    /// until something happens. Uses no CPU meanwhile.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> Result<Wake, Error> {
        let timeout = timeout.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let stdin = io::stdin();
        let keys = self.tty.as_ref().map_or(stdin.as_fd(), File::as_fd);
        let mut ready = [
            PollFd::from_borrowed_fd(keys, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.wait_end.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, timeout.as_ref()) {
            // A signal came: its handler has written to the pipe.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Terminal(error.into())),
        }
        let [input, _] = ready.map(|entry| entry.revents());
        self.signals.drain();
        match self.signals.taken() {
            // Whoever continued us may have changed the terminal's mode.
            Some(Wake::Resumed) => {
                self.lend(|| ())?;
                return Ok(Wake::Resumed);
            }
            Some(wake) => return Ok(wake),
            None => {}
        }
        if input.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(Wake::Gone);
        }
        Ok(if input.contains(PollFlags::IN) {
            Wake::Input
        } else {
            Wake::Other
        })
    }

    /// Ends the process as `signal` does by default, the terminal restored.
    pub(super) fn die_of(self, signal: i32) -> Result<(), Error> {
        drop(self);
        low_level::emulate_default_handler(signal).map_err(Error::Signals)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn enter(mouse: Mouse) -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
    match mouse {
        Mouse::On => execute!(io::stdout(), EnableMouseCapture),
        Mouse::Off => Ok(()),
    }
}

/// Gives the terminal back. Nothing can be done about a failure: the terminal
/// may be gone.
fn leave() {
    let _ = execute!(
        io::stdout(),
        DisableMouseCapture,
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
}

/// A panic message on the alternate screen would vanish with it.
fn restore_on_panic() {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return;
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        leave();
        before(info);
    }));
}

/// Signal handlers that set a flag and write to a pipe.
struct Signals {
    wake_end: Arc<UnixStream>,
    wait_end: UnixStream,
    flags: Vec<(i32, Arc<AtomicBool>)>,
    installed: Vec<signal_hook::SigId>,
}

impl Signals {
    fn install() -> io::Result<Self> {
        let (wake_end, wait_end) = UnixStream::pair()?;
        wake_end.set_nonblocking(true)?;
        wait_end.set_nonblocking(true)?;
        let mut signals = Self {
            wake_end: Arc::new(wake_end),
            wait_end,
            flags: Vec::new(),
            installed: Vec::new(),
        };
        for signal in ENDING {
            let flag = signals.flag_on(signal)?;
            // Should the session be stuck, the second one ends it hard.
            let second = Arc::new(AtomicBool::new(false));
            signals
                .installed
                .push(signal_hook::flag::register_conditional_default(
                    signal,
                    Arc::clone(&second),
                )?);
            signals
                .installed
                .push(signal_hook::flag::register(signal, second)?);
            signals.flags.push((signal, flag));
        }
        for signal in [SIGWINCH, SIGCONT, SIGTSTP] {
            let flag = signals.flag_on(signal)?;
            signals.flags.push((signal, flag));
        }
        Ok(signals)
    }

    /// A flag that `signal` sets before it writes to the pipe.
    fn flag_on(&mut self, signal: i32) -> io::Result<Arc<AtomicBool>> {
        let flag = Arc::new(AtomicBool::new(false));
        self.installed
            .push(signal_hook::flag::register(signal, Arc::clone(&flag))?);
        self.installed.push(low_level::pipe::register(
            signal,
            self.wake_end.try_clone()?,
        )?);
        Ok(flag)
    }

    fn drain(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.wait_end.read(&mut bytes), Ok(count) if count == bytes.len()) {}
    }

    /// The most urgent signal since last asked.
    fn taken(&self) -> Option<Wake> {
        let mut wake = None;
        for (signal, flag) in &self.flags {
            if !flag.swap(false, Ordering::AcqRel) {
                continue;
            }
            let this = match *signal {
                SIGWINCH => Wake::Resized,
                SIGCONT => Wake::Resumed,
                SIGTSTP => Wake::Suspend,
                ending => Wake::Ended(ending),
            };
            // Flags stand in order of urgency.
            wake = wake.or(Some(this));
        }
        wake
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.installed.drain(..) {
            low_level::unregister(id);
        }
    }
}
