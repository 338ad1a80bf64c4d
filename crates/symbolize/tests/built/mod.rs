//! Small ELF files, compiled when a test needs them.

use prof_profile::Svma;
use prof_symbolize::{DsoRequest, Lookup, OpenError, Sources, SymbolFile, Symbolizer};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A program with inlined functions, calls into the C library, and symbols
/// of every binding.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static inline __attribute__((always_inline)) int innermost(int x) {
    return x * 3 + rand();
}
static inline __attribute__((always_inline)) int middle(int x) {
    int sum = 0;
    for (int i = 0; i < x; i++)
        sum += innermost(i);
    return sum;
}
__attribute__((noinline)) int outer(int x) {
    return middle(x) + 7;
}
__attribute__((weak, noinline)) int weak_one(int x) { return outer(x) + 1; }
__attribute__((noinline)) static int local_one(int x) { return weak_one(x) * 2; }
int aliased(int x) __attribute__((alias("outer")));
int main(int count, char **arguments) {
    printf("%d\n", local_one(count));
    return 0;
}
"#;

/// A directory of built files, removed in the end.
pub(crate) struct Built(tempfile::TempDir);

#[allow(dead_code, reason = "each test program uses some of these")]
impl Built {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles [`PROGRAM`] with these options.
    pub(crate) fn program(&self, name: &str, options: &[&str]) -> PathBuf {
        let source = self.path("program.c");
        std::fs::write(&source, PROGRAM).expect("written");
        let path = self.path(name);
        let mut command = Command::new("cc");
        command
            .arg("-O2")
            .args(options)
            .arg("-o")
            .arg(&path)
            .arg(&source);
        run(&mut command);
        path
    }

    /// Assembles a shared object with compressed debug sections.
    pub(crate) fn assembled(&self, name: &str, source: &str) -> PathBuf {
        let from = self.path(&format!("{name}.s"));
        std::fs::write(&from, source).expect("written");
        let path = self.path(name);
        let mut command = Command::new("cc");
        command.args(["-shared", "-nostdlib", "-gz=zlib", "-Wl,-z,notext", "-o"]);
        run(command.arg(&path).arg(&from));
        path
    }
}

fn run(command: &mut Command) {
    let done = command.output().expect("the C compiler runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {errors}");
}

/// Opens a file, taking names from nowhere else.
pub(crate) fn open(path: &Path) -> Result<Arc<SymbolFile>, OpenError> {
    let sources = Sources {
        debug_dirs: Vec::new(),
        build_id_cache: None,
        ..Sources::default()
    };
    let path = path.to_str().expect("a plain path");
    Symbolizer::new(sources).open(&DsoRequest::for_file(path, None))
}

/// What a file says of one address.
#[allow(dead_code, reason = "each test program uses some of these")]
pub(crate) fn look_up(path: &Path, svma: Svma) -> Lookup {
    let file = open(path).expect("opened");
    file.lookup(svma, prof_symbolize::Detail::Source)
}

/// The addresses of all symbols of a file and some between them.
pub(crate) fn addresses_of(path: &Path) -> Vec<Svma> {
    let file = open(path).expect("opened");
    let symbols = file.symbols();
    symbols
        .flat_map(|symbol| [symbol.start, symbol.start.plus(symbol.size / 2)])
        .collect()
}
