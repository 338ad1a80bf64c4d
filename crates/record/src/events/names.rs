//! Names of events beyond those of the table: spellings of cache events, and
//! what a misspelt name may have meant.

use prof_abi::{
    EventAttr, HARDWARE_EVENTS, NamedEvent, SOFTWARE_EVENTS, cache_events, event_by_name,
    event_kind,
};

/// Aliases of each cache, first the one to print; the index is its id.
const CACHES: [&[&str]; 7] = [
    &["L1-dcache", "l1-d", "l1d", "L1-data"],
    &["L1-icache", "l1-i", "l1i", "L1-instruction"],
    &["LLC", "L2"],
    &["dTLB", "d-tlb", "Data-TLB"],
    &["iTLB", "i-tlb", "Instruction-TLB"],
    &["branch", "branches", "bpu", "btb", "bpc"],
    &["node"],
];

/// Aliases of each operation, with its name in the plural first.
const OPERATIONS: [&[&str]; 3] = [
    &["loads", "load", "read"],
    &["stores", "store", "write"],
    &[
        "prefetches",
        "prefetch",
        "speculative-read",
        "speculative-load",
    ],
];

/// Aliases of each result.
const RESULTS: [&[&str]; 2] = [&["refs", "Reference", "ops", "access"], &["misses", "miss"]];

/// Kind and `config` of the event of this name: those of
/// [`event_by_name`], and perf's other spellings of cache events.
pub(crate) fn number_of(name: &str) -> Option<(u32, u64)> {
    event_by_name(name).or_else(|| Some((event_kind::CACHE, cache_config(name)?)))
}

/// A name without modifiers or terms.
pub(super) fn plain_attr(name: &str) -> Option<EventAttr> {
    let lower = name.to_ascii_lowercase();
    let number = number_of(name).or_else(|| number_of(&lower));
    let (kind, config) = number.or_else(|| {
        let digits = name.strip_prefix('r')?;
        let config = u64::from_str_radix(digits, 16).ok()?;
        Some((event_kind::RAW, config))
    })?;
    Some(EventAttr {
        kind,
        config,
        ..EventAttr::default()
    })
}

/// `CACHE[-OPERATION][-RESULT]`; without an operation it is a load, without a
/// result an access.
fn cache_config(name: &str) -> Option<u64> {
    let (cache, rest) = longest_alias(&CACHES, name)?;
    let (operation, rest) = match rest.strip_prefix('-') {
        None if rest.is_empty() => (0, rest),
        None => return None,
        Some(tail) => longest_alias(&OPERATIONS, tail).unwrap_or((0, rest)),
    };
    let result = match rest.strip_prefix('-') {
        None if rest.is_empty() => 0,
        None => return None,
        Some(tail) => longest_alias(&RESULTS, tail)
            .filter(|(_, rest)| rest.is_empty())
            .map(|(result, _)| result)?,
    };
    Some(cache as u64 | (operation as u64) << 8 | (result as u64) << 16)
}

/// The row with the longest alias that `text` begins with, whatever its case,
/// and what follows; an alias ends at a `-` or at the end.
fn longest_alias<'a>(rows: &[&[&str]], text: &'a str) -> Option<(usize, &'a str)> {
    rows.iter()
        .enumerate()
        .flat_map(|(row, aliases)| aliases.iter().map(move |alias| (row, *alias)))
        .filter(|(_, alias)| {
            text.get(..alias.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(alias))
                && matches!(text.as_bytes().get(alias.len()), None | Some(b'-'))
        })
        .max_by_key(|(_, alias)| alias.len())
        .and_then(|(row, alias)| Some((row, text.get(alias.len()..)?)))
}

/// The known name nearest to `name`, if one is near enough to be meant.
pub(crate) fn nearest(name: &str) -> Option<String> {
    let named = HARDWARE_EVENTS.iter().chain(&SOFTWARE_EVENTS);
    let spellings = |event: &NamedEvent| [Some(event.name), event.alias];
    named
        .flat_map(spellings)
        .flatten()
        .map(str::to_owned)
        .chain(cache_events().map(|(name, _)| name))
        .map(|known| (distance(name, &known), known))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .map(|(_, known)| known)
}

/// How many letters to insert, remove or replace to make one name of the other; of
/// the first one 64 letters count.
pub fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().take(64).enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        let mut next = vec![left];
        for (&up, &other) in row.iter().skip(1).zip(&to) {
            left = (diagonal + usize::from(letter != other))
                .min(up + 1)
                .min(left + 1);
            diagonal = up;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{nearest, number_of};
    use prof_abi::cache_events;

    #[test]
    fn ev_23_cache_names_and_aliases_encode_as_perf_does() {
        // covers unit: EV-23
        let config = |name| number_of(name);
        assert_eq!(config("L1-dcache-load-misses"), Some((3, 0x10000)));
        assert_eq!(config("L1-dcache-loads"), Some((3, 0)));
        assert_eq!(config("LLC-stores"), Some((3, 0x102)));
        assert_eq!(config("LLC-prefetch-misses"), Some((3, 0x10202)));
        assert_eq!(config("node-loads"), Some((3, 6)));
        assert_eq!(config("dTLB"), Some((3, 3)));
        assert_eq!(config("iTLB-misses"), Some((3, 0x10004)));
        assert_eq!(
            config("branch-misses"),
            Some((0, 5)),
            "the plain event first"
        );
        assert_eq!(config("branch-load-misses"), Some((3, 0x10005)));
        assert_eq!(config("L1-dcache-bogus"), None);
        assert_eq!(config("LLCs"), None);
    }

    #[test]
    fn every_listed_cache_name_reads_the_same_by_its_parts() {
        for (name, config) in cache_events() {
            assert_eq!(super::cache_config(&name), Some(config), "{name}");
        }
    }

    #[test]
    fn a_typing_error_finds_its_event() {
        assert_eq!(nearest("cpu-clok").as_deref(), Some("cpu-clock"));
        assert_eq!(nearest("instrutions").as_deref(), Some("instructions"));
        assert_eq!(nearest("xyzzy"), None);
    }
}
