//! C++ names that consist of identifiers, demangled at once.
//!
//! `cpp_demangle` tries many alternatives at each letter and costs some 6 µs
//! a name, which was a tenth of what a report of compilers takes; of their names
//! two thirds look like `_ZN4llvm3Foo3barEPKcjRKNS_9StringRefE`. What is shown
//! of them are the identifiers; parameters need only be well-formed, because
//! what is not is no C++ name. Whatever is more than that is left to the
//! library, with which the tests compare all answers.

/// How many pointers, references and qualifiers may stand before a type.
const DEPTH_MAX: usize = 8;

/// The qualified name that `mangled` stands for, without parameters; `None`
/// if it is not so simple.
pub(super) fn demangled(mangled: &str) -> Option<String> {
    let mut scan = Scan {
        rest: mangled.strip_prefix("_Z")?.as_bytes(),
        substitutions: 0,
    };
    let shown = match scan.rest.first()? {
        b'N' => scan.nested_function()?,
        b'0'..=b'9' => scan.identifier()?.to_owned(),
        _ => return None,
    };
    if scan.rest == b"v" {
        return Some(shown);
    }
    while !scan.rest.is_empty() {
        if scan.rest.starts_with(b"v") {
            return None;
        }
        scan.parameter(0)?;
    }
    Some(shown)
}

struct Scan<'a> {
    rest: &'a [u8],
    /// Parts so far that `S_`, `S0_`, ... may refer to: no more than there are.
    substitutions: usize,
}

impl<'a> Scan<'a> {
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

