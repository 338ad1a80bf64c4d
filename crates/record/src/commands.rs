//! Commands that another program sends while a recording runs, as perf's
//! `--control` takes them: lines to one descriptor or FIFO, and `ack` back
//! through another when one is done (with a NUL behind it, as perf's).
//!
//! | command | what it does | answer |
//! |---|---|---|
//! | `enable [EVENT]`, `disable [EVENT]` | starts or stops events | `ack` |
//! | `evlist [-v\|-g\|-F]` | lists the events to the user | `ack` |
//! | `snapshot` | another file begins, where files are switched | `ack` |
//! | `ping` | nothing | `ack` |
//! | `stop` | ends the recording | `ack` |
//!
//! What is none of them has no answer. As perf does it, the beginning of a line
//! decides which command it is, and a line may end with a NUL or with what was
//! sent at once.

use prof_sys::{PollSet, descriptor, wait_writable};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where control commands are read and acknowledgements are written
/// (`--control`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// File descriptors inherited from the parent process.
    Descriptors(i32, Option<i32>),
    /// Existing FIFOs, by path.
    Fifos(PathBuf, Option<PathBuf>),
}

/// Most bytes that are read at a time; a longer line is cut.
const MOST_BYTES: usize = 4096;
/// How long an answer may take that nobody reads.
const ANSWER_WITHIN: Duration = Duration::from_millis(100);

/// With the NUL that perf sends, too: some read a fixed number of bytes.
const ANSWER: &[u8] = b"ack\n\0";

/// What switching all events on (true) or off tells the user, as perf says it.
pub fn switched(is_on: bool) -> &'static str {
    match is_on {
        true => "Events enabled",
        false => "Events disabled",
    }
}

/// The same of the events of one name, of which there may be none.
pub fn event_switched(name: &str, is_on: bool, is_there: bool) -> String {
    match (is_there, is_on) {
        (true, true) => format!("Event {name} enabled"),
        (true, false) => format!("Event {name} disabled"),
        (false, _) => format!("failed: can't find '{name}' event"),
    }
}

/// A control command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Enables (true) or disables all events, or those of one name.
    Switch(bool, Option<String>),
    /// Lists the events.
    List(Details),
    /// Starts the next file of the recording.
    Snapshot,
    /// Ends the recording.
    Stop,
    /// Does nothing; asks for an acknowledgement.
    Ping,
    /// A known command whose arguments are malformed.
    Wrong,
}

/// How much `evlist` says of each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Details {
    /// Their names.
    Names,
    /// All fields of its attr.
    Attrs,
    /// Its frequency or period.
    Rates,
    /// The group it belongs to.
    Groups,
}

impl Order {
    /// `None` for what has no answer.
    fn parse(line: &str) -> Option<Self> {
        let behind = |name: &str| line.strip_prefix(name);
        if let Some(rest) = behind("enable") {
            return Some(Self::switch(true, rest));
        }
        if let Some(rest) = behind("disable") {
            return Some(Self::switch(false, rest));
        }
        if let Some(rest) = behind("evlist") {
            return Some(match rest.trim() {
                "" => Self::List(Details::Names),
                "-v" => Self::List(Details::Attrs),
                "-F" => Self::List(Details::Rates),
                "-g" => Self::List(Details::Groups),
                _ => Self::Wrong,
            });
        }
        let whole = [
            ("snapshot", Self::Snapshot),
            ("stop", Self::Stop),
            ("ping", Self::Ping),
        ];
        let found = whole.into_iter().find(|(name, _)| line.starts_with(name));
        found.map(|(_, order)| order)
    }

    fn switch(is_on: bool, rest: &str) -> Self {
        match (rest, rest.strip_prefix([' ', '\t'])) {
            ("", _) => Self::Switch(is_on, None),
            (_, Some(name)) if name.trim().is_empty() => Self::Switch(is_on, None),
            (_, Some(name)) => Self::Switch(is_on, Some(name.trim().to_owned())),
            _ => Self::Wrong,
        }
    }
}

/// An open control channel: reads commands and writes acknowledgements.
#[derive(Debug)]
pub struct Commands {
    control: File,
    answers: Option<File>,
}

impl Commands {
    /// Opens both ends of the channel.
    ///
    /// # Errors
    /// If a descriptor is not open, or there is no such FIFO.
    pub fn open(channel: &Channel) -> io::Result<Self> {
        let cure = match channel {
            Channel::Descriptors(..) => {
                "descriptors that are open: exec 8<>CONTROL 9<>ACK, then --control fd:8,9"
            }
            Channel::Fifos(..) => {
                "FIFOs that are there: mkfifo CONTROL ACK, then --control fifo:CONTROL,ACK"
            }
        };
        Self::open_as_given(channel)
            .map_err(|error| io::Error::other(format!("{error}\n  try: {cure}")))
    }

