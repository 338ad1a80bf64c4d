//! User call chains that the kernel recorded after their samples: joined to
//! them by the cookie that both have (Linux 6.19, CALLCHAIN_DEFERRED).

use prof_abi::{CallchainContext, CpuMode};
use prof_profile::Avma;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A sample whose user call chain is still to come.
pub(crate) struct Waiting {
    /// Its rows in the profile.
    pub(crate) rows: Range<usize>,
    pub(crate) pid: i32,
    pub(crate) mode: CpuMode,
    pub(crate) ip: Option<Avma>,
    /// What was recorded with the sample, up to the marker that ends it.
    chain: Vec<u64>,
}

impl Waiting {
    /// The chain with its user part.
    pub(crate) fn joined(&self, user: impl Iterator<Item = u64>) -> Vec<u64> {
        self.chain.iter().copied().chain(user).collect()
    }
}

/// The samples that wait, by thread and cookie.
#[derive(Default)]
pub(crate) struct Deferred {
    waiting: FxHashMap<(i32, u64), Vec<Waiting>>,
}

impl Deferred {
    /// Adds a sample whose chain ends with a marker and the cookie.
    pub(crate) fn add(
        &mut self,
        key: (i32, u64),
        sample: &prof_perfdata::Sample<'_>,
        rows: Waiting,
    ) {
        let marker = CallchainContext::USER_DEFERRED.0;
        let recorded = sample.callchain().into_iter().flatten();
        let mut chain: Vec<u64> = recorded.take_while(|&entry| entry != marker).collect();
        // Linux 7.2 tells no mode of what comes later.
        chain.push(CallchainContext::USER.0);
        self.waiting
            .entry(key)
            .or_default()
            .push(Waiting { chain, ..rows });
    }

    /// The samples that a chain is of.
    pub(crate) fn take(&mut self, tid: i32, cookie: u64) -> Vec<Waiting> {
        self.waiting.remove(&(tid, cookie)).unwrap_or_default()
    }

    /// Samples that still wait.
    pub(crate) fn len(&self) -> u64 {
        self.waiting
            .values()
            .map(|samples| samples.len() as u64)
            .sum()
    }
}

impl Waiting {
    /// A sample without its chain, which [`Deferred::add`] fills in.
    pub(crate) fn of(rows: Range<usize>, pid: i32, mode: CpuMode, ip: Option<Avma>) -> Self {
        Self {
            rows,
            pid,
            mode,
            ip,
            chain: Vec::new(),
        }
    }
}
