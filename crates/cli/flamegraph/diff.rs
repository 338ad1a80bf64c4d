//! `prof flamegraph --diff`: what changed between recordings, drawn.

use super::Args;
use crate::outcome::{Outcome, UsageError};
use crate::report::emptiness::check_cause;
use crate::runs::{check_distinct, files, input};
use prof_compare::{Counterparts, Functions};
use prof_profile::{EventId, Profile, Redaction};
use prof_report::picture::{DiffOptions, Drawable, Known, OfSide, PictureFormat};
use prof_statistics::Pairing;
use prof_symbolize::Symbolizer;
use std::path::Path;

/// What is drawn of two sides.
pub(crate) struct Drawing {
    pub(crate) title: Option<String>,
    pub(crate) width: Option<usize>,
    pub(crate) min_width: f64,
    pub(crate) is_inverted: bool,
    pub(crate) pairing: Pairing,
    pub(crate) format: PictureFormat,
}

impl Drawing {
    /// The picture.
    pub(crate) fn draw(&self, sides: &[DrawnSide; 2]) -> anyhow::Result<Vec<u8>> {
        let [before, after] = sides;
        let counterparts = Counterparts::of(&before.functions, &after.functions);
        let options = DiffOptions {
            title: self.title.clone(),
            width: self.width,
            min_width: self.min_width,
            is_inverted: self.is_inverted,
            bound: 2.0,
            pairing: self.pairing,
            known: &|side, dso, name| {
                let known = match side {
                    OfSide::Before => counterparts.known_before(dso, name),
                    OfSide::After => counterparts.known_after(dso, name),
                };
                Known {
                    renamed: known.renamed(name),
                    same: known.name,
                }
            },
        };
        let sides: [&[Drawable]; 2] = [&before.pictures, &after.pictures];
        let drawn = self.format.draw_diff(sides, &options).ok_or_else(|| {
            let why = "--diff draws svg or html\n  try: -o diff.svg";
            UsageError(why.into())
        })??;
        Ok(drawn.into_bytes())
    }
}

/// The recordings of a side, as they are drawn.
#[derive(Default)]
pub(crate) struct DrawnSide {
    pictures: Vec<Drawable>,
    /// What they are recognised by.
    functions: Vec<Functions>,
}

impl DrawnSide {
    /// Adds an event of a recording.
    pub(crate) fn add(&mut self, profile: &Profile, event: EventId) {
        self.pictures.push(Drawable::new(profile, event));
        self.functions.push(Functions::of(profile, event));
    }
}

/// Reads both sides and draws them.
pub(super) fn drawn(args: &Args, format: PictureFormat) -> anyhow::Result<(Vec<u8>, Outcome)> {
    let symbolizer = args.names.symbolizer();
    let mut outcome = Outcome::Done;
    let mut event = None;
    // One for all, so that a folder has the same number on both sides.
    let redaction = Redaction::default();
    let mut side = |list: &Path| -> anyhow::Result<DrawnSide> {
        let mut side = DrawnSide::default();
        let files = files(list);
        check_distinct(&files)?;
        for path in files {
            let (mut profile, id, how) = one(args, &path, event.as_deref(), &symbolizer)?;
            let about = profile.events.get(usize::from(id.0));
            event.get_or_insert_with(|| about.map_or_else(String::new, |it| it.name.clone()));
            if args.redact {
                profile.redact(&redaction);
            }
            side.add(&profile, id);
            if how != Outcome::Done {
                outcome = how;
            }
        }
        Ok(side)
    };
    let sides = match args.diff.as_slice() {
        [before, after] => [side(before)?, side(after)?],
        _ => return Err(UsageError("--diff BEFORE AFTER".into()).into()),
    };
    let drawing = Drawing {
        title: args.title.clone(),
        width: args.width.map(|width| width as usize),
        min_width: args.min_width.max(0.1),
        is_inverted: args.inverted,
        pairing: Pairing::Independent,
        format,
    };
    Ok((drawing.draw(&sides)?, outcome))
}

/// An event of a recording: the one that was drawn of the others, if there were
/// any.
fn one(
    args: &Args,
    path: &Path,
    event: Option<&str>,
    symbolizer: &Symbolizer,
) -> anyhow::Result<(Profile, EventId, Outcome)> {
    let input = args.idle.of(args.clock.of(&input(path, args.input.force)));
    let (mut profile, outcome) = input.load(&args.names, symbolizer)?;
    check_cause(&profile, &input.name())?;
    // Both sides are of one event: either both have waits or neither.
    profile.show_wait_states();
    let id = match event {
        None => args.event(&profile)?,
        Some(name) => {
            let found = profile.events.iter().position(|event| event.name == name);
            let found = found.and_then(|at| u16::try_from(at).ok());
            let missing = || {
                let name = prof_report::escape::terminal(name).into_owned();
                UsageError(format!(
                    "{} has no {name}, which the recording before has\n  record both sides with the \
                     same -e",
                    path.display()
                ))
            };
            EventId(found.ok_or_else(missing)?)
        }
    };
    Ok((profile, id, outcome))
}
