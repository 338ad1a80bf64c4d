//! What tracepoints tell as keys: their whole text, and their fields, which are known
//! only when a recording is.

use super::recorded::{Recorded, one, or_not_told};
use super::room::char_count;
use super::{Fit, Measure, Order, SortKey, Spec, Text, USUAL};
use crate::model::By;
use prof_profile::{Detail, Profile, TraceField};

/// What a tracepoint tells, as text.
pub(super) const TRACE: SortKey = SortKey(&Spec {
    name: "trace",
    heading: "Trace output",
    width: 12,
    by: By::Detail(|profile, it| one(text(profile, it).map_or(u64::MAX, |name| name.0.into()))),
    order: Order::Details(|profile, a, b| {
        let text = |detail: &Detail| text(profile, detail).map(|name| profile.name(name));
        text(a).cmp(&text(b))
    }),
    text: Text::OfRecord(|of, out| {
        let name = |name| of.profile.name(name);
        out.push_str(or_not_told(text(of.profile, of.detail).map(name)));
    }),
    ..USUAL
});

/// The text of what a sample's tracepoint told.
fn text(profile: &Profile, detail: &Detail) -> Option<prof_profile::NameId> {
    let payload = profile.samples.payloads().get(detail.payload?)?;
    Some(payload.text)
}

/// The room that perf gives a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldRoom {
    /// A number of so many bytes.
    Number(usize),
    /// A text of so many bytes at most.
    Text(usize),
    /// A text of any length, of which perf counts the zero at its end, too.
    LongText,
}

impl Recorded<'_> {
    /// What the sample's tracepoint has in the field whose key is asked for.
    fn told(&self) -> &str {
        let value = || {
            let payloads = self.profile.samples.payloads();
            payloads.value(self.detail.payload?, self.key.trace_field()?)
        };
        or_not_told(value().map(|value| self.profile.name(value.text)))
    }
}

impl SortKey {
    /// The key of a field of tracepoints.
    ///
    /// Keys last as long as the program: a command names few.
    pub fn of_trace_field(field: TraceField, room: FieldRoom) -> Self {
        let name: &'static str = Box::leak(field.name.clone().into_boxed_str());
        // As perf has it: a number may be hexadecimal.
        let (least, measure) = match room {
            FieldRoom::Number(bytes) => (2 + 2 * bytes, Measure::Text),
            FieldRoom::Text(bytes) => (bytes, Measure::Text),
            FieldRoom::LongText => {
                let with_end = |of: &Recorded<'_>| Some(1 + char_count(of.told()));
                (0, Measure::OfRecord(with_end))
            }
        };
        let field: &'static TraceField = Box::leak(Box::new(field));
        Self(Box::leak(Box::new(Spec {
            name,
            heading: name,
            width: least.max(name.len()).min(LONGEST),
            pads: true,
            by: By::TraceField(field),
            order: Order::LargestFirst,
            text: Text::OfRecord(|of, out| out.push_str(of.told())),
            measure,
            fit: Fit::Right,
            ..USUAL
        })))
    }

    /// The tracepoint's field whose key this is.
    pub fn trace_field(self) -> Option<&'static TraceField> {
        match self.0.by {
            By::TraceField(field) => Some(field),
            _ => None,
        }
    }
}

/// No column is made wider for a field's size alone, characters: a recording may claim any.
const LONGEST: usize = 64;
