//! The names of the recorded kernel: from the running one if it is the same,
//! else from perf's build-id cache.

use prof_abi::{BuildId, ByteOrder};
use prof_profile::{Avma, DsoKind, UnnamedReason};
use prof_symbolize::Kallsyms;
use std::fs;
use std::path::Path;

/// What a recording says of its kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedKernel {
    pub(crate) build_id: Option<BuildId>,
    /// `uname -r`.
    pub(crate) release: Option<String>,
    pub(crate) hostname: Option<String>,
    /// A symbol and its address: tells how the kernel was relocated.
    pub(crate) reference: Option<(Vec<u8>, Avma)>,
}

/// The symbol table of the recorded kernel.
pub(crate) fn load(
    kernel: &RecordedKernel,
    cache: Option<&Path>,
) -> Result<Kallsyms, UnnamedReason> {
    let mut kallsyms = if is_running(kernel) {
        fs::read("/proc/kallsyms")
            .map_err(|_| UnnamedReason::KernelHidden)
            .and_then(Kallsyms::parse)
    } else {
        let cached = kernel.build_id.zip(cache).map(|(id, cache)| {
            let hex = id.to_string();
            let (first, rest) = hex.split_at_checked(2).unwrap_or((&hex, ""));
            cache
                .join(".build-id")
                .join(first)
                .join(rest)
                .join("kallsyms")
        });
        let text = cached.and_then(|path| fs::read(path).ok());
        text.ok_or(UnnamedReason::BuildIdMismatch)
            .and_then(Kallsyms::parse)
    }?;
    if let Some((name, address)) = &kernel.reference {
        // A kernel without that symbol is taken to be where it was.
        kallsyms.relocate(name, *address);
    }
    Ok(kallsyms)
}

/// Whether the recorded kernel is the one that runs now: the same build, or
/// where no build-id tells, the same release on the same host.
pub(crate) fn is_running(kernel: &RecordedKernel) -> bool {
    let own = fs::read("/sys/kernel/notes")
        .ok()
        .and_then(|notes| build_id_of_notes(&notes));
    match (kernel.build_id, own) {
        (Some(recorded), Some(own)) => own.matches(&recorded),
        (Some(_), None) => false,
        (None, _) => {
            let line = |path| {
                fs::read_to_string(path)
                    .ok()
                    .map(|text| text.trim().to_owned())
            };
            kernel.release.is_some()
                && kernel.release == line("/proc/sys/kernel/osrelease")
                && kernel.hostname == line("/proc/sys/kernel/hostname")
        }
    }
}

/// Whether a file of this kind can be what was recorded: a vDSO belongs to its
/// kernel, so without a build-id that of another kernel is another one.
pub(crate) fn may_be_at_hand(
    kind: DsoKind,
    build_id: Option<BuildId>,
    kernel: &RecordedKernel,
) -> bool {
    kind != DsoKind::Vdso || build_id.is_some() || is_running(kernel)
}

/// The build-id in ELF notes: u32 name length, u32 content length, u32 type,
/// name and content each padded to 4 bytes.
fn build_id_of_notes(notes: &[u8]) -> Option<BuildId> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let mut at = 0_usize;
    loop {
        let word = |field: usize| ByteOrder::NATIVE.u32(notes, at.checked_add(field * 4)?);
        let (name_len, len, kind) = (word(0)? as usize, word(1)? as usize, word(2)?);
        let name = at.checked_add(12)?;
        let content = name.checked_add(name_len.checked_next_multiple_of(4)?)?;
        let end = content.checked_add(len)?;
        if kind == NT_GNU_BUILD_ID && notes.get(name..)?.starts_with(b"GNU\0") {
            return BuildId::new(notes.get(content..end)?);
        }
        at = end.checked_next_multiple_of(4)?;
    }
}

#[cfg(test)]
mod tests {
    use super::build_id_of_notes;

    #[test]
    fn the_build_id_is_found_behind_other_notes_and_lengths_are_checked() {
        let mut notes = Vec::new();
        for (kind, name, content) in [
            (1_u32, &b"Xen\0"[..], &[1, 2, 3][..]),
            (3, b"GNU\0", &[7; 20]),
        ] {
            notes.extend((name.len() as u32).to_ne_bytes());
            notes.extend((content.len() as u32).to_ne_bytes());
            notes.extend(kind.to_ne_bytes());
            notes.extend(name);
            notes.extend(content);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(
            build_id_of_notes(&notes).map(|id| id.to_string()),
            Some("07".repeat(20))
        );
        assert_eq!(build_id_of_notes(&notes[..40]), None);
        assert_eq!(build_id_of_notes(&[0xff; 16]), None);
    }
}
