//! From the bytes of a feature section to what it says.
//!
//! Counts in the sections are iterated, never reserved: each item takes bytes,
//! so the section's length bounds them.

use super::pieces::Piece;
use super::{
    BpfProgram, BuildIdEntry, CpuDomain, CpuDomains, DescribedEvent, Feature, FeatureBit, NrCpus,
    Text,
};
use crate::fields::{Fields, Short, until_nul};
use crate::section::Section;
use crate::simpleperf;
use prof_abi::{BuildId, ByteOrder, EventAttr, Misc};

/// Reads one section.
///
/// # Errors
/// Says what does not fit, with the two numbers.
pub(super) fn feature(bit: FeatureBit, bytes: &[u8], order: ByteOrder) -> Result<Feature, String> {
    let files = Feature::SimpleperfFiles;
    let special = match bit {
        FeatureBit::SIMPLEPERF_FILE => Some(simpleperf::files_v1(bytes, order).map(files)),
        FeatureBit::SIMPLEPERF_FILE2 => Some(simpleperf::files_v2(bytes, order).map(files)),
        FeatureBit::EVENT_DESC => Some(event_desc(&mut Fields::new(bytes, order))),
        FeatureBit::NRCPUS => Some(nr_cpus(&mut Fields::new(bytes, order))),
        _ => None,
    };
    if let Some(special) = special {
        return special;
    }
    let mut fields = Fields::new(bytes, order);
    plain(bit, &mut fields).map_err(|short| {
        let at = bytes.len() as u64 - short.left;
        format!(
            "at byte {at} of {} it needs {} more, but {} are left",
            bytes.len(),
            short.needs,
            short.left
        )
    })
}

fn plain(bit: FeatureBit, fields: &mut Fields<'_>) -> Result<Feature, Short> {
    Ok(match bit {
        FeatureBit::TRACING_DATA => Feature::TracingData(fields.rest().to_vec()),
        FeatureBit::BUILD_ID => Feature::BuildIds(build_ids(fields)?),
        FeatureBit::HOSTNAME
        | FeatureBit::OSRELEASE
        | FeatureBit::VERSION
        | FeatureBit::ARCH
        | FeatureBit::CPUDESC
        | FeatureBit::CPUID => Feature::Text(Piece::take(fields)?),
        FeatureBit::TOTAL_MEM => Feature::TotalMem(Piece::take(fields)?),
        FeatureBit::CMDLINE => Feature::Cmdline(Piece::take(fields)?),
        FeatureBit::CPU_TOPOLOGY => Feature::CpuTopology(Piece::take(fields)?),
        FeatureBit::NUMA_TOPOLOGY => Feature::NumaTopology(Piece::take(fields)?),
        FeatureBit::PMU_MAPPINGS => Feature::PmuMappings(Piece::take(fields)?),
        FeatureBit::GROUP_DESC => Feature::Groups(Piece::take(fields)?),
        FeatureBit::AUXTRACE => Feature::Auxtrace(auxtrace_index(fields)?),
        FeatureBit::CACHE => {
            fields.u32()?;
            Feature::Caches(Piece::take(fields)?)
        }
        FeatureBit::SAMPLE_TIME => Feature::SampleTime(Piece::take(fields)?),
        FeatureBit::MEM_TOPOLOGY => Feature::MemTopology(Piece::take(fields)?),
        FeatureBit::CLOCKID => Feature::ClockResolution(fields.u64()?),
        FeatureBit::DIR_FORMAT => Feature::DirFormat(fields.u64()?),
        FeatureBit::BPF_PROG_INFO => Feature::BpfPrograms(if_any(fields, bpf_program)?),
        FeatureBit::BPF_BTF => Feature::BpfTypes(if_any(fields, |f| {
            let (id, size) = (f.u32()?, f.u32()?);
            Ok((id, f.items(size.into(), 1)?.to_vec()))
        })?),
        FeatureBit::COMPRESSED => Feature::Compressed(Piece::take(fields)?),
        FeatureBit::CPU_PMU_CAPS => Feature::CpuPmuCaps(Piece::take(fields)?),
        FeatureBit::CLOCK_DATA => Feature::ClockData(Piece::take(fields)?),
        FeatureBit::HYBRID_TOPOLOGY => Feature::HybridTopology(Piece::take(fields)?),
        FeatureBit::PMU_CAPS => Feature::PmuCaps(counted(fields, |f| {
            let caps = Piece::take(f)?;
            Ok((text(f)?, caps))
        })?),
        FeatureBit::CPU_DOMAIN_INFO => Feature::CpuDomains(cpu_domains(fields)?),
        FeatureBit::E_MACHINE => Feature::EMachine(fields.u32()?, fields.u32()?),
        FeatureBit::CLN_SIZE => Feature::CacheLineSize(fields.u32()?),
        FeatureBit::SIMPLEPERF_META_INFO => Feature::MetaInfo(meta_info(fields)),
        FeatureBit::BRANCH_STACK | FeatureBit::STAT => Feature::Present,
        FeatureBit::PROF_TRUST => Feature::Trust(Text::from(fields.rest())),
        FeatureBit::PROF_SYMBOLS => Feature::Symbols(fields.rest().to_vec()),
        _ => Feature::Raw(fields.rest().to_vec()),
    })
}

