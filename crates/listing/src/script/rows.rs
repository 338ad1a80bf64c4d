//! What a sample's record has beyond its row in the profile.

use super::code::{CodeReader, SampleCode};
use super::records::misc_letters;
use super::sampled::Sampled;
use prof_abi::{Arch, CallchainContext, CpuMode};
use prof_live::Processes;
use prof_perfdata::tracepoint::TracingData;
use prof_perfdata::{
    BranchFlags, Features, Record, Registers, Sample as Recorded, call_chain_of_branches,
};
use prof_profile::Sample;
use prof_report::script::{
    Branch, Details, Field, Fields, Leaf, NamedAddress, ScriptWriter, push_frame,
};
use prof_resolve::{NamedPlace, PlaceNames, ProcessAddress};
use prof_symbolize::Symbolizer;

/// Makes the details of samples, and prints them.
pub(super) struct Rows<'a> {
    places: PlaceNames<'a>,
    tracing: Option<TracingData>,
    trace: Vec<u8>,
    of_branches: Vec<u64>,
    /// Paths by id, as CGROUP records tell.
    arch: Option<Arch>,
    code: Option<CodeReader>,
}

/// Fields that are read from the code that ran.
const OF_CODE: [Field; 5] = [
    Field::Insn,
    Field::InsnLen,
    Field::BrStackInsn,
    Field::BrStackInsnLen,
    Field::SrcCode,
];

const BRANCHES: [Field; 3] = [Field::BrStack, Field::BrStackSym, Field::BrStackOff];

