//! What completions offer: the options that help shows, and values of some that
//! take more than those.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use prof_abi::{HARDWARE_EVENTS, SOFTWARE_EVENTS};
use prof_report::keys::SortKey;
use prof_report::script::Field as ScriptField;

/// The commands with what is to be completed.
pub(super) fn completed(whole: &Command) -> Command {
    let mut made = Command::new("prof").args(shown(whole));
    for part in whole.get_subcommands().filter(|it| !it.is_hide_set()) {
        let name = part.get_name().to_owned();
        let arguments = shown(part).map(|arg| with_values(&name, arg));
        let about = part.get_about().cloned().unwrap_or_default();
        made = made.subcommand(Command::new(name.clone()).about(about).args(arguments));
    }
    made
}

/// The arguments that help shows, each for itself: what they exclude may be one that
/// it does not show.
fn shown(command: &Command) -> impl Iterator<Item = Arg> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    // Of what stands without a name the first is enough: files, or words of a list.
    let mut words = 0;
    let shown = shown.filter(move |arg| {
        words += usize::from(arg.is_positional());
        !arg.is_positional() || words == 1
    });
    shown.map(|arg| {
        let mut made = Arg::new(arg.get_id().clone())
            .action(arg.get_action().clone())
            .value_hint(arg.get_value_hint())
            .help(arg.get_help().cloned().unwrap_or_default());
        if let Some(long) = arg.get_long() {
            made = made.long(long.to_owned());
        }
        if let Some(short) = arg.get_short() {
            made = made.short(short);
        }
        if let Some(aliases) = arg.get_visible_aliases() {
            made = made.visible_aliases(aliases.into_iter().map(str::to_owned).collect::<Vec<_>>());
        }
        if let Some(values) = arg.get_num_args() {
            made = made.num_args(values);
        }
        let values: Vec<_> = arg.get_possible_values();
        match arg.get_action().takes_values() && !values.is_empty() {
            true => made.value_parser(PossibleValuesParser::new(values)),
            false => made,
        }
    })
}

/// Beginnings of values that are no closed list: what is usual.
fn with_values(command: &str, arg: Arg) -> Arg {
    const MODES: [&str; 5] = ["auto", "fp", "fp,defer", "dwarf", "lbr"];
    const CLOCKS: [&str; 5] = ["monotonic", "monotonic_raw", "boottime", "realtime", "tai"];
    const COMPUTATIONS: [&str; 4] = ["delta", "delta-abs", "ratio", "wdiff:1,1"];
    const WEIGHTS: [&str; 6] = [
        "overhead",
        "overhead_children",
        "overhead_sys",
        "overhead_us",
        "sample",
        "period",
    ];
    let named = |names: Vec<&'static str>| PossibleValuesParser::new(names);
    let events = || {
        let all = HARDWARE_EVENTS.iter().chain(&SOFTWARE_EVENTS);
        all.map(|event| event.name).collect()
    };
    let keys = || SortKey::all().map(SortKey::name);
    let id = arg.get_long().unwrap_or_default().to_owned();
    let values = match (command, id.as_str()) {
        ("record" | "stat", "event") => events(),
        ("record", "call-graph") => MODES.to_vec(),
        ("record", "clockid") => CLOCKS.to_vec(),
        ("record", "affinity") => vec!["node", "cpu", "sys"],
        (_, "clock") => vec!["cpu", "off", "wall"],
        ("report" | "diff", "sort") => keys().collect(),
        ("diff", "compute") => COMPUTATIONS.to_vec(),
        ("script", "fields") => ScriptField::ALL.iter().map(|field| field.name()).collect(),
        ("report", "fields") => WEIGHTS.into_iter().chain(keys()).collect(),
        _ => return arg,
    };
    arg.value_parser(named(values))
}

#[cfg(test)]
mod tests {
    use super::completed;
    use crate::whole;
    use clap_complete::Shell;

    fn script(shell: Shell) -> String {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut completed(&whole()), "prof", &mut text);
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn what_help_shows_is_completed_and_what_is_refused_is_not() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for shown in [
                "call-graph",
                "off-cpu",
                "percent-limit",
                "no-inline",
                "symfs",
            ] {
                assert!(script.contains(shown), "{shell}: {shown}");
            }
            for refused in [
                "vm-time-correlation",
                "bpf-counters",
                "clang-path",
                "dlfilter",
            ] {
                assert!(!script.contains(refused), "{shell}: {refused}");
            }
        }
    }

    #[test]
    fn values_are_completed() {
        let bash = script(Shell::Bash);
        for values in [
            "cpu-clock task-clock page-faults",
            "auto fp fp,defer dwarf lbr",
            "monotonic monotonic_raw",
            "node cpu sys",
            "cpu off wall",
            "delta delta-abs ratio",
            "comm tid pid time cpu event trace",
        ] {
            assert!(bash.contains(values), "{values}");
        }
        assert!(bash.contains("comm") && bash.contains("symbol_daddr"));
    }
}
