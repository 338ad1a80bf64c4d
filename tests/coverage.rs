//! The coverage table says of each row how it is tested, or why not.
//!
//! A test names rows in a comment, above it (`///`) or inside (`//`), after
//! `covers` and how it covers them:
//!
//! | `covers` | the test |
//! |---|---|
//! | `live:` | asks this machine's kernel, and it does it |
//! | `refusal:` | asks this machine's kernel, which lacks it and says so |
//! | `fixture:` | reads what another machine recorded, or bytes made as it would |
//! | `unit:` | checks what we encode, decode or decide |
//!
//! IDs in the name of a test (`ioc_01_02_…`) must be in its comment, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// How a test covers a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Live,
    Refusal,
    Fixture,
    Unit,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Live, "live"),
    (Kind::Refusal, "refusal"),
    (Kind::Fixture, "fixture"),
    (Kind::Unit, "unit"),
];

/// Tests by row ID, with how each covers it.
type Tests = BTreeMap<String, BTreeSet<(Kind, String)>>;

/// All Rust files below `folder`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("folder of sources") {
        let path = entry.expect("entry").path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a word is a row's ID, as `REC-03`.
fn is_id(word: &str) -> bool {
    word.split_once('-').is_some_and(|(family, number)| {
        !family.is_empty()
            && family.bytes().all(|byte| byte.is_ascii_uppercase())
            && number.len() == 2
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

/// The IDs in the name of a test: `ioc_01_02_an_event_counts` has two.
fn ids_of_name(name: &str, families: &BTreeSet<String>) -> Vec<String> {
    let mut parts = name.split('_');
    let family = parts.next().unwrap_or_default().to_ascii_uppercase();
    if !families.contains(&family) {
        return Vec::new();
    }
    let is_number = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = parts.take_while(is_number);
    numbers.map(|number| format!("{family}-{number}")).collect()
}

/// What was found in the sources, and what is wrong there.
#[derive(Default)]
struct Found {
    tests: Tests,
    wrong: Vec<String>,
}

/// A comment that is being read.
#[derive(Default)]
struct Reader {
    /// How the IDs of this comment are covered, until it ends.
    kind: Option<Kind>,
    /// IDs above the function that they are of.
    waiting: Vec<(Kind, String)>,
    function: String,
}

impl Found {
    fn add(&mut self, kind: Kind, id: String, test: &str) {
        let tests = self.tests.entry(id).or_default();
        tests.insert((kind, test.to_owned()));
    }

    fn read(&mut self, path: &Path, families: &BTreeSet<String>) {
        let text = std::fs::read_to_string(path).expect("source");
        let mut reader = Reader::default();
        for line in text.lines() {
            if let Some(name) = function(line) {
                name.clone_into(&mut reader.function);
                for (kind, id) in std::mem::take(&mut reader.waiting) {
                    self.add(kind, id, name);
                }
            }
            self.read_comment(line, &mut reader, path);
        }
        self.check_names(&text, path, families);
    }

    fn read_comment(&mut self, line: &str, reader: &mut Reader, path: &Path) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            reader.kind = None;
            return;
        };
        if let Some((_, rest)) = comment.split_once(concat!("cov", "ers ")) {
            let kind = rest.split_once(": ").map(|(kind, _)| kind);
            let known = KINDS.iter().find(|(_, name)| Some(*name) == kind);
            reader.kind = known.map(|&(kind, _)| kind).or(reader.kind);
        } else if comment.contains(concat!("cov", "ers:")) {
            let wrong = "says not how: live, refusal, fixture or unit";
            self.wrong
                .push(format!("{}: {comment} {wrong}", path.display()));
        }
        let Some(kind) = reader.kind else { return };
        let words = comment.split([' ', ',', '/']).filter(|word| is_id(word));
        for id in words.map(ToOwned::to_owned) {
            if comment.starts_with('/') {
                reader.waiting.push((kind, id));
            } else {
                self.add(kind, id, &reader.function.clone());
            }
        }
    }

    /// IDs in names must be in the comment of that test.
    fn check_names(&mut self, text: &str, path: &Path, families: &BTreeSet<String>) {
        for name in text.lines().filter_map(function) {
            for id in ids_of_name(name, families) {
                let tests = self.tests.get(&id);
                if !tests.is_some_and(|tests| tests.iter().any(|(_, test)| test == name)) {
                    let wrong = format!("{}: {name} says not how it covers {id}", path.display());
                    self.wrong.push(wrong);
                }
            }
        }
    }
}

/// A row of the table: ID, item, what can be verified, state, tests.
struct Row<'a> {
    id: &'a str,
    item: &'a str,
    verify: &'a str,
    state: &'a str,
}

