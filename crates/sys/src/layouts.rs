//! Every layout and number against the kernel's own header, by a program in C
//! that includes it.

use crate::ioctl;
use crate::mmap_page::MmapPage;
use crate::traps::TrapInfo;
use prof_abi::{
    AttrFlags, AuxFlags, BranchSampleType, ByteOrder, EventAttr, ReadFormat, RecordType, SampleType,
};
use std::collections::HashMap;
use std::mem::offset_of;
use std::process::Command;

/// Whether gcc and the header are here; where `PROF_TEST_REQUIRE` names gcc,
/// it must be.
fn have_compiler() -> bool {
    let found = Command::new("gcc").arg("--version").output().is_ok()
        && std::path::Path::new("/usr/include/linux/perf_event.h").exists();
    if !found {
        let required = std::env::var("PROF_TEST_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name == "gcc"),
            "PROF_TEST_REQUIRE lists gcc, which is not here, or the kernel's header"
        );
        println!("skipped: no gcc, or no header of the kernel");
    }
    found
}

/// What a C program prints, lines of a name and a number, as a table.
fn run_c(body: &str) -> HashMap<String, u64> {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
    let text = format!(
        "#define _GNU_SOURCE\n#include <linux/perf_event.h>\n#include <stddef.h>\n\
         #include <stdio.h>\n#include <string.h>\n#include <signal.h>\n\
         int main(void) {{\n{body}\nreturn 0;\n}}\n"
    );
    std::fs::write(&source, text).expect("written");
    let compiled = Command::new("gcc")
        .args(["-o".as_ref(), program.as_os_str(), source.as_os_str()])
        .output()
        .expect("gcc");
    let errors = String::from_utf8_lossy(&compiled.stderr).into_owned();
    assert!(compiled.status.success(), "{errors}");
    let printed = Command::new(&program).output().expect("it runs");
    let printed = String::from_utf8(printed.stdout).expect("text");
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    printed.lines().filter_map(line).collect()
}

/// Where the kernel has a field of `perf_event_attr`, and its bytes, must be
/// what an attr with only that field set encodes.
#[test]
fn fields_of_an_attr_are_where_the_header_has_them() {
    // covers unit: ATTR-01, ATTR-14, ATTR-15, ATTR-61, ATTR-63, ATTR-64, ATTR-65, ATTR-66, ATTR-72
    // covers unit: ATTR-73, ATTR-74, ATTR-75, ATTR-76, ATTR-77, ATTR-78, ATTR-80
    if !have_compiler() {
        return;
    }
    type Set = fn(&mut EventAttr);
    let fields: [(&str, Set); 20] = [
        ("type", |attr| attr.kind = 0xa5a5),
        ("config", |attr| attr.config = 0xa5a5),
        ("sample_period", |attr| attr.sample_period = 0xa5a5),
        ("sample_type", |attr| attr.sample_type.0 = 0xa5a5),
        ("read_format", |attr| attr.read_format.0 = 0xa5a5),
        ("wakeup_events", |attr| attr.wakeup = 0xa5a5),
        ("wakeup_watermark", |attr| attr.wakeup = 0xa5a5),
        ("bp_type", |attr| attr.bp_type = 0xa5a5),
        ("bp_addr", |attr| attr.config1 = 0xa5a5),
        ("config2", |attr| attr.config2 = 0xa5a5),
        ("branch_sample_type", |attr| {
            attr.branch_sample_type.0 = 0xa5a5;
        }),
        ("sample_regs_user", |attr| attr.sample_regs_user = 0xa5a5),
        ("sample_stack_user", |attr| attr.sample_stack_user = 0xa5a5),
        ("clockid", |attr| attr.clockid = 0xa5a5),
        ("sample_regs_intr", |attr| attr.sample_regs_intr = 0xa5a5),
        ("aux_watermark", |attr| attr.aux_watermark = 0xa5a5),
        ("sample_max_stack", |attr| attr.sample_max_stack = 0xa5a5),
        ("__reserved_2", |attr| attr.reserved_2 = 0xa5a5),
        ("aux_sample_size", |attr| attr.aux_sample_size = 0xa5a5),
        ("sig_data", |attr| attr.sig_data = 0xa5a5),
    ];
    let print = |(name, _): &(&str, Set)| {
        format!("printf(\"{name} %zu\\n\", offsetof(struct perf_event_attr, {name}));")
    };
    let offsets = run_c(&fields.iter().map(print).collect::<String>());
    for (name, set) in fields {
        let at = usize::try_from(offsets[name]).expect("an offset");
        let mut attr = EventAttr::default();
        set(&mut attr);
        let bytes = attr.encode(ByteOrder::NATIVE);
        assert_eq!(ByteOrder::NATIVE.u16(&bytes, at), Some(0xa5a5), "{name}");
    }
}

