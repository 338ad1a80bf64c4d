//! Names, lines and inlined frames against `llvm-symbolizer` and `eu-addr2line`
//! in every form that compilers write debug information in, at the addresses of
//! all code of a program.
//!
//! Three differences are known, and counted apart:
//! - between functions the line table of the one before may go on:
//!   `llvm-symbolizer` tells that line without a function, we nothing;
//! - a function without debug information is in no file for us; it takes the
//!   file symbol before a local one;
//! - where one address has several names, the choice is ours or its.
#![expect(clippy::print_stderr, reason = "tells what was skipped or compared")]

#[path = "../needed/mod.rs"]
mod needed;
mod oracle;

use needed::has;
use oracle::{Frame, Names};
use prof_profile::Svma;
use prof_symbolize::{Demangle, Detail, DsoRequest, Lookup, Sources, SymbolFile, Symbolizer};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Addresses of one file that are asked for, at most: of Rust's programs, which
/// have the standard library in them, some are left out at equal distances.
const MOST_ADDRESSES: usize = 20_000;

/// The form that has no inlined code.
const UNOPTIMISED: &str = "unoptimised";

/// A directory of built files.
struct Built(tempfile::TempDir);

impl Built {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    /// Runs a command line in the directory; its sources are in `$SOURCES`.
    fn run(&self, line: &str) {
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/forms");
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).env("SOURCES", sources);
        let done = shell.current_dir(self.0.path()).output();
        let done = done.expect("sh runs");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{line}: {errors}");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Opens a file, taking names as they are in its tables and from nowhere else.
fn open(path: &Path) -> Arc<SymbolFile> {
    let sources = Sources {
        debug_dirs: Vec::new(),
        build_id_cache: None,
        demangle: Demangle::No,
        ..Sources::default()
    };
    let path = path.to_str().expect("a plain path");
    let request = DsoRequest::for_file(path, None);
    Symbolizer::new(sources).open(&request).expect("opened")
}

/// The addresses of a file's code.
fn code(path: &Path) -> Vec<Svma> {
    let listed = Command::new("readelf").args(["-SW"]).arg(path).output();
    let listed = listed.expect("readelf runs").stdout;
    let mut addresses = Vec::new();
    for line in String::from_utf8_lossy(&listed).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| word.starts_with(".text")) else {
            continue;
        };
        let number = |by: usize| u64::from_str_radix(words[at + by], 16).expect("a number");
        addresses.extend((0..number(4)).map(|offset| Svma(number(2) + offset)));
    }
    assert!(addresses.len() > 200, "{path:?} has code");
    let step = addresses.len().div_ceil(MOST_ADDRESSES);
    addresses.into_iter().step_by(step).collect()
}

/// Our answer as the oracles write theirs.
fn frames(lookup: &Lookup) -> Vec<Frame> {
    let of = |frame: &prof_symbolize::SourceFrame| Frame {
        name: frame.name.to_string(),
        file: frame.file.as_deref().map(ToOwned::to_owned),
        line: frame.line,
    };
    lookup.frames.iter().map(of).collect()
}

/// What differs, and how often a known difference was met.
#[derive(Debug, Default)]
struct Compared {
    addresses: usize,
    inlined: usize,
    gaps: usize,
    without_file: usize,
    other_names: usize,
}

/// Compares all frames; `names` says which of the oracle's are no matter.
fn compare(path: &Path, (ours, theirs): (&[Lookup], &[Vec<Frame>]), names: &Names) -> Compared {
    let mut compared = Compared::default();
    let mut faults = Vec::new();
    assert_eq!(ours.len(), theirs.len(), "{path:?}");
    for (lookup, theirs) in ours.iter().zip(theirs) {
        let ours = frames(lookup);
        compared.addresses += 1;
        compared.inlined += usize::from(ours.len() > 1);
        let is_nameless = theirs.len() == 1 && theirs[0].name == "??";
        if ours.is_empty() && is_nameless {
            compared.gaps += usize::from(theirs[0].file.is_some());
            continue;
        }
        let places = |frames: &[Frame]| -> Vec<_> {
            let place = |frame: &Frame| (frame.file.clone(), frame.line);
            frames.iter().map(place).collect()
        };
        let is_of_file_symbol = ours.len() == 1 && ours[0].file.is_none() && theirs[0].line == 0;
        if is_of_file_symbol && theirs.len() == 1 {
            compared.without_file += usize::from(theirs[0].file.is_some());
        } else if places(&ours) != places(theirs) {
            faults.push((ours, theirs));
            continue;
        }
        let pairs = ours.iter().zip(theirs);
        let differ = pairs.filter(|(our, their)| our.name != their.name);
        let differ: Vec<_> = differ.collect();
        compared.other_names += usize::from(!differ.is_empty());
        if !differ
            .iter()
            .all(|(our, their)| names.are_same(&our.name, &their.name))
        {
            faults.push((ours, theirs));
        }
    }
    let first: Vec<_> = faults.iter().take(3).collect();
    let told: String = format!("{first:#?}").chars().take(6000).collect();
    assert!(
        faults.is_empty(),
        "{path:?}: {} differ: {told}",
        faults.len()
    );
    compared
}

