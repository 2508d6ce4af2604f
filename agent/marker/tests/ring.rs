//! An agent that hands over a ring, and such as hand over something else: what is no ring is never written
//! to.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::{
    ffi::CString,
    io::Read as _,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, net::UnixListener},
    },
    path::Path,
};

use guestscope_marker::{
    edge::Operation,
    mark, phase, request,
    ring::{HEAD, HEADER_BYTES, LOST, MAGIC, RECORD_WORDS, SLOT_WORDS, TAKEN, UNKNOWN, checksum},
};
use rstest::rstest;

const SLOTS: usize = 4;
const BYTES: usize = HEADER_BYTES + SLOTS * SLOT_WORDS * 8;

/// Memory of so many bytes that begins with this word; sealed against shrinking, or not.
fn memory(bytes: usize, magic: u64, is_sealed: bool) -> OwnedFd {
    // SAFETY: the name is a C string, the seals are an integer, and what is written is eight bytes of a
    // local.
    unsafe {
        let memory = libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        assert!(memory >= 0 && libc::ftruncate(memory, bytes as i64) == 0);
        assert_eq!(libc::pwrite(memory, (&raw const magic).cast(), 8, 0), 8);
        if is_sealed {
            assert_eq!(libc::fcntl(memory, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK), 0);
        }
        OwnedFd::from_raw_fd(memory)
    }
}

/// Answers one program with a descriptor.
fn hand_over(listener: &UnixListener, memory: &OwnedFd) {
    let (mut stream, _) = listener.accept().expect("somebody comes");
    let mut greeting = [0; 9];
    stream.read_exact(&mut greeting).expect("it greets");
    assert_eq!(&greeting, b"marker 1\n");
    let mut byte = libc::iovec { iov_base: b"\n".as_ptr().cast_mut().cast(), iov_len: 1 };
    let mut control = [0_u64; 3];
    // SAFETY: all pointers are to locals that outlive the call, with their sizes.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut byte, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 24);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(memory.as_raw_fd());
        assert_eq!(libc::sendmsg(stream.as_raw_fd(), &raw const message, 0), 1);
    }
}

/// What a forked child exits with that meets an agent at `path` and then makes these calls.
fn in_child(path: &Path, calls: impl FnOnce()) -> libc::pid_t {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL in it");
    // SAFETY: the child is alone with its environment and its errno, and ends without returning.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::setenv(c"GUESTSCOPE_NOTIFY".as_ptr(), path.as_ptr(), 1);
            guestscope_marker::load::again();
            *libc::__errno_location() = 4711;
            calls();
            libc::_exit(i32::from(*libc::__errno_location() != 4711));
        }
        child
    }
}

/// Six edges.
fn calls() {
    let request = request("classify", 7);
    phase("a rather long name of a phase").end();
    mark("now");
    request.end();
    mark("later");
}

fn run(memory: &OwnedFd) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("notify.sock");
    let listener = UnixListener::bind(&path).expect("the directory is ours");
    let child = in_child(&path, calls);
    hand_over(&listener, memory);
    let mut status = 0;
    // SAFETY: the status lives across the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ends by itself, with errno as it was");
}

fn words(memory: &OwnedFd) -> Vec<u64> {
    let mut words = vec![0_u64; BYTES / 8];
    // SAFETY: the vector has room for as many bytes.
    let read = unsafe { libc::pread(memory.as_raw_fd(), words.as_mut_ptr().cast(), BYTES, 0) };
    words.truncate(read as usize / 8);
    words
}

#[test]
fn edges_are_written_as_long_as_there_is_room() {
    let memory = memory(BYTES, MAGIC, true);
    run(&memory);
    let words = words(&memory);
    assert_eq!((words[HEAD], words[LOST], words[TAKEN]), (4, 2, 1));
    let slots = words[HEADER_BYTES / 8..].chunks_exact(SLOT_WORDS);
    let records: Vec<[u64; RECORD_WORDS]> = slots
        .enumerate()
        .map(|(position, slot)| {
            let record = slot[2..2 + RECORD_WORDS].try_into().expect("a slot is longer");
            assert_eq!((slot[0], slot[1]), (1, checksum(position as u64, &record)));
            record
        })
        .collect();
    let operations: Vec<u64> = records.iter().map(|record| record[0] & 0xff).collect();
    let expected = [Operation::Request, Operation::Begin, Operation::End, Operation::Mark];
    assert_eq!(operations, expected.map(|operation| operation as u64));
    let numbers: Vec<u64> = records.iter().map(|record| record[0] >> 32).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let name = |record: &[u64; RECORD_WORDS]| {
        let bytes: Vec<u8> = record[16..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        String::from_utf8(bytes).expect("as it was given").trim_end_matches('\0').to_owned()
    };
    let names = records.iter().map(name).collect::<Vec<_>>();
    assert_eq!(names, ["classify", "a rather long name of a phase", "", "now"]);
    for pair in records.windows(2) {
        let (before, now) = (pair[0], pair[1]);
        assert!(now[6] >= before[6] && now[7] >= before[7], "both clocks only go on");
        assert!(now[8] == UNKNOWN || now[8] >= before[8], "and so do the waits");
        assert_eq!(
            (now[9], now[13], now[14]),
            (before[9], before[13], before[14]),
            "one thread, one program"
        );
    }
}

#[rstest]
#[case::that_may_be_cut_off(BYTES, MAGIC, false)]
#[case::of_another_layout(BYTES, MAGIC + 1, true)]
#[case::of_no_whole_slots(BYTES + 8, MAGIC, true)]
#[case::of_three_slots(HEADER_BYTES + 3 * SLOT_WORDS * 8, MAGIC, true)]
#[case::without_a_slot(HEADER_BYTES, MAGIC, true)]
#[case::without_a_header(8, MAGIC, true)]
fn memory_is_no_ring(#[case] bytes: usize, #[case] magic: u64, #[case] is_sealed: bool) {
    let memory = memory(bytes, magic, is_sealed);
    run(&memory);
    let words = words(&memory);
    assert!(words[1..].iter().all(|word| *word == 0), "{words:?}");
}

#[test]
fn a_descriptor_of_something_else_is_no_ring() {
    run(&std::fs::File::open("/dev/null").expect("it is everywhere").into());
    let (reader, _writer) = std::io::pipe().expect("descriptors are free");
    run(&reader.into());
}
