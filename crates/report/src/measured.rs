//! The rows of a table as names and figures, to be compared with those of
//! another recording.

use crate::keys::{Cells, Field, SortKey};
use crate::model::{Sure, Weight};
use crate::text::{Table, TextOptions, scene_of};
use prof_profile::{EventId, Profile};
use prof_statistics::Share;

/// The rows of one event's table with their names, weights and confidence, for
/// comparisons.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The sort keys that identify rows, in the order of columns.
    pub keys: Vec<SortKey>,
    /// In the table's order.
    pub rows: Vec<MeasuredRow>,
    /// The weight of 100 %.
    pub whole: Weight,
    /// The confidence in a share of 0: for names that have no row here.
    pub nothing: Share,
}

/// A row of a [`Measured`] table.
#[derive(Debug, Clone)]
pub struct MeasuredRow {
    /// The value of each sort key, as recorded.
    pub names: Vec<String>,
    /// The same values as a table shows them, escaped for a terminal.
    pub shown: Vec<String>,
    /// Weight of samples taken in it.
    pub own: Weight,
    /// Weight of samples with it in the stack.
    pub total: Weight,
    /// Confidence in both shares.
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
