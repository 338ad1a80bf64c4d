//! Options taken back, as perf's are: `--no-NAME` after `--NAME`, and `--NAME`
//! after `--no-NAME`. The last one counts.

use clap::{Arg, ArgAction, Command, Id};
use std::collections::HashSet;

/// Commands that perf has too.
const COMMANDS: [&str; 9] = [
    "annotate",
    "buildid-list",
    "evlist",
    "inject",
    "list",
    "record",
    "report",
    "script",
    "stat",
];

/// The command line where flags of the commands of perf can be taken back, and
/// call graphs. Help does not show it.
pub(crate) fn with_negations(cli: Command) -> Command {
    cli.mut_subcommands(|command| match COMMANDS.contains(&command.get_name()) {
        true => {
            let names: HashSet<&str> = command.get_arguments().flat_map(names_of).collect();
            let arguments = command.get_arguments();
            let negations: Vec<Arg> = arguments
                .filter_map(|arg| negation((&command, &names), arg))
                .collect();
            command.args(negations)
        }
        false => command,
    })
}

/// What takes `arg` back, unless the command has an option of that name: `names` are
/// those of its options.
fn negation((command, names): (&Command, &HashSet<&str>), arg: &Arg) -> Option<Arg> {
    let name = arg.get_long()?;
    let is_call_graph = name == "call-graph";
    let takes_values = arg
        .get_num_args()
        .is_none_or(|number| number.min_values() > 0);
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count);
    if !is_flag && takes_values && !is_call_graph {
        return None;
    }
    let mut others: Vec<String> = names_of(arg)
        .map(negated)
        .filter(|other| !names.contains(other.as_str()))
        .collect();
    if others.is_empty() {
        return None;
    }
    let long = others.remove(0);
    let ids = command.get_arguments().map(Arg::get_id);
    // -g of record is --call-graph auto.
    let undone = |id: &&Id| *id == arg.get_id() || is_call_graph && *id == "stacks";
    let undone: Vec<Id> = ids.filter(undone).cloned().collect();
    let negation = Arg::new(format!("taken back: {name}")).long(long);
    Some(
        negation
            .aliases(others)
            .hide(true)
            .action(ArgAction::SetTrue)
            .overrides_with_all(undone),
    )
}

fn negated(name: &str) -> String {
    match name.strip_prefix("no-") {
        Some(positive) => positive.to_owned(),
        None => format!("no-{name}"),
    }
}

/// An option's name, and what else it is called.
fn names_of(arg: &Arg) -> impl Iterator<Item = &str> {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    arg.get_long().into_iter().chain(aliases)
}

#[cfg(test)]
mod tests {
    use super::with_negations;
    use clap::{Arg, ArgAction, Command};

    #[test]
    fn the_last_of_an_option_and_its_negation_counts() {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let command = Command::new("record")
            .args_override_self(true)
            .args([
                flag("data"),
                flag("no-inherit"),
                flag("no-scale"),
                flag("scale"),
            ])
            .arg(Arg::new("stacks").short('g').action(ArgAction::SetTrue))
            .arg(Arg::new("call_graph").long("call-graph"));
        let cli = with_negations(Command::new("prof").subcommand(command));
        let given = |line: &str| -> Vec<String> {
            let words = ["prof", "record"]
                .into_iter()
                .chain(line.split_whitespace());
            let matches = cli.clone().try_get_matches_from(words).expect("known");
            let (_, matches) = matches.subcommand().expect("a command");
            let is_given = |name: &&str| {
                matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine)
            };
            ["data", "no-inherit", "stacks", "call_graph"]
                .iter()
                .filter(|name| is_given(name))
                .map(|name| (*name).to_owned())
                .collect()
        };
        assert!(given("--data --no-data").is_empty());
        assert_eq!(given("--no-data --data"), ["data"]);
        assert!(given("--no-inherit --inherit").is_empty());
        assert_eq!(given("--inherit --no-inherit"), ["no-inherit"]);
        assert!(given("-g --no-call-graph").is_empty());
        assert!(given("--call-graph fp --no-call-graph").is_empty());
        assert_eq!(given("--no-call-graph -g"), ["stacks"]);
    }
}
