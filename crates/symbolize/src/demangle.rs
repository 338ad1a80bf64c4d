//! Symbol names as their authors wrote them.
//!
//! The style is perf's: Rust names without hash, C++ names without return
//! types and parameters, OCaml's with their modules, everything else as it stands.

mod common;
mod ocaml;
mod words;

use prof_profile::visible;
use std::fmt::Write;

/// Names longer than this many bytes are cut, mangled or not.
pub(crate) const NAME_MAX: usize = 64 << 10;
/// How the stub of a function in another file is marked.
pub(crate) const PLT: &str = "@plt";
/// How deeply nested a C++ name may be.
const DEPTH_MAX: u32 = 96;

/// Whether names are shown as in the symbol table or in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Demangle {
    /// As in the source; what cannot be demangled stays as it is.
    #[default]
    Yes,
    /// As in the symbol table.
    No,
}

impl Demangle {
    /// A symbol's name as it is shown.
    pub fn show(self, raw: &[u8]) -> String {
        name(raw, self)
    }
}

/// The name to show for a symbol. Bytes that are not UTF-8 become `\xNN`.
/// `NAME@plt` is shown with its `NAME` demangled.
pub(crate) fn name(raw: &[u8], demangle: Demangle) -> String {
    let raw = raw.get(..NAME_MAX).unwrap_or(raw);
    let Ok(text) = str::from_utf8(raw) else {
        return visible(raw).into_owned();
    };
    match demangle {
        Demangle::Yes => {
            let stub_of = text.strip_suffix(PLT);
            let shown = demangled(stub_of.unwrap_or(text));
            match (shown, stub_of) {
                (Some(shown), Some(_)) => shown + PLT,
                (Some(shown), None) => shown,
                (None, _) => text.to_owned(),
            }
        }
        Demangle::No => text.to_owned(),
    }
}

fn demangled(text: &str) -> Option<String> {
    if text.starts_with("_ZN") || text.starts_with("_R") {
        // A name of Rust's legacy scheme is a C++ name too, so ask Rust first.
        if let Ok(rust) = rustc_demangle::try_demangle(without_clone_suffix(text)) {
            return capped(|out| write!(out, "{rust:#}"));
        }
    }
    if !text.starts_with("_Z") {
        return ocaml::demangled(text);
    }
    let original = without_clone_suffix(text);
    if let Some(shown) = common::demangled(original) {
        return Some(shown);
    }
    let shown = by_library(original)?;
    if is_special(original) {
        return Some(special_in_words(original, shown));
    }
    Some(without_qualifiers(shown))
}

/// What the compiler made for a function (`_ZT..`, `_ZG..`) keeps the
/// parameters of that function.
fn is_special(original: &str) -> bool {
    original.starts_with("_ZT") || original.starts_with("_ZG")
}

/// What `cpp_demangle` makes of a name, in perf's style.
fn by_library(original: &str) -> Option<String> {
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(DEPTH_MAX);
    let show = cpp_demangle::DemangleOptions::default().recursion_limit(DEPTH_MAX);
    let show = if is_special(original) {
        show
    } else {
        show.no_params().no_return_type()
    };
    let (symbol, _version) =
        cpp_demangle::BorrowedSymbol::with_tail_and_options(original.as_bytes(), &parse).ok()?;
    let shown = capped(|out| symbol.structured_demangle(out, &show))?;
    Some(in_perf_style(original, shown))
}

/// Literals with a type, as `cpp_demangle` and as libiberty write them:
/// `(unsigned long)3` and `3ul`.
const LITERALS: [(&str, &str); 5] = [
    ("(unsigned int)", "u"),
    ("(unsigned long long)", "ull"),
    ("(unsigned long)", "ul"),
    ("(long long)", "ll"),
    ("(long)", "l"),
];

/// Standard classes by their letter in mangled names, abbreviated and full.
const STANDARD_CLASSES: [(u8, &str, &str); 4] = [
    (
        b's',
        "std::string::",
        "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::",
    ),
    (
        b'i',
        "std::istream::",
        "std::basic_istream<char, std::char_traits<char> >::",
    ),
    (
        b'o',
        "std::ostream::",
        "std::basic_ostream<char, std::char_traits<char> >::",
    ),
    (
        b'd',
        "std::iostream::",
        "std::basic_iostream<char, std::char_traits<char> >::",
    ),
];

