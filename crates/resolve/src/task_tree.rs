//! All threads of a recording as a tree, in perf's order.

use prof_live::Processes;
use prof_profile::Thread;
use rustc_hash::FxHashMap;

/// A line of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLine {
    /// The thread.
    pub thread: Thread,
    /// How many ancestors of it are in the tree.
    pub level: usize,
}

/// perf keeps threads in so many buckets, by the lowest bits of the id.
const BUCKETS: u32 = 256;

/// All threads that records told of, the idle thread included; each below the
/// thread that made it.
pub fn task_tree(processes: &mut Processes) -> Vec<TreeLine> {
    let mut threads = processes.threads();
    if threads.first().is_none_or(|first| first.tid > 0) {
        let comm = processes.names.intern("swapper");
        let (tid, pid, parent) = (0, 0, None);
        threads.push(Thread {
            tid,
            pid,
            parent,
            comm,
        });
    }
    add_parents(&mut threads, processes);
    threads.sort_by_key(|thread| (thread.tid as u32 % BUCKETS, thread.tid));
    lines(&threads)
}

/// Adds threads that others name as theirs and no record tells more of.
fn add_parents(threads: &mut Vec<Thread>, processes: &mut Processes) {
    let known: FxHashMap<i32, ()> = threads.iter().map(|thread| (thread.tid, ())).collect();
    let mut unknown: Vec<i32> = threads.iter().filter_map(|thread| thread.parent).collect();
    unknown.retain(|tid| !known.contains_key(tid));
    unknown.sort_unstable();
    unknown.dedup();
    threads.extend(unknown.into_iter().map(|tid| Thread {
        tid,
        pid: tid,
        parent: None,
        comm: processes.names.intern(&format!(":{tid}")),
    }));
}

/// Links each thread to its parent, unless that was done while an earlier one
/// was linked; then those without a parent, each with what is below it.
/// Threads that are each other's ancestors are in no line.
fn lines(threads: &[Thread]) -> Vec<TreeLine> {
    let index: FxHashMap<i32, usize> = (0..)
        .zip(threads)
        .map(|(at, thread)| (thread.tid, at))
        .collect();
    let parent_of = |at: usize| {
        let thread = threads.get(at)?;
        index
            .get(&thread.parent.filter(|&parent| parent != -1)?)
            .copied()
    };
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); threads.len()];
    let mut is_linked = vec![false; threads.len()];
    let mut roots = Vec::new();
    for start in 0..threads.len() {
        let mut at = start;
        while is_linked.get(at) == Some(&false) {
            if let Some(linked) = is_linked.get_mut(at) {
                *linked = true;
            }
            let Some(parent) = parent_of(at) else {
                roots.push(at);
                break;
            };
            if let Some(list) = children.get_mut(parent) {
                list.push(at);
            }
            at = parent;
        }
    }
    let mut lines = Vec::with_capacity(threads.len());
    let mut open: Vec<(usize, usize)> = roots.into_iter().rev().map(|at| (at, 0)).collect();
    while let Some((at, level)) = open.pop() {
        lines.extend(threads.get(at).map(|&thread| TreeLine { thread, level }));
        let below = children.get(at).into_iter().flatten().rev();
        open.extend(below.map(|&at| (at, level + 1)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::lines;
    use prof_profile::{NameId, Thread};

    fn thread(tid: i32, parent: Option<i32>) -> Thread {
        Thread {
            tid,
            pid: tid,
            parent,
            comm: NameId(0),
        }
    }

    #[test]
    fn each_thread_stands_below_its_parent_once() {
        let threads = [
            thread(5, Some(7)),
            thread(6, None),
            thread(7, Some(6)),
            thread(8, Some(5)),
        ];
        let seen: Vec<(i32, usize)> = lines(&threads)
            .iter()
            .map(|line| (line.thread.tid, line.level))
            .collect();
        assert_eq!(seen, [(6, 0), (7, 1), (5, 2), (8, 3)]);
    }

    #[test]
    fn threads_that_made_each_other_do_not_hang_us() {
        let threads = [thread(1, Some(2)), thread(2, Some(1)), thread(3, Some(3))];
        assert_eq!(lines(&threads), []);
    }
}
