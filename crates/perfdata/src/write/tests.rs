//! The bytes of the records that the recorder writes.

use super::{Trailer, append_short};
use crate::body::{
    Body, Cgroup, Comm, FileIdentity, Ksymbol, Mmap, Mmap2, Name, Namespace, Namespaces, Pairs,
    Task,
};
use prof_abi::{BuildId, CpuMode, Misc, SampleType};

fn encoded(body: &Body<'_>, misc: Misc) -> Vec<u8> {
    let mut out = Vec::new();
    append_short(body, misc, &Trailer::NONE, &mut out);
    out
}

#[test]
fn comm_is_pid_tid_and_a_name_of_at_most_fifteen_bytes() {
    let comm = Body::Comm(Comm {
        pid: 1,
        tid: 2,
        name: Name::of_thread(b"0123456789abcdefgh"),
    });
    let mut expected = vec![3, 0, 0, 0, 0, 0x20, 32, 0, 1, 0, 0, 0, 2, 0, 0, 0];
    expected.extend(b"0123456789abcde\0");
    assert_eq!(encoded(&comm, Misc::COMM_EXEC), expected);
}

#[test]
fn a_name_ends_at_its_first_nul_and_at_path_max() {
    let cgroup = |path| {
        let path = Name::new(path);
        encoded(&Body::Cgroup(Cgroup { id: 0, path }), Misc(0))
    };
    assert_eq!(cgroup(b"ab\0cd")[16..], *b"ab\0\0\0\0\0\0");
    assert_eq!(cgroup(&[b'x'; 9999]).len(), 16 + 4096);
}

#[test]
fn fork_and_exit_are_four_ids_and_a_time() {
    let task = Task {
        pid: 1,
        parent_pid: 2,
        tid: 3,
        parent_tid: 4,
        time: 5,
    };
    let mut expected = vec![7, 0, 0, 0, 0, 0x20, 32, 0];
    expected.extend([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
    expected.extend([5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encoded(&Body::Fork(task), Misc::FORK_EXEC), expected);
    expected[0] = 4;
    expected[5] = 0;
    assert_eq!(encoded(&Body::Exit(task), Misc(0)), expected);
}

#[test]
fn mmap_has_a_path_and_then_the_trailer() {
    let mapping = Body::Mmap(Mmap {
        pid: 1,
        tid: 2,
        start: 0x1000,
        len: 0x2000,
        file_offset: 0x3000,
        path: Name::new(b"/bin/sh"),
    });
    let trailer = Trailer {
        sample_type: SampleType::TIME,
        time: 6,
        ..Trailer::NONE
    };
    let mut expected = vec![1, 0, 0, 0, 2, 0, 56, 0, 1, 0, 0, 0, 2, 0, 0, 0];
    expected.extend([0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0]);
    expected.extend([0, 0x30, 0, 0, 0, 0, 0, 0]);
    expected.extend(b"/bin/sh\0");
    expected.extend([6, 0, 0, 0, 0, 0, 0, 0]);
    let mut out = Vec::new();
    append_short(&mapping, Misc::of_mode(CpuMode::User), &trailer, &mut out);
    assert_eq!(out, expected);
}

#[test]
fn mmap2_holds_an_inode_or_a_build_id_in_the_same_place() {
    let inode = FileIdentity::Inode {
        major: 8,
        minor: 1,
        inode: 77,
        generation: 3,
    };
    let record = |file| {
        let body = Body::Mmap2(Mmap2 {
            pid: 1,
            tid: 2,
            start: 0x1000,
            len: 0x2000,
            file_offset: 0x3000,
            file,
            prot: 5,
            flags: 2,
            path: Name::new(b"/bin/sh"),
        });
        encoded(&body, Misc::of_mode(CpuMode::User))
    };
    let by_inode = record(inode);
    assert_eq!(by_inode[4..8], [2, 0, 80, 0]);
    assert_eq!(by_inode[40..48], [8, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(by_inode[48..56], [77, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(by_inode[56..64], [3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(by_inode[64..72], [5, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(by_inode[72..], *b"/bin/sh\0");

    // A 32-byte note is cut to the 20 bytes that fit.
    let id = BuildId::new(&[9; 32]).expect("32 bytes");
    let by_id = record(FileIdentity::of_build_id(&id));
    assert_eq!(by_id[4..8], [2, 0x40, 80, 0]);
    assert_eq!(by_id[40..44], [20, 0, 0, 0]);
    assert_eq!(by_id[44..64], [9; 20]);
    assert_eq!(by_id[64..], by_inode[64..]);
}

#[test]
fn namespaces_are_pairs_behind_their_count() {
    let links = [1, 2, 3, 4, 5, 6, 7].map(|inode| Namespace { device: 4, inode });
    let bytes = encoded(
        &Body::Namespaces(Namespaces {
            pid: 1,
            tid: 2,
            namespaces: Pairs::new(&links),
        }),
        Misc(0),
    );
    assert_eq!(bytes[..8], [16, 0, 0, 0, 0, 0, 136, 0]);
    assert_eq!(bytes[16..24], [7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        bytes[120..],
        [4, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]
    );
}

#[test]
fn cgroup_is_id_and_path_and_ksymbol_an_address_range() {
    let path = Name::new(b"/a");
    let bytes = encoded(&Body::Cgroup(Cgroup { id: 300, path }), Misc(0));
    assert_eq!(bytes[..8], [19, 0, 0, 0, 0, 0, 24, 0]);
    assert_eq!(bytes[8..], *b"\x2c\x01\0\0\0\0\0\0/a\0\0\0\0\0\0");

    let symbol = Body::Ksymbol(Ksymbol {
        start: 0x10,
        len: 32,
        kind: 1,
        flags: 1,
        name: Name::new(b"bpf_prog"),
    });
    let bytes = encoded(&symbol, Misc(0));
    assert_eq!(bytes[..8], [17, 0, 0, 0, 0, 0, 40, 0]);
    assert_eq!(bytes[16..24], [32, 0, 0, 0, 1, 0, 1, 0]);
    assert_eq!(bytes[24..], *b"bpf_prog\0\0\0\0\0\0\0\0");
}