    fn open_as_given(channel: &Channel) -> io::Result<Self> {
        let (control, answers) = match channel {
            Channel::Descriptors(control, answers) => (
                File::from(descriptor(*control)?),
                answers.map(descriptor).transpose()?.map(File::from),
            ),
            Channel::Fifos(control, answers) => {
                (fifo(control)?, answers.as_deref().map(fifo).transpose()?)
            }
        };
        Ok(Self { control, answers })
    }

    /// The descriptor to poll for commands.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Reads the commands that have arrived, if any have: it does not wait. `None`
    /// at end of file: no more will come.
    pub fn take(&mut self) -> Option<Vec<Order>> {
        // Others use a descriptor that was given to us as well, so that it stays one
        // that waits.
        let mut poll = PollSet::default();
        let at = poll.add(self.control.as_fd());
        let is_polled = poll.wait(Some(Duration::ZERO)).is_ok();
        if !is_polled || !(poll.is_readable(at) || poll.is_hung_up(at)) {
            return Some(Vec::new());
        }
        let mut bytes = [0; MOST_BYTES];
        let read = match self.control.read(&mut bytes) {
            Ok(0) => return None,
            Ok(read) => read,
            Err(error) => {
                let again = [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock];
                return again.contains(&error.kind()).then(Vec::new);
            }
        };
        let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default());
        let lines = text.split(['\n', '\0']);
        Some(lines.filter_map(Order::parse).collect())
    }

    /// Acknowledges a command; does not wait if nobody reads the
    /// acknowledgement.
    pub fn answer(&mut self) {
        if let Some(answers) = &mut self.answers
            && wait_writable(answers.as_fd(), ANSWER_WITHIN).unwrap_or(false)
        {
            // Whoever asked may be gone.
            let _ = answers.write_all(ANSWER);
        }
    }
}

/// Opened for both directions: others may come and go.
fn fifo(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    match file.metadata()?.file_type().is_fifo() {
        true => Ok(file),
        false => Err(io::Error::other("it is no FIFO")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Channel, Commands, Details, Order};
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn lines_mean_what_perf_takes_them_for() {
        let on = |name: &str| Some(Order::Switch(true, Some(name.to_owned())));
        let cases = [
            ("enable", Some(Order::Switch(true, None))),
            ("disable", Some(Order::Switch(false, None))),
            ("enable page-faults", on("page-faults")),
            ("enablexyz", Some(Order::Wrong)),
            ("evlist", Some(Order::List(Details::Names))),
            ("evlist -v", Some(Order::List(Details::Attrs))),
            ("evlist -F", Some(Order::List(Details::Rates))),
            ("evlist -x", Some(Order::Wrong)),
            ("snapshot", Some(Order::Snapshot)),
            ("pingpong", Some(Order::Ping)),
            ("stop", Some(Order::Stop)),
            ("bogus", None),
            ("", None),
        ];
        for (line, order) in cases {
            assert_eq!(Order::parse(line), order, "{line:?}");
        }
    }

    #[test]
    fn commands_come_through_descriptors_and_are_answered() {
        let (control, mut sender) = std::io::pipe().expect("a pipe");
        let (mut reader, answers) = std::io::pipe().expect("a pipe");
        let channel = Channel::Descriptors(control.as_raw_fd(), Some(answers.as_raw_fd()));
        let mut commands = Commands::open(&channel).expect("open");
        assert_eq!(commands.take(), Some(Vec::new()), "it does not wait");
        sender.write_all(b"ping\nstop\0enable").expect("room");
        let orders = commands.take().expect("open");
        assert_eq!(
            orders,
            [Order::Ping, Order::Stop, Order::Switch(true, None)]
        );
        commands.answer();
        drop((sender, answers));
        assert_eq!(commands.take(), None);
        drop(commands);
        let mut answered = String::new();
        reader.read_to_string(&mut answered).expect("readable");
        assert_eq!(answered, "ack\n\0");
        let closed = Channel::Descriptors(1 << 20, None);
        assert!(Commands::open(&closed).is_err());
    }

    #[test]
    fn what_is_no_fifo_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let channel = Channel::Fifos(file.path().to_owned(), None);
        let error = Commands::open(&channel).expect_err("a file");
        assert!(error.to_string().contains("no FIFO"));
        let missing = Channel::Fifos("/no/such".into(), None);
        assert!(Commands::open(&missing).is_err());
    }
}
