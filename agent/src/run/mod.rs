//! `guestscope run`: a program that the agent starts, adopted before its first instruction.
//!
//! The child's life is watched by a descriptor; signals are read by a thread of their own and passed on to
//! it.

mod arguments;
mod gpu_trace;
mod unprivileged;

pub use arguments::RunArguments;

use std::{
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use tokio::{io::unix::AsyncFd, time::Interval};

use self::unprivileged::{Choice, ProcfsSource};
use crate::{
    child::{self, RunAs},
    clock::{self, ClockPair},
    folder,
    health::Fidelity,
    out,
    platform::Guest,
    privileges,
    rendezvous::Rendezvous,
    session::{
        End, Event, Session, SessionError, Subject,
        cost::Cost,
        error::During as _,
        every,
        facts::Identity,
        observe,
        record_source::RecordSource,
        signals::{Haste, Signals},
        start::{self, Begun, Known},
        traced::Traces,
    },
    sinks::terminal::Exit,
    sources::{Selected, Variable},
};

/// The program's file and the files for its sources, and what obeys signals meanwhile.
struct Beside {
    program: PathBuf,
    rendezvous: Rendezvous,
    sources: Selected,
    /// Environment variables that make it load the sources' files.
    variables: Vec<Variable>,
    traces: Traces,
    signals: Signals,
    haste: Haste,
}

/// The program.
struct Launched {
    child: Child,
    rendezvous: Rendezvous,
    sources: Selected,
    ended: AsyncFd<OwnedFd>,
    signals: Signals,
    /// Timer of looks: a program may load libraries at any time.
    looks: Interval,
}

/// Interval between looks at mapped files.
const LOOK: Duration = Duration::from_secs(1);
/// Interval where function calls are phases: calls before the library is found are not seen.
const SOON: Duration = Duration::from_millis(100);

/// Observes the command. Returns the exit code.
pub fn run(arguments: &RunArguments) -> Result<i32, SessionError> {
    let mut cost = Cost::start();
    privileges::hide_memory().during("hiding the agent's memory")?;
    let run_as = RunAs::invoking_user()?;
    let program = child::resolve(&arguments.command[0])?;
    warn_of_python(&arguments.command);
    start::check(&arguments.observation)?;
    child::block_forwarded().during("blocking signals")?;
    let haste = Haste::default();
    // Before anything that can block: a script's interpreter may be on a file system that never answers.
    let signals = Signals::read(true, haste.clone()).during("reading signals")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut choice = unprivileged::choose(arguments)?;
        let mut sources = Selected::for_program(&arguments.wishes());
        let mut unpacked = sources.files().during("unpacking what sources need")?;
        if arguments.gpu_trace.is_some() {
            unpacked.push(gpu_trace::file().during("unpacking what recording GPUs needs")?);
        }
        let rendezvous =
            Rendezvous::open(run_as.as_ref(), &unpacked).during("making the meeting place of the markers")?;
        drop(unpacked);
        let mut variables = sources.environment(rendezvous.files(), &|name| std::env::var_os(name));
        let traces = gpu_trace::prepare(arguments.gpu_trace, rendezvous.files(), &mut variables);
        let beside = Beside { program, rendezvous, sources, variables, traces, signals, haste };
        if let Choice::Kernel(loaded) = &mut choice {
            beside.rendezvous.trust(loaded.take_tracked());
            // The program is started by this thread, and inherits its clock.
            loaded.sample_children();
        }
        cost.attached();
        let run_as = run_as.as_ref();
        match choice {
            Choice::Kernel(loaded) => {
                let begun = begin(arguments, run_as, cost, loaded.fidelity)?;
                let feed = begun.feed(loaded, &arguments.observation)?;
                let (mut session, mut launched) = launch(arguments, run_as, begun, feed, beside)?;
                let kernel_log = session.kernel_log(arguments.observation.kernel_log)?;
                observe(&mut session, &mut launched, kernel_log).await?;
                launched.finish(session, arguments)
            }
            Choice::Threads(refusal) => {
                let begun = begin(arguments, run_as, cost, Fidelity::Procfs)?;
                let threads = arguments.observation.max_threads;
                let limits = start::limits(&arguments.observation);
                let source = ProcfsSource::new(begun.identity.run_id, limits, threads, &refusal)?;
                let (mut session, mut launched) = launch(arguments, run_as, begun, source, beside)?;
                unprivileged::explain(&refusal);
                observe(&mut session, &mut launched, None).await?;
                launched.finish(session, arguments)
            }
        }
    })
}

fn begin(
    arguments: &RunArguments,
    run_as: Option<&RunAs>,
    cost: Cost,
    fidelity: Fidelity,
) -> Result<Begun, SessionError> {
    let identity = Identity::new(&arguments.observation, &arguments.command)?;
    let uid = run_as.map_or_else(|| nix::unistd::getuid().as_raw(), |user| user.uid.as_raw());
    let manifest_child = folder::Child { uid, exit: None };
    let known = Known { guest: Guest::here(), identity, cost, fidelity };
    Begun::new(&arguments.observation, run_as, known, Some(manifest_child))
}

