//! Names of functions made shorter for a place that has no room for them
//! whole: one way for tables, trees, pictures and text.
//!
//! What tells functions apart stays longest: the type and the method. What
//! goes, in this order and only until the name fits:
//!
//! ```text
//! aliases       std::__cxx11::basic_string<char, …> ──► std::string
//! parameters    f(int, char const*) const           ──► f
//! arguments     Vec<Option<T>>::push                ──► Vec::push
//! inner paths   <a::b::Type as c::Trait>::run       ──► <Type as Trait>::run
//! outer paths   a::b::Type::run                     ──► Type::run
//! traits        <Type as Trait>::run                ──► Type::run
//! type          Type::run                           ──► run
//! ```
//!
//! and after that the end, which is up to whoever asks. Names of Java and Go,
//! whose parts stand between dots, lose what they return, and then the same:
//!
//! ```text
//! java.lang.Object java.util.HashMap.put(java.lang.Object) ──► java.util.HashMap.put(java.lang.Object)
//! java.util.HashMap.put(java.lang.Object)                  ──► java.util.HashMap.put
//! java.util.HashMap.put                                    ──► HashMap.put ──► put
//! encoding/json.(*decodeState).object ──► json.(*decodeState).object ──► (*decodeState).object ──► object
//! ```
//!
//! Functions of scripts lose the folders of their file, the file, the runtime:
//!
//! ```text
//! py::Job.run:/srv/app/job.py ──► py::Job.run:job.py ──► py::Job.run ──► Job.run ──► run
//! ```

mod dotted;
mod scripts;

use std::borrow::Cow;

/// Names longer than this, bytes, are not looked into.
const LONGEST: usize = 4096;

/// What has gone from a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Aliases,
    Parameters,
    /// Arguments within arguments.
    InnerArguments,
    Arguments,
    InnerPaths,
    /// So many components of the outermost path are left, at least.
    OuterPath(usize),
    Traits,
    Type,
}

/// The longest form of a function's name that `fits` accepts, else the shortest
/// form.
pub fn shortened(name: &str, fits: impl Fn(&str) -> bool) -> Cow<'_, str> {
    if name.len() > LONGEST || fits(name) {
        return Cow::Borrowed(name);
    }
    if let Some(mut forms) = by_language(name) {
        let shorter = forms.iter().position(|form| fits(form));
        let at = shorter.unwrap_or(forms.len().saturating_sub(1));
        return Cow::Owned(forms.swap_remove(at));
    }
    let known = known_as(name);
    let mut shortest = Cow::Borrowed(name);
    for step in steps() {
        // Brackets that do not match are no brackets.
        let Some(shorter) = after(&known, step) else {
            break;
        };
        if shorter.len() < shortest.len() {
            shortest = Cow::Owned(shorter);
            if fits(&shortest) {
                return shortest;
            }
        }
    }
    shortest
}

/// Whether `is_it` holds of a name or of a form of it that may be on the screen.
pub fn is_in_any_form(name: &str, is_it: impl Fn(&str) -> bool) -> bool {
    is_it(&shortened(name, &is_it))
}

/// Ever shorter forms of a name, each clearly shorter than the one before, down
/// to the bare method name; for places whose width is not known yet.
pub fn forms(name: &str) -> Vec<String> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    let known = known_as(name);
    let mut forms: Vec<String> = Vec::new();
    let mut least = name.len();
    let known_forms = by_language(name);
    let others = steps().map_while(|step| after(&known, step));
    let others = others.filter(|_| known_forms.is_none());
    for shorter in known_forms.iter().flatten().cloned().chain(others) {
        if !shorter.is_empty() && shorter.len() + shorter.len() / 8 < least {
            least = shorter.len();
            forms.push(shorter);
        }
    }
    forms
}

/// The forms of a name that is built in another way than those of C++ and Rust.
fn by_language(name: &str) -> Option<Vec<String>> {
    scripts::forms(name).or_else(|| dotted::forms(name))
}

/// All steps.
fn steps() -> impl Iterator<Item = Step> {
    let first = [
        Step::Aliases,
        Step::Parameters,
        Step::InnerArguments,
        Step::Arguments,
        Step::InnerPaths,
    ];
    let paths = (2..PATH).rev().map(Step::OuterPath);
    first
        .into_iter()
        .chain(paths)
        .chain([Step::Traits, Step::Type])
}