/// Evens out where `cpp_demangle` writes otherwise than libiberty, which is
/// what perf uses: literals, empty packs, and members of standard classes,
/// which are abbreviated unless they are constructors or destructors.
fn in_perf_style(raw: &str, mut shown: String) -> String {
    if shown.contains(", >") {
        shown = shown.replace(", >", ">");
    }
    for (cast, suffix) in LITERALS {
        if shown.contains(cast) {
            shown = with_suffixes(&shown, cast, suffix);
        }
    }
    let member = raw.strip_prefix("_ZNK").or_else(|| raw.strip_prefix("_ZN"));
    let Some([b'S', letter, next, ..]) = member.map(str::as_bytes) else {
        return shown;
    };
    let class = STANDARD_CLASSES.iter().find(|(it, ..)| it == letter);
    let Some(&(_, short, full)) = class else {
        return shown;
    };
    if !matches!(next, b'C' | b'D') {
        return match shown.strip_prefix(full) {
            Some(rest) => format!("{short}{rest}"),
            None => shown,
        };
    }
    // `std::ostream::ostream` is written with the name of the template.
    let Some(member) = shown.strip_prefix(short) else {
        return shown;
    };
    let class = full.split('<').next().unwrap_or(full);
    let class = class.rsplit("::").next().unwrap_or(class);
    let tilde = if member.starts_with('~') { "~" } else { "" };
    format!("{full}{tilde}{class}")
}

/// Turns each `cast` before a number into a `suffix` behind it.
fn with_suffixes(shown: &str, cast: &str, suffix: &str) -> String {
    let mut parts = shown.split(cast);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let sign = usize::from(part.starts_with('-'));
        let digits = part
            .bytes()
            .skip(sign)
            .take_while(u8::is_ascii_digit)
            .count();
        let (number, rest) = part.split_at(sign + digits);
        if digits == 0 {
            out.push_str(cast);
            out.push_str(part);
        } else {
            out.push_str(number);
            out.push_str(suffix);
            out.push_str(rest);
        }
    }
    out
}

/// Drops the `const` of a member function, which belongs to its parameters.
/// A conversion to a constant type keeps it.
fn without_qualifiers(mut shown: String) -> String {
    for qualifier in [" &&", " &", " const"] {
        if let Some(head) = shown.strip_suffix(qualifier) {
            let last = head.rsplit("::").next().unwrap_or(head);
            if !last.starts_with("operator ") {
                shown.truncate(head.len());
            }
        }
    }
    shown
}

/// Compilers mark clones by suffixes (`.cold`, `.part.0`, `.llvm.123`); perf
/// shows them under the name of the function they came from. Rust's legacy
/// names have dots of their own and end with `17h`, 16 hex digits and `E`.
fn without_clone_suffix(text: &str) -> &str {
    let legacy_end = text.rfind("17h").map(|hash| hash + "17h".len() + 17);
    match legacy_end.and_then(|end| text.get(..end)) {
        Some(legacy) if legacy.ends_with('E') => legacy,
        _ => text.split('.').next().unwrap_or(text),
    }
}

/// Writes what `cpp_demangle` puts in braces in the words of libiberty.
fn special_in_words(raw: &str, shown: String) -> String {
    // What belongs to a standard class itself names it by its short name.
    let of_class = STANDARD_CLASSES.iter().find(|(letter, ..)| {
        matches!(raw.as_bytes(), [b'_', b'Z', b'T', _, b'S', last] if last == letter)
    });
    if let Some((_, short, full)) = of_class {
        let (short, full) = (short.trim_end_matches(':'), full.trim_end_matches(':'));
        return words_of_special(shown.replace(full, short));
    }
    words_of_special(shown)
}

fn words_of_special(shown: String) -> String {
    let Some(inside) = shown.strip_prefix('{').and_then(|it| it.strip_suffix(")}")) else {
        return shown;
    };
    if let Some(class) = inside.strip_prefix("vtable(") {
        return format!("vtable for {class}");
    }
    if let Some(class) = inside.strip_prefix("vtt(") {
        return format!("VTT for {class}");
    }
    let Some(thunk) = inside.strip_prefix("virtual override thunk(") else {
        return shown;
    };
    // One or two offsets in braces stand before the function.
    let mut offsets = 0;
    let mut function = thunk;
    while function.starts_with("{offset(") || function.starts_with("{virtual offset(") {
        let Some((_, rest)) = function.split_once(")}, ") else {
            return shown;
        };
        offsets += 1;
        function = rest;
    }
    match (offsets, thunk.starts_with("{virtual")) {
        (1, true) => format!("virtual thunk to {function}"),
        (1, false) => format!("non-virtual thunk to {function}"),
        _ => format!("covariant return thunk to {function}"),
    }
}

/// What `write` writes, unless it is longer than a name may be.
fn capped(write: impl FnOnce(&mut Capped) -> std::fmt::Result) -> Option<String> {
    let mut out = Capped(String::new());
    write(&mut out).ok()?;
    Some(out.0)
}

