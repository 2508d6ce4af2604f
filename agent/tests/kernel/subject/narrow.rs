//! Cases that wait in 32-bit system calls, made by `int 0x80`, which a 64-bit program may use if the kernel
//! runs 32-bit programs. Their numbers come from another table: in the 64-bit table they mean other calls.

use std::{
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    thread,
};

use crate::{
    Case, Subject,
    waits::{TIMEOUT, cut_short, timeouts},
};

/// Cases by name. Above each: the 32-bit number, and the 64-bit call with that number.
pub(crate) const CASES: &[Case] = &[
    // 162; in 64 bits sync.
    ("sleep_32", |subject| with(subject, sleep)),
    // 407 and 422; both unused in 64 bits.
    ("long_sleep_32", |subject| with(subject, long_sleep)),
    ("long_futex_32", |subject| with(subject, |subject, calls| futex(subject, calls, 422))),
    // 240; in 64 bits mq_open.
    ("futex_32", |subject| with(subject, |subject, calls| futex(subject, calls, 240))),
    // 168; in 64 bits swapoff.
    ("poll_32", |subject| with(subject, poll)),
    // 142; in 64 bits sched_setparam.
    ("select_32", |subject| with(subject, select)),
    // 3; in 64 bits close.
    ("read_32", |subject| with(subject, read)),
    // 3 as well, on a socket.
    ("socket_32", |subject| with(subject, read_socket)),
    // 102; in 64 bits getuid.
    ("socketcall_32", |subject| with(subject, socketcall)),
    // A 64-bit call after a 32-bit one: 35, ftime, or 230, none, among 32-bit calls.
    ("sleep_after_32", |subject| with(subject, sleep_after)),
];

/// Memory at an address below 4 GiB, for arguments of calls.
struct Calls(*mut u32);

/// Words of it.
const WORDS: usize = 1024;

impl Calls {
    /// None if the kernel has no such calls: it kills a program that makes one.
    fn new() -> Option<Self> {
        const GETPID: u32 = 20;
        // SAFETY: the child makes one call and ends, or dies of it.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                int_80(GETPID, [0; 5]);
                libc::_exit(0);
            }
            let mut status = 1;
            libc::waitpid(child, &raw mut status, 0);
            status
        };
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, where the kernel wants it.
        let words = unsafe { libc::mmap(std::ptr::null_mut(), WORDS * 4, protection, flags | LOW, -1, 0) };
        (status == 0 && words != libc::MAP_FAILED).then(|| Self(words.cast()))
    }

    /// Writes these words at an index; returns their address.
    fn put(&self, place: usize, words: &[u32]) -> u32 {
        assert!(place + words.len() <= WORDS);
        // SAFETY: within the mapping, as asserted.
        unsafe {
            let to = self.0.add(place);
            to.copy_from_nonoverlapping(words.as_ptr(), words.len());
            to as u32
        }
    }
}

/// `MAP_32BIT`.
#[cfg(target_arch = "x86_64")]
const LOW: i32 = libc::MAP_32BIT;
#[cfg(not(target_arch = "x86_64"))]
const LOW: i32 = 0;

/// One 32-bit call. The compiler reserves the first argument's register.
///
/// # Safety
/// As for the call itself.
#[cfg(target_arch = "x86_64")]
unsafe fn int_80(number: u32, [first, rest @ ..]: [u32; 5]) -> i32 {
    let result: u64;
    // SAFETY: the kernel keeps all registers except the result; it may clear r8 and above.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {first}", "int 0x80", "xchg rbx, {first}",
            first = inout(reg) u64::from(first) => _,
            inlateout("rax") u64::from(number) => result,
            in("rcx") u64::from(rest[0]), in("rdx") u64::from(rest[1]), in("rsi") u64::from(rest[2]), in("rdi") u64::from(rest[3]),
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result as u32 as i32
}

/// A 64-bit program of another processor has no such calls.
///
/// # Safety
/// Always.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn int_80(_: u32, _: [u32; 5]) -> i32 {
    std::process::abort()
}

/// Runs the case if the kernel has 32-bit calls.
fn with(subject: &Subject, case: impl Fn(&Subject, &Calls)) {
    match Calls::new() {
        Some(calls) => case(subject, &calls),
        None => subject.fact("refused", 1),
    }
}

