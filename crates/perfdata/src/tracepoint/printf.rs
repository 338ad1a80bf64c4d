//! The format string of a `print fmt`: text and conversions.

use super::expr::Expr;
use super::expression::Parser;
use super::fields::Field;
use super::tokens::tokens;

/// The widest field and the most digits that are printed; formats are input.
const WIDEST: u64 = 4096;

/// A piece of what is printed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// As it is.
    Text(Vec<u8>),
    /// A conversion with its argument.
    Value(Conversion, Expr),
}

/// A width or a precision.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Amount {
    /// Written in the format.
    Fixed(usize),
    /// `*`: the value of an argument.
    Argument(Expr),
}

/// `%`, flags, width, precision, length, letter.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Conversion {
    /// `-`: to the left.
    pub(super) left: bool,
    /// `0`: filled with zeros.
    pub(super) zeros: bool,
    /// `#`: with `0x` or `0`.
    pub(super) prefix: bool,
    /// `+` or a space: what stands before a number that is not negative.
    pub(super) sign: Option<u8>,
    /// Least width.
    pub(super) width: Option<Amount>,
    /// Least digits of a number, most bytes of a text.
    pub(super) precision: Option<Amount>,
    /// Bytes of the number; 0 for `l`, which depends on the machine.
    pub(super) size: u8,
    /// What to print.
    pub(super) kind: Kind,
}

/// The letter of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// `d`, `i`.
    #[default]
    Signed,
    /// `u`.
    Unsigned,
    /// `x`.
    Hex,
    /// `X`.
    UpperHex,
    /// `o`.
    Octal,
    /// `c`.
    Letter,
    /// `s`.
    Text,
    /// `p` without more.
    Pointer,
    /// `ps`, `pf`: a function; `pS`, `pF`: with its offset.
    Function { with_offset: bool },
    /// `pM`, `pm`: a hardware address and what stands between its bytes.
    Hardware(Option<u8>),
    /// `pI4`, `pi4`, `pI6`, `pI6c`, `pISpc`: an internet address.
    Internet(Internet),
    /// `pU`: a UUID; `little`: its first three parts have their bytes
    /// reversed.
    Uuid { upper: bool, little: bool },
    /// `*ph`: bytes and what stands between them.
    Bytes(Option<u8>),
}

/// How to print an internet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Internet {
    /// `4`, `6` or `S` (a socket address, which says itself).
    pub(super) version: u8,
    /// `i`: leading zeros, no colons.
    pub(super) raw: bool,
    /// `c`: the shortest form.
    pub(super) short: bool,
    /// `p`: with the port.
    pub(super) port: bool,
}

/// Reads what follows `print fmt:`. `None` if a part is not understood.
pub(super) fn parse(text: &str, fields: &[Field]) -> Option<Vec<Piece>> {
    let tokens = tokens(text)?;
    let mut parser = Parser::new(&tokens, fields);
    let format = parser.text()?;
    let mut arguments = Vec::new();
    while parser.skip(",") {
        arguments.push(parser.expression()?);
    }
    if !parser.at_end() {
        return None;
    }
    Reader {
        rest: &format,
        arguments: arguments.into_iter(),
    }
    .pieces()
}

struct Reader<'a> {
    rest: &'a [u8],
    arguments: std::vec::IntoIter<Expr>,
}

impl Reader<'_> {
    fn pieces(mut self) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut text = Vec::new();
        while let Some(byte) = self.next() {
            if byte != b'%' {
                text.push(byte);
            } else if self.skip(b"%") {
                text.push(b'%');
            } else {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                let conversion = self.conversion()?;
                pieces.push(Piece::Value(conversion, self.arguments.next()?));
            }
        }
        pieces.push(Piece::Text(text));
        Some(pieces)
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn skip(&mut self, text: &[u8]) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Steps over the first of `letters` that comes next.
    fn letter(&mut self, letters: &[u8]) -> Option<u8> {
        let &first = self.rest.first()?;
        letters.contains(&first).then(|| {
            self.next();
            first
        })
    }

    fn amount(&mut self) -> Option<Amount> {
        if self.skip(b"*") {
            return self.arguments.next().map(Amount::Argument);
        }
        let mut amount = None;
        while let Some(digit) = self.letter(b"0123456789") {
            let so_far = amount.unwrap_or(0_u64);
            amount = Some((so_far * 10 + u64::from(digit - b'0')).min(WIDEST));
        }
        amount.map(|amount| Amount::Fixed(amount as usize))
    }

    fn conversion(&mut self) -> Option<Conversion> {
        let mut conversion = Conversion {
            size: 4,
            ..Conversion::default()
        };
        while let Some(flag) = self.letter(b"-0#+ ") {
            match flag {
                b'-' => conversion.left = true,
                b'0' => conversion.zeros = true,
                b'#' => conversion.prefix = true,
                sign => conversion.sign = Some(sign),
            }
        }
        conversion.width = self.amount();
        if self.skip(b".") {
            conversion.precision = Some(self.amount().unwrap_or(Amount::Fixed(0)));
        }
        if self.skip(b"hh") {
            conversion.size = 1;
        } else if self.skip(b"h") {
            conversion.size = 2;
        } else if self.skip(b"ll") || self.skip(b"L") || self.skip(b"j") {
            conversion.size = 8;
        } else if self.letter(b"lzZt").is_some() {
            conversion.size = 0;
        }
        conversion.kind = match self.next()? {
            b'd' | b'i' => Kind::Signed,
            b'u' => Kind::Unsigned,
            b'x' => Kind::Hex,
            b'X' => Kind::UpperHex,
            b'o' => Kind::Octal,
            b'c' => Kind::Letter,
            b's' => Kind::Text,
            b'p' => self.pointer(),
            _ => return None,
        };
        Some(conversion)
    }

    fn pointer(&mut self) -> Kind {
        let separator = |letter| match letter {
            Some(b'C') => Some(b':'),
            Some(b'D') => Some(b'-'),
            Some(_) => None,
            None => Some(b' '),
        };
        match self.letter(b"sSfFMmIiUh") {
            Some(b's' | b'f') => Kind::Function { with_offset: false },
            Some(b'S' | b'F') => Kind::Function { with_offset: true },
            Some(b'M') => Kind::Hardware(Some(if self.skip(b"F") { b'-' } else { b':' })),
            Some(b'm') => Kind::Hardware(None),
            Some(letter @ (b'I' | b'i')) => self.internet(letter == b'i'),
            Some(b'U') => {
                let letter = self.letter(b"bBlL").unwrap_or(b'b');
                Kind::Uuid {
                    upper: letter.is_ascii_uppercase(),
                    little: letter.eq_ignore_ascii_case(&b'l'),
                }
            }
            Some(b'h') => Kind::Bytes(separator(self.letter(b"CDN"))),
            _ => Kind::Pointer,
        }
    }

    fn internet(&mut self, raw: bool) -> Kind {
        let mut internet = Internet {
            version: self.letter(b"46S").unwrap_or(b'4'),
            raw,
            short: false,
            port: false,
        };
        while let Some(letter) = self.letter(b"pfschnbl") {
            internet.short |= letter == b'c';
            internet.port |= letter == b'p';
        }
        Kind::Internet(internet)
    }
}
