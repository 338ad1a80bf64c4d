//! Keys of when and where a sample was taken, and what it came with.

use super::recorded::one;
use super::{Fit, Order, SortKey, Spec, Text, USUAL};
use crate::escape;
use crate::model::{By, Identity, UNKNOWN};
use prof_profile::{Detail, NameId, Profile, Wait, WaitKind, WaitState};
use std::fmt::Write;

/// CPU.
pub(crate) const CPU: SortKey = SortKey(&Spec {
    name: "cpu",
    heading: "CPU",
    width: 3,
    by: By::Sample(|_, sample| match sample.cpu {
        Some(cpu) => one(cpu.into()),
        None => UNKNOWN,
    }),
    order: Order::Rank(|ranks, row| {
        let cpu = ranks.sample(row).and_then(|sample| sample.cpu);
        cpu.map_or(0, |cpu| cpu.saturating_add(1))
    }),
    text: Text::OfRow(|cells, row, out| {
        let first = cells.profile().samples.get(row.first as usize);
        let _ = match first.and_then(|first| first.cpu) {
            Some(cpu) => write!(out, "{cpu:03}"),
            None => write!(out, "-001"),
        };
    }),
    fit: Fit::Digits(3),
    ..USUAL
});

/// The caller that matches `--parent`.
pub const PARENT: SortKey = SortKey(&Spec {
    name: "parent",
    heading: "Parent symbol",
    width: 13,
    pads: true,
    by: By::Sample(|samples, sample| match samples.parent(sample) {
        Some(name) => one(name.0.into()),
        None => UNKNOWN,
    }),
    order: Order::Rank(|ranks, row| {
        let told = ranks.rows.told_by(row, PARENT.apart());
        match told.and_then(name_told) {
            Some(name) => ranks.name(Some(name)),
            None => u32::MAX,
        }
    }),
    text: Text::OfRow(|cells, row, out| {
        let told = cells.rows.told_by(row, PARENT.apart());
        let name = told.and_then(name_told);
        let name = name.map_or("[other]", |name| cells.profile().name(name));
        out.push_str(&escape::terminal(name));
    }),
    ..USUAL
});

/// The caller's name in what [`PARENT`] tells apart.
pub(super) fn name_told(told: Identity) -> Option<NameId> {
    let number = u32::try_from(told[0]).ok()?;
    Some(NameId(number))
}

/// Slice of time.
pub(super) const TIME: SortKey = SortKey(&Spec {
    name: "time",
    heading: "Time",
    width: 12,
    width_in_ns: 16,
    by: By::Sample(|samples, sample| one(sample.time / samples.quantum * samples.quantum)),
    order: Order::Rows(|ranks, a, b| {
        let start = |row| ranks.rows.told_by(row, TIME.apart());
        start(a).cmp(&start(b))
    }),
    text: Text::OfRow(|cells, row, out| {
        let told = cells.rows.told_by(row, TIME.apart());
        let [ns, ..] = told.unwrap_or_default();
        let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        let _ = if cells.look.nanoseconds {
            write!(out, "{seconds}.{rest:09}")
        } else {
            write!(out, "{seconds}.{:06}", rest / 1000)
        };
    }),
    ..USUAL
});

/// What kept a thread from running, and what it waited for.
pub const WAIT: SortKey = SortKey(&Spec {
    name: "wait",
    heading: "Wait",
    width: 12,
    by: By::Sample(|samples, sample| {
        let wait = sample.wait.and_then(|id| samples.profile.samples.wait(id));
        let code = |wait: &Wait| u64::from(wait.state.code()) << 8 | u64::from(wait.kind.code());
        let event = samples.profile.events.get(usize::from(sample.event.0));
        let is_time = event.is_some_and(|event| event.weight_is_ns);
        let no_wait = if is_time { one(RUNNING) } else { UNKNOWN };
        wait.map_or(no_wait, |wait| one(code(wait)))
    }),
    order: Order::Rows(|ranks, a, b| {
        let told = |row| ranks.rows.told_by(row, WAIT.apart());
        told(a).cmp(&told(b))
    }),
    text: Text::OfRow(|cells, row, out| {
        let told = cells.rows.told_by(row, WAIT.apart());
        out.push_str(&told.map_or_else(String::new, wait_told));
    }),
    ..USUAL
});

