//! The loop of a session: waits, hands over, draws.

use super::app::App;
use super::background::{Heard, Listener};
use super::data::Answer;
use super::data::Order;
use super::shared::Effect;
use super::terminal::{Screen, Wake, Waker};
use super::worker::{self, Reply};
use super::{Error, Options, Update, frame};
use crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use prof_report::code::CodeSource;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// What other threads tell the session.
enum Message {
    Update(Update),
    Reply(Reply),
    /// The loader hung up.
    Loaded,
}

/// Runs a session on the terminal until the user leaves. What `updates` and
/// the worker say is shown as it comes.
///
/// # Errors
/// If the terminal cannot be used, or loading failed.
pub fn run(
    updates: Receiver<Update>,
    source: Box<dyn CodeSource>,
    options: &Options,
) -> Result<(), Error> {
    let mut screen = Screen::open(options.mouse)?;
    let waker = screen.waker();
    let (orders, ordered) = mpsc::channel::<Order>();
    let (told, messages) = mpsc::channel::<Message>();
    forward(updates, told.clone(), waker.clone())?;
    start_worker(ordered, told, waker, source)?;
    let mut app = App::new(&options.title, options.look, options.mouse);
    app.wanted.clone_from(&options.function);
    app.home.clone_from(&options.home);
    app.shared.history.give(&options.filters);
    if let Some(notice) = &options.notice {
        app.shared.say(notice);
    }
    if let Some(sides) = options.sides {
        app.compare(sides);
    }
    let background = if options.asks_background {
        screen.ask_background()?;
        Listener::awaiting()
    } else {
        Listener::default()
    };
    let mut session = Session {
        app,
        background,
        orders,
        messages,
        editor: options.editor.clone(),
        asked: None,
    };
    let end = match session.serve(&mut screen) {
        // Nobody is there to read a message.
        Err(Error::Terminal(error)) if is_hangup(&error) => End::Left,
        end => end?,
    };
    match end {
        End::Left => Ok(()),
        End::Failed(message) => {
            drop(screen);
            Err(Error::Load(message))
        }
        End::Signal(signal) => screen.die_of(signal),
    }
}

