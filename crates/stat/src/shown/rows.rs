//! The lines of all events, each with what follows from it.

use super::derived::Related;
use super::figures::{CountRow, EventFigures, Layout};
use crate::aggregate::Id;

/// The lines of all events.
pub(crate) fn rows(events: &[EventFigures], layout: &Layout<'_>) -> Vec<CountRow> {
    let mut rows = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let mut groups: Vec<_> = event.groups.iter().collect();
        if groups.iter().any(|(id, _)| matches!(id, Id::Thread(_))) {
            groups.sort_by(|a, b| b.1.counts.mean().total_cmp(&a.1.counts.mean()));
        }
        for (id, group) in groups {
            if layout.without_zeros && group.counts.mean() == 0.0 {
                continue;
            }
            let related = Related {
                events,
                index,
                id,
                layout,
            };
            rows.push(event.row(id, group, related.metrics_if_counted()));
        }
    }
    if layout.by_group {
        // Stable: the events keep their order in each group.
        rows.sort_by(|a, b| (&a.cgroup, &a.label.id).cmp(&(&b.cgroup, &b.label.id)));
    }
    rows
}
