//! The units of what is counted.

use prof_record::catalog;
use prof_record::counting::Counter;

/// Factor and unit by which a count is shown, if not as it is.
pub(crate) fn unit_of(counter: &Counter) -> Option<(f64, String)> {
    match counter.tool() {
        Some(_) => Some((1.0, "ns".to_owned())),
        None => catalog::unit_of(counter.name()),
    }
}