/// Paths with more components lose the rest at once.
const PATH: usize = 9;

/// Namespaces and types of the standard library under the names that users
/// know them by.
const ALIASES: [(&str, &str); 6] = [
    ("std::__cxx11::", "std::"),
    ("std::__1::", "std::"),
    (
        "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
        "std::string",
    ),
    (
        "std::basic_string<char, std::char_traits<char>, std::allocator<char>>",
        "std::string",
    ),
    (
        "std::basic_string_view<char, std::char_traits<char> >",
        "std::string_view",
    ),
    (
        "std::basic_string_view<char, std::char_traits<char>>",
        "std::string_view",
    ),
];

/// The name with its aliases.
fn known_as(name: &str) -> Cow<'_, str> {
    let mut name = Cow::Borrowed(name);
    for (long, short) in ALIASES {
        if name.contains(long) {
            name = Cow::Owned(name.replace(long, short));
        }
    }
    name
}

/// The name without all that goes up to a step.
fn after(name: &str, step: Step) -> Option<String> {
    let parts = components(name)?;
    let most = match step {
        Step::OuterPath(most) => most,
        Step::Traits => 2,
        Step::Type => 1,
        _ => usize::MAX,
    };
    path(&parts, kept_from(&parts, most), step, 1)
}

/// The components from one on, each without what goes up to a step; `depth`
/// counts the brackets around them.
fn path(parts: &[&str], from: usize, step: Step, depth: usize) -> Option<String> {
    let mut short: Vec<String> = Vec::new();
    for (at, part) in parts.iter().enumerate().skip(from) {
        // The arguments of a path, `f::<T>`, are a component of their own.
        if at > 0 && is_arguments(part) {
            if step < Step::InnerArguments || step == Step::InnerArguments && depth == 1 {
                short.push(reduced_group(part, step, depth)?);
            }
        } else {
            short.push(reduced(part, step, depth)?);
        }
    }
    Some(short.join("::"))
}

/// The first of `parts` that stays if at most so many do. Closures stand for
/// nothing by themselves.
fn kept_from(parts: &[&str], most: usize) -> usize {
    let counts = |part: &str| !part.starts_with('{') && !is_arguments(part);
    let mut named = parts.iter().enumerate().rev();
    let mut named = named.by_ref().filter(|(_, part)| counts(part));
    named.nth(most.saturating_sub(1)).map_or(0, |(at, _)| at)
}

/// Whether a component is the arguments of the one before: `::<T>`.
fn is_arguments(part: &str) -> bool {
    let is_name = |start: &&str| part.starts_with(*start);
    part.starts_with('<') && part.ends_with('>') && !["<impl ", "<lambda"].iter().any(is_name)
}

/// A component of a path without what goes up to a step.
fn reduced(part: &str, step: Step, depth: usize) -> Option<String> {
    let mut short = String::new();
    let mut rest = part;
    if step >= Step::InnerPaths
        && let Some(name) = without_directories(part)
    {
        rest = name;
    }
    while !rest.is_empty() {
        let before = part.get(..part.len() - rest.len())?;
        let (plain, group, after) = first_group(before, rest)?;
        short.push_str(plain);
        if let Some(group) = group {
            let is_first = before.is_empty() && plain.is_empty();
            let is_name = is_first || short.ends_with("operator") || short.ends_with('.');
            let group = match group.chars().next()? {
                '<' if is_first && depth == 1 => qualified(inside(group)?, step)?,
                '(' if is_name => group.into(),
                _ => reduced_group(group, step, depth)?,
            };
            short.push_str(&group);
        }
        rest = after;
    }
    if step >= Step::Parameters && depth == 1 {
        let end = short.trim_end_matches(" const").len();
        short.truncate(end);
    }
    Some(short)
}

