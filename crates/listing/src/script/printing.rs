//! All samples of a recording, and the records that are asked for.

use super::fields::check;
use super::head::Head;
use super::late_chains::LateChains;
use super::order::Order;
use super::records::{Layout, Other, write as write_record, write_deferred};
use super::rows::Rows;
use super::sampled::{Cgroups, Sampled};
use super::{Choice, FieldError, Shown};
use crate::{Error, Switch};
use prof_abi::CpuMode;
use prof_live::Processes;
use prof_perfdata::{Body, Event, Reader, Record, Sample, Shares, TimeOrder};
use prof_profile::{EventId, Profile};
use prof_report::script::{EventKind, Field, Options, ScriptWriter, Selection, TimeOrigin, Times};
use prof_symbolize::Symbolizer;
use std::io::{self, Write};

/// Bytes collected before they are written.
pub const CHUNK: usize = 1 << 18;

/// How samples are printed.
pub struct Form {
    /// The fields.
    pub selection: Selection,
    /// What times are counted from.
    pub time_origin: TimeOrigin,
    /// Times to the nanosecond, else to the microsecond.
    pub nanoseconds: bool,
    /// Call chains instead of single addresses.
    pub call_chains: bool,
    /// User call chains that were recorded after their samples are printed by
    /// themselves.
    pub separate_chains: bool,
    /// Longest call chain, addresses.
    pub max_stack: usize,
    /// Inlined functions are frames of their own.
    pub inlines: bool,
    /// Functions at which a call chain ends.
    pub stop_at: Vec<String>,
    /// Source files with their directories.
    pub full_source_path: bool,
    /// The files of the kernel and its modules, not their short names.
    pub kernel_path: bool,
}

impl Form {
    /// Drops default fields that the recording's events lack.
    ///
    /// # Errors
    /// If a field that was asked for cannot be printed.
    pub fn fit(&mut self, head: &Head, profile: &Profile) -> Result<(), FieldError> {
        let has_clock = profile.origin.wall_clock.is_some();
        check(&mut self.selection, head, has_clock, self.call_chains)
    }

    fn options(&self, profile: &Profile, events: &[Event]) -> Options {
        let fields = |event: &Event| self.selection.of(EventKind::of(event.attr.kind));
        let wall_clock = profile.origin.wall_clock;
        let widths = events.iter().map(|event| event.name().len());
        Options {
            fields: events.iter().map(fields).collect(),
            name_width: widths.max().unwrap_or(0),
            times: Times::new(self.time_origin, self.nanoseconds),
            call_chains: self.call_chains,
            max_stack: self.max_stack,
            inlines: self.inlines,
            stop_at: self.stop_at.clone(),
            full_source_path: self.full_source_path,
            kernel_path: self.kernel_path,
            wall_clock: wall_clock.map(|(wall, clock)| i128::from(wall) - i128::from(clock)),
        }
    }
}

/// Which parts of a recording are printed.
pub struct Wanted {
    /// Its samples; `None` for none.
    pub samples: Option<Choice>,
    /// Events between which samples count.
    pub switch: Switch,
    /// Other records.
    pub records: Shown,
}

/// Receives the text of samples, event by event.
pub trait ByEvent<E> {
    /// Where the next sample of `event` is to be printed; `None` for where
    /// all else is.
    fn text(&mut self, event: EventId) -> Option<&mut Vec<u8>>;

    /// Called when a sample of `event` was printed.
    ///
    /// # Errors
    /// If its text cannot be written.
    fn printed(&mut self, event: EventId) -> Result<(), E>;
}

/// [`ByEvent`], whatever its errors are.
trait Texts {
    fn text(&mut self, event: EventId) -> Option<&mut Vec<u8>>;

    fn printed(&mut self, event: EventId) -> io::Result<()>;
}

/// Texts of events, and why one of them could not be written.
struct Apart<'a, E> {
    texts: &'a mut dyn ByEvent<E>,
    failed: &'a mut Option<E>,
}

