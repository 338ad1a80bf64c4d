//! In which form a report comes.

use prof_report::Format;
use std::path::PathBuf;

/// In which form the report comes.
#[derive(Debug, clap::Args)]
pub(super) struct Form {
    /// Write text, also on a terminal
    #[arg(long)]
    pub(super) stdio: bool,
    /// Open the terminal UI (the default on a terminal)
    ///
    /// It shows what the filters let pass (--comms, --dsos, --symbols, --pid, --tid, -C, --time).
    /// Options that shape the text of tables (--sort, --fields, --percent-limit …) write that text,
    /// also on a terminal.
    #[arg(long, conflicts_with_all = ["stdio", "json", "csv"])]
    pub(super) tui: bool,
    #[command(flatten)]
    pub(super) look: crate::tui::LookOptions,
    /// Compare recordings in the terminal UI: functions with verdicts, the flame graph by what
    /// changed
    ///
    /// Several of a side, with commas between them, tell how much runs differ.
    #[arg(
        long,
        num_args = 2,
        value_names = ["BEFORE", "AFTER"],
        conflicts_with_all = [
            "stdio", "json", "csv", "html", "web", "firefox", "instead", "missing", "locks",
            "wakers", "critical_path", "what_if", "total_cycles", "path", "argument",
            "hierarchy", "sort", "fields", "parent", "call_graph", "branch_stack",
            "branch_history", "idle", "mem_mode", "percent_limit", "comms", "dsos", "symbols",
            "symbol_filter", "pid", "tid", "cpu", "parallelism", "time", "hide_unresolved"
        ]
    )]
    pub(super) diff: Vec<PathBuf>,
    /// Write JSON: events, trust, rows, call tree
    #[arg(long, conflicts_with_all = ["stdio", "csv"])]
    pub(super) json: bool,
    /// Write the rows as comma-separated values
    #[arg(long, conflicts_with = "stdio")]
    pub(super) csv: bool,
    /// Write a page to send: graphs, table, tree
    ///
    /// Of the samples that filters let pass, as prof flamegraph --format html.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdio", "tui", "json", "csv"])]
    pub(super) html: Option<PathBuf>,
    /// With --html: no folders of files, arguments and host's name in the page
    #[arg(long, requires = "html")]
    pub(super) redact: bool,
    /// Show that page in the browser, until Ctrl-C
    ///
    /// It is there for this machine alone.
    #[arg(long, conflicts_with_all = ["stdio", "tui", "json", "csv", "html"])]
    pub(super) web: bool,
    /// Open the recording at profiler.firefox.com, which reads it from this machine, until Ctrl-C
    #[arg(long, conflicts_with_all = ["stdio", "tui", "json", "csv", "html", "web"])]
    pub(super) firefox: bool,
    /// Leave out all comment lines
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Begin with what is known of the machine and the recording
    #[arg(long)]
    pub(super) header: bool,
    /// Show only that
    #[arg(long)]
    pub(super) header_only: bool,
    /// With either, show also the tables of CPUs, memory and caches
    #[arg(short = 'I', long)]
    pub(super) show_info: bool,
    /// Show only how many records there are of each type
    #[arg(long, group = "instead", conflicts_with_all = ["json", "csv", "web", "firefox"])]
    pub(super) stats: bool,
    /// Show only the threads, as a tree
    #[arg(long, group = "instead", conflicts_with_all = ["json", "csv", "web", "firefox"])]
    pub(super) tasks: bool,
    /// Show only the threads and what they had mapped in the end
    #[arg(long, group = "instead", conflicts_with_all = ["json", "csv", "web", "firefox"])]
    pub(super) mmaps: bool,
    /// Tell paths of dsos, and of each symbol the address where it was first
    /// seen and the file its name is from: d the mapped one, b a debug file,
    /// B or D perf's cache, k kallsyms, v a vmlinux, j a JIT compiler's list
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Add what each event counted in each thread (of record -s)
    #[arg(short = 'T', long)]
    pub(super) threads: bool,
}

impl Form {
    /// Whether it is something for a browser.
    pub(super) fn is_page(&self) -> bool {
        self.html.is_some() || self.web || self.firefox
    }

    /// What is written, if anything is.
    pub(super) fn format(&self) -> Format {
        match (self.json, self.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Text,
        }
    }
}
