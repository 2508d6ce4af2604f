//! Reads the kernel's counters for the calling thread on both sides of each edge of a phase, and notes the
//! readings.
//!
//! All files are opened and all calls made once before, so that a reading neither faults nor allocates. It
//! compares nothing.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{Read as _, Write as _},
    os::{fd::FromRawFd as _, unix::fs::FileExt as _},
    path::{Path, PathBuf},
};

use crate::book::{Book, ENTRIES, Entry, Reading, Row};

/// Nanoseconds of a unit in /proc/stat (USER_HZ is 100 on every architecture that we build for).
const TICK_NS: u64 = 10_000_000;

/// Whether the clocks are read before or after the slower counters: always on the edge's side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clocks {
    First,
    Last,
}

/// The open files of one thread, and its readings so far.
pub(crate) struct Clerk {
    tid: u64,
    schedstat: File,
    stat: File,
    task_clock: Option<File>,
    book: Book,
}

/// Appends notes to the file in one write, since other processes append as well.
pub(crate) fn append(book: &Book, path: &Path) {
    let mut text = String::new();
    for row in &book.rows {
        write!(text, "row\t{}\t{}", row.number, row.tid).expect("a string takes it");
        for value in row.readings.iter().flatten() {
            write!(text, "\t{value}").expect("a string takes it");
        }
        text.push('\n');
    }
    for (name, value) in &book.facts {
        writeln!(text, "fact\t{name}\t{value}").expect("a string takes it");
    }
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).expect("the book can be written");
}

/// A clock in ns.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives across the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC in ns.
pub(crate) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The calling thread's number in the mounted /proc, which a new PID namespace does not change.
pub(crate) fn tid() -> u64 {
    let link = fs::read_link("/proc/thread-self").expect("/proc is mounted");
    let number = link.file_name().and_then(|name| name.to_str()?.parse().ok());
    number.expect("/proc/thread-self ends with a number")
}

impl Clerk {
    /// Opens the calling thread's counters.
    pub(crate) fn new() -> Self {
        let open = |path: PathBuf| File::open(path).expect("/proc is mounted");
        let clerk = Clerk {
            tid: tid(),
            schedstat: open("/proc/thread-self/schedstat".into()),
            stat: open("/proc/stat".into()),
            task_clock: task_clock(),
            book: Book { rows: Vec::with_capacity(64), facts: Vec::new() },
        };
        // The library's first call waits for the agent, which must not happen between two readings. The
        // kernel's calls page in their code.
        guestscope_marker::mark("ready");
        for clocks in [Clocks::First, Clocks::Last] {
            clerk.read(clocks);
        }
        clerk
    }

    /// Runs `body` as the request `name` with this number, and notes the readings around its edges.
    pub(crate) fn book<R>(&mut self, name: &str, number: u64, body: impl FnOnce() -> R) -> R {
        let before = self.read(Clocks::Last);
        let request = guestscope_marker::request(name, number);
        let begun = self.read(Clocks::First);
        let result = body();
        let ending = self.read(Clocks::Last);
        request.end();
        let after = self.read(Clocks::First);
        self.book.rows.push(Row { number, tid: self.tid, readings: [before, begun, ending, after] });
        result
    }

    /// Notes a number.
    pub(crate) fn fact(&mut self, name: &str, value: u64) {
        self.book.facts.push((name.to_owned(), value));
    }

    /// The rows so far.
    pub(crate) fn close(self) -> Book {
        self.book
    }

    fn read(&self, clocks: Clocks) -> Reading {
        let mut reading = [0; ENTRIES];
        if clocks == Clocks::First {
            self.read_clocks(&mut reading);
        }
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the structure lives across the call, and all zeros are a value of it.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        reading[Entry::Voluntary as usize] = usage.ru_nvcsw as u64;
        reading[Entry::Involuntary as usize] = usage.ru_nivcsw as u64;
        reading[Entry::MinorFaults as usize] = usage.ru_minflt as u64;
        reading[Entry::MajorFaults as usize] = usage.ru_majflt as u64;
        reading[Entry::RunDelay as usize] = field(&self.schedstat, 1);
        reading[Entry::Steal as usize] = field(&self.stat, 8) * TICK_NS;
        if clocks == Clocks::Last {
            self.read_clocks(&mut reading);
        }
        reading
    }

    fn read_clocks(&self, reading: &mut Reading) {
        let mut count = [0; 8];
        if let Some(mut clock) = self.task_clock.as_ref() {
            clock.read_exact(&mut count).expect("an event can be read");
        }
        reading[Entry::TaskClock as usize] = u64::from_ne_bytes(count);
        reading[Entry::Cpu as usize] = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        reading[Entry::Monotonic as usize] = now_ns();
    }
}

/// perf's task clock of the calling thread: it reads its clock at switches, independent of the run queue's
/// clock. None if it is refused.
fn task_clock() -> Option<File> {
    /// The first version of `perf_event_attr`: type, size, event, and no flags.
    #[repr(C)]
    struct Attributes(u32, u32, u64, [u64; 6]);
    const SOFTWARE: u32 = 1;
    const TASK_CLOCK: u64 = 1;
    const CLOSE_ON_EXEC: u64 = 8;
    let wanted = Attributes(SOFTWARE, size_of::<Attributes>() as u32, TASK_CLOCK, [0; 6]);
    // SAFETY: the attributes live across the call; what it returns is a new descriptor, or negative.
    unsafe {
        let (wanted, anywhere, alone) = (&raw const wanted, -1, -1);
        let fd = libc::syscall(libc::SYS_perf_event_open, wanted, 0, anywhere, alone, CLOSE_ON_EXEC);
        (fd >= 0).then(|| File::from_raw_fd(fd as i32))
    }
}

/// The number at an index, from 0, of the words in a file's first line.
fn field(file: &File, index: usize) -> u64 {
    let mut text = [0_u8; 256];
    let bytes = file.read_at(&mut text, 0).expect("the file of /proc can be read");
    let line = text[..bytes].split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let digits = fields.nth(index).expect("the line has the field");
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}
