//! What mutants are given to: each command, and what its output may be.

use super::{OTHER, SUBJECT, WRITTEN};

/// What a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// Text that is bounded by the input.
    Text,
    /// A line and more for each record or sample.
    Lines,
    /// A file for programs, bounded by the input.
    File,
}

/// A command; where no word says where the mutant goes, `-f -i MUTANT` ends it.
pub(super) type Given = (&'static [&'static str], Output);

use Output::{File, Lines, Text};

/// Of recordings.
pub(super) const OF_RECORDINGS: &[Given] = &[
    (&["report", "--stdio"], Text),
    (
        &["report", "--stdio", "--no-children", "-g", "caller"],
        Text,
    ),
    (
        &[
            "report",
            "--stdio",
            "-g",
            "flat,0,callee,count",
            "--no-inline",
        ],
        Text,
    ),
    (
        &["report", "--stdio", "-s", "comm,dso,sym,srcline", "-v"],
        Text,
    ),
    (
        &[
            "report",
            "--stdio",
            "--hierarchy",
            "-s",
            "pid,tid,comm,dso,sym",
        ],
        Text,
    ),
    (
        &[
            "report",
            "--stdio",
            "-s",
            "cpu,parent,time,weight,local_weight",
        ],
        Text,
    ),
    (&["report", "--stdio", "--tasks"], Text),
    (&["report", "--stdio", "--mmaps"], Text),
    (&["report", "--stdio", "-T", "-n", "--total-period"], Text),
    (&["report", "--csv"], Text),
    (&["report", "--header-only", "-I"], Text),
    (&["annotate", "--stdio"], Text),
    (&["flamegraph", "-o", "-"], Text),
    (&["flamegraph", "--format", "html", "-o", "-"], Text),
    (&["flamegraph", "--format", "folded", "-o", "-"], Text),
    (&["dump", "--header"], Text),
    (&["dump", "--header", "--json"], Text),
    (&["dump"], Lines),
    (&["dump", "--json"], Lines),
    (
        &[
            "script",
            "-F",
            "+srcline,brstack,iregs,uregs,addr,weight,phys_addr",
        ],
        Lines,
    ),
    (
        &[
            "script",
            "--show-mmap-events",
            "--show-task-events",
            "--header",
            "-I",
        ],
        Lines,
    ),
    (&["buildid-list"], Text),
    (&["buildid-list", "-H"], Text),
    (&["evlist", "-v", "--trace-fields"], Text),
    (&["evlist", "-g"], Text),
    (&["inject", "-b", "-o", "-"], File),
    (&["inject", "--buildid-all", "-o", "-"], File),
    (&["inject", "--convert-callchain", "-o", "-"], File),
    (&["inject", "-s", "-o", "-"], File),
    (&["archive", "-o", WRITTEN], Text),
    (&["archive", "--redact", "-o", WRITTEN], Text),
    (&["stat", "report"], Text),
    (&["stat", "report", "-j"], Text),
    (&["stat", "report", "-A", "-x", ","], Text),
];

/// Of recordings and of profiles of other tools.
pub(super) const OF_ALL: &[Given] = &[
    (&["report", "--stdio", "-g", "caller"], Text),
    (&["report", "--csv", "-s", "pid,tid,dso,sym,srcline"], Text),
    (&["report", "--json"], Text),
    (
        &[
            "flamegraph",
            "--format",
            "html",
            "--by",
            "thread",
            "-o",
            "-",
        ],
        Text,
    ),
    (
        &["flamegraph", "--reverse", "--by", "module", "-o", "-"],
        Text,
    ),
    (&["export", "--format", "pprof", "-o", "-"], File),
    (&["export", "--format", "firefox", "-o", "-"], Text),
    (&["export", "--format", "speedscope", "-o", "-"], Text),
    (&["export", "--format", "callgrind", "-o", "-"], Text),
    (&["export", "--format", "otlp", "-o", "-"], File),
    (&["export", "--format", "folded", "-o", "-"], Text),
    (&["export", "--format", "parquet", "-o", "-"], File),
    (
        &["export", "--format", "firefox", "--redact", "-o", "-"],
        Text,
    ),
    (
        &["export", "--format", "folded", "--redact", "-o", "-"],
        Text,
    ),
    (&["diff", "-f", OTHER, SUBJECT], Text),
    (&["diff", "-f", "--json", SUBJECT, OTHER], Text),
    (
        &[
            "diff",
            "-f",
            "--csv",
            "--by",
            "share",
            "-s",
            "comm,dso,sym",
            OTHER,
            SUBJECT,
        ],
        Text,
    ),
    (&["diff", "-f", "-c", "wdiff:1,2", SUBJECT, OTHER], Text),
    (
        &["flamegraph", "-f", "-o", "-", "--diff", OTHER, SUBJECT],
        Text,
    ),
    (
        &["check", "-f", "-b", "*a* <= 12%", "--json", SUBJECT],
        Text,
    ),
    (
        &[
            "check",
            "-f",
            "--markdown",
            "-b",
            "total <= 1.05x",
            "-b",
            "new <= 1%",
            "--baseline",
            OTHER,
            "--",
            SUBJECT,
        ],
        Text,
    ),
    (&["report", "--csv", "--clock", "off"], Text),
];

/// Of recordings with waits, beside those of all.
pub(super) const OF_WAITS: &[Given] = &[
    (&["report", "--locks"], Text),
    (&["report", "--locks", "--json"], Text),
    (&["report", "--wakers"], Text),
    (&["report", "--wakers", "--json"], Text),
    (&["report", "--critical-path"], Text),
    (&["report", "--critical-path", "--json"], Text),
    (&["report", "--what-if", "hold*=-20%"], Text),
    (&["report", "--what-if", "*=+900%"], Text),
    (
        &["report", "--stdio", "--clock", "off", "-s", "wait,comm,sym"],
        Text,
    ),
    (
        &[
            "report", "--stdio", "--clock", "wall", "-s", "wait", "-g", "caller",
        ],
        Text,
    ),
    (&["report", "--json", "--clock", "off"], Text),
    (
        &[
            "flamegraph",
            "--format",
            "html",
            "--clock",
            "wall",
            "-o",
            "-",
        ],
        Text,
    ),
    (
        &[
            "flamegraph",
            "--format",
            "folded",
            "--states",
            "--clock",
            "off",
            "-o",
            "-",
        ],
        Text,
    ),
];
