//! Tracepoints: the formats that a recording carries, and the payloads of its
//! samples as text.
//!
//! You give the bytes of the TRACING_DATA section (or record); you get a
//! format per event id, which prints a payload as the kernel and perf would.
//!
//! Limits: texts nested deeper than 128 brackets do not parse; their events are
//! then printed field by field.

mod eval;
mod expr;
mod expression;
mod fields;
mod payload;
mod printf;
mod render;
mod section;
mod tokens;

pub use fields::{Field, FieldStorage};
pub use payload::{KernelTexts, Surroundings};
pub use section::{TracingData, TracingDataError};

use eval::PayloadScope;
use printf::Piece;
use prof_abi::ByteOrder;

/// The format of one tracepoint: what stands where in its payload, and how to
/// print it. Source: `events/SYSTEM/NAME/format` of tracefs.
#[derive(Debug, Clone)]
pub struct EventFormat {
    /// The group it belongs to (`sched`).
    pub system: String,
    /// Its name in the group (`sched_switch`).
    pub name: String,
    /// Its number, `config` of the attr.
    pub id: u32,
    /// Its fields in file order, those common to all events first.
    pub fields: Vec<Field>,
    /// Its `print fmt`; `None` if it could not be understood.
    print: Option<Vec<Piece>>,
}

impl EventFormat {
    /// Reads the text of a format file. `None` without a name, an id or a
    /// list of fields.
    pub fn parse(system: &str, text: &str) -> Option<Self> {
        let mut format = Self {
            system: system.to_owned(),
            name: String::new(),
            id: 0,
            fields: Vec::new(),
            print: None,
        };
        let mut has_id = false;
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                name.trim().clone_into(&mut format.name);
            } else if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().ok()?;
                has_id = true;
            } else if line.starts_with("field") {
                format.fields.push(Field::parse(line)?);
            }
        }
        if format.name.is_empty() || !has_id {
            return None;
        }
        let (_, print) = text.split_once("print fmt:").unwrap_or(("", ""));
        format.print = printf::parse(print, &format.fields);
        Some(format)
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Whether its `print fmt` could be parsed; otherwise payloads are printed
    /// as `name=value` pairs.
    pub fn is_understood(&self) -> bool {
        self.print.is_some()
    }

    /// Appends `payload` as text to `out`. The bytes of strings are copied as
    /// they are: the caller escapes.
    pub fn print(&self, payload: &[u8], around: &Surroundings<'_>, out: &mut Vec<u8>) {
        match &self.print {
            Some(pieces) => {
                let scope = PayloadScope {
                    format: self,
                    payload,
                    around,
                };
                render::pieces(pieces, scope, out);
            }
            None => {
                out.extend(b"[FAILED TO PARSE]");
                self.print_fields(payload, around.order, out);
            }
        }
    }

    /// Appends ` name=value` for each field of its own.
    pub fn print_fields(&self, payload: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
        for field in self.fields.iter().filter(|field| !field.is_common()) {
            out.push(b' ');
            out.extend(field.name.as_bytes());
            out.push(b'=');
            field.print(payload, order, out);
        }
    }
}

#[cfg(test)]
mod tests;
