//! C++ names of the forms that are common, demangled in one pass.
//!
//! `cpp_demangle` tries many alternatives at each letter, builds a tree, and takes
//! 6 µs for a short name and a hundred for that of an algorithm of the standard
//! library with a lambda. Nearly all names are made of few forms: identifiers,
//! namespaces, templates, operators, lambdas, what stands in functions, and
//! types of classes, pointers and references. What is shown of these stands in
//! the same order as in the mangled name, so that it is written as it is read, and
//! what a substitution stands for is a piece of what was written. Whatever
//! is more than that, or may be shown otherwise by the library, is left to it; the
//! tests compare all answers with its.
//!
//! Grammar: <https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling>.

use super::NAME_MAX;
use super::words::{BUILT_IN, OPERATORS};

/// The library gives up 96 calls deep, and takes at most so many more than are
/// counted here.
const DEPTH_MAX: u32 = 80;
/// Stands for what is only shown in the words of the library. Where it becomes
/// part of a name, the library is asked for all of it.
const NOT_SHOWN: char = '\0';

/// The name that `mangled` stands for, without its own parameters; `None` if it
/// is not of a common form.
pub(super) fn demangled(mangled: &str) -> Option<String> {
    // Members of standard classes have short names of their own.
    let member = mangled.strip_prefix("_ZNK");
    let member = member.or_else(|| mangled.strip_prefix("_ZN"));
    if matches!(
        member.map(str::as_bytes),
        Some([b'S', b's' | b'i' | b'o' | b'd', ..])
    ) {
        return None;
    }
    let mut reader = Reader {
        rest: mangled.strip_prefix("_Z")?.as_bytes(),
        texts: [String::with_capacity(mangled.len() * 2), String::new()],
        sink: SHOWN,
        pieces: Vec::with_capacity(16),
    };
    let name = reader.name(3)?;
    if name.height > DEPTH_MAX {
        return None;
    }
    if name.is_special {
        // Unlike a variable, it has parameters.
        reader.sink = HIDDEN;
        reader.type_(3)?;
    }
    let [shown, _] = reader.texts;
    (!shown.contains(NOT_SHOWN)).then_some(shown)
}

/// What is shown.
const SHOWN: usize = 0;
/// What is only referred to: types that functions return.
const HIDDEN: usize = 1;

struct Reader<'a> {
    rest: &'a [u8],
    texts: [String; 2],
    /// Which of them is written to.
    sink: usize,
    /// What `S_`, `S0_`, ... stand for.
    pieces: Vec<Piece>,
}

/// A part of a text.
#[derive(Clone, Copy)]
struct Span {
    text: usize,
    start: usize,
    end: usize,
}

/// What a substitution stands for.
#[derive(Clone, Copy)]
struct Piece {
    span: Span,
    leaf: Option<Span>,
    height: u32,
}

