//! `prof export`: each format opened by the program that it is for, which
//! must find the numbers of `prof report --json`.
//!
//! Programs that no distribution has are installed by `.ci/consumers`.

use crate::oracle::{compiled, consumer, have, prof, scratch};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Weight and number of samples: in a function alone, and with callees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    own: u64,
    own_samples: u64,
    total: u64,
    total_samples: u64,
}

/// What a report has of an event: by function, and of all.
#[derive(Debug, Default)]
struct Reported {
    /// By the key that [`reported`] was given.
    functions: BTreeMap<String, Cost>,
    weight: u64,
    samples: u64,
}

/// A recording of `exported.c` with two events; made once.
pub(crate) fn recording(test: &str) -> Option<PathBuf> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let common = ["-O1", "-g", "-fno-omit-frame-pointer"];
    let library = [&common[..], &["-DLIBRARY", "-shared", "-fPIC"]].concat();
    let library = compiled(test, "exported.c", &library)?;
    let program = compiled(test, "exported.c", &common)?;
    let _guard = ONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let data = scratch().join(format!("exported-{}.data", std::process::id()));
    if !data.exists() {
        let data = data.to_str().expect("a UTF-8 path");
        let words = [
            "record",
            "-q",
            "-g",
            "-F",
            "999",
            "-e",
            "cpu-clock,page-faults",
            "-o",
            data,
        ];
        let program = [program.to_str(), library.to_str()].map(|it| it.expect("a UTF-8 path"));
        prof(&[&words[..], &["--"], &program[..]].concat()).succeeded("prof record");
    }
    Some(data)
}

/// Exports a recording; the file.
pub(crate) fn export(data: &Path, format: &str, end: &str) -> PathBuf {
    let name = data
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let out = scratch().join(format!("{name}-{format}{end}"));
    let (data, out_name) = (data.display().to_string(), out.display().to_string());
    let words = ["export", "-i", &data, "--format", format, "-o", &out_name];
    let told = prof(&words).succeeded("prof export").stderr;
    assert!(told.contains(&format!("{format} does not hold ")), "{told}");
    out
}

/// What `prof report --json` has, by event, of functions as `key` makes one of
/// name and module.
fn reported(data: &Path, key: fn(&str, &str) -> String) -> BTreeMap<String, Reported> {
    let data = data.display().to_string();
    let json = prof(&["report", "--json", "-i", &data])
        .succeeded("prof report")
        .text();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let mut all = BTreeMap::new();
    for event in json["events"].as_array().expect("events") {
        let mut reported = Reported::default();
        let frames = event["frames"].as_array().expect("frames");
        let name_of = |node: &Value| {
            let frame = &frames[node["frame"].as_u64().expect("an index") as usize];
            let word = |key: &str| frame[key].as_str().unwrap_or_default();
            key(word("function"), word("dso"))
        };
        let tree = event["tree"].as_array().expect("a tree");
        for node in tree {
            let number = |key: &str| node["self"][key].as_u64().expect("a number");
            let (weight, samples) = (number("period"), number("samples"));
            reported.weight += weight;
            reported.samples += samples;
            let own = reported.functions.entry(name_of(node)).or_default();
            own.own += weight;
            own.own_samples += samples;
            let mut path = BTreeSet::new();
            let mut at = Some(node);
            while let Some(node) = at {
                path.insert(name_of(node));
                at = node["parent"].as_u64().map(|parent| &tree[parent as usize]);
            }
            for name in path {
                let cost = reported.functions.entry(name).or_default();
                cost.total += weight;
                cost.total_samples += samples;
            }
        }
        let name = event["name"].as_str().expect("a name").to_owned();
        all.insert(name, reported);
    }
    all
}

fn by_name(name: &str, _: &str) -> String {
    name.to_owned()
}