type RegisterValues = Option<(u64, Vec<(&'static str, u64)>)>;

impl<'a> Rows<'a> {
    /// `processes` knows the kernel's map already.
    pub(super) fn new(
        features: &Features,
        processes: &Processes,
        symbolizer: &'a Symbolizer,
    ) -> Self {
        let tracing = features.tracing_data();
        let arch = features.arch();
        let arch = arch.and_then(|arch| Arch::from_machine(&arch.to_string_lossy()));
        Self {
            places: PlaceNames::new(features, processes, symbolizer),
            tracing: tracing.and_then(|bytes| TracingData::parse(bytes).ok()),
            trace: Vec::new(),
            of_branches: Vec::new(),
            arch,
            code: CodeReader::new(arch, symbolizer.sources().symfs.clone()),
        }
    }

    /// Appends a sample.
    pub(super) fn write(
        &mut self,
        of: Sampled<'_>,
        sample: Sample,
        writer: &mut ScriptWriter<'_>,
        out: &mut Vec<u8>,
    ) {
        let recorded = of.sample;
        let mut details = Details::of(sample);
        details.ip = recorded.ip().unwrap_or(0);
        details.has_chain = recorded.callchain().is_some();
        details.is_unwound = recorded.regs_user().is_some_and(|regs| regs.abi != 0)
            && recorded.stack_user().is_some();
        details.cookie = recorded.deferred_cookie();
        let leaf = self.leaf(of);
        details.leaf = leaf.shown();
        let fields = writer.fields(&details);
        let found = self.find(of, fields);
        let event = of.record.events().get(usize::from(sample.event.0));
        details.addr_has_name = event.is_some_and(is_page_fault);
        let branches: Option<Vec<Branch<'_>>> = found
            .branches
            .as_ref()
            .map(|all| all.iter().map(RecordedBranch::shown).collect());
        details.branches = branches.as_deref();
        found.tell(&mut details);
        if fields.has(Field::Trace) {
            details.trace = recorded.raw().map(|_| self.trace.as_slice());
        }
        details.bpf_output = recorded.raw();
        details.weight = recorded.weight();
        details.instruction_latency = recorded.weight_parts().map(|(_, latency, _)| latency);
        details.phys_addr = recorded.phys_addr();
        details.data_page_size = recorded.data_page_size();
        details.code_page_size = recorded.code_page_size();
        let cgroup = recorded.cgroup();
        details.cgroup = cgroup.map(|id| of.cgroups.get(&id).map_or("unknown", String::as_str));
        writer.write(&details, out);
    }

    /// Looks up what these fields show; the trace goes to `self.trace`.
    fn find(&mut self, of: Sampled<'_>, fields: Fields) -> Found {
        let recorded = of.sample;
        if fields.has(Field::Trace) {
            self.print_trace(of.record, recorded);
        }
        let addr = recorded.addr().filter(|_| fields.has(Field::Addr));
        let addr = addr.map(|address| Named::find(&mut self.places, of.processes, of.at(address)));
        let source = recorded.data_src().filter(|_| fields.has(Field::DataSrc));
        let branches = branches(&mut self.places, of, fields);
        let code = match &mut self.code {
            Some(code) if OF_CODE.iter().any(|&field| fields.has(field)) => {
                code.of(fields, of, &mut self.places)
            }
            _ => SampleCode::default(),
        };
        Found {
            addr,
            branches,
            misc: misc_letters(of.record),
            data_src: source.map(|value| (value, prof_abi::DataSource(value).to_string())),
            at_interrupt: self.registers(fields, Field::Iregs, recorded.regs_intr()),
            of_user: self.registers(fields, Field::Uregs, recorded.regs_user()),
            code,
        }
    }

    /// How the recorded chain begins. That of the profile begins with the
    /// sampled address, in place of the first entry if that is of the same mode.
    fn leaf(&mut self, of: Sampled<'_>) -> RecordedLeaf {
        let Sampled {
            record,
            sample: recorded,
            processes,
            ..
        } = of;
        let Some(entries) = recorded.callchain() else {
            return RecordedLeaf::Sampled;
        };
        let sampled = record.misc.cpu_mode();
        let mut mode = sampled;
        let event = record.event();
        let of_branches = event
            .is_some_and(|event| call_chain_of_branches(event, recorded, &mut self.of_branches));
        if !of_branches {
            self.of_branches.clear();
        }
        let entries = entries.filter(|_| !of_branches);
        for entry in self.of_branches.iter().copied().chain(entries) {
            if let Some(context) = CallchainContext::from_entry(entry) {
                mode = context.cpu_mode();
                // What follows is a cookie, and the rest of the chain comes later.
                if context == CallchainContext::USER_DEFERRED && mode == sampled {
                    return RecordedLeaf::Later;
                }
            } else if mode != sampled {
                return RecordedLeaf::Missing;
            } else if recorded.ip().is_none_or(|ip| ip == entry) {
                return RecordedLeaf::Sampled;
            } else {
                let at = ProcessAddress {
                    pid: recorded.pid().unwrap_or(-1),
                    mode,
                    address: entry,
                };
                return RecordedLeaf::Other(Named::find(&mut self.places, processes, at));
            }
        }
        let is_unwound = recorded.regs_user().is_some() && recorded.stack_user().is_some();
        if is_unwound && sampled == CpuMode::User {
            RecordedLeaf::Sampled
        } else {
            RecordedLeaf::Missing
        }
    }

    /// Appends the frames of a user call chain that stands apart from its
    /// samples.
    pub(super) fn push_chain(
        &mut self,
        (pid, entries): (i32, impl Iterator<Item = u64>),
        (processes, fields): (&Processes, Fields),
        out: &mut Vec<u8>,
    ) {
        let mut mode = CpuMode::User;
        for entry in entries {
            if let Some(context) = CallchainContext::from_entry(entry) {
                mode = context.cpu_mode();
                continue;
            }
            let at = ProcessAddress {
                pid,
                mode,
                address: entry,
            };
            let named = Named::find(&mut self.places, processes, at);
            push_frame(&named.place(), fields, out);
        }
    }

    fn print_trace(&mut self, record: &Record<'_>, recorded: &Recorded<'_>) {
        self.trace.clear();
        let Some((tracing, event)) = self.tracing.as_ref().zip(record.event()) else {
            return;
        };
        let payload = recorded.raw().unwrap_or_default();
        let function = |address| {
            let (name, start) = self.places.kernel_function(address)?;
            Some((name.to_string(), start))
        };
        tracing.print(event.attr.config, payload, &function, &mut self.trace);
    }

    fn registers(
        &self,
        fields: Fields,
        field: Field,
        registers: Option<Registers<'_>>,
    ) -> RegisterValues {
        let registers = registers.filter(|registers| fields.has(field) && registers.abi != 0)?;
        let name = |bit| {
            let name = self.arch.and_then(|arch| arch.register_name(bit));
            name.unwrap_or("unknown")
        };
        let values = registers.iter().map(|(bit, value)| (name(bit), value));
        Some((registers.abi, values.collect()))
    }
}

fn borrowed(values: &RegisterValues) -> Option<(u64, &[(&'static str, u64)])> {
    values
        .as_ref()
        .map(|(abi, values)| (*abi, values.as_slice()))
}

/// Whether an event counts page faults: software events 2, 5 and 6.
fn is_page_fault(event: &prof_perfdata::Event) -> bool {
    event.attr.kind == 1 && matches!(event.attr.config, 2 | 5 | 6)
}

/// An address with what was found there.
struct Named {
    address: u64,
    found: NamedPlace,
}

impl Named {
    fn find(places: &mut PlaceNames<'_>, processes: &Processes, at: ProcessAddress) -> Self {
        let found = places.find(processes, at);
        Self {
            address: at.address,
            found,
        }
    }

    fn place(&self) -> NamedAddress<'_> {
        let symbol = self.found.symbol.as_ref();
        NamedAddress {
            address: self.address,
            symbol: symbol.map(|(name, offset)| (&**name, *offset)),
            dso: self.found.dso.as_deref(),
            file_offset: self.found.file_offset,
        }
    }
}

/// How a recorded chain begins; see [`Leaf`].
enum RecordedLeaf {
    Sampled,
    Later,
    Other(Named),
    Missing,
}

impl RecordedLeaf {
    fn shown(&self) -> Leaf<'_> {
        match self {
            Self::Sampled => Leaf::Sampled,
            Self::Later => Leaf::Later,
            Self::Other(named) => Leaf::Recorded(named.place()),
            Self::Missing => Leaf::Missing,
        }
    }
}

/// What was looked up for the fields of a sample.
struct Found {
    addr: Option<Named>,
    branches: Option<Vec<RecordedBranch>>,
    misc: String,
    data_src: Option<(u64, String)>,
    at_interrupt: RegisterValues,
    of_user: RegisterValues,
    code: SampleCode,
}

impl Found {
    fn tell<'a>(&'a self, details: &mut Details<'a>) {
        details.addr = self.addr.as_ref().map(Named::place);
        details.misc = &self.misc;
        let source = self.data_src.as_ref();
        details.data_src = source.map(|(value, text)| (*value, text.as_str()));
        details.interrupt_registers = borrowed(&self.at_interrupt);
        details.user_registers = borrowed(&self.of_user);
        details.instruction = &self.code.instruction;
        details.blocks = &self.code.blocks;
        let source_line = self.code.source_line.as_ref();
        details.source_line = source_line.map(|(line, text)| (*line, text.as_str()));
    }
}

struct RecordedBranch {
    from: Named,
    to: Named,
    flags: BranchFlags,
}

impl RecordedBranch {
    fn shown(&self) -> Branch<'_> {
        let flags = self.flags;
        Branch {
            from: self.from.place(),
            to: self.to.place(),
            prediction: match (flags.mispredicted(), flags.predicted()) {
                (true, _) => 'M',
                (false, true) => 'P',
                (false, false) => '-',
            },
            in_transaction: flags.in_transaction(),
            abort: flags.abort(),
            cycles: flags.cycles(),
            kind: branch_kind(flags),
        }
    }
}

fn branches(
    places: &mut PlaceNames<'_>,
    of: Sampled<'_>,
    fields: Fields,
) -> Option<Vec<RecordedBranch>> {
    if !BRANCHES.iter().any(|&field| fields.has(field)) {
        return None;
    }
    let one = |branch: prof_perfdata::Branch| RecordedBranch {
        from: Named::find(places, of.processes, of.at(branch.from)),
        to: Named::find(places, of.processes, of.at(branch.to)),
        flags: branch.flags,
    };
    Some(of.sample.branches()?.iter().map(one).collect())
}

/// The kind of a branch; nothing where the hardware does not tell.
fn branch_kind(flags: BranchFlags) -> &'static str {
    match (
        flags.kind(),
        prof_abi::branch_kind_name(flags.kind(), flags.new_kind()),
    ) {
        (0, _) | (_, None) => "",
        (_, Some(name)) => name,
    }
}
