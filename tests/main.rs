//! Integration tests of the `prof` binary: make an input, run, compare.
//!
//! `oracle` runs `prof` and what it is compared with; every other module is
//! about one command or one promise.
#![expect(clippy::print_stderr, reason = "a test that cannot run here says why")]

mod against_perf;
mod annotate_options;
mod arguments;
mod bounded_output;
mod branch_views;
mod chosen;
mod command_line;
mod corpus;
mod counting;
mod coverage;
mod cures;
mod data_source;
mod deferred_chains;
mod demo;
mod diff;
mod dump;
mod event_attrs;
mod event_specs;
mod events;
mod fifos;
mod filters;
mod go_programs;
mod header;
mod interop;
mod jit_names;
mod little_memory;
mod losses;
mod machine;
mod many_files;
mod mutants;
mod mutation;
mod oracle;
mod other_roots;
mod patience;
mod perf_options;
mod pmus;
mod probes;
mod record_command;
mod record_control;
mod record_faults;
mod record_files;
mod record_flight;
mod record_streams;
mod record_targets;
mod record_told;
mod record_users;
mod refusals;
mod report_text;
mod ring_memory;
mod script_code;
mod script_corpus;
mod script_options;
mod small_commands;
mod sort_keys;
mod stat_files;
mod stat_options;
mod tui;
mod unwinding;
mod unwinding_kinds;
mod unwinding_proof;
mod written_files;
