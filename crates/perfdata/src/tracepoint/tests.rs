use super::{EventFormat, KernelTexts, Surroundings, TracingData, TracingDataError};
use prof_abi::ByteOrder;

fn no_function(_: u64) -> Option<(String, u64)> {
    None
}

fn printed(format: &EventFormat, payload: &[u8]) -> String {
    let around = Surroundings {
        order: ByteOrder::Little,
        long_size: 8,
        function: &|address| (address == 0xffff_8001).then(|| ("schedule".to_owned(), 0xffff_8000)),
        texts: &KernelTexts::default(),
    };
    let mut out = Vec::new();
    format.print(payload, &around, &mut out);
    String::from_utf8(out).expect("text")
}

/// A format with these fields behind eight common bytes.
fn format(fields: &str, print: &str) -> EventFormat {
    let text = format!(
        "name: wake\nID: 7\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
         {fields}\nprint fmt: {print}\n"
    );
    EventFormat::parse("sched", &text).expect("a format")
}

const NUMBERS: &str = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\
                       \tfield:unsigned long b;\toffset:16;\tsize:8;\tsigned:0;";

fn numbers(a: i32, b: u64) -> Vec<u8> {
    let mut payload = vec![0; 8];
    payload.extend(a.to_le_bytes());
    payload.extend([0; 4]);
    payload.extend(b.to_le_bytes());
    payload
}

