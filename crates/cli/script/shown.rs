//! Which records are printed among the samples.

use prof_abi::RecordType;

/// Which records are printed among the samples.
#[derive(Debug, clap::Args)]
pub(super) struct ShownArgs {
    /// Also print names, starts and ends of threads
    #[arg(long)]
    show_task_events: bool,
    /// Also print mappings
    #[arg(long)]
    show_mmap_events: bool,
    /// Also print context switches
    #[arg(long)]
    show_switch_events: bool,
    /// Also print namespaces
    #[arg(long)]
    show_namespace_events: bool,
    /// Also print lost records
    #[arg(long)]
    show_lost_events: bool,
    /// Also print kernel symbols and BPF programs
    #[arg(long)]
    show_bpf_events: bool,
    /// Also print cgroups
    #[arg(long)]
    show_cgroup_events: bool,
    /// Also print changes of the kernel's code
    #[arg(long)]
    show_text_poke_events: bool,
    /// Also print the end of each round of draining the rings
    #[arg(long)]
    show_round_events: bool,
}

impl ShownArgs {
    /// The types of records that are printed.
    pub(super) fn types(&self) -> Vec<RecordType> {
        use RecordType as Type;
        let groups: [(bool, &[Type]); 9] = [
            (self.show_task_events, &[Type::COMM, Type::FORK, Type::EXIT]),
            (self.show_mmap_events, &[Type::MMAP, Type::MMAP2]),
            (
                self.show_switch_events,
                &[Type::SWITCH, Type::SWITCH_CPU_WIDE],
            ),
            (self.show_namespace_events, &[Type::NAMESPACES]),
            // As perf: LOST_SAMPLES are counted, not printed.
            (self.show_lost_events, &[Type::LOST]),
            (self.show_bpf_events, &[Type::KSYMBOL, Type::BPF_EVENT]),
            (self.show_cgroup_events, &[Type::CGROUP]),
            (self.show_text_poke_events, &[Type::TEXT_POKE]),
            (self.show_round_events, &[Type::FINISHED_ROUND]),
        ];
        let wanted = groups.iter().filter(|(wanted, _)| *wanted);
        wanted
            .flat_map(|(_, types)| types.iter().copied())
            .collect()
    }
}