/// Whether an error is that the terminal is gone.
fn is_hangup(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Passes on what the loader says.
fn forward(updates: Receiver<Update>, told: Sender<Message>, waker: Waker) -> Result<(), Error> {
    let pass = move || {
        for update in updates {
            if told.send(Message::Update(update)).is_err() {
                return;
            }
            waker.wake();
        }
        // The session may have ended before.
        let _ = told.send(Message::Loaded);
        waker.wake();
    };
    spawn("updates", pass)
}

fn start_worker(
    ordered: Receiver<Order>,
    told: Sender<Message>,
    waker: Waker,
    source: Box<dyn CodeSource>,
) -> Result<(), Error> {
    spawn("views", move || {
        let reply = |reply| {
            let sent = told.send(Message::Reply(reply)).is_ok();
            waker.wake();
            sent
        };
        worker::run(&ordered, &reply, source.as_ref());
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map(|_| ())
        .map_err(Error::Thread)
}

/// How a session ended.
enum End {
    Left,
    Failed(String),
    Signal(i32),
}

/// A running session.
struct Session {
    app: App,
    orders: Sender<Order>,
    messages: Receiver<Message>,
    editor: Option<String>,
    background: Listener,
    /// When the worker was told of a selection that is not there yet.
    asked: Option<Instant>,
}

/// A selection that takes longer than this is said to.
const SLOW: Duration = Duration::from_millis(200);

impl Session {
    fn serve(&mut self, screen: &mut Screen) -> Result<End, Error> {
        loop {
            self.app.resized(screen.area()?);
            self.send_orders();
            let waited = self.asked.filter(|_| self.app.shared.is_behind());
            let waited = waited.map(|asked| asked.elapsed());
            let is_slow = waited.is_some_and(|waited| waited >= SLOW);
            self.app.shared.set_slow(is_slow);
            screen.draw(|frame| {
                self.app.shared.area = frame.area();
                frame::draw(&self.app.shared, &self.app.tabs, frame.buffer_mut());
            })?;
            let until_slow = waited.and_then(|waited| SLOW.checked_sub(waited));
            match screen.wait(until_slow)? {
                Wake::Input => self.read_input()?,
                // The library has a signal handler of its own: if it met the
                // new size only beside the next key, it would keep that key
                // until another one comes.
                Wake::Resized => self.read_input()?,
                Wake::Resumed => screen.forget()?,
                Wake::Suspend => screen.suspend()?,
                Wake::Other => {}
                // Nobody is there to see a message.
                Wake::Gone => return Ok(End::Left),
                Wake::Ended(signal) => return Ok(End::Signal(signal)),
            }
            if let Some(end) = self.take_messages() {
                return Ok(end);
            }
            if let Some(end) = self.take_effects(screen)? {
                return Ok(end);
            }
        }
    }

    /// Takes all input that is there.
    fn read_input(&mut self) -> Result<(), Error> {
        while event::poll(Duration::ZERO).map_err(Error::Terminal)? {
            match event::read().map_err(Error::Terminal)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => self.key(&key),
                Event::Mouse(mouse) => self.app.mouse(&mouse),
                _ => {}
            }
            self.send_orders();
        }
        Ok(())
    }

    fn key(&mut self, key: &KeyEvent) {
        match self.background.hear(key) {
            Heard::Key => self.app.key(key),
            Heard::Part => {}
            Heard::Answer(background) => {
                let shared = &mut self.app.shared;
                shared.theme = shared.theme.on(background);
            }
        }
    }

    /// Takes all messages that are there.
    fn take_messages(&mut self) -> Option<End> {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Update(Update::Progress(words)) => self.app.shared.progress = Some(words),
                Message::Update(Update::Profile(profile)) => self.app.set_profile(profile),
                Message::Update(Update::Failed(message)) => return Some(End::Failed(message)),
                Message::Loaded => self.app.loaded(),
                Message::Reply((generation, answer)) => self.take_answer(generation, answer),
            }
        }
        None
    }

    fn take_answer(&mut self, generation: u64, answer: Answer) {
        self.app.answer(generation, answer);
        if !self.app.shared.is_behind() {
            self.asked = None;
        }
    }

    /// Sends what the app asks for.
    fn send_orders(&mut self) {
        if let Some(order) = self.app.shared.order() {
            self.asked.get_or_insert_with(Instant::now);
            // The worker lives as long as the session.
            let _ = self.orders.send(order);
        }
        for ask in self.app.shared.asks.drain(..) {
            let _ = self.orders.send(Order::Ask(ask));
        }
    }

    fn take_effects(&mut self, screen: &mut Screen) -> Result<Option<End>, Error> {
        for effect in std::mem::take(&mut self.app.shared.effects) {
            match effect {
                Effect::Quit => return Ok(Some(End::Left)),
                Effect::Suspend => screen.suspend()?,
                Effect::Redraw => screen.forget()?,
                Effect::SetMouse(mouse) => screen.set_mouse(mouse)?,
                Effect::Edit { file, line } => self.edit(screen, &file, line)?,
                Effect::Copy(name) => copy(&name),
            }
        }
        Ok(None)
    }

    fn edit(&mut self, screen: &mut Screen, file: &str, line: u32) -> Result<(), Error> {
        // An absolute path cannot be taken for an option.
        let path = Path::new(file);
        if !path.is_absolute() || !path.is_file() {
            self.app
                .shared
                .fail(format!("{file} is not here to be edited"));
            return Ok(());
        }
        let editor = self.editor.clone().unwrap_or_else(|| "vi".into());
        let mut words = editor.split_whitespace();
        let Some(program) = words.next() else {
            self.app.shared.fail("$EDITOR is empty");
            return Ok(());
        };
        let mut command = Command::new(program);
        command.args(words).arg(format!("+{line}")).arg(path);
        match screen.lend(|| command.status())? {
            Ok(status) if status.success() => {}
            Ok(status) => self.app.shared.fail(format!("{program}: {status}")),
            Err(error) => self
                .app
                .shared
                .fail(format!("cannot run {program}: {error}")),
        }
        Ok(())
    }
}

/// Asks the terminal to put a name on its clipboard (OSC 52).
fn copy(name: &str) {
    const LONGEST: usize = 4096;
    let safe = prof_report::escape::terminal(name);
    let end = safe.len().min(LONGEST);
    let encoded = base64(safe.as_bytes().get(..end).unwrap_or_default());
    let mut out = std::io::stdout().lock();
    // A terminal that cannot do it ignores it.
    let _ = write!(out, "\x1b]52;c;{encoded}\x07").and_then(|()| out.flush());
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut word = 0_u32;
        for at in 0..3 {
            word = word << 8 | u32::from(group.get(at).copied().unwrap_or(0));
        }
        for at in 0..4_usize {
            let digit = word >> (18 - 6 * at) & 63;
            let is_there = at <= group.len();
            let letter = DIGITS.get(digit as usize).copied().unwrap_or(b'=');
            text.push(if is_there { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_pads_as_the_standard_says() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }
}
