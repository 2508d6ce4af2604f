//! `guestscope attach`: programs that run already, found by number, control group or container.
//!
//! Ends when the last program has ended, on a signal (not passed on), or after the requested time. What the
//! agent put into the kernel goes away with it; the programs are not touched.

pub(crate) mod adoption;
mod arguments;

pub use arguments::AttachArguments;

use std::time::Instant;

use guestscope_kernel::attach::{Target, Wanted};
use tokio::time::{Interval, sleep_until};

use self::adoption::Adoption;
use crate::{
    child::{self, RunAs},
    clock::ClockPair,
    out, patient,
    platform::{Cpuid, Guest, Root, Subject as View},
    privileges,
    session::{
        End, Event, Feed, Session, SessionError, Subject,
        cost::Cost,
        error::During as _,
        every,
        facts::Identity,
        observe,
        signals::{Haste, Signals},
        start::{self, Begun, Extras, Known},
    },
    sinks::terminal::Exit,
    sources::Selected,
};

/// Interval between checks of the target's processes and their mappings.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// Time limit for reading about a process: it answers at once unless it holds up the reader.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(5);

/// The target of `attach`.
struct Attached {
    adoption: Adoption,
    signals: Signals,
    looks: Interval,
    /// When to stop, if there is a duration.
    until: Option<Instant>,
    /// Whether there was any process.
    has_begun: bool,
    /// Whether all processes of the target have ended.
    all_ended: bool,
}

/// Observes the target. Returns the exit code.
pub fn run(arguments: &AttachArguments) -> Result<i32, SessionError> {
    let mut cost = Cost::start();
    privileges::hide_memory().during("hiding the agent's memory")?;
    let run_as = RunAs::invoking_user()?;
    start::check(&arguments.observation)?;
    let mut target = Target::find(wanted(arguments))?;
    let first = target.processes().first().copied().unwrap_or_default();
    child::block_forwarded().during("blocking signals")?;
    let haste = Haste::default();
    // Before anything that the target could delay.
    let signals = Signals::read(false, haste.clone()).during("reading signals")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let loaded = start::load(&arguments.observation, Extras { visits: true, ..Extras::default() })?;
        loaded.can_visit()?;
        let pid = (arguments.pid.len() == 1).then_some(first);
        let identity = Identity::of_target(&arguments.observation, &target, pid)?;
        // Reads the process's root and namespaces, which it can hold up.
        let view = if first == 0 { View::Own } else { View::Process(first) };
        let read = move || Guest::read(&Root::system(), Cpuid::here().as_ref(), view);
        let guest =
            patient::answer(ANSWER, read).map_err(|source| SessionError::Look { pid: first, source })?;
        let known = Known { guest, identity, cost, fidelity: loaded.fidelity };
        let mut begun = Begun::new(&arguments.observation, run_as.as_ref(), known, None)?;
        let mut feed = begun.feed(loaded, &arguments.observation)?;
        let started = Instant::now();
        let mut adoption = Adoption::new(target);
        let adopted = adoption.begin(&mut feed);
        let has_begun = matches!(adopted, Ok(1..));
        let waits = adopted.is_ok() && adoption.may_be_empty();
        if !has_begun && !waits {
            begun.discard();
            adopted?;
            out::say("error: nothing observed: all processes of the target have ended\n");
            return Ok(1);
        }
        cost.attached();
        begun.cost = cost;
        let mut session = begun.start(&arguments.observation, feed, started, None, haste)?;
        if let Some(nvml) = session.graphics.pid() {
            adoption.leave_out(nvml);
        }
        let state = if has_begun {
            adoption.summary()
        } else {
            format!("no process is in the {} yet: waiting", session.identity.command.join(" "))
        };
        out::say(&format!("{state}; Ctrl-C stops observing, and nothing else\n"));
        let until = arguments.duration.map(|duration| started + duration);
        let mut attached =
            Attached { adoption, signals, looks: every(LOOK), until, has_begun, all_ended: false };
        let kernel_log = session.kernel_log(arguments.observation.kernel_log)?;
        observe(&mut session, &mut attached, kernel_log).await?;
        attached.finish(session, arguments)
    })
}

fn wanted(arguments: &AttachArguments) -> Wanted<'_> {
    match (&arguments.cgroup, &arguments.container) {
        (Some(path), _) => Wanted::Group(path),
        (None, Some(container)) => Wanted::Container(container),
        (None, None) => Wanted::Processes(&arguments.pid),
    }
}

impl Attached {
    fn finish(self, mut session: Session, arguments: &AttachArguments) -> Result<i32, SessionError> {
        let (wall, clock) = (session.started.elapsed(), ClockPair::now());
        // Requests that begin from now on use this clock pair, in the export as in the folder.
        session.export.clock(clock);
        self.signals.closing();
        session.last_records(self.all_ended);
        let exit = if self.all_ended { Exit::Ended } else { Exit::Running };
        let threads_missed = self.adoption.threads_missed();
        let sources = Selected::for_attached();
        let end =
            End { exit, wall, clock, workload: None, threads_missed, unanswered: 0, not_let_in: 0, sources };
        session.finish(end, &arguments.observation)?;
        if !self.has_begun {
            out::say("nothing observed: no process joined the target\n");
            return Ok(1);
        }
        if let joined @ 1.. = self.adoption.joined() {
            let processes = if joined == 1 { "process" } else { "processes" };
            out::say(&format!("{joined} more {processes} joined the target while it was observed\n"));
        }
        Ok(0)
    }
}

impl Subject for Attached {
    async fn next(&mut self) -> Event {
        let until = self.until;
        let time_is_up = async {
            match until {
                Some(until) => sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.looks.tick() => Event::Look,
            // Signals are not passed on to the target: it can be signalled directly.
            () = self.signals.stopped() => Event::Over,
            () = time_is_up => Event::Over,
        }
    }

    fn seems_over(&self, feed: &Feed) -> bool {
        self.has_begun && feed.pairing.live_threads().next().is_none()
    }

    fn processes(&self, _: &Feed) -> (Vec<u32>, bool) {
        (self.adoption.processes(), true)
    }

    async fn handle(&mut self, event: Event, feed: &mut Feed) -> Result<bool, SessionError> {
        match event {
            Event::Look => {
                let is_inhabited = self.adoption.look(feed)?;
                self.has_begun |= is_inhabited;
                self.all_ended = self.has_begun && !is_inhabited;
                Ok(!self.all_ended)
            }
            Event::Over => Ok(false),
            // No program has the socket of an agent that attaches.
            Event::Peer(_) => Ok(true),
        }
    }
}
