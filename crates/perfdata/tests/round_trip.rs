//! What is written is read back, what is read is written again: any event,
//! any values, both byte orders.

use prof_abi::{
    AttrFlags, BranchSampleType, ByteOrder, CpuMode, EventAttr, ReadFormat, RecordType, SampleType,
};
use prof_perfdata::write::{SampleEncoder, SampleFields};
use prof_perfdata::{Body, Event, Events, Record};
use proptest::prelude::*;

/// Every bit of `sample_type` that a sample can have together.
const ALL_BITS: u64 = (1 << 25) - 1;

fn events(attr: EventAttr, order: ByteOrder) -> Events {
    let mut events = Events::new(order);
    events.push(Event::new(attr, vec![1]));
    events
}

prop_compose! {
    /// An event with any fields.
    fn any_attr()(
        sample_type in 0..=ALL_BITS,
        read_format in 0..32_u64,
        branches in prop_oneof![Just(0), Just(1 << 17), Just(1 << 19), Just(5 << 17)],
        regs_user in any::<u64>(),
        regs_intr in any::<u64>(),
        sample_id_all in any::<bool>(),
    ) -> EventAttr {
        // WEIGHT and WEIGHT_STRUCT exclude each other.
        let sample_type = SampleType(sample_type);
        let sample_type = if sample_type.has(SampleType::WEIGHT) {
            sample_type.without(SampleType::WEIGHT_STRUCT)
        } else {
            sample_type
        };
        EventAttr {
            sample_type,
            read_format: ReadFormat(read_format),
            branch_sample_type: BranchSampleType(branches),
            sample_regs_user: regs_user,
            sample_regs_intr: regs_intr,
            flags: if sample_id_all { AttrFlags::SAMPLE_ID_ALL } else { AttrFlags(0) },
            ..EventAttr::default()
        }
    }
}

