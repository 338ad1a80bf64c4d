//! `prof report --missing`: what of each dso could not be found out, why, and
//! the command that helps here.

use prof_profile::{DsoKind, Profile};
use prof_report::escape;
use prof_report::missing::{Missing, What, missing};
use prof_report::trust::wrapped;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
    let mut needs_archive = false;
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
        needs_archive |= cure.ends_with(DBGSYM);
        if !cure.is_empty() {
            say(&format!("try: {cure}"), columns, out)?;
        }
    }
    if needs_archive {
        tell_archive(out)?;
    }
    // Servers have files by their build-ids; one with lines for some addresses has no more.
    let may_be_fetched = |row: &Missing| {
        let dso = profile.dso(row.dso);
        dso.kind == DsoKind::File && dso.build_id.is_some() && !row.is_in_part()
    };
    match rows.iter().any(may_be_fetched) {
        true => writeln!(out, "{FETCHED}"),
        false => Ok(()),
    }
}

/// What brings files of distributions, whichever it is.
const FETCHED: &str = "# or fetch what distributions have, by build-ids:
#   prof report --debuginfod=https://debuginfod.elfutils.org";

/// How packages end that are in an archive of their own.
const DBGSYM: &str = "-dbgsym";

/// Writes the commands that make apt know that archive, unless it does.
fn tell_archive(out: &mut dyn Write) -> io::Result<()> {
    let about = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let Some(lines) = archive(&about).filter(|_| !knows_archive(Path::new("/etc/apt"))) else {
        return Ok(());
    };
    writeln!(
        out,
        "# apt finds packages that end in {DBGSYM} after, once:"
    )?;
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// The commands that make apt know the archive of packages with debug
/// information, by what `/etc/os-release` says.
fn archive(os_release: &str) -> Option<Vec<String>> {
    let value = |key: &str| {
        let mut lines = os_release.lines();
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        let value = value.trim_matches('"');
        let is_plain = value.chars().all(|sign| sign.is_ascii_alphanumeric());
        (is_plain && !value.is_empty()).then_some(value)
    };
    let name = value("VERSION_CODENAME")?;
    let (before, source) = match value("ID")? {
        "debian" => (
            None,
            format!("http://deb.debian.org/debian-debug {name}-debug main"),
        ),
        "ubuntu" => (
            Some("sudo apt install ubuntu-dbgsym-keyring"),
            format!("http://ddebs.ubuntu.com {name} main universe"),
        ),
        _ => return None,
    };
    let mut lines: Vec<String> = before.map(str::to_owned).into_iter().collect();
    lines.push(format!(
        "echo 'deb {source}' |\n  sudo tee /etc/apt/sources.list.d/debug-symbols.list"
    ));
    lines.push("sudo apt update".to_owned());
    Some(lines)
}

/// Whether a file of apt's names such an archive.
fn knows_archive(apt: &Path) -> bool {
    let more = fs::read_dir(apt.join("sources.list.d"));
    let more = more
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let names = |path: PathBuf| {
        let is_long = fs::metadata(&path).is_ok_and(|about| about.len() > LONGEST_LIST);
        let text = match is_long {
            true => String::new(),
            false => fs::read_to_string(path).unwrap_or_default(),
        };
        text.lines().any(|line| {
            let is_comment = line.trim_start().starts_with('#');
            !is_comment && (line.contains("-debug") || line.contains("ddebs."))
        })
    };
    more.chain([apt.join("sources.list")]).any(names)
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
    if !by_package || kind != DsoKind::File || row.is_in_part() {
        return row.cure().to_owned();
    }
    match debian_package(Path::new("/var/lib/dpkg/info"), path) {
        Some(package) => format!("sudo apt install {}", debug_package(&package)),
        None if Path::new("/var/lib/rpm").exists()
            || Path::new("/usr/lib/sysimage/rpm").exists() =>
        {
            format!(
                "sudo dnf debuginfo-install $(rpm -qf {})",
                escape::terminal(path)
            )
        }
        None => "build it with -g (gcc, clang) or debug = 1 in Cargo.toml's profile, and do not \
                 strip it"
            .to_owned(),
    }
}

/// The package with the debug information of another one's files. Those that
/// are no `-dbgsym` are older than that archive.
fn debug_package(package: &str) -> String {
    let java = package.strip_prefix("openjdk-").and_then(|rest| {
        let (version, _) = rest.split_once("-j")?;
        version.parse::<u32>().ok()
    });
    match (package, java) {
        ("libc6", _) => "libc6-dbg".to_owned(),
        (_, Some(version)) => format!("openjdk-{version}-dbg"),
        _ => format!("{package}{DBGSYM}"),
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
    use super::{archive, debian_package, debug_package, knows_archive};

    #[test]
    fn the_package_of_a_file_is_found_with_and_without_usr() {
        let lists = tempfile::tempdir().expect("a folder");
        let list = lists.path().join("libc6:amd64.list");
        std::fs::write(list, "/.\n/lib/x86_64-linux-gnu/libc.so.6\n").expect("written");
        let found = debian_package(lists.path(), "/usr/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(found.as_deref(), Some("libc6"));
        assert_eq!(debian_package(lists.path(), "/usr/bin/other"), None);
    }

    #[test]
    fn packages_with_debug_information_are_named_as_distributions_do() {
        assert_eq!(debug_package("libc6"), "libc6-dbg");
        assert_eq!(debug_package("coreutils"), "coreutils-dbgsym");
        assert_eq!(debug_package("openjdk-17-jre-headless"), "openjdk-17-dbg");
        let debian = "ID=debian\nVERSION_CODENAME=bookworm\n";
        let told = archive(debian).expect("Debian").join("\n");
        assert!(
            told.contains("/debian-debug bookworm-debug main'"),
            "{told}"
        );
        let ubuntu = "VERSION_CODENAME=\"noble\"\nID=ubuntu\n";
        let told = archive(ubuntu).expect("Ubuntu").join("\n");
        assert!(told.contains("ddebs.ubuntu.com noble"), "{told}");
        for other in ["", "ID=fedora\n", "ID=debian\nVERSION_CODENAME=$(reboot)\n"] {
            assert_eq!(archive(other), None, "{other}");
        }
    }

    #[test]
    fn an_archive_that_apt_knows_is_not_told_again() {
        let apt = tempfile::tempdir().expect("a folder");
        let list = apt.path().join("sources.list");
        std::fs::write(&list, "deb http://deb.debian.org/debian bookworm main\n").expect("written");
        assert!(!knows_archive(apt.path()));
        let more = apt.path().join("sources.list.d");
        std::fs::create_dir(&more).expect("a folder");
        let line = "deb http://deb.debian.org/debian-debug bookworm-debug main\n";
        std::fs::write(more.join("debug.list"), format!("# {line}")).expect("written");
        assert!(!knows_archive(apt.path()));
        std::fs::write(more.join("debug.list"), line).expect("written");
        assert!(knows_archive(apt.path()));
    }
}
