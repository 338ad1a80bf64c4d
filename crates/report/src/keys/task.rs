//! Keys of who ran: threads and processes.

use super::room::char_count;
use super::{Cells, Fit, Measure, Order, SortKey, Spec, Text, USUAL};
use crate::escape;
use crate::model::{By, Identity, Row, Samples};
use prof_profile::{NameId, Profile, Task};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Thread name.
pub const COMM: SortKey = SortKey(&Spec {
    name: "comm",
    heading: "Command",
    width: 7,
    pads: true,
    by: By::Task(|_, task| named(task.comm)),
    order: Order::Rank(|ranks, row| ranks.name(ranks.task(row).map(|task| task.comm))),
    text: Text::OfRow(|cells, row, out| out.push_str(&escape::terminal(comm(cells, row)))),
    plain: Some(|cells, row| Some(comm(cells, row).to_owned())),
    measure: Measure::OfRow(|cells, row| char_count(&escape::terminal(comm(cells, row)))),
    shared: Some(|_, row| row.key.group.0),
    told_above: Some(("comm", |filter| &filter.comms)),
    ..USUAL
});

/// Thread name, whatever digits are in it; shows `<N>` for each number.
pub(super) const COMM_NODIGIT: SortKey = SortKey(&Spec {
    name: "comm_nodigit",
    heading: "CommandNoDigit",
    width: 14,
    pads: true,
    by: By::Task(first_comm),
    order: Order::Rows(|ranks, a, b| {
        let comm = |row| {
            ranks
                .task(row)
                .map_or("", |task| ranks.profile().name(task.comm))
        };
        without_digits(comm(a)).cmp(without_digits(comm(b)))
    }),
    text: Text::OfRow(|cells, row, out| {
        out.push_str(&escape::terminal(&comm_without_numbers(comm(cells, row))));
    }),
    plain: Some(|cells, row| Some(comm_without_numbers(comm(cells, row)))),
    told_above: Some(("comm", |filter| &filter.comms)),
    ..USUAL
});

/// Thread, under the name perf has for it; shows thread id and name.
pub(crate) const PID: SortKey = SortKey(&Spec {
    name: "pid",
    heading: "    Pid:Command",
    ..OF_THREAD
});

/// Thread, by its proper name.
pub(crate) const TID: SortKey = SortKey(&Spec {
    name: "tid",
    heading: "    Tid:Command",
    ..OF_THREAD
});

const OF_THREAD: Spec = Spec {
    by: By::Task(|_, task| [task.tid as u64, 0, 0]),
    order: Order::Rank(|ranks, row| ranks.task(row).map_or(0, |task| in_order(task.tid))),
    text: Text::OfRow(|cells, row, out| {
        let tid = cells.task(row).map(|task| task.tid);
        out.push_str(&numbered(cells.profile(), tid));
    }),
    ..NUMBERED
};

/// A number with the name of the thread that has it.
const NUMBERED: Spec = Spec {
    width: 15,
    pads: true,
    fit: Fit::Thread,
    ..USUAL
};

/// Process (thread group).
pub(crate) const TGID: SortKey = SortKey(&Spec {
    name: "tgid",
    heading: "   Tgid:Command",
    by: By::Task(|_, task| [task.pid as u64, 0, 0]),
    order: Order::Rank(|ranks, row| ranks.task(row).map_or(0, |task| in_order(task.pid))),
    text: Text::OfRow(|cells, row, out| {
        let pid = cells.task(row).map(|task| task.pid);
        out.push_str(&numbered(cells.profile(), pid));
    }),
    ..NUMBERED
});

fn named(name: NameId) -> Identity {
    [name.0.into(), 0, 0]
}

/// A number that is in the order of signed ones.
fn in_order(number: i32) -> u32 {
    number.cast_unsigned() ^ (1 << 31)
}

fn comm<'a>(cells: &Cells<'a>, row: &Row) -> &'a str {
    let task = cells.task(row);
    task.map_or("", |task| cells.profile().name(task.comm))
}

/// Of the thread names that differ in their digits alone, the first.
fn first_comm(samples: &Samples<'_>, task: &Task) -> Identity {
    let first = samples.same_comms.get_or_init(|| {
        let profile = samples.profile;
        let mut firsts: FxHashMap<String, NameId> = FxHashMap::default();
        let comms = profile.tasks.iter().map(|task| task.comm);
        let with_first = |comm| {
            let key = without_digits(profile.name(comm)).collect();
            (comm, *firsts.entry(key).or_insert(comm))
        };
        comms.map(with_first).collect()
    });
    named(first.get(&task.comm).copied().unwrap_or(task.comm))
}

/// What [`COMM_NODIGIT`] tells thread names apart by.
fn without_digits(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().filter(|letter| !letter.is_ascii_digit())
}

/// A thread's name with `<N>` for each number in it, as perf shows it.
fn comm_without_numbers(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut is_in_number = false;
    for letter in name.chars() {
        let is_digit = letter.is_ascii_digit();
        match is_digit {
            true if !is_in_number => text.push_str("<N>"),
            true => {}
            false => text.push(letter),
        }
        is_in_number = is_digit;
    }
    text
}

/// A thread or process with its number.
fn numbered(profile: &Profile, number: Option<i32>) -> String {
    let number = number.unwrap_or(-1);
    format!("{number:7}:{:<7}", last_comm(profile, number))
}

/// The name a thread had last, also if it took no sample under it. Of a
/// process whose first thread no record tells of, that of another.
fn last_comm(profile: &Profile, tid: i32) -> Cow<'_, str> {
    let known = profile.thread(tid).map(|thread| thread.comm);
    let sampled = |of: fn(&Task) -> i32| {
        let mut tasks = profile.tasks.iter().rev();
        tasks.find(|&task| of(task) == tid).map(|task| task.comm)
    };
    let comm = known
        .or_else(|| sampled(|task| task.tid))
        .or_else(|| sampled(|task| task.pid));
    escape::terminal(comm.map_or("", |comm| profile.name(comm)))
}

#[cfg(test)]
mod tests {
    use super::{comm_without_numbers, in_order};

    #[test]
    fn numbers_in_a_name_are_one_mark_each() {
        assert_eq!(comm_without_numbers("kworker/12:3H"), "kworker/<N>:<N>H");
        assert_eq!(comm_without_numbers("7"), "<N>");
        assert_eq!(comm_without_numbers("sh"), "sh");
    }

    #[test]
    fn unknown_threads_come_first() {
        let numbers = [i32::MIN, -1, 0, 1, i32::MAX].map(in_order);
        assert!(numbers.is_sorted());
    }
}
