//! Resolving a recording into a profile, as the options for names say.

use crate::fetching;
use crate::foreign::{self, Found};
use crate::outcome::{Outcome, UsageError, say};
use crate::progress::ProgressLine;
use crate::recording::Input;
use anyhow::Context;
use prof_perfdata::Reader;
use prof_profile::Profile;
use prof_report::escape;
use prof_report::waiting::idle;
use prof_resolve::{LoadOptions, Progress};
use prof_symbolize::{Demangle, Detail, Embedded, Sources, Symbolizer};
use prof_sys::limits;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How names are to be found.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NameOptions {
    /// Do not show inlined functions
    #[arg(long)]
    pub(crate) no_inline: bool,
    /// Show them (the default)
    #[arg(long, overrides_with = "no_inline", hide = true)]
    inline: bool,
    /// Show mangled names
    #[arg(long)]
    pub(crate) no_demangle: bool,
    /// Show names as in the source (the default)
    #[arg(long, overrides_with = "no_demangle", hide = true)]
    demangle: bool,
    /// The kernel's file, instead of looking for it
    #[arg(short = 'k', long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// Do not look for the kernel's file
    #[arg(long, conflicts_with = "vmlinux")]
    ignore_vmlinux: bool,
    /// A copy of /proc/kallsyms, for the kernel's symbols
    #[arg(long, value_name = "FILE")]
    kallsyms: Option<PathBuf>,
    /// Look for recorded files below this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) symfs: Option<PathBuf>,
    /// Fetch programs and debug information that are not here [default: from $DEBUGINFOD_URLS]
    #[arg(long, value_name = "URLS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = fetching::settings)]
    debuginfod: Option<prof_debuginfod::Settings>,
}

impl NameOptions {
    /// Whether inlined functions and lines are looked up.
    pub(crate) fn detail(&self) -> Detail {
        if self.no_inline {
            Detail::Symbol
        } else {
            Detail::Source
        }
    }

    /// A symbolizer that looks where these options say.
    pub(crate) fn symbolizer(&self) -> Symbolizer {
        self.say_what_is_missing();
        let mut sources = Sources {
            // As perf has it: below the root is where all is.
            symfs: self.symfs.clone().filter(|below| below != Path::new("/")),
            vmlinux: self.vmlinux.clone(),
            finds_vmlinux: !self.ignore_vmlinux,
            kallsyms: self.kallsyms.clone(),
            fetch: self.debuginfod.as_ref().and_then(fetching::fetcher),
            ..Sources::default()
        };
        if self.no_demangle {
            sources.demangle = Demangle::No;
        }
        Symbolizer::new(sources)
    }

    /// Tells which of the files that were given cannot be read: without a word
    /// the names that they should have given would just not be there.
    fn say_what_is_missing(&self) {
        let given = [
            ("-k", &self.vmlinux, "the vmlinux of the recorded kernel"),
            (
                "--kallsyms",
                &self.kallsyms,
                "a copy of /proc/kallsyms that root made where it was recorded",
            ),
            (
                "--symfs",
                &self.symfs,
                "the directory that stands for the / of the recorded machine",
            ),
        ];
        for (option, path, wanted) in given {
            let Some(path) = path else {
                continue;
            };
            if let Err(error) = readable(path) {
                let path = path.display().to_string();
                say(&format!(
                    "cannot open {option} {}: {error}; names are shown without it\n  give {wanted}",
                    escape::terminal(&path)
                ));
            }
        }
    }
}

/// Whether a file or directory can be read. A FIFO or device is not opened:
/// that can wait for ever.
fn readable(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        let why = "it is no regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    fs::File::open(path).map(drop)
}

impl Input {
    /// Opens and resolves the recording, with a progress line on a terminal.
    /// What is damaged in it has been said on stderr, and is the outcome.
    ///
    /// # Errors
    /// As [`Input::open`], or when reading fails on the way.
    pub(crate) fn load(
        &self,
        names: &NameOptions,
        symbolizer: &Symbolizer,
    ) -> anyhow::Result<(Profile, Outcome)> {
        self.load_with(names.detail(), symbolizer)
    }