fn with_module(name: &str, module: &str) -> String {
    format!("{name} {module}")
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// `12ns` or `12`, as go tool pprof writes numbers in one unit.
fn plain(number: &str) -> u64 {
    number
        .trim_end_matches(char::is_alphabetic)
        .parse()
        .expect("a number")
}

/// By function, what `go tool pprof -top` has in the first and fourth column.
fn pprof_top(file: &Path, index: &str) -> BTreeMap<String, (u64, u64)> {
    let top = run(Command::new("go")
        .args([
            "tool",
            "pprof",
            "-top",
            "-nodecount=0",
            "-nodefraction=0",
            "-unit=ns",
        ])
        .arg(format!("-sample_index={index}"))
        .arg(file));
    let (_, rows) = top.split_once("cum%\n").expect("a table");
    let mut all = BTreeMap::new();
    for row in rows.lines() {
        let mut rest = row;
        let mut cells = Vec::new();
        for _ in 0..5 {
            rest = rest.trim_start();
            let end = rest.find(' ').expect("five columns");
            cells.push(&rest[..end]);
            rest = &rest[end..];
        }
        let name = rest.trim_start().trim_end_matches(" (inline)");
        let name = name.trim_end_matches(" (partial-inline)").to_owned();
        let known: &mut (u64, u64) = all.entry(name).or_default();
        known.0 += plain(cells[0]);
        known.1 += plain(cells[3]);
    }
    all
}

/// The sum and the number of the stacks that `go tool pprof -traces` lists.
pub(crate) fn pprof_traces(file: &Path, index: &str) -> u64 {
    let index = format!("-sample_index={index}");
    let words = ["tool", "pprof", "-traces", "-unit=ns", &index];
    let traces = run(Command::new("go").args(words).arg(file));
    let (_, traces) = traces.split_once("-----").expect("traces");
    let values = traces.lines().filter_map(|line| {
        let first = line.split_whitespace().next()?;
        first
            .starts_with(|it: char| it.is_ascii_digit())
            .then(|| plain(first))
    });
    values.sum()
}

#[test]
fn go_tool_pprof_has_the_numbers_of_the_report() {
    const TEST: &str = "go_tool_pprof_has_the_numbers_of_the_report";
    let Some(data) = recording(TEST).filter(|_| have(TEST, "go")) else {
        return;
    };
    let file = export(&data, "pprof", ".pb.gz");
    let reported = reported(&data, by_name);
    assert_eq!(reported.len(), 2, "two events");
    for (event, reported) in &reported {
        let weights = pprof_top(&file, event);
        let samples = pprof_top(&file, &format!("samples:{event}"));
        for (name, cost) in &reported.functions {
            let weights = weights.get(name).copied().unwrap_or_default();
            assert_eq!(weights, (cost.own, cost.total), "{event} {name}");
            let samples = samples.get(name).copied().unwrap_or_default();
            assert_eq!(
                samples,
                (cost.own_samples, cost.total_samples),
                "{event} {name}"
            );
        }
        assert_eq!(pprof_traces(&file, event), reported.weight, "{event}");
        let samples = pprof_traces(&file, &format!("samples:{event}"));
        assert_eq!(samples, reported.samples, "{event}");
    }
    let kept_apart = ["recursive", "inlined", "same_name", "in_library"];
    // With :u where the user may not see the kernel.
    let mut events = reported.iter();
    let clock = events.find(|(name, _)| name.starts_with("cpu-clock"));
    let clock = &clock.expect("recorded").1.functions;
    assert!(
        kept_apart.iter().all(|name| clock.contains_key(*name)),
        "{clock:?}"
    );
}

/// What `callgrind_annotate` lists: by function, the numbers of the columns.
fn annotated(file: &Path, more: &[&str]) -> BTreeMap<String, Vec<u64>> {
    // Below its working directory it takes a file for two, of shorter and of
    // longer path.
    let words = [
        "--threshold=100",
        "--show-percs=no",
        "--auto=no",
        "--tree=none",
    ];
    let listed = run(Command::new("callgrind_annotate")
        .current_dir("/")
        .args(words)
        .args(more)
        .arg(file));
    let mut all = BTreeMap::new();
    let (_, rows) = listed.split_once("file:function\n").expect("a table");
    for row in rows
        .lines()
        .skip(1)
        .take_while(|row| !row.starts_with("---"))
    {
        let (numbers, place) = row.rsplit_once("  ").unwrap_or_default();
        let Some((_, name)) = place.trim().split_once(':') else {
            continue;
        };
        let (name, object) = name.rsplit_once(" [").unwrap_or((name, "]"));
        let object = object
            .trim_end_matches(']')
            .rsplit('/')
            .next()
            .unwrap_or_default();
        let object = if object.starts_with('[') {
            format!("{object}]")
        } else {
            object.into()
        };
        let numbers = numbers.split_whitespace().map(|it| it.replace(',', ""));
        let numbers = numbers.map(|it| it.parse().unwrap_or(0));
        all.insert(with_module(name, &object), numbers.collect());
    }
    all
}

#[test]
fn callgrind_annotate_has_the_numbers_of_the_report() {
    const TEST: &str = "callgrind_annotate_has_the_numbers_of_the_report";
    let Some(data) = recording(TEST).filter(|_| have(TEST, "callgrind_annotate")) else {
        return;
    };
    let file = export(&data, "callgrind", ".callgrind");
    let own = annotated(&file, &[]);
    let total = annotated(&file, &["--inclusive=yes"]);
    // In the file they are two, though its reader makes one of functions of one
    // name and one source file.
    let text = std::fs::read_to_string(&file).expect("written");
    assert_eq!(text.matches(") same_name\n").count(), 2, "{text}");
    // The C library and its loader have functions of one name and one file,
    // which are one there.
    let by_name = |all: &BTreeMap<String, Vec<u64>>, column: usize| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (name, numbers) in all {
            let (name, _) = name.rsplit_once(' ').expect("with a module");
            *sums.entry(name.to_owned()).or_default() += numbers.get(column).unwrap_or(&0);
        }
        sums.retain(|name, sum| *sum > 0 && name != "[root]");
        sums
    };
    for (column, (event, reported)) in reported(&data, with_module).iter().enumerate() {
        let of = |part: fn(&Cost) -> u64| {
            let parts = reported.functions.iter();
            let parts = parts.map(|(name, cost)| (name.clone(), vec![part(cost)]));
            by_name(&parts.collect(), 0)
        };
        let (weight, samples) = (2 * column, 2 * column + 1);
        assert_eq!(by_name(&own, weight), of(|it| it.own), "{event}");
        assert_eq!(by_name(&own, samples), of(|it| it.own_samples), "{event}");
        assert_eq!(by_name(&total, weight), of(|it| it.total), "{event}");
        assert_eq!(
            by_name(&total, samples),
            of(|it| it.total_samples),
            "{event}"
        );
    }
}

