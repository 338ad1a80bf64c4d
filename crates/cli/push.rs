//! `prof push`, and what `prof record --push` shares with it: recordings go to
//! a store of profiles, which may be slow, away or refuse.

mod posting;
mod store;
mod url;
mod waiting;
mod while_recording;

use crate::input::NameOptions;
use crate::outcome::{self, Outcome, UsageError, say};
use crate::recording::{Input, quoted};
use anyhow::{Context, bail};
use posting::{Poster, Until};
use prof_http::{Answer, Trust, TrustError};
use prof_symbolize::Symbolizer;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};
use store::Store;
use waiting::{Request, Waiting};
pub(crate) use while_recording::Pusher;

const EXAMPLES: &str = "\
Examples:
  prof push perf.data --url http://localhost:4040/ingest       to Pyroscope
  prof push a.data b.data --url http://parca:7070/api/profiles/writeraw
  prof push --url http://localhost:4318/v1development/profiles sends what waits
  prof record -a -g --every 10s --push http://localhost:4040/ingest

What the receiver does not take now (it is away, or answers 429 or 5xx) waits in
a folder, and is tried again after a time that doubles; what it refuses for what
it is (400, 413, 415, 422) is told and left out. Where it refuses who sends, or is
elsewhere (401, 404, a redirection), profiles wait until that is mended. Of https
receivers the system's authorities tell who they are.";

/// Send recordings to a store of profiles: Pyroscope, Parca, OpenTelemetry
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The receiver; its path tells the protocol
    #[arg(long, value_name = "URL")]
    url: String,
    #[command(flatten)]
    delivery: Delivery,
    #[command(flatten)]
    names: NameOptions,
    /// How long to try before what is left waits for another time; 0: once
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// The recordings; without any, what waits is sent
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What the service is called if nobody says.
const DEFAULT_SERVICE: &str = "prof";

/// How profiles are sent.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Delivery {
    /// What the profiled service is called in the store
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SERVICE, value_parser = label_text)]
    service: String,
    /// A label of what is sent; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// A line of the request's head, such as 'Authorization: Bearer …'
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<String>,
    /// The authorities (PEM) that tell who an https receiver is [default: the system's]
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Where profiles wait [default: $XDG_STATE_HOME/prof/push, or below ~/.local/state]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// How many megabytes may wait; of more the oldest go
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    spool_size: u64,
}

/// What may stand in a label: receivers write them as `{a=b,c=d}`.
fn label_text(text: &str) -> Result<String, String> {
    let is_plain = |it: char| !it.is_control() && !"{}=,\"".contains(it);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("empty, or with one of {}=,\" in it".into()),
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((label_text(name)?, label_text(value)?))
}

fn header(text: &str) -> Result<String, String> {
    match text.is_ascii() && prof_http::is_header(text) {
        true => Ok(text.to_owned()),
        false => Err("write NAME: VALUE".into()),
    }
}

impl Delivery {
    /// Whether anything of it was asked for.
    pub(crate) fn is_given(&self) -> bool {
        let has_words = !self.labels.is_empty() || !self.headers.is_empty();
        let has_name = self.service != DEFAULT_SERVICE;
        has_words || has_name || self.spool.is_some() || self.cacert.is_some()
    }

    /// The store at an address, and what waits for it.
    fn open(&self, url: &str) -> anyhow::Result<Sender> {
        let store = Store::new(url, &self.service, self.labels.clone());
        let store = store.map_err(|why| UsageError(format!("{url}: {why}")))?;
        let trust = match (store.url.is_encrypted, &self.cacert) {
            (true, Some(only)) => Trust::of_file(only)?,
            (true, None) => Trust::of_system().map_err(without_authorities)?,
            (false, None) => Trust::default(),
            (false, Some(_)) => {
                let message = format!("{url} is not encrypted: --cacert is for https");
                return Err(UsageError(message).into());
            }
        };
        let folder = match &self.spool {
            Some(folder) => folder.clone(),
            None => default_spool()?,
        };
        // Of each receiver its own: one that is away holds up no other.
        let of_url = format!("{}{}", store.url.authority, store.url.path);
        let is_plain = |it: char| it.is_ascii_alphanumeric() || ".-".contains(it);
        let name = of_url.replace(|it| !is_plain(it), "_");
        let folder = folder.join(name);
        let waiting = Waiting::open(folder.clone(), self.spool_size << 20);
        let waiting = waiting.with_context(|| {
            let cure = match self.spool {
                Some(_) => "",
                None => "\n  try: --spool DIR",
            };
            format!("cannot make {}{cure}", folder.display())
        })?;
        Ok(Sender {
            again: self.again(&store.url.shown()),
            store,
            poster: Poster::new(trust, self.headers.clone()),
            until: Until::default(),
            waiting,
            pause: FIRST_PAUSE,
            next: Instant::now(),
            told: None,
            tally: Tally::default(),
        })
    }
}