proptest! {
    /// covers unit: ST-01, ST-02, ST-03, ST-04, ST-05, ST-06, ST-08, ST-09, ST-10, ST-11, ST-12,
    /// ST-13, ST-14, ST-15, ST-16, ST-17, ST-18, ST-19, ST-20, ST-21, ST-22, ST-23, ST-24,
    /// ST-25, ST-26, BR-10, BR-13, REG-02
    #[test]
    fn any_sample_written_is_read_back(
        attr in any_attr(),
        words in prop::array::uniform16(any::<u64>()),
        chain in prop::collection::vec(any::<u64>(), 0..20),
        raw in prop::collection::vec(any::<u8>(), 4..60),
        branches in prop::collection::vec(prop::array::uniform3(any::<u64>()), 0..5),
        stack in prop::collection::vec(any::<u8>(), 0..10),
    ) {
        // The writer knows no branch counters and its READ is one counter.
        let mut attr = attr;
        attr.branch_sample_type = attr.branch_sample_type.without(BranchSampleType::COUNTERS);
        attr.read_format = ReadFormat(0);
        let raw = &raw[..raw.len() / 8 * 8 + 4 - 8 * usize::from(raw.len() % 8 < 4)];
        let stack: Vec<u8> = stack.repeat(8);
        let values = |mask: u64| -> Vec<u64> { (0..u64::from(mask.count_ones())).collect() };
        let (user, intr) = (values(attr.sample_regs_user), values(attr.sample_regs_intr));
        let [ip, time, addr, id, stream_id, period, read, hw_index, weight, data_src, transaction,
            phys_addr, cgroup, data_page_size, code_page_size, ids] = words;
        let fields = SampleFields {
            cpu_mode: CpuMode::User,
            id, ip, time, addr, stream_id, period,
            pid: ids as u32,
            tid: (ids >> 32) as u32,
            cpu: weight as u32,
            read: &[read],
            callchain: &chain,
            raw,
            branch_hw_index: hw_index,
            branches: &branches,
            regs_user: (2, &user),
            stack_user: &stack,
            weight, data_src, transaction,
            regs_intr: (2, &intr),
            phys_addr, cgroup, data_page_size, code_page_size,
            aux: &stack,
        };
        let mut bytes = Vec::new();
        SampleEncoder::new(&attr).encode(&fields, &mut bytes).expect("short");
        let sample_type = attr.sample_type;
        let has = |bit| sample_type.has(bit);
        let events = events(attr, ByteOrder::NATIVE);
        let record = Record::new(&bytes, 0, &events).expect("a record");
        prop_assert_eq!(record.kind, RecordType::SAMPLE);
        let Body::Sample(sample) = record.try_decode().expect("a sample") else { panic!() };
        let asked = |bit, value: u64| has(bit).then_some(value);
        prop_assert_eq!(sample.ip(), asked(SampleType::IP, ip));
        prop_assert_eq!(sample.pid(), has(SampleType::TID).then_some(ids as u32 as i32));
        prop_assert_eq!(sample.tid(), has(SampleType::TID).then_some((ids >> 32) as u32 as i32));
        prop_assert_eq!(sample.time(), asked(SampleType::TIME, time));
        prop_assert_eq!(sample.addr(), asked(SampleType::ADDR, addr));
        prop_assert_eq!(sample.id(), asked(SampleType::ID, id));
        prop_assert_eq!(sample.identifier(), asked(SampleType::IDENTIFIER, id));
        prop_assert_eq!(sample.stream_id(), asked(SampleType::STREAM_ID, stream_id));
        prop_assert_eq!(sample.cpu(), has(SampleType::CPU).then_some(weight as u32));
        prop_assert_eq!(sample.period(), asked(SampleType::PERIOD, period));
        let read_value = sample.read().and_then(|values| values.values().next());
        prop_assert_eq!(read_value.map(|value| value.value), asked(SampleType::READ, read));
        let found: Option<Vec<u64>> = sample.callchain().map(Iterator::collect);
        prop_assert_eq!(found, has(SampleType::CALLCHAIN).then_some(chain));
        prop_assert_eq!(sample.raw(), has(SampleType::RAW).then_some(raw));
        let found: Option<Vec<[u64; 3]>> = sample.branches().map(|list| {
            list.iter().map(|branch| [branch.from, branch.to, branch.flags.0]).collect()
        });
        prop_assert_eq!(found, has(SampleType::BRANCH_STACK).then_some(branches));
        let found: Option<Vec<u64>> = sample.regs_user().map(|regs| regs.values.collect());
        prop_assert_eq!(found, has(SampleType::REGS_USER).then_some(user));
        let found: Option<Vec<u64>> = sample.regs_intr().map(|regs| regs.values.collect());
        prop_assert_eq!(found, has(SampleType::REGS_INTR).then_some(intr));
        prop_assert_eq!(sample.stack_user(), has(SampleType::STACK_USER).then_some(&stack[..]));
        if has(SampleType::WEIGHT) {
            prop_assert_eq!(sample.weight(), Some(weight));
        } else if has(SampleType::WEIGHT_STRUCT) {
            let parts = (weight as u32, (weight >> 32) as u16, (weight >> 48) as u16);
            prop_assert_eq!(sample.weight_parts(), Some(parts));
        }
        prop_assert_eq!(sample.data_src(), asked(SampleType::DATA_SRC, data_src));
        prop_assert_eq!(sample.transaction(), asked(SampleType::TRANSACTION, transaction));
        prop_assert_eq!(sample.phys_addr(), asked(SampleType::PHYS_ADDR, phys_addr));
        prop_assert_eq!(sample.cgroup(), asked(SampleType::CGROUP, cgroup));
        prop_assert_eq!(sample.data_page_size(), asked(SampleType::DATA_PAGE_SIZE, data_page_size));
        prop_assert_eq!(sample.code_page_size(), asked(SampleType::CODE_PAGE_SIZE, code_page_size));
        prop_assert_eq!(sample.aux(), has(SampleType::AUX).then_some(&stack[..]));
        prop_assert!(sample.extra().is_empty());
        prop_assert_eq!(record.parse().expect("a sample").encode(ByteOrder::NATIVE), bytes);
    }

    /// covers unit: REC-01, REC-02, REC-03, REC-04, REC-05, REC-06, REC-07, REC-09, REC-10, REC-12,
    /// REC-13, REC-14, REC-15, REC-16, REC-17, REC-18, REC-19, REC-20, REC-21, REC-22, REC-23,
    /// REC-24, REC-25, REC-26, REC-27, RF-06, RF-11, SID-01, SID-03, HDR-14
    #[test]
    fn any_record_that_can_be_taken_apart_is_put_together_the_same(
        attr in any_attr(),
        kind in prop_oneof![1..=22_u32, 64..=86_u32, 32769..=32778_u32],
        misc in any::<u16>(),
        big in any::<bool>(),
        count in 0..4_u8,
        words in prop::collection::vec(any::<u64>(), 0..40),
    ) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let events = events(attr, order);
        // Small numbers where a count may be, else hardly any record fits.
        let mut words = words;
        for word in words.iter_mut().step_by(3) {
            *word = count.into();
        }
        let mut bytes = order.bytes_u32(kind).to_vec();
        bytes.extend(order.bytes_u16(misc));
        bytes.extend(order.bytes_u16(8 + 8 * words.len() as u16));
        bytes.extend(words.iter().flat_map(|&word| order.bytes_u64(word)));
        let record = Record::new(&bytes, 0, &events).expect("a header");
        if let Ok(parsed) = record.parse() {
            prop_assert_eq!(parsed.encode(order), bytes);
        }
    }

    /// covers unit: BR-14, BR-15, BR-16, BR-17, BR-18, BR-19, BR-20, BR-21
    #[test]
    fn branch_flags_mean_the_same_in_both_byte_orders(word in any::<u64>()) {
        use prof_perfdata::BranchFlags;
        for order in [ByteOrder::Little, ByteOrder::Big] {
            prop_assert_eq!(BranchFlags::from_file(word, order).to_file(order), word);
        }
        let big = BranchFlags::from_file(word, ByteOrder::Big);
        prop_assert_eq!(big.mispredicted(), word >> 63 == 1);
        prop_assert_eq!(big.predicted(), word >> 62 & 1 == 1);
        prop_assert_eq!(big.in_transaction(), word >> 61 & 1 == 1);
        prop_assert_eq!(big.abort(), word >> 60 & 1 == 1);
        prop_assert_eq!(big.cycles(), (word >> 44) as u16);
        prop_assert_eq!(u64::from(big.kind()), word >> 40 & 15);
        prop_assert_eq!(u64::from(big.speculation()), word >> 38 & 3);
        prop_assert_eq!(u64::from(big.new_kind()), word >> 34 & 15);
        prop_assert_eq!(u64::from(big.privilege()), word >> 31 & 7);
    }
}