#[test]
fn opentelemetrys_messages_have_the_numbers_of_the_report() {
    const TEST: &str = "opentelemetrys_messages_have_the_numbers_of_the_report";
    let python = consumer(TEST, "python/bin/python");
    let Some((data, python)) = recording(TEST).zip(python) else {
        return;
    };
    let file = export(&data, "otlp", ".otlp");
    let summed = otlp_sums(&python, &file);
    same_sums(&summed, &reported(&data, with_module));
}

/// What OpenTelemetry's messages find in a file, by event.
fn otlp_sums(python: &Path, file: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exports/otlp.py");
    run(Command::new(python).arg(script).arg(file))
}

/// The same as JSON, where the messages are installed.
pub(crate) fn summed_otlp(test: &str, file: &Path) -> Option<Value> {
    let python = consumer(test, "python/bin/python")?;
    serde_json::from_str(&otlp_sums(&python, file)).ok()
}

/// Compares what a script summed: by event, `samples`, `weight` and, by name
/// and module, the four numbers of a [`Cost`].
fn same_sums(summed: &str, reported: &BTreeMap<String, Reported>) {
    let summed: Value = serde_json::from_str(summed).expect("JSON");
    for (event, reported) in reported {
        let summed = &summed[event];
        assert_eq!(summed["weight"], reported.weight, "{event}");
        assert_eq!(summed["samples"], reported.samples, "{event}");
        let functions = summed["functions"].as_object().expect("functions");
        let found: BTreeSet<&String> = functions.keys().collect();
        assert_eq!(found, reported.functions.keys().collect(), "{event}");
        for (name, cost) in &reported.functions {
            let four = [cost.own, cost.own_samples, cost.total, cost.total_samples];
            assert_eq!(
                functions[name],
                Value::from(four.to_vec()),
                "{event} {name}"
            );
        }
    }
}

/// The Firefox Profiler's command line with a profile open; closed when
/// dropped.
struct Profiler {
    node: PathBuf,
    script: PathBuf,
    home: tempfile::TempDir,
}

