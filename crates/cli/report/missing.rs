//! `prof report --missing`: what of each dso could not be found out, why, and
//! the command that helps here.

use prof_profile::{DsoKind, Profile};
use prof_report::escape;
use prof_report::missing::{Missing, What, missing};
use prof_report::trust::wrapped;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Files of the package manager are read up to here, bytes.
const LONGEST_LIST: u64 = 4 << 20;

/// Columns before what is said of a dso.
const BEFORE: usize = 30;

/// Writes the table, for a terminal of so many `columns`.
pub(super) fn write(
    profile: &Profile,
    columns: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows = missing(profile);
    if rows.is_empty() {
        return writeln!(out, "# nothing is missing: all code has names and lines");
    }
    writeln!(out, "# Missing  Addresses      Of  Dso")?;
    for row in &rows {
        let dso = profile.dso(row.dso);
        let path = escape::terminal(profile.name(dso.path)).into_owned();
        let what = match row.what {
            What::Names => "names",
            _ => "lines",
        };
        writeln!(out, "{what:>9} {:>10} {:>7}  {path}", row.addresses, row.of)?;
        say(&format!("why: {}", row.cause()), columns, out)?;
        if let Some(id) = dso.build_id {
            say(&format!("build-id: {id}"), columns, out)?;
        }
        let cure = cure(row, dso.kind, profile.name(dso.path));
        if !cure.is_empty() {
            say(&format!("try: {cure}"), columns, out)?;
        }
    }
    Ok(())
}

/// Writes a line about a dso, in several where a terminal needs it.
fn say(line: &str, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let before = match columns {
        Some(columns) => BEFORE.min(columns / 8),
        None => BEFORE,
    };
    let lines = match columns {
        Some(columns) => wrapped(line, columns.saturating_sub(before)),
        None => vec![line.to_owned()],
    };
    let mut lines = lines.iter();
    lines.try_for_each(|line| writeln!(out, "{:before$}{line}", ""))
}

/// What helps: where debug information is missing, the package that has it.
fn cure(row: &Missing, kind: DsoKind, path: &str) -> String {
    use prof_profile::UnnamedReason::{NoSymbolThere, Stripped};
    let by_package = matches!(row.reason, None | Some(Stripped | NoSymbolThere));
    if !by_package || kind != DsoKind::File {
        return row.cure().to_owned();
    }
    match debian_package(Path::new("/var/lib/dpkg/info"), path) {
        Some(package) => format!(
            "its package is {package}; apt install {package}-dbg or {package}-dbgsym, whichever \
             there is (dbgsym: from the archive debian-debug or ddebs)"
        ),
        None if Path::new("/var/lib/rpm").exists()
            || Path::new("/usr/lib/sysimage/rpm").exists() =>
        {
            format!(
                "dnf debuginfo-install $(rpm -qf {})",
                escape::terminal(path)
            )
        }
        None => "build it with -g (gcc, clang) or debug = 1 in Cargo.toml's profile, and do not \
                 strip it"
            .to_owned(),
    }
}

/// The package that a file is of, by the lists of dpkg. On a merged `/usr` the
/// lists may have the path without it.
fn debian_package(lists: &Path, path: &str) -> Option<String> {
    let without_usr = path.strip_prefix("/usr").unwrap_or(path);
    for entry in fs::read_dir(lists).ok()? {
        let list = entry.ok()?.path();
        if list.extension().is_none_or(|it| it != "list") {
            continue;
        }
        let is_long = list
            .metadata()
            .is_ok_and(|about| about.len() > LONGEST_LIST);
        let text = match is_long {
            true => continue,
            false => fs::read_to_string(&list).unwrap_or_default(),
        };
        if text.lines().any(|line| line == path || line == without_usr) {
            let name = list.file_stem()?.to_str()?;
            // `libc6:amd64` is the package libc6.
            return name.split(':').next().map(str::to_owned);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::debian_package;

    #[test]
    fn the_package_of_a_file_is_found_with_and_without_usr() {
        let lists = tempfile::tempdir().expect("a folder");
        let list = lists.path().join("libc6:amd64.list");
        std::fs::write(list, "/.\n/lib/x86_64-linux-gnu/libc.so.6\n").expect("written");
        let found = debian_package(lists.path(), "/usr/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(found.as_deref(), Some("libc6"));
        assert_eq!(debian_package(lists.path(), "/usr/bin/other"), None);
    }
}
