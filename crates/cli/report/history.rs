//! `--branch-history`: branches in call chains.

use super::{Args, usage};
use prof_abi::SampleType;
use prof_perfdata::{FeatureBit, Reader};
use prof_report::keys::{Field, IPC, SortKey, USUAL_FOR_HISTORY};
use prof_report::text::{ChainOrder, TextOptions};
use prof_resolve::BranchHistory;

/// What of it a recording has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded {
    has_callchains: bool,
    tells_branches: bool,
}

impl Recorded {
    /// Fits options to it.
    pub(super) fn apply(&self, options: &mut TextOptions) {
        options.children &= self.has_callchains;
        options.tells_branches = self.tells_branches;
    }
}

impl Args {
    /// How chains are read that branches are put into, if they are.
    pub(super) fn branch_history(&self) -> Option<BranchHistory> {
        let order = match self.order_of_history() {
            ChainOrder::Caller => BranchHistory::CallersFirst,
            ChainOrder::Callee => BranchHistory::CalleesFirst,
        };
        self.columns.branch_history.then_some(order)
    }

    /// As in perf, from the callers unless told otherwise, also where there
    /// are no call chains.
    pub(super) fn order_of_history(&self) -> ChainOrder {
        let given = self.call_graph.and_then(|graph| graph.order);
        match (self.inverted, given) {
            (true, _) => ChainOrder::Caller,
            (false, Some(given)) => given,
            (false, None) if self.no_children => ChainOrder::Callee,
            (false, None) => ChainOrder::Caller,
        }
    }

    /// What rows are told apart by.
    pub(super) fn sort_of_history(&self) -> Vec<Field> {
        let usual = USUAL_FOR_HISTORY.map(Field::Key);
        let Some(given) = &self.columns.sort else {
            return usual.to_vec();
        };
        let mut sort = Vec::new();
        if given.is_added {
            sort.extend(usual);
        }
        sort.extend(&given.fields);
        if given.text.contains("symbol") {
            sort.push(Field::Key(IPC));
        }
        sort
    }

    /// Whether rows are told apart by source line.
    pub(super) fn splits_by_line(&self) -> bool {
        let of_history = self.columns.branch_history && self.columns.sort.is_none();
        of_history || self.given_keys().any(SortKey::splits_by_line)
    }

    /// What the recording has of it, if it is asked for.
    pub(super) fn history_of(&self, reader: &Reader) -> anyhow::Result<Option<Recorded>> {
        if !self.columns.branch_history {
            let mut keys = self.given_keys();
            return match keys.find(|key| key.is_of_branches_in_chains()) {
                Some(key) => Err(usage(format!(
                    "sort key {} tells of branches in call chains; add --branch-history",
                    key.name()
                ))),
                None => Ok(None),
            };
        }
        let events = reader.events().list();
        let has = |bit| events.iter().any(|it| it.attr.sample_type.has(bit));
        let has_callchains = has(SampleType::CALLCHAIN);
        if !has_callchains && !has(SampleType::BRANCH_STACK) {
            return Err(usage(
                "--branch-history puts branches into call chains, but this was recorded without \
                 either; record with -b",
            ));
        }
        Ok(Some(Recorded {
            has_callchains,
            tells_branches: reader.features().has(FeatureBit::BRANCH_STACK),
        }))
    }
}