fn launch<F: RecordSource>(
    arguments: &RunArguments,
    run_as: Option<&RunAs>,
    mut begun: Begun,
    mut feed: F,
    beside: Beside,
) -> Result<(Session<F>, Launched), SessionError> {
    let between = if arguments.observation.phase.is_empty() { LOOK } else { SOON };
    let Beside { program, rendezvous, sources, variables, traces, signals, haste } = beside;
    feed.starts(&program);
    if traces.record().is_some() {
        feed.pairing().expect_gpu_work();
    }
    let adopt = feed.adopt()?;
    let start_ns = clock::now_ns();
    let mut environment = rendezvous.environment();
    environment.extend(variables);
    if child::is_linked(&program) {
        environment.push(rendezvous.library_path());
    }
    let child = match child::spawn(&arguments.command, &environment, adopt, run_as) {
        Ok(child) => child,
        Err(error) => {
            begun.discard();
            return Err(error.into());
        }
    };
    let started = Instant::now();
    begun.identity.pid = Some(child.id());
    feed.started(child.id(), start_ns);
    rendezvous.expect(child.id());
    let end = child::end_of(child.id()).during("watching the program")?;
    let watched = end.try_clone().during("watching the program")?;
    signals.started(child.id(), watched);
    let mut session = begun.start(&arguments.observation, feed, started, Some(child.id()), haste)?;
    session.traces = traces;
    // SAFETY: the value owns its descriptor, which stays open and the same as long as it is watched.
    let ended = unsafe { AsyncFd::register(end) }.map_err(io::Error::from)?;
    Ok((session, Launched { child, rendezvous, sources, ended, signals, looks: every(between) }))
}

impl<F: RecordSource> Subject<F> for Launched {
    async fn next(&mut self) -> Event {
        tokio::select! {
            Some(peer) = self.rendezvous.next() => Event::Peer(peer),
            () = self.signals.stopped() => Event::Over,
            Ok(_) = self.ended.readable() => Event::Over,
            _ = self.looks.tick() => Event::Look,
        }
    }

    fn seems_over(&self, _: &F) -> bool {
        false
    }

    /// Processes that mark phases, else the started one: a shell in front of a program is not one of its
    /// threads.
    fn processes(&self, feed: &F) -> (Vec<u32>, bool) {
        let met = feed.processes();
        if met.is_empty() { (vec![self.child.id()], false) } else { (met, true) }
    }

    async fn handle(&mut self, event: Event, feed: &mut F) -> Result<bool, SessionError> {
        match event {
            Event::Peer(peer) => feed.welcome(peer).await,
            Event::Look => feed.look(),
            Event::Over => return Ok(false),
        }
        Ok(true)
    }
}

impl Launched {
    /// The exit code is the program's, even if the agent's own work failed.
    fn finish<F: RecordSource>(
        mut self,
        mut session: Session<F>,
        arguments: &RunArguments,
    ) -> Result<i32, SessionError> {
        session.feed.ended();
        // A signal that was meant for the program has been passed on; the next one ends the agent.
        self.signals.closing();
        // A program that outlives the second signal goes on without the agent.
        let status = match self.signals.stopped_by() {
            Some(_) => self.child.try_wait(),
            None => self.child.wait().map(Some),
        };
        let status = status.during("waiting for the program")?;
        let (ended, clock) = self.signals.ended().unwrap_or_else(|| (Instant::now(), ClockPair::now()));
        let wall = ended.saturating_duration_since(session.started);
        // Requests that begin from now on use this clock pair, in the export as in the folder.
        session.export.clock(clock);
        session.last_records(status.is_some());
        let workload = self.rendezvous.workload().unwrap_or_else(|error| {
            out::say(&format!("what the workload says about itself is left out: {error}\n"));
            None
        });
        let mut left: Vec<u32> = session.feed.processes();
        left.push(self.child.id());
        self.rendezvous.leave_to(&left);
        let (unanswered, not_let_in) = (self.rendezvous.unanswered(), self.rendezvous.not_let_in());
        session.finish(
            End {
                exit: status.map_or(Exit::Running, exit),
                wall,
                clock,
                workload,
                threads_missed: 0,
                unanswered,
                not_let_in,
                sources: self.sources,
            },
            &arguments.observation,
        )?;
        if status.is_none() {
            out::say("the program continues, and is no longer observed\n");
        }
        let stopped = self.signals.stopped_by().map_or(0, |signal| 128 + signal as i32);
        Ok(status.map_or(stopped, exit_code))
    }
}

/// Warns if the options of a Python keep it from finding the module and the marks of its packages.
fn warn_of_python(command: &[std::ffi::OsString]) {
    match child::option_against_marks(command) {
        Some('S') => out::say_lines(
            "warning: with -S Python runs no sitecustomize, by which its packages are marked\n\
             hint: leave -S out, or mark phases by `import guestscope`\n",
        ),
        Some(option) => out::say_lines(&format!(
            "warning: with -{option} Python ignores PYTHONPATH, by which its packages are marked and \
             `import guestscope` finds the module\n\
             hint: leave -{option} out, or install a copy of guestscope.py where this Python looks\n"
        )),
        None => {}
    }
}

fn exit(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().map(Exit::Code).or_else(|| status.signal().map(Exit::Signal)).unwrap_or(Exit::Ended)
}

/// The program's exit code, or 128 plus the number of the signal that ended it.
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2)
}
