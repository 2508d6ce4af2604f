//! Signals, on a thread of their own: whatever the agent is doing, they are passed on and obeyed.
//!
//! A program that the agent started gets each of them. The second SIGTERM or SIGINT is the agent's as well: the program has a second
//! to end, then it is observed no more. While the run is being closed any signal ends the agent, as soon as what was observed is
//! in the folder, or after a bounded time. It closes nothing itself.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicI32,
            Ordering::{Acquire, Release},
        },
    },
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{SigSet, Signal, kill, raise},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::Pid,
};
use tokio::sync::Notify;

use crate::{child, clock::ClockPair};

/// How long a program has to end after the second signal.
const GRACE: Duration = Duration::from_secs(1);
/// From that signal on, or from one while the run is being closed, to the end of the agent.
const PATIENCE: Duration = Duration::from_millis(1_800);
/// Between two looks at whether all is in the folder.
const LOOK: Duration = Duration::from_millis(20);
/// Signals that end the observation at last.
const ENDING: [Signal; 2] = [Signal::SIGTERM, Signal::SIGINT];

/// Whose a signal is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// A program's that the agent has started and not waited for.
    Program(Pid),
    /// The agent's: it attached to what runs by itself.
    Attached,
    /// The agent's: the run is being closed.
    Closing,
}

/// What the thread and the others share.
#[derive(Debug)]
struct Shared {
    stage: Mutex<Stage>,
    /// The program's end, as soon as it was seen.
    ended: Mutex<Option<(Instant, ClockPair)>>,
    /// Somebody has seen enough.
    stop: Notify,
    /// The signal that said so, if one did.
    by: AtomicI32,
    haste: Haste,
}

/// The agent has to end soon, and whether the folder has all that was observed.
#[derive(Clone, Debug, Default)]
pub(super) struct Haste(Arc<(AtomicBool, AtomicBool)>);

impl Haste {
    /// Whether what is to be written should be written now.
    pub(super) fn is_due(&self) -> bool {
        self.0.0.load(Acquire)
    }

    /// All that was handed over is in the folder.
    pub(super) fn is_written(&self) {
        self.0.1.store(true, Release);
    }
}

/// The thread, seen from the session.
#[derive(Clone, Debug)]
pub(super) struct Signals(Arc<Shared>);

