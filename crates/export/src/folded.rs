//! Folded stacks, as `prof flamegraph --format folded` writes them.

use crate::ExportError;
use crate::choice::Chosen;
use prof_profile::EventId;
use prof_report::escape;
use prof_report::model::{Filter, Scope, Selection};
use prof_report::picture::{self, PictureError, PictureOptions};
use std::io::{self, Write};

/// Writes a line a stack; where there are several events, each stack stands
/// on its event.
///
/// # Errors
/// If `out` cannot be written to.
pub(crate) fn write(chosen: &Chosen<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let profile = chosen.profile;
    for &event in &chosen.events {
        let name = profile.events.get(usize::from(event.0));
        let name = escape::folded(name.map_or("", |event| &event.name));
        let root = match chosen.events.len() {
            1 => String::new(),
            _ => format!("{name};"),
        };
        let mut lines = Lines { out, root };
        match picture::folded(profile, &options(chosen, event), &mut lines) {
            Ok(()) | Err(PictureError::AllHidden { .. } | PictureError::NoSamples { .. }) => {}
            Err(PictureError::Io(error)) => return Err(error.into()),
            Err(other) => return Err(io::Error::other(other).into()),
        }
    }
    Ok(Vec::new())
}

fn options(chosen: &Chosen<'_>, event: EventId) -> PictureOptions {
    let choice = &chosen.choice;
    let selection = Selection {
        event,
        scope: Scope {
            times: choice.times.clone(),
            cpus: choice.cpus.clone(),
            ..Scope::default()
        },
        filter: Filter {
            pids: choice.pids.clone(),
            tids: choice.tids.clone(),
            comms: choice.comms.clone(),
            ..Filter::default()
        },
        ..Selection::default()
    };
    PictureOptions {
        selection,
        ..PictureOptions::default()
    }
}

/// Puts a root before each line; lines come whole.
struct Lines<'a> {
    out: &'a mut dyn Write,
    root: String,
}

impl Write for Lines<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.out.write_all(self.root.as_bytes())?;
        self.out.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
