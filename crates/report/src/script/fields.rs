//! Which fields are printed, for which kind of event: `-F`.

use std::fmt;

macro_rules! fields {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A field of a printed sample.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field {
            $($(#[$doc])* $variant,)*
        }

        impl Field {
            /// All of them, in the order of `--help`.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in `-F`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

fields! {
    /// Thread name.
    Comm = "comm",
    /// Thread id.
    Tid = "tid",
    /// Process id.
    Pid = "pid",
    /// Time.
    Time = "time",
    /// CPU number.
    Cpu = "cpu",
    /// Event name.
    Event = "event",
    /// Tracepoint payload.
    Trace = "trace",
    /// Address, or the call chain.
    Ip = "ip",
    /// Symbol.
    Sym = "sym",
    /// File.
    Dso = "dso",
    /// Offset in the file, behind its name.
    DsoOff = "dsoff",
    /// Data address.
    Addr = "addr",
    /// Offset in the symbol.
    SymOff = "symoff",
    /// Source file and line.
    SrcLine = "srcline",
    /// Events the sample stands for.
    Period = "period",
    /// Registers at the interrupt.
    Iregs = "iregs",
    /// User registers.
    Uregs = "uregs",
    /// Branches, as addresses.
    BrStack = "brstack",
    /// Branches, as symbols.
    BrStackSym = "brstacksym",
    /// Branches, as offsets in files.
    BrStackOff = "brstackoff",
    /// The instructions between branches.
    BrStackInsn = "brstackinsn",
    /// The instructions between branches, with their lengths.
    BrStackInsnLen = "brstackinsnlen",
    /// Bytes of the sampled instruction.
    Insn = "insn",
    /// Length of the sampled instruction, bytes.
    InsnLen = "insnlen",
    /// Text of the source line, where it is another one than before.
    SrcCode = "srccode",
    /// Where data came from.
    DataSrc = "data_src",
    /// Latency or other weight.
    Weight = "weight",
    /// Payload of a BPF program.
    BpfOutput = "bpf-output",
    /// Physical address.
    PhysAddr = "phys_addr",
    /// Bits of the record's header.
    Misc = "misc",
    /// Time of day.
    Tod = "tod",
    /// Page size of the data address.
    DataPageSize = "data_page_size",
    /// Page size of the code address.
    CodePageSize = "code_page_size",
    /// Instruction latency.
    InsLat = "ins_lat",
    /// Branch flags of instruction tracing; spaces for samples.
    Flags = "flags",
    /// What instruction tracing synthesized; nothing for samples.
    Synth = "synth",
    /// Instructions per cycle of instruction tracing; nothing for samples.
    Ipc = "ipc",
    /// Call depth of instruction tracing; nothing for samples.
    CallIndent = "callindent",
    /// Process of a guest's machine; nothing for the host's samples.
    MachinePid = "machine_pid",
    /// CPU of a guest's machine; nothing for the host's samples.
    Vcpu = "vcpu",
    /// Cgroup.
    Cgroup = "cgroup",
}

impl Field {
    fn named(name: &str) -> Option<Self> {
        // Older names stay valid.
        let name = match name {
            "evname" => "event",
            other => other,
        };
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }
}

/// A set of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields(u64);

impl Fields {
    /// A set of these.
    pub const fn of(fields: &[Field]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < fields.len() {
            bits |= 1 << fields[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    /// Whether `field` is among them.
    #[inline]
    pub const fn has(self, field: Field) -> bool {
        self.0 & (1 << field as u8) != 0
    }

    /// With `field` too.
    #[must_use]
    pub const fn with(self, field: Field) -> Self {
        Self(self.0 | 1 << field as u8)
    }

    /// Without `field`.
    #[must_use]
    pub(crate) const fn without(self, field: Field) -> Self {
        Self(self.0 & !(1 << field as u8))
    }

    /// Whether nothing is printed for them.
    pub const fn is_empty(self) -> bool {
        self.without(Field::Flags).0 == 0
    }

    /// Those that are also among `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// The kinds of events that `-F` tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Hardware events.
    Hardware,
    /// Software events.
    Software,
    /// Tracepoints.
    Tracepoint,
    /// Raw hardware events.
    Raw,
    /// Breakpoints.
    Breakpoint,
    /// Cache events and those of other PMUs.
    Other,
}

impl EventKind {
    const ALL: [Self; 6] = [
        Self::Hardware,
        Self::Software,
        Self::Tracepoint,
        Self::Raw,
        Self::Breakpoint,
        Self::Other,
    ];

    /// The kind of an event with this `type` in its attr.
    pub const fn of(attr_type: u32) -> Self {
        match attr_type {
            0 => Self::Hardware,
            1 => Self::Software,
            2 => Self::Tracepoint,
            4 => Self::Raw,
            5 => Self::Breakpoint,
            _ => Self::Other,
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Hardware => "hw",
            Self::Software => "sw",
            Self::Tracepoint => "trace",
            Self::Raw => "raw",
            Self::Breakpoint => "break",
            Self::Other => "other",
        }
    }

    const fn defaults(self) -> Fields {
        use Field::{
            Addr, CodePageSize, Comm, Cpu, DataPageSize, DataSrc, Dso, Event, InsLat, Ip, Period,
            PhysAddr, Sym, SymOff, Tid, Time, Trace, Weight,
        };
        match self {
            Self::Hardware | Self::Software | Self::Breakpoint | Self::Other => {
                Fields::of(&[Comm, Tid, Cpu, Time, Event, Ip, Sym, SymOff, Dso, Period])
            }
            Self::Tracepoint => Fields::of(&[Comm, Tid, Cpu, Time, Event, Trace]),
            Self::Raw => Fields::of(&[
                Comm,
                Tid,
                Cpu,
                Time,
                Event,
                Ip,
                Sym,
                SymOff,
                Dso,
                Period,
                Addr,
                DataSrc,
                Weight,
                InsLat,
                PhysAddr,
                DataPageSize,
                CodePageSize,
            ]),
        }
    }

    const fn can_have(self, field: Field) -> bool {
        match field {
            Field::Trace => matches!(self, Self::Tracepoint),
            Field::BpfOutput => matches!(self, Self::Software | Self::Other),
            _ => true,
        }
    }
}

/// What was wrong with `-F`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError(String);

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for FieldError {}

/// The fields asked for, by kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    fields: [Fields; 6],
    asked: [Fields; 6],
    /// Those taken away by name.
    unwanted: [Fields; 6],
    is_asked: [bool; 6],
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            fields: EventKind::ALL.map(EventKind::defaults),
            asked: [Fields::default(); 6],
            unwanted: [Fields::default(); 6],
            is_asked: [false; 6],
        }
    }
}

impl Selection {
    /// Applies one `-F`: `[KIND:]NAME,…`, or `+NAME` and `-NAME` to change
    /// what is there.
    ///
    /// # Errors
    /// If a name is not known, or kept and changed names are mixed.
    pub fn apply(&mut self, text: &str) -> Result<(), FieldError> {
        let (kinds, names) = match text.split_once(':') {
            Some((prefix, names)) => {
                let found = EventKind::ALL
                    .into_iter()
                    .find(|kind| kind.prefix() == prefix);
                // What instruction tracing synthesizes is no sample of ours.
                let is_known = found.is_some() || prefix == "synth";
                if !is_known {
                    return Err(unknown_kind(prefix));
                }
                (found.into_iter().collect(), names)
            }
            None => (EventKind::ALL.to_vec(), text),
        };
        let changes = names.starts_with(['+', '-']);
        if !changes {
            for &kind in &kinds {
                self.set(kind, Fields::default());
                self.is_asked[kind as usize] = true;
            }
        }
        let mut sign = '+';
        for name in names.split(',').filter(|name| !name.is_empty()) {
            let (bare, own) = match name.split_at_checked(1) {
                Some(("+", bare)) => (bare, Some('+')),
                Some(("-", bare)) => (bare, Some('-')),
                _ => (name, None),
            };
            if own.is_some() && !changes {
                return Err(FieldError(format!(
                    "-F {text}: names with + or - cannot follow names without"
                )));
            }
            sign = own.unwrap_or(sign);
            let field = Field::named(bare).ok_or_else(|| unknown_field(bare))?;
            self.change(&kinds, field, sign == '+', text)?;
        }
        Ok(())
    }

    fn change(
        &mut self,
        kinds: &[EventKind],
        field: Field,
        add: bool,
        text: &str,
    ) -> Result<(), FieldError> {
        let able: Vec<_> = kinds.iter().filter(|kind| kind.can_have(field)).collect();
        if able.is_empty() && !kinds.is_empty() {
            return Err(FieldError(format!(
                "-F {text}: these events have no {}",
                field.name()
            )));
        }
        for &&kind in &able {
            let fields = self.fields[kind as usize];
            if add {
                self.set(kind, fields.with(field));
                self.asked[kind as usize] = self.asked[kind as usize].with(field);
                self.unwanted[kind as usize] = self.unwanted[kind as usize].without(field);
            } else {
                self.set(kind, fields.without(field));
                self.unwanted[kind as usize] = self.unwanted[kind as usize].with(field);
            }
        }
        Ok(())
    }

    fn set(&mut self, kind: EventKind, fields: Fields) {
        self.fields[kind as usize] = fields;
    }

    /// The fields of events of this kind.
    pub fn of(&self, kind: EventKind) -> Fields {
        self.fields[kind as usize]
    }

    /// The fields of events of any kind.
    pub fn of_any(&self) -> Fields {
        let bits = self.fields.iter().fold(0, |bits, fields| bits | fields.0);
        Fields(bits)
    }

    /// Whether `field` was asked for by name for this kind.
    pub fn asked_for(&self, kind: EventKind, field: Field) -> bool {
        self.asked[kind as usize].has(field)
    }

    /// Removes `field` from all events of this kind, because one of them lacks
    /// it.
    pub fn drop_field(&mut self, kind: EventKind, field: Field) {
        self.set(kind, self.of(kind).without(field));
    }

    /// Events of this kind have call chains and come through a pipe: perf then
    /// shows addresses and symbols whatever `-F` lists, but not if it takes
    /// them away.
    pub fn show_chains_of_pipe(&mut self, kind: EventKind) {
        for field in [Field::Ip, Field::Sym] {
            if !self.unwanted[kind as usize].has(field) {
                self.set(kind, self.of(kind).with(field));
            }
        }
    }

    /// Tracepoints with call chains show them with these fields, unless `-F`
    /// says what to show.
    pub fn show_tracepoint_chains(&mut self, fields: &[Field]) {
        let kind = EventKind::Tracepoint;
        if !self.is_asked[kind as usize] {
            let with = fields.iter().copied();
            self.set(kind, with.fold(self.of(kind), Fields::with));
        }
    }
}

fn unknown_kind(prefix: &str) -> FieldError {
    let known: Vec<_> = EventKind::ALL.map(EventKind::prefix).to_vec();
    FieldError(format!(
        "-F: there is no kind of event called {prefix}\n  known are: {}",
        known.join(", ")
    ))
}

fn unknown_field(name: &str) -> FieldError {
    let known: Vec<_> = Field::ALL.iter().map(|field| field.name()).collect();
    FieldError(format!(
        "-F: there is no field called {name:?}\n  known are: {}",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::{EventKind, Field, Fields, Selection};

    #[test]
    fn plain_names_replace_and_signed_names_change() {
        let mut selection = Selection::default();
        selection.apply("+addr,-period").expect("known names");
        let fields = selection.of(EventKind::Hardware);
        assert!(fields.has(Field::Addr) && fields.has(Field::Comm) && !fields.has(Field::Period));
        selection.apply("comm,ip").expect("known names");
        let expected = Fields::of(&[Field::Comm, Field::Ip]);
        assert_eq!(selection.of(EventKind::Software), expected);
        selection.apply("trace:time,trace").expect("known names");
        assert!(selection.of(EventKind::Tracepoint).has(Field::Trace));
        assert_eq!(selection.of(EventKind::Software), expected);
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        let mut selection = Selection::default();
        let error = selection.apply("comm,colour").expect_err("unknown");
        assert!(error.to_string().contains("colour") && error.to_string().contains("srcline"));
        assert!(selection.apply("soft:comm").is_err());
        assert!(selection.apply("comm,+ip").is_err());
        assert!(selection.apply("sw:trace").is_err());
    }
}
