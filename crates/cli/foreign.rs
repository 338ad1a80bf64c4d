//! Profiles of other tools in place of recordings.

use crate::recognise::head;
use crate::recording::Input;
use prof_perfdata::Reader;
use prof_profile::Profile;
use prof_resolve::{Phase, Progress};
use std::fs::File;
use std::io::{self, Cursor, IsTerminal, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;

/// What an input turns out to be.
pub(crate) enum Found {
    /// A profile of another tool.
    Profile(Box<Profile>),
    /// Anything else; standard input, of which something was read, with that.
    Other(Option<Box<dyn Read + Send>>),
}

/// Reads an input, if it is a profile of another tool.
///
/// # Errors
/// If it is one, but cannot be read whole.
pub(crate) fn find(input: &Input, progress: &dyn Progress) -> anyhow::Result<Found> {
    if input.path != Path::new("-") {
        // What cannot be opened is told where recordings are. A FIFO is not
        // even opened: its writer would find nobody who reads.
        let is_file = input.path.is_file();
        let found = is_file.then(|| File::open(&input.path).ok()).flatten();
        return match found {
            Some(mut file) if prof_import::is_foreign(&head(&file)?) => {
                file.rewind()?;
                let told = Told::new(&file, file.metadata()?.len(), progress);
                Ok(Found::Profile(Box::new(read(told, input)?)))
            }
            _ => Ok(Found::Other(None)),
        };
    }
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(Found::Other(None));
    }
    let mut file = File::from(stdin.as_fd().try_clone_to_owned()?);
    let is_file = file.metadata()?.is_file();
    let head = head(&file)?;
    if is_file {
        file.rewind()?;
    }
    if prof_import::is_foreign(&head) {
        let rest = if is_file { Vec::new() } else { head };
        let length = if is_file { file.metadata()?.len() } else { 0 };
        let told = Told::new(Cursor::new(rest).chain(file), length, progress);
        return Ok(Found::Profile(Box::new(read(told, input)?)));
    }
    let begun = (!is_file).then(|| Box::new(Cursor::new(head).chain(file)) as Box<_>);
    Ok(Found::Other(begun))
}

/// What is read, and how far that has come.
struct Told<'p, R> {
    file: R,
    done: u64,
    /// How long it is, 0 if that is not known.
    length: u64,
    progress: &'p dyn Progress,
}

impl<'p, R: Read> Told<'p, R> {
    fn new(file: R, length: u64, progress: &'p dyn Progress) -> Self {
        Self {
            file,
            done: 0,
            length,
            progress,
        }
    }
}

impl<R: Read> Read for Told<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.done += length as u64;
        let total = (self.length > 0).then_some(self.length);
        self.progress.update(Phase::Reading, self.done, total);
        Ok(length)
    }
}

fn read(file: impl Read, input: &Input) -> anyhow::Result<Profile> {
    let name = input.path.file_stem().unwrap_or_default().to_string_lossy();
    prof_import::read(file, &name).map_err(|error| anyhow::anyhow!("{}: {error}", input.name()))
}

/// A recording of nothing, where commands ask the recording of a profile.
///
/// # Errors
/// None, as far as the format stays what it is.
pub(crate) fn no_recording() -> anyhow::Result<Reader> {
    // The header of a stream: its magic, and how long it is.
    let mut header = b"PERFILE2".to_vec();
    header.extend(16_u64.to_le_bytes());
    Ok(Reader::open_stream(Box::new(Cursor::new(header)))?)
}
