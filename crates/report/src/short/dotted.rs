//! Names whose parts stand between dots: of Java and of Go.
//!
//! ```text
//! java.lang.Object java.util.HashMap.put(int)  as Java's perf maps have it
//! java.util.HashMap.put                        as the recorder reads it
//! github.com/owner/repo/pkg.(*Type[...]).Method.func1
//! ```
//!
//! Parts that compilers add to C's names (`work.isra.0`) are none of these.

/// Shorter and shorter forms, down to the method; `None` for other names.
pub(super) fn forms(name: &str) -> Option<Vec<String>> {
    if let Some((signature, path)) = java_signature(name) {
        let parts = parts(path).filter(|parts| parts.len() > 1)?;
        let mut forms = [signature, path].map(str::to_owned).to_vec();
        forms.extend(ends(&parts, parts.len() - 1));
        return Some(forms);
    }
    if name.contains("::") || name.contains([' ', ':', '@', '%']) {
        return None;
    }
    let base = super::without_directories(name);
    let parts = parts(base.unwrap_or(name))?;
    let method = parts.iter().rposition(|part| !is_closure(part))?;
    let outer = parts.get(..method).filter(|outer| !outer.is_empty())?;
    let is_class = |part: &&str| part.starts_with(|sign: char| sign.is_uppercase());
    let is_go = base.is_some() || outer.iter().any(|part| part.starts_with("(*"));
    if !is_go && !outer.iter().any(is_class) || !is_method(parts.get(method)?) {
        return None;
    }
    let mut forms: Vec<String> = base.map(str::to_owned).into_iter().collect();
    forms.extend(ends(&parts, method));
    Some(forms)
}

/// What follows the type that a method of Java returns, and that without
/// parameters.
fn java_signature(name: &str) -> Option<(&str, &str)> {
    let (path, parameters) = name.split_once('(')?;
    let (_, path) = path.split_once(' ')?;
    let is_plain = |text: &str| !text.contains([' ', '<', ':', '(', '~', '&', '*']);
    let has_end = parameters.ends_with(')') && !parameters.contains(['(', ':', '<']);
    let signature = name.get(name.find(' ')? + 1..)?;
    (is_plain(path) && has_end).then_some((signature, path))
}

/// What stands between dots outside of brackets; `None` if a part is empty or
/// brackets do not match.
fn parts(path: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let (mut start, mut open) = (0, 0_usize);
    for (at, sign) in path.char_indices() {
        match sign {
            '(' | '[' | '{' | '<' => open += 1,
            ')' | ']' | '}' | '>' => open = open.checked_sub(1)?,
            '.' if open == 0 => {
                parts.push(path.get(start..at)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(path.get(start..)?);
    (open == 0 && parts.iter().all(|part| !part.is_empty())).then_some(parts)
}

/// Whether a part is a closure of Go, which stands for nothing by itself:
/// `func1`, and `2` in `func1.2`.
fn is_closure(part: &str) -> bool {
    let words = ["func", "gowrap", "deferwrap"];
    let number = words.iter().find_map(|word| part.strip_prefix(word));
    let number = number.unwrap_or(part);
    number.bytes().all(|sign| sign.is_ascii_digit())
}

/// Whether a part can be a method, and is not what a compiler adds.
fn is_method(part: &str) -> bool {
    let added = [
        "isra",
        "constprop",
        "part",
        "cold",
        "lto_priv",
        "llvm",
        "clone",
        "resume",
        "destroy",
        "cleanup",
        "warm",
    ];
    let is_start = |sign: char| sign.is_alphabetic() || "_<$".contains(sign);
    part.starts_with(is_start) && !part.contains('+') && !added.contains(&part)
}

/// The class or package and the method, and the method alone, with the
/// closures in it.
fn ends(parts: &[&str], method: usize) -> [String; 2] {
    let from = |at: usize| {
        let parts = parts.get(at..).unwrap_or_default();
        let plain: Vec<&str> = parts.iter().map(|part| without_arguments(part)).collect();
        plain.join(".")
    };
    [from(method.saturating_sub(1)), from(method)]
}

/// A part without the arguments of a generic type, and without the address of
/// a hidden class (`Main$$Lambda$268+0x00007f139c158ab8`).
fn without_arguments(part: &str) -> &str {
    let end = part
        .find("+0x")
        .or_else(|| part.find('[').filter(|_| part.ends_with(']')));
    let plain = end.and_then(|end| part.get(..end));
    plain.filter(|plain| !plain.is_empty()).unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::forms;

    fn of(name: &str) -> Vec<String> {
        forms(name).unwrap_or_default()
    }

    #[test]
    fn methods_of_java_keep_class_and_method() {
        assert_eq!(of("java.util.HashMap.put"), ["HashMap.put", "put"]);
        let lambda = "J$$Lambda$268+0x00007f139c158ab8.test";
        assert_eq!(of(lambda), ["J$$Lambda$268.test", "test"]);
        let constructor = "com.sun.tools.javac.main.JavaCompiler.<init>";
        assert_eq!(of(constructor), ["JavaCompiler.<init>", "<init>"]);
        let signature = "void java.util.HashMap.put(int, int)";
        let expected = ["java.util.HashMap.put(int, int)", "java.util.HashMap.put"];
        assert_eq!(of(signature).get(..2).expect("two"), expected);
        assert_eq!(of(signature).get(2..).expect("two"), ["HashMap.put", "put"]);
    }

    #[test]
    fn functions_of_go_keep_type_method_and_closure() {
        let expected = [
            "json.(*decodeState).object",
            "(*decodeState).object",
            "object",
        ];
        assert_eq!(of("encoding/json.(*decodeState).object"), expected);
        let closure = "github.com/owner/repo.(*Type[...]).Run.func1.2";
        let expected = [
            "repo.(*Type[...]).Run.func1.2",
            "(*Type[...]).Run.func1.2",
            "Run.func1.2",
        ];
        assert_eq!(of(closure), expected);
        let generic = "slices/sorted.Func[go.shape.int]";
        let expected = ["sorted.Func[go.shape.int]", "sorted.Func", "Func"];
        assert_eq!(of(generic), expected);
        assert_eq!(
            of("net/http.HandlerFunc.ServeHTTP").last().expect("one"),
            "ServeHTTP"
        );
    }

    #[test]
    fn other_names_with_dots_are_left_alone() {
        for name in [
            "finish_task_switch.isra.0",
            "LZ4_compress.cold",
            "Work.constprop.0.isra.0",
            "libfoo.so.1+0x1200",
            "lib/Foo.so+0x12",
            "main.work",
            "ns::Type.x",
            "LazyCompile:*Foo.bar /srv/a.js:1:2",
            "py::Foo.bar:/usr/lib/a.py",
            "Foo..bar",
            ".text",
            "a.b)c",
            "é.é",
            "",
            ".",
        ] {
            assert_eq!(forms(name), None, "{name}");
        }
    }
}
