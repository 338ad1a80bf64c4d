//! CPU_TOPOLOGY: which CPU is in which core, socket and die.

use super::pieces::Piece;
use super::text::Text;
use crate::fields::{Encoder, Fields, Short};

/// CPU_TOPOLOGY.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuTopology {
    /// CPU lists of the packages ("sibling sockets").
    pub cores: Vec<Text>,
    /// CPU lists of the cores ("sibling threads").
    pub threads: Vec<Text>,
    /// CPU lists of the dies, in newer files.
    pub dies: Vec<Text>,
    /// Core, socket and (in newer files) die of each CPU.
    pub cpus: Vec<CpuPlace>,
}

/// Where a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuPlace {
    /// Core number in its socket.
    pub core: u32,
    /// Socket number.
    pub socket: u32,
    /// Die number.
    pub die: Option<u32>,
}

impl Piece for CpuTopology {
    /// Which parts there are is told by the section's length alone, and how many
    /// CPUs by NRCPUS, which may be missing: so by the bytes that are left.
    fn take(fields: &mut Fields<'_>) -> Result<Self, Short> {
        let cores = Vec::take(fields)?;
        let threads = Vec::take(fields)?;
        let with_dies = dies(*fields);
        if let Some(topology) = with_dies {
            return Ok(CpuTopology {
                cores,
                threads,
                ..topology
            });
        }
        let mut cpus = Vec::new();
        while fields.left() >= 8 {
            cpus.push(CpuPlace {
                core: fields.u32()?,
                socket: fields.u32()?,
                die: None,
            });
        }
        Ok(CpuTopology {
            cores,
            threads,
            cpus,
            dies: Vec::new(),
        })
    }

    fn put(&self, out: &mut Encoder) {
        self.cores.put(out);
        self.threads.put(out);
        for cpu in &self.cpus {
            out.u32(cpu.core);
            out.u32(cpu.socket);
        }
        if !self.dies.is_empty() {
            self.dies.put(out);
            for cpu in &self.cpus {
                out.u32(cpu.die.unwrap_or_default());
            }
        }
    }
}

/// More CPUs than this are read without their dies.
const MAX_CPUS_WITH_DIES: usize = 8192;

/// Tries each number of CPUs for which core and socket are followed by a list
/// of dies and a die for each CPU that together end the section.
fn dies(fields: Fields<'_>) -> Option<CpuTopology> {
    // A CPU takes 12 bytes when dies are there; the bound keeps the trials few.
    let most = (fields.left() / 12).min(MAX_CPUS_WITH_DIES);
    (1..=most).rev().find_map(|count| {
        let mut ahead = fields;
        let places = ahead.items(count as u64, 8).ok()?;
        let nr = ahead.u32().ok()?;
        (1..=count).contains(&(nr as usize)).then_some(())?;
        let dies = (0..nr).map(|_| Text::take(&mut ahead));
        let dies: Vec<Text> = dies.collect::<Result<_, _>>().ok()?;
        (ahead.left() == count * 4).then_some(())?;
        // Numbers of other CPUs may read as a list of texts, but not as one
        // of CPUs.
        let is_list = |die: &Text| die.as_bytes().first().is_some_and(u8::is_ascii_digit);
        dies.iter().all(is_list).then_some(())?;
        let mut places = Fields::new(places, fields.order());
        let cpus = std::iter::from_fn(|| {
            Some(CpuPlace {
                core: places.u32().ok()?,
                socket: places.u32().ok()?,
                die: Some(ahead.u32().ok()?),
            })
        });
        Some(CpuTopology {
            cpus: cpus.collect(),
            dies,
            ..CpuTopology::default()
        })
    })
}