/// A name that was read.
#[derive(Clone, Copy, Default)]
struct Name {
    /// Its last identifier, by which constructors are called.
    leaf: Option<Span>,
    /// At most so many calls deep does the library show it.
    height: u32,
    /// Whether it ends with template arguments.
    is_template: bool,
    /// Whether it is a constructor or destructor.
    is_special: bool,
    /// Whether it is of a constant member function.
    is_const: bool,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn take(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn takes(&mut self, text: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn must(&mut self, text: &[u8]) -> Option<()> {
        self.takes(text).then_some(())
    }

    fn text(&self) -> &str {
        self.texts.get(self.sink).map_or("", String::as_str)
    }

    fn here(&self) -> usize {
        self.text().len()
    }

    fn push(&mut self, text: &str) -> Option<()> {
        let sink = self.texts.get_mut(self.sink)?;
        sink.push_str(text);
        (sink.len() <= NAME_MAX).then_some(())
    }

    fn since(&self, start: usize) -> Span {
        Span {
            text: self.sink,
            start,
            end: self.here(),
        }
    }

    /// Writes again what was written.
    fn copy(&mut self, span: Span) -> Option<()> {
        let part = self.texts.get(span.text)?.get(span.start..span.end)?;
        if self.here() + part.len() > NAME_MAX {
            return None;
        }
        if span.text == self.sink {
            let sink = self.texts.get_mut(self.sink)?;
            sink.extend_from_within(span.start..span.end);
            return Some(());
        }
        let part = part.to_owned();
        self.push(&part)
    }

    fn keep(&mut self, start: usize, leaf: Option<Span>, height: u32) {
        let span = self.since(start);
        self.pieces.push(Piece { span, leaf, height });
    }

    /// A name of a function or class; nested ones, those in `std`, those in
    /// functions, with template arguments or without.
    fn name(&mut self, depth: u32) -> Option<Name> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.rest {
            [b'N', ..] => self.nested(depth + 3),
            [b'Z', ..] => self.local(depth + 2),
            [b'S', b't', ..] => {
                let start = self.here();
                self.must(b"St")?;
                self.push("std::")?;
                self.unscoped(start, depth)
            }
            [b'S', ..] => {
                let piece = self.substitution()?;
                self.with_arguments(piece, depth)
            }
            _ => self.unscoped(self.here(), depth),
        }
    }

    /// What begins at `start` with what stands in front of it.
    fn unscoped(&mut self, start: usize, depth: u32) -> Option<Name> {
        let leaf = self.unqualified(depth + 1)?;
        if self.peek() == Some(b'I') {
            let name = Name {
                leaf,
                height: 6,
                ..Name::default()
            };
            self.keep(start, leaf, name.height);
            return self.with_arguments(name, depth);
        }
        Some(Name {
            leaf,
            height: 6,
            ..Name::default()
        })
    }

    fn with_arguments(&mut self, name: Name, depth: u32) -> Option<Name> {
        let height = self.arguments(depth + 2)?;
        Some(Name {
            height: name.height.max(height) + 3,
            is_template: true,
            ..name
        })
    }

    /// `N`, perhaps `K`, what it is in and what it is, `E`.
    fn nested(&mut self, depth: u32) -> Option<Name> {
        self.must(b"N")?;
        let mut name = Name {
            is_const: self.takes(b"K"),
            height: 8,
            ..Name::default()
        };
        let start = self.here();
        let mut count = 0_u32;
        if self.peek() == Some(b'S') {
            let outer = match self.takes(b"St") {
                true => {
                    self.push("std")?;
                    Name::default()
                }
                false => self.substitution()?,
            };
            name.leaf = outer.leaf;
            name.height = name.height.max(outer.height);
        }
        while !self.takes(b"E") {
            if name.is_special && (name.is_template || self.peek() != Some(b'I')) {
                return None;
            }
            let is_first = self.here() == start;
            match self.peek()? {
                b'I' if !is_first && !name.is_template => {
                    let height = self.arguments(depth + 2)?;
                    name.height = name.height.max(height);
                    name.is_template = true;
                }
                b'C' | b'D' if !is_first => {
                    self.push("::")?;
                    self.special(name.leaf)?;
                    (name.is_special, name.is_template) = (true, false);
                }
                _ => {
                    if !is_first {
                        self.push("::")?;
                    }
                    name.leaf = self.unqualified(depth + 1)?;
                    name.is_template = false;
                }
            }
            count += 1;
            name.height += 2;
            // All of it is no part of something else.
            if self.peek() != Some(b'E') {
                self.keep(start, name.leaf, name.height);
            }
        }
        (count > 0).then_some(name)
    }

    /// A constructor or destructor of what is called so.
    fn special(&mut self, leaf: Option<Span>) -> Option<()> {
        match (self.take()?, self.take()?) {
            (b'C', b'1'..=b'4') => {}
            (b'D', b'0' | b'1' | b'2' | b'4') => self.push("~")?,
            _ => return None,
        }
        self.copy(leaf?)
    }

    /// `Z`, a function, `E`, and what stands in it.
    fn local(&mut self, depth: u32) -> Option<Name> {
        self.must(b"Z")?;
        let height = self.function(depth)?;
        // Literals, and what stands in arguments that are left out.
        if matches!(self.peek()?, b's' | b'd') {
            return None;
        }
        self.push("::")?;
        let name = self.name(depth)?;
        if self.peek() == Some(b'_') {
            return None;
        }
        Some(Name {
            height: name.height.max(height) + 3,
            is_special: false,
            ..name
        })
    }

    /// A function with its parameters, and `E`.
    fn function(&mut self, depth: u32) -> Option<u32> {
        let name = self.name(depth + 1)?;
        if name.is_template {
            if name.is_special {
                return None;
            }
            let sink = std::mem::replace(&mut self.sink, HIDDEN);
            self.type_(depth + 1)?;
            self.sink = sink;
        }
        self.push("(")?;
        let height = match self.takes(b"vE") {
            true => 0,
            false => self.types(depth + 1)?,
        };
        self.push(if name.is_const { ") const" } else { ")" })?;
        Some(name.height.max(height + 3) + 2)
    }

    /// Types up to an `E`.
    fn types(&mut self, depth: u32) -> Option<u32> {
        let mut height = 0;
        loop {
            if self.peek() == Some(b'v') {
                return None;
            }
            height = height.max(self.type_(depth)?);
            if self.takes(b"E") {
                return Some(height);
            }
            self.push(", ")?;
        }
    }

    /// An identifier, operator or lambda.
    fn unqualified(&mut self, depth: u32) -> Option<Option<Span>> {
        let leaf = match self.rest {
            [b'0'..=b'9', ..] => Some(self.identifier()?),
            [b'L', b'1'..=b'9', ..] => {
                self.take();
                let leaf = self.identifier()?;
                if self.peek() == Some(b'_') {
                    return None;
                }
                Some(leaf)
            }
            [b'U', b'l', ..] => {
                self.lambda(depth)?;
                None
            }
            _ => {
                self.operator()?;
                None
            }
        };
        while self.takes(b"B") {
            self.push("[abi:")?;
            self.identifier()?;
            self.push("]")?;
        }
        // Of a data member's initializer.
        (self.peek() != Some(b'M')).then_some(leaf)
    }

    /// A length and so many letters.
    fn identifier(&mut self) -> Option<Span> {
        let start = self.here();
        let length = self.number()?;
        let (name, rest) = self.rest.split_at_checked(length)?;
        let is_letter = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'$');
        if name.is_empty() || !name.iter().all(is_letter) {
            return None;
        }
        self.rest = rest;
        match name.strip_prefix(b"_GLOBAL_") {
            Some([b'_' | b'$', b'N', ..]) => self.push("(anonymous namespace)")?,
            _ => self.push(str::from_utf8(name).ok()?)?,
        }
        Some(self.since(start))
    }

