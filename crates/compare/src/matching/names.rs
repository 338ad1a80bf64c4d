//! Names without what changes from build to build.

use std::borrow::Cow;

/// Endings that compilers give to parts and copies of a function; a number may
/// follow.
const ENDINGS: [&str; 9] = [
    ".constprop",
    ".part",
    ".isra",
    ".cold",
    ".llvm",
    ".lto_priv",
    ".localalias",
    ".warm",
    ".specialized",
];

/// A function's name without what changes from build to build: the hash of
/// Rust's mangling, endings that compilers add, numbers of closures, lambdas and
/// anonymous places.
pub(crate) fn plain_symbol(name: &str) -> Cow<'_, str> {
    let mut plain = without_endings(name);
    if let Some((before, hash)) = plain.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        plain = before;
    }
    if !plain.contains('#') && !plain.contains(".L") {
        return Cow::Borrowed(plain);
    }
    // `{closure#3}` of Rust, `{lambda(int)#2}` of C++.
    let mut text = String::with_capacity(plain.len());
    let mut letters = plain.chars().peekable();
    while let Some(letter) = letters.next() {
        text.push(letter);
        if letter == '#' {
            while letters.next_if(char::is_ascii_digit).is_some() {}
        }
    }
    Cow::Owned(text)
}

fn without_endings(name: &str) -> &str {
    let mut name = name;
    loop {
        let digits = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let before_number = digits.strip_suffix('.').unwrap_or(name);
        let shorter = ENDINGS.iter().find_map(|ending| {
            let of_numbered = before_number.strip_suffix(ending);
            of_numbered.or_else(|| name.strip_suffix(ending))
        });
        match shorter {
            Some(shorter) if !shorter.is_empty() => name = shorter,
            _ => return name,
        }
    }
}

/// `libc.so.6` and `libssl.so.1.1` without their versions.
pub(crate) fn plain_dso(name: &str) -> &str {
    match name.find(".so.") {
        Some(at) => name.get(..at + ".so".len()).unwrap_or(name),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{plain_dso, plain_symbol};

    #[test]
    fn what_changes_from_build_to_build_is_left_out() {
        for (name, plain) in [
            ("core::fmt::write::h0123456789abcdef", "core::fmt::write"),
            ("alloc::vec::h01", "alloc::vec::h01"),
            ("parse.constprop.0", "parse"),
            ("parse.isra.0.cold", "parse"),
            ("parse.part.12.isra.3", "parse"),
            ("inner.llvm.1234567890", "inner"),
            (
                "app::main::{closure#3}::{closure#0}",
                "app::main::{closure#}::{closure#}",
            ),
            (
                "sort(int)::{lambda(int)#12}::operator()",
                "sort(int)::{lambda(int)#}::operator()",
            ),
            (".cold", ".cold"),
            ("main", "main"),
            ("x.1", "x.1"),
        ] {
            assert_eq!(plain_symbol(name), plain);
        }
        assert_eq!(plain_dso("libc.so.6"), "libc.so");
        assert_eq!(plain_dso("app"), "app");
    }
}
