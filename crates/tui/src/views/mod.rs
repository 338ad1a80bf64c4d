//! The tabs. Each has its state, what keys do to it, and how it is drawn.

mod callers;
mod code;
mod code_rows;
mod flame;
mod flame_paint;
mod hotspots;
mod rows;
mod threads;
mod timeline;
mod tree;

pub(super) use callers::Callers;
pub(super) use code::Code;
pub(super) use flame::Flame;
pub(super) use hotspots::Hotspots;
pub(super) use threads::Threads;
pub(super) use timeline::Timeline;
pub(super) use tree::TreeView;

use super::bindings::Scope;

/// Which tab is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum View {
    Hotspots,
    Tree,
    Flame,
    Callers,
    Code,
    Threads,
    Timeline,
}

impl View {
    /// All, in the order of their numbers.
    pub(super) const ALL: [Self; 7] = [
        Self::Hotspots,
        Self::Tree,
        Self::Flame,
        Self::Callers,
        Self::Code,
        Self::Threads,
        Self::Timeline,
    ];

    /// On its tab.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Hotspots => "Hotspots",
            Self::Tree => "Call tree",
            Self::Flame => "Flame graph",
            Self::Callers => "Callers",
            Self::Code => "Code",
            Self::Threads => "Threads",
            Self::Timeline => "Timeline",
        }
    }

    /// On a narrow tab and in file names.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Hotspots => "hot",
            Self::Tree => "tree",
            Self::Flame => "flame",
            Self::Callers => "calls",
            Self::Code => "code",
            Self::Threads => "thr",
            Self::Timeline => "time",
        }
    }

    /// The view `step` further on, around the end.
    pub(super) fn next(self, step: usize) -> Self {
        let at = Self::ALL.iter().position(|&view| view == self).unwrap_or(0);
        let next = (at + step) % Self::ALL.len();
        Self::ALL.get(next).copied().unwrap_or(self)
    }

    /// Which bindings hold in it.
    pub(super) fn scope(self) -> Scope {
        match self {
            Self::Hotspots | Self::Tree | Self::Callers | Self::Threads => Scope::Tree,
            Self::Flame => Scope::Flame,
            Self::Code => Scope::Code,
            Self::Timeline => Scope::Timeline,
        }
    }
}
