//! `--debuginfod`: files that are not here, from servers.

use crate::outcome::say;
use crate::progress;
use prof_abi::BuildId;
use prof_debuginfod::{Client, Kind, Settings, SettingsError, Watch};
use prof_report::escape;
use prof_symbolize::{FetchFile, FileOfBuild};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Servers from the option's value, or, without one, from the environment.
pub(crate) fn settings(given: &str) -> Result<Settings, SettingsError> {
    Settings::new(Some(given))
}

/// What fetches from these servers; tells why not, if it cannot.
pub(crate) fn fetcher(settings: &Settings) -> Option<Arc<dyn FetchFile>> {
    match Client::new(settings.clone(), Box::new(Told)) {
        Ok(client) => Some(Arc::new(Fetcher(client))),
        Err(error) => {
            say(&format!("--debuginfod: {error}"));
            None
        }
    }
}

#[derive(Debug)]
struct Fetcher(Client);

impl FetchFile for Fetcher {
    fn fetch(&self, id: &BuildId, what: FileOfBuild, path: &str) -> Option<PathBuf> {
        let (kind, words) = match what {
            FileOfBuild::Program => (Kind::Executable, ""),
            FileOfBuild::DebugInfo => (Kind::DebugInfo, "debug information of "),
        };
        let name = Path::new(path).file_name().unwrap_or_default();
        let name = escape::terminal(&name.to_string_lossy()).into_owned();
        self.0.find(id, kind, &format!("{words}{name}"))
    }
}

/// Tells on stderr, and in the line of what is being done.
struct Told;

impl Watch for Told {
    fn fetching(&self, what: &str, done: u64, all: Option<u64>) {
        let all = all.map(|all| format!(" of {}", all >> 20));
        let counted = format!("{}{} MB", done >> 20, all.unwrap_or_default());
        progress::tell_fetched(Some(format!("fetching {what}, {counted}")));
    }

    fn idle(&self) {
        progress::tell_fetched(None);
    }

    fn trouble(&self, what: &str) {
        say(&format!("--debuginfod: {}", escape::terminal(what)));
    }
}
