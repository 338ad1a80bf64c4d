//! Where the kernel and its modules are loaded.

use super::build_ids::find_build_id;
use prof_abi::{BuildId, ByteOrder};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};

/// The kernel or a module in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// For the kernel the address of the symbol in its name, which lets a
    /// reader find how far the kernel was moved at boot; 0 for modules.
    pub file_offset: u64,
    /// `[kernel.kallsyms]_text`, or the file of the module.
    pub path: Vec<u8>,
    /// Its build-id.
    pub build_id: Option<BuildId>,
}

/// The kernel first, then its modules; empty if addresses are hidden.
pub fn images() -> Vec<KernelImage> {
    let mut images: Vec<_> = kernel_image().into_iter().collect();
    images.extend(modules());
    images
}

/// The build-id of the running kernel.
pub fn kernel_build_id() -> Option<BuildId> {
    find_build_id(&fs::read("/sys/kernel/notes").ok()?, ByteOrder::NATIVE, 4)
}

/// Where each task begins that the kernel makes: the function that it returns to when it
/// first runs. `None` where addresses are hidden.
pub fn first_of_tasks() -> Option<u64> {
    first_in(BufReader::new(File::open("/proc/kallsyms").ok()?))
}

fn first_in(kallsyms: impl BufRead) -> Option<u64> {
    // Of x86 since Linux 6.6, where the second is what it calls; of others.
    const NAMES: [&[u8]; 2] = [b"ret_from_fork_asm", b"ret_from_fork"];
    let mut found = None;
    for line in kallsyms.split(b'\n') {
        let line = line.ok()?;
        let Some((address, name)) = symbol(&line) else {
            continue;
        };
        match NAMES.iter().position(|&known| known == name) {
            Some(0) => return (address != 0).then_some(address),
            Some(_) => found = Some(address),
            None => {}
        }
        // Modules follow, which have none.
        if name == b"_etext" {
            break;
        }
    }
    found.filter(|&address| address != 0)
}

fn kernel_image() -> Option<KernelImage> {
    let kallsyms = BufReader::new(File::open("/proc/kallsyms").ok()?);
    let text = kernel_text(kallsyms, kernel_code_size())?;
    Some(KernelImage {
        start: text.start,
        len: text.len,
        file_offset: text.start,
        path: format!("[kernel.kallsyms]{}", text.symbol).into_bytes(),
        build_id: kernel_build_id(),
    })
}

/// The kernel's text and the symbol at its start.
#[derive(Debug, PartialEq, Eq)]
struct KernelText {
    start: u64,
    len: u64,
    symbol: &'static str,
}

/// Finds `_text` (or `_stext`) and, if its size is not known, `_etext`.
fn kernel_text(kallsyms: impl BufRead, known_len: Option<u64>) -> Option<KernelText> {
    let mut start = None;
    for line in kallsyms.split(b'\n') {
        let line = line.ok()?;
        let Some((address, name)) = symbol(&line) else {
            continue;
        };
        match name {
            // Hidden: so is everything that follows.
            b"_stext" | b"_text" if address == 0 => return None,
            // The usual order is _stext, _text; the latter is perf's choice.
            b"_stext" if start.is_none() => start = Some((address, "_stext")),
            b"_text" => start = Some((address, "_text")),
            b"_etext" => {
                let (start, symbol) = start?;
                let len = address.checked_sub(start)?;
                return text_from(start, len, symbol);
            }
            _ => {
                // Past the symbols that share the first address.
                if let (Some((start, symbol)), Some(len)) = (start, known_len)
                    && address != start
                {
                    return text_from(start, len, symbol);
                }
            }
        }
    }
    None
}

/// `None` when addresses are hidden, which shows as zeros.
fn text_from(start: u64, len: u64, symbol: &'static str) -> Option<KernelText> {
    (start != 0 && len != 0).then_some(KernelText { start, len, symbol })
}

/// Address and name of a line of kallsyms: `ffffffff81000000 T _text`.
fn symbol(line: &[u8]) -> Option<(u64, &[u8])> {
    let digits = line.get(..line.iter().position(|&byte| byte == b' ')?)?;
    let address = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    let name = line.get(digits.len() + 3..)?;
    let end = name.iter().position(|&byte| byte == b'\t');
    Some((address, name.get(..end.unwrap_or(name.len()))?))
}

/// Bytes of kernel text as /proc/iomem has it (root only, x86 only, where
/// "Kernel code" is exactly `_text` to `_etext`). It saves reading a hundred
/// thousand symbols, 25 ms, to find the last.
fn kernel_code_size() -> Option<u64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    code_size_in(&fs::read_to_string("/proc/iomem").ok()?)
}

fn code_size_in(iomem: &str) -> Option<u64> {
    let line = iomem.lines().find(|line| line.ends_with(": Kernel code"))?;
    let (first, last) = line.trim_start().split_once(' ')?.0.split_once('-')?;
    let first = u64::from_str_radix(first, 16).ok()?;
    let last = u64::from_str_radix(last, 16).ok()?;
    (last > first).then(|| last - first + 1)
}