/// A bracket with what is in it, as far as it stays.
fn reduced_group(group: &str, step: Step, depth: usize) -> Option<String> {
    Some(match group.chars().next()? {
        '<' if step >= Step::Arguments || step == Step::InnerArguments && depth > 1 => {
            String::new()
        }
        '<' if step == Step::InnerArguments => {
            let parts = components(inside(group)?)?;
            format!("<{}>", path(&parts, 0, step, depth + 1)?.trim_end())
        }
        '(' if step >= Step::Parameters && depth == 1 => String::new(),
        // What is called in here: `{lambda(int)#1}`.
        '{' if depth == 1 => format!("{{{}}}", reduced(inside(group)?, step, depth)?),
        _ => group.into(),
    })
}

/// What is in a bracket.
fn inside(group: &str) -> Option<&str> {
    group.get(1..group.len().checked_sub(1)?)
}

/// `Type as Trait`, or another type that stands before a path.
fn qualified(inside: &str, step: Step) -> Option<String> {
    for word in [" as ", " for "] {
        let Some((first, second)) = split_at_word(inside, word) else {
            continue;
        };
        let (first, second) = (type_name(first, step)?, type_name(second, step)?);
        if step < Step::Traits {
            return Some(format!("<{first}{word}{second}>"));
        }
        let own = if word == " as " { first } else { second };
        return Some(own);
    }
    let own = type_name(inside, step)?;
    let is_plain = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == ':';
    Some(if step >= Step::InnerPaths && own.chars().all(is_plain) {
        own
    } else {
        format!("<{own}>")
    })
}

/// A type's name without its path.
fn type_name(text: &str, step: Step) -> Option<String> {
    let signs = ["&", "mut ", "dyn ", "impl ", "*const ", "*"];
    let mut rest = text;
    while let Some(after) = signs.iter().find_map(|sign| rest.strip_prefix(sign)) {
        rest = after;
    }
    let sigils = text.get(..text.len() - rest.len())?;
    let parts = components(rest)?;
    let most = if step >= Step::InnerPaths {
        1
    } else {
        usize::MAX
    };
    let name = path(&parts, kept_from(&parts, most), step, 2)?;
    Some(format!("{sigils}{name}"))
}

/// The two sides of a word that stands outside of all brackets.
fn split_at_word<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let mut rest = text;
    while !rest.is_empty() {
        let before = text.get(..text.len() - rest.len())?;
        let (plain, _, after) = first_group(before, rest)?;
        if let Some(at) = plain.find(word) {
            let at = before.len() + at;
            return Some((text.get(..at)?, text.get(at + word.len()..)?));
        }
        rest = after;
    }
    None
}

/// A name without the directories before it, which Go and Java have.
fn without_directories(part: &str) -> Option<&str> {
    let end = part
        .find(['(', '<', '{', ' ', ':', '['])
        .unwrap_or(part.len());
    let at = part.get(..end)?.rfind('/').filter(|&at| at > 0)?;
    part.get(at + 1..).filter(|name| !name.is_empty())
}

/// A path's components: what stands between `::` outside of brackets. `None`
/// if the brackets do not match.
fn components(name: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < name.len() {
        let (plain, group, _) = first_group(name.get(start..at)?, name.get(at..)?)?;
        while let Some(found) = name.get(at..at + plain.len()).and_then(|_| {
            let from = start.max(at);
            name.get(from..at + plain.len())?
                .find("::")
                .map(|found| from + found)
        }) {
            parts.push(name.get(start..found)?);
            start = found + 2;
        }
        at += plain.len() + group.map_or(0, str::len);
    }
    parts.push(name.get(start..)?);
    Some(parts)
}

/// What stands before the first bracket of `rest`, the bracket with all that
/// is in it, and what follows. `None` if it does not end.
fn first_group<'a>(before: &str, rest: &'a str) -> Option<(&'a str, Option<&'a str>, &'a str)> {
    let mut at = 0;
    let mut open: Vec<char> = Vec::new();
    let mut start = 0;
    while let Some(next) = rest.get(at..).filter(|next| !next.is_empty()) {
        let skipped = no_bracket(before, rest.get(..at)?, next);
        if skipped > 0 {
            at += skipped;
            continue;
        }
        let sign = next.chars().next()?;
        let end = at + sign.len_utf8();
        match sign {
            '<' | '(' | '{' | '[' => {
                if open.is_empty() {
                    start = at;
                }
                open.push(sign);
            }
            '>' | ')' | '}' | ']' => {
                let partner = match sign {
                    '>' => '<',
                    ')' => '(',
                    '}' => '{',
                    _ => '[',
                };
                if open.pop()? != partner {
                    return None;
                }
                if open.is_empty() {
                    return Some((rest.get(..start)?, rest.get(start..end), rest.get(end..)?));
                }
            }
            _ => {}
        }
        at = end;
    }
    open.is_empty().then_some((rest, None, ""))
}

