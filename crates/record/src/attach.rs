//! Which tasks are there to attach to, and catching those that begin while we
//! attach.

use crate::error::RecordError;
use crate::open::{OpenSet, Stop};
use crate::options::{Options, Target};
use crate::tasks::{process_of, threads_of_all};
use prof_abi::{ByteOrder, RecordType};
use std::collections::BTreeSet;
use std::time::Duration;

/// Scans for new threads, at most.
const MOST_SCANS: u32 = 20;
/// A thread is visible in /proc a little before the kernel writes its FORK
/// record.
const FORK_RECORD_DELAY: Duration = Duration::from_millis(2);

/// The tasks of a target that run now; `None` stands for all.
pub(crate) fn tasks(
    options: &Options,
    command: Option<u32>,
) -> Result<Vec<Option<u32>>, RecordError> {
    match &options.target {
        Target::System => Ok(vec![None]),
        Target::Command(_) => Ok(vec![command]),
        Target::Threads(tids) => {
            for &number in tids {
                if process_of(number).is_none() {
                    return Err(RecordError::NoTask {
                        kind: "thread",
                        number,
                    });
                }
            }
            Ok(tids.iter().copied().map(Some).collect())
        }
        Target::Processes(pids) => {
            for &number in pids {
                if process_of(number).is_none() && !options.may_have_ended {
                    return Err(RecordError::NoTask {
                        kind: "process",
                        number,
                    });
                }
            }
            Ok(threads_of_all(pids).into_iter().map(Some).collect())
        }
    }
}

/// Opens the events of all tasks. A process may start threads meanwhile: those
/// of threads that we are attached to are inherited and leave a FORK record,
/// others are found by scanning again. Returns the records that were read on
/// the way, per ring.
pub(crate) fn open_tasks(
    options: &Options,
    set: &mut OpenSet,
    tasks: &[Option<u32>],
) -> Result<Vec<Vec<u8>>, Stop> {
    let mut any = false;
    for &task in tasks {
        match set.open_for(task) {
            Ok(()) => any = true,
            Err(Stop::Gone) => {}
            Err(refused) => return Err(refused),
        }
    }
    if !any {
        return Err(Stop::Gone);
    }
    let Target::Processes(pids) = &options.target else {
        return Ok(Vec::new());
    };
    let mut known: BTreeSet<u32> = tasks.iter().copied().flatten().collect();
    let mut early = Vec::new();
    for _ in 0..MOST_SCANS {
        let unknown = |known: &BTreeSet<u32>| -> Vec<u32> {
            let now = threads_of_all(pids);
            now.into_iter().filter(|tid| !known.contains(tid)).collect()
        };
        if unknown(&known).is_empty() {
            break;
        }
        std::thread::sleep(FORK_RECORD_DELAY);
        let new = unknown(&known);
        for slot in &mut set.rings {
            let mut records = Vec::new();
            slot.ring.take(&mut records);
            if !options.per_thread {
                known.extend(forked(&records));
            }
            early.push(records);
        }
        for tid in new {
            if known.insert(tid)
                && let Err(Stop::Refused(refusal)) = set.open_for(Some(tid))
            {
                return Err(Stop::Refused(refusal));
            }
        }
    }
    early.retain(|records| !records.is_empty());
    Ok(early)
}

/// The threads that FORK records tell of.
fn forked(mut records: &[u8]) -> Vec<u32> {
    let order = ByteOrder::NATIVE;
    let mut tids = Vec::new();
    while let (Some(kind), Some(size)) = (order.u32(records, 0), order.u16(records, 6)) {
        let Some((record, rest)) = records.split_at_checked(usize::from(size).max(8)) else {
            break;
        };
        if RecordType(kind) == RecordType::FORK {
            tids.extend(order.u32(record, 16));
        }
        records = rest;
    }
    tids
}

#[cfg(test)]
mod tests {
    use super::forked;

    #[test]
    fn a_fork_record_names_the_new_thread() {
        // pid, ppid, tid, ptid, time
        let mut record = 7_u32.to_ne_bytes().to_vec();
        record.extend([0_u16, 32].iter().flat_map(|half| half.to_ne_bytes()));
        record.extend(
            [10_u32, 11, 12, 13, 0, 0]
                .iter()
                .flat_map(|word| word.to_ne_bytes()),
        );
        assert_eq!(forked(&record), [12]);
        assert_eq!(forked(&record[..31]), Vec::<u32>::new());
    }
}
