//! `guestscope run`: the one place that wires probes, pump, pairing, folder, export and summary together.
//!
//! One thread reads the rings and pairs; what leaves goes through [`outlet`], so that no disk and no collector can
//! hold the pump. The child's life is watched by a descriptor, signals are read from another.

mod cost;
mod ending;
mod facts;
mod outlet;

use std::{
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::{
    sys::{
        signal::{Signal, kill},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::Pid,
};
use tokio::{
    io::unix::AsyncFd,
    time::{Interval, MissedTickBehavior, interval},
};

use self::{
    cost::Cost,
    facts::Identity,
    outlet::{Outlet, Sinks},
};
use crate::{
    child::{self, RunAs},
    cli::RunArguments,
    clock::ClockPair,
    failure,
    health::{AgentCost, ExportHealth, Fidelity, Health},
    loader::{self, LoadOptions, Loaded},
    phase::{PairingLosses, pairing::Pairing},
    platform::Guest,
    privileges,
    pump::Pump,
    rendezvous::Rendezvous,
    run::{CreateOptions, Owner, RunFolder},
    sinks::{
        otlp::{self, Exporter, WallClock},
        terminal::{self, Exit, Progress, Stream, Style},
    },
};

/// Between two drains of the rings, if neither fills up: 20 wake-ups a second.
const TICK: Duration = Duration::from_millis(50);
/// Of 8,192 edges each: 10 ms of work.
const BATCHES_AT_ONCE: usize = 4;
/// Between two rows of `samples`.
const SAMPLE: Duration = Duration::from_secs(1);
/// Between two pairs of clocks: NTP slews at most 0.5 ms per second.
const CLOCKS: Duration = Duration::from_mins(1);

/// A run in progress.
struct Session {
    loaded: Loaded,
    pump: Pump,
    pairing: Pairing,
    rendezvous: Rendezvous,
    outlet: Outlet,
    cost: Cost,
    guest: Guest,
    identity: Identity,
    /// When the program was.
    started: Instant,
}

/// How and when the program ended.
#[derive(Clone, Copy)]
struct End {
    status: ExitStatus,
    /// From its start.
    wall: Duration,
    clock: ClockPair,
}

/// Observes the command; the code that this process shall exit with.
pub fn run(arguments: &RunArguments) -> anyhow::Result<i32> {
    let mut cost = Cost::start();
    let run_as = RunAs::invoking_user()?;
    child::resolve(&arguments.command[0])?;
    if otlp::is_configured(arguments.otlp.as_deref()) {
        otlp::check(arguments.otlp.as_deref())?;
    }
    child::block_forwarded().context("blocking signals")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let loaded = loader::load(LoadOptions {
            slots: arguments.max_threads,
            log: arguments.kernel_log,
            wait_threshold: arguments.wait_threshold,
        })?;
        let rendezvous =
            Rendezvous::open(run_as.as_ref()).context("making the meeting place of the markers")?;
        cost.attached();
        let (session, child) = start(arguments, run_as.as_ref(), cost, loaded, rendezvous)?;
        observe(session, child, arguments).await
    })
}

fn start(
    arguments: &RunArguments,
    run_as: Option<&RunAs>,
    cost: Cost,
    mut loaded: Loaded,
    rendezvous: Rendezvous,
) -> anyhow::Result<(Session, Child)> {
    let clock = ClockPair::now();
    let guest = Guest::here();
    let identity = Identity::new(arguments.name.as_deref(), &arguments.command)?;
    let uid = run_as.map_or_else(|| nix::unistd::getuid().as_raw(), |user| user.uid.as_raw());
    let owner = run_as.map(|user| Owner { uid: user.uid.as_raw(), gid: user.gid.as_raw() });
    let options = CreateOptions { parent: arguments.output.clone(), owner };
    let folder = RunFolder::create(&options, facts::manifest(&identity, &guest, clock, uid))?;
    let rings = loaded.take_rings()?;
    let child = child::spawn(&arguments.command, &rendezvous.environment(), loaded.adopt_program()?, run_as);
    // A run that did not begin leaves nothing behind.
    let (child, folder) = match child {
        Ok(child) => (child, folder),
        Err(error) => {
            folder.discard();
            return Err(error.into());
        }
    };
    let started = Instant::now();
    // It has not come far: a program that has just been started is in its loader still.
    loaded.sample(child.id());
    rendezvous.expect(child.id());
    // The child has everything it needs; from here on nothing new has to be allowed but meeting markers. A thread
    // keeps the privileges that its maker had, so those that export and write are made afterwards.
    privileges::drop_unneeded().context("giving up privileges")?;
    let wall = WallClock::new(clock.offset_ns());
    let exporter = exporter(arguments, &identity, &guest, &folder, &wall, child.id())?;
    let facts = facts::for_terminal(&identity, &guest, folder.path(), cost.attach, Exit::Running);
    let health = health_at_start(&loaded, cost.so_far());
    failure::say(&terminal::render_banner(&facts, &health, Style::detect(Stream::Stderr)));
    let progress = Progress::start(!arguments.json);
    let outlet = Outlet::start(Sinks::new(folder, exporter, wall, progress))?;
    let pairing = Pairing::new(identity.run_id);
    let pump = Pump::new(rings);
    Ok((Session { loaded, pump, pairing, rendezvous, outlet, cost, guest, identity, started }, child))
}

