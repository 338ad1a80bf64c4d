//! The tasks of samples: each pid, tid and name once.

use prof_live::Processes;
use prof_profile::{NameId, Task, TaskId};
use rustc_hash::FxHashMap;

/// Pid, tid and name: what a task is told apart by.
type TaskKey = (i32, i32, Option<NameId>);

/// A power of two.
const RECENT_TASKS: usize = 64;

/// Numbers tasks in the order in which they are met.
#[derive(Debug)]
pub(crate) struct TaskTable {
    list: Vec<Task>,
    ids: FxHashMap<TaskKey, TaskId>,
    /// Tasks that ran lately, by the last digits of their ids.
    recent: [Option<(TaskKey, TaskId)>; RECENT_TASKS],
}

impl Default for TaskTable {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            ids: FxHashMap::default(),
            recent: [None; RECENT_TASKS],
        }
    }
}

impl TaskTable {
    /// All of them, by their ids.
    pub(crate) fn into_list(self) -> Vec<Task> {
        self.list
    }

    /// The task of a thread as it is called now.
    pub(crate) fn id(&mut self, processes: &mut Processes, pid: i32, tid: i32) -> TaskId {
        let key = (pid, tid, processes.comm_of(tid));
        let slot = tid as usize % RECENT_TASKS;
        if let Some((recent, id)) = self.recent.get(slot).copied().flatten()
            && recent == key
        {
            return id;
        }
        let id = self.known(processes, key);
        if let Some(slot) = self.recent.get_mut(slot) {
            *slot = Some((key, id));
        }
        id
    }

    fn known(&mut self, processes: &mut Processes, key: TaskKey) -> TaskId {
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        let (pid, tid, comm) = key;
        // As perf shows threads whose name no record tells.
        let name = comm.unwrap_or_else(|| match tid {
            0 => processes.names.intern("swapper"),
            _ => processes.names.intern(&format!(":{tid}")),
        });
        let id = TaskId(u32::try_from(self.list.len()).expect("fewer than 2^32 tasks"));
        self.list.push(Task {
            pid,
            tid,
            comm: name,
        });
        self.ids.insert(key, id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::TaskTable;
    use prof_live::Processes;

    #[test]
    fn a_thread_with_another_name_is_another_task() {
        let mut processes = Processes::default();
        let mut tasks = TaskTable::default();
        let unnamed = tasks.id(&mut processes, 7, 7);
        assert_eq!(tasks.id(&mut processes, 7, 7), unnamed);
        processes.comm(7, 7, b"app", false);
        let named = tasks.id(&mut processes, 7, 7);
        assert_ne!(named, unnamed);
        // In the same slot of those that ran lately.
        let other = tasks.id(&mut processes, 7, 7 + 64);
        assert_eq!(tasks.id(&mut processes, 7, 7), named);
        assert_eq!(tasks.id(&mut processes, 7, 7 + 64), other);
        let idle = tasks.id(&mut processes, 0, 0);
        let list = tasks.into_list();
        let name = |id: prof_profile::TaskId| processes.names.get(list[id.0 as usize].comm);
        assert_eq!([unnamed, named, other].map(name), [":7", "app", ":71"]);
        assert_eq!(name(idle), "swapper");
    }
}
