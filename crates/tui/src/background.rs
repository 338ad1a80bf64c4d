//! The terminal's background, asked of the terminal (OSC 11).
//!
//! Nobody waits for the answer: a terminal that gives none costs nothing. It
//! comes between the keys, and the library that reads them takes it for some:
//! Alt-], `11;rgb:ffff/ffff/ffff`, and Ctrl-G or Alt-\\ at its end.

use super::theme::Background;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What asks. Its end is that of the answer in most terminals.
pub(super) const QUESTION: &[u8] = b"\x1b]11;?\x07";

/// Letters of an answer, at most: `11;rgba:` and four numbers of four digits.
const LONGEST: usize = 40;

/// Takes the answer out of the keys.
#[derive(Debug, Default)]
pub(super) struct Listener {
    is_awaited: bool,
    /// What came of the answer.
    heard: Option<String>,
}

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The user's.
    Key,
    /// Part of the answer.
    Part,
    /// The end of the answer.
    Answer(Background),
}

impl Listener {
    /// Waits for one answer.
    pub(super) fn awaiting() -> Self {
        Self {
            is_awaited: true,
            heard: None,
        }
    }

    /// Takes a key.
    pub(super) fn hear(&mut self, key: &KeyEvent) -> Heard {
        let KeyCode::Char(letter) = key.code else {
            self.heard = None;
            return Heard::Key;
        };
        let Some(heard) = &mut self.heard else {
            if self.is_awaited && letter == ']' && key.modifiers == KeyModifiers::ALT {
                self.heard = Some(String::new());
                return Heard::Part;
            }
            return Heard::Key;
        };
        let is_end = match letter {
            '\\' => key.modifiers == KeyModifiers::ALT,
            'g' => key.modifiers == KeyModifiers::CONTROL,
            _ => false,
        };
        if !is_end {
            heard.push(letter);
            if heard.len() > LONGEST {
                self.heard = None;
            }
            return Heard::Part;
        }
        self.is_awaited = false;
        let background = self.heard.take().and_then(|answer| background_of(&answer));
        background.map_or(Heard::Part, Heard::Answer)
    }
}

/// The background that `11;rgb:R/G/B` tells, of one to four hexadecimal
/// digits each.
fn background_of(answer: &str) -> Option<Background> {
    let colour = answer.strip_prefix("11;")?;
    let colour = colour
        .strip_prefix("rgba:")
        .or(colour.strip_prefix("rgb:"))?;
    let part = |text: &str| {
        let most = 16_u32
            .checked_pow(u32::try_from(text.len()).ok()?)?
            .checked_sub(1)?;
        let value = u32::from_str_radix(text, 16).ok()?;
        (most > 0 && text.len() <= 4).then(|| value * 1000 / most)
    };
    let mut parts = colour.split('/').map(part);
    let (red, green, blue) = (parts.next()??, parts.next()??, parts.next()??);
    // How bright an eye finds it, in thousandths (ITU-R BT.709).
    let bright = (213 * red + 715 * green + 72 * blue) / 1000;
    Some(if bright > 500 {
        Background::Light
    } else {
        Background::Dark
    })
}

#[cfg(test)]
mod tests {
    use super::{Heard, Listener, background_of};
    use crate::Background;
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    fn hear(listener: &mut Listener, keys: &str) -> Vec<Heard> {
        let key = |letter| match letter {
            '[' => KeyEvent::new(KeyCode::Char(']'), KeyModifiers::ALT),
            '$' => KeyEvent::new(KeyCode::Char('\\'), KeyModifiers::ALT),
            '^' => KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL),
            '<' => KeyEvent::new(KeyCode::Left, KeyModifiers::NONE),
            letter => KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE),
        };
        keys.chars()
            .map(|letter| listener.hear(&key(letter)))
            .collect()
    }

    #[test]
    fn the_answer_is_found_between_keys() {
        for end in ["$", "^"] {
            let mut listener = Listener::awaiting();
            assert_eq!(hear(&mut listener, "jg"), [Heard::Key; 2]);
            let heard = hear(&mut listener, &format!("[11;rgb:ffff/ffff/dddd{end}"));
            let (last, parts) = heard.split_last().expect("some");
            assert!(parts.iter().all(|&heard| heard == Heard::Part));
            assert_eq!(*last, Heard::Answer(Background::Light));
            assert_eq!(hear(&mut listener, "j[k^"), [Heard::Key; 4]);
        }
    }

    #[test]
    fn what_is_no_answer_gives_the_keys_back() {
        let mut listener = Listener::default();
        assert_eq!(hear(&mut listener, "[11"), [Heard::Key; 3]);
        let mut listener = Listener::awaiting();
        hear(&mut listener, &format!("[{}", "1".repeat(41)));
        assert_eq!(hear(&mut listener, "j"), [Heard::Key]);
        hear(&mut listener, "[11");
        assert_eq!(hear(&mut listener, "<j"), [Heard::Key; 2]);
    }

    #[test]
    fn colours_are_light_or_dark() {
        for (answer, wanted) in [
            ("11;rgb:0000/0000/0000", Some(Background::Dark)),
            ("11;rgb:ff/ff/ff", Some(Background::Light)),
            ("11;rgba:fdfd/f6f6/e3e3/ffff", Some(Background::Light)),
            ("11;rgb:0000/2b2b/3636", Some(Background::Dark)),
            ("11;rgb:0000/0000/ffff", Some(Background::Dark)),
            ("11;rgb:", None),
            ("11;rgb:/1/1", None),
            ("11;rgb:00000000/1/1", None),
            ("10;rgb:ff/ff/ff", None),
        ] {
            assert_eq!(background_of(answer), wanted, "{answer}");
        }
    }
}
