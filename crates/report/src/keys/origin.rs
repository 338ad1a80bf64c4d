//! How perf writes where a frame is from: letters and addresses.

use crate::model::{Scene, Site};
use prof_abi::CpuMode;
use prof_profile::{DsoKind, UnnamedReason};

/// perf's letter for the file that a dso's names are from; `!` for none.
pub(super) fn letter(scene: &Scene<'_>, site: Option<&Site>) -> char {
    let Some(site) = site else {
        return '!';
    };
    let profile = scene.profile();
    let dso = profile.dso(site.dso);
    let unnamed = site.function(profile).unnamed;
    if dso.kind == DsoKind::Unknown
        || unnamed.is_some_and(|reason| {
            let is_read = [UnnamedReason::NoSymbolThere, UnnamedReason::NotInPerfMap];
            !is_read.contains(&reason)
        })
    {
        return '!';
    }
    let from = dso.symbols_from.map(|from| profile.name(from));
    match dso.kind {
        DsoKind::Jit => 'j',
        DsoKind::GuestKernel => 'g',
        DsoKind::Kernel | DsoKind::KernelSymbol => {
            if from.is_some_and(|from| !from.ends_with("kallsyms")) {
                'v'
            } else {
                'k'
            }
        }
        DsoKind::KernelModule if from.is_none() => 'k',
        DsoKind::KernelModule => 'K',
        _ => from.map_or('d', |from| letter_of_file(profile.name(dso.path), from)),
    }
}

/// The letter of a file that names are from instead of the mapped one.
fn letter_of_file(path: &str, from: &str) -> char {
    let last = from.rsplit('/').next().unwrap_or(from);
    if from.contains("/.build-id/") {
        return match last {
            "debug" => 'D',
            "elf" | "vdso" => 'B',
            _ => 'b',
        };
    }
    // Below a directory for debug files at the path of the file itself.
    match from.strip_suffix(".debug") {
        Some(stem) if stem.ends_with(path) => 'f',
        None if from.ends_with(path) => 'u',
        _ => 'l',
    }
}

/// The letter of a mode.
pub(super) fn letter_of_mode(mode: CpuMode) -> char {
    match mode {
        CpuMode::Kernel => 'k',
        CpuMode::Hypervisor => 'H',
        CpuMode::GuestKernel => 'g',
        CpuMode::GuestUser => 'u',
        CpuMode::User | CpuMode::Unknown => '.',
    }
}

/// As perf's `%#.16x`: no `0x` before zero.
pub(super) fn push_address(address: u64, out: &mut String) {
    if address != 0 {
        out.push_str("0x");
    }
    // Broken stacks bring hundreds of thousands of these; formatting with a
    // width costs several times as much.
    let digits = (0..16).rev().map(|place| (address >> (4 * place)) & 0xf);
    out.extend(digits.filter_map(|digit| char::from_digit(digit as u32, 16)));
}

#[cfg(test)]
mod tests {
    use super::push_address;

    #[test]
    fn an_unnamed_address_is_written_as_perf_does() {
        let mut out = String::new();
        push_address(0, &mut out);
        out.push(' ');
        push_address(0x10, &mut out);
        assert_eq!(out, "0000000000000000 0x0000000000000010");
    }
}
