//! The program under observation: `kernel_subject CASE BOOK [ARGUMENTS]` does one known thing in marked
//! phases and notes in the file BOOK what the kernel's own counters say about it.
//!
//! The test that runs a case has the case's name. The program decides nothing: tests compare its notes with
//! the agent's numbers.

mod book;
mod busy;
mod clerk;
mod crowds;
mod devices;
mod disk;
mod driver;
mod driver_left;
mod edges;
mod escape;
mod held;
mod helpers;
mod lives;
mod loops;
mod narrow;
mod polled;
mod polls;
mod quota;
mod rings;
mod softirq;
mod states;
mod stops;
mod stub;
mod switches;
mod tcp;
mod tempest;
mod waits;

use std::{
    fs,
    path::PathBuf,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use book::Book;
use clerk::Clerk;

/// A case: its name, and what it does.
pub(crate) type Case = (&'static str, fn(&Subject));

/// Parameters of a case.
pub(crate) struct Subject {
    book: PathBuf,
    arguments: Vec<String>,
}

impl Subject {
    /// Appends to the notes.
    pub(crate) fn write(&self, book: &Book) {
        clerk::append(book, &self.book);
    }

    /// Notes a single number at once.
    pub(crate) fn fact(&self, name: &str, value: u64) {
        self.write(&Book { rows: Vec::new(), facts: vec![(name.to_owned(), value)] });
    }

    /// Runs `body` with a clerk of this thread and notes its rows.
    pub(crate) fn clerk<R>(&self, body: impl FnOnce(&mut Clerk) -> R) -> R {
        let mut clerk = Clerk::new();
        let result = body(&mut clerk);
        self.write(&clerk.close());
        result
    }

    /// Runs `body` on this many threads, numbered from 0, each with a clerk. All exist before the first
    /// continues.
    pub(crate) fn clerks(&self, threads: usize, body: impl Fn(usize, &mut Clerk) + Sync) {
        let ready = Barrier::new(threads);
        thread::scope(|scope| {
            for thread in 0..threads {
                let (ready, body) = (&ready, &body);
                scope.spawn(move || {
                    self.clerk(|clerk| {
                        ready.wait();
                        body(thread, clerk);
                    });
                });
            }
        });
    }

    /// Waits until the test has read every record from before now, or has ended.
    pub(crate) fn wait_until_read(&self) {
        let lines = self.lines();
        let patience = Instant::now();
        let read = || fs::read_to_string(self.book.with_extension("read")).ok()?.parse::<usize>().ok();
        while read().unwrap_or(0) < lines && patience.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Number of lines in the notes, of all writers.
    pub(crate) fn lines(&self) -> usize {
        fs::read_to_string(&self.book).map_or(0, |text| text.lines().count())
    }

    /// A number among the arguments.
    pub(crate) fn argument(&self, index: usize) -> u64 {
        let argument = self.arguments.get(index).and_then(|argument| argument.parse().ok());
        argument.expect("the test gives the number")
    }
}

/// Uses this much CPU time of the calling thread.
pub(crate) fn burn(ns: u64) {
    let start_ns = clerk::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    while clerk::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - start_ns < ns {
        work();
    }
}

/// Uses the CPU until the flag is set.
pub(crate) fn burn_until(done: &AtomicBool) {
    while !done.load(Relaxed) {
        work();
    }
}

/// Uses the CPU for this much elapsed time, without a system call.
pub(crate) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        work();
    }
}

/// A few microseconds of work that no compiler removes.
fn work() {
    for turn in 0..1000_u64 {
        std::hint::black_box(turn);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (case, book) = (arguments.next(), arguments.next());
    let case = case.expect("usage: kernel_subject CASE BOOK [ARGUMENTS]");
    let book = book.expect("usage: kernel_subject CASE BOOK [ARGUMENTS]").into();
    let tables = [
        waits::CASES,
        narrow::CASES,
        polled::CASES,
        polls::CASES,
        switches::CASES,
        disk::CASES,
        loops::CASES,
        devices::CASES,
        driver::CASES,
        driver_left::CASES,
        held::CASES,
        rings::CASES,
        tcp::CASES,
        states::CASES,
        stops::CASES,
        tempest::CASES,
        lives::CASES,
        quota::CASES,
        softirq::CASES,
        crowds::CASES,
        busy::CASES,
        helpers::CASES,
        edges::CASES,
    ];
    let run = tables.into_iter().flatten().find(|known| known.0 == case);
    let (_, run) = run.expect("a case of this name");
    run(&Subject { book, arguments: arguments.collect() });
}
