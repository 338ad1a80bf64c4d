//! The rows of a table as names and figures, to be compared with those of
//! another recording.

use crate::keys::{Cells, Field, SortKey};
use crate::model::{Sure, Weight};
use crate::text::{Table, TextOptions, scene_of};
use prof_profile::{EventId, Profile};
use prof_statistics::Share;

/// A table of one event.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What tells rows apart, in the order of columns.
    pub keys: Vec<SortKey>,
    /// In the table's order.
    pub rows: Vec<MeasuredRow>,
    /// The weight of 100 %.
    pub whole: Weight,
    /// How sure it is of what has no row here that it has no samples.
    pub nothing: Share,
}

/// A row of it.
#[derive(Debug, Clone)]
pub struct MeasuredRow {
    /// What each sort key tells, as it is.
    pub names: Vec<String>,
    /// The same as a table shows it, harmless for a terminal.
    pub shown: Vec<String>,
    /// Weight of samples taken in it.
    pub own: Weight,
    /// Weight of samples with it in the stack.
    pub total: Weight,
    /// How sure their shares are.
    pub sure: Sure,
}

/// Measures the table of an event that `options` ask for.
pub fn measure(profile: &Profile, options: &TextOptions, event: EventId) -> Measured {
    let (scene, has_chains) = scene_of(profile, options, event);
    let table = Table::new(&scene, options, has_chains);
    let certainty = table.certainty();
    let cells = Cells::new(&scene, table.all_rows()).with(options.look);
    let keys: Vec<SortKey> = table
        .fields()
        .filter_map(|field| match field {
            Field::Key(key) => Some(key),
            _ => None,
        })
        .collect();
    let rows = table.rows().map(|row| MeasuredRow {
        names: keys.iter().map(|&key| cells.plain(key, row)).collect(),
        shown: keys.iter().map(|&key| cells.text(key, row)).collect(),
        own: row.own,
        total: row.total,
        sure: certainty.of(row.key),
    });
    Measured {
        rows: rows.collect(),
        keys,
        whole: table.whole(),
        nothing: certainty.of_nothing(),
    }
}
