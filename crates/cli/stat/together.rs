//! Which counts `prof stat` puts together.

use prof_stat::Mode;

/// A line each for what; without any, one for all.
#[derive(Debug, clap::Args)]
pub(super) struct Together {
    /// A line for each CPU.
    #[arg(short = 'A', long, visible_alias = "no-merge")]
    no_aggr: bool,
    /// Lines for each core.
    #[arg(long)]
    per_core: bool,
    /// Lines for each cluster of cores.
    #[arg(long)]
    per_cluster: bool,
    /// Lines for the CPUs that share a cache: L2, L3; the last if not given.
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "0", value_parser = cache_level)]
    per_cache: Option<u8>,
    /// Lines for each die.
    #[arg(long)]
    per_die: bool,
    /// Lines for each socket.
    #[arg(long)]
    per_socket: bool,
    /// Lines for each NUMA node.
    #[arg(long)]
    per_node: bool,
}

impl Together {
    /// The modes that were given, from CPUs to nodes.
    pub(super) fn modes(&self) -> impl Iterator<Item = Mode> {
        let given = [
            (self.no_aggr, Mode::Cpu),
            (self.per_core, Mode::Core),
            (self.per_cluster, Mode::Cluster),
            (
                self.per_cache.is_some(),
                Mode::Cache(self.per_cache.unwrap_or(0)),
            ),
            (self.per_die, Mode::Die),
            (self.per_socket, Mode::Socket),
            (self.per_node, Mode::Node),
        ];
        given
            .into_iter()
            .filter(|(given, _)| *given)
            .map(|(_, mode)| mode)
    }
}

/// `L2`, `l3` or the number.
fn cache_level(text: &str) -> Result<u8, String> {
    let number = text.trim_start_matches(['l', 'L']);
    match number.parse() {
        Ok(level) if level <= 4 => Ok(level),
        _ => Err("not a level of caches such as L2".to_owned()),
    }
}