impl Profiler {
    fn open(node: PathBuf, script: PathBuf, file: &Path) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let opened = Self { node, script, home };
        // It waits half a second for the process that holds the profile, which
        // a loaded machine does not start in that time.
        let _ = opened
            .command(&["load", &file.display().to_string()])
            .output();
        for _ in 0..240 {
            let asked = opened.command(&["thread", "list", "--json"]).output();
            if asked.expect("it starts").status.success() {
                return opened;
            }
            std::thread::sleep(std::time::Duration::from_millis(250));
        }
        panic!("profiler-cli does not open {}", file.display());
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.node);
        command
            .arg(&self.script)
            .args(words)
            .env("HOME", self.home.path());
        command
    }

    fn ask(&self, words: &[&str]) -> Value {
        let answer = run(&mut self.command(&[words, &["--json"]].concat()));
        serde_json::from_str(&answer).expect("JSON")
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        let _ = self.command(&["stop", "--all"]).output();
    }
}

#[test]
fn the_firefox_profiler_has_the_numbers_of_the_report() {
    const TEST: &str = "the_firefox_profiler_has_the_numbers_of_the_report";
    let node = consumer(TEST, "node_modules/.bin/node");
    let script = consumer(
        TEST,
        "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js",
    );
    let (Some(data), Some(node), Some(script)) = (recording(TEST), node, script) else {
        return;
    };
    let file = export(&data, "firefox", ".firefox.json.gz");
    let profiler = Profiler::open(node, script, &file);
    let reported = reported(&data, with_module);
    let threads = profiler.ask(&["thread", "list"]);
    let threads = threads["threads"].as_array().expect("threads");
    assert_eq!(
        threads.len(),
        reported.len(),
        "a track for each event: {threads:?}"
    );
    for thread in threads {
        let handle = thread["threadHandle"].as_str().expect("a handle");
        let info = profiler.ask(&["thread", "info", "--thread", handle]);
        let name = info["name"].as_str().expect("a name");
        let event = name.rsplit(' ').next().unwrap_or_default();
        let reported = &reported[event];
        assert_eq!(info["sampleCount"], reported.samples, "{event}");
        let listed = profiler.ask(&["thread", "functions", "--limit", "0", "--thread", handle]);
        let unit = if listed["weightType"] == "tracing-ms" {
            1e6
        } else {
            1.0
        };
        let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for row in listed["functions"].as_array().expect("functions") {
            let word = |key: &str| row[key].as_str().unwrap_or_default();
            let number = |key: &str| (row[key].as_f64().expect("a number") * unit).round() as u64;
            let cost = found
                .entry(with_module(word("name"), word("library")))
                .or_default();
            *cost = (
                cost.0 + number("selfSamples"),
                cost.1 + number("totalSamples"),
            );
        }
        let expected = reported.functions.iter();
        let expected = expected.map(|(name, cost)| (name.clone(), (cost.own, cost.total)));
        assert_eq!(found, expected.collect(), "{event}");
    }
}

#[test]
fn speedscope_has_the_numbers_of_the_report() {
    const TEST: &str = "speedscope_has_the_numbers_of_the_report";
    let page = consumer(TEST, "node_modules/speedscope/dist/release/index.html");
    let Some((data, page)) = recording(TEST).zip(page) else {
        return;
    };
    if !(have(TEST, "chromium") && have(TEST, "node")) {
        return;
    }
    let file = export(&data, "speedscope", ".speedscope.json");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shown = run(Command::new("node")
        .arg(folder.join("tests/exports/speedscope.js"))
        .arg(folder.join("crates/report/src/picture/page/drive/browser.js"))
        .args([&page, &file]));
    let shown: BTreeMap<String, Vec<(String, u64, u64)>> =
        serde_json::from_str(&shown).expect("JSON");
    for (event, reported) in reported(&data, with_module) {
        let rows = &shown[&event];
        let mut listed: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for (name, own, total) in rows {
            listed.entry(name).or_default().push((*own, *total));
        }
        let mut expected: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for (name, cost) in &reported.functions {
            let (name, _) = name.rsplit_once(' ').expect("with a module");
            expected
                .entry(name)
                .or_default()
                .push((cost.own, cost.total));
        }
        listed
            .values_mut()
            .chain(expected.values_mut())
            .for_each(|it| it.sort_unstable());
        assert_eq!(listed, expected, "{event}");
    }
}

#[test]
fn duckdb_has_the_numbers_of_the_report() {
    const TEST: &str = "duckdb_has_the_numbers_of_the_report";
    let python = consumer(TEST, "python/bin/python");
    let Some((data, python)) = recording(TEST).zip(python) else {
        return;
    };
    let file = export(&data, "parquet", ".parquet");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exports/parquet.py");
    let summed = run(Command::new(python).arg(script).arg(file));
    same_sums(&summed, &reported(&data, by_name));
}