impl<'a> Row<'a> {
    fn of(line: &'a str) -> Option<Self> {
        // Items may have `\|`, never ` | `.
        let line = line.strip_prefix("| ")?.strip_suffix('|')?;
        let mut cells = line.split(" | ").map(str::trim);
        let id = cells.next().filter(|id| is_id(id))?;
        let mut cell = || cells.next().unwrap_or_default();
        let (item, verify, state) = (cell(), cell(), cell());
        Some(Self {
            id,
            item,
            verify,
            state,
        })
    }

    /// Whether the list from which the table was made has it tested live.
    fn is_testable_live(&self) -> bool {
        let mut codes = self.verify.split(' ');
        codes.any(|code| code == "LU" || code == "LR")
    }

    /// Its state by its tests: the reason that stands there, if it holds.
    fn state(&self, tests: &BTreeSet<(Kind, String)>) -> Result<String, String> {
        let has = |kind| tests.iter().any(|&(other, _)| other == kind);
        let reason = |prefix| {
            let reason = self.state.strip_prefix(prefix)?;
            Some(reason.trim()).filter(|reason| !reason.is_empty())
        };
        if reason("not here:").is_some() {
            if !has(Kind::Refusal) || !(has(Kind::Unit) || has(Kind::Fixture)) {
                return Err("not here, but no test of its refusal and of what we ask".to_owned());
            }
            return Ok(self.state.to_owned());
        }
        if reason("not applicable:").is_some() {
            return Ok(self.state.to_owned());
        }
        let first = tests.first().map(|&(kind, _)| kind);
        match first {
            Some(Kind::Refusal) => Err("refused here: say why, `not here: …`".to_owned()),
            Some(kind) => Ok(name_of(kind).to_owned()),
            None => Err("no test and no reason".to_owned()),
        }
    }
}

fn name_of(kind: Kind) -> &'static str {
    let known = KINDS.iter().find(|(other, _)| *other == kind);
    known.map_or("", |(_, name)| name)
}

/// The last cell: all tests that say the most, by what they say.
fn names(tests: &BTreeSet<(Kind, String)>) -> String {
    let mut out = String::new();
    for (kind, name) in KINDS {
        let mut of_kind = tests.iter().filter(|(other, _)| *other == kind).peekable();
        if of_kind.peek().is_none() {
            continue;
        }
        let separator = if out.is_empty() { "" } else { "; " };
        let listed: Vec<&str> = of_kind.map(|(_, test)| test.as_str()).collect();
        write!(out, "{separator}{name}: {}", listed.join(", ")).expect("memory");
    }
    out
}

/// The table as it should be, what is wrong with it, and the rows that are
/// called testable live: all and those tested so.
struct Table {
    text: String,
    wrong: Vec<String>,
    testable: usize,
    live: usize,
}

fn rewrite(table: &str, tests: &mut Tests) -> Table {
    let mut new = Table {
        text: String::new(),
        wrong: Vec::new(),
        testable: 0,
        live: 0,
    };
    for line in table.lines() {
        let Some(row) = Row::of(line) else {
            writeln!(new.text, "{line}").expect("memory");
            continue;
        };
        let tests = tests.remove(row.id).unwrap_or_default();
        let state = row.state(&tests).unwrap_or_else(|wrong| {
            new.wrong.push(format!("{}: {wrong}", row.id));
            let is_reason = row.state.starts_with("not ");
            if is_reason { row.state } else { "" }.to_owned()
        });
        new.testable += usize::from(row.is_testable_live());
        new.live += usize::from(row.is_testable_live() && state == "live");
        let Row {
            id, item, verify, ..
        } = row;
        let names = names(&tests);
        writeln!(new.text, "| {id} | {item} | {verify} | {state} | {names} |").expect("memory");
    }
    new
}

