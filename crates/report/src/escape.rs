//! Names made harmless for the place they go to.
//!
//! Symbol, thread and file names come from the recording and may hold
//! anything: escape sequences that reprogram the terminal, line ends that
//! fake rows, marks that turn the text's direction around.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` for a terminal or a text table: control characters, line and
/// paragraph separators, and characters that change the direction or are not
/// there to be seen become visible escapes (`\n`, `\x1b`, `\u{202e}`). What is
/// left moves no cursor and hides no neighbour.
pub fn terminal(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) || !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            hidden if is_hidden(hidden) => push_escape(&mut safe, hidden),
            visible => safe.push(visible),
        }
    }
    Cow::Owned(safe)
}

fn push_escape(safe: &mut String, hidden: char) {
    let code = u32::from(hidden);
    let written = if code < 0x100 {
        write!(safe, "\\x{code:02x}")
    } else {
        write!(safe, "\\u{{{code:x}}}")
    };
    written.expect("writing to a String succeeds");
}

/// Whether a character acts on the terminal or on other characters, instead
/// of being one to read.
pub(crate) fn is_hidden(character: char) -> bool {
    matches!(character,
        // C0, DEL and C1.
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        // Soft hyphen; Arabic letter mark.
        | '\u{ad}' | '\u{61c}'
        // Zero width, joiners, direction marks.
        | '\u{200b}'..='\u{200f}'
        // Separators, embeddings, overrides.
        | '\u{2028}'..='\u{202e}'
        // Word joiner, invisible operators, isolates, deprecated formats.
        | '\u{2060}'..='\u{206f}'
        // Byte order mark, interlinear annotations.
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        // Tags.
        | '\u{e0000}'..='\u{e007f}'
        // No characters, and not allowed in XML.
        | '\u{fffe}' | '\u{ffff}')
}

