//! Names and lines against perf and addr2line, on real files.
//!
//! What a machine lacks is skipped with a printed reason; in CI
//! `PROF_TEST_REQUIRE` lists the commands whose absence fails the test.
//!
//! Known differences to perf 6.1, left out below:
//! - stubs (`name@plt`): perf counts relocations, which is wrong where some
//!   of them have no stub (libm) or the section has no entry size (lld);
//! - C++ names with function types in template arguments, where perf's
//!   demangler writes `R ()` and ours `R()`.
#![expect(clippy::print_stderr, reason = "tells what was skipped or compared")]

mod built;
#[allow(dead_code, reason = "another test program uses the rest")]
mod needed;
mod recorded;

use built::{Built, addresses_of, open};
use needed::has;
use prof_abi::BuildId;
use prof_profile::{FileOffset, Svma, UnnamedReason};
use prof_symbolize::{Detail, DsoRequest, Lookup, Sources, Symbolizer};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// `name+0xoffset` as perf script writes it, or `[unknown]`.
fn as_perf(svma: Svma, lookup: &Lookup) -> String {
    lookup.symbol.as_ref().map_or_else(
        || "[unknown]".to_owned(),
        |symbol| format!("{}+{:#x}", symbol.name, svma.0 - symbol.start.0),
    )
}

/// Compares each symbol of a file, and places between symbols, with perf.
fn compare_with_perf(path: &Path) {
    let sources = Sources::default();
    let text = path.to_str().expect("a plain path");
    let file = Symbolizer::new(sources)
        .open(&DsoRequest::for_file(text, None))
        .expect("opened");
    let mut offsets = Vec::new();
    let mut addresses = Vec::new();
    let length = std::fs::metadata(path).expect("there").len();
    for offset in (0..length).step_by(usize::try_from(length / 3000 + 1).expect("small")) {
        if let Some(svma) = file.svma_of_file_offset(FileOffset(offset)) {
            offsets.push(offset);
            addresses.push(svma);
        }
    }
    let ours = file.lookup_many(&addresses, Detail::Symbol);
    let theirs = recorded::perf_script(path, &offsets);
    assert_eq!(ours.len(), theirs.len(), "{text}");
    let mut compared = 0;
    for ((svma, lookup), perf) in addresses.iter().zip(&ours).zip(&theirs) {
        let ours = as_perf(*svma, lookup);
        // The header of stubs belongs to nobody: the symbol without size before
        // it reaches there, which perf finds or not as its tree happens to be.
        let is_header = perf == "[unknown]"
            && ["_init+", "_fini+"]
                .iter()
                .any(|name| ours.starts_with(name));
        // perf takes a hash of less than five different digits for a name.
        let has_hash = perf.contains("::h") && !ours.contains("::h");
        let is_known = is_header
            || has_hash
            || ours.contains("@plt")
            || perf.contains("@plt")
            || perf.contains(" (");
        if !is_known && file.text_bytes(*svma, 1).is_some() {
            assert_eq!(&ours, perf, "{text} at {svma:x}");
            compared += 1;
        }
    }
    assert!(compared > 20, "{text}: only {compared} addresses");
    eprintln!("{text}: {compared} addresses");
}

/// The file of this process with this in its path.
fn mapped_file(part: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
    let mut paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    paths.find(|path| path.contains(part)).map(PathBuf::from)
}

#[test]
fn symbols_and_offsets_are_those_of_perf_script() {
    let test = "symbols_and_offsets_are_those_of_perf_script";
    if !has(test, "perf") {
        return;
    }
    let built = Built::new();
    compare_with_perf(&built.program("program", &["-g"]));
    compare_with_perf(&built.program("static", &["-no-pie", "-static"]));
    compare_with_perf(&mapped_file("/libc.so").expect("linked with it"));
    compare_with_perf(&std::env::current_exe().expect("this test"));
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
    if library.exists() {
        compare_with_perf(library);
    } else {
        eprintln!("skipped a part of {test}: no {}", library.display());
    }
}