fn exporter(
    arguments: &RunArguments,
    identity: &Identity,
    guest: &Guest,
    folder: &RunFolder,
    wall: &WallClock,
    pid: u32,
) -> anyhow::Result<Option<Exporter>> {
    if !otlp::is_configured(arguments.otlp.as_deref()) {
        return Ok(None);
    }
    let config = otlp::Config {
        endpoint: arguments.otlp.clone(),
        protocol: None,
        service_name: identity.name.clone(),
        resource: facts::resource(identity, guest, pid),
        clock: wall.clone(),
        folder: Some(folder.stable_path()),
        limits: otlp::Limits::default(),
    };
    Ok(Some(Exporter::start(config)?))
}

/// The kernel side's messages, as lines on standard error.
struct KernelLog;

impl log::Log for KernelLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        failure::say(&format!(
            "kernel side: {}: {}\n",
            record.level().as_str().to_lowercase(),
            record.args()
        ));
    }

    fn flush(&self) {}
}

/// Until the child ends; then everything is drained, closed and told.
async fn observe(mut session: Session, mut child: Child, arguments: &RunArguments) -> anyhow::Result<i32> {
    let pidfd = child::pidfd(child.id()).context("watching the program")?;
    // SAFETY: here and below: the value owns its descriptor, which stays open and the same as long as it is watched.
    let ended = unsafe { AsyncFd::register(pidfd) }?;
    let signals = SignalFd::with_flags(&child::forwarded(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    // SAFETY: as above.
    let signals = unsafe { AsyncFd::register(signals) }?;
    let rings = ring_watchers(&session.pump)?;
    let mut ticks = every(TICK);
    let mut samples = every(SAMPLE);
    let mut clocks = every(CLOCKS);
    let mut kernel_log = arguments.kernel_log.then(|| session.loaded.logger(KernelLog)).transpose()?;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            Ok(mut ready) = rings[0].readable() => ready.clear_ready(),
            Ok(mut ready) = rings[1].readable() => ready.clear_ready(),
            Ok(mut ready) = rings[2].readable() => ready.clear_ready(),
            _ = samples.tick() => session.outlet.sample(cost::sample(session.pump.edges_read)),
            _ = clocks.tick() => session.outlet.clock(ClockPair::now()),
            Some(peer) = session.rendezvous.next() => {
                peer.attach(&mut session.loaded).await;
            }
            Ok(mut ready) = signals.readable() => {
                ready.clear_ready();
                forward(signals.get_ref(), &child);
            }
            Ok(_) = ended.readable() => break,
        }
        session.drain();
        if let Some(log) = &mut kernel_log {
            log.flush();
        }
    }
    let status = child.wait().context("waiting for the program")?;
    let end = End { status, wall: session.started.elapsed(), clock: ClockPair::now() };
    // What comes now may take as long as disk and network do. A signal that was meant for the program has been read;
    // the next one ends the agent, and the folder stays readable.
    while let Ok(Some(_)) = signals.get_ref().read_signal() {}
    child::unblock_forwarded().context("unblocking signals")?;
    session.finish(end, arguments)
}

/// What the agent says about itself before anything was seen.
fn health_at_start(loaded: &Loaded, cost: AgentCost) -> Health {
    Health {
        fidelity: Fidelity::Full,
        hooks: loaded.verdicts.clone(),
        kernel: loaded.losses().unwrap_or_default(),
        pairing: PairingLosses::default(),
        cost,
        export: ExportHealth::default(),
        folder_error: None,
        rows_lost: 0,
    }
}

impl Session {
    /// Takes what waits in the rings, but no more than a few batches: signals and new programs wait as well.
    fn drain(&mut self) {
        for _ in 0..BATCHES_AT_ONCE {
            let emptied = self.pump.feed(&mut self.pairing);
            self.pairing.losses.unknown_edges += std::mem::take(&mut self.pump.undecodable);
            self.outlet.outputs(self.pairing.take());
            if emptied {
                break;
            }
        }
    }
}

/// The rings' descriptors, to wait for; the pump keeps the rings.
fn ring_watchers(pump: &Pump) -> anyhow::Result<[AsyncFd<OwnedFd>; 3]> {
    let [edges, events, waits] = pump.rings();
    let watch = |fd: RawFd| -> anyhow::Result<AsyncFd<OwnedFd>> {
        // SAFETY: the descriptor is open, the pump owns it.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        let fd = fd.try_clone_to_owned()?;
        // SAFETY: the value owns its descriptor, which stays open and the same as long as it is watched.
        Ok(unsafe { AsyncFd::register_with_interest(fd, tokio::io::Interest::READABLE) }?)
    };
    Ok([watch(edges.as_raw_fd())?, watch(events.as_raw_fd())?, watch(waits.as_raw_fd())?])
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Passes signals on. Those of a terminal (Ctrl-C) went to the child as well, which is in the same group: the kernel
/// sent them, not a process.
fn forward(signals: &SignalFd, child: &Child) {
    while let Ok(Some(information)) = signals.read_signal() {
        let Ok(signal) = Signal::try_from(information.ssi_signo as i32) else { continue };
        if information.ssi_code != libc::SI_KERNEL {
            let _ = kill(Pid::from_raw(child.id() as i32), signal);
        }
    }
}

/// The code to exit with: the program's own, or 128 and the signal that ended it.
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2)
}
