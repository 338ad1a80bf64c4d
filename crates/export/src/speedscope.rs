//! speedscope's own format: JSON with a profile for each thread and event.
//!
//! Source: `file-format-spec.ts` of jlfwong/speedscope, schema of its page
//! <https://www.speedscope.app/file-format-schema.json>.

use crate::ExportError;
use crate::choice::Chosen;
use crate::pprof::unit_of;
use crate::thinned::Thinned;
use crate::used;
use prof_profile::{FunctionId, LocationId, Profile, StackId, Task};
use prof_report::harmless_json;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// The longest text that a browser holds as one string, with some room left:
/// V8's limit is 2^29 - 24 characters.
pub(crate) const LONGEST: u64 = (1 << 29) - (1 << 20);

/// Writes the chosen samples.
///
/// # Errors
/// If `out` cannot be written to.
pub(crate) fn write(chosen: &Chosen<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    write_within(chosen, out, LONGEST)
}

/// The same, of at most about `longest` bytes.
fn write_within(
    chosen: &Chosen<'_>,
    out: &mut dyn Write,
    longest: u64,
) -> Result<Vec<String>, ExportError> {
    let frames = Frames::new(chosen.profile);
    let head = 1024 + frames.text.len() as u64;
    let place = |id: LocationId| frames.at(id).len() as u64;
    let thinned = Thinned::new(chosen, longest.saturating_sub(head), place);
    let writer = Writer {
        chosen,
        frames: &frames,
        thinned: &thinned,
    };
    writer.write(out)?;
    Ok(thinned.told)
}

/// Frames are functions; by location, their numbers as they are written.
struct Frames {
    /// The table of frames.
    text: String,
    /// By `LocationId`: numbers from the outermost inwards, each with a comma.
    by_location: Vec<Box<str>>,
}

impl Frames {
    fn new(profile: &Profile) -> Self {
        let mut text = String::new();
        let same = used::by_name(profile);
        let mut numbers: FxHashMap<FunctionId, usize> = FxHashMap::default();
        let mut by_location = Vec::with_capacity(profile.locations.len());
        for location in &profile.locations {
            let frames = profile.frames.get(location.frames.range());
            let mut written = String::new();
            for frame in frames.unwrap_or_default().iter().rev() {
                let next = numbers.len();
                let id = same.get(frame.function.0 as usize).copied();
                let number = *numbers
                    .entry(id.unwrap_or(frame.function))
                    .or_insert_with(|| {
                        let function = profile.function(frame.function);
                        let file = function.defined_at.map(|(file, _)| file).or(frame.file);
                        let file = file.unwrap_or(profile.dso(function.dso).path);
                        let comma = if text.is_empty() { "" } else { "," };
                        text += &format!(
                            "{comma}\n{{\"name\":{},\"file\":{}",
                            quoted(profile.name(function.name)),
                            quoted(profile.name(file))
                        );
                        if let Some((_, line)) = function.defined_at.filter(|(_, line)| *line > 0) {
                            text += &format!(",\"line\":{line}");
                        }
                        text.push('}');
                        next
                    });
                written += &format!("{number},");
            }
            by_location.push(written.into_boxed_str());
        }
        Self { text, by_location }
    }

    fn at(&self, id: LocationId) -> &str {
        self.by_location.get(id.0 as usize).map_or("", |it| it)
    }
}

/// Text as JSON has it, of which a terminal obeys nothing.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    harmless_json::write(text, &mut out).expect("memory can be written to");
    String::from_utf8(out).expect("JSON of a text is text")
}

struct Writer<'a, 'p> {
    chosen: &'a Chosen<'p>,
    frames: &'a Frames,
    thinned: &'a Thinned,
}

