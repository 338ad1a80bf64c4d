//! Which known names one may have meant that is not known.

use prof_record::events::distance;

/// Names shown at most.
const SHOWN: usize = 5;

/// Known names that contain `wanted`, or else those that differ from it by a few
/// letters: the shortest or nearest first, each once, at most five.
pub(crate) fn near<'n>(wanted: &str, known: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let wanted = wanted.to_lowercase();
    let most = 1 + wanted.chars().count() / 4;
    let rank = |name: &'n str| {
        let lower = name.to_lowercase();
        if lower.contains(&wanted) {
            return Some((0, name.len(), name));
        }
        // Without arguments, as names are typed.
        let plain = lower.split('(').next().unwrap_or(&lower);
        let is_near = plain.len().abs_diff(wanted.len()) <= most;
        let letters = is_near.then(|| distance(&wanted, plain));
        letters
            .filter(|letters| *letters <= most)
            .map(|letters| (letters, name.len(), name))
    };
    let mut ranked: Vec<_> = known.filter_map(rank).collect();
    ranked.sort_unstable();
    ranked.dedup();
    let is_part = ranked.first().is_some_and(|(letters, ..)| *letters == 0);
    ranked.retain(|(letters, ..)| !is_part || *letters == 0);
    ranked.truncate(SHOWN);
    ranked.into_iter().map(|(_, _, name)| name).collect()
}

/// Some of the names that there are: those that programs' authors gave come before
/// those that begin with an underscore, as names of C libraries do.
pub(crate) fn some<'n>(known: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut names: Vec<_> = known.collect();
    names.sort_unstable_by_key(|name| (name.starts_with('_'), *name));
    names.dedup();
    names.truncate(SHOWN);
    names
}

#[cfg(test)]
mod tests {
    use super::{near, some};

    const KNOWN: [&str; 6] = [
        "by_value",
        "main",
        "__GI___qsort_r",
        "parse(int)",
        "sorted",
        "mix",
    ];

    #[test]
    fn a_typing_error_finds_the_name_that_was_meant() {
        let found = |wanted| near(wanted, KNOWN.into_iter());
        assert_eq!(found("by_vaule"), ["by_value"]);
        assert_eq!(found("Sort"), ["sorted", "__GI___qsort_r"]);
        assert_eq!(found("qsort"), ["__GI___qsort_r"]);
        assert_eq!(found("prase"), ["parse(int)"]);
        assert!(found("nothing_like_it").is_empty());
    }

    #[test]
    fn names_of_the_c_library_come_last() {
        let first = some(KNOWN.into_iter());
        assert_eq!(first, ["by_value", "main", "mix", "parse(int)", "sorted"]);
    }
}