/// For a frame of a folded stack. `;` separates frames and the last space the
/// weight, so `;` becomes `\u{3b}`, and so do a leading `#` (a comment) and a
/// space before a number at the end; a backslash that would read as one of our
/// escapes is doubled; `unfold` of the tests undoes it.
pub fn folded(name: &str) -> Cow<'_, str> {
    let plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b';' && byte != b'\\';
    let number = number_at_end(name);
    let is_comment = name.starts_with('#');
    let is_marked = has_mark(name);
    let is_plain = name.bytes().all(plain) && !has_edge_space(name) && !is_marked;
    if !name.is_empty() && is_plain && number.is_none() && !is_comment {
        return Cow::Borrowed(name);
    }
    if name.is_empty() {
        // An empty frame would vanish between two separators.
        return Cow::Borrowed("\\e");
    }
    let mut out = String::with_capacity(name.len() + 16);
    let last = name.char_indices().last().map_or(0, |(at, _)| at);
    for (index, character) in name.char_indices() {
        match character {
            ';' => out.push_str("\\u{3b}"),
            ']' if is_marked && index == last => out.push_str("\\u{5d}"),
            '#' if index == 0 => out.push_str("\\u{23}"),
            ' ' if Some(index) == number => out.push_str("\\u{20}"),
            '\\' => out.push_str("\\\\"),
            ' ' if index == 0 || index == last => out.push_str("\\u{20}"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            _ if is_hidden(character) || (character.is_whitespace() && character != ' ') => {
                push_escape(&mut out, character);
            }
            _ => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// Where the last space is if a number follows it: readers would take that
/// for a second weight, of a comparison.
fn number_at_end(name: &str) -> Option<usize> {
    let at = name.rfind(' ')?;
    let end = name.get(at + 1..)?;
    let is_number = !end.is_empty()
        && end
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number.then_some(at)
}

/// Whether a name ends like the marks that tell what a frame is: `_[k]`.
fn has_mark(name: &str) -> bool {
    let end = name
        .strip_suffix(']')
        .and_then(|name| name.rsplit_once("_["));
    end.is_some_and(|(_, mark)| mark.len() == 1)
}

fn has_edge_space(name: &str) -> bool {
    name.starts_with(' ') || name.ends_with(' ')
}

/// Undoes [`folded`]. Text that is no escape of ours stays as it is.
#[cfg(test)]
pub(crate) fn unfold(frame: &str) -> String {
    let mut out = String::with_capacity(frame.len());
    let mut rest = frame;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let (character, len) = read_escape(escape);
        match character {
            Some(character) => out.push(character),
            None if len == 2 => {}
            None => out.push('\\'),
        }
        rest = escape.get(len..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The character an escape stands for and its length in bytes; `None` and 2
/// for the empty name, `None` and 1 for a backslash that begins no escape.
#[cfg(test)]
fn read_escape(text: &str) -> (Option<char>, usize) {
    match text.as_bytes().get(1) {
        Some(b'\\') => (Some('\\'), 2),
        Some(b'n') => (Some('\n'), 2),
        Some(b't') => (Some('\t'), 2),
        Some(b'r') => (Some('\r'), 2),
        Some(b'e') => (None, 2),
        Some(b'x') => {
            let code = text
                .get(2..4)
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            code.map_or((None, 1), |code| (Some(char::from(code)), 4))
        }
        Some(b'u') => {
            let digits = text
                .strip_prefix("\\u{")
                .and_then(|rest| rest.split_once('}'))
                .map(|(digits, _)| digits)
                .filter(|digits| digits.len() <= 6);
            let character = digits
                .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                .and_then(char::from_u32);
            match (character, digits) {
                (Some(character), Some(digits)) => (Some(character), digits.len() + 4),
                _ => (None, 1),
            }
        }
        _ => (None, 1),
    }
}

/// For text and attributes of XML and HTML: as [`terminal`], and markup
/// characters become entities.
pub(crate) fn markup(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 16);
    for character in terminal(name).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in XML, even as an entity.
            '\u{fffe}' | '\u{ffff}' => push_escape(&mut out, character),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{folded, markup, terminal, unfold};
    use proptest::prelude::*;
    use std::borrow::Cow;

    #[test]
    fn an_ordinary_name_is_not_copied() {
        assert!(matches!(
            terminal("std::vec<int>::push_back"),
            Cow::Borrowed(_)
        ));
        assert!(matches!(terminal("größe_日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_acts_on_the_terminal_becomes_visible() {
        assert_eq!(terminal("a\x1b[31mb"), "a\\x1b[31mb");
        assert_eq!(terminal("a\nb\tc\r"), "a\\nb\\tc\\r");
        assert_eq!(terminal("x\u{9b}2J\u{202e}y"), "x\\x9b2J\\u{202e}y");
    }

    #[test]
    fn folded_frames_hold_no_separator_and_come_back() {
        for name in [
            "", " ", ";", "a;b", "a b", "\\n", "\n", "\\u{3b}", "a\\", "\\e", "x ",
        ] {
            let frame = folded(name);
            assert!(!frame.contains(';') && !frame.contains('\n'), "{name:?}");
            assert_eq!(unfold(&frame), name, "{frame:?}");
        }
    }

    #[test]
    fn markup_cannot_be_left() {
        assert_eq!(
            markup("</text><script>\"'&\u{ffff}"),
            "&lt;/text&gt;&lt;script&gt;&quot;&#39;&amp;\\u{ffff}"
        );
    }

    proptest! {
        #[test]
        fn any_name_comes_back_from_folded(name in "\\PC*|.*|[\\\\;uxe{}0-9 \n]*") {
            let frame = folded(&name);
            prop_assert!(!frame.contains([';', '\n', '\r']) && !frame.is_empty());
            prop_assert!(!frame.chars().any(char::is_control));
            prop_assert_eq!(unfold(&frame), name);
        }

        #[test]
        fn nothing_hidden_is_left(text in "\\PC*|.*|[\\x00-\\x1f\u{7f}-\u{9f}\u{2000}-\u{2070}]*") {
            prop_assert!(!terminal(&text).chars().any(char::is_control));
        }
    }
}
