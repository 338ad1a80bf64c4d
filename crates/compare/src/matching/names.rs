//! Names without what changes from build to build.

use std::borrow::Cow;

/// Endings that compilers give to parts and copies of a function; a number may
/// follow.
const ENDINGS: [&str; 14] = [
    ".constprop",
    ".part",
    ".isra",
    ".cold",
    ".llvm",
    ".lto_priv",
    ".localalias",
    ".warm",
    ".specialized",
    ".clone",
    ".simdclone",
    ".argprom",
    ".retelim",
    ".__uniq",
];

/// Endings of code that is a function of its own, by number: what an OpenMP
/// region becomes.
const REGIONS: [&str; 4] = ["._omp_fn", "._omp_cpyfn", ".omp_outlined", ".omp_outlined."];

/// What stands before the number of a closure, a lambda or an anonymous class:
/// Rust's `{closure#3}` and C++'s `{lambda(int)#2}`, clang's `$_0`, LLVM's
/// `'lambda0'`, Go's `func1`, Java's `lambda$run$3`, `$Proxy7` and accessors.
const NUMBERED: [&str; 11] = [
    "#",
    "$_",
    "$",
    "'lambda",
    "'unnamed",
    ".func",
    ".gowrap",
    ".deferwrap",
    "$Proxy",
    "GeneratedMethodAccessor",
    "GeneratedConstructorAccessor",
];

/// What is in the name of each hidden class of Java.
const HIDDEN: &str = "Lambda";

/// Digits of the place of a hidden class of Java, at least.
const PLACE_DIGITS: usize = 6;

/// A function's name without what changes from build to build: the hash of
/// Rust's mangling, endings that compilers add, numbers of closures, lambdas and
/// anonymous places, places of hidden classes.
pub(crate) fn plain_symbol(name: &str) -> Cow<'_, str> {
    let mut region = None;
    let mut plain = name;
    loop {
        let shorter = without_endings(plain);
        match clone_of(shorter) {
            Some((before, clone)) if without_endings(clone).is_empty() => plain = before,
            Some((before, clone)) if is_region(clone) => {
                region = Some(without_number(clone));
                plain = before;
            }
            _ => {
                plain = shorter;
                break;
            }
        }
    }
    if let Some((before, hash)) = plain.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        plain = before;
    }
    if plain.is_empty() {
        plain = name;
    }
    if is_region(plain) {
        plain = without_number(plain);
    }
    match (without_numbers(plain), region) {
        (plain, None) => plain,
        (plain, Some(region)) => Cow::Owned(plain.into_owned() + region),
    }
}

/// What stands before `[clone .cold]` or `(.cold)`, and the ending in it.
fn clone_of(name: &str) -> Option<(&str, &str)> {
    let in_brackets = |open: &str, close: char| {
        let (before, inner) = name.strip_suffix(close)?.rsplit_once(open)?;
        inner.starts_with('.').then_some((before, inner))
    };
    in_brackets(" [clone ", ']').or_else(|| in_brackets(" (", ')'))
}

/// Without endings; of an ending alone nothing is left.
fn without_endings(name: &str) -> &str {
    let mut name = name;
    loop {
        let before_number = without_number(name);
        let shorter = ENDINGS.iter().find_map(|ending| {
            let of_numbered = before_number.strip_suffix(ending);
            of_numbered.or_else(|| name.strip_suffix(ending))
        });
        match shorter {
            Some(shorter) => name = shorter,
            None => return name,
        }
    }
}

/// Without a number behind a point.
fn without_number(name: &str) -> &str {
    let before = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    match before.len() < name.len() {
        true => before.strip_suffix('.').unwrap_or(name),
        false => name,
    }
}

fn is_region(name: &str) -> bool {
    let before = without_number(name);
    REGIONS.iter().any(|region| before.ends_with(region))
}

