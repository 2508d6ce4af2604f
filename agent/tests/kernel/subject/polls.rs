//! Cases that wait with epoll for one descriptor and then read it: a socket, or something else. In one case
//! the kernel reads.
//!
//! Data comes from another thread, or after a time.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use io_uring::{IoUring, opcode, squeue, types};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::{
    Case, Subject, spin,
    switches::{cpus, pin},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("epoll_tcp", tcp),
    ("epoll_read", tcp_as_file),
    ("epoll_pipe", pipe),
    ("epoll_eventfd", eventfd),
    ("epoll_timerfd", timerfd),
    ("epoll_interrupting", interrupting),
    ("epoll_both", both),
    ("uring", uring),
    ("uring_worker", uring_worker),
];

/// How often data comes, and the time between.
const TIMES: u64 = 40;
const APART: Duration = Duration::from_millis(5);

/// Waits until `from` is readable, and reads it, `TIMES` times.
fn reads(subject: &Subject, from: &impl AsFd, mut read: impl FnMut()) {
    let set = Set::of(from);
    subject.clerk(|clerk| {
        clerk.book("wait", 1, || {
            for _ in 0..TIMES {
                set.wait();
                read();
            }
        });
        clerk.fact("times", TIMES);
    });
}

/// An epoll set of one descriptor.
struct Set(OwnedFd);

impl Set {
    fn of(from: &impl AsFd) -> Self {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the descriptor is made here and not used elsewhere; the event lives across the call.
        unsafe {
            let set = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            assert!(set >= 0, "descriptors are left");
            let set = OwnedFd::from_raw_fd(set);
            let (number, from) = (set.as_raw_fd(), from.as_fd().as_raw_fd());
            assert_eq!(libc::epoll_ctl(number, libc::EPOLL_CTL_ADD, from, &raw mut event), 0);
            Set(set)
        }
    }

    fn wait(&self) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // A signal from another process would cut it short.
        // SAFETY: an open descriptor, and room for one event.
        while unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, -1) } != 1 {}
    }
}

/// Runs `feed` on another thread, at intervals, often enough for all reads.
fn feeds(mut feed: impl FnMut() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for _ in 0..TIMES {
            thread::sleep(APART);
            feed();
        }
    })
}

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback device is up");
    let near = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("somebody listens");
    let (far, _) = listener.accept().expect("a connection has come");
    far.set_nodelay(true).expect("an option of every connection");
    (near, far)
}

fn tcp(subject: &Subject) {
    let (mut near, mut far) = connected();
    let feeding = feeds(move || far.write_all(b"x").expect("the other end is open"));
    let from = near.try_clone().expect("descriptors are left");
    reads(subject, &from, || near.read_exact(&mut [0]).expect("it is there"));
    feeding.join().expect("it does not panic");
}

/// By read(2): only the kernel can tell that it does not read a file.
fn tcp_as_file(subject: &Subject) {
    let (near, mut far) = connected();
    let feeding = feeds(move || far.write_all(b"x").expect("the other end is open"));
    reads(subject, &near, || {
        // SAFETY: an open descriptor, and one byte that lives across the call.
        assert_eq!(unsafe { libc::read(near.as_raw_fd(), [0_u8].as_mut_ptr().cast(), 1) }, 1);
    });
    feeding.join().expect("it does not panic");
}

fn pipe(subject: &Subject) {
    let (near, mut far) = std::io::pipe().expect("descriptors are left");
    let feeding = feeds(move || far.write_all(b"x").expect("the other end is open"));
    reads(subject, &near, || (&near).read_exact(&mut [0]).expect("it is there"));
    feeding.join().expect("it does not panic");
}

fn eventfd(subject: &Subject) {
    // As a semaphore: otherwise one read takes all that was written since the last.
    // SAFETY: made here, and not used elsewhere.
    let near = unsafe {
        let near = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE);
        assert!(near >= 0, "descriptors are left");
        File::from_raw_fd(near)
    };
    let mut far = near.try_clone().expect("descriptors are left");
    let feeding = feeds(move || far.write_all(&1_u64.to_ne_bytes()).expect("it counts on"));
    reads(subject, &near, || (&near).read_exact(&mut [0; 8]).expect("it is there"));
    feeding.join().expect("it does not panic");
}

