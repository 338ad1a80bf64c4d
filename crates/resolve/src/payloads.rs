//! The payloads of tracepoints: collected sample by sample, told when all are there.

use prof_perfdata::tracepoint::{Field, TracingData};
use prof_perfdata::{Event, Features, Sample as RawSample};
use prof_profile::{
    Avma, FieldValue, NameId, Names, Payload, PayloadId, Payloads as Told, Samples, TraceField,
};
use prof_symbolize::{Detail, KernelSymbols};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The distinct payloads, and which sample has which.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    /// The fields that a view asks for.
    asked: Vec<TraceField>,
    /// Number of the event, and bytes.
    index: FxHashMap<(u64, Box<[u8]>), u32>,
    /// By row of the samples.
    of_rows: Vec<Option<PayloadId>>,
}

impl Payloads {
    pub(crate) fn new(asked: &[TraceField]) -> Self {
        Self {
            asked: asked.to_vec(),
            ..Self::default()
        }
    }

    /// Notes the payload of the sample that is row `row`.
    pub(crate) fn note(&mut self, event: &Event, sample: &RawSample<'_>, row: usize) {
        let (Some(number), Some(bytes)) = (event.tracepoint(), sample.raw()) else {
            return;
        };
        let next = self.index.len() as u32;
        let key = (number, bytes.into());
        let id = PayloadId(*self.index.entry(key).or_insert(next));
        self.of_rows.resize(row, None);
        self.of_rows.push(Some(id));
    }

    /// Gives each sample what its payload tells.
    pub(crate) fn tell(
        self,
        features: &Features,
        kernel: impl FnOnce() -> Option<Arc<KernelSymbols>>,
        samples: &mut Samples,
        names: &mut Names,
    ) {
        let section = features.tracing_data().filter(|_| !self.index.is_empty());
        let Some(tracing) = section.and_then(|bytes| TracingData::parse(bytes).ok()) else {
            return;
        };
        let kernel = kernel();
        let function = |address| {
            let symbol = kernel.as_ref()?.lookup(Avma(address), Detail::Symbol);
            let symbol = symbol.symbol?;
            Some((symbol.name.to_string(), symbol.start.0))
        };
        let mut payloads: Vec<_> = self.index.into_iter().collect();
        payloads.sort_unstable_by_key(|&(_, index)| index);
        let mut columns: Vec<Column<'_>> = self.asked.iter().map(Column::of(&tracing)).collect();
        let mut list = Vec::with_capacity(payloads.len());
        for ((event, bytes), _) in &payloads {
            let mut text = Vec::new();
            tracing.print(*event, bytes, &function, &mut text);
            let fields = columns.iter_mut();
            list.push(Payload {
                fields: fields
                    .map(|column| column.value((*event, bytes), (&tracing, &text), names))
                    .collect(),
                text: names.intern(&String::from_utf8_lossy(&text)),
            });
        }
        // In the order of their bytes, which is known when all are there.
        let ranks: Vec<Vec<u32>> = columns.into_iter().map(Column::ranks).collect();
        for payload in &mut list {
            for (value, ranks) in payload.fields.iter_mut().zip(&ranks) {
                let Some(value) = value else { continue };
                value.rank = ranks.get(value.rank as usize).copied().unwrap_or(0);
            }
        }
        let asked = self.asked;
        samples.tell(Told { asked, list }, &self.of_rows);
    }
}

/// A field that is asked for, with the values that it had.
struct Column<'a> {
    asked: &'a TraceField,
    /// By the number of an event: where it is in the payload.
    places: FxHashMap<u64, &'a Field>,
    /// Its values in the order in which they came, by their bytes.
    values: BTreeMap<Box<[u8]>, (u32, NameId)>,
}

impl<'a> Column<'a> {
    fn of(tracing: &'a TracingData) -> impl Fn(&'a TraceField) -> Self {
        move |asked| {
            let place = |&event| Some((event, tracing.event(event)?.field(&asked.name)?));
            Self {
                asked,
                places: asked.events.iter().filter_map(place).collect(),
                values: BTreeMap::new(),
            }
        }
    }

    /// What a payload of an event has in the field, printed as a whole as `text`; the
    /// rank is the place among the values that came.
    fn value(
        &mut self,
        (event, payload): (u64, &[u8]),
        (tracing, text): (&TracingData, &[u8]),
        names: &mut Names,
    ) -> Option<FieldValue> {
        let field = self.places.get(&event)?;
        let bytes = field.bytes(payload, tracing.order);
        let next = self.values.len() as u32;
        let (rank, text) = match self.values.get(bytes) {
            Some(&known) => known,
            None => {
                let printed = (!self.asked.is_raw).then_some(text);
                let shown = field.shown(payload, tracing.order, printed);
                let name = names.intern(&String::from_utf8_lossy(&shown));
                self.values.insert(bytes.into(), (next, name));
                (next, name)
            }
        };
        Some(FieldValue { text, rank })
    }

    /// By place among the values that came: place in the order of their bytes.
    fn ranks(self) -> Vec<u32> {
        let mut ranks = vec![0; self.values.len()];
        for (rank, (came, _)) in (0..).zip(self.values.into_values()) {
            if let Some(slot) = ranks.get_mut(came as usize) {
                *slot = rank;
            }
        }
        ranks
    }
}
