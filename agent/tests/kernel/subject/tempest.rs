//! Case `tempest`: threads with short phases that contain everything that a scheduler does, at random.
//!
//! Each worker runs, yields, sleeps, waits for a lock, a pipe or a descriptor, forks and touches memory
//! inside its phases, while a pest sends it signals and moves it between CPUs and control groups.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicI32, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    sys::{signal, wait::waitpid},
    unistd::{ForkResult, Pid, fork, gettid},
};

use crate::{Case, Subject, quota::Controller, spin};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[("tempest", tempest)];

/// Two for each CPU of a small machine, so that they also wait for each other.
const WORKERS: usize = 4;
/// Most actions of a worker inside one phase.
const ACTS: u64 = 12;
/// Time between two actions of the pest.
const PAUSE: Duration = Duration::from_micros(300);

/// A sequence of numbers that looks random (Marsaglia's xorshift64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn micros(&mut self, most: u64) -> Duration {
        Duration::from_micros(1 + self.roll(most))
    }
}

/// State that all threads share.
struct Shared {
    lock: Mutex<u64>,
    bell: Condvar,
    /// The workers' thread numbers; 0 for none.
    workers: [AtomicI32; WORKERS],
    done: AtomicBool,
}

/// Runs the case; arguments: requests of each worker, and a seed.
fn tempest(subject: &Subject) {
    let (requests, seed) = (subject.argument(0), subject.argument(1));
    ignore_signal();
    guestscope_marker::mark("ready");
    let shared = Shared {
        lock: Mutex::new(0),
        bell: Condvar::new(),
        workers: Default::default(),
        done: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let pest = scope.spawn(|| pester(&shared, Dice(seed)));
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (shared, dice) = (&shared, Dice(seed ^ (worker as u64 + 1) << 32));
                scope.spawn(move || work(shared, worker, requests, dice))
            })
            .collect();
        for worker in workers {
            worker.join().expect("no worker panics");
        }
        shared.done.store(true, Relaxed);
        pest.join().expect("the pest does not panic");
    });
    subject.fact("requests", requests * WORKERS as u64);
}

/// Installs a handler that does nothing, so that signals only interrupt.
fn ignore_signal() {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = signal::SigAction::new(
        signal::SigHandler::Handler(nothing),
        signal::SaFlags::SA_RESTART,
        signal::SigSet::empty(),
    );
    // SAFETY: the handler does nothing at all.
    unsafe { signal::sigaction(signal::Signal::SIGUSR1, &action) }.expect("the signal has no handler yet");
}

fn work(shared: &Shared, worker: usize, requests: u64, mut dice: Dice) {
    let (mut from, echoes) = io::pipe().expect("descriptors are left");
    let (asked, mut to) = io::pipe().expect("descriptors are left");
    thread::scope(|scope| {
        scope.spawn(move || echo(asked, echoes));
        shared.workers[worker].store(gettid().as_raw(), Relaxed);
        for number in 1..=requests {
            let request = guestscope_marker::request("tempest", number);
            let inner = (dice.roll(2) == 0).then(|| guestscope_marker::phase("inner"));
            for _ in 0..dice.roll(ACTS + 1) {
                act(shared, &mut dice, (&mut from, &mut to));
            }
            drop(inner);
            drop(request);
        }
        shared.workers[worker].store(0, Relaxed);
        drop(to);
    });
}

/// Answers each byte, sometimes late.
fn echo(mut asked: io::PipeReader, mut echoes: io::PipeWriter) {
    let mut byte = [0];
    while asked.read_exact(&mut byte).is_ok() {
        if byte[0] < 64 {
            thread::sleep(Duration::from_micros(u64::from(byte[0])));
        }
        if echoes.write_all(&byte).is_err() {
            return;
        }
    }
}

