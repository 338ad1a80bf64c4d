//! `-G`, which holds for events of the `-e` before it.

use crate::filters::after_events;
use crate::outcome::UsageError;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};
use prof_record::cgroup::{self, Unfit};
use prof_record::events::EventSpec;

/// Each list of cgroups with the number of `-e` before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cgroups(Vec<(usize, String)>);

impl Cgroups {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in order, where no event is named; `None` without.
    pub(crate) fn list(&self) -> Option<String> {
        let lists: Vec<&str> = self.0.iter().map(|(_, list)| list.as_str()).collect();
        (!lists.is_empty()).then(|| lists.join(","))
    }

    /// Gives events their cgroups. `named` has by number of `-e`, from 0, how
    /// many events these name together.
    pub(crate) fn assign(
        &self,
        named: &[usize],
        specs: &mut [EventSpec],
    ) -> Result<(), UsageError> {
        let events = |before: usize| named.get(before).copied().unwrap_or(specs.len());
        let lists: Vec<(usize, &str)> = self
            .0
            .iter()
            .map(|(before, list)| (events(*before), list.as_str()))
            .collect();
        let assigned = cgroup::assign(&lists, specs);
        let list = self.list().unwrap_or_default();
        assigned.map_err(|unfit| {
            UsageError(match unfit {
                Unfit::NoEvents => format!(
                    "-G {list} should follow the -e that it is for\n  try: -e EVENT -G NAME"
                ),
                Unfit::TooMany => format!("-G {list}: there are more cgroups than events"),
            })
        })
    }
}

impl FromArgMatches for Cgroups {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(after_events(matches, "cgroup")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Cgroups {
    fn augment_args(command: Command) -> Command {
        command.arg(
            Arg::new("cgroup")
                .short('G')
                .long("cgroup")
                .value_name("NAME,…")
                .action(ArgAction::Append)
                .help(
                    "Only the tasks of this cgroup for all events named before, or of one for \
                     each event in order, which may be empty; with -a or -C. Several -G are one list",
                ),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
