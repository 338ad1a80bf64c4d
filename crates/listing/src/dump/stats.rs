//! Counts of records by type and of samples by event.

use super::values::visible;
use prof_abi::RecordType;
use prof_perfdata::{Losses, Reader};
use prof_report::harmless_json;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// Record types below this are counted in a table, others in a map.
const TABLE: usize = 128;

/// Counts of a recording's records and samples, by kind and event.
pub struct Stats {
    small: [u64; TABLE],
    large: BTreeMap<u32, u64>,
    /// Samples and sum of periods of each event.
    events: Vec<(u64, u64)>,
    losses: Losses,
}

impl Stats {
    /// Reads the recording to its end.
    pub fn count(reader: &mut Reader) -> Result<Self, prof_perfdata::Error> {
        let mut stats = Self {
            small: [0; TABLE],
            large: BTreeMap::new(),
            events: Vec::new(),
            losses: Losses::default(),
        };
        while let Some(record) = reader.next()? {
            let kind = record.kind;
            match stats.small.get_mut(kind.0 as usize) {
                Some(count) => *count += 1,
                None => *stats.large.entry(kind.0).or_default() += 1,
            }
            match kind {
                RecordType::SAMPLE => stats.add_sample(&record),
                _ => stats.losses.add(&record),
            }
        }
        stats.events.resize(reader.events().list().len(), (0, 0));
        Ok(stats)
    }

    fn add_sample(&mut self, record: &prof_perfdata::Record<'_>) {
        let Some(index) = record.event_index() else {
            return;
        };
        if self.events.len() <= index {
            self.events.resize(index + 1, (0, 0));
        }
        let Some((count, period)) = self.events.get_mut(index) else {
            return;
        };
        *count += 1;
        *period = period.saturating_add(record.period().unwrap_or(0));
    }

    /// (name, count) of each record type that came, by number.
    fn records(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let small = (0_u32..).zip(self.small).filter(|&(_, count)| count > 0);
        let large = self.large.iter().map(|(&kind, &count)| (kind, count));
        small.chain(large).map(|(kind, count)| {
            let name = RecordType(kind).name();
            (name.map_or_else(|| kind.to_string(), str::to_owned), count)
        })
    }

    /// Writes the counts as text.
    ///
    /// # Errors
    /// If `out` refuses.
    pub fn write_text(&self, reader: &Reader, out: &mut impl Write) -> std::io::Result<()> {
        let total: u64 = self.records().map(|(_, count)| count).sum();
        writeln!(out, "{total:>12} records")?;
        for (name, count) in self.records() {
            writeln!(out, "{count:>12} {name}")?;
        }
        writeln!(out)?;
        for (event, (samples, period)) in reader.events().list().iter().zip(&self.events) {
            let name = visible(event.name().as_bytes());
            writeln!(out, "{samples:>12} samples of {name}, {period} in total")?;
        }
        let lost = self.losses.total(reader.events());
        writeln!(out, "{:>12} lost", lost.samples)?;
        if lost.records > 0 {
            let most = lost.records;
            writeln!(
                out,
                "{most:>12} records lost, at most so many of them samples"
            )?;
        }
        if lost.side_band > 0 {
            let records = lost.side_band;
            writeln!(
                out,
                "{records:>12} records of mappings, names and tasks lost"
            )?;
        }
        Ok(())
    }

    /// In the layout of `perf report --stats`.
    pub fn write_as_perf(&self, reader: &Reader, out: &mut impl Write) -> std::io::Result<()> {
        let total: u64 = self.records().map(|(_, count)| count).sum();
        writeln!(
            out,
            "\nAggregated stats:\n{:>16} events: {total:10}",
            "TOTAL"
        )?;
        for (name, count) in self.records() {
            let share = 100.0 * count as f64 / total as f64;
            writeln!(out, "{name:>16} events: {count:10}  ({share:4.1}%)")?;
        }
        for (event, (samples, _)) in reader.events().list().iter().zip(&self.events) {
            if *samples > 0 {
                let name = visible(event.name().as_bytes());
                writeln!(out, "{name} stats:\n{:>16} events: {samples:10}", "SAMPLE")?;
            }
        }
        Ok(())
    }

    /// Writes the counts as an object.
    ///
    /// # Errors
    /// If `out` refuses.
    pub fn write_json(&self, reader: &Reader, out: &mut impl Write) -> std::io::Result<()> {
        let events: Vec<Value> = reader
            .events()
            .list()
            .iter()
            .zip(&self.events)
            .map(|(event, (samples, period))| {
                json!({ "name": event.name(), "samples": samples, "period": period })
            })
            .collect();
        let records: Map<String, Value> = self
            .records()
            .map(|(name, count)| (name, count.into()))
            .collect();
        let damage: Vec<Value> = reader
            .damages()
            .iter()
            .map(|damage| {
                let record = damage.record.map(|kind| {
                    let name = kind.name();
                    name.map_or_else(|| kind.0.to_string(), str::to_owned)
                });
                json!({
                    "offset": damage.offset,
                    "record": record,
                    "what": damage.kind.to_string(),
                    "bytes": damage.bytes,
                })
            })
            .collect();
        let lost = self.losses.total(reader.events());
        let object = json!({
            "events": events,
            "records": records,
            "lost": lost.samples,
            "lost_records_at_most": lost.records,
            "lost_side_band": lost.side_band,
            "damage": damage,
        });
        harmless_json::write(&object, out)?;
        writeln!(out)
    }
}
