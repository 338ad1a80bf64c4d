//! Instructions and source lines of samples, from the files they ran.

use super::sampled::Sampled;
use crate::code_files::read_source;
use prof_abi::CpuMode;
use prof_live::Processes;
use prof_report::code::Arch;
use prof_report::script::{
    BlockOptions, CodeAt, Field, Fields, LONGEST_INSTRUCTION, TakenBranch, WayHere,
    instruction_length, push_blocks,
};
use prof_resolve::{PlaceNames, ProcessAddress};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What of a sample's code is printed.
#[derive(Debug, Default)]
pub(super) struct SampleCode {
    /// Bytes of the sampled instruction.
    pub(super) instruction: Vec<u8>,
    /// The instructions between its branches, printed.
    pub(super) blocks: Vec<u8>,
    /// The source line, if it is another one than the thread's last.
    pub(super) source_line: Option<(u32, String)>,
}

/// Reads code, and remembers what was printed.
pub(super) struct CodeReader {
    /// x86 and arm64 have instructions that can be told apart.
    is_arm64: bool,
    symfs: Option<PathBuf>,
    /// Lines of source files; `None` of those that cannot be read.
    texts: HashMap<Arc<str>, Option<Vec<String>>>,
    /// The line printed last, by thread.
    shown: HashMap<i32, (Arc<str>, u32)>,
}

impl CodeReader {
    /// `machine` as in the recording; source files are looked for below
    /// `symfs`. `None` where instructions are not decoded.
    pub(super) fn new(machine: Option<prof_abi::Arch>, symfs: Option<PathBuf>) -> Option<Self> {
        let is_arm64 = match machine {
            None | Some(prof_abi::Arch::X86) => false,
            Some(prof_abi::Arch::Arm64) => true,
            Some(_) => return None,
        };
        Some(Self {
            is_arm64,
            symfs,
            texts: HashMap::new(),
            shown: HashMap::new(),
        })
    }

    /// What `fields` ask for of the code of a sample.
    pub(super) fn of(
        &mut self,
        fields: Fields,
        of: Sampled<'_>,
        places: &mut PlaceNames<'_>,
    ) -> SampleCode {
        let recorded = of.sample;
        let mut code = SampleCode::default();
        let Some(ip) = recorded.ip() else {
            return code;
        };
        let mut reading = Reading {
            reader: self,
            processes: of.processes,
            places,
            pid: recorded.pid().unwrap_or(-1),
            tid: recorded.tid().unwrap_or(-1),
            mode: of.record.misc.cpu_mode(),
        };
        if (fields.has(Field::Insn) || fields.has(Field::InsnLen))
            && let Some((arch, mut bytes)) = reading.code(ip, LONGEST_INSTRUCTION)
        {
            bytes.truncate(instruction_length(arch, &bytes));
            code.instruction = bytes;
        }
        let has_blocks = fields.has(Field::BrStackInsn) || fields.has(Field::BrStackInsnLen);
        if let Some(branches) = recorded.branches().filter(|_| has_blocks) {
            let branches: Vec<_> = branches.iter().map(|branch| taken(&branch)).collect();
            let options = BlockOptions {
                lengths: fields.has(Field::BrStackInsnLen),
                sources: fields.has(Field::SrcCode),
            };
            let way = WayHere {
                branches: &branches,
                ip,
            };
            push_blocks(way, options, &mut reading, &mut code.blocks);
        }
        if fields.has(Field::SrcCode) {
            code.source_line = reading.new_source_line(ip);
        }
        code
    }

    fn line_of(&mut self, file: &Arc<str>, line: u32) -> Option<String> {
        let symfs = self.symfs.as_deref();
        let text = self.texts.entry(Arc::clone(file)).or_insert_with(|| {
            let text = read_source(symfs, file)?;
            Some(text.split('\n').map(str::to_owned).collect())
        });
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        text.as_ref()?.get(index).cloned()
    }
}

fn taken(branch: &prof_perfdata::Branch) -> TakenBranch {
    let flags = branch.flags;
    TakenBranch {
        from: branch.from,
        to: branch.to,
        predicted: flags.predicted(),
        mispredicted: flags.mispredicted(),
        in_transaction: flags.in_transaction(),
        abort: flags.abort(),
        cycles: flags.cycles(),
    }
}

/// Reads the code of one sample's process.
struct Reading<'a, 'p> {
    reader: &'a mut CodeReader,
    processes: &'a Processes,
    places: &'a mut PlaceNames<'p>,
    pid: i32,
    tid: i32,
    mode: CpuMode,
}

impl Reading<'_, '_> {
    fn at(&self, address: u64) -> ProcessAddress {
        ProcessAddress {
            pid: self.pid,
            mode: self.mode,
            address,
        }
    }
}

impl CodeAt for Reading<'_, '_> {
    fn code(&mut self, address: u64, length: u64) -> Option<(Arch, Vec<u8>)> {
        let at = self.at(address);
        let code = self.places.code(self.processes, at, length)?;
        let arch = match (self.reader.is_arm64, code.is_64_bit) {
            (true, _) => Arch::Aarch64,
            (false, true) => Arch::X86_64,
            (false, false) => Arch::X86,
        };
        Some((arch, code.bytes))
    }

    fn symbol(&mut self, address: u64) -> Option<(String, u64)> {
        let at = self.at(address);
        let place = self.places.find(self.processes, at);
        let (name, offset) = place.symbol?;
        Some((name.to_string(), offset))
    }

    fn new_source_line(&mut self, address: u64) -> Option<(u32, String)> {
        let at = self.at(address);
        let (file, line) = self.places.source_line(self.processes, at)?;
        let is_shown = |(shown, of): &(Arc<str>, u32)| *shown == file && *of == line;
        if self.reader.shown.get(&self.tid).is_some_and(is_shown) {
            return None;
        }
        let text = self.reader.line_of(&file, line)?;
        self.reader.shown.insert(self.tid, (file, line));
        Some((line, text))
    }
}