impl Delivery {
    /// The command that sends what waits.
    fn again(&self, url: &str) -> String {
        let mut command = format!("prof push --url {}", quoted(url));
        let files = [("spool", &self.spool), ("cacert", &self.cacert)];
        for (option, file) in files {
            if let Some(file) = file {
                // It may be given elsewhere.
                let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
                command += &format!(" --{option} {}", quoted(&file.to_string_lossy()));
            }
        }
        // What they hold may be secret.
        if !self.headers.is_empty() {
            command += " --header …";
        }
        command
    }
}

fn without_authorities(error: TrustError) -> anyhow::Error {
    anyhow::anyhow!("{error}\n  try: --cacert FILE, or install ca-certificates")
}

fn default_spool() -> anyhow::Result<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let state = of("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(of("HOME")?.join(".local/state")));
    match state {
        Some(state) => Ok(state.join("prof/push")),
        None => bail!("there is no folder for what waits: HOME is not set\n  try: --spool DIR"),
    }
}

/// How another authority is named.
const NAME_AUTHORITY: &str = "--cacert FILE, with the certificate of who issued it";
/// The pause after a first failure; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// No receiver is left alone longer, whatever it asks for.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// Why profiles go where more would wait than may.
const NO_ROOM: &str = "no room for all that waits";

/// What became of the profiles.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    sent: usize,
    /// By the receiver, for good.
    refused: usize,
    /// For want of room.
    dropped: usize,
    /// Recordings that could not be read, and stay.
    unread: usize,
}

/// What a try came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// One is sent, or refused for good.
    Done,
    /// None waits.
    Nothing,
    /// Not before somebody does something: who sends, or where to, is not right.
    Barred,
    /// Not yet; to be tried again then.
    Later(Instant),
}

/// Sends what waits, the oldest first.
struct Sender {
    store: Store,
    poster: Poster,
    /// When sending is over.
    until: Until,
    waiting: Waiting,
    /// The command that sends what is left.
    again: String,
    pause: Duration,
    next: Instant,
    /// The cause that was told last: one line a cause.
    told: Option<String>,
    tally: Tally,
}

impl Sender {
    /// Makes of a recording what is sent.
    fn request(
        &self,
        input: &Input,
        symbolizer: &Symbolizer,
        names: Option<&NameOptions>,
    ) -> anyhow::Result<Request> {
        let detail = names.map_or(prof_symbolize::Detail::Source, NameOptions::detail);
        let (mut profile, _) = input.resolve(symbolizer, detail, &())?;
        let origin = &mut profile.origin;
        if let (None, Some((_, last))) = (origin.wall_clock, origin.time_range) {
            // It ended when its file did.
            let written = input.last_written();
            let written = written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let written = written.and_then(|at| u64::try_from(at.as_nanos()).ok());
            origin.wall_clock = written.map(|written| (written, last));
        }
        self.store.request(&profile)
    }

    /// Puts it behind what waits.
    fn put(&mut self, request: &Request) -> io::Result<()> {
        let dropped = self.waiting.put(request).map_err(|error| {
            let folder = self.waiting.folder().display();
            io::Error::new(error.kind(), format!("cannot keep it in {folder}: {error}"))
        })?;
        self.drop_told(dropped, NO_ROOM);
        Ok(())
    }