    /// A number without leading zeros.
    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.iter().take_while(|it| it.is_ascii_digit());
        let (digits, rest) = self.rest.split_at_checked(digits.count())?;
        if !(1..=5).contains(&digits.len()) || (digits.len() > 1 && digits.starts_with(b"0")) {
            return None;
        }
        self.rest = rest;
        str::from_utf8(digits).ok()?.parse().ok()
    }

    /// `Ul`, its parameters, `E`, which one it is, `_`.
    fn lambda(&mut self, depth: u32) -> Option<()> {
        self.must(b"Ul")?;
        self.push("{lambda(")?;
        if !self.takes(b"vE") {
            let mut is_first = true;
            while !self.takes(b"E") {
                self.push(if is_first { "" } else { ", " })?;
                is_first = false;
                // The library may write what is around the lambda behind a class
                // that is nested in another.
                match self.rest {
                    [b'S', b't', ..] => {}
                    [b'v' | b'N' | b'Z' | b'S', ..] => return None,
                    _ => {}
                }
                self.type_(depth + 3)?;
            }
            if is_first {
                return None;
            }
        }
        let number = match self.peek()? {
            b'_' => 1,
            _ => self.number()? + 2,
        };
        self.must(b"_")?;
        self.push(&format!(")#{number}}}"))
    }

    fn operator(&mut self) -> Option<()> {
        let (code, rest) = self.rest.split_first_chunk::<2>()?;
        let (_, shown) = OPERATORS.iter().find(|(of, _)| *of == code)?;
        self.rest = rest;
        self.push("operator")?;
        self.push(shown)
    }

    /// `I`, arguments, `E`.
    fn arguments(&mut self, depth: u32) -> Option<u32> {
        self.must(b"I")?;
        if depth > DEPTH_MAX {
            return None;
        }
        // `operator<` keeps away from what follows.
        self.push(if self.text().ends_with('<') {
            " <"
        } else {
            "<"
        })?;
        let mut height = self.argument(depth + 1)?;
        while !self.takes(b"E") {
            self.push(", ")?;
            height = height.max(self.argument(depth + 1)?);
        }
        if self.text().ends_with(", ") {
            // The last one is an empty pack.
            let length = self.here() - ", ".len();
            self.texts.get_mut(self.sink)?.truncate(length);
            self.push(">")?;
        } else {
            self.push(if self.text().ends_with('>') {
                " >"
            } else {
                ">"
            })?;
        }
        Some(height + 3)
    }

    /// A type, a literal or a pack of them.
    fn argument(&mut self, depth: u32) -> Option<u32> {
        match self.peek()? {
            b'L' => self.literal(depth),
            b'J' => {
                self.take();
                let (mut height, mut is_first) = (0, true);
                while !self.takes(b"E") {
                    self.push(if is_first { "" } else { ", " })?;
                    is_first = false;
                    height = height.max(self.argument(depth + 1)?);
                }
                Some(height + 1)
            }
            _ => self.type_(depth + 1),
        }
    }

    /// `L`, a type, a number, `E`.
    fn literal(&mut self, depth: u32) -> Option<u32> {
        self.must(b"L")?;
        let (kind, mut height) = (self.peek()?, 0);
        match kind {
            b'b' => {
                self.take();
                let (value, rest) = self.rest.split_first_chunk::<2>()?;
                self.rest = rest;
                self.push(match value {
                    b"0E" => "false",
                    b"1E" => "true",
                    _ => return None,
                })?;
                return Some(2);
            }
            b'i' | b'j' | b'l' | b'm' | b'x' | b'y' => {
                self.take();
            }
            b'c' | b'a' | b'h' | b's' | b't' | b'w' | b'N' | b'0'..=b'9' => {
                self.push("(")?;
                height = self.type_(depth + 1)?;
                self.push(")")?;
            }
            _ => return None,
        }
        if self.takes(b"n") {
            self.push("-")?;
        }
        let digits = self.rest.iter().take_while(|it| it.is_ascii_digit());
        let (digits, rest) = self.rest.split_at_checked(digits.count())?;
        self.rest = rest;
        self.push(str::from_utf8(digits).ok().filter(|it| !it.is_empty())?)?;
        self.push(match kind {
            b'j' => "u",
            b'l' => "l",
            b'm' => "ul",
            b'x' => "ll",
            b'y' => "ull",
            _ => "",
        })?;
        self.must(b"E")?;
        Some(height + 2)
    }

    /// `S_` and the like for what came before, or a class of `std`, which it
    /// writes.
    fn substitution(&mut self) -> Option<Name> {
        self.must(b"S")?;
        let standard = match self.peek()? {
            b'a' => "std::allocator",
            b'b' => "std::basic_string",
            b's' => "std::string",
            b'i' => "std::basic_istream<char, std::char_traits<char> >",
            b'o' => "std::ostream",
            b'd' => "std::basic_iostream<char, std::char_traits<char> >",
            _ => "",
        };
        if !standard.is_empty() {
            self.take();
            self.push(standard)?;
            return Some(Name {
                height: 2,
                ..Name::default()
            });
        }
        let length = self.rest.iter().position(|&it| it == b'_')?;
        let (digits, _) = self.rest.split_at_checked(length)?;
        let is_digit = |it: &u8| it.is_ascii_digit() || it.is_ascii_uppercase();
        let is_number = digits.iter().all(is_digit) && (length < 2 || !digits.starts_with(b"0"));
        let number = match digits {
            [] => 0,
            _ if is_number => usize::from_str_radix(str::from_utf8(digits).ok()?, 36).ok()? + 1,
            _ => return None,
        };
        self.rest = self.rest.get(length + 1..)?;
        let piece = *self.pieces.get(number)?;
        self.copy(piece.span)?;
        Some(Name {
            leaf: piece.leaf,
            height: piece.height,
            ..Name::default()
        })
    }

    /// A type. Those that are not shown as they stand are read, too.
    fn type_(&mut self, depth: u32) -> Option<u32> {
        if depth > DEPTH_MAX {
            return None;
        }
        let start = self.here();
        let first = self.peek()?;
        if let Some((_, shown)) = BUILT_IN.iter().find(|(letter, _)| *letter == first) {
            self.take();
            self.push(shown)?;
            return Some(3);
        }
        let mut leaf = None;
        let height = match first {
            b'P' | b'R' | b'O' | b'K' => self.modified(depth + 1)?,
            b'D' => match self.after_d(depth)? {
                (height, true) => height,
                (height, false) => return Some(height),
            },
            b'S' if !self.rest.starts_with(b"St") => {
                let piece = self.substitution()?;
                if self.peek() != Some(b'I') {
                    return Some(piece.height + 1);
                }
                leaf = piece.leaf;
                self.with_arguments(piece, depth + 2)?.height + 3
            }
            b'T' | b'F' | b'A' | b'M' => self.unshown(depth + 1)?,
            b'N' | b'Z' | b'S' | b'0'..=b'9' => {
                let name = self.name(depth + 2)?;
                if name.is_const || name.is_special {
                    return None;
                }
                leaf = name.leaf;
                name.height + 3
            }
            _ => return None,
        };
        self.keep(start, leaf, height);
        Some(height)
    }

    /// A pointer, reference or constant.
    fn modified(&mut self, depth: u32) -> Option<u32> {
        let modifier = self.take()?;
        if modifier == b'K' && matches!(self.peek()?, b'F' | b'K' | b'V' | b'r') {
            return None;
        }
        let height = self.type_(depth)? + 2;
        let is_reference = self.text().ends_with('&');
        self.push(match modifier {
            b'P' => "*",
            // References of references are one.
            b'R' | b'O' if is_reference => return None,
            b'R' => "&",
            b'O' => "&&",
            _ => " const",
        })?;
        Some(height)
    }

    /// What begins with `D`, and whether substitutions may stand for it.
    fn after_d(&mut self, depth: u32) -> Option<(u32, bool)> {
        self.take();
        let shown = match self.take()? {
            b'n' => "std::nullptr_t",
            b'i' => "char32_t",
            b's' => "char16_t",
            b'u' => "char8_t",
            b'a' => "auto",
            b'p' => {
                let height = self.type_(depth + 1)?;
                self.push("\0")?;
                return Some((height, true));
            }
            _ => return None,
        };
        self.push(shown)?;
        Some((3, false))
    }

    /// A parameter of a template, a function, an array or a pointer to a member:
    /// shown in an order of its own.
    fn unshown(&mut self, depth: u32) -> Option<u32> {
        let height = match self.take()? {
            b'T' => {
                if self.peek() != Some(b'_') {
                    self.number()?;
                }
                self.must(b"_")?;
                // A template as an argument of a template.
                if self.peek() == Some(b'I') {
                    return None;
                }
                0
            }
            b'F' => {
                let mut height = self.type_(depth + 1)?;
                while !self.takes(b"E") {
                    height = height.max(self.type_(depth + 1)?);
                }
                height
            }
            b'A' => {
                self.number()?;
                self.must(b"_")?;
                self.type_(depth + 1)?
            }
            _ => self.type_(depth + 1)?.max(self.type_(depth + 1)?),
        };
        self.push("\0")?;
        Some(height + 3)
    }
}

#[cfg(test)]
mod tests;