#[test]
fn the_coverage_table_lists_the_tests_of_each_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("docs/coverage.md");
    let table = std::fs::read_to_string(&path).expect("the table");
    let ids = table.lines().filter_map(|line| Some(Row::of(line)?.id));
    let families = ids.filter_map(|id| Some(id.split_once('-')?.0.to_owned()));
    let families: BTreeSet<String> = families.collect();
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    sources(&root.join("tests"), &mut files);
    files.sort();
    let mut found = Found::default();
    for file in &files {
        found.read(file, &families);
    }
    let mut new = rewrite(&table, &mut found.tests);
    let unknown = found.tests.keys();
    new.wrong
        .extend(unknown.map(|id| format!("{id}: a test covers it, but there is no such row")));
    new.wrong.append(&mut found.wrong);
    let is_update = std::env::var_os("UPDATE_COVERAGE").is_some();
    if is_update {
        std::fs::write(&path, &new.text).expect("written");
    }
    assert!(new.wrong.is_empty(), "{}", new.wrong.join("\n"));
    assert!(
        table == new.text || is_update,
        "the table is out of date: run this test with UPDATE_COVERAGE=1"
    );
    let (live, testable) = (new.live, new.testable);
    assert!(
        live * 100 >= testable * 95,
        "of {testable} rows that can be tested live only {live} are"
    );
}

#[test]
fn a_row_says_how_it_is_tested_or_why_not() {
    let row = |state| Row {
        id: "RING-01",
        item: "",
        verify: "LU LX",
        state,
    };
    let tests = |kinds: &[Kind]| {
        kinds
            .iter()
            .map(|&kind| (kind, "test".to_owned()))
            .collect()
    };
    let state = |text, kinds: &[Kind]| row(text).state(&tests(kinds));
    assert_eq!(state("", &[Kind::Fixture]), Ok("fixture".to_owned()));
    let all = [Kind::Unit, Kind::Live, Kind::Fixture];
    assert_eq!(state("fixture", &all), Ok("live".to_owned()));
    assert!(state("", &[]).is_err(), "blank");
    assert!(state("not here:", &[]).is_err(), "no reason");
    assert!(
        state("not here: no PMU", &[Kind::Unit]).is_err(),
        "not asked"
    );
    assert!(
        state("", &[Kind::Refusal, Kind::Unit]).is_err(),
        "no reason"
    );
    let refused = state("not here: no PMU", &[Kind::Refusal, Kind::Unit]);
    assert_eq!(refused, Ok("not here: no PMU".to_owned()));
    let old = state("not applicable: before 4.9", &[]);
    assert_eq!(old, Ok("not applicable: before 4.9".to_owned()));
}

#[test]
fn names_and_comments_are_found() {
    let families = BTreeSet::from(["IOC".to_owned()]);
    let of_name = |name| ids_of_name(name, &families);
    assert_eq!(of_name("ioc_01_15_both"), ["IOC-01", "IOC-15"]);
    assert!(of_name("a_name").is_empty() && of_name("r22_x").is_empty());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rs");
    let text = format!(
        "/// {0} live: RING-01,\n/// RING-02\nfn above() {{\n    // {0} unit: RING-02\n\
         // not here\n    // {0}: RING-03\n}}\nfn ioc_07_name() {{}}\n",
        "covers"
    );
    std::fs::write(&file, text).expect("written");
    let mut found = Found::default();
    found.read(&file, &families);
    let live = BTreeSet::from([(Kind::Live, "above".to_owned())]);
    assert_eq!(found.tests.get("RING-01"), Some(&live));
    assert_eq!(found.tests.get("RING-02").map(BTreeSet::len), Some(2));
    assert_eq!(found.wrong.len(), 2, "{:?}", found.wrong);
}
