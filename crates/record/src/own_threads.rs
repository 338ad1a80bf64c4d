//! Leaving the recorder's own threads out of tracepoints (`--exclude-perf`).

use crate::synthesize::threads_of;
use std::ffi::{CStr, CString};

/// A filter that besides `given` leaves out the threads that this process has
/// now. The kernel compares the ids that it has itself: in a PID namespace they are
/// others, and nothing is left out.
pub(crate) fn without_own_threads(given: Option<&CStr>) -> Option<CString> {
    let mut threads = threads_of(std::process::id());
    threads.sort_unstable();
    let others = condition(&threads);
    let both = match given {
        Some(given) => format!("({}) && {others}", given.to_str().ok()?),
        None => others,
    };
    CString::new(both).ok()
}

/// What holds for all threads but these, which are in order. Ids that follow each
/// other are one range: a filter is a page at most.
fn condition(threads: &[u32]) -> String {
    let ranges = threads.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let ranges = ranges.filter_map(|range| Some((range.first()?, range.last()?)));
    let others = ranges.map(|(first, last)| match first == last {
        true => format!("common_pid != {first}"),
        false => format!("(common_pid < {first} || common_pid > {last})"),
    });
    others.collect::<Vec<_>>().join(" && ")
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn threads_in_a_row_are_one_range() {
        assert_eq!(condition(&[7]), "common_pid != 7");
        assert_eq!(
            condition(&[7, 9, 10, 11, 13]),
            "common_pid != 7 && (common_pid < 9 || common_pid > 11) && common_pid != 13"
        );
    }
}
