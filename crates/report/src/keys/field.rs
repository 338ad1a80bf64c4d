//! Columns of a table: weights, and the sort keys.

use super::{CellLook, DSO, SortKey, refused_key};
use crate::model::{Row, Weight};
use prof_profile::Event;
use std::str::FromStr;
use thiserror::Error;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// Share of the samples with it in the stack.
    Children,
    /// Share of the samples taken in it.
    Overhead,
    /// The kernel's part of `Overhead`.
    OverheadSys,
    /// The user's part of `Overhead`.
    OverheadUs,
    /// Samples taken in it.
    Samples,
    /// Sum of their periods.
    Period,
    /// The 95 % interval of `Overhead`: where it would be if the same run were
    /// sampled again.
    Interval,
    /// A part of the row's identity.
    Key(SortKey),
}

/// A word that names no column.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldError {
    /// There is no such column.
    #[error(
        "unknown field {given:?}; known are {known}, and of tracepoints their fields \
         (prev_comm, or sched:sched_switch.prev_comm), or trace_fields for all of them"
    )]
    Unknown {
        /// What was given.
        given: String,
        /// All fields, separated by commas.
        known: String,
    },
    /// A field of tracepoints that cannot be told, with the reason.
    #[error("{0}")]
    Trace(String),
    /// A column of perf's that prof does not have.
    #[error("prof does not have perf's {given:?}: {why}")]
    Refused {
        /// What was given.
        given: String,
        /// Why, and what to do instead.
        why: &'static str,
    },
}

/// Columns as typed: separated by commas; after a `+` they are added to the
/// usual ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldList {
    /// The columns, those left out that only tracepoints can have.
    pub fields: Vec<Field>,
    /// Whether they are added to the usual ones.
    pub is_added: bool,
    /// As typed, without the `+`.
    pub text: String,
    /// What is wrong with the first word that names no column, unless a tracepoint of
    /// the recording has such a field.
    pub unknown: Option<FieldError>,
}

impl FieldList {
    /// With the fields of tracepoints that `find` knows by a word.
    ///
    /// # Errors
    /// If a word names no column and is no such field.
    pub fn with_trace_fields(
        self,
        find: impl Fn(&str) -> Result<Vec<SortKey>, String>,
    ) -> Result<Self, FieldError> {
        let mut fields = Vec::new();
        for word in self.text.split(',') {
            match word.parse() {
                Ok(field) => fields.push(field),
                Err(error @ FieldError::Refused { .. }) => return Err(error),
                Err(error) => {
                    let found = find(word).map_err(FieldError::Trace)?;
                    if found.is_empty() {
                        return Err(error);
                    }
                    fields.extend(found.into_iter().map(Field::Key));
                }
            }
        }
        Ok(Self {
            fields,
            unknown: None,
            ..self
        })
    }

    /// The columns, where none can be of tracepoints.
    ///
    /// # Errors
    /// If a word names no column.
    pub fn known(&self) -> Result<&[Field], FieldError> {
        match &self.unknown {
            Some(error) => Err(error.clone()),
            None => Ok(&self.fields),
        }
    }
}