    /// Gives the room of the one that waits longest; whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let dropped = self.waiting.drop_oldest().unwrap_or(false);
        self.drop_told(usize::from(dropped), "the disk is full");
        dropped
    }

    /// Counts profiles that went, and says of the first why.
    fn drop_told(&mut self, dropped: usize, why: &str) {
        if dropped > 0 && self.tally.dropped == 0 {
            say(&format!(
                "{}: {why}, the oldest profiles go{}",
                self.waiting.folder().display(),
                if why == NO_ROOM {
                    "\n  try: --spool-size MB"
                } else {
                    ""
                }
            ));
        }
        self.tally.dropped += dropped;
    }

    /// Sends one, if it is time.
    fn step(&mut self) -> io::Result<Tried> {
        if Instant::now() < self.next || self.until.left() == Some(Duration::ZERO) {
            return Ok(Tried::Later(self.next));
        }
        // Another process may be sending the same.
        let Some(_lock) = self.waiting.lock()? else {
            return Ok(self.later(FIRST_PAUSE));
        };
        let Some((path, request)) = self.waiting.oldest()? else {
            return Ok(Tried::Nothing);
        };
        let cause = match self.post(request) {
            Ok(answer) if (200..300).contains(&answer.status) => {
                self.tally.sent += 1;
                self.works();
                return removed(&path);
            }
            Ok(answer) => match answer.status {
                408 | 425 | 429 | 500..=599 => {
                    let asked = answer.retry_after.unwrap_or_default();
                    self.pause = self.pause.max(asked.min(LONGEST_ASKED));
                    answered(&answer)
                }
                300..=399 | 401..=405 | 407 | 421 | 426 => {
                    self.tell(format!("{}; kept", answered(&answer)));
                    self.later(LONGEST_PAUSE);
                    return Ok(Tried::Barred);
                }
                _ => {
                    self.tally.refused += 1;
                    self.tell(format!("refused, and left out: {}", answered(&answer)));
                    return removed(&path);
                }
            },
            Err(error) => {
                let explained = prof_http::explained(&error, NAME_AUTHORITY);
                explained.unwrap_or_else(|| error.to_string())
            }
        };
        // A cure stands on a line of its own.
        let (cause, cure) = cause.split_once('\n').unwrap_or((&cause, ""));
        let line = if cure.is_empty() { "" } else { "\n" };
        self.tell(format!("{cause}; kept, and tried again{line}{cure}"));
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        Ok(self.later(pause))
    }

    fn post(&self, request: Request) -> io::Result<Answer> {
        self.poster
            .post(&self.store.url.shown(), request, &self.until)
    }

    fn later(&mut self, pause: Duration) -> Tried {
        self.next = Instant::now() + pause;
        Tried::Later(self.next)
    }

    fn works(&mut self) {
        self.pause = FIRST_PAUSE;
        if self.told.take().is_some() {
            say(&format!("{} takes profiles again", self.name()));
        }
    }

    fn name(&self) -> String {
        self.store.url.shown()
    }

    /// Tells a cause, once.
    fn tell(&mut self, cause: String) {
        if self.told.as_ref() != Some(&cause) {
            say(&format!("{}: {cause}", self.name()));
            self.told = Some(cause);
        }
    }

    /// Sends until nothing waits or the time is over.
    fn drain(&mut self) -> io::Result<()> {
        loop {
            let next = match self.step()? {
                Tried::Nothing | Tried::Barred => return Ok(()),
                Tried::Done => continue,
                Tried::Later(next) => next.saturating_duration_since(Instant::now()),
            };
            if self.until.is_over() {
                return Ok(());
            }
            std::thread::sleep(self.until.left().map_or(next, |left| next.min(left)));
        }
    }

    /// Says what became of all, or only what did not go well; whether nothing is missing
    /// there.
    fn conclude(&self, quiet: bool) -> bool {
        let Tally {
            sent,
            refused,
            dropped,
            unread,
        } = self.tally;
        let left = self.waiting.count();
        let profiles = prof_profile::several(sent as u64, "profile");
        let mut told = format!("{profiles} sent to {}", self.name());
        for (count, what) in [
            (refused, "refused"),
            (dropped, "dropped for want of room"),
            (unread, "could not be read and stays as a recording"),
        ] {
            if count > 0 {
                told += &format!(", {count} {what}");
            }
        }
        if left > 0 {
            told += &format!(
                "; {left} wait in {}\n  {} sends them",
                self.waiting.folder().display(),
                self.again
            );
        }
        let is_well = refused + dropped + unread + left == 0;
        if !(quiet && is_well) {
            say(&told);
        }
        is_well
    }
}

fn removed(path: &Path) -> io::Result<Tried> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(Tried::Done),
    }
}

fn answered(answer: &Answer) -> String {
    let status = answer.status;
    match (&answer.location, answer.text.is_empty()) {
        (Some(url), _) => format!("it answers {status} and is elsewhere: {url}"),
        (None, true) => format!("it answers {status}"),
        (None, false) => format!("it answers {status}: {}", answer.text),
    }
}

/// Says which recording an error is about, unless it does itself.
fn of_file(error: anyhow::Error, file: &Path) -> anyhow::Error {
    let name = file.display().to_string();
    match format!("{error:#}").contains(&name) {
        true => error,
        false => error.context(name),
    }
}

/// Sends.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let mut sender = args.delivery.open(&args.url)?;
    if args.files.is_empty() {
        sender = while_recording::take_abandoned(sender);
    }
    let mut all_read = true;
    for file in &args.files {
        let input = Input::of_file(file.clone());
        let symbolizer = args.names.symbolizer();
        let put = sender
            .request(&input, &symbolizer, Some(&args.names))
            .and_then(|request| Ok(sender.put(&request)?))
            .map_err(|error| of_file(error, file));
        match put {
            Err(error) if args.files.len() > 1 => {
                // The others go all the same.
                outcome::explain(&error);
                all_read = false;
            }
            put => put?,
        }
    }
    let patience = Duration::from_secs(args.patience);
    sender.until.set(patience);
    sender.drain()?;
    Ok(match sender.conclude(false) && all_read {
        true => Outcome::Done,
        false => Outcome::Code(1),
    })
}
