//! Cases about edges: their names, order and number, and phases that move or wait.

use std::{
    fs, ptr,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use guestscope_marker::call;

use crate::{Case, Subject, burn, burn_until, clerk::now_ns};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("names", names),
    ("raw", raw),
    ("unmatched", unmatched),
    ("burst", burst),
    ("hop", hop),
    ("queue", queue),
    ("linger", linger),
];

const PAGE: usize = 4096;
/// Threads that fire as fast as they can; each makes REQUESTS requests.
const FIRING: u64 = 4;

unsafe extern "C" {
    /// The probe point, as in every copy of the library.
    fn guestscope_edge(head: u64, token: u64, a2: u64, a3: u64, a4: u64, a5: u64);
}

/// Begins and ends a request with a name of any bytes.
fn named(name: *const u8, bytes: usize, number: u64) {
    // SAFETY: the caller passes a pointer to that many readable bytes.
    let token = unsafe { call::request(name, bytes, number, 0) };
    call::end(token);
}

/// Pages full of `b` in the page cache, but not in this program's page tables, since nothing has touched
/// them.
fn absent_pages(subject: &Subject) -> *const u8 {
    let path = subject.book.with_extension("pages");
    fs::write(&path, [b'b'; 2 * PAGE]).expect("the folder can be written");
    let file = fs::File::open(&path).expect("it was just written");
    fs::remove_file(path).expect("it is ours");
    // SAFETY: a new private mapping of a file that only this test writes. Random access keeps the kernel from
    // mapping the second page when the first one is touched.
    unsafe {
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        let pages = libc::mmap(ptr::null_mut(), 2 * PAGE, libc::PROT_READ, libc::MAP_PRIVATE, descriptor, 0);
        assert_ne!(pages, libc::MAP_FAILED);
        libc::madvise(pages, 2 * PAGE, libc::MADV_RANDOM);
        pages.cast()
    }
}

fn names(subject: &Subject) {
    named(b"plain".as_ptr(), 5, 1);
    let long = "l".repeat(10_000);
    named(long.as_ptr(), long.len(), 2);
    named(b"\xff\xfe\x80".as_ptr(), 3, 3);
    named(ptr::null(), 0, 4);
    // Cut in the middle of a two-byte character.
    let split = format!("{}\u{e9}", "s".repeat(63));
    named(split.as_ptr(), split.len(), 5);
    // Not resident, across two pages: the library touches both.
    named(absent_pages(subject), 10, 6);
    named(absent_pages(subject).wrapping_add(PAGE - 5), 10, 7);
    let zeros = [0_u8; 8];
    named(zeros.as_ptr(), 8, 8);
}

/// Edges that the library would not fire: unreadable names, unknown operations and versions.
fn raw(subject: &Subject) {
    const REQUEST: u64 = 2;
    const END: u64 = 3;
    // The agent attaches when the library is first called.
    named(b"first".as_ptr(), 5, 99);
    let mut number = 0;
    let mut fire = |operation: u64, version: u64, token: u64, name: u64, bytes: u64| {
        number += 1;
        let head = operation | version << 8 | 0x7777 << 16 | number << 32;
        // SAFETY: the function takes any six integers and reads no memory.
        unsafe { guestscope_edge(head, token, name, bytes, token, 0) };
    };
    // SAFETY: a new private mapping that nothing may read.
    let forbidden = unsafe {
        libc::mmap(ptr::null_mut(), PAGE, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    let unreadable =
        [forbidden as u64, 0, 1, absent_pages(subject) as u64, 0xffff_8880_0000_1000, u64::MAX - 3];
    for (name, token) in unreadable.into_iter().zip(1..) {
        fire(REQUEST, 1, token, name, 10);
        fire(END, 1, token, 0, 0);
    }
    // A length beyond any memory: the readable part is read.
    fire(REQUEST, 1, 100, b"begins well and goes on for ever".as_ptr() as u64, u64::MAX);
    fire(END, 1, 100, 0, 0);
    fire(77, 1, 0, 0, 0);
    subject.fact("fired", number);
    // A version that the agent does not know: not numbered, since its numbers mean nothing. SAFETY: as above.
    unsafe { guestscope_edge(REQUEST | 9 << 8, 1, 0, 0, 0, 0) };
}

/// Ends without a start, a start without an end, an end that comes twice.
fn unmatched(subject: &Subject) {
    call::end(0);
    call::end(12345);
    call::leave(12345);
    let outer = guestscope_marker::phase("outer");
    let inner = guestscope_marker::phase("inner");
    let token = inner.token();
    inner.end();
    call::end(token);
    outer.end();
    std::mem::forget(guestscope_marker::request("never ended", 3));
    subject.clerk(|clerk| clerk.book("good", 1, || burn(1_000_000)));
}

/// As many edges as possible from several threads; then one last edge of each, once all others were read or
/// lost, so that the numbers show every gap.
fn burst(subject: &Subject) {
    let requests = subject.argument(0);
    let fired = Barrier::new(FIRING as usize);
    thread::scope(|scope| {
        for _ in 0..FIRING {
            scope.spawn(|| {
                for number in 1..=requests {
                    guestscope_marker::request("burst", number).end();
                }
                subject.fact("fired", requests * 2 + 1);
                fired.wait();
                subject.wait_until_read();
                guestscope_marker::mark("last");
            });
        }
    });
}

/// A phase leaves its thread and continues on another one after a while.
fn hop(subject: &Subject) {
    let work_ns = 5_000_000;
    // SAFETY: pointer and length are those of a slice.
    let token = unsafe { call::request(b"hopping".as_ptr(), 7, 1, 0) };
    burn(work_ns);
    let leaving_ns = now_ns();
    call::leave(token);
    let left_ns = now_ns();
    let (entering_ns, entered_ns) = thread::scope(|scope| {
        let second = scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            let entering_ns = now_ns();
            call::enter(token);
            let entered_ns = now_ns();
            thread::sleep(Duration::from_millis(10));
            burn(work_ns);
            call::end(token);
            (entering_ns, entered_ns)
        });
        second.join().expect("it does not panic")
    });
    subject.fact("suspended_low_ns", entering_ns - left_ns);
    subject.fact("suspended_high_ns", entered_ns - leaving_ns);
    subject.fact("worked_ns", 2 * work_ns);
}

/// A request that was scheduled 7 ms before it began.
fn queue(subject: &Subject) {
    let scheduled_ns = now_ns();
    thread::sleep(Duration::from_millis(7));
    guestscope_marker::request_scheduled("served", 1, scheduled_ns).end();
    subject.fact("scheduled_ns", scheduled_ns);
}

/// Two threads stay inside their phases until the program is killed.
fn linger(subject: &Subject) {
    let never = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _request = guestscope_marker::request("asleep", 1);
            subject.fact("inside", 1);
            while !never.load(Relaxed) {
                thread::sleep(Duration::from_mins(1));
            }
        });
        let _request = guestscope_marker::request("spinning", 2);
        let _inner = guestscope_marker::phase("inner");
        subject.fact("inside", 2);
        burn_until(&never);
    });
}