impl FromStr for FieldList {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let words = text.strip_prefix('+');
        let mut list = Self {
            fields: Vec::new(),
            is_added: words.is_some(),
            text: words.unwrap_or(text).to_owned(),
            unknown: None,
        };
        for word in list.text.split(',') {
            match word.parse() {
                Ok(field) => list.fields.push(field),
                Err(error @ FieldError::Unknown { .. }) => {
                    list.unknown.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(list)
    }
}

const WEIGHT_FIELDS: [(&str, Field); 7] = [
    ("overhead", Field::Overhead),
    ("overhead_sys", Field::OverheadSys),
    ("overhead_us", Field::OverheadUs),
    ("overhead_children", Field::Children),
    ("sample", Field::Samples),
    ("period", Field::Period),
    ("interval", Field::Interval),
];

impl FromStr for Field {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let lower = text.to_lowercase();
        if let Some(why) = refused_key(&lower) {
            let given = lower;
            return Err(FieldError::Refused { given, why });
        }
        let weight = WEIGHT_FIELDS
            .iter()
            .find(|(name, _)| *name == lower || (!lower.is_empty() && name.starts_with(&lower)));
        let key = || SortKey::from_str(&lower).map(Field::Key);
        // Sort keys first, as a beginning such as `p` or `s` means `pid`, `symbol`.
        key().or_else(|error| {
            weight
                .map(|&(_, field)| field)
                .ok_or_else(|| FieldError::Unknown {
                    given: text.to_owned(),
                    known: format!(
                        "{}, {}",
                        WEIGHT_FIELDS.map(|(name, _)| name).join(", "),
                        error.known
                    ),
                })
        })
    }
}

impl Field {
    /// As typed after `-F`.
    pub fn name(self) -> &'static str {
        if let Self::Key(key) = self {
            return key.name();
        }
        WEIGHT_FIELDS
            .iter()
            .find(|(_, field)| *field == self)
            .map_or("", |(name, _)| name)
    }

    /// Its heading; beside a `Children` column, overhead is called `Self`.
    pub(crate) fn heading(self, beside_children: bool) -> &'static str {
        match self {
            Self::Children => "Children",
            Self::Overhead if beside_children => "Self",
            Self::Overhead => "Overhead",
            Self::OverheadSys => "sys",
            Self::OverheadUs => "usr",
            Self::Samples => "Samples",
            Self::Period => "Period",
            Self::Interval => "95% interval",
            Self::Key(key) => key.heading(),
        }
    }

    /// Its heading in the terminal UI, which has room for words, and where
    /// callers always count.
    pub fn screen_heading(self) -> &'static str {
        match self {
            Self::Children => "Total",
            Self::Interval => "95 % int.",
            Self::Key(key) if key == DSO => "Module",
            other => other.heading(true),
        }
    }

    /// Whether samples of an event can have it: a field of tracepoints is only of those
    /// with that field.
    pub(crate) fn is_of(self, event: Option<&Event>) -> bool {
        let Self::Key(key) = self else {
            return true;
        };
        key.trace_field().is_none_or(|field| {
            let number = event.and_then(|event| event.tracepoint);
            number.is_some_and(|number| field.events.contains(&number))
        })
    }

    /// Whether its cells are numbers, flushed right.
    pub fn is_weight(self) -> bool {
        !matches!(self, Self::Key(_))
    }

    /// Least width in characters.
    pub(crate) fn least_width(self, look: CellLook) -> usize {
        match self {
            Self::Children | Self::Overhead | Self::OverheadSys | Self::OverheadUs => 8,
            Self::Samples | Self::Period => 12,
            // [100.00, 100.00]
            Self::Interval => 16,
            Self::Key(key) => key.least_width(look),
        }
    }

    /// The weight shown in a row.
    pub(crate) fn weight(self, row: &Row) -> Option<Weight> {
        match self {
            Self::Children => Some(row.total),
            Self::Overhead | Self::Samples | Self::Period | Self::Interval => Some(row.own),
            Self::OverheadSys => Some(row.own_kernel),
            Self::OverheadUs => Some(row.own.without(row.own_kernel)),
            Self::Key(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Field;
    use crate::keys::SYMBOL;

    #[test]
    fn fields_are_found_by_perfs_names() {
        assert_eq!("overhead".parse(), Ok(Field::Overhead));
        assert_eq!("overhead_ch".parse(), Ok(Field::Children));
        assert_eq!("sym".parse(), Ok(Field::Key(SYMBOL)));
        assert_eq!("sample".parse(), Ok(Field::Samples));
        assert_eq!("interval".parse(), Ok(Field::Interval));
        assert!("bogus".parse::<Field>().is_err());
    }
}