/// Compares a built program with `llvm-symbolizer`, and tells what was compared.
fn equals_llvm(llvm: &Path, built: &Built, name: &str) {
    let path = built.path(name);
    let addresses = code(&path);
    let theirs = oracle::llvm(llvm, &path, &addresses);
    let ours = open(&path).lookup_many(&addresses, Detail::Source);
    let names = Names::of(&path);
    let compared = compare(&path, (&ours, &theirs), &names);
    eprintln!("{name}: {compared:?}");
    let is_inlined = compared.inlined * 20 > compared.addresses;
    assert!(is_inlined || name == UNOPTIMISED, "{name}: {compared:?}");
    let known = compared.gaps + compared.without_file;
    assert!(known * 5 < compared.addresses, "{name}: {compared:?}");
}

/// Builds each form, and compares it.
fn all_equal_llvm(test: &str, compiler: &str, forms: &[(&str, &str)]) {
    let (Some(llvm), true) = (oracle::newest_llvm(test), has(test, compiler)) else {
        return;
    };
    for (name, line) in forms {
        // A directory of its own: compilers give split files the same name.
        let built = Built::new();
        built.run(line);
        equals_llvm(&llvm, &built, name);
    }
}

#[test]
fn what_gcc_writes() {
    let test = "what_gcc_writes";
    let forms = [
        // Functions stand below functions here, in classes.
        (UNOPTIMISED, "g++ -O0 -g $SOURCES/shapes.cc -o unoptimised"),
        (
            "dwarf-4",
            "g++ -O2 -g -gdwarf-4 $SOURCES/shapes.cc -o dwarf-4",
        ),
        (
            "dwarf-5",
            "g++ -O2 -g -gdwarf-5 $SOURCES/shapes.cc -o dwarf-5",
        ),
        (
            "dwarf-64",
            "g++ -O2 -g -gdwarf64 $SOURCES/shapes.cc -o dwarf-64",
        ),
        (
            "compressed",
            "g++ -O3 -g -gz=zlib $SOURCES/shapes.cc -o compressed",
        ),
        (
            "no-pie",
            "g++ -O2 -g -no-pie -ffunction-sections -Wl,--gc-sections $SOURCES/shapes.cc -o no-pie",
        ),
        (
            "types",
            "g++ -O2 -g -gdwarf-4 -fdebug-types-section $SOURCES/shapes.cc -o types",
        ),
        ("lto", "g++ -O2 -g -flto $SOURCES/shapes.cc -o lto"),
        (
            "split-4",
            "g++ -O2 -g -gdwarf-4 -gsplit-dwarf $SOURCES/shapes.cc -o split-4",
        ),
        (
            "split-5",
            "g++ -O2 -g -gdwarf-5 -gsplit-dwarf $SOURCES/shapes.cc -o split-5",
        ),
        (
            "32-bit",
            "gcc -O2 -g -m32 -ffreestanding -nostdlib -no-pie -Wl,--unresolved-symbols=ignore-all $SOURCES/calls.c -o 32-bit",
        ),
    ];
    all_equal_llvm(test, "g++", &forms);
}

#[test]
fn what_clang_writes() {
    let test = "what_clang_writes";
    let forms = [
        (
            "dwarf-4",
            "clang++ -O2 -g -gdwarf-4 $SOURCES/shapes.cc -o dwarf-4",
        ),
        (
            "dwarf-5",
            "clang++ -O2 -g -gdwarf-5 $SOURCES/shapes.cc -o dwarf-5",
        ),
        (
            "lines",
            "clang++ -O2 -gline-tables-only $SOURCES/shapes.cc -o lines",
        ),
        (
            "shared",
            "clang++ -O2 -g -gz=zlib -shared -fPIC $SOURCES/shapes.cc -o shared",
        ),
        (
            "split-4",
            "clang++ -O2 -g -gdwarf-4 -gsplit-dwarf $SOURCES/shapes.cc -o split-4",
        ),
        (
            "split-5",
            "clang++ -O2 -g -gdwarf-5 -gsplit-dwarf $SOURCES/shapes.cc -o split-5",
        ),
    ];
    all_equal_llvm(test, "clang++", &forms);
}

#[test]
fn what_clang_writes_into_packages() {
    let test = "what_clang_writes_into_packages";
    let Some(llvm) = oracle::newest_llvm(test) else {
        return;
    };
    if !has(test, "clang++") {
        return;
    }
    let pack = llvm.with_file_name("llvm-dwp");
    for version in [4, 5] {
        let built = Built::new();
        let name = format!("package-{version}");
        let pack = pack.display();
        built.run(&format!(
            "clang++ -O2 -g -gdwarf-{version} -gsplit-dwarf $SOURCES/shapes.cc -o {name}
             {pack} -e {name} -o {name}.dwp
             rm *.dwo"
        ));
        equals_llvm(&llvm, &built, &name);
    }
}

