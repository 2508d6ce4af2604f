//! Cases to attach to: threads that stay in a known state, and threads that start and end without pause.
//!
//! They mark nothing, and end when the file `BOOK.stop` exists.

use std::{
    fs,
    io::Read as _,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use crate::{Case, Subject, burn_until, clerk::tid};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[("states", states), ("storm", storm)];

/// Threads of `storm` that start others.
const MAKERS: usize = 3;

fn wait_for_stop(subject: &Subject) {
    while !subject.book.with_extension("stop").exists() {
        thread::sleep(Duration::from_millis(5));
    }
}

/// One thread uses the CPU, one sleeps, one waits for a lock, one reads an empty pipe. The notes have their
/// numbers.
fn states(subject: &Subject) {
    let done = AtomicBool::new(false);
    let lock = Mutex::new(());
    let held = lock.lock().expect("nobody panics with it");
    let (mut reader, writer) = std::io::pipe().expect("descriptors are free");
    thread::scope(|scope| {
        scope.spawn(|| {
            subject.fact("spin", tid());
            burn_until(&done);
        });
        scope.spawn(|| {
            subject.fact("sleep", tid());
            let minutes = libc::timespec { tv_sec: 120, tv_nsec: 0 };
            // SAFETY: the time lives across the call; nothing is written.
            unsafe { libc::nanosleep(&raw const minutes, std::ptr::null_mut()) };
        });
        scope.spawn(|| {
            subject.fact("lock", tid());
            drop(lock.lock());
        });
        scope.spawn(move || {
            subject.fact("pipe", tid());
            let _ = reader.read(&mut [0]);
        });
        wait_for_stop(subject);
        done.store(true, Relaxed);
        drop(writer);
        drop(held);
        // SAFETY: ends the program; the one that sleeps would keep it for minutes.
        unsafe { libc::_exit(0) };
    });
}

/// Threads that start short-lived threads, one after the other and some at once; the notes have their number
/// at the end.
fn storm(subject: &Subject) {
    let done = AtomicBool::new(false);
    let made = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..MAKERS {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    thread::scope(|short| {
                        short.spawn(|| short.spawn(|| made.fetch_add(1, Relaxed)));
                        short.spawn(|| made.fetch_add(1, Relaxed));
                    });
                }
            });
        }
        subject.fact("begun", 1);
        wait_for_stop(subject);
        done.store(true, Relaxed);
    });
    let _ = fs::remove_file(subject.book.with_extension("stop"));
    subject.fact("made", made.load(Relaxed));
}
