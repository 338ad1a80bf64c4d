//! A `print fmt` as tokens: the part of C that the kernel's formats use.

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or keyword.
    Word(String),
    /// An integer literal.
    Number(u64),
    /// A string literal, escapes resolved.
    Text(Vec<u8>),
    /// An operator or bracket.
    Mark(&'static str),
}

/// Longest first, so that the first match is the right one.
const MARKS: [&str; 34] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "(", ")", "{", "}", "[", "]", ",", "?",
    ":", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", ".", ";", "#", "=",
];

/// The tokens of `text`; `None` at a character that is none of C's.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, len) = if first == '"' {
            let (text, len) = literal(rest, b'"')?;
            (Token::Text(text), len)
        } else if first == '\'' {
            let (text, len) = literal(rest, b'\'')?;
            (Token::Number(text.first().copied()?.into()), len)
        } else if first.is_ascii_digit() {
            let len = word_length(rest);
            (Token::Number(integer(rest.get(..len)?)), len)
        } else if first.is_ascii_alphabetic() || first == '_' || first == '$' {
            let len = word_length(rest).max(1);
            (Token::Word(rest.get(..len)?.to_owned()), len)
        } else {
            let mark = MARKS.iter().find(|mark| rest.starts_with(**mark))?;
            (Token::Mark(mark), mark.len())
        };
        found.push(token);
        rest = rest.get(len..)?.trim_start();
    }
    Some(found)
}

fn word_length(text: &str) -> usize {
    text.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .unwrap_or(text.len())
}

/// The value of an integer literal as strtoull(3) with base 0 reads it;
/// suffixes are ignored, too large values saturate.
fn integer(text: &str) -> u64 {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (text.get(2..).unwrap_or(""), 16),
        [b'0', ..] => (text, 8),
        _ => (text, 10),
    };
    let end = digits.find(|letter: char| !letter.is_digit(radix));
    let digits = digits.get(..end.unwrap_or(digits.len())).unwrap_or("");
    if digits.is_empty() {
        return 0;
    }
    u64::from_str_radix(digits, radix).unwrap_or(u64::MAX)
}

/// A quoted literal at the start of `text`: its bytes and its length in it.
fn literal(text: &str, quote: u8) -> Option<(Vec<u8>, usize)> {
    let mut bytes = text.bytes().enumerate().skip(1);
    let mut found = Vec::new();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => match bytes.next()?.1 {
                b'n' => found.push(b'\n'),
                b't' => found.push(b'\t'),
                b'r' => found.push(b'\r'),
                other => found.push(other),
            },
            byte if byte == quote => return Some((found, at + 1)),
            byte => found.push(byte),
        }
    }
    None
}
