//! The formats, and what each is called.

use crate::choice::{Choice, Chosen};
use crate::error::ExportError;
use crate::{bolt, callgrind, firefox, folded, otlp, parquet, pprof, speedscope};
use prof_profile::Profile;
use std::io::Write;
use std::path::Path;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// pprof's, gzipped.
    Pprof,
    /// The Firefox Profiler's processed JSON, gzipped.
    Firefox,
    /// speedscope's JSON.
    Speedscope,
    /// Callgrind's, for KCachegrind and `callgrind_annotate`.
    Callgrind,
    /// OpenTelemetry's profiles, `v1development`.
    Otlp,
    /// Folded stacks: a line of text each.
    Folded,
    /// A table of Apache Parquet.
    Parquet,
    /// Mappings and branch stacks as `perf script` prints them.
    Profgen,
    /// Counts of branches, pre-aggregated for perf2bolt.
    Bolt,
}

/// The kind of input that a format needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeOf {
    /// A profile of samples.
    Samples,
    /// A profile of branches (`prof_profile::Counting::Branches`).
    Branches,
    /// Records with branch stacks, which no profile keeps: `prof_listing`
    /// writes them.
    Records,
}

type Writer = fn(&Chosen<'_>, &mut dyn Write) -> Result<Vec<String>, ExportError>;

/// All there is to know about a format.
struct Spec {
    format: ExportFormat,
    /// What it is called.
    name: &'static str,
    /// How names of files end, the usual end first.
    ends: &'static [&'static str],
    /// Who opens it.
    about: &'static str,
    /// What of a recording it has no place for.
    left_out: &'static str,
    made_of: MadeOf,
    write: Writer,
}

/// The formats, in the order of help. A new one is a file and an entry here.
const SPECS: &[Spec] = &[
    Spec {
        format: ExportFormat::Pprof,
        name: "pprof",
        ends: &[".pb.gz", ".pprof"],
        about: "go tool pprof, Pyroscope, Parca, Perfetto, speedscope",
        left_out: "when and on which CPU each sample was taken, and why stacks end",
        made_of: MadeOf::Samples,
        write: pprof::write,
    },
    Spec {
        format: ExportFormat::Firefox,
        name: "firefox",
        ends: &[".firefox.json.gz", ".profile.json.gz", ".firefox"],
        about: "profiler.firefox.com, profiler-cli, a track for each thread and event",
        left_out: "CPUs, why stacks end, units of events that are not time",
        made_of: MadeOf::Samples,
        write: firefox::write,
    },
    Spec {
        format: ExportFormat::Speedscope,
        name: "speedscope",
        ends: &[".speedscope.json", ".speedscope"],
        about: "speedscope.app, a profile for each thread and event",
        left_out: "addresses, dsos of functions with a source file, CPUs, the time between samples",
        made_of: MadeOf::Samples,
        write: speedscope::write,
    },
    Spec {
        format: ExportFormat::Callgrind,
        name: "callgrind",
        ends: &[".callgrind", ".callgrind.out"],
        about: "KCachegrind, QCachegrind, callgrind_annotate",
        left_out: "threads, times, CPUs, and stacks beyond who called whom",
        made_of: MadeOf::Samples,
        write: callgrind::write,
    },
    Spec {
        format: ExportFormat::Otlp,
        name: "otlp",
        ends: &[".otlp"],
        about: "OpenTelemetry collectors, protocol v1development",
        left_out: "CPUs, why stacks end, and times where the recording has no wall clock",
        made_of: MadeOf::Samples,
        write: otlp::v1development::write,
    },
    Spec {
        format: ExportFormat::Folded,
        name: "folded",
        ends: &[".folded", ".collapsed"],
        about: "scripts and other flame graphs, a line a stack",
        left_out: "times, CPUs, dsos, addresses, the number of samples",
        made_of: MadeOf::Samples,
        write: folded::write,
    },
    Spec {
        format: ExportFormat::Parquet,
        name: "parquet",
        ends: &[".parquet"],
        about: "DuckDB, ClickHouse, DataFusion: a row for each stack, thread and event",
        left_out: "when and on which CPU each sample was taken, lines, addresses, why stacks end",
        made_of: MadeOf::Samples,
        write: parquet::write,
    },
    Spec {
        format: ExportFormat::Profgen,
        name: "profgen",
        ends: &[".profgen", ".perfscript"],
        about: "llvm-profgen --perfscript: mappings and branch stacks, of recordings with branches",
        left_out: "events, weights, threads, times, CPUs and names, which llvm-profgen reads in the program",
        made_of: MadeOf::Records,
        write: |_, _| Err(ExportError::OfRecords),
    },
    Spec {
        format: ExportFormat::Bolt,
        name: "bolt",
        ends: &[".preagg"],
        about: "perf2bolt -pa: counts of the branches of one program, of recordings with branches",
        left_out: "events, weights, threads, times, CPUs, the order of branches, and names",
        made_of: MadeOf::Branches,
        write: bolt::write,
    },
];