#[test]
fn what_rustc_writes() {
    let test = "what_rustc_writes";
    let rustc = "rustc --edition 2024 $SOURCES/shapes.rs -O -g";
    let forms = [
        ("optimised", ""),
        ("debug", "-C opt-level=0"),
        ("lines", "-C debuginfo=line-tables-only"),
        ("unpacked", "-C split-debuginfo=unpacked"),
        ("packed", "-C split-debuginfo=packed"),
        (
            "whole",
            "-C lto=fat -C codegen-units=1 -C link-arg=-Wl,--compress-debug-sections=zlib",
        ),
    ];
    let lines = forms.map(|(name, options)| (name, format!("{rustc} {options} -o {name}")));
    let lines: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (*name, &**line)).collect();
    all_equal_llvm(test, "rustc", &lines);
}

/// Fails with the first answers that differ.
fn assert_same(within: &[Lookup], apart: &[Lookup]) {
    assert_eq!(within.len(), apart.len());
    let differ: Vec<_> = within.iter().zip(apart).filter(|(a, b)| a != b).collect();
    let first: Vec<_> = differ.iter().take(2).collect();
    let told: String = format!("{first:#?}").chars().take(6000).collect();
    assert!(differ.is_empty(), "{} differ: {told}", differ.len());
}

/// The answers for a program with all debug information in it, and for the same
/// program after `line` took it elsewhere.
fn before_and_after(line: &str) -> (Built, [Vec<Lookup>; 2]) {
    let built = Built::new();
    built.run("g++ -O2 -g $SOURCES/shapes.cc -o whole; g++ -O1 -g -DOTHER $SOURCES/shapes.cc -o other; cp whole apart");
    built.run(line);
    let addresses = code(&built.path("whole"));
    let of = |name: &str| open(&built.path(name)).lookup_many(&addresses, Detail::Source);
    let found = [of("whole"), of("apart")];
    (built, found)
}

#[test]
fn a_linked_file_of_debug_information_says_the_same() {
    let (_, [within, apart]) = before_and_after(
        "objcopy --only-keep-debug whole apart.debug
         strip apart
         objcopy --add-gnu-debuglink=apart.debug apart",
    );
    assert!(within.iter().any(|lookup| lookup.frames.len() > 3));
    assert_same(&within, &apart);
}

#[test]
fn packed_symbols_name_the_same_functions() {
    if !has("packed_symbols_name_the_same_functions", "xz") {
        return;
    }
    let (_, [within, apart]) = before_and_after(
        "nm whole --format=posix --defined-only | awk '$2 ~ /^[TtWwuV]$/ { print $1 }' | sort -u > keep
         objcopy -S --remove-section .comment --keep-symbols=keep whole packed
         xz packed
         strip apart
         objcopy --add-section .gnu_debugdata=packed.xz apart",
    );
    let name = |lookup: &Lookup| lookup.symbol.as_ref().map(|symbol| symbol.name.clone());
    let names = |found: &[Lookup]| -> HashSet<_> { found.iter().filter_map(name).collect() };
    assert!(names(&within).len() > 20, "{}", names(&within).len());
    let differ = within
        .iter()
        .zip(&apart)
        .filter(|(a, b)| name(a) != name(b));
    let differ: Vec<_> = differ.take(3).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

#[test]
fn what_dwz_shares_is_read_as_elfutils_reads_it() {
    let test = "what_dwz_shares_is_read_as_elfutils_reads_it";
    if !has(test, "dwz") || !has(test, "eu-addr2line") {
        return;
    }
    let (built, [within, apart]) = before_and_after("dwz -m common apart other");
    assert_same(&within, &apart);
    // Of the outermost function it prints the plain name, and of functions without
    // debug information the last line before.
    let theirs = |name: &str, ours: &[Lookup], addresses: &[Svma]| {
        let mut theirs = oracle::elfutils(&built.path(name), addresses);
        for (theirs, ours) in theirs.iter_mut().zip(ours) {
            if let (Some(their), Some(our)) = (theirs.last_mut(), frames(ours).pop()) {
                their.name.clone_from(&our.name);
                if our.file.is_none() {
                    *their = our;
                }
            }
        }
        theirs
    };
    // Where inlined calls overlap, gcc's own debug information is read in two ways:
    // llvm-symbolizer's and ours, and this one's.
    let all = code(&built.path("whole"));
    let pairs = within.iter().zip(theirs("whole", &within, &all)).zip(&all);
    let same =
        pairs.filter(|((ours, theirs), _)| frames(ours) == *theirs || ours.frames.is_empty());
    let addresses: Vec<Svma> = same.map(|(_, svma)| *svma).collect();
    assert!(
        addresses.len() * 100 > all.len() * 99,
        "{} of {}",
        addresses.len(),
        all.len()
    );
    let path = built.path("apart");
    let ours = open(&path).lookup_many(&addresses, Detail::Source);
    let theirs = theirs("apart", &ours, &addresses);
    let compared = compare(&path, (&ours, &theirs), &Names::of(&path));
    eprintln!("dwz: {compared:?}");
    assert!(compared.inlined * 4 > compared.addresses);
}
