//! The report for machines.
//!
//! One object; names stay as they are from version to version, new ones may
//! join. All texts are as recorded (JSON escapes them), all weights integers.
//!
//! ```text
//! schema    "prof-report-1"
//! origin    hostname, os_release, arch, cpu, tool_version, command_line,
//!           first_time_ns, last_time_ns
//! trust     summary, samples, lost, lost_records_at_most, lost_side_band, throttled,
//!           due_for_cpu_time (if tasks were too short to be sampled, else 0),
//!           due_has_kernel (whether that counts the kernel, which was not sampled),
//!           stacks { judged, complete, ends { reason: samples } },
//!           frames { total, unnamed }, caveats [ { what, cause, cure } ],
//!           damages [ { offset, what, bytes } ]
//! events [  name, samples, period, lost, asked, asked_is_hz, total { period, samples },
//!   rows  [ one per table row: each sort key by its name, then
//!           self { period, samples, percent }, total { … } ]
//!   frames[ { function, dso, inlined, kernel, named } ]
//!   tree  [ { parent, frame, self { period, samples }, total { … } } ] ]
//! ```
//!
//! `tree` is the call tree: node `i` is the `i`-th entry; `parent` is an
//! index into `tree` that comes before, or null; `frame` an index into
//! `frames`.

use crate::harmless_json;
use crate::keys::{Cells, Field};
use crate::model::{CallTree, NodeId, Row, Scene, SiteKind, Sure, Weight};
use crate::text::{Table, TextOptions, is_silent, scene_of};
use crate::trust;
use prof_profile::{EventId, Profile};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::io;

/// Writes the report as JSON, with a newline at the end.
///
/// # Errors
/// If `out` cannot be written to.
pub fn json(profile: &Profile, options: &TextOptions, out: &mut impl io::Write) -> io::Result<()> {
    let report = Report { profile, options };
    harmless_json::write(&report, out)?;
    out.write_all(b"\n")
}

struct Report<'a> {
    profile: &'a Profile,
    options: &'a TextOptions,
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let events: Vec<Event<'_>> = (0..self.profile.events.len())
            .map(|index| EventId(index as u16))
            .filter(|&event| !is_silent(self.profile, event))
            .map(|event| Event {
                report: self,
                event,
            })
            .collect();
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("schema", "prof-report-1")?;
        map.serialize_entry("origin", &origin(self.profile))?;
        map.serialize_entry("trust", &Trusted::of(self.profile))?;
        map.serialize_entry("events", &events)?;
        map.end()
    }
}

#[derive(Serialize)]
struct Origin<'a> {
    hostname: &'a str,
    os_release: &'a str,
    arch: &'a str,
    cpu: &'a str,
    tool_version: &'a str,
    command_line: &'a [String],
    first_time_ns: Option<u64>,
    last_time_ns: Option<u64>,
}

fn origin(profile: &Profile) -> Origin<'_> {
    let origin = &profile.origin;
    Origin {
        hostname: &origin.hostname,
        os_release: &origin.os_release,
        arch: &origin.arch,
        cpu: &origin.cpu_description,
        tool_version: &origin.tool_version,
        command_line: &origin.command_line,
        first_time_ns: origin.time_range.map(|(first, _)| first),
        last_time_ns: origin.time_range.map(|(_, last)| last),
    }
}

#[derive(Serialize)]
struct Trusted<'a> {
    summary: String,
    samples: u64,
    lost: u64,
    lost_records_at_most: u64,
    lost_side_band: u64,
    throttled: u64,
    due_for_cpu_time: u64,
    due_has_kernel: bool,
    stacks: Stacks,
    frames: Frames,
    caveats: Vec<trust::Caveat>,
    damages: Vec<Damage<'a>>,
}

#[derive(Serialize)]
struct Stacks {
    judged: u64,
    complete: u64,
    ends: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct Frames {
    total: u64,
    unnamed: u64,
}

#[derive(Serialize)]
struct Damage<'a> {
    offset: u64,
    what: &'a str,
    bytes: u64,
}

impl<'a> Trusted<'a> {
    fn of(profile: &'a Profile) -> Self {
        let trust = &profile.trust;
        let (judged, complete) = trust.rooted();
        let ends = trust.chain_ends.iter();
        Self {
            summary: trust::summary(profile),
            samples: trust.samples,
            lost: trust.lost,
            lost_records_at_most: trust.lost_records,
            lost_side_band: trust.lost_side_band,
            throttled: trust.throttled,
            due_for_cpu_time: trust.due,
            due_has_kernel: trust.due_has_kernel,
            stacks: Stacks {
                judged,
                complete,
                ends: ends
                    .map(|(end, &count)| (end.name().to_owned(), count))
                    .collect(),
            },
            frames: Frames {
                total: trust.frames,
                unnamed: trust.unnamed_frames(),
            },
            caveats: trust::caveats(profile),
            damages: trust
                .damages
                .iter()
                .map(|damage| Damage {
                    offset: damage.offset,
                    what: &damage.what,
                    bytes: damage.bytes,
                })
                .collect(),
        }
    }
}