/// What `addr2line -i` says of addresses: file name and line per frame,
/// innermost first.
fn addr2line(path: &Path, addresses: &[Svma]) -> HashMap<u64, Vec<String>> {
    let mut command = Command::new("addr2line");
    command.args(["-a", "-i", "-e"]).arg(path);
    command.args(addresses.iter().map(|svma| format!("{svma:#x}")));
    let done = command.output().expect("addr2line runs");
    let mut found: HashMap<u64, Vec<String>> = HashMap::new();
    let mut current = 0;
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        if let Some(address) = line.strip_prefix("0x") {
            current = u64::from_str_radix(address, 16).expect("an address");
            found.entry(current).or_default();
        } else {
            let place = line.split(" (discriminator").next().unwrap_or(line);
            let name = place.rsplit('/').next().unwrap_or(place);
            found.entry(current).or_default().push(name.to_owned());
        }
    }
    found
}

#[test]
fn inlined_frames_and_lines_are_those_of_addr2line() {
    let test = "inlined_frames_and_lines_are_those_of_addr2line";
    if !has(test, "addr2line") {
        return;
    }
    let built = Built::new();
    for options in [
        &["-gdwarf-5"][..],
        &["-gdwarf-4"],
        &["-gdwarf-3", "-no-pie"],
        &["-gdwarf-2"],
        &["-gdwarf-5", "-gz=zlib"],
        &["-gdwarf-4", "-ffunction-sections"],
    ] {
        let path = built.program("program", options);
        let file = open(&path).expect("opened");
        let function = |name: &str| file.symbols().find(|symbol| &*symbol.name == name);
        let outer = function("outer")
            .or_else(|| function("aliased"))
            .expect("there");
        let addresses: Vec<Svma> = (0..outer.size).map(|at| outer.start.plus(at)).collect();
        let theirs = addr2line(&path, &addresses);
        let mut inlined = 0;
        for (svma, lookup) in addresses
            .iter()
            .zip(file.lookup_many(&addresses, Detail::Source))
        {
            let frames = lookup.frames.iter().map(|frame| {
                let file = frame.file.as_deref().unwrap_or("?");
                let name = file.rsplit('/').next().unwrap_or(file);
                format!("{name}:{}", frame.line)
            });
            let ours: Vec<String> = frames.collect();
            assert_eq!(Some(&ours), theirs.get(&svma.0), "{options:?} at {svma:x}");
            inlined += usize::from(lookup.frames.len() == 3);
            let last = lookup.frames.last().expect("a frame");
            assert!(!last.is_inline && last.name == outer.name);
        }
        assert!(
            inlined > 3,
            "{options:?}: {inlined} addresses in both inlined functions"
        );
    }
}

/// What `llvm-symbolizer` says of addresses: file name and line per frame,
/// innermost first.
fn llvm_symbolizer(path: &Path, addresses: &[Svma]) -> Vec<Vec<String>> {
    let mut command = Command::new("llvm-symbolizer");
    command
        .args(["--inlines", "--functions=none", "--obj"])
        .arg(path);
    command.args(addresses.iter().map(|svma| format!("{svma:#x}")));
    let done = command.output().expect("llvm-symbolizer runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let place = |line: &str| {
        let mut parts = line.rsplitn(3, ':').skip(1);
        let (line, file) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("?"));
        format!("{}:{line}", file.rsplit('/').next().unwrap_or(file))
    };
    let answers = text.trim_end().split("\n\n");
    answers
        .map(|answer| answer.lines().map(place).collect())
        .collect()
}

/// Our answers for all addresses of `outer` and `main`, as the oracles write.
fn places(file: &prof_symbolize::SymbolFile, addresses: &[Svma]) -> Vec<Vec<String>> {
    let of_frame = |frame: &prof_symbolize::SourceFrame| {
        let file = frame.file.as_deref().unwrap_or("?");
        format!("{}:{}", file.rsplit('/').next().unwrap_or(file), frame.line)
    };
    let found = file.lookup_many(addresses, Detail::Source).into_iter();
    found
        .map(|lookup| lookup.frames.iter().map(of_frame).collect())
        .collect()
}