impl<E> Texts for Apart<'_, E> {
    fn text(&mut self, event: EventId) -> Option<&mut Vec<u8>> {
        self.texts.text(event)
    }

    fn printed(&mut self, event: EventId) -> io::Result<()> {
        self.texts.printed(event).map_err(|error| {
            *self.failed = Some(error);
            io::Error::other("the text of an event cannot be written")
        })
    }
}

/// The second pass over a recording: the profile comes from the first pass, and
/// fields that it does not keep are printed from the records of this one.
pub struct Printing<'a> {
    profile: &'a Profile,
    symbolizer: &'a Symbolizer,
    head: &'a Head,
    form: &'a Form,
    wanted: Wanted,
    /// Of each event whether its samples are printed with call chains.
    chains: Vec<bool>,
    processes: Processes,
    /// Made when first needed: it is to know the kernel's map.
    rows: Option<Rows<'a>>,
    /// Paths of cgroups by their ids.
    cgroups: Cgroups,
    writer: ScriptWriter<'a>,
    order: Order,
    late: LateChains,
    text: Vec<u8>,
}

impl<'a> Printing<'a> {
    /// `form` fits the recording; see [`Form::fit`].
    pub fn new(
        (profile, symbolizer): (&'a Profile, &'a Symbolizer),
        head: &'a Head,
        form: &'a Form,
        wanted: Wanted,
    ) -> Self {
        let events = profile.events.iter();
        let chains = events.map(|event| event.has_callchain && form.call_chains);
        Self {
            profile,
            symbolizer,
            head,
            form,
            chains: chains.collect(),
            processes: Processes::default(),
            rows: None,
            cgroups: Cgroups::new(),
            writer: ScriptWriter::new(profile, form.options(profile, &head.events)),
            order: Order::new(&wanted.records),
            late: LateChains::new(!form.separate_chains),
            text: Vec::with_capacity(CHUNK),
            wanted,
        }
    }

    /// Prints the records of `reader`. Samples go to `by_event`, if there is
    /// one; what comes later than its sample does not wait for them then.
    ///
    /// # Errors
    /// If the recording cannot be read, or what is printed not be written.
    pub fn run<E>(
        self,
        reader: Reader,
        by_event: Option<&mut dyn ByEvent<E>>,
        out: &mut dyn Write,
    ) -> Result<(), E>
    where
        E: From<prof_perfdata::Error> + From<io::Error>,
    {
        let mut failed = None;
        let mut apart = by_event.map(|texts| Apart {
            texts,
            failed: &mut failed,
        });
        let apart = apart.as_mut().map(|apart| apart as &mut dyn Texts);
        let printed = self.print(reader, apart, out);
        match (failed, printed) {
            (Some(error), _) => Err(error),
            (None, Err(Error::Recording(error))) => Err(error.into()),
            (None, Err(Error::Output(error))) => Err(error.into()),
            (None, Ok(())) => Ok(()),
        }
    }

    /// See [`Self::run`]: compiled once, here, whatever errors the caller has.
    fn print(
        mut self,
        reader: Reader,
        mut by_event: Option<&mut dyn Texts>,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        if by_event.is_some() {
            self.late = LateChains::new(false);
        }
        let profile = self.profile;
        let mut rows_of_profile = profile.samples.iter();
        let mut records = TimeOrder::new(reader);
        let (mut shares, mut parts) = (Shares::default(), Vec::new());
        while let Some(record) = records.next()? {
            let body = record.decode();
            let Body::Sample(sample) = body else {
                self.other(&record, &body);
                self.flush(&record, out)?;
                continue;
            };
            // The profile has a row for each share of a sample, in order.
            parts.clear();
            if let Some(own) = record.event_index() {
                shares.of(record.events(), own, &sample, &mut parts);
            }
            if record.misc.cpu_mode() == CpuMode::User {
                let pid = sample.pid().unwrap_or(-1);
                self.processes.runs_user_code(pid);
            }
            for kept in rows_of_profile.by_ref().take(parts.len()) {
                if !self.wants(&kept) {
                    continue;
                }
                match &mut by_event {
                    Some(texts) => {
                        self.sample((&record, &sample), kept, texts.text(kept.event));
                        texts.printed(kept.event)?;
                    }
                    None => {
                        self.sample((&record, &sample), kept, None);
                        self.flush(&record, out)?;
                    }
                }
            }
        }
        self.late.finish(&mut self.text);
        self.order.finish(&mut self.text);
        out.write_all(&self.text)?;
        Ok(())
    }