fn sleep(subject: &Subject, calls: &Calls) {
    let time = calls.put(0, &[0, TIMEOUT.subsec_nanos()]);
    timeouts(subject, || {
        // SAFETY: the time lives across the call.
        assert_eq!(unsafe { int_80(162, [time, 0, 0, 0, 0]) }, 0);
    });
}

/// `clock_nanosleep_time64`, by CLOCK_MONOTONIC.
fn long_sleep(subject: &Subject, calls: &Calls) {
    let time = calls.put(0, &[0, 0, TIMEOUT.subsec_nanos(), 0]);
    timeouts(subject, || {
        // SAFETY: the time lives across the call.
        assert_eq!(unsafe { int_80(407, [1, 0, time, 0, 0]) }, 0);
    });
}

/// `FUTEX_WAIT`, by the call of this number.
fn futex(subject: &Subject, calls: &Calls, number: u32) {
    let word = calls.put(0, &[7]);
    let time = if number == 240 {
        calls.put(8, &[0, TIMEOUT.subsec_nanos()])
    } else {
        calls.put(8, &[0, 0, TIMEOUT.subsec_nanos(), 0])
    };
    timeouts(subject, || {
        // SAFETY: the word and the time live across the call.
        assert_eq!(unsafe { int_80(number, [word, 0, 7, time, 0]) }, -libc::ETIMEDOUT);
    });
}

fn poll(subject: &Subject, _: &Calls) {
    timeouts(subject, || {
        // SAFETY: no descriptors are passed.
        assert_eq!(unsafe { int_80(168, [0, 0, TIMEOUT.as_millis() as u32, 0, 0]) }, 0);
    });
}

fn select(subject: &Subject, calls: &Calls) {
    timeouts(subject, || {
        // The kernel writes the remaining time.
        let time = calls.put(0, &[0, TIMEOUT.subsec_micros()]);
        // SAFETY: no descriptors are passed; the time lives across the call.
        assert_eq!(unsafe { int_80(142, [0, 0, 0, 0, time]) }, 0);
    });
}

/// Reads from a pipe into which nothing is written.
fn read(subject: &Subject, calls: &Calls) {
    let (from, _to) = std::io::pipe().expect("descriptors are left");
    let (fd, bytes) = (from.as_raw_fd() as u32, calls.put(0, &[0]));
    cut_short(subject, || {
        // SAFETY: an open descriptor, and a word that lives across the call.
        assert_eq!(unsafe { int_80(3, [fd, bytes, 1, 0, 0]) }, -libc::EINTR);
    });
}

/// A socket from which a read times out, and its other end.
fn quiet() -> [UnixStream; 2] {
    let (near, far) = UnixStream::pair().expect("descriptors are left");
    near.set_read_timeout(Some(TIMEOUT)).expect("an option of every socket");
    [near, far]
}

fn read_socket(subject: &Subject, calls: &Calls) {
    let [near, _far] = quiet();
    let (fd, bytes) = (near.as_raw_fd() as u32, calls.put(0, &[0]));
    timeouts(subject, || {
        // SAFETY: an open descriptor, and a word that lives across the call.
        assert_eq!(unsafe { int_80(3, [fd, bytes, 1, 0, 0]) }, -libc::EAGAIN);
    });
}

/// `recv`, one of the many calls in socketcall.
fn socketcall(subject: &Subject, calls: &Calls) {
    const SYS_RECV: u32 = 10;
    let [near, _far] = quiet();
    let bytes = calls.put(0, &[0]);
    let arguments = calls.put(8, &[near.as_raw_fd() as u32, bytes, 1, 0]);
    timeouts(subject, || {
        // SAFETY: an open descriptor, and words that live across the call.
        assert_eq!(unsafe { int_80(102, [SYS_RECV, arguments, 0, 0, 0]) }, -libc::EAGAIN);
    });
}

fn sleep_after(subject: &Subject, _: &Calls) {
    timeouts(subject, || {
        // SAFETY: getpid takes nothing.
        assert!(unsafe { int_80(20, [0; 5]) } > 0);
        thread::sleep(TIMEOUT);
    });
}