/// The addresses of all of a file's functions that the program has.
fn addresses_of_program(file: &prof_symbolize::SymbolFile) -> Vec<Svma> {
    let names = ["outer", "aliased", "weak_one", "local_one", "main"];
    let functions = file
        .symbols()
        .filter(|symbol| names.contains(&&*symbol.name));
    functions
        .flat_map(|symbol| (0..symbol.size).map(move |at| symbol.start.plus(at)))
        .collect()
}

#[test]
fn debug_information_that_stands_apart_says_what_it_says_within() {
    let test = "debug_information_that_stands_apart_says_what_it_says_within";
    let has_llvm = has(test, "llvm-symbolizer");
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let built = Built::new();
        let within = built.program("within", &["-g", version]);
        let file = open(&within).expect("opened");
        let addresses = addresses_of_program(&file);
        let expected = places(&file, &addresses);
        let apart = built.program("apart", &["-g", version, "-gsplit-dwarf"]);
        let file = open(&apart).expect("opened");
        assert_eq!(addresses, addresses_of_program(&file), "the same code");
        assert_eq!(expected, places(&file, &addresses), "{version}: .dwo");
        let name = |lookup: Lookup| lookup.frames.into_iter().map(|frame| frame.name).collect();
        let names: Vec<Vec<_>> = file
            .lookup_many(&addresses, Detail::Source)
            .into_iter()
            .map(name)
            .collect();
        assert!(
            names
                .iter()
                .any(|names| names.len() == 3 && &*names[0] == "innermost")
        );
        if has_llvm {
            assert_eq!(llvm_symbolizer(&apart, &addresses), expected, "{version}");
        }
        let dwo = |path: &Path| path.extension().is_some_and(|it| it == "dwo");
        let files = || {
            let all = std::fs::read_dir(apart.parent().expect("one")).expect("read");
            let paths = all.map(|entry| entry.expect("read").path());
            paths.filter(|path| dwo(path)).collect::<Vec<_>>()
        };
        assert!(!files().is_empty(), "the compiler wrote a .dwo");
        // A package in place of the objects.
        if version == "-gdwarf-4" && has(test, "llvm-dwp") {
            // It does not end with gcc's objects of version 5.
            let mut packs = Command::new("timeout");
            let packs = packs
                .args(["20", "llvm-dwp", "-e"])
                .arg(&apart)
                .arg("-o")
                .arg(built.path("apart.dwp"));
            assert!(packs.status().expect("it starts").success());
            files()
                .iter()
                .for_each(|path| std::fs::remove_file(path).expect("removed"));
            let file = open(&apart).expect("opened");
            assert_eq!(expected, places(&file, &addresses), "{version}: .dwp");
            std::fs::remove_file(built.path("apart.dwp")).expect("removed");
        }
        // Of another build there is only the line.
        built.program("other", &["-g", version, "-gsplit-dwarf", "-DOTHER", "-O1"]);
        for path in files() {
            let named = built.path("apart-program.dwo");
            if path != named {
                std::fs::rename(path, named).expect("moved");
            }
        }
        let file = open(&apart).expect("opened");
        let alone = places(&file, &addresses);
        assert!(alone.iter().all(|frames| frames.len() == 1), "{version}");
    }
}

#[test]
fn inlined_functions_without_lines_are_those_with_lines() {
    let built = Built::new();
    let path = built.program("program", &["-gdwarf-5"]);
    let asked = |detail| {
        // A file of its own for each, so that neither uses what the other read.
        let file = open(&path).expect("opened");
        let all: Vec<Svma> = file
            .symbols()
            .flat_map(|symbol| (0..symbol.size).map(move |at| symbol.start.plus(at)))
            .collect();
        file.lookup_many(&all, detail)
    };
    let with_lines = asked(Detail::Source);
    let inlined = with_lines.iter().filter(|found| found.frames.len() == 3);
    assert!(inlined.count() > 3);
    let without: Vec<Lookup> = with_lines
        .into_iter()
        .map(|mut lookup| {
            // Where no function is known, lines are what was found.
            let is_of_function = lookup.frames.iter().any(|frame| frame.defined_at.is_some());
            for frame in lookup.frames.iter_mut().filter(|_| is_of_function) {
                (frame.file, frame.line) = (None, 0);
            }
            lookup
        })
        .collect();
    assert_eq!(asked(Detail::Inlines), without);
}

