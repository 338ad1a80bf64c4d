//! Sources of Rust's standard library, whose paths in debug information are
//! those of the machine that built it: `/rustc/HASH/library/...`.

use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// Sources of one version, as the component `rust-src` installs them.
#[derive(Debug, PartialEq, Eq)]
struct Sources {
    /// The beginning of the commit's hash.
    commit: String,
    /// What stands for `/rustc/HASH`.
    root: PathBuf,
}

/// Where the source of such a path is here; `None` for other paths, and if
/// the sources of exactly that version are not installed.
pub(crate) fn find(file: &str) -> Option<PathBuf> {
    static INSTALLED: OnceLock<Vec<Sources>> = OnceLock::new();
    let (commit, rest) = split(file)?;
    let installed = INSTALLED.get_or_init(|| {
        let toolchains = toolchains(|name| std::env::var_os(name).map(PathBuf::from));
        toolchains
            .iter()
            .filter_map(|one| sources_of(one))
            .collect()
    });
    found_in(installed, commit, rest)
}

/// Commit and path within the sources.
fn split(file: &str) -> Option<(&str, &Path)> {
    let (commit, rest) = file.strip_prefix("/rustc/")?.split_once('/')?;
    let is_hash = commit.len() == 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit());
    let rest = Path::new(rest);
    // The path comes from a recording: it must not lead out of the sources.
    let is_inside = rest
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (is_hash && is_inside).then_some((commit, rest))
}

fn found_in(installed: &[Sources], commit: &str, rest: &Path) -> Option<PathBuf> {
    let mut fitting = installed
        .iter()
        .filter(|one| commit.starts_with(&one.commit));
    fitting.find_map(|one| Some(one.root.join(rest)).filter(|path| path.is_file()))
}

/// Folders of toolchains: those of rustup.
fn toolchains(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let own = variable("HOME").map(|home| home.join(".rustup"));
    let homes = [variable("RUSTUP_HOME"), own];
    let folders = homes
        .into_iter()
        .flatten()
        .filter_map(|home| home.join("toolchains").read_dir().ok());
    let mut found: Vec<PathBuf> = folders
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    // The same file is found whatever the order of the directory.
    found.sort();
    found
}

/// The sources that a toolchain has, if it has them and tells their version.
fn sources_of(toolchain: &Path) -> Option<Sources> {
    /// Manifests have about a megabyte.
    const LONGEST: u64 = 16 << 20;
    let folder = toolchain.join("lib/rustlib");
    let root = folder.join("src/rust");
    if !root.is_dir() {
        return None;
    }
    let manifest = std::fs::File::open(folder.join("multirust-channel-manifest.toml")).ok()?;
    let mut text = String::new();
    manifest.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(Sources {
        commit: commit_in(&text)?.to_string(),
        root,
    })
}

/// The commit of `version = "1.95.0 (59807616e 2026-04-14)"` in the entry of
/// the sources.
fn commit_in(manifest: &str) -> Option<&str> {
    let (_, entry) = manifest.split_once("[pkg.rust-src]")?;
    let (entry, _) = entry.split_once("[pkg.").unwrap_or((entry, ""));
    let line = entry.lines().find(|line| line.starts_with("version ="))?;
    let (_, version) = line.split_once('(')?;
    let commit = version.split([' ', ')']).next()?;
    let is_hash = commit.len() >= 7 && commit.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hash.then_some(commit)
}

#[cfg(test)]
mod tests {
    use super::{commit_in, found_in, sources_of, split, toolchains};
    use std::fs;
    use std::path::Path;

    const HASH: &str = "59807616e1fa2540724bfbac14d7976d7e4a3860";

    #[test]
    fn only_paths_of_rust_s_own_sources_are_taken() {
        let file = format!("/rustc/{HASH}/library/core/src/slice/sort.rs");
        assert_eq!(
            split(&file),
            Some((HASH, Path::new("library/core/src/slice/sort.rs")))
        );
        for other in [
            "/src/app.rs".to_string(),
            "/rustc/library/core/src/lib.rs".into(),
            format!("/rustc/{HASH}/../../etc/passwd"),
            format!("/rustc/{HASH}//etc/passwd"),
            format!("/rustc/{HASH}"),
        ] {
            assert_eq!(split(&other), None, "{other}");
        }
    }

    #[test]
    fn sources_are_found_by_their_commit() {
        let home = tempfile::tempdir().expect("a folder");
        let toolchain = home.path().join(".rustup/toolchains/stable");
        let folder = toolchain.join("lib/rustlib");
        fs::create_dir_all(folder.join("src/rust/library")).expect("writable");
        fs::write(folder.join("src/rust/library/a.rs"), "").expect("writable");
        let manifest = "[pkg.rust]\nversion = \"1.0.0 (000000000 2026-01-01)\"\n\n\
                        [pkg.rust-src]\nversion = \"1.95.0 (59807616e 2026-04-14)\"\n\n\
                        [pkg.rust-src.target.\"*\"]\n";
        assert_eq!(commit_in(manifest), Some("59807616e"));
        assert_eq!(commit_in("[pkg.rust-src]\nversion = \"1.95.0\"\n"), None);
        assert_eq!(sources_of(&toolchain), None);
        fs::write(folder.join("multirust-channel-manifest.toml"), manifest).expect("writable");
        let own = home.path().to_path_buf();
        let all = toolchains(|name| (name == "HOME").then(|| own.clone()));
        let installed: Vec<_> = all.iter().filter_map(|one| sources_of(one)).collect();
        let found = found_in(&installed, HASH, Path::new("library/a.rs"));
        assert_eq!(found, Some(folder.join("src/rust/library/a.rs")));
        // Another version's are not these.
        let other = HASH.replace('5', "6");
        assert_eq!(
            found_in(&installed, &other, Path::new("library/a.rs")),
            None
        );
        assert_eq!(found_in(&installed, HASH, Path::new("library/b.rs")), None);
    }
}
