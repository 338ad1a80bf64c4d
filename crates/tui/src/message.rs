//! What the user is told at the bottom of the screen.

use super::shared::Shared;

/// What the user is told until the next key or click.
#[derive(Debug)]
pub(super) struct Message {
    words: String,
    is_failure: bool,
}

impl Shared {
    /// Tells the user something. A failure that is told already stays.
    pub(super) fn say(&mut self, words: impl Into<String>) {
        let has_failure = self.message.as_ref().is_some_and(|told| told.is_failure);
        if !has_failure {
            self.message = Some(Message {
                words: words.into(),
                is_failure: false,
            });
        }
    }

    /// Tells the user that something failed: until the next key or click,
    /// whatever else is to be told meanwhile.
    pub(super) fn fail(&mut self, words: impl Into<String>) {
        self.message = Some(Message {
            words: words.into(),
            is_failure: true,
        });
    }

    /// What is told now.
    pub(super) fn message(&self) -> Option<&str> {
        self.message.as_ref().map(|message| message.words.as_str())
    }
}