fn modules() -> Vec<KernelImage> {
    let Ok(text) = fs::read_to_string("/proc/modules") else {
        return Vec::new(); // a kernel without modules
    };
    let loaded: Vec<_> = text.lines().filter_map(parse_module).collect();
    if loaded.is_empty() {
        return Vec::new();
    }
    let files = module_files();
    loaded
        .into_iter()
        .map(|module| {
            let path = files.get(module.name);
            KernelImage {
                start: module.start,
                len: module.len,
                file_offset: 0,
                path: path
                    .cloned()
                    .unwrap_or_else(|| format!("[{}]", module.name))
                    .into_bytes(),
                build_id: module_build_id(module.name),
            }
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
struct LoadedModule<'a> {
    name: &'a str,
    start: u64,
    len: u64,
}

/// `ext4 1048576 2 - Live 0xffffffffc0000000`; `None` if hidden.
fn parse_module(line: &str) -> Option<LoadedModule<'_>> {
    let mut fields = line.split_ascii_whitespace();
    let name = fields.next()?;
    let len = fields.next()?.parse().ok()?;
    let start = fields.nth(3)?.strip_prefix("0x")?;
    let start = u64::from_str_radix(start, 16).ok()?;
    (start != 0).then_some(LoadedModule { name, start, len })
}

/// Files of this kernel's modules by the name they have when loaded.
fn module_files() -> HashMap<String, String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let directory = format!("/lib/modules/{}", release.trim());
    let list = fs::read_to_string(format!("{directory}/modules.dep")).unwrap_or_default();
    list.lines()
        .filter_map(|line| {
            let file = line.split_once(':')?.0;
            let name = file.rsplit('/').next()?.split_once(".ko")?.0;
            // Files are named either way, loaded modules with underscores.
            Some((name.replace('-', "_"), format!("{directory}/{file}")))
        })
        .collect()
}

fn module_build_id(name: &str) -> Option<BuildId> {
    let notes = fs::read(format!("/sys/module/{name}/notes/.note.gnu.build-id")).ok()?;
    find_build_id(&notes, ByteOrder::NATIVE, 4)
}

#[cfg(test)]
mod tests {
    use super::{KernelText, LoadedModule, code_size_in, first_in, kernel_text, parse_module};

    const KALLSYMS: &[u8] = b"ffffffff81000000 T _stext\nffffffff81000000 T _text\n\
        ffffffff81000040 t do_one\nffffffff81000080 T _etext\nffffffffc0000000 t init\t[ext4]\n";

    fn text(len: u64) -> KernelText {
        KernelText {
            start: 0xffff_ffff_8100_0000,
            len,
            symbol: "_text",
        }
    }

    #[test]
    fn tasks_begin_where_the_kernel_has_them_return_to() {
        let both = b"f1 T _text\nf4 T ret_from_fork\nf8 T ret_from_fork_asm\n";
        assert_eq!(first_in(&both[..]), Some(0xf8));
        let one = b"f1 T _text\nf4 t ret_from_fork\nf9 T _etext\nfa t ret_from_fork_asm\t[m]\n";
        assert_eq!(first_in(&one[..]), Some(0xf4));
        assert_eq!(first_in(&b"00 T _text\n00 T ret_from_fork_asm\n"[..]), None);
        assert_eq!(first_in(KALLSYMS), None);
    }

    #[test]
    fn the_kernel_reaches_from_text_to_etext() {
        assert_eq!(kernel_text(KALLSYMS, None), Some(text(0x80)));
        // With a known size the rest need not be read.
        assert_eq!(kernel_text(KALLSYMS, Some(0x70)), Some(text(0x70)));
    }

    #[test]
    fn hidden_addresses_are_no_kernel() {
        let hidden = b"0000000000000000 T _stext\n0000000000000000 T _text\n\
            0000000000000000 t x\n0000000000000000 T _etext\n";
        assert_eq!(kernel_text(&hidden[..], None), None);
        assert_eq!(kernel_text(&hidden[..], Some(9)), None);
        assert_eq!(parse_module("ext4 4096 2 - Live 0x0000000000000000"), None);
        assert_eq!(code_size_in("00000000-00000000 : Kernel code\n"), None);
    }

    #[test]
    fn a_module_has_name_size_and_address() {
        let module = parse_module("ext4 4096 2 jbd2,mbcache, Live 0xffffffffc0000000 (E)");
        let expected = LoadedModule {
            name: "ext4",
            start: 0xffff_ffff_c000_0000,
            len: 4096,
        };
        assert_eq!(module, Some(expected));
    }

    #[test]
    fn iomem_ends_are_inclusive() {
        let iomem = "00100000-bfffffff : System RAM\n  01000000-0220bb07 : Kernel code\n";
        assert_eq!(code_size_in(iomem), Some(0x120_bb08));
    }
}