#[test]
fn flags_are_the_bits_that_a_compiler_makes_of_the_header() {
    // covers unit: ATTR-20, ATTR-22, ATTR-26, ATTR-27, ATTR-28, ATTR-29, ATTR-36, ATTR-47, ATTR-48, ATTR-49
    // covers unit: ATTR-50, ATTR-51, ATTR-52, ATTR-53, ATTR-54, ATTR-55, ATTR-56, ATTR-57
    if !have_compiler() {
        return;
    }
    // Those of Linux 5.13, which every installed header has; `precise_ip` is
    // one field of two bits there.
    let names: Vec<&str> = AttrFlags::NAMES
        .iter()
        .map(|(_, name)| *name)
        .take(38)
        .filter(|name| !name.starts_with("PRECISE"))
        .collect();
    let print = |name: &&str| {
        let field = name.to_lowercase();
        format!(
            "{{ struct perf_event_attr a; memset(&a, 0, sizeof a); a.{field} = 1; \
             unsigned long long w; memcpy(&w, (char *)&a + 40, 8); \
             printf(\"{name} %llu\\n\", w); }}"
        )
    };
    let mut body: String = names.iter().map(print).collect();
    body.push_str(
        "{ struct perf_event_attr a; memset(&a, 0, sizeof a); a.precise_ip = 3; \
         unsigned long long w; memcpy(&w, (char *)&a + 40, 8); printf(\"precise %llu\\n\", w); }",
    );
    let bits = run_c(&body);
    for &(flag, name) in AttrFlags::NAMES {
        if let Some(&bit) = bits.get(name) {
            assert_eq!(flag.0, bit, "{name}");
        }
    }
    assert_eq!(bits.len(), names.len() + 1);
    let precise = AttrFlags::PRECISE_LOW | AttrFlags::PRECISE_HIGH;
    assert_eq!(bits["precise"], precise.0);
}

#[test]
fn the_page_in_front_of_a_ring_is_the_headers() {
    // covers unit: MP-01, MP-02, MP-03, MP-04, MP-05, MP-06, MP-12, MP-13, MP-14, MP-15, MP-16, MP-17, MP-18, MP-19, MP-20
    if !have_compiler() {
        return;
    }
    let fields = [
        ("version", offset_of!(MmapPage, version)),
        ("compat_version", offset_of!(MmapPage, compat_version)),
        ("lock", offset_of!(MmapPage, lock)),
        ("index", offset_of!(MmapPage, index)),
        ("offset", offset_of!(MmapPage, offset)),
        ("time_enabled", offset_of!(MmapPage, time_enabled)),
        ("time_running", offset_of!(MmapPage, time_running)),
        ("capabilities", offset_of!(MmapPage, capabilities)),
        ("pmc_width", offset_of!(MmapPage, widths)),
        ("time_shift", offset_of!(MmapPage, widths) + 2),
        ("time_mult", offset_of!(MmapPage, widths) + 4),
        ("time_offset", offset_of!(MmapPage, time_offset)),
        ("time_zero", offset_of!(MmapPage, time_zero)),
        ("size", offset_of!(MmapPage, size)),
        ("time_cycles", offset_of!(MmapPage, time_cycles)),
        ("time_mask", offset_of!(MmapPage, time_mask)),
        ("data_head", offset_of!(MmapPage, data_head)),
        ("data_tail", offset_of!(MmapPage, data_tail)),
        ("data_offset", offset_of!(MmapPage, data_offset)),
        ("data_size", offset_of!(MmapPage, data_size)),
        ("aux_head", offset_of!(MmapPage, aux_head)),
        ("aux_tail", offset_of!(MmapPage, aux_tail)),
        ("aux_offset", offset_of!(MmapPage, aux_offset)),
        ("aux_size", offset_of!(MmapPage, aux_size)),
    ];
    let print = |(name, _): &(&str, usize)| {
        format!("printf(\"{name} %zu\\n\", offsetof(struct perf_event_mmap_page, {name}));")
    };
    let offsets = run_c(&fields.iter().map(print).collect::<String>());
    for (name, offset) in fields {
        assert_eq!(offsets[name], offset as u64, "{name}");
    }
}