    /// The same, with as much detail as asked for.
    ///
    /// # Errors
    /// As [`Input::load`].
    pub(crate) fn load_with(
        &self,
        detail: Detail,
        symbolizer: &Symbolizer,
    ) -> anyhow::Result<(Profile, Outcome)> {
        let progress = ProgressLine::start();
        let (profile, reader) = self.resolve(symbolizer, detail, &progress)?;
        drop(progress);
        let outcome = self.say_damages(&reader);
        self.say_names_fault(symbolizer);
        Ok((profile, outcome))
    }

    /// Says what is wrong with the names in the recording, if they were needed.
    pub(crate) fn say_names_fault(&self, symbolizer: &Symbolizer) {
        if let Some(fault) = symbolizer.embedded().and_then(Embedded::known_fault) {
            say(&format!(
                "{}: the names in it cannot be used: {fault}; those of files are",
                self.name()
            ));
        }
    }

    /// Opens and resolves the recording without a word; the reader tells what
    /// is damaged.
    ///
    /// # Errors
    /// As [`Input::load`].
    pub(crate) fn resolve(
        &self,
        symbolizer: &Symbolizer,
        detail: Detail,
        progress: &dyn Progress,
    ) -> anyhow::Result<(Profile, Reader)> {
        self.resolve_for(None, symbolizer, detail, progress)
    }

    /// [`Input::resolve`], but reads no longer than `reading_time`.
    ///
    /// # Errors
    /// As [`Input::load`].
    pub(crate) fn resolve_for(
        &self,
        reading_time: Option<Duration>,
        symbolizer: &Symbolizer,
        detail: Detail,
        progress: &dyn Progress,
    ) -> anyhow::Result<(Profile, Reader)> {
        // Tables of all sizes grow and go while a profile is made.
        limits::give_freed_memory_back(1 << 20);
        let (mut profile, reader) = match foreign::find(self, progress)? {
            Found::Profile(profile) => (*profile, foreign::no_recording()?),
            Found::Other(begun) => {
                let options = LoadOptions {
                    reading_time,
                    detail,
                    // Who gives so little time asks the same files for more.
                    forgets_tables: reading_time.is_none() && !symbolizer.keeps_tables(),
                    ..self.load_options()
                };
                self.read_recording(begun, symbolizer, &options, progress)?
            }
        };
        if let Some(clock) = self.clock {
            let shown = profile.show_clock(clock);
            shown.map_err(|why| UsageError(format!("--clock: {}: {why}", self.name())))?;
        }
        if self.folds_idle {
            idle::fold(&mut profile);
        }
        Ok((profile, reader))
    }

    /// Reads what is no profile of another tool; `begun` is standard input,
    /// where its beginning was read.
    fn read_recording(
        &self,
        begun: Option<Box<dyn Read + Send>>,
        symbolizer: &Symbolizer,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> anyhow::Result<(Profile, Reader)> {
        let reader = match begun {
            Some(stream) => Reader::open_stream(stream).with_context(|| self.name())?,
            None => self.open()?,
        };
        let loaded = prof_resolve::load(reader, symbolizer, options, progress);
        if options.reading_time.is_none() {
            limits::give_free_memory_back();
        }
        loaded.with_context(|| format!("cannot read {}", self.name()))
    }

    /// How it is read, but for how long and with which detail.
    fn load_options(&self) -> LoadOptions {
        let usual = LoadOptions::default();
        LoadOptions {
            looking_uid: own_uid(),
            whole_functions: !self.shows_addresses,
            counting: self.counting,
            details: self.details,
            trace_fields: self.trace_fields.clone(),
            branch_history: self.branch_history,
            max_stack: self.max_stack.unwrap_or(usual.max_stack),
            merges_callchains: !self.separate_callchains,
            is_own: self
                .owner()
                .is_some_and(|uid| [0, own_uid()].contains(&uid)),
            recorded_at: self.last_written(),
            ..usual
        }
    }
}

/// Who looks.
fn own_uid() -> u32 {
    fs::metadata("/proc/self").map_or(0, |process| process.uid())
}
