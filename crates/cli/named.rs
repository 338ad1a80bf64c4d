//! Options whose values are names of a list.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Takes one of the names; each value with its name and what `--help` says
/// of it.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    values: impl Iterator<Item = (T, &'static str, &'static str)>,
) -> impl TypedValueParser<Value = T> {
    let values: Vec<_> = values.collect();
    let shown = values.iter();
    let shown: Vec<PossibleValue> = shown
        .map(|&(_, name, about)| PossibleValue::new(name).help(about))
        .collect();
    PossibleValuesParser::new(shown).try_map(move |given| {
        let mut all = values.iter();
        let found = all.find(|(_, name, _)| *name == given);
        found
            .map(|&(value, ..)| value)
            .ok_or("there is no such name")
    })
}