/// What [`WAIT`] has for time in which a thread ran: behind all waits, whose
/// numbers have 16 bits.
const RUNNING: u64 = 1 << 16;

/// What [`WAIT`] tells apart, in words. A sample that is no time, such as a page
/// fault, neither waited nor is it a time of running.
fn wait_told(told: Identity) -> String {
    let Ok(number) = u16::try_from(told[0]) else {
        let is_time = told[0] == RUNNING;
        return if is_time { "running" } else { "no wait" }.to_owned();
    };
    let [state, kind] = number.to_be_bytes();
    let wait = Wait {
        state: WaitState::from_code(state),
        kind: WaitKind::from_code(kind),
        ..Wait::default()
    };
    wait.words()
}

/// The event.
pub(super) const EVENT: SortKey = SortKey(&Spec {
    name: "event",
    heading: "Event",
    width: 5,
    pads: true,
    text: Text::OfRow(|cells, _, out| {
        let name = cells.scene.event().map_or("", |event| &event.name);
        out.push_str(&escape::terminal(name));
    }),
    ..USUAL
});

/// The processor package.
pub(super) const SOCKET: SortKey = SortKey(&Spec {
    name: "socket",
    heading: "Socket",
    width: 6,
    pads: true,
    by: By::Detail(|_, it| one(it.socket as u64)),
    order: Order::Signed,
    text: Text::OfRecord(|of, out| {
        let socket = of.detail.socket;
        let sign = if socket < 0 { "-" } else { "" };
        let number = format!("{sign}{:03}", socket.unsigned_abs());
        let _ = write!(out, "{number:>6}");
    }),
    ..USUAL
});

/// The control group, by its path.
pub(super) const CGROUP: SortKey = SortKey(&Spec {
    name: "cgroup",
    heading: "Cgroup",
    width: 6,
    by: By::Detail(|_, it| one(it.cgroup)),
    order: Order::Signed,
    text: Text::OfRecord(|of, out| out.push_str(cgroup(of.profile, of.detail))),
    ..USUAL
});

/// The control group, by device and inode of its namespace.
pub(super) const CGROUP_ID: SortKey = SortKey(&Spec {
    name: "cgroup_id",
    heading: "cgroup id (dev/inode)",
    width: 21,
    by: By::Detail(|_, it| [it.cgroup_namespace.0, it.cgroup_namespace.1, 0]),
    order: Order::LargestFirst,
    text: Text::OfRecord(|of, out| {
        let (device, inode) = of.detail.cgroup_namespace;
        let _ = write!(out, "{device}/0x{inode:x}");
    }),
    ..USUAL
});

/// The instruction's live address.
pub(super) const ADDRESS: SortKey = SortKey(&Spec {
    name: "addr",
    heading: "Address",
    width: 18,
    pads: true,
    by: By::Detail(|_, it| one(it.ip)),
    order: Order::Signed,
    text: Text::OfRecord(|of, out| {
        let _ = match of.detail.ip {
            0 => write!(out, "0"),
            ip => write!(out, "{ip:#x}"),
        };
    }),
    ..USUAL
});

fn cgroup<'p>(profile: &'p Profile, detail: &Detail) -> &'p str {
    match (detail.cgroup, detail.cgroup_path) {
        (0, _) => "N/A",
        (_, Some(path)) => profile.name(path),
        (_, None) => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::{RUNNING, one, wait_told};
    use crate::model::UNKNOWN;

    #[test]
    fn only_time_in_which_a_thread_ran_is_running() {
        assert_eq!(wait_told(one(RUNNING)), "running");
        assert_eq!(wait_told(UNKNOWN), "no wait");
        assert_eq!(wait_told(one(0x0102)), "blocked: futex");
    }
}