#[test]
fn numbers_are_those_of_the_header() {
    // covers unit: IOC-01, IOC-02, IOC-04, IOC-05, IOC-06, IOC-07, IOC-08, IOC-09, IOC-10, IOC-11, IOC-12, IOC-13, IOC-14
    // covers unit: CALL-11, CALL-12, CALL-13, CALL-14, RF-01, RF-02, RF-03, RF-04, BR-01, BR-02, BR-05, BR-09, BR-10
    // covers unit: ATTR-18, ATTR-19
    if !have_compiler() {
        return;
    }
    let ioctls = [
        ("PERF_EVENT_IOC_ENABLE", ioctl::ENABLE),
        ("PERF_EVENT_IOC_DISABLE", ioctl::DISABLE),
        ("PERF_EVENT_IOC_REFRESH", ioctl::REFRESH),
        ("PERF_EVENT_IOC_RESET", ioctl::RESET),
        ("PERF_EVENT_IOC_PERIOD", ioctl::PERIOD),
        ("PERF_EVENT_IOC_SET_OUTPUT", ioctl::SET_OUTPUT),
        ("PERF_EVENT_IOC_SET_FILTER", ioctl::SET_FILTER),
        ("PERF_EVENT_IOC_ID", ioctl::ID),
        ("PERF_EVENT_IOC_SET_BPF", ioctl::SET_BPF),
        ("PERF_EVENT_IOC_PAUSE_OUTPUT", ioctl::PAUSE_OUTPUT),
        ("PERF_EVENT_IOC_QUERY_BPF", ioctl::QUERY_BPF),
        ("PERF_EVENT_IOC_MODIFY_ATTRIBUTES", ioctl::MODIFY_ATTRIBUTES),
        ("PERF_IOC_FLAG_GROUP", ioctl::FLAG_GROUP),
    ];
    let mut expected: Vec<(String, u64)> = ioctls
        .into_iter()
        .map(|(name, number)| (name.to_owned(), number))
        .collect();
    let flags = [
        ("PERF_FLAG_FD_NO_GROUP", crate::OpenFlags::FD_NO_GROUP),
        ("PERF_FLAG_FD_OUTPUT", crate::OpenFlags::FD_OUTPUT),
        ("PERF_FLAG_PID_CGROUP", crate::OpenFlags::PID_CGROUP),
        ("PERF_FLAG_FD_CLOEXEC", crate::OpenFlags::FD_CLOEXEC),
    ];
    expected.extend(flags.map(|(name, flag)| (name.to_owned(), flag.0)));
    // What Linux 5.13 had, the oldest header that compiles this.
    let samples = SampleType::NAMES.iter().take(25);
    expected.extend(samples.map(|(bit, name)| (format!("PERF_SAMPLE_{name}"), bit.0)));
    let formats = ReadFormat::NAMES.iter().take(4);
    expected.extend(formats.map(|(bit, name)| (format!("PERF_FORMAT_{name}"), bit.0)));
    let branches = BranchSampleType::NAMES.iter().take(18);
    expected.extend(branches.map(|(bit, name)| (format!("PERF_SAMPLE_BRANCH_{name}"), bit.0)));
    let records = (1..=20).filter_map(|number| Some((RecordType(number).name()?, number)));
    expected.extend(records.map(|(name, number)| (format!("PERF_RECORD_{name}"), number.into())));
    let aux = AuxFlags::NAMES.iter();
    expected.extend(aux.map(|(bit, name)| (format!("PERF_AUX_FLAG_{name}"), bit.0)));
    let print = |(name, _): &(String, u64)| {
        format!("printf(\"{name} %llu\\n\", (unsigned long long){name});")
    };
    let numbers = run_c(&expected.iter().map(print).collect::<String>());
    for (name, number) in &expected {
        assert_eq!(numbers.get(name), Some(number), "{name}");
    }
}

#[test]
fn what_comes_with_sigtrap_is_where_the_c_library_has_it() {
    // covers unit: ATTR-57, OVF-11
    if !have_compiler() {
        return;
    }
    let offsets = run_c(
        "#ifdef si_perf_data\n\
         printf(\"data %zu\\n\", offsetof(siginfo_t, si_perf_data));\n\
         #endif\n\
         printf(\"address %zu\\n\", offsetof(siginfo_t, si_addr));\n\
         printf(\"size %zu\\n\", sizeof(siginfo_t));",
    );
    assert_eq!(offsets["address"], offset_of!(TrapInfo, address) as u64);
    assert_eq!(offsets["size"], size_of::<libc::siginfo_t>() as u64);
    if let Some(&data) = offsets.get("data") {
        assert_eq!(data, offset_of!(TrapInfo, data) as u64);
    }
}