#[test]
fn annotating_finds_rows_and_bytes_for_the_whole_function() {
    let built = Built::new();
    let path = built.program("program", &["-gdwarf-5"]);
    let file = open(&path).expect("opened");
    let main = file.symbols().find(|symbol| &*symbol.name == "main");
    let main = main.expect("there");
    let rows = file.line_rows(main.start, main.start.plus(main.size));
    assert_eq!(rows.first().map(|row| row.address), Some(main.start));
    assert!(rows.iter().any(|row| row.line == 22), "{rows:?}");
    assert!(rows.is_sorted_by_key(|row| row.address));
    let bytes = file.text_bytes(main.start, main.size).expect("loaded");
    assert_eq!(bytes.len() as u64, main.size);
}

/// Splits a program with debug information into a stripped file and a debug
/// file that it links to.
fn split(built: &Built, options: &[&str]) -> (PathBuf, PathBuf) {
    let (whole, debug) = (built.program("split", options), built.path("split.debug"));
    let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
        let done = Command::new(program).args(arguments).output();
        let done = done.expect("binutils run");
        assert!(done.status.success(), "{program}: {done:?}");
    };
    run(
        "objcopy",
        &["--only-keep-debug".as_ref(), whole.as_ref(), debug.as_ref()],
    );
    run("strip", &[whole.as_ref()]);
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    run("objcopy", &[&link, whole.as_ref()]);
    (whole, debug)
}

#[test]
fn a_separate_debug_file_of_the_same_build_gives_names_and_lines() {
    let test = "a_separate_debug_file_of_the_same_build_gives_names_and_lines";
    if !has(test, "objcopy") {
        return;
    }
    // With a build-id, and without one, where the link's CRC must do.
    for options in [
        &["-gdwarf-5", "-Wl,--build-id=sha1"][..],
        &["-gdwarf-5", "-Wl,--build-id=none"],
    ] {
        let built = Built::new();
        let (stripped, debug) = split(&built, options);
        let found = addresses_of(&stripped);
        let file = open(&stripped).expect("opened");
        assert_eq!(file.symbols_path(), debug, "{options:?}");
        let main = file.symbols().find(|symbol| &*symbol.name == "main");
        let main = main.expect("from the debug file");
        assert!(found.contains(&main.start));
        let lookup = file.lookup(main.start, Detail::Source);
        assert_eq!(
            lookup.frames.last().expect("a frame").line,
            19,
            "{options:?}"
        );

        let mut bytes = std::fs::read(&debug).expect("read");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        if options.contains(&"-Wl,--build-id=none") {
            std::fs::write(&debug, &bytes).expect("written");
        } else {
            let other = built.program("other", &["-gdwarf-4", "-Wl,--build-id=md5"]);
            std::fs::copy(other, &debug).expect("copied");
        }
        let file = open(&stripped).expect("opened");
        assert_eq!(file.symbols_path(), stripped, "another build was used");
        let lookup = file.lookup(main.start, Detail::Source);
        assert!(lookup.frames.iter().all(|frame| frame.file.is_none()));
    }
}

