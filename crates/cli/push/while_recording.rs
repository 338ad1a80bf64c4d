//! `prof record --every TIME --push URL`: files of a recording become profiles
//! and go, beside the recording.

use super::posting::Until;
use super::waiting::{LOCK, Request, lock_in};
use super::{Delivery, Sender, Tried};
use crate::outcome::say;
use crate::recording::Input;
use anyhow::Context;
use prof_symbolize::{Sources, Symbolizer};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often is looked for finished files.
const LOOKING: Duration = Duration::from_millis(200);
/// How long the end of a recording waits for the receiver.
const LAST: Duration = Duration::from_secs(5);

/// Takes the files of one recording.
pub(crate) struct Pusher {
    folder: PathBuf,
    /// Set when the recording has ended.
    until: Until,
    thread: JoinHandle<()>,
}

impl Pusher {
    /// Begins to look; where that `is_quiet`, only what does not go well is told.
    ///
    /// # Errors
    /// If the address is none, or nothing can wait.
    pub(crate) fn start(url: &str, delivery: &Delivery, is_quiet: bool) -> anyhow::Result<Self> {
        let sender = delivery.open(url)?;
        let folder = sender
            .waiting
            .folder()
            .join(format!("{RECORDING}{}", std::process::id()));
        let lock = fs::create_dir(&folder).and_then(|()| lock_in(&folder));
        let lock = lock.with_context(|| format!("cannot make {}", folder.display()))?;
        let until = sender.until.clone();
        let mut pushing = Pushing::new(sender);
        pushing.is_quiet = is_quiet;
        let thread = thread::Builder::new().name("push".into());
        let own = folder.clone();
        let thread = thread.spawn(move || {
            pushing.run(&own);
            drop(lock);
        });
        Ok(Self {
            folder,
            until,
            thread: thread.context("cannot start a thread")?,
        })
    }

    /// Where the recording is to be written, in files that follow each other.
    pub(crate) fn output(&self) -> PathBuf {
        self.folder.join(OPEN)
    }

    /// The recording has ended: sends what can be sent, and tells what became
    /// of all.
    pub(crate) fn finish(self) {
        self.until.set(LAST);
        if self.thread.join().is_err() {
            say("sending profiles failed; they wait");
        }
    }
}

/// How the folder of a recording's files begins, before the recorder's process.
const RECORDING: &str = "recording-";

/// The file that is written now; a finished one has the time in its name.
const OPEN: &str = "perf.data";

/// Files of a recording that are named by one symbolizer: it knows the kernel
/// and its modules as they were for the first.
const NAMED_BY_ONE: u32 = 32;

/// Bytes of symbol tables and debug information that stay from one profile to the
/// next: reading them again is most of what a profile costs.
const KEPT_TABLES: u64 = 28 << 20;

struct Pushing {
    sender: Sender,
    /// Keeps what files have in common: the kernel, and programs that run on.
    symbolizer: Symbolizer,
    /// By this symbolizer.
    files_named: u32,
    /// Whether only what does not go well is told.
    is_quiet: bool,
    /// Whether it was told that files cannot be read.
    told: bool,
}

/// Makes profiles of what recorders left that were killed.
pub(super) fn take_abandoned(sender: Sender) -> Sender {
    let mut pushing = Pushing::new(sender);
    pushing.take_abandoned();
    pushing.sender
}

impl Pushing {
    fn new(sender: Sender) -> Self {
        Self {
            sender,
            symbolizer: symbolizer(),
            files_named: 0,
            is_quiet: false,
            told: false,
        }
    }

    /// Whose lock can be had has no recorder any more.
    fn take_abandoned(&mut self) {
        let entries = fs::read_dir(self.sender.waiting.folder());
        let entries = entries.into_iter().flatten().flatten();
        for folder in entries.map(|entry| entry.path()) {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            if !name.starts_with(RECORDING) {
                continue;
            }
            if let Ok(Some(_lock)) = lock_in(&folder) {
                self.take_files(&folder, true);
                remove_empty(&folder);
            }
        }
    }

