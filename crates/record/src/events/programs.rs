//! The programs that are to be recorded, in which names without a file are
//! looked up: variables of breakpoints and markers.

use super::probe::functions::{Binary, Variable};
use crate::program_file::look_up;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Whose names may be used in events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs {
    /// The file of the program that is launched.
    pub launched: Option<PathBuf>,
    /// Running processes.
    pub processes: Vec<u32>,
}

impl Programs {
    /// Those of a command, if there is one, and of these processes.
    pub fn new(command: Option<&OsStr>, processes: &[u32]) -> Self {
        Self {
            launched: command.and_then(|name| look_up(name).ok()),
            processes: processes.to_vec(),
        }
    }

    /// The variable or function of this name: in the running processes, in the
    /// program to be launched, or in the kernel. Fails with the reason.
    pub(super) fn variable(&self, name: &str) -> Result<Variable, String> {
        for &pid in &self.processes {
            if let Some(found) = in_process(pid, name) {
                return Ok(found);
            }
        }
        if let Some(path) = &self.launched
            && let Ok(binary) = Binary::open(path)
            && let Some(found) = binary.variable(name)
        {
            if binary.is_moved() {
                return Err(format!(
                    "{} is loaded at an address that is chosen when it starts (PIE)\n  \
                     try: prof record -p PID when it runs, or build it with -no-pie; and",
                    path.display()
                ));
            }
            return Ok(found);
        }
        in_kernel(name).ok_or_else(|| {
            format!("{name} is neither an address nor a name in the programs or the kernel")
        })
    }

    /// The files of the programs: the one to be launched, and all that running
    /// processes have mapped.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.launched.iter().cloned().collect();
        for pid in &self.processes {
            for mapping in mappings(*pid) {
                if !files.contains(&mapping.path) {
                    files.push(mapping.path);
                }
            }
        }
        files
    }
}

struct Mapping {
    start: u64,
    offset: u64,
    path: PathBuf,
}

/// The mapped files of a process.
fn mappings(pid: u32) -> Vec<Mapping> {
    let text = crate::synthesize::maps(pid).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let path = rest.split_once('/')?.1;
        let offset = rest.split_whitespace().nth(1)?;
        Some(Mapping {
            start: u64::from_str_radix(range.split_once('-')?.0, 16).ok()?,
            offset: u64::from_str_radix(offset, 16).ok()?,
            path: Path::new("/").join(path),
        })
    });
    lines.collect()
}

/// A name of the program that a process runs.
fn in_process(pid: u32, name: &str) -> Option<Variable> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let binary = Binary::open(&path).ok()?;
    let found = binary.variable(name)?;
    if !binary.is_moved() {
        return Some(found);
    }
    let first = mappings(pid)
        .into_iter()
        .find(|mapping| mapping.path == path && mapping.offset == 0)?;
    let bias = first.start.wrapping_sub(binary.first_address()?);
    Some(Variable {
        address: found.address.wrapping_add(bias),
        ..found
    })
}

/// A name of the kernel, where its addresses are not hidden.
fn in_kernel(name: &str) -> Option<Variable> {
    let symbols = fs::read_to_string("/proc/kallsyms").ok()?;
    let mut lines = symbols.lines().map(|line| line.splitn(3, ' '));
    let address = lines.find_map(|mut line| {
        let address = line.next()?;
        // A dso's symbols have its name behind them.
        let is_it = line.nth(1)?.split_whitespace().next() == Some(name);
        is_it
            .then(|| u64::from_str_radix(address, 16).ok())
            .flatten()
    })?;
    (address != 0).then_some(Variable { address, size: 0 })
}

#[cfg(test)]
mod tests {
    use super::Programs;

    #[test]
    fn a_name_of_nobody_has_no_address() {
        let own = Programs {
            launched: None,
            processes: vec![std::process::id()],
        };
        let error = own.variable("no_such_name_anywhere").expect_err("none");
        assert!(error.contains("no_such_name_anywhere"), "{error}");
        assert!(!own.files().is_empty(), "the test's own program is mapped");
        // The test is a position-independent program, and this a symbol of it.
        let main = own.variable("main").expect("there is a main");
        assert_eq!(main.address >> 48, 0, "{main:?}");
    }
}
