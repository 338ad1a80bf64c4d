//! What the generalized events count, in a line each.
//!
//! Source: perf_event_open(2).

use prof_abi::event_kind;

const HARDWARE: [&str; 10] = [
    "Cycles of the CPU, whose frequency may change",
    "Instructions that were retired",
    "Cache accesses, usually of the last level",
    "Cache misses, usually of the last level",
    "Branch instructions that were retired",
    "Branch instructions that were mispredicted",
    "Cycles of the bus",
    "Cycles in which no instruction could be issued",
    "Cycles in which no instruction could be retired",
    "Cycles at a constant frequency",
];

const SOFTWARE: [&str; 12] = [
    "Time in ns, of a timer of each CPU",
    "CPU time of the tasks in ns",
    "Page faults",
    "Switches from one task to another; in the kernel",
    "Moves of tasks to other CPUs; in the kernel",
    "Page faults that needed no I/O",
    "Page faults that needed I/O",
    "Accesses that were not aligned and that the kernel finished; never on x86",
    "Instructions that the kernel emulated",
    "Nothing; for records of mappings and tasks",
    "What BPF programs write",
    "Switches to a task of another cgroup; in the kernel",
];

/// Of a generalized event.
pub(super) fn of(kind: u32, config: u64) -> Option<&'static str> {
    let table: &[&str] = match kind {
        event_kind::HARDWARE => &HARDWARE,
        event_kind::SOFTWARE => &SOFTWARE,
        _ => return None,
    };
    table.get(usize::try_from(config).ok()?).copied()
}

/// Of a time that `prof stat` takes.
pub(super) fn of_tool(name: &str) -> Option<&'static str> {
    Some(match name {
        "duration_time" => "Time while counting",
        "user_time" => "CPU time in user space, of what is counted",
        "system_time" => "CPU time in the kernel, of what is counted",
        _ => return None,
    })
}

/// Of a way to write events.
pub(super) fn of_pattern(name: &str) -> Option<&'static str> {
    Some(match name.split([':', '/']).next()? {
        "SUBSYSTEM" => "A tracepoint, * and ? allowed",
        "rNNN" => "An event of the CPU by its number, in hexadecimal",
        "cpu" => "An event of a PMU by the terms in its format folder",
        "mem" => "Accesses to an address (a breakpoint of the CPU)",
        "uprobe" => "Calls of a function of a file",
        "uretprobe" => "Returns from a function of a file",
        "usdt" => "A marker that a program has",
        "kprobe" => "Calls of a function of the kernel",
        "kretprobe" => "Returns from a function of the kernel",
        "TYPE" => "Type and config of perf_event_attr",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::of;
    use prof_abi::{HARDWARE_EVENTS, SOFTWARE_EVENTS, event_kind};

    #[test]
    fn every_generalized_event_is_described() {
        for event in HARDWARE_EVENTS {
            assert!(
                of(event_kind::HARDWARE, event.config).is_some(),
                "{}",
                event.name
            );
        }
        for event in SOFTWARE_EVENTS {
            assert!(
                of(event_kind::SOFTWARE, event.config).is_some(),
                "{}",
                event.name
            );
        }
    }
}