    fn run(&mut self, folder: &Path) {
        self.take_abandoned();
        let mut is_last = false;
        while !is_last {
            // All that is finished before the end is seen after it.
            is_last = self.sender.until.is_set();
            self.take_files(folder, is_last);
            let mut sent = self.sender.step();
            while matches!(sent, Ok(Tried::Done)) {
                sent = self.sender.step();
            }
            if let (Err(error), false) = (&sent, self.told) {
                self.tell(format!("{}: {error}", folder.display()));
            }
            if !is_last {
                thread::sleep(LOOKING);
            }
        }
        if self.sender.told.is_none() {
            // Making profiles may have taken long.
            self.sender.until.set(LAST);
        }
        // It was said; what is left waits.
        let _ = self.sender.drain();
        self.sender.conclude(self.is_quiet);
        remove_empty(folder);
    }

    /// Makes profiles of finished files, which go; at the end also of the one that
    /// was open if the recording broke off.
    fn take_files(&mut self, folder: &Path, is_last: bool) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut finished: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        finished.retain(|path| is_finished(path) || (is_last && path.ends_with(OPEN)));
        finished.sort();
        for path in finished {
            let input = Input::of_file(path.clone());
            let request = self.sender.request(&input, &self.symbolizer, None);
            self.close_unused();
            match request {
                Ok(request) => self.put(&path, &request),
                // Nothing ran: there is nothing to send.
                Err(error) if is_empty(&error) => {
                    let _ = fs::remove_file(path);
                }
                Err(error) => self.set_aside(&path, &error),
            }
        }
    }

    /// Puts a profile behind what waits, in the place of its recording.
    fn put(&mut self, path: &Path, request: &Request) {
        let mut put = self.sender.put(request);
        if is_full(&put) {
            // The recording's room is enough for its profile.
            let _ = fs::remove_file(path);
            put = self.sender.put(request);
        }
        // What waits longest makes room as it does where the bound is reached.
        while is_full(&put) && self.sender.drop_oldest() {
            put = self.sender.put(request);
        }
        if let Err(error) = put {
            self.sender.tally.dropped += 1;
            self.tell(format!("{error}; the profile is left out"));
        }
        let _ = fs::remove_file(path);
    }

    /// Leaves a recording that cannot be read where its user finds it.
    fn set_aside(&mut self, path: &Path, error: &anyhow::Error) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = path.with_file_name(format!("unread-{name}"));
        let aside = fs::rename(path, &aside).map_or(path.to_owned(), |()| aside);
        self.sender.tally.unread += 1;
        self.tell(format!("{error:#}; it stays: {}", aside.display()));
    }

    /// Says the first of such causes.
    fn tell(&mut self, cause: String) {
        if !self.told {
            say(&cause);
        }
        self.told = true;
    }

    /// A file has got its names.
    fn close_unused(&mut self) {
        self.files_named += 1;
        if self.files_named == NAMED_BY_ONE {
            self.files_named = 0;
            self.symbolizer = symbolizer();
        }
        self.symbolizer.close_unused();
    }
}

/// One for several recordings of this machine.
fn symbolizer() -> Symbolizer {
    Symbolizer::new(Sources::default()).keeping_tables(KEPT_TABLES)
}

/// Removes the folder of a recording, which stays where something is in it that
/// could not be read.
fn remove_empty(folder: &Path) {
    let _ = fs::remove_file(folder.join(LOCK));
    let _ = fs::remove_dir(folder);
}

fn is_finished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = name
        .strip_prefix(OPEN)
        .and_then(|rest| rest.strip_prefix('.'));
    ending.is_some_and(|ending| ending.starts_with(|it: char| it.is_ascii_digit()))
}

/// Whether there was no room on the disk.
fn is_full(put: &io::Result<()>) -> bool {
    let kind = put.as_ref().err().map(io::Error::kind);
    matches!(
        kind,
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    )
}

fn is_empty(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(prof_export::ExportError::Nothing { .. })
        )
    })
}