fn act(shared: &Shared, dice: &mut Dice, (from, to): (&mut io::PipeReader, &mut io::PipeWriter)) {
    match dice.roll(16) {
        0..=3 => spin(dice.micros(100)),
        4..=5 => thread::yield_now(),
        6..=7 => thread::sleep(dice.micros(150)),
        8..=9 => {
            let guard = shared.lock.lock().expect("nobody panics with it");
            let (mut guard, _) =
                shared.bell.wait_timeout(guard, dice.micros(200)).expect("nobody panics with it");
            *guard += 1;
            shared.bell.notify_one();
        }
        10..=12 => {
            let mut byte = [dice.roll(256) as u8];
            to.write_all(&byte).expect("the other end is open");
            from.read_exact(&mut byte).expect("the other end answers");
        }
        13 => {
            let mut descriptor = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let timeout = libc::timespec { tv_sec: 0, tv_nsec: i64::from(dice.micros(200).subsec_nanos()) };
            // SAFETY: both live across the call; no mask is passed. A signal may cut it short.
            unsafe { libc::ppoll(&raw mut descriptor, 1, &raw const timeout, std::ptr::null()) };
        }
        14 => touch(),
        _ => beget(dice),
    }
}

/// Maps new memory and touches each page.
fn touch() {
    let mut memory = vec![0_u8; 256 << 10];
    for page in memory.chunks_mut(4096) {
        page[0] = std::hint::black_box(1);
    }
    std::hint::black_box(memory);
}

fn beget(dice: &mut Dice) {
    let works = dice.roll(3000);
    // SAFETY: the child only computes, and ends.
    match unsafe { fork() }.expect("processes are left") {
        ForkResult::Child => {
            (0..works).for_each(|turn| _ = std::hint::black_box(turn));
            // SAFETY: ends the child without running what its parent registered for its own end.
            unsafe { libc::_exit(0) };
        }
        ForkResult::Parent { child } => while waitpid(child, None).is_err() {},
    }
}

/// Disturbs the workers until they are done.
fn pester(shared: &Shared, mut dice: Dice) {
    let groups = Groups::make();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    while !shared.done.load(Relaxed) {
        thread::sleep(PAUSE);
        let worker = shared.workers[dice.roll(WORKERS as u64) as usize].load(Relaxed);
        if worker == 0 {
            continue;
        }
        match dice.roll(4) {
            0 | 1 => interrupt(worker),
            2 => {
                let mut set = CpuSet::new();
                let only = dice.roll(cpus as u64 + 1) as usize;
                (0..cpus).filter(|cpu| only == cpus || *cpu == only).for_each(|cpu| _ = set.set(cpu));
                // This process may not be allowed to use the CPU.
                let _ = sched_setaffinity(Pid::from_raw(worker), &set);
            }
            _ => groups.as_ref().into_iter().for_each(|groups| groups.throw(worker, dice.roll(2) as usize)),
        }
    }
    for worker in &shared.workers {
        assert_eq!(worker.load(Relaxed), 0, "the pest goes last");
    }
}

fn interrupt(thread: i32) {
    // SAFETY: takes numbers only; the thread may have ended, and then nothing happens.
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGUSR1) };
}

/// Two control groups of version 1, between which threads are moved.
struct Groups {
    home: PathBuf,
    groups: [PathBuf; 2],
}

impl Groups {
    fn make() -> Option<Self> {
        let controller = Controller::find().filter(|controller| controller.is_v1)?;
        let group = |number: usize| {
            let name = format!("guestscope-tempest-{}-{number}", std::process::id());
            let group = controller.home.join(name);
            fs::create_dir(&group).ok().map(|()| group)
        };
        let first = group(0)?;
        let Some(second) = group(1) else {
            let _ = fs::remove_dir(first);
            return None;
        };
        Some(Self { home: controller.home.clone(), groups: [first, second] })
    }

    fn throw(&self, thread: i32, number: usize) {
        // The thread may have ended meanwhile.
        let _ = fs::write(self.groups[number].join("tasks"), thread.to_string());
    }

    fn empty(&self, group: &Path) {
        let threads = fs::read_to_string(group.join("tasks")).unwrap_or_default();
        for thread in threads.lines() {
            let _ = fs::write(self.home.join("tasks"), thread);
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in &self.groups {
            // Threads that are about to end stay in their group for a moment.
            for _ in 0..100 {
                self.empty(group);
                if fs::remove_dir(group).is_ok() {
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
