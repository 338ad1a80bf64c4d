//! Why the system has no thread for us, with the limit that was met.

use prof_sys::limits::{Limit, Resource};
use std::fmt;
use std::io;

/// Why no thread can be started.
#[derive(Debug)]
pub struct NoThread {
    source: io::Error,
    /// Bytes of address space and number of threads that are allowed.
    address_space: Option<u64>,
    threads: Option<u64>,
}

impl NoThread {
    pub(crate) fn new(source: io::Error) -> Self {
        let limit = |resource| Limit::get(resource).ok().map(|limit| limit.soft);
        let finite = |limit: Option<u64>| limit.filter(|&limit| limit != u64::MAX);
        Self {
            source,
            address_space: finite(limit(Resource::AddressSpace)),
            threads: finite(limit(Resource::Processes)),
        }
    }
}

impl fmt::Display for NoThread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.source.to_string().to_lowercase();
        write!(
            out,
            "{}",
            why.split(" (os error").next().unwrap_or_default()
        )?;
        match (self.address_space, self.threads) {
            (Some(bytes), _) => {
                let kib = bytes / 1024;
                write!(
                    out,
                    "\n  the address space is limited to {kib} KiB (ulimit -v)\n  \
                     try: a larger ulimit -v"
                )
            }
            (None, Some(threads)) => write!(
                out,
                "\n  this user may have {threads} processes and threads (ulimit -u)\n  \
                 try: a larger ulimit -u, or when others have ended"
            ),
            (None, None) => write!(
                out,
                "\n  its cgroup (pids.max) or the system (kernel.threads-max) has no more\n  \
                 try: when other processes have ended"
            ),
        }
    }
}
