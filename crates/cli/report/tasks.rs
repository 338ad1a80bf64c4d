//! `prof report --tasks` and `--mmaps`: who ran, and what was mapped.

use crate::recording::Input;
use anyhow::Context;
use prof_abi::CpuMode;
use prof_live::{Access, Mapping, Processes};
use prof_perfdata::{Reader, TimeOrder};
use prof_profile::DsoKind;
use prof_report::escape;
use prof_resolve::{TreeLine, task_tree};
use std::io::Write;

/// What stands below each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Nothing.
    Tasks,
    /// What its process had mapped when the recording ended.
    Mappings,
}

/// No deeper tree is indented further: a recording must not choose how much
/// is written for a line.
const DEEPEST: usize = 256;

/// Replays the recording and writes all threads as a tree, in perf's layout.
/// Gives back the reader, which tells what is damaged.
pub(super) fn write(input: &Input, detail: Detail, out: &mut impl Write) -> anyhow::Result<Reader> {
    let mut records = TimeOrder::new(input.open()?);
    let mut processes = Processes::default();
    let cannot_read = || format!("cannot read {}", input.name());
    while let Some(record) = records.next().with_context(cannot_read)? {
        processes.apply(&record, &record.decode());
    }
    writeln!(out, "# {:>8} {:>8} {:>8}  comm", "pid", "tid", "ppid")?;
    for line in task_tree(&mut processes) {
        let head = thread(&line);
        let comm = escape::terminal(processes.names.get(line.thread.comm));
        writeln!(out, "{head}{comm}")?;
        if detail == Detail::Mappings
            && let Some(space) = processes.space(line.thread.pid, CpuMode::User)
        {
            for mapping in space.iter() {
                writeln!(
                    out,
                    "{:>1$}  {2}",
                    "",
                    head.len(),
                    shown(&processes, &mapping)
                )?;
            }
        }
    }
    Ok(records.into_reader())
}

/// The line of a thread up to its name.
fn thread(line: &TreeLine) -> String {
    let thread = line.thread;
    let (parent, indent) = (thread.parent.unwrap_or(-1), line.level.min(DEEPEST));
    format!(
        "  {:8} {:8} {parent:8} |{:indent$}",
        thread.pid, thread.tid, ""
    )
}

/// A mapping as /proc/PID/maps has it, but for the device.
fn shown(processes: &Processes, mapping: &Mapping) -> String {
    let dso = processes.dsos().get(mapping.dso);
    let letters = [
        (Access::READ, 'r'),
        (Access::WRITE, 'w'),
        (Access::EXECUTE, 'x'),
    ];
    let letter = |(access, letter)| {
        if mapping.access.has(access) {
            letter
        } else {
            '-'
        }
    };
    let mut access: String = letters.into_iter().map(letter).collect();
    access.push(if mapping.access.has(Access::SHARED) {
        's'
    } else {
        'p'
    });
    let path = match (dso.kind, dso.pid) {
        (DsoKind::Jit, Some(pid)) => format!("/tmp/perf-{pid}.map").into_bytes(),
        _ => dso.path.clone(),
    };
    format!(
        "{:x}-{:x} {access} {:08x} {} {}",
        mapping.start,
        mapping.end,
        mapping.offset,
        dso.inode.map_or(0, |inode| inode.inode),
        escape::terminal(&String::from_utf8_lossy(&path))
    )
}
