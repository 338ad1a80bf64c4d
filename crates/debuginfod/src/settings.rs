//! Where is asked and within which bounds: the environment of elfutils'
//! clients.

use std::env;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// How long a server may say nothing, where nobody says.
const SILENT: Duration = Duration::from_secs(20);
/// How long all files together may take.
const TOTAL: Duration = Duration::from_secs(120);
/// Bytes that one file may have: those of the largest browsers' debug
/// information.
const SIZE: u64 = 4 << 30;

/// Servers, cache and bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The beginnings of their URLs, asked in this order, without a slash at
    /// the end.
    pub servers: Vec<String>,
    /// The folder of the cache.
    pub cache: PathBuf,
    /// How long a server may be silent (`DEBUGINFOD_TIMEOUT`).
    pub silent: Duration,
    /// How long all files together may take (`DEBUGINFOD_MAXTIME`).
    pub total: Duration,
    /// Most bytes of a file (`DEBUGINFOD_MAXSIZE`).
    pub size: u64,
}

/// Why there is no client.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// No server is named.
    #[error(
        "no debuginfod server is named\n  try: --debuginfod=URL, or DEBUGINFOD_URLS=URL in the environment"
    )]
    NoServer,
    /// What is named is none.
    #[error(
        "{0}: not http://HOST or https://HOST\n  try: --debuginfod=https://debuginfod.debian.net"
    )]
    NoUrl(String),
    /// No folder for the cache.
    #[error("there is no place for the cache\n  try: DEBUGINFOD_CACHE_PATH=DIR")]
    NoCache,
    /// No certificate authorities, which HTTPS needs.
    #[error("this system has no certificates of authorities\n  try: install ca-certificates")]
    NoAuthority,
}

impl Settings {
    /// Servers from `given`, or else from `DEBUGINFOD_URLS`, separated by
    /// spaces or commas; the rest from the environment.
    ///
    /// # Errors
    /// If no server is named, or there is no place for the cache.
    pub fn new(given: Option<&str>) -> Result<Self, SettingsError> {
        let named = given.filter(|given| !given.is_empty()).map(str::to_owned);
        let named = named.or_else(|| env::var("DEBUGINFOD_URLS").ok());
        let number = |name| env::var(name).ok()?.trim().parse::<u64>().ok();
        // As for elfutils, none is no bound.
        let seconds = |name| number(name).filter(|&it| it > 0).map(Duration::from_secs);
        Ok(Self {
            servers: servers(&named.unwrap_or_default())?,
            cache: cache().ok_or(SettingsError::NoCache)?,
            silent: seconds("DEBUGINFOD_TIMEOUT").unwrap_or(SILENT),
            total: seconds("DEBUGINFOD_MAXTIME").unwrap_or(TOTAL),
            size: number("DEBUGINFOD_MAXSIZE")
                .filter(|&it| it > 0)
                .unwrap_or(SIZE),
        })
    }
}

/// The servers of a list.
fn servers(list: &str) -> Result<Vec<String>, SettingsError> {
    let words = list
        .split([' ', ',', '\n', '\t'])
        .filter(|it| !it.is_empty());
    let servers: Vec<String> = words
        .map(|word| {
            let rest = word
                .strip_prefix("https://")
                .or_else(|| word.strip_prefix("http://"));
            let is_plain = |it: char| it.is_ascii_graphic() && !"\"'<>\\`{}|^".contains(it);
            let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
            match has_host && word.chars().all(is_plain) {
                true => Ok(word.trim_end_matches('/').to_owned()),
                false => Err(SettingsError::NoUrl(word.to_owned())),
            }
        })
        .collect::<Result<_, _>>()?;
    match servers.is_empty() {
        true => Err(SettingsError::NoServer),
        false => Ok(servers),
    }
}

/// Where elfutils has it.
fn cache() -> Option<PathBuf> {
    let path = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = path("HOME");
    let old = home
        .as_ref()
        .map(|home| home.join(".debuginfod_client_cache"));
    path("DEBUGINFOD_CACHE_PATH")
        .or_else(|| old.filter(|old| old.is_dir()))
        .or_else(|| Some(path("XDG_CACHE_HOME")?.join("debuginfod_client")))
        .or_else(|| Some(home?.join(".cache/debuginfod_client")))
}

#[cfg(test)]
mod tests {
    use super::{SettingsError, servers};

    #[test]
    fn servers_are_taken_from_a_list() {
        let list = servers("https://one.example/  http://two.example:8002").expect("two");
        assert_eq!(list, ["https://one.example", "http://two.example:8002"]);
        assert!(matches!(servers(" "), Err(SettingsError::NoServer)));
        for wrong in [
            "ftp://a",
            "debuginfod.debian.net",
            "http://",
            "https:///x",
            "http://a/\u{1b}",
        ] {
            assert!(
                matches!(servers(wrong), Err(SettingsError::NoUrl(_))),
                "{wrong}"
            );
        }
    }
}
