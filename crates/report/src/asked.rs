//! Functions by what people call them: without arguments, in a form that views show, by
//! a pattern.

use crate::short::is_in_any_form;

/// In which way a name is what was asked for; the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// It is the name, with or without what it takes.
    Name,
    /// It is a shorter form of it (`operator[]`, `Ledger::add`).
    Form,
    /// A pattern with `*` and `?` fits it or a form of it.
    Pattern,
}

/// In which way a function of this name is what was asked for, if it is.
pub fn likeness(name: &str, asked: &str) -> Option<Likeness> {
    let is_form = |form: &str| is_called(form, asked);
    let fits = |form: &str| matches(asked, form);
    if is_called(name, asked) {
        Some(Likeness::Name)
    } else if name.contains(longest_word(asked)) && is_in_any_form(name, is_form) {
        Some(Likeness::Form)
    } else if asked.contains(['*', '?']) && (fits(name) || is_in_any_form(name, fits)) {
        Some(Likeness::Pattern)
    } else {
        None
    }
}

/// The longest word of a name. Shorter forms of a name leave words out, and change none:
/// most names need not be taken apart to know that what was asked for is no form of them.
fn longest_word(asked: &str) -> &str {
    let words = asked.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.max_by_key(|word| word.len()).unwrap_or_default()
}

/// Of functions by their names those that are what was asked for, in the surest way
/// that any is.
pub fn called<'n, T>(asked: &str, functions: impl Iterator<Item = (&'n str, T)>) -> Vec<T> {
    let found = functions.filter_map(|(name, it)| Some((likeness(name, asked)?, it)));
    let found: Vec<(Likeness, T)> = found.collect();
    let surest = found.iter().map(|(how, _)| *how).min();
    let found = found.into_iter().filter(|(how, _)| Some(*how) == surest);
    found.map(|(_, it)| it).collect()
}

/// Whether `name` is the function `asked`, with or without what it takes or the version
/// of a library's symbol.
fn is_called(name: &str, asked: &str) -> bool {
    let rest = name.strip_prefix(asked);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', '@']))
}

/// Whether a name is what a pattern with `*` and `?` says.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last star stands, and how much it takes.
    let mut star: Option<(usize, usize)> = None;
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(letter) if *letter == '?' || Some(letter) == name.get(of) => {
                at += 1;
                of += 1;
            }
            _ => match star.as_mut() {
                Some((place, taken)) => {
                    *taken += 1;
                    (at, of) = (*place + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::{Likeness, called, likeness, matches};
    use crate::short::forms;

    const AT: &str = "std::map<std::string, std::vector<int> >::operator[](std::string const&)";

    #[test]
    fn patterns_have_stars() {
        assert!(
            matches("parse*", "parse_header")
                && matches("*::f", "a::b::f")
                && matches("a?c*", "abc")
        );
        assert!(!matches("parse", "parse_header") && !matches("*x", "abc") && matches("**", ""));
    }

    #[test]
    fn every_form_of_a_name_finds_it() {
        for name in [
            AT,
            "<alloc::vec::Vec<core::option::Option<a::B>> as core::ops::Drop>::drop::{closure#0}",
            "void (anonymous namespace)::run<std::__cxx11::basic_string<char> >(int) const::{lambda(int)#2}",
            "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::append(char const*)",
            "std::sort<std::basic_string_view<char, std::char_traits<char> >*>(a::b*)",
            "java.lang.Object java.util.HashMap.put(java.lang.Object, java.lang.Object)",
            "encoding/json.(*decodeState).object",
            "py::Job.run:/srv/app/job.py",
            "js::Server.#answer:file:///srv/app/server.js:10",
            "caml_Stdlib__List$map_123",
        ] {
            for form in forms(name) {
                let how = likeness(name, &form);
                assert!(how.is_some(), "{form} of {name}");
            }
        }
    }

    #[test]
    fn a_function_is_found_by_what_people_call_it() {
        let form = Some(Likeness::Form);
        for asked in ["operator[]", "map::operator[]", "std::map::operator[]"] {
            assert_eq!(likeness(AT, asked), form, "{asked}");
        }
        assert_eq!(likeness("add(int)", "add"), Some(Likeness::Name));
        assert_eq!(likeness("add@@APP_1", "add"), Some(Likeness::Name));
        assert_eq!(likeness("add_all(int)", "add"), None);
        assert_eq!(likeness("Ledger::add(int)", "add"), form);
        assert_eq!(
            likeness("Ledger::add(int)", "*dg*add"),
            Some(Likeness::Pattern)
        );
        assert_eq!(likeness("Ledger::add(int)", "ledger"), None);
        assert_eq!(likeness("Ledger::add_all(int)", "add"), None);
        assert_eq!(likeness("a::operator*(b)", "operator*"), form);
        // Only what is as sure as the surest.
        let names = ["add", "Ledger::add(int)", "b::add"];
        let numbered = || names.into_iter().zip(0..);
        assert_eq!(called("add", numbered()), [0]);
        assert_eq!(called("*::add", numbered()), [1, 2]);
        assert_eq!(called("none", numbered()), [0; 0]);
    }
}