/// Without numbers within a name.
fn without_numbers(name: &str) -> Cow<'_, str> {
    let bytes = name.as_bytes();
    let hidden = name.find(HIDDEN).unwrap_or(name.len());
    let mut text = String::new();
    // What is behind this was not copied yet.
    let mut copied = 0;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'0'..=b'9' => number_end(bytes, at),
            b'/' | b'+' | b'.' if at > hidden => place_end(bytes, at),
            _ => None,
        };
        if let Some(end) = end {
            text.push_str(name.get(copied..at).unwrap_or_default());
            copied = end;
        }
        at = end.unwrap_or(at + 1);
    }
    match copied {
        0 => Cow::Borrowed(name),
        _ => Cow::Owned(text + name.get(copied..).unwrap_or_default()),
    }
}

/// How many bytes from `at` on are digits.
fn digits(bytes: &[u8], at: usize, is_digit: fn(&u8) -> bool) -> usize {
    let digits = bytes.get(at..).unwrap_or_default().iter();
    digits.take_while(|byte| is_digit(byte)).count()
}

/// Where a number that begins here ends, if it is one of [`NUMBERED`]. Numbers
/// of closures in closures follow: `func1.2`.
fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let before = bytes.get(..at)?;
    let marker = NUMBERED
        .iter()
        .find(|marker| before.ends_with(marker.as_bytes()))?;
    let number = |at: usize| at + digits(bytes, at, u8::is_ascii_digit);
    let mut end = number(at);
    while *marker == ".func" && bytes.get(end) == Some(&b'.') && number(end + 1) > end + 1 {
        end = number(end + 1);
    }
    let goes_on = bytes.get(end);
    let goes_on = goes_on.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (!goes_on).then_some(end)
}

/// Where the place of a hidden class ends that begins here, behind [`HIDDEN`]:
/// `Main$$Lambda$14/0x0000000800066840.apply`, `LambdaForm$MH/0x…`.
fn place_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at + 1..)?;
    let (start, is_digit): (_, fn(&u8) -> bool) = match rest.starts_with(b"0x") {
        true => (at + 3, u8::is_ascii_hexdigit),
        false => (at + 1, u8::is_ascii_digit),
    };
    let digits = digits(bytes, start, is_digit);
    (digits >= PLACE_DIGITS).then_some(start + digits)
}

