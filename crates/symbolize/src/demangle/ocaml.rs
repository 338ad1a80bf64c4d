//! Names of OCaml's native code: `camlModule__function_123`.

/// A function of OCaml as perf shows it: modules with points between, characters
/// that are written as `$xx` as they are, and the number that makes it unique.
/// `None` if the name does not begin with `caml` and a capital letter.
pub(super) fn demangled(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix("caml")?;
    if !rest.starts_with(|first: char| first.is_ascii_uppercase()) {
        return None;
    }
    let mut out = String::with_capacity(rest.len());
    while let Some(first) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("__") {
            out.push('.');
            rest = behind;
        } else if let Some((character, behind)) = written_as_number(rest) {
            out.push(character);
            rest = behind;
        } else {
            out.push(first);
            rest = rest.get(first.len_utf8()..)?;
        }
    }
    Some(out)
}

/// The character of a `$xx` at the beginning, and what follows. Others than those
/// that can be seen stay as they are written.
fn written_as_number(text: &str) -> Option<(char, &str)> {
    let digits = text.strip_prefix('$')?;
    let (digits, behind) = digits.split_at_checked(2)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u8::from_str_radix(digits, 16).ok().filter(|_| is_number)?;
    number
        .is_ascii_graphic()
        .then_some((char::from(number), behind))
}

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn modules_and_operators_are_shown_as_perf_shows_them() {
        for (raw, shown) in [
            ("camlStdlib__array__map_154", "Stdlib.array.map_154"),
            (
                "camlStdlib__anon_fn$5bstdlib$2eml$3a334$2c0$2d$2d54$5d_1453",
                "Stdlib.anon_fn[stdlib.ml:334,0--54]_1453",
            ),
            ("camlStdlib__bytes__$2b$2b_2205", "Stdlib.bytes.++_2205"),
            ("camlA__b___c", "A.b._c"),
            ("camlA__$0a$zz$+1$4", "A.$0a$zz$+1$4"),
            ("camlÉ", "camlÉ"),
            ("caml_alloc", "caml_alloc"),
        ] {
            let found = demangled(raw);
            assert_eq!(found.as_deref().unwrap_or(raw), shown);
        }
    }
}
