//! Files that the user asks for: the name, the order to the worker, and leaving
//! when they are written.

use super::App;
use crate::data::Ask;
use crate::frame;
use crate::overlay::{Asked, Overlay};
use crate::shared::Effect;
use crate::writing::{Form, IfTaken, Write, Wrote, expanded, format_of};

impl App {
    /// Asks for a name; the view as text is proposed.
    pub(super) fn ask_for_name(&mut self) {
        if self.shared.seen.is_none() {
            return self
                .shared
                .say("there is nothing to write yet: the recording is being read");
        }
        let name = format!("prof-{}.txt", self.tabs.shown().about().word);
        self.shared.overlay = Some(Overlay::ask(Asked::Write, &name));
    }

    /// Writes what is seen to a file whose name was typed.
    pub(super) fn write(&mut self, typed: &str) {
        if typed.is_empty() {
            return self.shared.say("no name, nothing written");
        }
        let path = match expanded(typed, self.home.as_deref()) {
            Ok(path) => path,
            Err(reason) => return self.shared.fail(format!("cannot write {typed}: {reason}")),
        };
        let form = match format_of(&path) {
            Ok(None) => Form::Text(frame::text(&self.shared, self.tabs.shown())),
            Ok(Some(format)) => Form::Picture(format),
            Err(reason) => return self.shared.fail(format!("cannot write {path}: {reason}")),
        };
        self.order(Write {
            path,
            form,
            taken: IfTaken::Ask,
        });
    }

    /// Writes the view as text to `perf.hist.N`, as perf names it.
    pub(super) fn print(&mut self) {
        if self.shared.seen.is_none() {
            return self
                .shared
                .say("there is nothing to write yet: the recording is being read");
        }
        self.order(Write {
            path: "perf.hist".into(),
            form: Form::Text(frame::text(&self.shared, self.tabs.shown())),
            taken: IfTaken::Number,
        });
    }

    /// Has the worker write a file.
    pub(super) fn order(&mut self, write: Write) {
        self.writes += 1;
        self.shared.asks.push(Ask::Write(write));
    }

    /// Leaves the program when all that was asked for is written; at once, if
    /// asked to leave again.
    pub(super) fn leave(&mut self) {
        if self.writes > 0 && !std::mem::replace(&mut self.is_leaving, true) {
            return self
                .shared
                .say("leaving when the file is written; q leaves at once");
        }
        self.shared.effects.push(Effect::Quit);
    }

    /// The worker has written something, or not.
    pub(super) fn wrote(&mut self, wrote: Wrote) {
        self.writes = self.writes.saturating_sub(1);
        // Whoever wanted to leave wanted the file, too.
        self.is_leaving &= matches!(wrote, Wrote::Done(_));
        if self.is_leaving && self.writes == 0 {
            self.is_leaving = false;
            self.shared.effects.push(Effect::Quit);
        }
        match wrote {
            Wrote::Done(path) => self.shared.say(format!("wrote {path}")),
            Wrote::Failed(reason) => self.shared.fail(reason),
            // What the user types meanwhile is not an answer to this.
            Wrote::Taken(write) if self.shared.overlay.is_some() => {
                self.shared
                    .fail(format!("{} exists already; nothing written", write.path));
            }
            Wrote::Taken(write) => self.shared.overlay = Some(Overlay::Replace(write)),
        }
    }
}
