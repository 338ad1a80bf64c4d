//! What tracepoints told with their samples.

use crate::NameId;

/// A field of tracepoints that a view asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceField {
    /// Numbers of the tracepoints, `config` of their attrs: of those with such a field, which
    /// are meant.
    pub events: Vec<u64>,
    /// Name of the field (`prev_comm`).
    pub name: String,
    /// Whether its value is told as the payload has it, else as the tracepoint's text
    /// has it (`R+` for a number).
    pub is_raw: bool,
}

/// A payload; samples share equal ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// As the kernel would print it.
    pub text: NameId,
    /// The fields that were asked for, in that order ([`Payloads::asked`]); `None` where it
    /// is of none of its tracepoints.
    pub fields: Box<[Option<FieldValue>]>,
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldValue {
    /// As text.
    pub text: NameId,
    /// Its number among all values of the field, in the order of their bytes.
    pub rank: u32,
}

/// Index of a [`Payload`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PayloadId(pub u32);

/// The distinct payloads of a profile, where a view asked for them.
#[derive(Debug, Default, Clone)]
pub struct Payloads {
    /// The fields that were asked for.
    pub asked: Vec<TraceField>,
    /// By [`PayloadId`].
    pub list: Vec<Payload>,
}

impl Payloads {
    /// The payload with this index.
    pub fn get(&self, id: PayloadId) -> Option<&Payload> {
        self.list.get(id.0 as usize)
    }

    /// What a payload has in a field, if it has that field and it was asked for.
    pub fn value(&self, id: PayloadId, field: &TraceField) -> Option<FieldValue> {
        let at = self.asked.iter().position(|asked| asked == field)?;
        self.get(id)?.fields.get(at).copied().flatten()
    }
}