/// More CPUs than any machine has; perf's bound as well.
const MAX_CPUS: u32 = 1 << 20;

fn nr_cpus(fields: &mut Fields<'_>) -> Result<Feature, String> {
    let cpus = NrCpus::take(fields).map_err(|short| {
        format!(
            "needs {} more bytes, but {} are left",
            short.needs, short.left
        )
    })?;
    let most = cpus.available.max(cpus.online);
    if most > MAX_CPUS {
        return Err(format!("says {most} CPUs, the most is {MAX_CPUS}"));
    }
    Ok(Feature::NrCpus(cpus))
}

fn text(fields: &mut Fields<'_>) -> Result<Text, Short> {
    fields.string().map(Text::from)
}

/// u32 count, then that many items.
fn counted<'a, T>(
    fields: &mut Fields<'a>,
    item: impl FnMut(&mut Fields<'a>) -> Result<T, Short>,
) -> Result<Vec<T>, Short> {
    let nr = fields.u32()?;
    several(fields, nr.into(), item)
}

/// [`counted`], but an empty section is an empty list: perf built without
/// support for BPF sets the bit and writes nothing.
fn if_any<'a, T>(
    fields: &mut Fields<'a>,
    item: impl FnMut(&mut Fields<'a>) -> Result<T, Short>,
) -> Result<Vec<T>, Short> {
    if fields.left() == 0 {
        return Ok(Vec::new());
    }
    counted(fields, item)
}

fn several<'a, T>(
    fields: &mut Fields<'a>,
    nr: u64,
    mut item: impl FnMut(&mut Fields<'a>) -> Result<T, Short>,
) -> Result<Vec<T>, Short> {
    let mut list = Vec::new();
    for _ in 0..nr {
        list.push(item(fields)?);
    }
    Ok(list)
}

/// Bytes of a build-id record before its name.
const BUILD_ID_FIXED: u16 = 36;

/// A sequence of build-id records up to the end or to one that is too short.
fn build_ids(fields: &mut Fields<'_>) -> Result<Vec<BuildIdEntry>, Short> {
    let order = fields.order();
    let old = without_pid({ *fields }.rest());
    let mut list = Vec::new();
    while fields.left() >= BUILD_ID_FIXED.into() {
        fields.u32()?;
        let misc = Misc(fields.u16()?);
        let size = fields.u16()?;
        if size < BUILD_ID_FIXED {
            break;
        }
        let body = fields.items(u64::from(size) - 8, 1)?;
        list.push(build_id_entry(misc, Fields::new(body, order), old)?);
    }
    Ok(list)
}

