//! What became of the stacks, as the recorder tells it in the file and as
//! readers find it there.
//!
//! `PROF_TRUST` holds JSON; a member that is missing counts as nothing, one
//! that is not known is passed over:
//!
//! ```json
//! {"chain_ends": {"Root": 990, "Unproven": 10},
//!  "unrooted": [{"module": "/usr/bin/app", "end": "Unproven", "samples": 10}],
//!  "shortened": 0, "malformed": 0, "uids": {"4711": 1000}}
//! ```
//!
//! `due` are the samples that were due for the CPU time of what was recorded, as
//! the kernel counted it, if far fewer came because tasks were too short.
//! `uids` are the users of processes that made code at run time: perf maps of
//! theirs are believed. A recording whose chains are the kernel's has nothing
//! but them, and `"by_kernel": true`.
//!
//! A recording to a pipe has an empty object before the samples and the whole
//! behind them.

use prof_profile::{ChainEnd, Redaction};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most dsos that a recording names.
const MAX_MODULES: usize = 256;

/// How the user stacks of a recording were unwound: counts of samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveSummary {
    /// Samples with a user part by how their chain ended.
    pub chain_ends: BTreeMap<ChainEnd, u64>,
    /// Of those that did not reach the thread's start: by the path of the
    /// outermost frame's file (empty if it is in none) and the reason.
    pub unrooted: BTreeMap<(String, ChainEnd), u64>,
    /// Chains that no record could hold and that lost frames in the middle.
    pub shortened: u64,
    /// Samples that could not be read and were passed on as they came.
    pub malformed: u64,
    /// Users of processes that made code at run time, by process.
    pub uids: BTreeMap<i32, u32>,
    /// Samples that were due for the CPU time of what was recorded, where far
    /// fewer came because tasks were too short to be sampled; else 0.
    pub due: u64,
    /// Nothing was unwound by the recorder: the kernel made the call chains,
    /// and only `uids` is filled.
    pub by_kernel: bool,
}

impl LiveSummary {
    /// Whether there are chains that ended for lack of memory.
    pub fn wants_memory(&self) -> bool {
        let cut = [ChainEnd::StackCut, ChainEnd::Unproven];
        cut.iter().any(|end| self.chain_ends.contains_key(end))
    }