impl Writer<'_, '_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.chosen.profile;
        let (threads, thread_of) = threads(profile);
        let keys = threads.len() * self.chosen.events.len();
        let sorted = self.chosen.sorted_by(keys, |slot, sample| {
            let thread = thread_of.get(sample.task.0 as usize).copied();
            slot * threads.len() + thread.unwrap_or(0)
        });
        let name = profile.origin.command_line.join(" ");
        write!(
            out,
            "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\
             \"exporter\":\"prof\",\"name\":{},\"shared\":{{\"frames\":[{}]}},\n\"profiles\":[",
            quoted(&name),
            self.frames.text
        )?;
        let mut is_first = true;
        for (key, rows) in sorted.groups() {
            if !std::mem::take(&mut is_first) {
                out.write_all(b",")?;
            }
            let slot = key / threads.len();
            let title = self.title(threads.get(key % threads.len()), slot);
            self.profile(&title, slot, rows, out)?;
        }
        out.write_all(b"]}\n")
    }

    /// What a profile is called: its thread, and its event if there are more.
    fn title(&self, thread: Option<&Task>, slot: usize) -> String {
        let profile = self.chosen.profile;
        let thread = thread.map_or_else(String::new, |task| {
            format!("{} {}/{}", profile.name(task.comm), task.pid, task.tid)
        });
        match self.event(slot) {
            Some(event) if self.chosen.events.len() > 1 => format!("{thread} {}", event.name),
            _ => thread,
        }
    }

    fn event(&self, slot: usize) -> Option<&prof_profile::Event> {
        let id = self.chosen.events.get(slot)?;
        self.chosen.profile.events.get(usize::from(id.0))
    }

    /// One of the profiles.
    fn profile(
        &self,
        title: &str,
        slot: usize,
        rows: &[u32],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let samples = &self.chosen.profile.samples;
        let rows = rows.iter().filter_map(|&row| samples.get(row as usize));
        let taken = rows.map(|sample| (self.thinned.stack(sample.stack), sample.period));
        let merged = self.thinned.merged(taken.clone());
        match merged {
            Some(merged) => self.arrays(title, slot, merged.into_iter(), out),
            None => self.arrays(title, slot, taken, out),
        }
    }

    fn arrays(
        &self,
        title: &str,
        slot: usize,
        taken: impl Iterator<Item = (StackId, u64)> + Clone,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let is_time = self
            .event(slot)
            .is_some_and(|event| unit_of(event) == "nanoseconds");
        let total = taken
            .clone()
            .fold(0_u64, |sum, (_, weight)| sum.saturating_add(weight));
        write!(
            out,
            "{{\"type\":\"sampled\",\"name\":{},\"unit\":\"{}\",\"startValue\":0,\
             \"endValue\":{total},\"samples\":[",
            quoted(title),
            if is_time { "nanoseconds" } else { "none" },
        )?;
        let mut line = String::new();
        let mut locations = Vec::new();
        let stacks = &self.chosen.profile.stacks;
        let mut comma = "[";
        for (stack, _) in taken.clone() {
            locations.clear();
            locations.extend(stacks.locations(stack));
            line.clear();
            line.push_str(comma);
            locations
                .iter()
                .rev()
                .for_each(|&id| line.push_str(self.frames.at(id)));
            if line.len() > comma.len() {
                line.pop();
            }
            line.push(']');
            out.write_all(line.as_bytes())?;
            comma = ",[";
        }
        out.write_all(b"],\"weights\":[")?;
        let mut comma = "";
        for (_, weight) in taken {
            write!(out, "{comma}{weight}")?;
            comma = ",";
        }
        out.write_all(b"]}")
    }
}

/// Threads by their last name, and by `TaskId` the index of its thread.
pub(crate) fn threads(profile: &Profile) -> (Vec<Task>, Vec<usize>) {
    let mut index: FxHashMap<(i32, i32), usize> = FxHashMap::default();
    let mut threads: Vec<Task> = Vec::new();
    let mut of = Vec::with_capacity(profile.tasks.len());
    for task in &profile.tasks {
        let at = *index.entry((task.pid, task.tid)).or_insert_with(|| {
            threads.push(*task);
            threads.len() - 1
        });
        of.push(at);
    }
    let last = profile.last_tasks();
    for thread in &mut threads {
        let last = last.get(&thread.tid).map(|&id| profile.task(id));
        let own = last.filter(|last| last.pid == thread.pid);
        thread.comm = own.map_or(thread.comm, |last| last.comm);
    }
    (threads, of)
}

#[cfg(test)]
mod tests {
    use super::{quoted, write_within};
    use crate::choice::{Choice, Chosen};
    use prof_profile::Sample;
    use prof_sketch::Sketch;
    use serde_json::Value;

    fn weights(json: &Value) -> (u64, usize) {
        let profiles = json["profiles"].as_array().expect("profiles");
        let weights = profiles
            .iter()
            .flat_map(|it| it["weights"].as_array().expect("weights"));
        let weights: Vec<u64> = weights.map(|it| it.as_u64().expect("a number")).collect();
        (weights.iter().sum(), weights.len())
    }

    #[test]
    fn no_text_moves_a_terminal() {
        let text = "a\u{9b}31m\u{7f}\u{202e}\"";
        let written = quoted(text);
        assert_eq!(written, r#""a\u009b31m\u007f\u202e\"""#);
        let read: String = serde_json::from_str(&written).expect("JSON");
        assert_eq!(read, text);
    }

    #[test]
    fn what_is_too_long_is_thinned_but_its_weight_stays() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        let work = sketch.stack("main;work>inner");
        for index in 0..1000 {
            sketch.sample(task, &format!("main;work>inner;f{index}"), index, 1);
            sketch.sample(task, "", index, 5);
            let mut samples = std::mem::take(&mut sketch.profile.samples);
            let sample = samples.get(samples.len() - 1).expect("a sample");
            samples.push(Sample {
                stack: work,
                ..sample
            });
            sketch.profile.samples = samples;
        }
        let chosen = Chosen::new(&sketch.profile, &Choice::default());
        let written = |longest| {
            let mut out = Vec::new();
            let told = write_within(&chosen, &mut out, longest).expect("written");
            let json: Value = serde_json::from_slice(&out).expect("JSON");
            (told, weights(&json))
        };
        let frames_alone = 40_000;
        let (told, all) = written(1 << 29);
        assert_eq!((told.len(), all), (0, (11_000, 3000)));
        let (told, merged) = written(frames_alone + 40_000);
        assert_eq!((told.len(), merged), (1, (11_000, 1002)), "{told:?}");
        let (told, thin) = written(frames_alone + 3000);
        assert_eq!((told.len(), thin.0), (2, 11_000), "{told:?}");
        assert!(thin.1 < 10, "{thin:?}");
    }
}
