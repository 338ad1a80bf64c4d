//! What the user is told at the bottom of the screen.

/// What the user is told until the next key or click.
#[derive(Debug, Default)]
pub(super) struct Message(Option<Told>);

#[derive(Debug)]
struct Told {
    words: String,
    is_failure: bool,
}

impl Message {
    /// Tells the user something. A failure that is told already stays.
    pub(super) fn say(&mut self, words: String) {
        let has_failure = self.0.as_ref().is_some_and(|told| told.is_failure);
        if !has_failure {
            self.0 = Some(Told {
                words,
                is_failure: false,
            });
        }
    }

    /// Tells the user that something failed, whatever else is to be told
    /// meanwhile.
    pub(super) fn fail(&mut self, words: String) {
        self.0 = Some(Told {
            words,
            is_failure: true,
        });
    }

    /// A key was pressed, or the mouse: nothing is told any more.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// What is told now.
    pub(super) fn words(&self) -> Option<&str> {
        self.0.as_ref().map(|told| told.words.as_str())
    }
}
