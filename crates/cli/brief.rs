//! What `-h` shows of each command, so that it fits a screen: the options that
//! most people need. `--help`, the manual page and completions have all.

use clap::{Arg, Command};

/// Command, and the options that its `-h` shows.
type Brief = (&'static str, &'static [&'static str]);

/// Of these commands `-h` shows the options named here.
const SHOWN: [Brief; 6] = [
    (
        "annotate",
        &[
            "path",
            "clock",
            "dsos",
            "stdio",
            "no_source",
            "percent_limit",
            "print_line",
            "disassembler_style",
        ],
    ),
    (
        "flamegraph",
        &[
            "path", "clock", "output", "format", "reverse", "inverted", "title", "width", "colors",
            "by", "event", "pid", "comms", "time", "freq", "diff",
        ],
    ),
    (
        "record",
        &[
            "event",
            "freq",
            "stacks",
            "output",
            "pid",
            "tid",
            "all_cpus",
            "cpu",
            "user",
            "delay",
            "duration",
            "off_cpu",
            "wakers",
            "overwrite",
            "quiet",
        ],
    ),
    (
        "report",
        &[
            "path",
            "clock",
            "stdio",
            "json",
            "csv",
            "html",
            "web",
            "diff",
            "sort",
            "fields",
            "no_children",
            "call_graph",
            "percent_limit",
            "comms",
            "dsos",
            "symbols",
            "pid",
            "time",
            "missing",
            "locks",
            "wakers",
            "critical_path",
            "what_if",
        ],
    ),
    (
        "script",
        &[
            "path",
            "fields",
            "hide_call_graph",
            "max_stack",
            "header",
            "time",
            "pid",
            "tid",
            "comms",
            "cpu",
            "symbols",
            "dsos",
        ],
    ),
    (
        "stat",
        &[
            "event",
            "all_cpus",
            "cpu",
            "pid",
            "tid",
            "detailed",
            "repeat",
            "interval_print",
            "timeout",
            "delay",
            "no_aggr",
            "per_socket",
            "per_thread",
            "field_separator",
            "json",
            "output",
        ],
    ),
];

/// Where names come from: of every command only in `--help`.
const NAMES: [&str; 6] = [
    "no_inline",
    "no_demangle",
    "vmlinux",
    "ignore_vmlinux",
    "kallsyms",
    "symfs",
];

/// The command line with short help texts.
pub(crate) fn shortened(cli: Command) -> Command {
    cli.mut_subcommands(|command| {
        let shown = SHOWN.iter().find(|(name, _)| *name == command.get_name());
        command.mut_args(|arg| {
            let id = arg.get_id().as_str();
            let is_shown = match shown {
                Some((_, shown)) => shown.contains(&id),
                None => !NAMES.contains(&id),
            };
            let is_hidden = !is_shown && !arg.is_positional();
            match is_hidden {
                true => arg.hide_short_help(true),
                false => arg,
            }
        })
    })
}

/// The command line with options that take `-1` for their value, to say what is
/// wrong with it, instead of looking for an option `-1`.
pub(crate) fn with_negative_numbers(cli: Command) -> Command {
    let takes = |arg: &Arg| {
        let has_value = arg
            .get_num_args()
            .is_none_or(|number| number.takes_values());
        arg.get_action().takes_values() && has_value && !arg.is_positional()
    };
    cli.mut_subcommands(|command| {
        command.mut_args(|arg| match takes(&arg) {
            true => arg.allow_negative_numbers(true),
            false => arg,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::SHOWN;
    use crate::parser;

    /// Lines of a terminal window of a usual height, without the prompt.
    const SCREEN: usize = 48;

    #[test]
    fn what_h_shows_fits_a_screen() {
        let mut cli = parser(None, &[]);
        cli.build();
        for command in cli.get_subcommands() {
            let text = command.clone().term_width(100).render_help().to_string();
            let lines = text.lines().count();
            let name = command.get_name();
            assert!(lines <= SCREEN, "prof {name} -h has {lines} lines:\n{text}");
            let long = command.clone().render_long_help().to_string();
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                if let Some(long_name) = arg.get_long() {
                    assert!(
                        long.contains(&format!("--{long_name}")),
                        "{name}: {long_name}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_shown_is_there() {
        let cli = parser(None, &[]);
        for (name, shown) in SHOWN {
            let command = cli.find_subcommand(name).expect("a command");
            for id in shown {
                let is_it = |arg: &clap::Arg| arg.get_id().as_str() == *id;
                assert!(command.get_arguments().any(is_it), "{name}: {id}");
            }
        }
    }

    #[test]
    fn a_negative_number_is_a_wrong_value_and_no_option() {
        for (words, about) in [
            (["prof", "record", "-F", "-1", "./app"], "--freq"),
            (
                ["prof", "record", "--off-cpu-stacks", "-1", "./app"],
                "--off-cpu-stacks",
            ),
            (["prof", "stat", "-r", "-2", "./app"], "--repeat"),
        ] {
            let error = parser(Some(words[1].as_ref()), &[])
                .try_get_matches_from(words)
                .expect_err("no value");
            let text = error.to_string();
            assert!(
                text.contains("invalid value") && text.contains(about),
                "{text}"
            );
        }
    }
}
