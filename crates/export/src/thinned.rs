//! Fewer and shorter stacks, for readers that hold a whole file as one string.

use crate::choice::Chosen;
use prof_profile::{LocationId, StackId};
use rustc_hash::FxHashMap;

/// How stacks are written so that all together are short enough.
pub(crate) struct Thinned {
    /// By `StackId`: the stack that stands for it; empty if each for itself.
    of: Vec<StackId>,
    /// Whether samples of one stack and thread are one.
    merges: bool,
    /// What was done, in words.
    pub(crate) told: Vec<String>,
}

/// What a sample takes besides its stack: brackets, commas, its weight.
const BESIDE: u64 = 14;

impl Thinned {
    /// What is needed so that the chosen samples take at most `room` bytes,
    /// where a location takes `length` of them.
    pub(crate) fn new(chosen: &Chosen<'_>, room: u64, length: impl Fn(LocationId) -> u64) -> Self {
        let stacks = &chosen.profile.stacks;
        let mut lengths = vec![BESIDE; stacks.len()];
        for id in 1..stacks.len() {
            if let Some((caller, location)) = stacks.get(StackId(id as u32)) {
                let outer = lengths.get(caller.0 as usize).copied().unwrap_or(BESIDE);
                if let Some(own) = lengths.get_mut(id) {
                    *own = outer + length(location);
                }
            }
        }
        let of_stack = |id: StackId| lengths.get(id.0 as usize).copied().unwrap_or(BESIDE);
        let mut thinned = Self {
            of: Vec::new(),
            merges: false,
            told: Vec::new(),
        };
        if chosen
            .rows()
            .map(|(_, _, sample)| of_stack(sample.stack))
            .sum::<u64>()
            <= room
        {
            return thinned;
        }
        thinned.merges = true;
        thinned.told.push(
            "too many samples for what a browser opens: those of one stack and thread are one, \
             and no longer in the order of time"
                .into(),
        );
        let weights = Weights::new(chosen);
        if weights.size(&of_stack, &thinned) > room {
            thinned.cut(&weights, room, &of_stack);
        }
        thinned
    }

    /// Cuts stacks that weigh little until the rest is short enough.
    fn cut(&mut self, weights: &Weights, room: u64, length: &impl Fn(StackId) -> u64) {
        let total = weights.total.first().copied().unwrap_or(0);
        let mut least = (total >> 24).max(1);
        loop {
            let mut of: Vec<StackId> = Vec::with_capacity(weights.total.len());
            for (id, &weight) in weights.total.iter().enumerate() {
                let caller = weights.callers.get(id).copied().unwrap_or(StackId::EMPTY);
                let cut = of.get(caller.0 as usize).copied();
                let own = StackId(id as u32);
                of.push(if weight >= least || id == 0 {
                    own
                } else {
                    cut.unwrap_or(own)
                });
            }
            self.of = of;
            if weights.size(length, self) <= room || least > total {
                break;
            }
            least = least.saturating_mul(2);
        }
        let share = 100.0 * least as f64 / total.max(1) as f64;
        self.told.push(format!(
            "stacks end where less than {share:.2} % of the weight goes on; it stays with the \
             last function that is left"
        ));
    }

    /// The stack that stands for this one.
    pub(crate) fn stack(&self, stack: StackId) -> StackId {
        self.of.get(stack.0 as usize).copied().unwrap_or(stack)
    }

    /// Stacks with the sums of their weights, if samples are merged.
    pub(crate) fn merged(
        &self,
        samples: impl Iterator<Item = (StackId, u64)>,
    ) -> Option<Vec<(StackId, u64)>> {
        if !self.merges {
            return None;
        }
        let mut sums: FxHashMap<StackId, u64> = FxHashMap::default();
        for (stack, weight) in samples {
            let sum = sums.entry(stack).or_default();
            *sum = sum.saturating_add(weight);
        }
        let mut sums: Vec<(StackId, u64)> = sums.into_iter().collect();
        sums.sort_unstable();
        Some(sums)
    }
}

/// Weights by stack.
struct Weights {
    /// By `StackId`: of it and all that it is the beginning of.
    total: Vec<u64>,
    /// By `StackId`.
    callers: Vec<StackId>,
    /// Stacks with samples, and how often they are written: for each thread
    /// and event.
    written: Vec<(StackId, u64)>,
}

impl Weights {
    fn new(chosen: &Chosen<'_>) -> Self {
        let stacks = &chosen.profile.stacks;
        let mut total = vec![0_u64; stacks.len()];
        let mut written = Vec::new();
        let done: Result<(), ()> = chosen.by_stack(|stack, cells| {
            let weight = cells
                .iter()
                .fold(0_u64, |sum, cell| sum.saturating_add(cell.period));
            if let Some(total) = total.get_mut(stack.0 as usize) {
                *total = weight;
            }
            written.push((stack, cells.len() as u64));
            Ok(())
        });
        debug_assert!(done.is_ok(), "nothing above fails");
        let caller = |id: usize| stacks.get(StackId(id as u32)).map(|(caller, _)| caller);
        let callers: Vec<StackId> = (0..stacks.len())
            .map(|id| caller(id).unwrap_or(StackId::EMPTY))
            .collect();
        // A caller's id is smaller than its callees'.
        for id in (1..stacks.len()).rev() {
            let weight = total.get(id).copied().unwrap_or(0);
            let caller = callers.get(id).copied().unwrap_or(StackId::EMPTY);
            if let Some(sum) = total.get_mut(caller.0 as usize) {
                *sum = sum.saturating_add(weight);
            }
        }
        Self {
            total,
            callers,
            written,
        }
    }

    /// Bytes that the stacks take.
    fn size(&self, length: &impl Fn(StackId) -> u64, thinned: &Thinned) -> u64 {
        let mut often: FxHashMap<StackId, u64> = FxHashMap::default();
        for &(stack, times) in &self.written {
            // Stacks that become one are written once for each thread: at
            // most as often as the one of most threads, or a bit more.
            let most = often.entry(thinned.stack(stack)).or_default();
            *most = (*most).max(times);
        }
        often
            .iter()
            .map(|(&stack, &times)| length(stack).saturating_mul(times))
            .sum()
    }
}
