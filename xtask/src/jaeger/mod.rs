//! A real Jaeger for the demonstration and the tests: one that is there already, or one that is started.
//!
//! Yields [`Jaeger`] with its endpoints, healthy, and ends it by its number unless it is to be kept. In
//! order: the environment, one that answers on this machine, a binary on PATH, a container engine, the
//! official release archive (where hosts other than package registries may be asked), a build from the Go
//! module.

mod archive;
mod binary;
mod query;

#[cfg(test)]
mod tests;

use std::{
    env, fs,
    fs::File,
    io::{self, IsTerminal as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    Xtask,
    command::{self, Run},
    failure::failure,
    pins::JAEGER_IMAGE,
    process,
};
use anyhow::{Context as _, Result};

const CONFIG: &str = include_str!("../../jaeger/config.yaml");
/// Configuration of its page: a span's description first among its attributes.
const UI_CONFIG: &str = include_str!("../../jaeger/ui.json");
/// Variable by which config.yaml finds it.
const UI_VARIABLE: &str = "GUESTSCOPE_JAEGER_UI_CONFIG";
/// OTLP over gRPC, OTLP over HTTP, query over HTTP, query over gRPC: Jaeger's usual ports.
const USUAL_PORTS: [u16; 4] = [4317, 4318, 16686, 16685];
/// Variables of the ports in config.yaml.
const PORT_VARIABLES: [&str; 4] = [
    "GUESTSCOPE_JAEGER_PORT_OTLP_GRPC",
    "GUESTSCOPE_JAEGER_PORT_OTLP_HTTP",
    "GUESTSCOPE_JAEGER_PORT_QUERY_HTTP",
    "GUESTSCOPE_JAEGER_PORT_QUERY_GRPC",
];
const UP_LIMIT: Duration = Duration::from_mins(1);
const PULL_LIMIT: Duration = Duration::from_mins(10);

/// Three addresses, each `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub(crate) otlp_grpc: String,
    pub(crate) otlp_http: String,
    pub(crate) query: String,
}

/// A Jaeger that answers.
#[derive(Debug)]
pub(crate) struct Jaeger {
    pub(crate) endpoints: Endpoints,
    /// Where it came from, in words.
    pub(crate) origin: String,
    running: Running,
}

#[derive(Debug)]
enum Running {
    /// Started by another process.
    Theirs,
    /// Ends with this value.
    Ours(Child),
    /// Runs on after this verb.
    Kept(u32),
}

/// Lifetime of a Jaeger that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until this verb ends, in whatever way.
    WithTheVerb,
    /// Until the user ends it.
    OnItsOwn,
}

/// Where a Jaeger may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Package registries alone: tests ask no other host.
    Registries,
    /// The project's own releases, too: with its page.
    Releases,
}

/// Files of its configuration.
#[derive(Debug)]
struct Config {
    own: PathBuf,
    page: PathBuf,
}

/// Ways to start a Jaeger.
#[derive(Debug)]
enum Way {
    Binary(PathBuf),
    /// Through this container engine.
    Container(&'static str),
}

impl Endpoints {
    /// The variables that the tests read.
    pub(crate) fn variables(&self) -> [(&'static str, &str); 3] {
        [
            ("GUESTSCOPE_JAEGER_OTLP_GRPC", &self.otlp_grpc),
            ("GUESTSCOPE_JAEGER_OTLP_HTTP", &self.otlp_http),
            ("GUESTSCOPE_JAEGER_QUERY", &self.query),
        ]
    }

    fn on_ports([grpc, http, query, _]: [u16; 4]) -> Self {
        let at = |port| format!("http://127.0.0.1:{port}");
        Self { otlp_grpc: at(grpc), otlp_http: at(http), query: at(query) }
    }

    fn from_environment() -> Option<Self> {
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Some(Self {
            otlp_grpc: set("GUESTSCOPE_JAEGER_OTLP_GRPC")?,
            otlp_http: set("GUESTSCOPE_JAEGER_OTLP_HTTP")?,
            query: set("GUESTSCOPE_JAEGER_QUERY")?,
        })
    }
}

impl Jaeger {
    /// A Jaeger that answers already, if there is one.
    pub(crate) fn find() -> Option<Self> {
        if let Some(endpoints) = Endpoints::from_environment() {
            let origin = "named by the environment".to_owned();
            return Some(Self { endpoints, origin, running: Running::Theirs });
        }
        let endpoints = Endpoints::on_ports(USUAL_PORTS);
        let open = |port| TcpStream::connect(("127.0.0.1", port)).is_ok();
        let usable = query::answers(&endpoints.query) && open(USUAL_PORTS[0]);
        usable.then(|| Self {
            endpoints,
            origin: "already running here".to_owned(),
            running: Running::Theirs,
        })
    }