/// What the recipes of `docs/exports.md` find in a folder by an engine.
fn recipes(python: &Path, engine: &str, folder: &Path) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = run(Command::new(python)
        .current_dir(folder)
        .arg(root.join("tests/exports/recipes.py"))
        .arg(engine)
        .arg(root.join("docs/exports.md"))
        .arg("recursive"));
    serde_json::from_str(&found).expect("JSON")
}

#[test]
fn the_recipes_in_sql_find_the_numbers_of_the_report() {
    const TEST: &str = "the_recipes_in_sql_find_the_numbers_of_the_report";
    let python = consumer(TEST, "python/bin/python");
    let Some((data, python)) = recording(TEST).zip(python) else {
        return;
    };
    let file = export(&data, "parquet", ".parquet");
    let folder = tempfile::tempdir().expect("a folder");
    for day in ["release=v1.0/day=2026-11-22", "release=v1.1/day=2026-11-23"] {
        let day = folder.path().join(day);
        std::fs::create_dir_all(&day).expect("made");
        std::fs::copy(&file, day.join("host-a.parquet")).expect("copied");
    }
    let reported = reported(&data, by_name);
    let clock = reported
        .iter()
        .find(|(name, _)| name.starts_with("cpu-clock"));
    let clock = clock.expect("recorded").1;
    let share = clock.functions["recursive"].total as f64 / clock.weight as f64;
    for engine in ["DuckDB", "ClickHouse", "DataFusion"] {
        let found = recipes(&python, engine, folder.path());
        let rows = |index: usize| found[index].as_array().expect("rows");
        // Functions of one name in two modules are rows of their own.
        let first = rows(0)[0][0].as_str().expect("a name");
        let seconds: f64 = rows(0)
            .iter()
            .filter(|row| row[0] == first)
            .map(|row| row[2].as_f64().expect("a number"))
            .sum();
        let expected = 2 * clock.functions[first].own;
        assert_eq!((seconds * 1e9).round() as u64, expected, "{engine} {first}");
        assert_eq!(rows(0)[0][3].as_f64(), Some(1.0), "{engine}: one host");
        let releases = rows(1);
        assert_eq!(releases.len(), 2, "{engine}");
        for (row, release) in releases.iter().zip(["v1.0", "v1.1"]) {
            assert_eq!(row[0], release, "{engine}");
            let found = row[1].as_f64().expect("a share");
            assert!((found - share).abs() < 1e-9, "{engine}: {found} {share}");
        }
        let lines: Vec<&str> = rows(2)
            .iter()
            .map(|row| row[0].as_str().expect("a line"))
            .collect();
        let folded = scratch().join(format!("recipes-{engine}.folded"));
        std::fs::write(&folded, lines.join("\n") + "\n").expect("written");
        let name = folded.display().to_string();
        let drawn = prof(&["flamegraph", "--format", "folded", "-i", &name]);
        let drawn = drawn.succeeded("prof flamegraph").text();
        let weights = drawn.lines().map(|line| {
            let (_, weight) = line.rsplit_once(' ').expect("a weight");
            weight.parse::<u64>().expect("a number")
        });
        assert_eq!(weights.sum::<u64>(), 2 * clock.weight, "{engine}");
    }
}

#[test]
fn folded_stacks_stand_on_their_events() {
    const TEST: &str = "folded_stacks_stand_on_their_events";
    let Some(data) = recording(TEST) else {
        return;
    };
    let file = export(&data, "folded", ".folded");
    let lines = std::fs::read_to_string(file).expect("written");
    for (event, reported) in reported(&data, by_name) {
        let of_event = lines
            .lines()
            .filter(|line| line.starts_with(&format!("{event};")));
        let weights = of_event.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        assert_eq!(weights.sum::<u64>(), reported.weight, "{event}");
    }
}

#[test]
fn what_cannot_be_exported_is_refused_with_a_way_on() {
    let refused = prof(&["export", "-i", "/dev/null", "-o", "x.unknown"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("try: --format pprof"),
        "{}",
        refused.stderr
    );
    let refused = prof(&["export", "-o", "a.folded", "--format", "pprof"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("try: --format folded"),
        "{}",
        refused.stderr
    );
}
