//! Cases that compete for CPUs: alone, pinned together, yielding, moving, interrupted by signals, and first
//! touches of memory, which use CPU time, too.

use std::{
    ptr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use crate::{Case, Subject, burn, clerk::now_ns};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("spin", spin),
    ("contend", contend),
    ("yield", yield_),
    ("migrate", migrate),
    ("interrupted", interrupted),
    ("touch", touch),
];

/// CPU time that a case uses, so that 1 % of it is more than a tick.
const CPU_NS: u64 = 1_100_000_000;
/// Number of moves to the other CPU.
const MOVES: u64 = 500;
/// Pages that are touched for the first time.
const PAGES: usize = 4096;
/// Number of yields of a thread.
const YIELDS: usize = 5000;
/// Number of sleeps that a signal ends.
const SIGNALS: u64 = 200;

fn spin(subject: &Subject) {
    subject.clerk(|clerk| clerk.book("work", 1, || burn(CPU_NS)));
}

/// The CPUs that this program may use.
pub(crate) fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).expect("the calling thread exists");
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}

/// Pins the calling thread, and those that it starts later, to this CPU.
pub(crate) fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).expect("the CPU is allowed");
}

/// Two threads compete for one CPU.
fn contend(subject: &Subject) {
    pin(cpus()[0]);
    subject.clerks(2, |thread, clerk| {
        // The user of a CPU is known by the name of its process, not by this one.
        nix::sys::prctl::set_name(c"contender").expect("a thread may name itself");
        clerk.book("work", thread as u64 + 1, || burn(CPU_NS / 2));
    });
}

/// Two threads on one CPU yield to each other.
fn yield_(subject: &Subject) {
    pin(cpus()[0]);
    subject.clerks(2, |thread, clerk| {
        clerk.book("work", thread as u64 + 1, || (0..YIELDS).for_each(|_| thread::yield_now()));
    });
}

/// One thread moves between two CPUs. Notes that it did not move if there is only one.
fn migrate(subject: &Subject) {
    let cpus = cpus();
    let [first, second] = [cpus[0], cpus[cpus.len() - 1]];
    pin(first);
    subject.clerk(|clerk| {
        clerk.book("work", 1, || (0..MOVES).for_each(|turn| pin(if turn % 2 == 0 { second } else { first })));
        clerk.fact("moves", if first == second { 0 } else { MOVES });
    });
}

/// Sleeps that a signal ends: the kernel may find the signal while the thread is about to sleep.
fn interrupted(subject: &Subject) {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = nix::sys::signal::SigAction::new(
        nix::sys::signal::SigHandler::Handler(nothing),
        nix::sys::signal::SaFlags::empty(),
        nix::sys::signal::SigSet::empty(),
    );
    // SAFETY: the handler does nothing, which is safe at any instant.
    unsafe { nix::sys::signal::sigaction(nix::sys::signal::Signal::SIGUSR1, &action) }
        .expect("a handler can be set");
    // SAFETY: pthread_self takes no argument.
    let sleeper = unsafe { libc::pthread_self() } as usize;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                // SAFETY: the thread outlives this one, which it waits for.
                unsafe { libc::pthread_kill(sleeper as libc::pthread_t, libc::SIGUSR1) };
                thread::sleep(Duration::from_micros(300));
            }
        });
        subject.clerk(|clerk| {
            clerk.book("work", 1, || {
                let mut signals = 0;
                let time = libc::timespec { tv_sec: 1, tv_nsec: 0 };
                while signals < SIGNALS {
                    // SAFETY: the time lives across the call; the rest is not asked for.
                    signals += u64::from(unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) } != 0);
                }
            });
            clerk.fact("signals", SIGNALS);
        });
        done.store(true, Relaxed);
    });
}

/// Writes to pages that were never touched, one by one.
fn touch(subject: &Subject) {
    let bytes = PAGES * 4096;
    // SAFETY: a new private mapping at an address that the kernel chooses; huge pages would make one fault of
    // many.
    let memory = unsafe {
        let memory = libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE);
        memory.cast::<u8>()
    };
    subject.clerk(|clerk| {
        let start_ns = now_ns();
        clerk.book("work", 1, || {
            for page in 0..PAGES {
                // SAFETY: the address lies inside the mapping.
                unsafe { memory.add(page * 4096).write_volatile(1) };
            }
        });
        clerk.fact("took_ns", now_ns() - start_ns);
        clerk.fact("pages", PAGES as u64);
    });
}