struct Capped(String);

impl Write for Capped {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > NAME_MAX {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Demangle, NAME_MAX, name};

    /// Mangled names and what perf 6.1 shows for them.
    const AS_PERF: &[(&str, &str)] = &[
        ("_ZN3foo3barEi.cold", "foo::bar"),
        ("_ZN3foo3barEi.constprop.0.isra.1", "foo::bar"),
        ("_ZSt4cout", "std::cout"),
        ("_ZNK3foocvbEv", "foo::operator bool"),
        ("_ZN3fooILi3EEC2Ev", "foo<3>::foo"),
        ("_ZTV3foo", "vtable for foo"),
        ("_ZTT3foo", "VTT for foo"),
        ("_ZTVSd", "vtable for std::iostream"),
        ("_ZTISs", "typeinfo for std::string"),
        ("_ZThn16_N3foo3barEv", "non-virtual thunk to foo::bar()"),
        ("_ZGVZ3foovE1x", "guard variable for foo()::x"),
        ("_Z3fooIiEvT_", "foo<int>"),
        ("_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo"),
        (
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            "std::vector<int, std::allocator<int> >::push_back",
        ),
        ("_Z1fPFviE", "f"),
        ("_ZNSi4readEPcl", "std::istream::read"),
        (
            "_ZNSoD0Ev",
            "std::basic_ostream<char, std::char_traits<char> >::~basic_ostream",
        ),
        (
            "_ZNSsC1Ev",
            "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string",
        ),
        ("_ZNKSs4sizeEv", "std::string::size"),
        ("_ZN1AILm64EE1fEv", "A<64ul>::f"),
        ("_ZN1AILj3ELln4EE1fEv", "A<3u, -4l>::f"),
        ("_ZN1AIdJEE1fEv", "A<double>::f"),
        ("_ZN3foo3barEv@plt", "foo::bar@plt"),
        (
            "_ZNKSt8functionIFviEEclEi",
            "std::function<void (int)>::operator()",
        ),
        ("_ZN3fooD0Ev", "foo::~foo"),
        ("_ZN3fooaSERKS_", "foo::operator="),
        (
            "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE.llvm.123",
            "core::fmt::Write::write_fmt",
        ),
        ("_RNvCs1234_7mycrate3foo.llvm.99", "mycrate::foo"),
        ("_RNvCs1234_7mycrate3foo.llvm.99.cold", "mycrate::foo"),
        (
            "_ZN4core3ptr46drop_in_place$LT$alloc..vec..Vec$LT$u8$GT$$GT$17h0123456789abcdefE.cold",
            "core::ptr::drop_in_place<alloc::vec::Vec<u8>>",
        ),
        (
            "_RINvMNtCsfq2Zq5gqAK1_2v05innerINtB3_1SReE4showNCNvB5_4mains_0EB5_",
            "<v0::inner::S<&str>>::show::<v0::main::{closure#1}>",
        ),
        (
            "_GLOBAL__sub_I__ZN3foo3barEv",
            "_GLOBAL__sub_I__ZN3foo3barEv",
        ),
        ("__ZN3foo3barEv", "__ZN3foo3barEv"),
        ("main.cold", "main.cold"),
        ("_Z", "_Z"),
        ("_Zfoo", "_Zfoo"),
        (
            "_ZZN3foo3barEvENKUlvE_clEv",
            "foo::bar()::{lambda()#1}::operator()",
        ),
    ];

    #[test]
    fn names_are_shown_as_perf_shows_them() {
        for (raw, shown) in AS_PERF {
            assert_eq!(name(raw.as_bytes(), Demangle::Yes), *shown, "{raw}");
            assert_eq!(name(raw.as_bytes(), Demangle::No), *raw);
        }
    }

    #[test]
    fn a_name_of_any_length_and_depth_ends_and_is_capped() {
        let deep = format!("_Z{}v", "P".repeat(200_000));
        assert_eq!(name(deep.as_bytes(), Demangle::Yes).len(), NAME_MAX);
        // Each substitution doubles what came before: 2^40 characters.
        let doubling = format!("_Z1fI{}E", "St4pairIiiES_".repeat(40));
        assert!(name(doubling.as_bytes(), Demangle::Yes).len() <= NAME_MAX);
        let rust = format!("_RNv{}1a", "NvC1a".repeat(10_000));
        assert!(name(rust.as_bytes(), Demangle::Yes).len() <= NAME_MAX);
    }

    #[test]
    fn bytes_that_are_not_text_stay_visible() {
        assert_eq!(name(b"a\xffb", Demangle::Yes), "a\\xffb");
    }
}
