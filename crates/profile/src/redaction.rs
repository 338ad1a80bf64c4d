//! Taking out of a profile what tells of the machine and the people: folders,
//! arguments, the host's name.

use crate::{NameId, Profile};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// Replaces folders by numbers: `/home/ann/app` becomes `/r1/app`, and other
/// files of that folder `/r1/…`, so that files stay distinct. Names of files,
/// functions and threads stay. Shared between threads.
#[derive(Debug, Default)]
pub struct Redaction {
    folders: Mutex<FxHashMap<String, usize>>,
}

/// What the kernel calls mappings that are no files.
const NO_FILES: [&str; 4] = ["//anon", "/dev/zero", "/anon_hugepage", "/SYSV"];

/// How names of scripts end: of run-time code, function names have them.
const SCRIPTS: [&str; 12] = [
    ".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".rb", ".php", ".lua", ".pl", ".erl",
];

/// Kinds of code, as V8 begins their names.
pub const OF_V8: [&str; 5] = ["JS:", "Function:", "LazyCompile:", "Script:", "Eval:"];

/// A function's name by V8, `JS:NAME FILE:LINE:COLUMN`, at its file, which may
/// have spaces and be a `file:` URL; `None` of those without an absolute one.
fn of_v8(text: &str) -> Option<(&str, &str)> {
    if !OF_V8.iter().any(|kind| text.starts_with(kind)) {
        return None;
    }
    let starts = [" /", " file:///"].into_iter();
    let at = starts.filter_map(|start| text.find(start)).min()?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

impl Redaction {
    /// A path with its folders replaced; unchanged if it has none. What stands
    /// in its place, as `[js] NAME` and `[anon:NAME]` do, is a text.
    pub fn path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        if path.starts_with('[') {
            return match path.split_once("] ") {
                Some((runtime, name)) => format!("{runtime}] {}", self.words(name)).into(),
                None => self.words(path),
            };
        }
        let is_file = !NO_FILES.iter().any(|name| path.starts_with(name));
        let Some((folder, name)) = path.rsplit_once('/').filter(|_| is_file) else {
            return path.into();
        };
        if folder.is_empty() {
            return path.into();
        }
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let next = folders.len() + 1;
        let number = *folders.entry(folder.to_owned()).or_insert(next);
        format!("/r{number}/{name}").into()
    }

    /// A text, such as the name of a function, in which the folders of paths
    /// are replaced: of absolute paths, and of paths of scripts.
    pub fn words<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text.contains('/') {
            return text.into();
        }
        // `py::NAME:FILE`, where the file may have spaces.
        if let Some((name, file)) = text
            .strip_prefix("py::")
            .and_then(|rest| rest.split_once(':'))
        {
            return format!("py::{name}:{}", self.path(file)).into();
        }
        if let Some((name, file)) = of_v8(text) {
            let file_end = file.trim_end_matches(|it: char| it == ':' || it.is_ascii_digit());
            let place = file.get(file_end.len()..).unwrap_or_default();
            return format!("{name} {}{place}", self.path(file_end)).into();
        }
        let is_bound = |it: char| it.is_whitespace() || "\"'`()<>,;=:@*{}|".contains(it);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(is_bound).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            let is_script = SCRIPTS.iter().any(|end| word.ends_with(end));
            // `operator/` and packages of Java are none.
            let is_path = word.starts_with('/') || (is_script && word.contains('/'));
            match is_path {
                true => out.push_str(&self.path(word)),
                false => out.push_str(word),
            }
            let bound = behind.chars().next();
            out.extend(bound);
            rest = behind
                .get(bound.map_or(0, char::len_utf8)..)
                .unwrap_or_default();
        }
        out.into()
    }
}

impl Profile {
    /// Replaces folders of files, and removes the recorder's command line and
    /// the host's name. The old texts stay in [`Profile::names`], but nothing
    /// refers to them.
    pub fn redact(&mut self, redaction: &Redaction) {
        let mut known: FxHashMap<(NameId, bool), NameId> = FxHashMap::default();
        let names = &mut self.names;
        let mut redacted = |id: NameId, is_path: bool| {
            *known.entry((id, is_path)).or_insert_with(|| {
                let text = names.get(id);
                let other = match is_path {
                    true => redaction.path(text),
                    false => redaction.words(text),
                };
                match other {
                    Cow::Borrowed(_) => id,
                    Cow::Owned(other) => names.intern(&other),
                }
            })
        };
        let mut path = |id: &mut NameId| *id = redacted(*id, true);
        for dso in &mut self.dsos {
            path(&mut dso.path);
            path(&mut dso.short_name);
            path(&mut dso.beside_address);
            dso.symbols_from.iter_mut().for_each(&mut path);
        }
        for frame in &mut self.frames {
            frame.file.iter_mut().for_each(&mut path);
        }
        for function in &mut self.functions {
            let file = function.defined_at.as_mut().map(|(file, _)| file);
            file.into_iter().for_each(&mut path);
        }
        let mut words = |id: &mut NameId| *id = redacted(*id, false);
        self.functions.iter_mut().for_each(|it| words(&mut it.name));
        self.tasks.iter_mut().for_each(|it| words(&mut it.comm));
        self.threads.iter_mut().for_each(|it| words(&mut it.comm));
        for event in &mut self.events {
            event.name = redaction.words(&event.name).into_owned();
        }
        self.origin.hostname.clear();
        self.origin.command_line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Redaction;

    #[test]
    fn folders_become_numbers_and_files_stay_apart() {
        let redaction = Redaction::default();
        assert_eq!(redaction.path("/home/ann/app"), "/r1/app");
        assert_eq!(redaction.path("/home/bob/app"), "/r2/app");
        assert_eq!(redaction.path("/home/ann/lib.so"), "/r1/lib.so");
        assert_eq!(redaction.path("src/a.c"), "/r3/a.c");
        let told = "[js] JS:run /home/ann/a b.js:3:4";
        assert_eq!(redaction.path(told), "[js] JS:run /r1/a b.js:3:4");
        let told = "[python] py::run:/home/bob/a b.py";
        assert_eq!(redaction.path(told), "[python] py::run:/r2/a b.py");
        assert_eq!(redaction.path("[anon:/home/ann/x]"), "[anon:/r1/x]");
        for same in [
            "[vdso]",
            "//anon",
            "/dev/zero (deleted)",
            "app",
            "/memfd:jit (deleted)",
        ] {
            assert_eq!(redaction.path(same), same);
        }
    }

    #[test]
    fn paths_in_names_are_redacted_and_operators_stay() {
        let redaction = Redaction::default();
        let words = |text: &str| redaction.words(text).into_owned();
        assert_eq!(words("py::work:/home/my user/a.py"), "py::work:/r1/a.py");
        assert_eq!(
            words("JS:*run file:///srv/app/x.js:3:14"),
            "JS:*run /r2/x.js:3:14"
        );
        assert_eq!(
            words("JS:run /home/my user/an app/x 1.js:3:14"),
            "JS:run /r3/x 1.js:3:14"
        );
        assert_eq!(
            words("LazyCompile:~f lib/x.js:1"),
            "LazyCompile:~f /r4/x.js:1"
        );
        assert_eq!(words("uprobe:/opt/x/app:main"), "uprobe:/r5/app:main");
        for same in [
            "operator/(A, B)",
            "java/lang/Thread.run",
            "a / b",
            "kworker/0:1",
        ] {
            assert_eq!(words(same), same);
        }
    }
}