    fn wants(&mut self, sample: &prof_profile::Sample) -> bool {
        let choice = self.wanted.samples.as_ref();
        choice.is_some_and(|choice| choice.takes(self.profile, sample))
            && !self.wanted.switch.leaves_out(sample.event)
    }

    /// Prints a sample; to `text`, if it is not to stand with the rest.
    fn sample(
        &mut self,
        (record, sample): (&Record<'_>, &Sample<'_>),
        kept: prof_profile::Sample,
        text: Option<&mut Vec<u8>>,
    ) {
        let (head, symbolizer) = (self.head, self.symbolizer);
        let processes = &self.processes;
        let rows = self
            .rows
            .get_or_insert_with(|| Rows::new(&head.features, processes, symbolizer));
        let text = text.unwrap_or(&mut self.text);
        let start = text.len();
        let of = Sampled {
            record,
            sample,
            processes,
            cgroups: &self.cgroups,
        };
        rows.write(of, kept, &mut self.writer, text);
        if sample.deferred_cookie().is_some() {
            self.late.wait(sample.tid().unwrap_or(-1), text, start);
        }
    }

    fn other(&mut self, record: &Record<'_>, body: &Body<'_>) {
        self.processes.apply(record, body);
        if let Body::CallchainDeferred(_) = body {
            if self.form.separate_chains {
                self.chain_apart(record, body);
            }
            let tid = record.sample_id().tid.unwrap_or(-1);
            self.late.came(tid, &mut self.text);
        }
        if self.wanted.records.wants(record.kind) {
            let layout = Layout {
                selection: &self.form.selection,
                chains: &self.chains,
                times: self.writer.times(),
            };
            let of = Other {
                record,
                body,
                processes: &self.processes,
            };
            write_record(of, layout, &mut self.text);
        }
        if let Body::Cgroup(cgroup) = body {
            let path = String::from_utf8_lossy(cgroup.path.bytes()).into_owned();
            self.cgroups.insert(cgroup.id, path);
        }
    }

    /// Prints a user call chain by itself.
    fn chain_apart(&mut self, record: &Record<'_>, body: &Body<'_>) {
        let Body::CallchainDeferred(chain) = body else {
            return;
        };
        let (head, symbolizer) = (self.head, self.symbolizer);
        let processes = &self.processes;
        let rows = self
            .rows
            .get_or_insert_with(|| Rows::new(&head.features, processes, symbolizer));
        let layout = Layout {
            selection: &self.form.selection,
            chains: &self.chains,
            times: self.writer.times(),
        };
        let of = Other {
            record,
            body,
            processes,
        };
        write_deferred(of, chain.cookie, layout, &mut self.text);
        let kind = record
            .event()
            .map_or(EventKind::Other, |event| EventKind::of(event.attr.kind));
        let fields = self.form.selection.of(kind);
        if fields.has(Field::Ip) {
            let pid = record.sample_id().pid.unwrap_or(-1);
            rows.push_chain((pid, chain.ips.iter()), (processes, fields), &mut self.text);
        }
        self.text.push(b'\n');
    }

    /// Writes what was printed of a record, if it is enough.
    fn flush(&mut self, record: &Record<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.order.printed(record.offset, &mut self.text);
        if self.text.len() >= CHUNK {
            out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}
