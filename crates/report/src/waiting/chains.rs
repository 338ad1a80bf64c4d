//! Who ended waits, and what those threads had waited for before: chains of
//! waiting.

use super::kept::Kept;
use super::lives::Lives;
use super::off::Off;
use super::places;
use prof_profile::{Profile, Wait, WaitState};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Waits beyond which a chain is not followed.
const MOST_LINKS: usize = 4;

/// Who ended a wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ended {
    /// A recorded thread: its name, and where it was (user functions,
    /// innermost first).
    By {
        /// Name of the thread.
        comm: String,
        /// User functions, innermost first.
        functions: Vec<String>,
    },
    /// A timer or a device.
    Interrupt,
    /// Nobody was recorded to end it.
    NotSeen,
}

/// A wait in a chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    /// Name of the thread that waited.
    pub comm: String,
    /// What it waited for.
    pub kind: &'static str,
    /// Where: user functions, innermost first.
    pub functions: Vec<String>,
    /// Who ended that.
    pub ended: Ended,
}

/// A chain of waits: one wait, and what the threads that ended it had waited
/// for in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The wait, then the longest wait meanwhile of the thread that ended it,
    /// and so on.
    pub links: Vec<Link>,
    /// Time waited at the first link, ns.
    pub ns: u64,
    /// How many waits.
    pub waits: u64,
}

/// The chains of waiting of a profile in which wakes were recorded, most time
/// first: those of waits that are kept, whoever ended them.
pub fn chains(profile: &Profile, kept: &Kept) -> Vec<Chain> {
    let lives = Lives::of(profile);
    let mut seen = Seen {
        profile,
        lives: &lives,
        links: FxHashMap::default(),
        list: Vec::new(),
    };
    let mut sums: FxHashMap<Vec<u32>, (u64, u64)> = FxHashMap::default();
    for (tid, offs) in lives.threads() {
        let blocked = offs.iter().filter(|off| off.state == WaitState::Blocked);
        for off in blocked.filter(|off| kept.has(off.row)) {
            let chain = seen.chain(tid, off);
            let period = profile.samples.get(off.row).map_or(0, |row| row.period);
            let wait = profile.samples.wait_at(off.row);
            let sum = sums.entry(chain).or_default();
            sum.0 = sum.0.saturating_add(period);
            sum.1 = sum.1.saturating_add(wait.map_or(0, Wait::times));
        }
    }
    let list = seen.list;
    let whole = |ids: Vec<u32>| -> Vec<Link> {
        let links = ids.iter().filter_map(|&id| list.get(id as usize));
        links.cloned().collect()
    };
    let mut chains: Vec<Chain> = sums
        .into_iter()
        .map(|(ids, (ns, times))| Chain {
            links: whole(ids),
            ns,
            waits: times.saturating_add(32) / 64,
        })
        .collect();
    chains.sort_by(|a, b| (Reverse(a.ns), &a.links).cmp(&(Reverse(b.ns), &b.links)));
    chains
}

/// Links that were met, by what they are made of.
struct Seen<'a> {
    profile: &'a Profile,
    lives: &'a Lives,
    links: FxHashMap<Link, u32>,
    list: Vec<Link>,
}

impl Seen<'_> {
    /// The chain of a wait, as places in `list`.
    fn chain(&mut self, tid: i32, off: &Off) -> Vec<u32> {
        let mut ids = Vec::new();
        let (mut tid, mut off) = (tid, *off);
        let (begin, mut end) = (off.begin, off.end);
        while ids.len() < MOST_LINKS {
            ids.push(self.link(&off));
            let wake = off.wake.and_then(|index| self.profile.wakes.get(index));
            let Some(wake) = wake.filter(|wake| !wake.in_interrupt) else {
                break;
            };
            let waker = self.profile.task(wake.task).tid;
            // What it did while the first thread waited for it.
            end = end.min(wake.time);
            let Some(next) = longest_blocked(self.lives.thread(waker), (begin, end)) else {
                break;
            };
            if waker == tid {
                break;
            }
            (tid, off) = (waker, next);
        }
        ids
    }

    fn link(&mut self, off: &Off) -> u32 {
        let profile = self.profile;
        let sample = profile.samples.get(off.row);
        let wait = profile.samples.wait_at(off.row);
        let comm = |task| profile.name(profile.task(task).comm).to_owned();
        let wake = off.wake.and_then(|index| profile.wakes.get(index));
        let ended = match wake {
            None => Ended::NotSeen,
            Some(wake) if wake.in_interrupt => Ended::Interrupt,
            Some(wake) => Ended::By {
                comm: comm(wake.task),
                functions: places::shown(profile, wake.stack),
            },
        };
        let link = Link {
            comm: sample.map_or_else(String::new, |sample| comm(sample.task)),
            kind: wait.map_or("unknown", |wait| wait.kind.text()),
            functions: sample.map_or_else(Vec::new, |it| places::shown(profile, it.stack)),
            ended,
        };
        if let Some(&known) = self.links.get(&link) {
            return known;
        }
        let id = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(link.clone());
        self.links.insert(link, id);
        id
    }
}

/// The wait that took most of these times, if one took at least half.
fn longest_blocked(offs: &[Off], (begin, end): (u64, u64)) -> Option<Off> {
    let first = offs.partition_point(|off| off.end <= begin);
    let inside = offs.iter().skip(first).take_while(|off| off.begin < end);
    let part = |off: &&Off| off.end.min(end).saturating_sub(off.begin.max(begin));
    let blocked = inside.filter(|off| off.state == WaitState::Blocked);
    let longest = blocked.max_by_key(part)?;
    (part(&longest) * 2 >= end.saturating_sub(begin)).then_some(*longest)
}
