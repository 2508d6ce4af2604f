//! The start of every session: the run folder, least privilege, the exporter and its thread, the banner.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Session,
    arguments::Observation,
    attendant::{Resident, Stretches},
    code::Code,
    cost::Cost,
    error::{During as _, SessionError},
    export_thread::ExportThread,
    facts::{self, Identity},
    feed::Feed,
    graphics::Graphics,
    kept::{Bounded, Sampler},
    limits::Limits as WatchedLimits,
    outputs::Sinks,
    possible::Possible,
    record_source::RecordSource,
    signals::Haste,
    stuck::Stuck,
    traced::Traces,
};
use crate::{
    child::RunAs,
    clock::ClockPair,
    descriptors,
    folder::{Child, CreateOptions, Manifest, RunFolder},
    gpu,
    guarded::Owner,
    health::Fidelity,
    loader::{self, LoadOptions, Loaded},
    out,
    phase::{Limits, Pauses, pairing::Pairing},
    platform::{Guest, Root, Usage},
    privileges::{self, About, Work},
    pump::Pump,
    restore::RestoreSources,
    sinks::{
        otlp::{self, Exporter, WallClock},
        terminal::{self, Exit, Progress, Stream, Style},
    },
    sources::{driver::Drivers, function::Functions},
    untrusted::Shown as _,
};

/// What is known before the run folder is made.
pub(crate) struct Known {
    pub(crate) guest: Guest,
    pub(crate) identity: Identity,
    pub(crate) cost: Cost,
    pub(crate) fidelity: Fidelity,
}

/// State before anything is observed.
pub(crate) struct Begun {
    pub(crate) guest: Guest,
    pub(crate) identity: Identity,
    pub(crate) cost: Cost,
    pub(crate) fidelity: Fidelity,
    clock: ClockPair,
    pub(crate) folder: RunFolder,
    /// What an agent that stays does beside.
    pub(crate) resident: Option<Resident>,
}

/// What the kernel side is to do beside its usual work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// Find threads that run already.
    pub(crate) visits: bool,
    /// Requests that sources mark begin when they came in.
    pub(crate) arrivals: bool,
    /// The agent stays: tell of programs that others execute, and leave requests out where it is told to.
    pub(crate) stays: bool,
}

/// Loads the kernel side.
pub(crate) fn load(observation: &Observation, extras: Extras) -> Result<Loaded, loader::LoadError> {
    descriptors::check_for_kernel_side()?;
    let Extras { visits, arrivals, stays } = extras;
    loader::load(&LoadOptions {
        slots: observation.max_threads,
        log: observation.kernel_log,
        wait_threshold: observation.wait_threshold,
        visits,
        knowledge: observation.btf.clone().into(),
        functions: !observation.phase.is_empty() || !observation.requests.is_empty(),
        driver: gpu::may_be_waited_for(&Root::system()),
        gpus: None,
        requests: observation.requests.clone(),
        arrivals,
        // Its records have numbers of the initial namespace: elsewhere no process has them.
        starts: stays && loader::is_initial_namespace(),
        thins: stays,
    })
}

/// Bounds on what programs mark.
pub(crate) fn limits(observation: &Observation) -> Limits {
    let Observation { max_open_requests, max_phases_per_request, max_threads, .. } = *observation;
    Limits::new(max_open_requests, max_phases_per_request, max_threads)
}

/// Checks for foreseeable failures before anything is started.
pub(crate) fn check(observation: &Observation) -> Result<(), SessionError> {
    descriptors::raise();
    descriptors::check()?;
    if otlp::is_configured(observation.otlp.as_deref()) {
        otlp::check(observation.otlp.as_deref())?;
    }
    Ok(())
}

impl Begun {
    /// Makes the run folder.
    pub(crate) fn new(
        observation: &Observation,
        run_as: Option<&RunAs>,
        Known { guest, identity, cost, fidelity }: Known,
        child: Option<Child>,
    ) -> Result<Self, SessionError> {
        let clock = ClockPair::now();
        let options = CreateOptions { parent: observation.output.clone(), owner: run_as.map(RunAs::owner) };
        let manifest = facts::manifest(&identity, &guest, fidelity, clock, child);
        let manifest = Manifest { max_threads: Some(observation.max_threads), ..manifest };
        let folder = RunFolder::create(&options, manifest)?;
        if options.owner.is_some() && folder.owner().is_none() {
            out::say(&format!(
                "the run folder is root's: the user who called sudo may not make one in {}\n",
                observation.output.shown()
            ));
        }
        Ok(Self { guest, identity, cost, fidelity, clock, folder, resident: None })
    }

    /// The feed that turns records into the phases of this run.
    pub(crate) fn feed(
        &self,
        mut loaded: Loaded,
        observation: &Observation,
    ) -> Result<Feed, loader::LoadError> {
        let rings = loaded.take_rings()?;
        let limits = limits(observation);
        let probes = loaded.functions.take();
        let functions = probes.map(|probes| {
            let has_requests = !observation.requests.is_empty();
            Arc::new(Functions::new(&observation.phase, has_requests, *probes))
        });
        let drivers = loaded.driver.take().map(|probes| Arc::new(Drivers::new(*probes)));
        let pairing = Pairing::within(limits, self.identity.run_id);
        Ok(Feed {
            loaded,
            pump: Pump::new(rings),
            pairing,
            pauses: Pauses::default(),
            code: Code::default(),
            functions,
            drivers,
            spent: Duration::ZERO,
            rows_lost: 0,
            lost: BTreeMap::new(),
        })
    }

    /// Removes the folder of a run that did not begin.
    pub(crate) fn discard(self) {
        self.folder.discard();
    }