impl Signals {
    /// Begins to read signals, which all threads block; `program` was started, and its descriptor tells of its end.
    pub(super) fn read(program: Option<(u32, OwnedFd)>, haste: Haste) -> std::io::Result<Self> {
        let signals =
            SignalFd::with_flags(&child::forwarded(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let stage =
            program.as_ref().map_or(Stage::Attached, |(pid, _)| Stage::Program(Pid::from_raw(*pid as i32)));
        let shared = Arc::new(Shared {
            stage: Mutex::new(stage),
            ended: Mutex::new(None),
            stop: Notify::new(),
            by: AtomicI32::new(0),
            haste,
        });
        let mut reader = Reader {
            shared: Arc::clone(&shared),
            signals,
            end: program.map(|(_, end)| end),
            asked: 0,
            stop_at: None,
            end_at: None,
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || reader.run())?;
        Ok(Self(shared))
    }

    /// Until a signal says that enough was seen.
    pub(super) async fn stopped(&self) {
        self.0.stop.notified().await;
    }

    /// That signal, if there was one.
    pub(super) fn stopped_by(&self) -> Option<Signal> {
        Signal::try_from(self.0.by.load(Acquire)).ok()
    }

    /// From here on signals are the agent's, and the program's number may be somebody else's.
    pub(super) fn closing(&self) {
        *locked(&self.0.stage) = Stage::Closing;
    }

    /// When the program ended, by both clocks: the agent may notice it later.
    pub(super) fn ended(&self) -> Option<(Instant, ClockPair)> {
        *locked(&self.0.ended)
    }
}

/// What the thread works with.
struct Reader {
    shared: Arc<Shared>,
    signals: SignalFd,
    /// Until the program has ended.
    end: Option<OwnedFd>,
    /// Signals that ask for an end.
    asked: u32,
    /// When observation stops.
    stop_at: Option<Instant>,
    /// When the agent ends, by which signal.
    end_at: Option<(Instant, Signal)>,
}

impl Reader {
    fn run(&mut self) {
        loop {
            self.wait();
            while let Ok(Some(information)) = self.signals.read_signal() {
                let is_from_terminal = information.ssi_code == libc::SI_KERNEL;
                if let Ok(signal) = Signal::try_from(information.ssi_signo as i32) {
                    self.signal(signal, is_from_terminal);
                }
            }
            let now = Instant::now();
            if self.stop_at.is_some_and(|at| at <= now) {
                self.stop_at = None;
                self.shared.stop.notify_one();
            }
            if let Some((at, signal)) = self.end_at
                && (at <= now || self.is_written())
            {
                end(signal);
            }
        }
    }

    /// While the run is closed, what is in the folder is enough.
    fn is_written(&self) -> bool {
        let is_closing = matches!(*locked(&self.shared.stage), Stage::Closing);
        is_closing && self.asked_to_hurry() && self.shared.haste.0.1.load(Acquire)
    }

    fn asked_to_hurry(&self) -> bool {
        self.shared.haste.is_due()
    }

    /// Until there is something to do.
    fn wait(&mut self) {
        let descriptor = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A negative number is passed over.
        let end = self.end.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut descriptors = [descriptor(self.signals.as_raw_fd()), descriptor(end)];
        let is_pressed = self.stop_at.is_some() || self.end_at.is_some();
        let look = libc::timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
        let timeout = if is_pressed { &raw const look } else { std::ptr::null() };
        // SAFETY: the array and the time live across the call; no mask of signals is given.
        unsafe { libc::ppoll(descriptors.as_mut_ptr(), 2, timeout, std::ptr::null()) };
        if descriptors[1].revents != 0 {
            *locked(&self.shared.ended) = Some((Instant::now(), ClockPair::now()));
            self.end = None;
        }
    }

    fn signal(&mut self, signal: Signal, is_from_terminal: bool) {
        // Held until the signal is sent: the program is waited for afterwards.
        let stage = locked(&self.shared.stage);
        match *stage {
            Stage::Program(pid) => {
                // Those of a terminal (Ctrl-C) went to the program as well, which is in the same group.
                if !is_from_terminal {
                    let _ = kill(pid, signal);
                }
                if ENDING.contains(&signal) {
                    drop(stage);
                    self.asked += 1;
                    if self.asked == 2 {
                        self.stop(signal, GRACE);
                        self.end_at = Some((Instant::now() + PATIENCE, signal));
                    }
                }
            }
            Stage::Attached => {
                drop(stage);
                self.asked += 1;
                if self.asked == 1 {
                    self.stop(signal, Duration::ZERO);
                } else {
                    self.hurry(signal);
                }
            }
            Stage::Closing => {
                drop(stage);
                self.hurry(signal);
            }
        }
    }

    fn stop(&mut self, signal: Signal, grace: Duration) {
        self.shared.by.store(signal as i32, Release);
        self.stop_at = Some(Instant::now() + grace);
    }

    /// The agent ends as soon as all is in the folder. Who asks again does not want to wait for that.
    fn hurry(&mut self, signal: Signal) {
        if self.end_at.is_some() && self.asked_to_hurry() {
            end(signal);
        }
        self.shared.haste.0.0.store(true, Release);
        self.end_at.get_or_insert((Instant::now() + PATIENCE, signal));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this process as the signal does by default. The folder is readable as it is.
#[expect(clippy::exit, reason = "only where the signal does not end it")]
fn end(signal: Signal) {
    // The kernel's own words: whoever waits for the agent sees what ended it.
    let mut alone = SigSet::empty();
    alone.add(signal);
    let _ = alone.thread_unblock();
    let _ = raise(signal);
    std::process::exit(128 + signal as i32);
}
