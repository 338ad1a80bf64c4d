//! What is counted, and by which keys rows are made.

use super::{Args, usage};
use prof_abi::{AttrFlags, SampleType};
use prof_perfdata::Reader;
use prof_profile::{Counting, Profile};
use prof_report::Format;
use prof_report::keys::{self, Field, PARALLELISM, PARENT, SortKey};

impl Args {
    /// The sort keys; with `--parent`, that one too.
    pub(super) fn sort(&self, counting: Counting) -> Option<Vec<Field>> {
        let usual = || keys::usual(counting).iter().copied().map(Field::Key);
        let chosen = self.columns.fields.as_ref();
        // As perf, whose blocks are of the rows that branches usually have.
        if self.columns.total_cycles {
            return Some(usual().collect());
        }
        if self.columns.branch_history {
            return Some(self.sort_of_history());
        }
        let given = self.columns.sort.as_ref().map(|given| {
            let mut sort = Vec::new();
            if given.is_added {
                sort.extend(usual());
            }
            sort.extend(&given.fields);
            sort
        });
        if self.columns.parent.is_none() {
            let has_own = chosen.is_some_and(|fields| !fields.is_added);
            let other = counting != Counting::Samples && !has_own;
            return given.or_else(|| other.then(|| usual().collect()));
        }
        let mut sort = given.unwrap_or_else(|| match chosen {
            Some(fields) if !fields.is_added => Vec::new(),
            _ => usual().collect(),
        });
        sort.push(Field::Key(PARENT));
        Some(sort)
    }

    pub(super) fn uses(&self, key: SortKey) -> bool {
        self.given_keys().any(|given| given == key)
    }

    pub(super) fn given_keys(&self) -> impl Iterator<Item = SortKey> {
        let both = [&self.columns.sort, &self.columns.fields];
        let fields = both.into_iter().flatten().flat_map(|list| &list.fields);
        fields.filter_map(|field| match field {
            Field::Key(key) => Some(*key),
            _ => None,
        })
    }

    pub(super) fn uses_details(&self) -> bool {
        self.filters.parallelism.is_some() || self.given_keys().any(SortKey::is_of_record)
    }

    /// Whether it matters how many threads ran.
    pub(super) fn counts_threads(&self) -> bool {
        self.filters.parallelism.is_some() || self.uses(PARALLELISM)
    }

    /// What is to be counted; `None` if the recording decides.
    pub(super) fn counting(&self) -> Option<Counting> {
        let columns = &self.columns;
        match (columns.branch_stack, columns.mem_mode) {
            (true, _) if !columns.branch_history => Some(Counting::Branches),
            _ if columns.total_cycles => Some(Counting::Branches),
            _ if columns.branch_history => Some(Counting::Samples),
            (_, true) => Some(Counting::Memory),
            _ if columns.no_branch_stack => Some(Counting::Samples),
            // Programs that read these ask for branches by name.
            _ if self.form.format() != Format::Text => Some(Counting::Samples),
            _ => None,
        }
    }

    /// Whether the recording has what is to be shown.
    pub(super) fn check_counting(&self, profile: &Profile, reader: &Reader) -> anyhow::Result<()> {
        let mut events = reader.events().list().iter();
        let has = |bit| events.any(|event| event.attr.sample_type.has(bit));
        if profile.counting == Counting::Branches && !{ has }(SampleType::BRANCH_STACK) {
            return Err(usage(
                "-b and --total-cycles count branches, but this was recorded without them; record \
                 with -b",
            ));
        }
        let mut events = reader.events().list().iter();
        if self.counts_threads()
            && !events.any(|event| event.attr.flags.has(AttrFlags::CONTEXT_SWITCH))
        {
            return Err(usage(
                "how many threads ran is told by context switches, which were not recorded; \
                 record with --switch-events",
            ));
        }
        let wrong = self
            .given_keys()
            .find(|key| ![Counting::Samples, profile.counting].contains(&key.counting()));
        let Some(key) = wrong else {
            return Ok(());
        };
        let (what, option) = match key.counting() {
            Counting::Memory => ("memory accesses", "--mem-mode"),
            _ => ("branches", "-b"),
        };
        let name = key.name();
        Err(usage(format!(
            "sort key {name} tells of {what}; add {option}"
        )))
    }

    /// The sort keys as perf tells them.
    pub(super) fn sort_text(&self, counting: Counting) -> String {
        match &self.columns.sort {
            Some(given) if given.is_added => {
                let usual = keys::usual(counting).iter();
                let usual: Vec<&str> = usual.map(|key| key.name()).collect();
                format!("{},{}", usual.join(","), given.text)
            }
            Some(given) => given.text.clone(),
            None => keys::USUAL_FOR_MEMORY.to_owned(),
        }
    }
}