/// Writes the chosen samples of a profile in a format. Returns, in words, what
/// the format could not hold besides [`ExportFormat::left_out`].
///
/// # Errors
/// If there is nothing to write, the profile is not what the format is
/// [`MadeOf`], or `out` cannot be written to.
pub fn export(
    profile: &Profile,
    format: ExportFormat,
    choice: &Choice,
    out: &mut dyn Write,
) -> Result<Vec<String>, ExportError> {
    let chosen = Chosen::new(profile, choice);
    if chosen.rows().next().is_none() {
        let hidden = profile.samples.len();
        return Err(ExportError::Nothing { hidden });
    }
    (format.spec().write)(&chosen, out)
}

impl ExportFormat {
    /// All formats, in the order of help.
    pub fn all() -> impl Iterator<Item = Self> {
        SPECS.iter().map(|spec| spec.format)
    }

    fn spec(self) -> &'static Spec {
        let found = SPECS.iter().find(|spec| spec.format == self);
        found.expect("each format has its entry")
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The usual ending of file names, with the dot.
    pub fn end(self) -> &'static str {
        self.spec().ends.first().copied().unwrap_or_default()
    }

    /// Which programs open it, in a few words.
    pub fn about(self) -> &'static str {
        self.spec().about
    }

    /// What it cannot hold of any recording, in words that follow "it does not
    /// hold".
    pub fn left_out(self) -> &'static str {
        self.spec().left_out
    }

    /// The kind of input that it needs.
    pub fn made_of(self) -> MadeOf {
        self.spec().made_of
    }

    /// Whether it is text that may be shown in a terminal.
    pub fn is_text(self) -> bool {
        matches!(
            self,
            Self::Folded | Self::Callgrind | Self::Profgen | Self::Bolt
        )
    }

    /// The format that a file's name suggests by its ending.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        if name.starts_with("callgrind.out") {
            return Some(Self::Callgrind);
        }
        let mut specs = SPECS.iter();
        let spec = specs.find(|spec| spec.ends.iter().any(|end| name.ends_with(end)))?;
        Some(spec.format)
    }
}

#[cfg(test)]
mod tests {
    use super::ExportFormat;
    use std::path::Path;

    #[test]
    fn a_name_tells_its_format() {
        let of = |name: &str| ExportFormat::of_name(Path::new(name));
        assert_eq!(of("x/cpu.pb.gz"), Some(ExportFormat::Pprof));
        assert_eq!(of("a.speedscope.json"), Some(ExportFormat::Speedscope));
        assert_eq!(of("callgrind.out.prof"), Some(ExportFormat::Callgrind));
        assert_eq!(of("a.json"), None);
        for format in ExportFormat::all() {
            let name = format!("a{}", format.end());
            assert_eq!(of(&name), Some(format), "{name}");
        }
    }
}
