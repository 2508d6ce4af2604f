//! Signals, on a thread of their own, so that they are passed on and obeyed even while the agent is busy.
//!
//! A program that the agent started gets every signal. The second SIGTERM, or the second SIGINT within a few
//! seconds, is for the agent as well: the program has a second to end, then observation stops. If it ends,
//! the run is closed as always. Where the agent attached, the first signal is its own, and ends it if it does
//! not begin to close the run in time. While the run is being closed any signal ends the agent, as soon as
//! what was observed is in the folder, or after a bounded time. It closes nothing itself.

use std::{
    os::fd::{AsFd as _, AsRawFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicI32,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
    time::{Duration, Instant},
};

use nix::{
    sys::{
        eventfd::{EfdFlags, EventFd},
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::Pid,
};
use tokio::sync::Notify;

use crate::{child, clock::ClockPair, out, privileges};

/// Time for a program to end after the second signal.
const GRACE: Duration = Duration::from_secs(1);
/// Time from that signal, or from one during closing, to the end of the agent.
const PATIENCE: Duration = Duration::from_millis(1_800);
/// Interval between checks that everything is in the folder.
const LOOK: Duration = Duration::from_millis(20);
/// Two SIGINT within this time count as one request to end. Shells, debuggers and notebooks take single ones
/// as interruptions of their current command, and may get many.
const TOGETHER: Duration = Duration::from_secs(3);
/// Signals that can end the observation.
const ENDING: [Signal; 2] = [Signal::SIGTERM, Signal::SIGINT];

/// Addressee of signals.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The program that is about to be started, which may be delayed.
    Starting,
    /// The started program, not yet waited for.
    Program(Pid),
    /// The agent, which attached.
    Attached,
    /// The agent, which stays: SIGHUP and SIGUSR1 are its own as well, SIGUSR2 and SIGQUIT mean nothing.
    Resident,
    /// The agent, which is closing the run.
    Closing,
}

/// State shared with the thread.
#[derive(Debug)]
struct Shared {
    stage: Mutex<Stage>,
    /// Descriptor of the started program's end, for the thread to take.
    started: Mutex<Option<OwnedFd>>,
    /// Wakes the thread for it.
    wake: EventFd,
    /// When the program's end was noticed.
    ended: Mutex<Option<(Instant, ClockPair)>>,
    /// Observation is to stop.
    stop: Notify,
    /// The signal that asked for it, if any.
    by: AtomicI32,
    /// A resident agent is to do something: SIGHUP, SIGUSR1.
    asked: Notify,
    /// Whether SIGHUP and SIGUSR1 came.
    came: (AtomicBool, AtomicBool),
    haste: Haste,
}

/// Whether the agent has to end soon, and whether the folder has everything observed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Haste(Arc<(AtomicBool, AtomicBool)>);

impl Haste {
    /// Whether what is to be written should be written now.
    pub(crate) fn is_due(&self) -> bool {
        self.0.0.load(Acquire)
    }

    /// Tells that everything handed over is in the folder.
    pub(crate) fn written(&self) {
        self.0.1.store(true, Release);
    }
}

/// The session's handle of the thread.
#[derive(Clone, Debug)]
pub(crate) struct Signals(Arc<Shared>);

impl Signals {
    /// Starts reading signals, which all threads block. With `starts_program` they are kept for the program:
    /// [`Self::started`].
    pub(crate) fn read(starts_program: bool, haste: Haste) -> std::io::Result<Self> {
        let stage = if starts_program { Stage::Starting } else { Stage::Attached };
        Self::begin(stage, haste)
    }

    /// Starts reading signals for an agent that stays: see [`Self::asked`].
    pub(crate) fn read_as_resident(haste: Haste) -> std::io::Result<Self> {
        Self::begin(Stage::Resident, haste)
    }

    fn begin(stage: Stage, haste: Haste) -> std::io::Result<Self> {
        let starts_program = matches!(stage, Stage::Starting);
        let signals =
            SignalFd::with_flags(&child::forwarded(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let shared = Arc::new(Shared {
            stage: Mutex::new(stage),
            started: Mutex::new(None),
            wake: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            ended: Mutex::new(None),
            stop: Notify::new(),
            by: AtomicI32::new(0),
            asked: Notify::new(),
            came: Default::default(),
            haste,
        });
        let mut reader = Reader {
            shared: Arc::clone(&shared),
            signals,
            end: None,
            early: Vec::new(),
            asked: Asked::default(),
            stop_at: None,
            end_at: None,
            close_by: None,
        };
        let body = move || {
            // Without the privilege the thread still signals programs of its own user.
            if let Err(error) = privileges::keep_signals(starts_program) {
                out::say(&format!("warning: the thread of signals keeps its privileges: {error}\n"));
            }
            reader.run();
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(body)?;
        Ok(Self(shared))
    }

    /// The program was started; `end` becomes readable at its end.
    pub(crate) fn started(&self, program: u32, end: OwnedFd) {
        *locked(&self.0.stage) = Stage::Program(Pid::from_raw(program.cast_signed()));
        *locked(&self.0.started) = Some(end);
        // Cannot fail: the counter goes up to 2^64.
        self.0.wake.write(1).unwrap_or_default();
    }

    /// Waits until a signal stops the observation.
    pub(crate) async fn stopped(&self) {
        self.0.stop.notified().await;
    }

    /// Waits until SIGHUP or SIGUSR1 came to a resident agent. Returns which did.
    pub(crate) async fn asked(&self) -> Requested {
        loop {
            let (reload, incident) = &self.0.came;
            let requested =
                Requested { reload: reload.swap(false, AcqRel), incident: incident.swap(false, AcqRel) };
            if requested != Requested::default() {
                return requested;
            }
            self.0.asked.notified().await;
        }
    }

    /// The signal that stopped it, if any.
    pub(crate) fn stopped_by(&self) -> Option<Signal> {
        Signal::try_from(self.0.by.load(Acquire)).ok()
    }

    /// From now on signals are for the agent; the program's PID may be reused.
    pub(crate) fn closing(&self) {
        *locked(&self.0.stage) = Stage::Closing;
    }

    /// When the program ended, by both clocks: the agent may notice it later.
    pub(crate) fn ended(&self) -> Option<(Instant, ClockPair)> {
        *locked(&self.0.ended)
    }
}

/// What signals asked a resident agent for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requested {
    /// SIGHUP: to read its configuration again.
    pub(crate) reload: bool,
    /// SIGUSR1: to keep what was seen around now.
    pub(crate) incident: bool,
}

/// State of the thread.
struct Reader {
    shared: Arc<Shared>,
    signals: SignalFd,
    /// The program's descriptor, until it has ended.
    end: Option<OwnedFd>,
    /// Signals before the program's start, and whether each came from a terminal.
    early: Vec<(Signal, bool)>,
    asked: Asked,
    /// When the observation stops, and by which signal.
    stop_at: Option<(Instant, Signal)>,
    /// When the agent ends, and by which signal.
    end_at: Option<(Instant, Signal)>,
    /// When the agent ends, and by which signal, unless it is closing the run by then.
    close_by: Option<(Instant, Signal)>,
}

impl Reader {
    fn run(&mut self) {
        loop {
            self.wait();
            self.take_program();
            while let Ok(Some(information)) = self.signals.read_signal() {
                let is_from_terminal = information.ssi_code == libc::SI_KERNEL;
                if let Ok(signal) = Signal::try_from(information.ssi_signo as i32) {
                    self.signal(signal, is_from_terminal);
                }
            }
            let now = Instant::now();
            if let Some((_, signal)) = self.stop_at.take_if(|(at, _)| *at <= now) {
                self.shared.by.store(signal as i32, Release);
                self.shared.stop.notify_one();
            }
            if let Some((_, signal)) = self.close_by.take_if(|(at, _)| *at <= now)
                && matches!(*locked(&self.shared.stage), Stage::Starting | Stage::Attached | Stage::Resident)
            {
                end(signal);
            }
            if let Some((at, signal)) = self.end_at
                && (at <= now || self.is_written())
            {
                end(signal);
            }
        }
    }

    fn is_closing(&self) -> bool {
        matches!(*locked(&self.shared.stage), Stage::Closing)
    }

    /// Takes over a newly started program. Earlier signals were meant for it.
    fn take_program(&mut self) {
        let Some(end) = locked(&self.shared.started).take() else { return };
        self.shared.wake.read().unwrap_or_default();
        (self.end, self.close_by) = (Some(end), None);
        for (signal, is_from_terminal) in std::mem::take(&mut self.early) {
            self.signal(signal, is_from_terminal);
        }
    }

    /// While the run is being closed, everything in the folder is enough to end.
    fn is_written(&self) -> bool {
        self.is_closing() && self.shared.haste.is_due() && self.shared.haste.0.1.load(Acquire)
    }

    /// Waits for a signal, the program's end or a wake-up; at most [`LOOK`] while a deadline is pending.
    fn wait(&mut self) {
        let descriptor = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // poll(2) ignores negative descriptors.
        let end = self.end.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let wake = self.shared.wake.as_fd().as_raw_fd();
        let mut descriptors = [descriptor(self.signals.as_raw_fd()), descriptor(end), descriptor(wake)];
        let is_pressed = self.stop_at.is_some() || self.end_at.is_some() || self.close_by.is_some();
        let look = libc::timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
        let timeout = if is_pressed { &raw const look } else { std::ptr::null() };
        // SAFETY: the array and the time live across the call; no mask of signals is given.
        unsafe { libc::ppoll(descriptors.as_mut_ptr(), 3, timeout, std::ptr::null()) };
        if descriptors[1].revents != 0 {
            *locked(&self.shared.ended) = Some((Instant::now(), ClockPair::now()));
            self.end = None;
            // The program obeyed: observation need not stop early, nor the run close in a hurry.
            (self.stop_at, self.end_at) = (None, None);
        }
    }

    fn signal(&mut self, signal: Signal, is_from_terminal: bool) {
        // Held until the signal is sent: the program is waited for afterwards.
        let stage = locked(&self.shared.stage);
        match *stage {
            Stage::Starting => {
                drop(stage);
                self.early.push((signal, is_from_terminal));
                if ENDING.contains(&signal) {
                    self.close_by.get_or_insert((Instant::now() + PATIENCE, signal));
                }
            }
            Stage::Program(pid) => {
                // A terminal's signals (Ctrl-C) reach the program too, which is in the same process group.
                if !is_from_terminal {
                    let _ = kill(pid, signal);
                }
                if ENDING.contains(&signal) {
                    drop(stage);
                    if self.asked.again(signal, Instant::now()) && self.stop_at.is_none() {
                        self.stop_at = Some((Instant::now() + GRACE, signal));
                        self.end_at = Some((Instant::now() + PATIENCE, signal));
                    }
                }
            }
            Stage::Resident if !ENDING.contains(&signal) => {
                let (reload, incident) = &self.shared.came;
                if signal == Signal::SIGHUP {
                    reload.store(true, Release);
                } else if signal == Signal::SIGUSR1 {
                    incident.store(true, Release);
                } else {
                    return;
                }
                self.shared.asked.notify_one();
            }
            Stage::Attached | Stage::Resident => {
                drop(stage);
                match self.asked.at.replace(Instant::now()) {
                    None => {
                        self.stop_at = Some((Instant::now(), signal));
                        self.close_by = Some((Instant::now() + PATIENCE, signal));
                    }
                    Some(_) => self.hurry(signal),
                }
            }
            Stage::Closing => {
                drop(stage);
                self.hurry(signal);
            }
        }
    }

    /// Ends the agent as soon as everything is in the folder; a further signal ends it without that.
    fn hurry(&mut self, signal: Signal) {
        if self.end_at.is_some() && self.shared.haste.is_due() {
            end(signal);
        }
        self.shared.haste.0.0.store(true, Release);
        self.end_at.get_or_insert((Instant::now() + PATIENCE, signal));
    }
}

/// Signals so far that asked to end.
#[derive(Debug, Default)]
struct Asked {
    /// When the last one arrived.
    at: Option<Instant>,
    /// Whether a SIGTERM was among them.
    terminated: bool,
}

impl Asked {
    /// Takes one of [`ENDING`]. Returns whether it repeats the wish to end.
    fn again(&mut self, signal: Signal, now: Instant) -> bool {
        let is_soon = self.at.replace(now).is_some_and(|at| now.saturating_duration_since(at) <= TOGETHER);
        let is_second_term = signal == Signal::SIGTERM && std::mem::replace(&mut self.terminated, true);
        is_soon || is_second_term
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this process as the signal does by default. The folder is readable as it is.
#[expect(clippy::exit, reason = "only where the signal does not end it")]
fn end(signal: Signal) {
    // The agent's parent sees which signal ended it.
    let mut alone = SigSet::empty();
    alone.add(signal);
    let _ = alone.thread_unblock();
    // Not raise(3), which is tkill(2) in musl: the filter of system calls allows only tgkill(2), and only for
    // this process. SAFETY: no pointers are passed.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal as i32) };
    std::process::exit(128 + signal as i32);
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
