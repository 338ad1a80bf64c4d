//! `--per-event-dump`: the samples of each event in a file of its own.

use anyhow::Context;
use prof_listing::script::{ByEvent, CHUNK};
use prof_perfdata::Event;
use prof_profile::EventId;
use prof_report::escape;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The files, by event.
pub(super) struct Dumps(Vec<Dump>);

struct Dump {
    path: PathBuf,
    /// Has its name when it is whole: nothing that stands there is followed
    /// or cut before.
    partial: PathBuf,
    file: File,
    text: Vec<u8>,
    /// Bytes in the file.
    written: u64,
    samples: u64,
}

impl Dumps {
    /// Files beside the recording, named as perf names them:
    /// `perf.data.EVENT.dump`.
    ///
    /// # Errors
    /// If one cannot be made.
    pub(super) fn new(recording: &Path, events: &[Event]) -> anyhow::Result<Self> {
        let mut dumps: Vec<Dump> = Vec::new();
        for event in events {
            let mut path = path_of(recording, &event.name(), 1);
            for again in 2.. {
                if dumps.iter().all(|dump| dump.path != path) {
                    break;
                }
                path = path_of(recording, &event.name(), again);
            }
            dumps.push(Dump::new(path)?);
        }
        Ok(Self(dumps))
    }

    /// Ends all files and says what is in them, in perf's words.
    ///
    /// # Errors
    /// If one cannot be written.
    pub(super) fn finish(mut self, out: &mut impl Write) -> anyhow::Result<()> {
        for dump in &mut self.0 {
            dump.flush()?;
            let path = dump.path.display().to_string();
            fs::rename(&dump.partial, &dump.path)
                .with_context(|| format!("cannot write {path}"))?;
            let megabytes = dump.written as f64 / f64::from(1 << 20);
            let (path, samples) = (escape::terminal(&path), dump.samples);
            writeln!(
                out,
                "[ prof script: Wrote {megabytes:.3} MB {path} ({samples} samples) ]"
            )?;
        }
        Ok(())
    }
}

impl ByEvent<anyhow::Error> for Dumps {
    fn text(&mut self, event: EventId) -> Option<&mut Vec<u8>> {
        let dump = self.0.get_mut(usize::from(event.0))?;
        dump.samples += 1;
        Some(&mut dump.text)
    }

    fn printed(&mut self, event: EventId) -> anyhow::Result<()> {
        match self.0.get_mut(usize::from(event.0)) {
            Some(dump) if dump.text.len() >= CHUNK => dump.flush(),
            _ => Ok(()),
        }
    }
}

impl Drop for Dumps {
    /// What was not finished is removed.
    fn drop(&mut self) {
        for dump in &self.0 {
            // Gone if it is finished.
            let _ = fs::remove_file(&dump.partial);
        }
    }
}

impl Dump {
    fn new(path: PathBuf) -> anyhow::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let partial = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&partial)
            .with_context(|| format!("cannot make {}", partial.display()))?;
        Ok(Self {
            path,
            partial,
            file,
            text: Vec::new(),
            written: 0,
            samples: 0,
        })
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let written = self.file.write_all(&self.text);
        written.with_context(|| format!("cannot write {}", self.path.display()))?;
        self.written += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }
}

/// A name that stays in the recording's folder, whatever the event is called.
fn path_of(recording: &Path, event: &str, number: usize) -> PathBuf {
    let event = escape::terminal(event).replace('/', "_");
    let mut name = recording.file_name().unwrap_or_default().to_os_string();
    name.push(match number {
        1 => format!(".{event}.dump"),
        number => format!(".{event}.{number}.dump"),
    });
    recording.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::path_of;
    use std::path::Path;

    #[test]
    fn a_dump_stands_beside_its_recording_whatever_its_event_is_called() {
        let of = |event, number| path_of(Path::new("dir/perf.data"), event, number);
        assert_eq!(of("cycles:u", 1), Path::new("dir/perf.data.cycles:u.dump"));
        assert_eq!(
            of("cycles:u", 2),
            Path::new("dir/perf.data.cycles:u.2.dump")
        );
        let hostile = of("../../etc/passwd", 1);
        assert_eq!(hostile, Path::new("dir/perf.data..._.._etc_passwd.dump"));
    }
}