#[test]
fn a_debug_file_is_found_by_build_id_in_each_place() {
    let test = "a_debug_file_is_found_by_build_id_in_each_place";
    if !has(test, "objcopy") {
        return;
    }
    let built = Built::new();
    let (stripped, debug) = split(&built, &["-gdwarf-5", "-Wl,--build-id=sha1"]);
    let id = open(&stripped)
        .expect("opened")
        .build_id()
        .expect("it has one");
    let hex = id.to_string();
    let (first, rest) = hex.split_at(2);
    let root = built.path("root");
    let sources = Sources {
        debug_dirs: vec![root.join("debug")],
        build_id_cache: Some(root.join("cache")),
        ..Sources::default()
    };
    let text = stripped.to_str().expect("a plain path");
    let bytes = std::fs::read(&debug).expect("read");
    std::fs::remove_file(&debug).expect("removed");
    for place in [
        format!("debug/.build-id/{first}/{rest}.debug"),
        format!("debug{text}.debug"),
        format!("debug{text}"),
        format!("cache/.build-id/{first}/{rest}/debug"),
        format!("cache/.build-id/{first}/{rest}/elf"),
    ] {
        let path = root.join(&place);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        std::fs::write(&path, &bytes).expect("written");
        let symbolizer = Symbolizer::new(sources.clone());
        let file = symbolizer.open(&DsoRequest::for_file(text, Some(id)));
        let file = file.expect("opened");
        assert_eq!(file.symbols_path(), path, "{place}");
        assert!(
            file.symbols().any(|symbol| &*symbol.name == "local_one"),
            "{place}"
        );
        std::fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn a_stripped_file_is_named_by_the_symbols_packed_into_it() {
    let test = "a_stripped_file_is_named_by_the_symbols_packed_into_it";
    if !has(test, "objcopy") || !has(test, "xz") {
        return;
    }
    let built = Built::new();
    let (stripped, debug) = split(&built, &["-g0"]);
    let run = |command: &mut Command| {
        let done = command.output().expect("it runs");
        assert!(done.status.success(), "{command:?}: {done:?}");
    };
    run(Command::new("xz").arg(&debug));
    let mut section = std::ffi::OsString::from(".gnu_debugdata=");
    section.push(built.path("split.debug.xz"));
    run(Command::new("objcopy")
        .arg("--add-section")
        .arg(section)
        .arg(&stripped));
    let file = open(&stripped).expect("opened");
    assert!(file.symbols().any(|symbol| &*symbol.name == "local_one"));
}

#[test]
fn a_file_of_another_build_gives_no_names() {
    let built = Built::new();
    let path = built.program("program", &["-g", "-Wl,--build-id=sha1"]);
    let text = path.to_str().expect("a plain path");
    let recorded = BuildId::new(&[7; 20]);
    let error = Symbolizer::default()
        .open(&DsoRequest::for_file(text, recorded))
        .expect_err("refused");
    assert_eq!(error.reason, UnnamedReason::BuildIdMismatch);
    assert!(error.to_string().contains("0707"), "{error}");

    // Without a build-id, a file written after the recording is another one.
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let request = DsoRequest {
        recorded_at: Some(before),
        ..DsoRequest::for_file(text, None)
    };
    let error = Symbolizer::default().open(&request).expect_err("refused");
    assert_eq!(error.reason, UnnamedReason::BuildIdMismatch);
}

#[test]
fn reasons_tell_missing_denied_and_damaged_files_apart() {
    let built = Built::new();
    let text = built.path("text");
    std::fs::write(&text, "no program").expect("written");
    let reason = |path: &str| {
        let opened = Symbolizer::default().open(&DsoRequest::for_file(path, None));
        opened.expect_err("nothing to read").reason
    };
    assert_eq!(reason("/no/such/file"), UnnamedReason::FileMissing);
    assert_eq!(reason("//anon"), UnnamedReason::FileMissing);
    assert_eq!(reason("relative/path"), UnnamedReason::FileMissing);
    assert_eq!(reason("/usr/../etc/passwd"), UnnamedReason::FileMissing);
    assert_eq!(reason("/dev/zero"), UnnamedReason::FileDamaged);
    assert_eq!(
        reason(text.to_str().expect("plain")),
        UnnamedReason::FileDamaged
    );
    let stripped = built.program("stripped", &["-s", "-static"]);
    let file = open(&stripped).expect("an ELF file");
    let lookup = file.lookup(Svma(0x40_1000), Detail::Source);
    assert_eq!(lookup.reason, Some(UnnamedReason::Stripped));
}

#[test]
fn links_below_a_symbol_root_do_not_lead_out_of_it() {
    let built = Built::new();
    let program = built.program("program", &["-g"]);
    let root = built.path("root");
    std::fs::create_dir_all(root.join("bin")).expect("made");
    std::fs::copy(&program, root.join("bin/inside")).expect("copied");
    std::os::unix::fs::symlink(&program, root.join("bin/outside")).expect("linked");
    let symbolizer = Symbolizer::new(Sources {
        symfs: Some(root),
        ..Sources::default()
    });
    let open = |path| symbolizer.open(&DsoRequest::for_file(path, None));
    assert!(open("/bin/inside").is_ok());
    let error = open("/bin/outside").expect_err("it leads out");
    assert_eq!(error.reason, UnnamedReason::FileDenied);
}

#[test]
fn tables_stay_while_there_is_room_and_the_longest_unused_go() {
    let built = Built::new();
    let programs = ["one", "other"].map(|name| built.program(name, &["-g", "-Wl,--build-id"]));
    let ids = programs
        .each_ref()
        .map(|path| open(path).expect("opened").build_id());
    let named = |symbolizer: &Symbolizer, which: usize| {
        let path = programs[which].to_str().expect("a plain path");
        let file = symbolizer.open(&DsoRequest::for_file(path, ids[which]));
        let file = file.expect("opened");
        let main = file.address_of("main").expect("every program has one");
        assert!(!file.lookup(main, Detail::Source).frames.is_empty());
        file
    };
    let roomy = Symbolizer::default().keeping_tables(1 << 20);
    let (one, other) = (named(&roomy, 0), named(&roomy, 1));
    roomy.close_unused();
    assert!(one.holds_tables() && other.holds_tables());
    assert!(Arc::ptr_eq(&one, &named(&roomy, 0)));

    // The tables of both are as large: there is room for those of one.
    let size = |bytes| {
        let symbolizer = Symbolizer::default().keeping_tables(bytes);
        let file = named(&symbolizer, 0);
        symbolizer.close_unused();
        file.holds_tables()
    };
    let enough = (1..1 << 20).step_by(64).find(|&bytes| size(bytes));
    let narrow = Symbolizer::default().keeping_tables(enough.expect("less") * 3 / 2);
    let one = named(&narrow, 0);
    narrow.close_unused();
    let other = named(&narrow, 1);
    narrow.close_unused();
    assert!(!one.holds_tables(), "nobody asked for it since");
    assert!(other.holds_tables());
}

#[test]
fn a_file_without_a_build_id_stays_open_until_another_takes_its_place() {
    let built = Built::new();
    let program = built.program("program", &["-Wl,--build-id=none"]);
    let other = built.program("other", &["-Wl,--build-id=none"]);
    // What changed just now may change again without a trace.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let path = program.to_str().expect("a plain path");
    let symbolizer = Symbolizer::default().keeping_tables(1 << 20);
    let open = || symbolizer.open(&DsoRequest::for_file(path, None));
    let first = open().expect("opened");
    symbolizer.close_unused();
    let again = open().expect("opened");
    assert!(Arc::ptr_eq(&first, &again));
    symbolizer.close_unused();
    std::fs::copy(&other, &program).expect("written over");
    let written = open().expect("opened");
    assert!(!Arc::ptr_eq(&first, &written));
    symbolizer.close_unused();
    let changed = open().expect("opened");
    assert!(!Arc::ptr_eq(&written, &changed), "too young to tell");
    symbolizer.close_unused();
    std::fs::rename(&other, &program).expect("replaced");
    assert!(!Arc::ptr_eq(&changed, &open().expect("opened")));
    symbolizer.close_unused();
    std::fs::remove_file(&program).expect("removed");
    assert!(open().is_err());
}

#[test]
fn files_that_are_asked_for_again_stay_open() {
    let built = Built::new();
    let program = built.program("program", &["-Wl,--build-id"]);
    let id = open(&program).expect("opened").build_id();
    let id = id.expect("it has one");
    let path = program.to_str().expect("a plain path");
    let symbolizer = Symbolizer::default();
    let open = |id| {
        symbolizer
            .open(&DsoRequest::for_file(path, id))
            .expect("opened")
    };
    let (sure, unsure) = (open(Some(id)), open(None));
    symbolizer.close_unused();
    assert!(Arc::ptr_eq(&sure, &open(Some(id))), "asked for since");
    assert!(
        !Arc::ptr_eq(&unsure, &open(None)),
        "it may be another by now"
    );
    symbolizer.close_unused();
    symbolizer.close_unused();
    assert!(!Arc::ptr_eq(&sure, &open(Some(id))), "nobody asked for it");
}