/// Bytes at the start of `next` whose signs are no brackets: an operator's
/// name, an arrow.
fn no_bracket(before: &str, within: &str, next: &str) -> usize {
    let is_word = |sign: char| sign.is_alphanumeric() || sign == '_';
    let last = within.chars().next_back().or(before.chars().next_back());
    if let Some(sign) = next.strip_prefix("operator")
        && !last.is_some_and(is_word)
    {
        let is_sign = |sign: &char| "<>=-+*/%^&|~!".contains(*sign);
        let call = match sign {
            sign if sign.starts_with("()") || sign.starts_with("[]") => 2,
            _ => 0,
        };
        return "operator".len() + call.max(sign.chars().take_while(is_sign).count());
    }
    if next.starts_with("->") || next.starts_with("=>") {
        2
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::{forms, is_in_any_form, shortened};

    fn within(name: &str, width: usize) -> String {
        shortened(name, |name| name.chars().count() <= width).into_owned()
    }

    #[test]
    fn type_and_method_stay_longest() {
        let name = "<rustc_hir_typeck::TypeChecker<'_, '_> as rustc_middle::mir::visit::Visitor>::visit_body";
        assert_eq!(within(name, 100), name);
        assert_eq!(
            within(name, 80),
            "<rustc_hir_typeck::TypeChecker as rustc_middle::mir::visit::Visitor>::visit_body"
        );
        assert_eq!(within(name, 40), "<TypeChecker as Visitor>::visit_body");
        assert_eq!(within(name, 30), "TypeChecker::visit_body");
        assert_eq!(within(name, 12), "visit_body");
        assert_eq!(within(name, 3), "visit_body");
    }

    #[test]
    fn javas_methods_keep_class_and_method() {
        let name = "java.lang.Object java.util.HashMap.put(java.lang.Object, java.lang.Object)";
        assert_eq!(within(name, 80), name);
        let shorter = "java.util.HashMap.put(java.lang.Object, java.lang.Object)";
        assert_eq!(within(name, 60), shorter);
        assert_eq!(within(name, 30), "java.util.HashMap.put");
        assert_eq!(within(name, 15), "HashMap.put");
        assert_eq!(within(name, 3), "put");
        assert_eq!(
            forms(name),
            [shorter, "java.util.HashMap.put", "HashMap.put", "put"]
        );
        assert_eq!(within("long J.h(long)", 10), "J.h(long)");
        assert_eq!(within("long J.h(long)", 5), "J.h");
        // No such names, and nothing to stumble over.
        for other in [
            "void f<int>(int)",
            "a (b.c)",
            " .(",
            "x .()",
            "int a::b.c(d)",
            "é é.é(é)",
        ] {
            let _ = (within(other, 1), forms(other));
        }
        assert_eq!(within("void f<int>(int)", 8), "void f");
    }

    #[test]
    fn the_string_is_the_string() {
        let name = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::compare(char const*) const";
        assert_eq!(within(name, 60), "std::string::compare(char const*) const");
        assert_eq!(within(name, 30), "std::string::compare");
        let name = "std::map<std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char> >, int>::at";
        assert_eq!(within(name, 60), "std::map<std::string, int>::at");
        assert_eq!(within(name, 20), "std::map::at");
        assert_eq!(within(name, 10), "map::at");
    }

    #[test]
    fn arguments_go_before_paths() {
        let name = "ns::Iter<int*, std::vector<int> >::operator++(int)";
        assert_eq!(
            within(name, 49),
            "ns::Iter<int*, std::vector<int> >::operator++"
        );
        assert_eq!(within(name, 44), "ns::Iter<int*, std::vector>::operator++");
        assert_eq!(within(name, 30), "ns::Iter::operator++");
        assert_eq!(within(name, 19), "Iter::operator++");
        let name = "core::ptr::drop_in_place::<alloc::vec::Vec<u8>>";
        assert_eq!(within(name, 40), "core::ptr::drop_in_place");
        assert_eq!(within(name, 20), "ptr::drop_in_place");
        let name = "<alloc::vec::Vec<T> as Extend<(A, B)>>::extend";
        assert_eq!(within(name, 41), "<alloc::vec::Vec as Extend>::extend");
        assert_eq!(within(name, 30), "<Vec as Extend>::extend");
        assert_eq!(
            within("<[u8]>::sort_unstable_by_key", 9),
            "sort_unstable_by_key"
        );
        assert_eq!(
            within("<alloc::string::String>::push_str", 20),
            "String::push_str"
        );
        let name = "core::str::<impl str>::parse::<u64>";
        assert_eq!(within(name, 30), "core::str::<impl str>::parse");
    }

    #[test]
    fn a_name_is_found_by_what_is_shown_of_it() {
        let name = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::compare(char const*) const";
        let has = |part: &str| is_in_any_form(name, |form| form.contains(part));
        assert!(has("std::string::compare") && has("__cxx11") && has("char_traits"));
        assert!(!has("std::string::find"));
        assert!(is_in_any_form(name, |form| form == "std::string::compare"));
        assert!(is_in_any_form("main", |form| form == "main"));
    }

    #[test]
    fn forms_get_shorter_down_to_the_method() {
        let name = "<app::Checker<'_> as core::visit::Visitor>::visit_body";
        assert_eq!(
            forms(name),
            [
                "<Checker as Visitor>::visit_body",
                "Checker::visit_body",
                "visit_body"
            ]
        );
        assert!(forms("main").is_empty());
        assert!(forms(&"a::".repeat(4000)).is_empty());
    }

    #[test]
    fn closures_keep_what_they_are_in() {
        let name = "app::server::Pool::run::{closure#0}::{closure#1}";
        assert_eq!(within(name, 40), "Pool::run::{closure#0}::{closure#1}");
        assert_eq!(within(name, 30), "run::{closure#0}::{closure#1}");
        let name = "fold<int, main()::<lambda(auto, int const&)> >(int)::<lambda(int)>";
        assert!(within(name, 20).ends_with("<lambda(int)>"));
        let name = "ns::work(int)::{lambda(int, int)#1}::operator()(int, int) const";
        assert_eq!(within(name, 40), "ns::work::{lambda#1}::operator()");
    }

    #[test]
    fn operators_and_arrows_are_no_brackets() {
        let name = "std::operator<<<std::char_traits<char> >(std::ostream&)";
        assert_eq!(within(name, 30), name);
        let name = "std::operator< <std::char_traits<char> >(std::string&)";
        assert_eq!(within(name, 30), "std::operator< ");
        let name = "(anonymous namespace)::call(fn(u8) -> u64)::operator()(int)";
        assert_eq!(within(name, 50), "(anonymous namespace)::call::operator()");
        assert_eq!(within(name, 20), "call::operator()");
    }

    #[test]
    fn directories_go_like_paths() {
        assert_eq!(
            within("github.com/owner/repo/pkg.(*Type[...]).Method", 30),
            "pkg.(*Type[...]).Method"
        );
        assert_eq!(within("Lorg/apache/Foo;::run", 12), "Foo;::run");
        let python = "py::main:/usr/lib/python3/app.py";
        assert_eq!(within(python, 16), "py::main:app.py");
    }

    #[test]
    fn what_does_not_match_stays() {
        for name in [
            "a>b<c>dddddd",
            "f(",
            "<<<<",
            "}",
            "",
            "::",
            "a::",
            "<>",
            "()::()",
        ] {
            within(name, 0);
        }
        assert_eq!(within("a>b<c>dddddd", 3), "a>b<c>dddddd");
        let deep = "<".repeat(4000);
        assert_eq!(within(&deep, 8), deep);
        let nested = format!("{}{}", "a<".repeat(1300), ">".repeat(1300));
        assert_eq!(within(&nested, 2), "a");
    }
}
