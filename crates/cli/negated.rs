//! Options taken back, as perf's are: `--no-NAME` after `--NAME`, and `--NAME`
//! after `--no-NAME`. The last one counts.

use clap::{Arg, ArgAction, Command, Id};
use std::collections::HashSet;
use std::ffi::OsString;

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
///
/// There are more negations than flags, and making them takes longer than to parse a
/// line. So a command has them only if one of the `words` of the line is an option
/// that it does not have by that very name.
pub(crate) fn with_negations(cli: Command, words: &[OsString]) -> Command {
    cli.mut_subcommands(|command| match COMMANDS.contains(&command.get_name()) {
        true => {
            let names: HashSet<&str> = command.get_arguments().flat_map(names_of).collect();
            if words.iter().all(|word| !is_other_option(word, &names)) {
                return command;
            }
            let arguments = command.get_arguments();
            let negations: Vec<Arg> = arguments
                .filter_map(|arg| negation((&command, &names), arg))
                .collect();
            command.args(negations)
        }
        false => command,
    })
}

/// Whether a word is an option by a name that is none of `names`.
fn is_other_option(word: &OsString, names: &HashSet<&str>) -> bool {
    let text = word.to_string_lossy();
    let option = text.strip_prefix("--").unwrap_or_default();
    let name = option.split('=').next().unwrap_or_default();
    !name.is_empty() && !names.contains(name)
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
    use std::ffi::OsString;

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
        let cli = Command::new("prof").subcommand(command);
        let given = |line: &str| -> Vec<String> {
            let words = ["prof", "record"]
                .into_iter()
                .chain(line.split_whitespace());
            let words: Vec<OsString> = words.map(OsString::from).collect();
            let cli = with_negations(cli.clone(), &words);
            let matches = cli.try_get_matches_from(words).expect("known");
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
