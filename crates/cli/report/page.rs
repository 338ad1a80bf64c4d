//! What a browser shows of a report: the page to send, and the Firefox
//! Profiler.

use super::form::Form;
use super::web::{self, Served};
use crate::beside::replace;
use crate::outcome::say;
use anyhow::Context;
use prof_export::{Choice, ExportFormat, export};
use prof_profile::{EventId, Profile};
use prof_report::model::Selection;
use prof_report::picture::{self, PictureOptions};

/// Writes or serves what a browser shows.
pub(super) fn show(form: &Form, profile: &Profile, selection: &Selection) -> anyhow::Result<()> {
    if form.firefox {
        let mut content = Vec::new();
        let filter = &selection.filter;
        let choice = Choice {
            pids: filter.pids.clone(),
            tids: filter.tids.clone(),
            comms: filter.comms.clone(),
            times: selection.scope.times.clone(),
            ..Choice::default()
        };
        let told = export(profile, ExportFormat::Firefox, &choice, &mut content)?;
        told.iter().for_each(|line| say(line));
        return web::serve(Served {
            content,
            kind: "application/octet-stream",
            name: "profile.json.gz",
            site: Some((
                "https://profiler.firefox.com",
                "https://profiler.firefox.com/from-url/",
            )),
        });
    }
    let page = page(profile, selection)?;
    if let Some(path) = &form.html {
        replace(path, &page).with_context(|| format!("cannot write {}", path.display()))?;
        say(&format!("wrote {}", path.display()));
        return Ok(());
    }
    web::serve(Served {
        content: page,
        kind: "text/html; charset=utf-8",
        name: "profile.html",
        site: None,
    })
}

/// The page of the first event with samples.
fn page(profile: &Profile, selection: &Selection) -> anyhow::Result<Vec<u8>> {
    let mut events = profile.events.iter();
    let event = events.position(|event| event.samples > 0).unwrap_or(0);
    let options = PictureOptions {
        selection: Selection {
            event: EventId(u16::try_from(event).unwrap_or(0)),
            ..selection.clone()
        },
        ..PictureOptions::default()
    };
    let mut page = Vec::new();
    picture::html(profile, &options, &mut page)?;
    Ok(page)
}