#[test]
fn conversions_are_those_of_printf() {
    let payload = numbers(-5, 0x1f);
    for (print, expected) in [
        (r#""%d %u", REC->a, REC->a"#, "-5 4294967291"),
        (
            r#""[%6d] [%-6d] [%06d]", REC->a, REC->a, REC->a"#,
            "[    -5] [-5    ] [-00005]",
        ),
        (
            r#""%#lx %08lX %lo", REC->b, REC->b, REC->b"#,
            "0x1f 0000001F 37",
        ),
        (r#""%*d|%.3d", 4, REC->a, 7"#, "  -5|007"),
        (r#""100%% %c%s", 65, "x\ty""#, "100% Ax\ty"),
        (r#""%p %p", REC->b, 0"#, "0x1f (nil)"),
        (r#""%hhd %hu", 255, 65537"#, "-1 1"),
    ] {
        assert_eq!(
            printed(&format(NUMBERS, print), &payload),
            expected,
            "{print}"
        );
    }
}

#[test]
fn expressions_follow_the_rules_of_c() {
    let payload = numbers(3, 0x1234_5678);
    for (print, expected) in [
        (r#""%d", 1 + 2 * 3 << 1"#, "14"),
        (r#""%s", REC->a & 1 ? "odd" : "even""#, "odd"),
        (r#""%d", REC->a > 2 && REC->b != 0"#, "1"),
        (r#""%x", ((unsigned short)((REC->b) >> 8))"#, "3456"),
        (r#""%x", (unsigned int)(~0)"#, "ffffffff"),
        (r#""%d", REC->a / 0"#, "0"),
        (r#""%d", (int)sizeof(u32) + sizeof(REC->b)"#, "12"),
        (r#""%d", __builtin_expect(!!(REC->a), 0)"#, "1"),
    ] {
        assert_eq!(
            printed(&format(NUMBERS, print), &payload),
            expected,
            "{print}"
        );
    }
}

#[test]
fn flags_and_symbols_name_what_they_know() {
    let flags = format(
        NUMBERS,
        r#""%s", __print_flags(REC->a, "|", {1, "S"}, {2, "D"})"#,
    );
    assert_eq!(printed(&flags, &numbers(3, 0)), "S|D");
    assert_eq!(printed(&flags, &numbers(9, 0)), "S|0x8");
    assert_eq!(printed(&flags, &numbers(0, 0)), "");
    let symbols = format(
        NUMBERS,
        r#""%-3s|", __print_symbolic(REC->a, {0, "HI"}, {1 << 1, "T"})"#,
    );
    assert_eq!(printed(&symbols, &numbers(2, 0)), "T  |");
    assert_eq!(printed(&symbols, &numbers(77, 0)), "0x4d|");
}

#[test]
fn text_and_arrays_are_found_where_the_locator_says() {
    let fields = "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:1;\n\
                  \tfield:__rel_loc u8[] raw;\toffset:12;\tsize:4;\tsigned:0;\n\
                  \tfield:char comm[4];\toffset:16;\tsize:4;\tsigned:1;";
    let print = r#""%s %s %s %d %s", __get_str(name), REC->comm, __print_hex(__get_rel_dynamic_array(raw), 9), __get_dynamic_array_len(name), __print_array(__get_dynamic_array(raw), 2, 1)"#;
    let mut payload = vec![0; 8];
    payload.extend((4_u32 << 16 | 20).to_le_bytes());
    // Relative to the end of its own field, byte 16.
    payload.extend((2_u32 << 16 | 8).to_le_bytes());
    payload.extend(b"sh\0\0abc\0\x01\xff");
    assert_eq!(
        printed(&format(fields, print), &payload),
        "abc sh 01 ff 4 {0x1,0xff}"
    );
    // A locator that points outside finds nothing, and a cut payload too.
    payload[8] = 250;
    assert!(printed(&format(fields, print), &payload).starts_with(" sh 01 ff"));
    for len in 0..payload.len() {
        printed(&format(fields, print), &payload[..len]);
    }
}

#[test]
fn addresses_of_functions_networks_and_devices() {
    let fields = "\tfield:__u8 ip[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                  \tfield:void * at;\toffset:24;\tsize:8;\tsigned:0;";
    let print = r#""%pI4 %pI6c %pM %pS %ps %pUb", REC->ip, REC->ip, REC->ip, (void *)REC->at, REC->ip, REC->ip"#;
    let mut payload = vec![0; 8];
    payload.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    payload.extend(0xffff_8001_u64.to_le_bytes());
    assert_eq!(
        printed(&format(fields, print), &payload),
        "10.0.0.1 a00:1::9 0a:00:00:01:00:00 schedule+0x1 0x0 0a000001-0000-0000-0000-000000000009"
    );
}

#[test]
fn what_is_not_understood_is_listed_field_by_field() {
    let unknown = format(NUMBERS, r#""%s", mc_event_error_type(REC->a)"#);
    assert!(!unknown.is_understood());
    assert_eq!(
        printed(&unknown, &numbers(-1, 16)),
        "[FAILED TO PARSE] a=-1 b=0x10"
    );
    let deep = format!("\"%d\", {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(!format(NUMBERS, &deep).is_understood());
    let long = format!("\"%d\", REC->a{}", "+REC->a".repeat(100_000));
    assert!(!format(NUMBERS, &long).is_understood());
}

fn section() -> Vec<u8> {
    let mut bytes = b"\x17\x08\x44tracing0.6\0\0\x08\x00\x10\x00\x00".to_vec();
    for name in ["header_page", "header_event"] {
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.extend(3_u64.to_le_bytes());
        bytes.extend(b"abc");
    }
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(b"sched\0");
    bytes.extend(1_u32.to_le_bytes());
    let text = format!("name: wake\nID: 300\nformat:\n{NUMBERS}\n\nprint fmt: \"a=%d\", REC->a\n");
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend([0; 16]);
    bytes
}

#[test]
fn a_section_reads_to_its_end_and_keeps_what_is_before_a_cut() {
    let bytes = section();
    let data = TracingData::parse(&bytes).expect("whole");
    assert_eq!(
        (data.len, data.cut, data.unreadable),
        (bytes.len(), None, 0)
    );
    let event = data.event(300).expect("the event");
    assert_eq!(
        (event.system.as_str(), event.name.as_str()),
        ("sched", "wake")
    );
    assert_eq!(printed(event, &numbers(4, 0)), "a=4");
    for len in 0..bytes.len() {
        match TracingData::parse(&bytes[..len]) {
            Ok(data) => assert!(data.cut.is_some(), "{len}"),
            Err(error) => assert!(matches!(error, TracingDataError::Short { .. }), "{len}"),
        }
    }
    assert_eq!(
        TracingData::parse(b"not tracing data").err(),
        Some(TracingDataError::BadMagic)
    );
}

#[test]
fn formats_of_this_kernel_are_understood() {
    // covers live: BUG-17, SFS-11
    let Ok(groups) = std::fs::read_dir("/sys/kernel/tracing/events") else {
        eprintln!("skipped: tracefs is not readable here");
        return;
    };
    let (mut all, mut understood) = (0, 0);
    for group in groups.flatten() {
        for event in std::fs::read_dir(group.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(text) = std::fs::read_to_string(event.path().join("format")) else {
                continue;
            };
            let system = group.file_name().to_string_lossy().into_owned();
            let format = EventFormat::parse(&system, &text).expect("a format of the kernel");
            all += 1;
            understood += u32::from(format.is_understood());
            if !format.is_understood() {
                eprintln!("not understood: {system}:{}", format.name);
            }
            let around = Surroundings {
                order: ByteOrder::Little,
                long_size: 8,
                function: &no_function,
                texts: &KernelTexts::default(),
            };
            format.print(&[0xff; 64], &around, &mut Vec::new());
        }
    }
    if all == 0 {
        eprintln!("skipped: tracefs is not readable here");
        return;
    }
    assert!(understood * 100 >= all * 97, "{understood} of {all}");
}

#[test]
fn values_of_fields_are_those_of_the_printed_text() {
    let payload = numbers(-5, 0x1f);
    let shown = |print: &str, name: &str, is_raw: bool| {
        let format = format(NUMBERS, print);
        let text = printed(&format, &payload);
        let field = format.field(name).expect("it is there");
        let text = (!is_raw).then_some(text.as_bytes());
        String::from_utf8(field.shown(&payload, ByteOrder::Little, text)).expect("text")
    };
    let states = r#""aa=1 a=R%d ==> b=%lu", 7, REC->b"#;
    assert_eq!(shown(states, "a", false), "R7");
    assert_eq!(shown(states, "a", true), "-5");
    assert_eq!(shown(states, "b", false), "31");
    assert_eq!(shown(states, "b", true), "0x1f");
    let call = r#""a: 0x%08x, b: 0x%08lx", 9, REC->b"#;
    assert_eq!(shown(call, "a", false), "0x00000009");
    assert_eq!(shown(call, "b", false), "0x0000001f");
    assert_eq!(shown(r#""a= b:""#, "a", false), "");
    assert_eq!(shown(r#""a= b:""#, "b", false), "0x1f");
    assert_eq!(shown(r#""nothing of them""#, "a", false), "-5");
}