/// A sample of an event that asks for one field, with these words behind the
/// header.
fn sample_of<T>(
    attr: EventAttr,
    words: &[u64],
    use_it: impl Fn(prof_perfdata::Sample<'_>) -> T,
) -> T {
    let events = events(attr, ByteOrder::Little);
    let mut bytes = 9_u32.to_le_bytes().to_vec();
    bytes.extend([2, 0]);
    bytes.extend((8 + 8 * words.len() as u16).to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let record = Record::new(&bytes, 0, &events).expect("a record");
    match record.try_decode().expect("a sample") {
        Body::Sample(sample) => use_it(sample),
        other => panic!("{other:?}"),
    }
}

#[test]
fn counter_values_are_found_in_all_32_formats() {
    // covers unit: RF-01, RF-02, RF-03, RF-04, RF-05, ST-07
    for format in 0..32_u64 {
        let has = |bit: u64| format & bit != 0;
        let mut words = Vec::new();
        let group = has(8);
        if group {
            words.push(2);
        } else {
            words.push(100);
        }
        words.extend(has(1).then_some(51));
        words.extend(has(2).then_some(52));
        for member in 0..if group { 2 } else { 1 } {
            words.extend(group.then_some(100 + member));
            words.extend(has(4).then_some(200 + member));
            words.extend(has(16).then_some(300 + member));
        }
        let attr = EventAttr {
            sample_type: SampleType::READ,
            read_format: ReadFormat(format),
            ..EventAttr::default()
        };
        sample_of(attr, &words, |sample| {
            let read = sample.read().expect("asked for");
            assert_eq!(read.time_enabled(), has(1).then_some(51));
            assert_eq!(read.time_running(), has(2).then_some(52));
            let values: Vec<_> = read.values().collect();
            assert_eq!(values.len(), if group { 2 } else { 1 });
            for (member, value) in (0..).zip(values) {
                assert_eq!(value.value, 100 + member, "format {format}");
                assert_eq!(value.id, has(4).then_some(200 + member));
                assert_eq!(value.lost, has(16).then_some(300 + member));
            }
        });
    }
}

#[test]
fn branch_counters_stand_behind_all_branches() {
    // covers unit: BR-12
    let attr = EventAttr {
        sample_type: SampleType::BRANCH_STACK,
        branch_sample_type: BranchSampleType::HW_INDEX | BranchSampleType::COUNTERS,
        ..EventAttr::default()
    };
    sample_of(attr, &[2, 77, 1, 2, 3, 4, 5, 6, 11, 12], |sample| {
        let branches = sample.branches().expect("asked for");
        assert_eq!(sample.branch_hw_index(), Some(77));
        assert_eq!(
            branches.iter().map(|branch| branch.to).collect::<Vec<_>>(),
            [2, 5]
        );
        assert_eq!(
            branches.counters().map(Iterator::collect),
            Some(vec![11, 12])
        );
    });
}

#[test]
fn registers_of_a_kernel_thread_are_absent_and_a_stack_of_0_has_no_length() {
    // covers unit: REG-01, ST-16, ST-31
    let attr = EventAttr {
        sample_type: SampleType::CPU | SampleType::REGS_USER | SampleType::STACK_USER,
        sample_regs_user: 0xff,
        sample_stack_user: 8192,
        ..EventAttr::default()
    };
    sample_of(attr, &[0xdead_beef_0000_0003, 0, 0], |sample| {
        assert_eq!(sample.cpu(), Some(3));
        let registers = sample.regs_user().expect("asked for");
        assert_eq!((registers.abi, registers.values.len()), (0, 0));
        assert_eq!(sample.stack_user(), Some([].as_slice()));
        assert_eq!(sample.stack_user_valid(), None);
    });
}

#[test]
fn bits_not_known_leave_their_bytes_behind_the_known_part() {
    // covers unit: ST-27, ST-28
    let attr = EventAttr {
        sample_type: SampleType(1 | 1 << 25 | 1 << 63),
        ..EventAttr::default()
    };
    sample_of(attr, &[0x1234, 0x5678], |sample| {
        assert_eq!(sample.ip(), Some(0x1234));
        assert_eq!(sample.extra(), 0x5678_u64.to_le_bytes());
    });
}

#[test]
fn markers_of_a_chain_are_modes_and_never_addresses() {
    // covers unit: CTX-01, CTX-02, CTX-03, CTX-04
    use CpuMode::{GuestKernel, GuestUser, Hypervisor, Kernel, Unknown, User};
    let attr = EventAttr {
        sample_type: SampleType::CALLCHAIN,
        ..EventAttr::default()
    };
    let markers = [-32_i64, -128, -512, -2176, -2560, -4095, -640].map(|marker| marker as u64);
    let mut words = vec![15];
    for (frame, marker) in (1..).zip(markers) {
        words.extend([marker, frame]);
    }
    // After USER_DEFERRED comes a cookie, then nothing of the chain.
    words.push(-4096_i64 as u64);
    sample_of(attr, &words, |sample| {
        let frames: Vec<_> = sample.frames().collect();
        let expected = [
            (Hypervisor, 1),
            (Kernel, 2),
            (User, 3),
            (GuestKernel, 4),
            (GuestUser, 5),
            (Unknown, 6),
            (User, -4096_i64 as u64),
        ];
        assert_eq!(frames, expected);
    });
}

#[test]
fn a_data_source_is_the_same_number_in_both_byte_orders() {
    // covers unit: MEM-15
    // The header turns its bit-fields round on big-endian machines, so that
    // the word is equal: a load that hit L1.
    let value: u64 = 1 << 1 | 1 << 6 | 1 << 8;
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let attr = EventAttr {
            sample_type: SampleType::DATA_SRC,
            ..EventAttr::default()
        };
        let mut bytes = order.bytes_u32(RecordType::SAMPLE.0).to_vec();
        bytes.extend(order.bytes_u16(0));
        bytes.extend(order.bytes_u16(16));
        bytes.extend(order.bytes_u64(value));
        let events = events(attr, order);
        let record = Record::new(&bytes, 0, &events).expect("a record");
        let Body::Sample(sample) = record.try_decode().expect("a sample") else {
            panic!("a sample");
        };
        assert_eq!(sample.data_src(), Some(value));
    }
}