    /// The difference to an `earlier` summary of the same recording. `uids` are
    /// not subtracted.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        fn more<K: Ord + Clone>(
            now: &BTreeMap<K, u64>,
            then: &BTreeMap<K, u64>,
        ) -> BTreeMap<K, u64> {
            let before = |key| then.get(key).copied().unwrap_or(0);
            let added = now
                .iter()
                .map(|(key, &count)| (key, count.saturating_sub(before(key))));
            let added = added.filter(|&(_, count)| count > 0);
            added.map(|(key, count)| (key.clone(), count)).collect()
        }
        Self {
            chain_ends: more(&self.chain_ends, &earlier.chain_ends),
            unrooted: more(&self.unrooted, &earlier.unrooted),
            shortened: self.shortened.saturating_sub(earlier.shortened),
            malformed: self.malformed.saturating_sub(earlier.malformed),
            uids: self.uids.clone(),
            due: self.due,
            by_kernel: self.by_kernel,
        }
    }

    /// Adds [`LiveSummary::due`] to the JSON of a summary, if samples were due.
    /// Without a summary it becomes one of a recording whose chains the kernel
    /// made.
    pub fn json_with_due(json: Option<String>, due: Option<u64>) -> Option<String> {
        let Some(due) = due else {
            return json;
        };
        let value = json.and_then(|json| serde_json::from_str(&json).ok());
        let mut value = value.unwrap_or_else(|| json!({"by_kernel": true}));
        if let Some(members) = value.as_object_mut() {
            members.insert("due".to_owned(), due.into());
        }
        Some(value.to_string())
    }

    /// The JSON of a summary without users, and with redacted paths; nothing else that
    /// it may hold is in it. `None` if it is none.
    pub fn redacted_json(json: &str, redaction: &Redaction) -> Option<String> {
        const NUMBERS: [&str; 5] = ["chain_ends", "shortened", "malformed", "due", "by_kernel"];
        let mut value: Value = serde_json::from_str(json).ok()?;
        let members = value.as_object_mut()?;
        members.retain(|name, _| name == "unrooted" || NUMBERS.contains(&name.as_str()));
        let unrooted = members.get_mut("unrooted").and_then(Value::as_array_mut);
        for entry in unrooted.into_iter().flatten() {
            if let Some(Value::String(path)) = entry.get_mut("module") {
                *path = redaction.path(path).into_owned();
            }
        }
        Some(value.to_string())
    }

    /// As JSON, for the file.
    pub fn to_json(&self) -> String {
        let ends: Map<String, Value> = self
            .chain_ends
            .iter()
            .map(|(end, &samples)| (end.name().to_owned(), samples.into()))
            .collect();
        let mut dsos: Vec<_> = self.unrooted.iter().collect();
        dsos.sort_by_key(|&(_, &samples)| Reverse(samples));
        let unrooted: Vec<Value> = dsos
            .into_iter()
            .take(MAX_MODULES)
            .map(|((dso, end), samples)| json!({"module": dso, "end": end.name(), "samples": samples}))
            .collect();
        let uids: Map<String, Value> = self
            .uids
            .iter()
            .map(|(pid, &uid)| (pid.to_string(), uid.into()))
            .collect();
        json!({
            "chain_ends": ends,
            "unrooted": unrooted,
            "shortened": self.shortened,
            "malformed": self.malformed,
            "uids": uids,
        })
        .to_string()
    }

    /// Reads the JSON of a file; `None` if it is none.
    pub fn from_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let members = value.as_object()?;
        let count = |name: &str| members.get(name).and_then(Value::as_u64).unwrap_or(0);
        let ends = members.get("chain_ends").and_then(Value::as_object);
        let ends = ends
            .into_iter()
            .flatten()
            .filter_map(|(name, samples)| Some((ChainEnd::from_name(name)?, samples.as_u64()?)));
        let unrooted = members.get("unrooted").and_then(Value::as_array);
        let unrooted = unrooted.into_iter().flatten().take(MAX_MODULES);
        let unrooted = unrooted.filter_map(|entry| {
            let dso = entry.get("module")?.as_str()?.to_owned();
            let end = ChainEnd::from_name(entry.get("end")?.as_str()?)?;
            Some(((dso, end), entry.get("samples")?.as_u64()?))
        });
        let uids = members.get("uids").and_then(Value::as_object);
        let uids = uids.into_iter().flatten().filter_map(|(pid, uid)| {
            let uid = uid.as_u64().and_then(|uid| u32::try_from(uid).ok())?;
            Some((pid.parse().ok()?, uid))
        });
        Some(Self {
            uids: uids.collect(),
            chain_ends: ends.collect(),
            unrooted: unrooted.collect(),
            shortened: count("shortened"),
            malformed: count("malformed"),
            due: count("due"),
            by_kernel: members.get("by_kernel") == Some(&Value::Bool(true)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LiveSummary;
    use prof_profile::{ChainEnd, Redaction};

    #[test]
    fn what_is_written_is_read_back() {
        let mut summary = LiveSummary {
            shortened: 3,
            malformed: 4,
            uids: [(4711, 1000), (4712, u32::MAX)].into_iter().collect(),
            ..LiveSummary::default()
        };
        for (count, end) in ChainEnd::ALL.into_iter().enumerate() {
            summary.chain_ends.insert(end, count as u64);
            summary.unrooted.insert((format!("/lib/{count}"), end), 7);
        }
        assert_eq!(LiveSummary::from_json(&summary.to_json()), Some(summary));
    }

    #[test]
    fn a_part_of_a_recording_has_its_own_account() {
        let mut before = LiveSummary::default();
        before.chain_ends.insert(ChainEnd::Root, 5);
        before.chain_ends.insert(ChainEnd::Unproven, 2);
        let mut after = before.clone();
        after.chain_ends.insert(ChainEnd::Root, 9);
        after
            .unrooted
            .insert(("/lib/a".into(), ChainEnd::Unproven), 1);
        after.shortened = 3;
        let part = after.since(&before);
        assert_eq!(
            part.chain_ends.into_iter().collect::<Vec<_>>(),
            [(ChainEnd::Root, 4)]
        );
        assert_eq!(part.unrooted.len(), 1);
        assert_eq!(part.shortened, 3);
    }

    #[test]
    fn samples_that_were_due_are_told_with_the_rest_and_alone() {
        let due = |json: Option<String>| {
            let json = LiveSummary::json_with_due(json, Some(70))?;
            LiveSummary::from_json(&json)
        };
        let alone = due(None).expect("JSON");
        assert!(alone.by_kernel && alone.due == 70);
        let whole = LiveSummary {
            shortened: 3,
            ..LiveSummary::default()
        };
        let both = due(Some(whole.to_json())).expect("JSON");
        assert!(!both.by_kernel && (both.due, both.shortened) == (70, 3));
        assert_eq!(LiveSummary::json_with_due(None, None), None);
    }

    #[test]
    fn a_redacted_summary_has_the_same_counts_and_nobodys_name() {
        let whole = r#"{"chain_ends": {"Root": 9, "Unproven": 2}, "shortened": 1, "due": 70,
            "unrooted": [{"module": "/home/me/app", "end": "Unproven", "samples": 2}],
            "uids": {"4711": 1000}, "later": "/home/me"}"#;
        let redacted = LiveSummary::redacted_json(whole, &Redaction::default()).expect("JSON");
        assert!(!redacted.contains("/home") && !redacted.contains("4711"));
        let before = LiveSummary::from_json(whole).expect("JSON");
        let after = LiveSummary::from_json(&redacted).expect("JSON");
        assert_eq!(after.chain_ends, before.chain_ends);
        let (module, count) = after.unrooted.first_key_value().expect("one");
        assert_eq!(
            (&*module.0, module.1, *count),
            ("/r1/app", ChainEnd::Unproven, 2)
        );
        assert_eq!((after.due, after.shortened), (70, 1));
        assert_eq!(
            LiveSummary::redacted_json("[]", &Redaction::default()),
            None
        );
    }

    #[test]
    fn what_is_missing_or_unknown_is_passed_over() {
        assert_eq!(LiveSummary::from_json("{}"), Some(LiveSummary::default()));
        for wrong in ["", "[]", "{", "7"] {
            assert_eq!(LiveSummary::from_json(wrong), None, "{wrong}");
        }
        let odd = r#"{"chain_ends": {"Root": -1, "Later": 5, "Unproven": 2},
            "unrooted": [{"module": "x"}, 5], "shortened": "many",
            "uids": {"x": 1, "5": -1, "6": 4294967296, "7": 8}}"#;
        let read = LiveSummary::from_json(odd).expect("an object");
        assert_eq!(
            read.chain_ends.into_iter().collect::<Vec<_>>(),
            [(ChainEnd::Unproven, 2)]
        );
        assert!(read.unrooted.is_empty());
        assert_eq!(read.uids.into_iter().collect::<Vec<_>>(), [(7, 8)]);
    }
}
