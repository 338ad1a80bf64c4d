//! How the source is laid out, read from the source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path in its crate.
type Module = Vec<String>;

/// All files of Rust below a folder, without those of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder of ours");
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        match name.to_str() {
            Some("tests" | "tests.rs" | "examples") => {}
            _ if path.is_dir() => sources(&path, found),
            Some(name) if name.ends_with(".rs") => found.push(path),
            _ => {}
        }
    }
}

/// The module that a file is: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module(root: &Path, file: &Path) -> Module {
    let within = file.strip_prefix(root).expect("below").with_extension("");
    let parts = within
        .iter()
        .map(|part| part.to_string_lossy().into_owned());
    let mut parts: Module = parts.collect();
    let is_root = parts.len() == 1 && ["lib", "main"].contains(&parts[0].as_str());
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The code of a file without comments and unit tests, which stand at its end.
fn code(text: &str) -> String {
    let mut lines = text.lines().peekable();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let item = lines.next().unwrap_or_default();
            if item.contains("mod ") && item.ends_with('{') {
                break;
            }
        } else if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// The paths of a tree of imports: `a::{b, c::d}` are two.
fn paths(tree: &str) -> Vec<String> {
    let Some((before, inside)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.trim().to_owned()];
    };
    let inside = inside.rsplit_once('}').map_or(inside, |parts| parts.0);
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inside[start..at].trim();
                let part = format!("{}{part}", before.trim());
                found.extend(paths(&part));
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The modules of its crate that a file names.
fn named(own: &Module, text: &str, modules: &BTreeSet<Module>) -> BTreeSet<Module> {
    let code = code(text);
    let imports = regex::Regex::new(r"(?s)\buse\s+((?:crate|super|self)::[^;]*);").expect("valid");
    let inline = regex::Regex::new(r"\b(?:crate|super)::[a-z0-9_:]+").expect("valid");
    let in_trees = imports.captures_iter(&code).flat_map(|it| paths(&it[1]));
    let in_line = inline.find_iter(&code).map(|it| it.as_str().to_owned());
    let mut found = BTreeSet::new();
    for path in in_trees.chain(in_line) {
        let mut place = own.clone();
        for part in path.split("::") {
            match part {
                "crate" => place.clear(),
                "super" => _ = place.pop(),
                "self" => {}
                part => place.push(part.to_owned()),
            }
        }
        while !modules.contains(&place) {
            place.pop();
        }
        found.insert(place);
    }
    // A folder's file and those below it make one thing.
    found.retain(|other| !other.starts_with(own) && !own.starts_with(other));
    found
}

/// Modules that lead to each other.
fn circles(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<BTreeSet<Module>> {
    let reached = |from: &Module| {
        let mut seen = BTreeSet::new();
        let mut left: Vec<&Module> = arrows[from].iter().collect();
        while let Some(next) = left.pop() {
            if seen.insert(next.clone()) {
                left.extend(&arrows[next]);
            }
        }
        seen
    };
    let all: BTreeMap<&Module, BTreeSet<Module>> =
        arrows.keys().map(|from| (from, reached(from))).collect();
    let mut found = BTreeSet::new();
    for (from, reached) in all
        .iter()
        .filter(|(from, reached)| reached.contains(**from))
    {
        let back = reached.iter().filter(|to| all[*to].contains(*from));
        found.insert(back.cloned().collect());
    }
    found
}

/// The files of a crate, by module.
fn texts(root: &Path) -> BTreeMap<Module, String> {
    let mut files = Vec::new();
    sources(root, &mut files);
    let text = |file: &PathBuf| fs::read_to_string(file).expect("a file of ours");
    files
        .iter()
        .map(|file| (module(root, file), text(file)))
        .collect()
}

fn arrows(texts: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules: BTreeSet<Module> = texts.keys().cloned().chain([Module::new()]).collect();
    let named = |(own, text): (&Module, &String)| (own.clone(), named(own, text, &modules));
    texts.iter().map(named).collect()
}

#[test]
fn files_import_each_other_in_one_direction() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let mut count = 0;
    for entry in fs::read_dir(crates).expect("there").flatten() {
        let folder = entry.path();
        let source = folder.join("src");
        let root = if source.is_dir() { source } else { folder };
        let texts = texts(&root);
        let arrows = arrows(&texts);
        count += arrows.values().map(BTreeSet::len).sum::<usize>();
        let circles = circles(&arrows);
        assert!(circles.is_empty(), "{}: {circles:#?}", root.display());
    }
    assert!(count > 1000, "{count} arrows: are imports still read?");
}

#[test]
fn a_circle_is_found_by_imports_and_by_paths() {
    let texts = |list: &[(&str, &str)]| -> BTreeMap<Module, String> {
        let parts = |path: &str| path.split('/').map(str::to_owned).collect();
        list.iter()
            .map(|&(path, text)| (parts(path), text.to_owned()))
            .collect()
    };
    let one_way = [
        (
            "a",
            "use crate::b::{Things, c::{self, Other as It}};\nfn f() {}",
        ),
        ("b", "mod c;\npub use c::Other;\n"),
        (
            "b/c",
            "use super::Things;\n#[cfg(test)]\nmod tests {\n use crate::a::f;\n}\n",
        ),
        ("d", "// as in crate::a\nfn g() { crate::a::f() }"),
    ];
    assert!(circles(&arrows(&texts(&one_way))).is_empty());
    let back = [
        &one_way[..2],
        &[("b/c", "fn h() { crate::d::g() }"), one_way[3]],
    ]
    .concat();
    let found = circles(&arrows(&texts(&back)));
    let names = |circle: &BTreeSet<Module>| -> Vec<String> {
        circle.iter().map(|module| module.join("/")).collect()
    };
    let found: Vec<_> = found.iter().map(names).collect();
    assert_eq!(found, [["a", "b/c", "d"]]);
}