fn timer(every: Duration) -> TimerFd {
    let timer =
        TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC).expect("descriptors are left");
    let every = Expiration::Interval(every.into());
    timer.set(every, TimerSetTimeFlags::empty()).expect("a time that is not far");
    timer
}

fn timerfd(subject: &Subject) {
    let timer = timer(APART);
    reads(subject, &timer, || timer.wait().expect("it has run out"));
}

/// Waits for a timer, on the CPU of a thread that sleeps and computes: most timer interrupts then interrupt
/// that thread outside system calls.
fn interrupting(subject: &Subject) {
    pin(cpus()[0]);
    let (timer, over) = (timer(APART), Arc::new(AtomicBool::new(false)));
    let is_over = Arc::clone(&over);
    // It inherits the CPU.
    let interrupted = thread::spawn(move || {
        while !is_over.load(Relaxed) {
            thread::sleep(APART / 4);
            spin(APART * 2);
        }
    });
    reads(subject, &timer, || timer.wait().expect("it has run out"));
    over.store(true, Relaxed);
    interrupted.join().expect("it does not panic");
}

/// Waits for a timer, then for a socket, and reads each: a third of the waiting is for the socket.
fn both(subject: &Subject) {
    let (mut near, mut far) = connected();
    let (timer, set) = (timer(3 * APART), Set::of(&near));
    let (asks, asked) = std::sync::mpsc::channel();
    let answering = thread::spawn(move || {
        for () in asked {
            thread::sleep(APART);
            far.write_all(b"x").expect("the other end is open");
        }
    });
    reads(subject, &timer, || {
        timer.wait().expect("it has run out");
        asks.send(()).expect("it is listened to");
        set.wait();
        near.read_exact(&mut [0]).expect("it is there");
    });
    drop(asks);
    answering.join().expect("it does not panic");
}

/// Submits a read through io_uring, and waits until it is done.
fn uring(subject: &Subject) {
    let Ok(mut ring) = IoUring::new(2) else { return subject.fact("refused", 1) };
    let (near, mut far) = connected();
    let feeding = feeds(move || far.write_all(b"x").expect("the other end is open"));
    subject.clerk(|clerk| {
        clerk.book("wait", 1, || {
            for _ in 0..TIMES {
                let mut byte = [0_u8];
                let read = opcode::Read::new(types::Fd(near.as_raw_fd()), byte.as_mut_ptr(), 1).build();
                // SAFETY: the socket and the byte live until the read is done, which is waited for.
                unsafe { ring.submission().push(&read) }.expect("the ring is empty");
                // A signal from another process would cut it short.
                while ring.completion().is_empty() {
                    let _ = ring.submit_and_wait(1);
                }
                assert_eq!(ring.completion().next().map(|done| done.result()), Some(1));
            }
        });
        clerk.fact("times", TIMES);
    });
    feeding.join().expect("it does not panic");
}

/// Submits a read through io_uring in a way for which the kernel starts a thread in this process; notes the
/// number of threads then.
fn uring_worker(subject: &Subject) {
    let Ok(mut ring) = IoUring::new(2) else { return subject.fact("refused", 1) };
    let (near, mut far) = connected();
    far.write_all(b"x").expect("the other end is open");
    let mut byte = [0_u8];
    let read = opcode::Read::new(types::Fd(near.as_raw_fd()), byte.as_mut_ptr(), 1).build();
    // SAFETY: as in `uring`.
    unsafe { ring.submission().push(&read.flags(squeue::Flags::ASYNC)) }.expect("the ring is empty");
    while ring.completion().is_empty() {
        let _ = ring.submit_and_wait(1);
    }
    assert_eq!(ring.completion().next().map(|done| done.result()), Some(1));
    let threads = std::fs::read_dir("/proc/self/task").expect("it is ours").count();
    subject.fact("threads", threads as u64);
}
