//! Answers beside those of the library.

use super::super::{by_library, without_qualifiers};
use super::demangled;
use proptest::collection::vec;
use proptest::prelude::*;

/// What the library shows, as it is used for names that are not common.
fn expected(mangled: &str) -> Option<String> {
    by_library(mangled).map(without_qualifiers)
}

#[test]
fn common_names_are_shown_as_by_the_library() {
    for (mangled, shown) in [
        ("_Z4mainv", "main"),
        ("_ZN4llvm3Foo3barEPKcjRKNS_9StringRefE", "llvm::Foo::bar"),
        ("_ZNK3foo3barEv", "foo::bar"),
        ("_ZN3fooC2ERKS_", "foo::foo"),
        ("_ZN3fooIiEC1IcEET_", "foo<int>::foo<char>"),
        ("_ZN1a3fooD0Ev", "a::foo::~foo"),
        ("_ZN12_GLOBAL__N_13fooESs", "(anonymous namespace)::foo"),
        ("_ZN3foo3barE", "foo::bar"),
        ("_ZL3foov", "foo"),
        ("_ZStlsIcERSoS0_T_", "std::operator<< <char>"),
        ("_ZN3foo3barB5cxx11Ev", "foo::bar[abi:cxx11]"),
        (
            "_ZNSt6vectorIPKcSaIS1_EE9push_backEOS1_",
            "std::vector<char const*, std::allocator<char const*> >::push_back",
        ),
        (
            "_Z1fILi3ELb1ELm64ELj3ELln4ELc97ELN1a1eE1EEvv",
            "f<3, true, 64ul, 3u, -4l, (char)97, (a::e)1>",
        ),
        ("_Z1fI1gJicEJEEvv", "f<g, int, char>"),
        (
            "_ZZN1a1fIiEEviENKUlRKS_E0_clEv",
            "a::f<int>(int)::{lambda(a const&)#2}::operator()",
        ),
        (
            "_Z1gIZNK1a1fEiEUlvE_EvT_",
            "g<a::f(int) const::{lambda()#1}>",
        ),
    ] {
        assert_eq!(demangled(mangled).as_deref(), Some(shown), "{mangled}");
        assert_eq!(expected(mangled).as_deref(), Some(shown), "{mangled}");
    }
}

/// As libiberty shows them (`c++filt -p`). Where the outer class of a pointer's
/// was written before, the library puts the `*` behind the outer one; where a lambda
/// that is referred to takes references, it leaves their `&` out.
#[test]
fn what_the_library_gets_wrong_is_right() {
    for (mangled, shown, library) in [
        (
            "_Z1fIPKN1a1bEPKNS1_1cEEvv",
            "f<a::b const*, a::b::c const*>",
            "f<a::b const*, a::b const::c*>",
        ),
        (
            "_Z1fIN1a1bERNS1_1cEEvv",
            "f<a::b, a::b::c&>",
            "f<a::b, a::b&::c>",
        ),
        (
            "_Z1fIN1a1bEZNKS1_1gEiEUlvE_Evv",
            "f<a::b, a::b::g(int) const::{lambda()#1}>",
            "f<a::b, a::b(int)::g const::{lambda()#1}>",
        ),
        (
            "_Z1fILN1a1bE1EKS1_I3fooEEvv",
            "f<(a::b)1, a::b<foo> const>",
            "f<(a::b)1, a::b const<foo> >",
        ),
        (
            "_Z1gIRZ1fvEUliRsE_Evv",
            "g<f()::{lambda(int, short&)#1}&>",
            "g<f()::{lambda(int, short)#1}&>",
        ),
    ] {
        assert_eq!(demangled(mangled).as_deref(), Some(shown), "{mangled}");
        assert_eq!(expected(mangled).as_deref(), Some(library), "{mangled}");
    }
}

#[test]
fn the_others_are_left_to_the_library() {
    for mangled in [
        "_ZN3fooC1E",
        "_ZZ3foovE1x_0",
        "_ZN30foo3barEv",
        "_Z",
        "_ZNSs4sizeEv",
        "_ZN3foocvbEv",
        "_Z1fIFviEEvv",
        "_Z1fIA3_iEvv",
        "_Z1fIM1aiEvv",
        "_Z1fIXadL_Z1gvEEEvv",
        "_Z1fIRKVcEvv",
        "_ZNR1a1fEv",
        "_ZN1aUt_1fEv",
        "_ZZ1fIiEvT_ENKUlvE_clEv",
        "_ZZ1fvENKUlN1a1bEE_clES1_",
        "_ZTV3foo",
    ] {
        assert_eq!(demangled(mangled), None, "{mangled}");
    }
}