    /// Starts one of our own, on the usual ports if they are free, and waits until it is healthy.
    pub(crate) fn start(xtask: &Xtask, life: Life, origin: Origin) -> Result<Self> {
        let mut failed = None;
        if let Some(way) = ordinary_way(xtask, origin) {
            match Self::start_by(xtask, &way, life) {
                Ok(jaeger) => return Ok(jaeger),
                Err(error) => failed = Some(error),
            }
        }
        if origin == Origin::Releases
            && let Some(archive) = archive::ensure(xtask)
        {
            match archive.and_then(|binary| Self::start_by(xtask, &Way::Binary(binary), life)) {
                Ok(jaeger) => return Ok(jaeger),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default();
            xtask
                .progress
                .shortfall(format!("Jaeger is built from its Go module, which has no page: {first}"));
        }
        Self::start_by(xtask, &Way::Binary(binary::ensure(xtask)?), life)
    }

    fn start_by(xtask: &Xtask, way: &Way, life: Life) -> Result<Self> {
        let ports = free_ports()?;
        let folder = xtask.cache.root().join("run");
        fs::create_dir_all(&folder).with_context(|| format!("folder: {}", folder.display()))?;
        let config = Config { own: folder.join("jaeger.yaml"), page: folder.join("jaeger-ui.json") };
        crate::cache::write_whole(&config.own, CONFIG.as_bytes())?;
        crate::cache::write_whole(&config.page, UI_CONFIG.as_bytes())?;
        let step = xtask.progress.step("Jaeger");
        let log = xtask.log("jaeger-run");
        let origin = way.to_string();
        if let Way::Container(engine) = way {
            let log = xtask.log("jaeger-pull");
            Run { step: &step, log: &log, limit: PULL_LIMIT }
                .check(Command::new(engine).args(["pull", JAEGER_IMAGE]))?;
        }
        let child = spawn(way.command(&config, ports), life, &log)?;
        let running = match life {
            Life::WithTheVerb => Running::Ours(child),
            Life::OnItsOwn => Running::Kept(child.id()),
        };
        let mut jaeger = Self { endpoints: Endpoints::on_ports(ports), origin, running };
        if let Err(error) = jaeger.wait_until_healthy() {
            step.failed();
            if let Running::Kept(pid) = jaeger.running {
                process::end(pid);
            }
            return Err(failure(
                format!("Jaeger did not come up: {error}"),
                format!("its log is {}", log.display()),
            ));
        }
        step.done(format!("answers on {}", jaeger.endpoints.query));
        Ok(jaeger)
    }

    fn wait_until_healthy(&mut self) -> Result<()> {
        let started = Instant::now();
        let address = self.endpoints.otlp_grpc.trim_start_matches("http://").to_owned();
        while started.elapsed() < UP_LIMIT {
            if query::answers(&self.endpoints.query) && TcpStream::connect(&address).is_ok() {
                return Ok(());
            }
            let ended = match &mut self.running {
                Running::Ours(child) => child.try_wait()?.is_some(),
                Running::Kept(pid) => !process::is_running(*pid),
                Running::Theirs => false,
            };
            if ended {
                anyhow::bail!("it ended at once");
            }
            thread::sleep(Duration::from_millis(50));
        }
        anyhow::bail!("no answer within {} s", UP_LIMIT.as_secs())
    }

    /// How many traces of a service it holds that began since a time.
    pub(crate) fn count_traces(&self, service: &str, operation: &str, since: SystemTime) -> Result<usize> {
        query::count_traces(&self.endpoints.query, service, operation, since)
    }

    /// Where a person looks at traces of a service, in words.
    pub(crate) fn how_to_look(&self, service: &str) -> String {
        let query = &self.endpoints.query;
        if query::has_page(query) {
            format!("open {query}/search?service={service}")
        } else {
            format!(
                "curl '{query}/api/traces?service={service}&limit=1' (a Jaeger built from its Go module has no page)"
            )
        }
    }

    /// How to end one that outlives this verb, in words.
    pub(crate) fn how_to_end(&self) -> Option<String> {
        match self.running {
            Running::Kept(pid) => Some(format!("kill {pid}")),
            Running::Ours(_) | Running::Theirs => None,
        }
    }

    /// Whether it ends when this value does.
    pub(crate) fn ends_with_the_verb(&self) -> bool {
        matches!(self.running, Running::Ours(_))
    }
}

impl Drop for Jaeger {
    fn drop(&mut self) {
        if let Running::Ours(child) = &mut self.running {
            process::end(child.id());
            drop(child.wait());
        }
    }
}

impl Way {
    fn command(&self, config: &Config, ports: [u16; 4]) -> Command {
        let variables = PORT_VARIABLES.into_iter().zip(ports.map(|port| port.to_string()));
        match self {
            Self::Binary(binary) => {
                let mut command = Command::new(binary);
                command.arg("--config").arg(&config.own).env(UI_VARIABLE, &config.page).envs(variables);
                command
            }
            // In the foreground: the engine's client forwards signals, so that its number stands for the
            // container.
            Self::Container(engine) => {
                let mut command = Command::new(engine);
                command.args(["run", "--rm", "--network", "host"]);
                for (file, inside) in [(&config.own, "/jaeger.yaml"), (&config.page, "/jaeger-ui.json")] {
                    command.args(["--volume", &format!("{}:{inside}:ro", file.display())]);
                }
                command.args(["--env", &format!("{UI_VARIABLE}=/jaeger-ui.json")]);
                for (name, port) in variables {
                    command.args(["--env", &format!("{name}={port}")]);
                }
                command.args([JAEGER_IMAGE, "--config", "/jaeger.yaml"]);
                command
            }
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Binary(path) => write!(f, "{}", path.display()),
            Self::Container(engine) => write!(f, "{JAEGER_IMAGE} in {engine}"),
        }
    }
}

/// A program or a container engine of this machine; a build of our own is preferred to fetching an image.
fn ordinary_way(xtask: &Xtask, origin: Origin) -> Option<Way> {
    if let Some(binary) = command::find("jaeger") {
        return Some(Way::Binary(binary));
    }
    if origin == Origin::Registries && binary::finished(xtask).is_some() {
        return None;
    }
    let answers = |engine: &str| command::succeeds(Command::new(engine).arg("version"));
    ["docker", "podman"].into_iter().find(|engine| answers(engine)).map(Way::Container)
}

fn spawn(mut command: Command, life: Life, log: &Path) -> Result<Child> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("log folder: {}", folder.display()))?;
    }
    let file = File::create(log).with_context(|| format!("log file: {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    match life {
        // Out of the terminal's process group, so that Ctrl-C does not reach it.
        Life::OnItsOwn => drop(command.process_group(0)),
        Life::WithTheVerb => process::end_with_parent(&mut command),
    }
    let name = command.get_program().to_string_lossy().into_owned();
    command.spawn().with_context(|| format!("could not start: `{name}`"))
}

/// The usual ports, or for each one that is taken a free one.
fn free_ports() -> Result<[u16; 4]> {
    let mut held = Vec::new();
    let mut ports = USUAL_PORTS;
    for port in &mut ports {
        let listener =
            TcpListener::bind(("127.0.0.1", *port)).or_else(|_| TcpListener::bind(("127.0.0.1", 0)));
        let listener = listener.context("no free port on 127.0.0.1")?;
        *port = listener.local_addr()?.port();
        // Held until all are chosen, so that no two are the same.
        held.push(listener);
    }
    Ok(ports)
}

/// The verb: starts one, says where it is, and waits for Enter, or leaves it running.
pub(crate) fn verb(xtask: &mut Xtask, keep: bool) -> Result<()> {
    let mut jaeger = if let Some(jaeger) = Jaeger::find() {
        jaeger
    } else {
        let life = if keep { Life::OnItsOwn } else { Life::WithTheVerb };
        Jaeger::start(xtask, life, Origin::Releases)?
    };
    xtask.cache.release();
    let mut out = io::stdout().lock();
    writeln!(out, "jaeger    {}", jaeger.origin)?;
    writeln!(out, "page      {}", jaeger.endpoints.query)?;
    for (name, value) in jaeger.endpoints.variables() {
        writeln!(out, "export {name}={value}")?;
    }
    if let Some(how) = jaeger.how_to_end() {
        writeln!(out, "runs on; end it with: {how}")?;
    }
    match &mut jaeger.running {
        Running::Ours(_) if io::stdin().is_terminal() => {
            writeln!(out, "Enter ends it")?;
            io::stdin().read_line(&mut String::new())?;
        }
        Running::Ours(child) => {
            writeln!(out, "it ends with this command")?;
            child.wait()?;
        }
        Running::Theirs | Running::Kept(_) => {}
    }
    Ok(())
}