/// `libc.so.6` and `libssl.so.1.1` without their versions, code made at run time
/// without the number of its process.
pub(crate) fn plain_dso(name: &str) -> &str {
    const JIT: &str = "[JIT]";
    match name.find(".so.") {
        _ if name.starts_with("[JIT] tid ") => JIT,
        Some(at) => name.get(..at + ".so".len()).unwrap_or(name),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{plain_dso, plain_symbol};

    fn assert_plain(names: &[(&str, &str)]) {
        for (name, plain) in names {
            assert_eq!(plain_symbol(name), *plain, "{name}");
        }
    }

    #[test]
    fn endings_of_compilers_are_left_out() {
        assert_plain(&[
            ("parse.constprop.0", "parse"),
            ("parse.isra.0.cold", "parse"),
            ("parse.part.12.isra.3", "parse"),
            ("finish_task_switch.isra.0", "finish_task_switch"),
            ("inner.llvm.1234567890123456789", "inner"),
            ("add_to_batch.lto_priv.0", "add_to_batch"),
            ("get.__uniq.92163450131270318.llvm.31", "get"),
            (
                "std::string::_M_assign [clone .cold]",
                "std::string::_M_assign",
            ),
            ("f(int) [clone .constprop.0] [clone .isra.0]", "f(int)"),
            ("f(int) (.llvm.1234567890123456789)", "f(int)"),
            ("f(int) (.cold)", "f(int)"),
            ("x.1", "x.1"),
            (".cold", ".cold"),
            ("operator()(int) const", "operator()(int) const"),
            ("main", "main"),
        ]);
    }

    #[test]
    fn regions_of_openmp_are_functions_without_their_numbers() {
        assert_plain(&[
            ("main._omp_fn.0", "main._omp_fn"),
            ("main._omp_fn.12.cold", "main._omp_fn"),
            ("sum(int) [clone ._omp_fn.1]", "sum(int)._omp_fn"),
            (
                "sum(int) [clone ._omp_fn.1] [clone .cold]",
                "sum(int)._omp_fn",
            ),
            ("main.omp_outlined", "main.omp_outlined"),
            (".omp_outlined..3", ".omp_outlined."),
        ]);
    }

    #[test]
    fn hashes_and_closures_of_rust_are_left_out() {
        assert_plain(&[
            ("core::fmt::write::h0123456789abcdef", "core::fmt::write"),
            ("alloc::vec::h01", "alloc::vec::h01"),
            (
                "app::main::{closure#3}::{closure#0}",
                "app::main::{closure#}::{closure#}",
            ),
            (
                "std::rt::lang_start::{{closure}}::hd2ab8b2a0e9a4f3c.llvm.17",
                "std::rt::lang_start::{{closure}}",
            ),
            (
                "<T as core::any::Any>::type_id::{shim:vtable#0}",
                "<T as core::any::Any>::type_id::{shim:vtable#}",
            ),
        ]);
    }

    #[test]
    fn lambdas_of_c_plus_plus_have_no_numbers() {
        assert_plain(&[
            (
                "sort(int)::{lambda(int)#12}::operator()",
                "sort(int)::{lambda(int)#}::operator()",
            ),
            (
                "main::$_0::operator()(int) const",
                "main::$_::operator()(int) const",
            ),
            (
                "std::_Function_handler<int (int), main::{lambda(int)#2}>::_M_invoke",
                "std::_Function_handler<int (int), main::{lambda(int)#}>::_M_invoke",
            ),
            (
                "main::'lambda0'(int)::operator()(int) const",
                "main::'lambda'(int)::operator()(int) const",
            ),
            ("std::array<int, 3ul>::at", "std::array<int, 3ul>::at"),
        ]);
    }

    #[test]
    fn closures_of_go_have_no_numbers() {
        assert_plain(&[
            ("main.main.func1", "main.main.func"),
            ("main.main.func1.2", "main.main.func"),
            ("main.glob..func3", "main.glob..func"),
            (
                "net/http.(*Server).Serve.gowrap3",
                "net/http.(*Server).Serve.gowrap",
            ),
            (
                "net/http.(*persistConn).readLoop.func4.deferwrap1",
                "net/http.(*persistConn).readLoop.func.deferwrap",
            ),
            (
                "main.Map[go.shape.int].func1",
                "main.Map[go.shape.int].func",
            ),
            ("main.func12to3", "main.func12to3"),
            ("crypto/sha256.block", "crypto/sha256.block"),
        ]);
    }

    #[test]
    fn lambdas_and_hidden_classes_of_java_have_no_numbers() {
        assert_plain(&[
            ("Main.lambda$main$12", "Main.lambda$main$"),
            (
                "int Main$$Lambda$14/0x0000000800066840.applyAsInt(int)",
                "int Main$$Lambda$.applyAsInt(int)",
            ),
            (
                "Main$$Lambda/0x00007f8c5c003200.run()",
                "Main$$Lambda.run()",
            ),
            ("Main$$Lambda$14/1922154895.run", "Main$$Lambda$.run"),
            (
                "java.lang.invoke.LambdaForm$MH/0x00000008000c5400.invoke",
                "java.lang.invoke.LambdaForm$MH.invoke",
            ),
            ("jdk.proxy1.$Proxy17.size", "jdk.proxy1.$Proxy.size"),
            ("Main$1.run", "Main$.run"),
            ("app+0x12345678", "app+0x12345678"),
        ]);
    }

    #[test]
    fn versions_of_files_are_left_out() {
        for (name, plain) in [
            ("libc.so.6", "libc.so"),
            ("libstdc++.so.6.0.30", "libstdc++.so"),
            ("[JIT] tid 4711", "[JIT]"),
            ("app", "app"),
        ] {
            assert_eq!(plain_dso(name), plain);
        }
    }
}