#[test]
fn deep_and_long_names_are_left_to_the_library() {
    let deep = format!("_Z1fI{}i{}Evv", "1aI".repeat(40), "E".repeat(40));
    assert_eq!(demangled(&deep), None);
    let deep = format!("_Z1fI{}iEvv", "P".repeat(100_000));
    assert_eq!(demangled(&deep), None);
    // Each one doubles what came before.
    let doubling = (0..40_u32).map(|number| format!("1aIS{number}_S{number}_E"));
    let doubling = format!("_Z1fIPiPS_{}Evv", doubling.collect::<String>());
    assert_eq!(demangled(&doubling), None);
}

fn class() -> impl Strategy<Value = String> {
    let name = "[1-3][a-c]{1,3}|3foo|3bar|12_GLOBAL__N_1|1aB1b|L1a|cl|lt|ls|gt|C1|D[0-3]";
    let outer = "K?(|S_|S0_|S1_|St|Sa|Ss|1a)";
    prop_oneof![
        4 => "St3foo|3foo|1a|S_|S[0-4]_|S[abiod]",
        1 => (outer, vec(name, 1..4)).prop_map(|(outer, of)| format!("N{outer}{}E", of.concat())),
    ]
}

/// Types, many of which are well formed.
fn types() -> impl Strategy<Value = String> {
    let simple = prop_oneof![
        4 => "[a-z]".prop_map(String::from),
        4 => class(),
        1 => "D[a-z]|T_|T0_|Ut_|L_Z1fvE|X|A3_c|FviE".prop_map(String::from),
    ];
    simple.prop_recursive(4, 24, 4, |inner| {
        let some = vec(inner.clone(), 0..4).prop_map(|all| all.concat());
        let some = some.boxed();
        prop_oneof![
            2 => ("[PROK]{1,2}", inner).prop_map(|(how, it)| how + &it),
            2 => (class(), some.clone()).prop_map(|(of, some)| match of.strip_suffix('E') {
                Some(of) if of.starts_with('N') => format!("{of}I{some}EE"),
                _ => format!("{of}I{some}E"),
            }),
            1 => some.clone().prop_map(|some| format!("J{some}E")),
            1 => (class(), some.clone(), some, "[0-9]?")
                .prop_map(|(of, some, more, number)| format!("Z{of}{some}EUl{more}E{number}_")),
            1 => "L[a-z]n?[0-9]{1,2}E|LN1a1bE1E".prop_map(String::from),
        ]
    })
}

/// Whether a class in one that was met is pointed to, one that was met has arguments
/// and is constant or pointed to, or a lambda that is referred to takes references,
/// which the library gets wrong.
fn is_shown_wrong(mangled: &str) -> bool {
    let refers = |it: char| matches!(it, 'R' | 'O');
    let takes_references = mangled
        .split_once("Ul")
        .is_some_and(|it| it.1.contains(refers));
    let mut behind = mangled
        .match_indices(refers)
        .map(|(at, _)| mangled.as_bytes().get(at + 1));
    if takes_references && behind.any(|it| matches!(it, Some(b'Z' | b'N' | b'S' | b'U'))) {
        return true;
    }
    let is_met = |(at, _): (usize, &str)| {
        let before = mangled.get(..at).unwrap_or_default();
        let of_digit = mangled.as_bytes().get(at + 2);
        of_digit.is_some_and(|it| !it.is_ascii_lowercase())
            && (before.ends_with(['P', 'R', 'O', 'K', 'Z']))
    };
    let has_arguments = |(at, _): (usize, &str)| {
        let before = mangled.get(..at).unwrap_or_default();
        let behind = mangled.get(at + 1..).unwrap_or_default();
        let number = behind.trim_start_matches(|it: char| it.is_ascii_digit());
        number.starts_with("_I") && before.ends_with(['P', 'R', 'O', 'K'])
    };
    if mangled.match_indices('S').any(has_arguments) {
        return true;
    }
    let constant = mangled.replace("NKS", "NS");
    mangled.match_indices("NS").any(is_met)
        || constant.contains("ZNS")
        || (constant.contains("Ul") && constant.contains("NS"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_answer_differs_from_the_library(
        of in class(),
        arguments in vec(types(), 0..4),
        parameters in vec(types(), 0..3),
        clutter in "(|v|E|_|[ -~])",
    ) {
        let arguments = arguments.concat();
        let arguments = if arguments.is_empty() { arguments } else { format!("I{arguments}E") };
        let mangled = match of.strip_suffix('E') {
            Some(of) if of.starts_with('N') => format!("_Z{of}{arguments}E"),
            _ => format!("_Z{of}{arguments}"),
        };
        let mangled = format!("{mangled}{}{clutter}", parameters.concat());
        if let Some(shown) = demangled(&mangled).filter(|_| !is_shown_wrong(&mangled)) {
            prop_assert_eq!(Some(shown), expected(&mangled), "{}", mangled);
        }
    }
}