struct Event<'a> {
    report: &'a Report<'a>,
    event: EventId,
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let (scene, has_chains) = scene_of(self.report.profile, self.report.options, self.event);
        let table = Table::new(&scene, self.report.options, has_chains);
        let mut map = out.serialize_map(None)?;
        if let Some(event) = scene.event() {
            map.serialize_entry("name", &event.name)?;
            map.serialize_entry("samples", &event.samples)?;
            map.serialize_entry("period", &event.period)?;
            map.serialize_entry("lost", &event.lost)?;
            map.serialize_entry("asked", &event.asked)?;
            map.serialize_entry("asked_is_hz", &event.is_freq)?;
        }
        map.serialize_entry("total", &Weighed(table.whole()))?;
        map.serialize_entry("rows", &RowList(&scene, &table))?;
        map.serialize_entry("frames", &FrameList(&scene))?;
        map.serialize_entry("tree", &TreeList(scene.tree()))?;
        map.end()
    }
}

struct Weighed(Weight);

impl Serialize for Weighed {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(2))?;
        map.serialize_entry("period", &self.0.period)?;
        map.serialize_entry("samples", &self.0.samples)?;
        map.end()
    }
}

struct Share(Weight, Weight, prof_statistics::Share);

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let interval = self.2.interval(0.95).scaled(100.0);
        let mut map = out.serialize_map(Some(5))?;
        map.serialize_entry("period", &self.0.period)?;
        map.serialize_entry("samples", &self.0.samples)?;
        map.serialize_entry("percent", &self.0.percent_of(self.1))?;
        map.serialize_entry("low", &interval.low)?;
        map.serialize_entry("high", &interval.high)?;
        map.end()
    }
}

struct RowList<'a>(&'a Scene<'a>, &'a Table<'a>);

impl Serialize for RowList<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let cells = Cells::new(self.0, self.1.all_rows());
        let certainty = self.1.certainty();
        let mut list = out.serialize_seq(None)?;
        for row in self.1.rows() {
            list.serialize_element(&OneRow(self.1, &cells, row, certainty.of(row.key)))?;
        }
        list.end()
    }
}

struct OneRow<'a>(&'a Table<'a>, &'a Cells<'a>, &'a Row, Sure);

impl Serialize for OneRow<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let Self(table, cells, row, sure) = self;
        let mut map = out.serialize_map(None)?;
        for field in table.fields() {
            if let Field::Key(key) = field {
                map.serialize_entry(key.name(), &cells.plain(key, row))?;
            }
        }
        map.serialize_entry("self", &Share(row.own, table.whole(), sure.own))?;
        map.serialize_entry("total", &Share(row.total, table.whole(), sure.total))?;
        map.end()
    }
}

struct FrameList<'a>(&'a Scene<'a>);

impl Serialize for FrameList<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Frame<'a> {
            function: &'a str,
            dso: &'a str,
            inlined: bool,
            kernel: bool,
            named: bool,
        }
        let profile = self.0.profile();
        out.collect_seq(self.0.sites().iter().map(|site| Frame {
            function: site.name(profile),
            dso: profile.name(profile.dso(site.dso).short_name),
            inlined: site.kind == SiteKind::Inline,
            kernel: site.is_kernel(profile),
            named: site.function(profile).unnamed.is_none(),
        }))
    }
}

struct TreeList<'a>(&'a CallTree);

impl Serialize for TreeList<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let tree = self.0;
        let mut list = out.serialize_seq(None)?;
        // Nodes without weight are left out, so those after them move up.
        let mut place = vec![u32::MAX; tree.len()];
        let mut next = 0_u32;
        for index in 1..tree.len() {
            let node = NodeId(index as u32);
            let Some(site) = tree.site(node).filter(|_| !tree.total(node).is_zero()) else {
                continue;
            };
            if let Some(slot) = place.get_mut(index) {
                *slot = next;
            }
            next += 1;
            let parent = tree.parent(node).filter(|&parent| parent != NodeId::ROOT);
            let parent = parent.and_then(|parent| place.get(parent.index()).copied());
            list.serialize_element(&TreeNode {
                parent,
                frame: site.0,
                own: Weighed(tree.own(node)),
                total: Weighed(tree.total(node)),
            })?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct TreeNode {
    parent: Option<u32>,
    frame: u32,
    #[serde(rename = "self")]
    own: Weighed,
    total: Weighed,
}

#[cfg(test)]
mod tests {
    use super::json;
    use crate::text::TextOptions;
    use prof_sketch::Sketch;

    #[test]
    fn tree_rows_and_trust_are_there_and_agree() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app\x1b[31m");
        sketch.sample(task, "main;f>g", 1, 10);
        sketch.sample(task, "main", 2, 5);
        let mut out = Vec::new();
        json(&sketch.profile, &TextOptions::default(), &mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let event = &value["events"][0];
        assert_eq!(value["schema"], "prof-report-1");
        assert_eq!(value["trust"]["samples"], 2);
        assert_eq!(event["total"]["period"], 15);
        let own = |list: &serde_json::Value| -> u64 {
            let nodes = list.as_array().unwrap().iter();
            nodes
                .map(|node| node["self"]["period"].as_u64().unwrap())
                .sum()
        };
        assert_eq!(own(&event["rows"]), 15);
        assert_eq!(own(&event["tree"]), 15);
        assert_eq!(event["tree"][0]["parent"], serde_json::Value::Null);
        assert_eq!(event["frames"][2]["inlined"], true);
        assert_eq!(event["rows"][0]["comm"], "app\x1b[31m");
    }
}