    /// Opens the outputs, gives up privileges, prints the banner. `program` is a started one, which gets
    /// signals.
    pub(crate) fn start<F: RecordSource>(
        self,
        observation: &Observation,
        feed: F,
        started: Instant,
        program: Option<u32>,
        haste: Haste,
    ) -> Result<Session<F>, SessionError> {
        let Self { guest, identity, cost, fidelity, clock, folder, resident } = self;
        let stretch = resident.as_ref().map(|resident| resident.stretch);
        // The kernel's log needs a privilege to be opened, and none to be read.
        let restore = RestoreSources::open();
        // The NVML process becomes `nobody`, which takes a privilege.
        let graphics = Graphics::start();
        let usage = Usage::below(Root::system());
        let wall = WallClock::new(clock);
        // The export and folder threads give up all privileges after assuming the folder owner's rights,
        // which takes a privilege as well.
        let spill = stretch.is_none().then_some(&folder);
        let exporter = exporter(observation, &identity, &guest, fidelity, spill, &wall)?;
        // Both threads need only descriptors that are open already.
        let settle_to_say = || privileges::drop_all().unwrap_or_default();
        out::say_by_thread(settle_to_say).during("starting the thread that says things")?;
        let facts = facts::for_terminal(&identity, &guest, folder.path(), cost.attach, Exit::Running, &[]);
        let health = feed.health(cost.so_far(Duration::ZERO));
        out::say_lines(&terminal::render_banner(&facts, &health, Style::detect(Stream::Stderr)));
        let progress = Progress::start(!observation.json, settle_to_say);
        let limits = WatchedLimits::start(program.into_iter().collect(), stretch, settle_to_say);
        let files = folder.owner().map_or((0, 0), |owner| (owner.uid, owner.gid));
        let owner = folder.owner().cloned();
        let (folder, bounded) = match observation.keep {
            Some(most) => {
                let (first, bounded) = Bounded::begin(folder, most.0, clock)?;
                (first, Some(bounded))
            }
            None => (folder, None),
        };
        let mut sinks = Sinks::new(folder, exporter, wall, progress, haste);
        sinks.bounded = bounded;
        sinks.sampler = Sampler::new(observation.sample.unwrap_or(1.0));
        let (attendant, directory) = resident.map(|it| (it.attendant, it.directory)).unzip();
        sinks.attendant = attendant;
        let export = ExportThread::start(sinks, settle(owner, directory))
            .during("starting the thread that writes the run folder")?;
        come_first();
        // Code that was needed only once would count as resident memory. Without success it does.
        let _ = guestscope_kernel::own_mappings::release_code();
        // From now on only probes in programs need a privilege.
        let work = Work { probes: fidelity != Fidelity::Procfs, signals: program.is_some() };
        privileges::drop_unneeded(work).during("giving up privileges")?;
        privileges::forbid_core_dumps().during("forbidding core dumps")?;
        // All threads exist, and no further process is started.
        let processes: Vec<u32> = program.into_iter().chain(graphics.pid()).collect();
        if let Err(error) = privileges::only_what_is_used(About { processes: &processes, files }) {
            out::say(&format!("warning: the agent runs without its filter of system calls: {error}\n"));
        }
        Ok(Session {
            feed,
            export,
            cost,
            guest,
            identity,
            restore,
            graphics,
            traces: Traces::default(),
            usage,
            limits,
            stretches: stretch.map(|_| Stretches::default()),
            restored: Vec::new(),
            possible: Possible::new(started),
            stuck: Stuck::new(),
            left: Vec::new(),
            started,
        })
    }
}

/// The calling thread gets three times the CPU time of another one where there is not enough for all, and
/// gets it at once (nice -5). The ring has room for 6,600 edges, a third of a second of a busy service, and
/// overloaded machines are the ones worth observing: in an hour at 2,000 requests a second the agent needed
/// 20 % of a CPU, and beside builds of programs on two CPUs 24,179 of the edges of 36 million spans found no
/// room. Threads and programs that were started before have their own.
fn come_first() {
    const NICE: i32 = -5;
    let calling_thread = 0;
    // SAFETY: no pointers are passed. Who may not do it goes without.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, calling_thread, NICE) };
}

/// First work of a thread that only writes into the folder: assumes its owner's rights, drops all privileges,
/// and changes files below the directory of an agent that stays alone.
fn settle(
    owner: Option<Owner>,
    directory: Option<PathBuf>,
) -> impl FnOnce() -> io::Result<()> + Send + 'static {
    move || {
        owner.as_ref().map_or(Ok(()), Owner::assume_for_good)?;
        privileges::drop_all()?;
        // Threads that look at programs cannot: Landlock refuses them the mapped files of others, too.
        directory.as_deref().map_or(Ok(false), privileges::change_only_below).map(drop)
    }
}

fn exporter(
    observation: &Observation,
    identity: &Identity,
    guest: &Guest,
    fidelity: Fidelity,
    // Where spans wait for a collector that is away. A segment of a recorder may be removed at any time.
    folder: Option<&RunFolder>,
    wall: &WallClock,
) -> Result<Option<Exporter>, SessionError> {
    if !otlp::is_configured(observation.otlp.as_deref()) {
        return Ok(None);
    }
    let config = otlp::Config {
        endpoint: observation.otlp.clone(),
        protocol: None,
        service_name: identity.name.clone(),
        resource: facts::resource(identity, guest, fidelity),
        clock: wall.clone(),
        folder: folder.map(RunFolder::directory),
        owner: folder.and_then(RunFolder::owner).cloned(),
        limits: otlp::Limits::default(),
    };
    Ok(Some(Exporter::start(config)?))
}
