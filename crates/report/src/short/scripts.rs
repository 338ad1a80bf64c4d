//! Names of functions of scripts, which have a file behind them.
//!
//! ```text
//! py::NAME:FILE                 as CPython's perf maps and the recorder have it
//! JS:NAME FILE:LINE:COLUMN      as V8's have it, also with a mark before NAME
//! ```

use prof_profile::OF_V8;

/// Shorter and shorter forms, down to the function; `None` for other names.
pub(super) fn forms(name: &str) -> Option<Vec<String>> {
    let of_python = name
        .strip_prefix("py::")
        .and_then(|rest| Some(("py::", rest.split_once(':')?, ":")));
    let of_v8 = || {
        let runtime = OF_V8.into_iter().find(|word| name.starts_with(word))?;
        Some((runtime, name.get(runtime.len()..)?.split_once(' ')?, " "))
    };
    let (runtime, (function, file), between) = of_python.or_else(of_v8)?;
    if function.is_empty() {
        return None;
    }
    let mut forms = Vec::new();
    if let Some((_, base)) = file.rsplit_once('/') {
        forms.push(format!("{runtime}{function}{between}{base}"));
    }
    forms.push(format!("{runtime}{function}"));
    forms.push(function.to_owned());
    let method = function.rsplit_once('.').map(|(_, method)| method);
    forms.extend(method.filter(|it| !it.is_empty()).map(str::to_owned));
    Some(forms)
}

#[cfg(test)]
mod tests {
    use super::forms;

    #[test]
    fn folders_go_first_then_the_file_and_the_runtime() {
        for (name, expected) in [
            (
                "py::Job.run:/srv/my app/job.py",
                &["py::Job.run:job.py", "py::Job.run", "Job.run", "run"][..],
            ),
            (
                "py::<module>:/srv/p.py",
                &["py::<module>:p.py", "py::<module>", "<module>"],
            ),
            (
                "py::_load:<frozen importlib._bootstrap>",
                &["py::_load", "_load"],
            ),
            ("py::(unknown):", &["py::(unknown)", "(unknown)"]),
            (
                "JS:(anonymous) /tmp/n.js:3:1",
                &["JS:(anonymous) n.js:3:1", "JS:(anonymous)", "(anonymous)"],
            ),
            (
                "LazyCompile:*A.f file:///srv/x.mjs:1:2",
                &[
                    "LazyCompile:*A.f x.mjs:1:2",
                    "LazyCompile:*A.f",
                    "*A.f",
                    "f",
                ],
            ),
        ] {
            assert_eq!(forms(name).unwrap_or_default(), expected, "{name}");
        }
        for name in ["py::f", "JS:f", "a::b", "java.util.Map.put", "py:::x"] {
            assert_eq!(forms(name), None, "{name}");
        }
    }
}
