//! A line that the user types.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Text with a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    text: String,
    /// Byte index of the cursor, at a character's start.
    cursor: usize,
    /// Whether the text is a proposal that the user has not touched: the
    /// first letter typed replaces it.
    is_proposed: bool,
}

/// What a key did to a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Typed {
    /// The text changed.
    Changed,
    /// Only the cursor moved, or nothing happened.
    Nothing,
    /// Done: Enter.
    Accepted,
    /// Called off: Esc or Ctrl-C.
    Cancelled,
}

impl Prompt {
    /// With a proposal.
    pub(super) fn with(text: &str) -> Self {
        Self {
            text: text.to_string(),
            cursor: text.len(),
            is_proposed: !text.is_empty(),
        }
    }

    /// Whether the next letter replaces the text.
    pub(super) fn is_proposed(&self) -> bool {
        self.is_proposed
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text before and after the cursor.
    pub(super) fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.cursor)
    }

    /// Takes a key as a line editor does.
    pub(super) fn key(&mut self, key: &KeyEvent) -> Typed {
        let was_proposed = std::mem::take(&mut self.is_proposed);
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return self.control(key.code);
        }
        match key.code {
            KeyCode::Enter => return Typed::Accepted,
            KeyCode::Esc => return Typed::Cancelled,
            KeyCode::Char(letter) => {
                if was_proposed {
                    self.text.clear();
                    self.cursor = 0;
                }
                self.text.insert(self.cursor, letter);
                self.cursor += letter.len_utf8();
            }
            KeyCode::Backspace if self.text.is_empty() => return Typed::Cancelled,
            KeyCode::Backspace => {
                let end = self.cursor;
                self.left();
                self.text.drain(self.cursor..end);
            }
            KeyCode::Delete => {
                let start = self.cursor;
                self.right();
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
            _ => {
                match key.code {
                    KeyCode::Left => self.left(),
                    KeyCode::Right => self.right(),
                    KeyCode::Home => self.cursor = 0,
                    KeyCode::End => self.cursor = self.text.len(),
                    _ => {}
                }
                return Typed::Nothing;
            }
        }
        Typed::Changed
    }

    fn control(&mut self, code: KeyCode) -> Typed {
        match code {
            KeyCode::Char('c' | 'g') => Typed::Cancelled,
            KeyCode::Char('u') => {
                self.text.drain(..self.cursor);
                self.cursor = 0;
                Typed::Changed
            }
            KeyCode::Char('w') => {
                let before = self.text.get(..self.cursor).unwrap_or_default();
                let start = before.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.text.drain(start..self.cursor);
                self.cursor = start;
                Typed::Changed
            }
            KeyCode::Char('a') => {
                self.cursor = 0;
                Typed::Nothing
            }
            KeyCode::Char('e') => {
                self.cursor = self.text.len();
                Typed::Nothing
            }
            _ => Typed::Nothing,
        }
    }

    fn left(&mut self) {
        let before = self.text.get(..self.cursor).unwrap_or_default();
        self.cursor = before.char_indices().next_back().map_or(0, |(at, _)| at);
    }

    fn right(&mut self) {
        let after = self.text.get(self.cursor..).unwrap_or_default();
        self.cursor += after.chars().next().map_or(0, char::len_utf8);
    }
}

#[cfg(test)]
mod tests {
    use super::{Prompt, Typed};
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    fn press(prompt: &mut Prompt, code: KeyCode) -> Typed {
        prompt.key(&KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_proposal_is_replaced_or_edited() {
        let mut prompt = Prompt::with("a.txt");
        press(&mut prompt, KeyCode::Char('b'));
        press(&mut prompt, KeyCode::Char('c'));
        assert_eq!(prompt.text(), "bc");
        let mut prompt = Prompt::with("a.txt");
        press(&mut prompt, KeyCode::Home);
        press(&mut prompt, KeyCode::Char('b'));
        assert_eq!(prompt.text(), "ba.txt");
        let mut prompt = Prompt::with("a.txt");
        assert_eq!(press(&mut prompt, KeyCode::Backspace), Typed::Changed);
        assert_eq!(prompt.text(), "a.tx");
        assert_eq!(press(&mut prompt, KeyCode::Enter), Typed::Accepted);
    }

    #[test]
    fn it_edits_like_a_shell_also_with_wide_letters() {
        let mut prompt = Prompt::default();
        for letter in "aßc".chars() {
            assert_eq!(press(&mut prompt, KeyCode::Char(letter)), Typed::Changed);
        }
        press(&mut prompt, KeyCode::Left);
        press(&mut prompt, KeyCode::Backspace);
        assert_eq!(prompt.parts(), ("a", "c"));
        press(&mut prompt, KeyCode::Delete);
        assert_eq!(prompt.text(), "a");
        let clear = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
        prompt.key(&clear);
        assert_eq!(prompt.text(), "");
        assert_eq!(press(&mut prompt, KeyCode::Backspace), Typed::Cancelled);
    }
}