    /// A length and so many letters, as the name is shown. One with template
    /// arguments or tags behind it is not so simple.
    fn identifier(&mut self) -> Option<&'a str> {
        let digits = self.rest.iter().take_while(|it| it.is_ascii_digit());
        let digits = digits.count();
        let (length, rest) = self.rest.split_at_checked(digits)?;
        if !(1..=4).contains(&digits) || length.starts_with(b"0") {
            return None;
        }
        let length: usize = str::from_utf8(length).ok()?.parse().ok()?;
        let (name, rest) = rest.split_at_checked(length)?;
        let is_letter = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'$');
        if !name.iter().all(is_letter) || matches!(rest.first(), Some(b'I' | b'B')) {
            return None;
        }
        self.rest = rest;
        match name {
            b"_GLOBAL__N_1" => Some("(anonymous namespace)"),
            _ if name.starts_with(b"_GLOBAL_") => None,
            _ => str::from_utf8(name).ok(),
        }
    }

    /// `N`, perhaps `K`, identifiers, perhaps a constructor or destructor, `E`.
    fn nested_function(&mut self) -> Option<String> {
        self.takes(b"N");
        self.takes(b"K");
        let mut shown = self.identifier()?.to_owned();
        let mut last = shown.clone();
        loop {
            self.substitutions += 1;
            let is_special = matches!(self.rest.first(), Some(b'C' | b'D'));
            shown.push_str("::");
            if !is_special {
                self.identifier()?.clone_into(&mut last);
                shown.push_str(&last);
                if self.takes(b"E") {
                    return Some(shown);
                }
                continue;
            }
            match self.rest.split_first_chunk()? {
                (b"C1E" | b"C2E" | b"C3E", rest) => self.rest = rest,
                (b"D0E" | b"D1E" | b"D2E", rest) => {
                    self.rest = rest;
                    shown.push('~');
                }
                _ => return None,
            }
            shown.push_str(&last);
            // Unlike a variable, it has parameters.
            let is_whole = !last.starts_with('(') && !self.rest.is_empty();
            return is_whole.then_some(shown);
        }
    }

    /// A type that is built of classes and built-in types.
    fn parameter(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.rest.first()? {
            b'0'..=b'9' => {
                self.identifier()?;
                self.substitutions += 1;
            }
            b'S' => self.substitution()?,
            b'N' => self.nested_class()?,
            _ => match self.take()? {
                b'P' | b'R' | b'O' => {
                    self.parameter(depth + 1)?;
                    self.substitutions += 1;
                }
                b'K' if !matches!(self.rest.first(), Some(b'K' | b'V' | b'r')) => {
                    self.parameter(depth + 1)?;
                    self.substitutions += 1;
                }
                b'v' if depth > 0 => {}
                letter if b"wbcahstijlmxynofdeg".contains(&letter) => {}
                _ => return None,
            },
        }
        Some(())
    }

    /// `S_` and the like for what came before, or a class of `std`.
    fn substitution(&mut self) -> Option<()> {
        self.takes(b"S");
        match self.rest.first()? {
            b's' | b'i' | b'o' | b'd' => {
                self.take();
            }
            b't' => {
                self.take();
                self.identifier()?;
                self.substitutions += 1;
            }
            _ => self.reference()?,
        }
        (!matches!(self.rest.first(), Some(b'I' | b'B'))).then_some(())
    }

    /// What follows `S`: digits to the base 36, one less than the number of
    /// what is referred to, and `_`.
    fn reference(&mut self) -> Option<()> {
        let length = self.rest.iter().position(|&it| it == b'_')?;
        let (digits, _) = self.rest.split_at_checked(length)?;
        let is_digit = |it: &u8| it.is_ascii_digit() || it.is_ascii_uppercase();
        if !digits.iter().all(is_digit) {
            return None;
        }
        let number = match digits {
            [] => 0,
            _ => usize::from_str_radix(str::from_utf8(digits).ok()?, 36).ok()? + 1,
        };
        self.rest = self.rest.get(length + 1..)?;
        (number < self.substitutions).then_some(())
    }

    /// `N`, what the class is in, its identifiers, `E`.
    fn nested_class(&mut self) -> Option<()> {
        self.takes(b"N");
        if self.takes(b"St") {
            self.identifier()?;
            self.substitutions += 1;
        } else if self.takes(b"S") {
            self.reference()?;
        } else {
            self.identifier()?;
            self.substitutions += 1;
        }
        loop {
            self.identifier()?;
            self.substitutions += 1;
            if self.takes(b"E") {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{by_library, without_qualifiers};
    use super::demangled;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// What the library shows, as it is used for names that are not simple.
    fn expected(mangled: &str) -> Option<String> {
        by_library(mangled).map(without_qualifiers)
    }

    #[test]
    fn simple_names_are_identifiers() {
        for (mangled, shown) in [
            ("_Z4mainv", "main"),
            ("_ZN4llvm3Foo3barEPKcjRKNS_9StringRefE", "llvm::Foo::bar"),
            ("_ZNK3foo3barEv", "foo::bar"),
            ("_ZN3fooC2ERKS_", "foo::foo"),
            ("_ZN1a3fooD0Ev", "a::foo::~foo"),
            ("_ZN12_GLOBAL__N_13fooESs", "(anonymous namespace)::foo"),
            ("_ZN3foo3barE", "foo::bar"),
        ] {
            assert_eq!(demangled(mangled).as_deref(), Some(shown), "{mangled}");
            assert_eq!(expected(mangled).as_deref(), Some(shown), "{mangled}");
        }
    }

    #[test]
    fn the_others_are_left_to_the_library() {
        for mangled in [
            "_ZN3fooIiE3barEv",
            "_Z3fooIiEvT_",
            "_ZN3foo3barES5_",
            "_ZN3foo3barEvi",
            "_ZN3foo3barEvx_",
            "_ZN3fooE",
            "_ZN3fooC1E",
            "_ZZ3foovE1x",
            "_ZNSt6vectorIiE1fEv",
            "_ZN3foo3barB5cxx11Ev",
            "_ZN30foo3barEv",
            "_Z",
        ] {
            assert_eq!(demangled(mangled), None, "{mangled}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn no_answer_differs_from_the_library(
            is_nested in any::<bool>(),
            names in vec("K?([1-4][a-z]{2,4}|12_GLOBAL__N_1|C[1-4]|D[0-2]|3foo|3bar)", 1..5),
            parameters in vec(
                "[PROKV]{0,3}([a-z]|S[0-3]?_|S[abdiost]|St3foo|3foo|N(S_|St|S0_|3foo){0,1}(3bar|1a)?E|I[ic]E)",
                0..5,
            ),
            clutter in "(|v|E|_|[ -~])",
        ) {
            let names = names.concat();
            let name = if is_nested { format!("N{names}E") } else { names };
            let mangled = format!("_Z{name}{}{clutter}", parameters.concat());
            if let Some(shown) = demangled(&mangled) {
                prop_assert_eq!(Some(shown), expected(&mangled), "{}", mangled);
            }
        }
    }
}