/// The fields behind the record header. `old`: without the pid.
pub(crate) fn build_id_entry(
    misc: Misc,
    mut body: Fields<'_>,
    old: bool,
) -> Result<BuildIdEntry, Short> {
    let pid = if old { -1 } else { body.u32()? as i32 };
    let bytes = body.take(BuildId::RECORDED_MAX)?;
    let size = if old {
        body.take(4)?;
        BuildId::RECORDED_MAX
    } else {
        let [size, ..] = *body.take(4)? else {
            return Err(Short { needs: 4, left: 0 });
        };
        // Without the bit the byte is what the writer's memory held.
        if misc.has(Misc::BUILD_ID_SIZE) {
            usize::from(size).min(bytes.len())
        } else {
            bytes.len()
        }
    };
    Ok(BuildIdEntry {
        misc,
        pid,
        build_id: BuildId::new(bytes.get(..size).unwrap_or_default()),
        path: Text::from(until_nul(body.rest())),
    })
}

/// Files of 2010 have records without the pid; read with it, the kernel's
/// name lacks its first four bytes.
fn without_pid(section: &[u8]) -> bool {
    let name_at = usize::from(BUILD_ID_FIXED);
    let name = section.get(name_at..).unwrap_or_default();
    name.starts_with(b"nel.kallsyms]")
}

fn event_desc(fields: &mut Fields<'_>) -> Result<Feature, String> {
    let head = |fields: &mut Fields<'_>| Ok((fields.u32()?, fields.u32()?));
    let (nr, attr_size) = head(fields).map_err(|_: Short| "it has no counts".to_owned())?;
    let mut list = Vec::new();
    for index in 0..nr {
        let event = one_event(fields, attr_size).map_err(|short| {
            format!(
                "event {index} of {nr} needs {} bytes, but {} are left",
                short.needs, short.left
            )
        })?;
        list.push(event);
    }
    Ok(Feature::EventDesc(list))
}

fn one_event(fields: &mut Fields<'_>, attr_size: u32) -> Result<DescribedEvent, Short> {
    let order = fields.order();
    let attr = fields.items(attr_size.into(), 1)?;
    let nr_ids = fields.u32()?;
    let name = text(fields)?;
    let mut ids = Fields::new(fields.items(nr_ids.into(), 8)?, order);
    Ok(DescribedEvent {
        attr: EventAttr::decode(attr, order),
        name,
        ids: std::iter::from_fn(|| ids.u64().ok()).collect(),
    })
}

fn auxtrace_index(fields: &mut Fields<'_>) -> Result<Vec<Section>, Short> {
    let mut list = Vec::new();
    while fields.left() >= 8 {
        let nr = fields.u64()?;
        let mut entries = Fields::new(fields.items(nr, 16)?, fields.order());
        list.extend(std::iter::from_fn(|| {
            Some(Section {
                offset: entries.u64().ok()?,
                size: entries.u64().ok()?,
            })
        }));
    }
    Ok(list)
}

fn bpf_program(fields: &mut Fields<'_>) -> Result<BpfProgram, Short> {
    let (info_len, data_len) = (fields.u32()?, fields.u32()?);
    Ok(BpfProgram {
        arrays: fields.u64()?,
        info: fields.items(info_len.into(), 1)?.to_vec(),
        data: fields.items(data_len.into(), 1)?.to_vec(),
    })
}

/// From this version of /proc/schedstat on, domains have names.
const SCHEDSTAT_NAMES: u32 = 17;

fn cpu_domains(fields: &mut Fields<'_>) -> Result<CpuDomains, Short> {
    let (schedstat_version, max_domains) = (fields.u32()?, fields.u32()?);
    let mut cpus = Vec::new();
    while fields.left() >= 8 {
        let (cpu, nr) = (fields.u32()?, fields.u32()?);
        let domains = several(fields, nr.into(), |fields| {
            let domain = fields.u32()?;
            let named = schedstat_version >= SCHEDSTAT_NAMES;
            Ok(CpuDomain {
                domain,
                name: if named { Some(text(fields)?) } else { None },
                cpu_mask: text(fields)?,
                cpu_list: text(fields)?,
            })
        })?;
        cpus.push((cpu, domains));
    }
    Ok(CpuDomains {
        schedstat_version,
        max_domains,
        cpus,
    })
}

/// NUL-terminated keys and values in turn.
fn meta_info(fields: &mut Fields<'_>) -> Vec<(Text, Text)> {
    let mut list = Vec::new();
    while fields.left() > 0 {
        let key = Text::from(fields.terminated());
        list.push((key, Text::from(fields.terminated())));
    }
    list
}
