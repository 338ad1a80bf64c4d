//! Exports of recordings with branches.

use super::Args;
use crate::outcome::UsageError;
use crate::recognise::is_profile;
use crate::recording::Input;
use anyhow::bail;
use prof_abi::{RecordType, SampleType};
use prof_export::ExportFormat;
use prof_listing::script::{Asked, Choice, Form, Head, Printing, Shown, Wanted};
use prof_listing::{Switch, SwitchEvents};
use prof_perfdata::Body;
use prof_profile::{EventId, Profile, Redaction};
use prof_report::script::{Selection, TimeOrigin};
use prof_symbolize::Symbolizer;
use std::io::{self, Write};

/// Refuses what has no branches, with the reason.
///
/// # Errors
/// If it has none, or cannot be read.
pub(super) fn check(input: &Input, format: ExportFormat) -> anyhow::Result<()> {
    let (file, name) = (input.name(), format.name());
    let why = if is_profile(&input.path) {
        "is a profile of another tool, which has no branches"
    } else {
        let mut reader = input.open()?;
        while let Some(record) = reader.next()? {
            if let Body::Sample(sample) = record.decode()
                && sample
                    .branches()
                    .is_some_and(|all| all.iter().next().is_some())
            {
                return Ok(());
            }
        }
        let mut events = reader.events().list().iter();
        match events.any(|event| event.attr.sample_type.has(SampleType::BRANCH_STACK)) {
            true => "has no sample with a branch",
            false => "was recorded without branches",
        }
    };
    bail!(
        "{file} {why}, and {name} holds nothing else\n  \
         try: prof record -b, on a CPU that records branches (prof doctor tells)"
    )
}

impl Args {
    /// Prints mappings and branch stacks as `perf script --show-mmap-events
    /// -F ip,brstack` does.
    pub(super) fn write_records(
        &self,
        input: &Input,
        (profile, symbolizer): (&Profile, &Symbolizer),
        out: &mut dyn Write,
    ) -> anyhow::Result<Vec<String>> {
        let head = Head::read(&mut input.open()?)?;
        let mut form = form()?;
        form.fit(&head, profile)?;
        let wanted = Wanted {
            samples: Some(self.samples(profile)?),
            switch: Switch::new(&SwitchEvents::default(), profile)?,
            records: Shown::new([RecordType::MMAP, RecordType::MMAP2]),
        };
        let printing = Printing::new((profile, symbolizer), &head, &form, wanted);
        let redaction = self.redact.then(Redaction::default);
        let mut lines = Lines {
            out,
            redaction,
            begun: Vec::new(),
        };
        printing.run::<anyhow::Error>(input.open()?, None, &mut lines)?;
        lines.finish()?;
        Ok(Vec::new())
    }
}

impl Args {
    /// The chosen samples, as a script chooses them.
    fn samples(&self, profile: &Profile) -> anyhow::Result<Choice> {
        let chosen = self.choice(profile)?.events;
        let ids = (0..profile.events.len()).map(|index| u16::try_from(index).map(EventId));
        let events = match chosen.is_empty() {
            true => Vec::new(),
            false => ids
                .map(|id| id.is_ok_and(|id| chosen.contains(&id)))
                .collect(),
        };
        let asked = Asked {
            time: self.chosen.time().map(str::to_owned),
            pids: self.chosen.pid.clone(),
            tids: self.chosen.tid.clone(),
            comms: self.chosen.comms.clone(),
            cpus: ranges(&self.chosen.cpus(profile)?),
            events,
            ..Asked::default()
        };
        Choice::new(asked, profile).map_err(|error| UsageError(format!("--time: {error}")).into())
    }
}

/// CPUs as a script takes them; `None` for all.
fn ranges(cpus: &[u32]) -> Option<Vec<(u32, u32)>> {
    (!cpus.is_empty()).then(|| cpus.iter().map(|&cpu| (cpu, cpu)).collect())
}

fn form() -> anyhow::Result<Form> {
    let mut selection = Selection::default();
    selection.apply("ip,brstack")?;
    Ok(Form {
        selection,
        time_origin: TimeOrigin::Clock,
        nanoseconds: false,
        call_chains: true,
        separate_chains: false,
        // perf's longest.
        max_stack: 127,
        inlines: false,
        stop_at: Vec::new(),
        full_source_path: false,
        kernel_path: false,
    })
}

/// Takes folders out of the lines of mappings, if that is asked for.
struct Lines<'a> {
    out: &'a mut dyn Write,
    redaction: Option<Redaction>,
    /// A line whose end is to come.
    begun: Vec<u8>,
}

impl Lines<'_> {
    fn finish(self) -> io::Result<()> {
        self.out.write_all(&self.begun)?;
        self.out.flush()
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        match self.redaction.as_ref().and_then(|it| redacted(it, line)) {
            Some(line) => self.out.write_all(line.as_bytes()),
            None => self.out.write_all(line),
        }
    }
}

/// A line of a mapping with another path:
/// `PERF_RECORD_MMAP2 PID/TID: [0xSTART(0xLEN) @ …]: r-xp PATH`.
fn redacted(redaction: &Redaction, line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let rest = line.strip_prefix("PERF_RECORD_MMAP")?;
    // The first: what is in the brackets are numbers.
    let (_, behind) = rest.split_once("]: ")?;
    let (_, path) = behind.split_once(' ')?;
    let path = path.trim_end_matches('\n');
    let before = line.strip_suffix('\n')?.strip_suffix(path)?;
    Some(format!("{before}{}\n", redaction.path(path)))
}

impl Write for Lines<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if self.redaction.is_none() {
            return self.out.write(text);
        }
        for part in text.split_inclusive(|&byte| byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.begun);
                self.line(&line)?;
            }
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use prof_profile::Redaction;
    use std::io::Write;

    #[test]
    fn folders_are_taken_out_of_mappings_alone() {
        let mut out = Vec::new();
        let mut lines = Lines {
            out: &mut out,
            redaction: Some(Redaction::default()),
            begun: Vec::new(),
        };
        let text = "PERF_RECORD_MMAP2 7/7: [0x400000(0x1000) @ 0 08:02 5 6]: r-xp /home/ann/a b]: c\n \
                    40051c 0x400513/0x4004ed/P/-/-/0/ \nPERF_RECORD_MMAP 7/7: [0x1(0x2) @ 0]: x [vdso]\n";
        // In pieces, as it may come.
        for piece in text.as_bytes().chunks(7) {
            lines.write_all(piece).expect("in memory");
        }
        lines.finish().expect("in memory");
        let expected = text.replace("/home/ann/", "/r1/");
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
