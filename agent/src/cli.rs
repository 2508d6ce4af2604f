//! What can be typed: commands, options, their help and examples. It does nothing with them.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use crate::health::Fidelity;
use crate::sources::{self, function::Asked, socket::Watched};

mod compare;

pub use compare::{Choice, CompareArguments, CompareBy, FailOn, ReportArguments};

/// Charges every nanosecond of every phase of a program to what the kernel did with it.
#[derive(Clone, Debug, Parser)]
#[command(name = "guestscope", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  sudo guestscope run -- python3 serve.py        observe a program, explain its phases
  sudo guestscope attach --pid 4711              the same for one that runs already
  guestscope explain runs/FOLDER                 why its slow requests were slow, and what to do
  guestscope doctor                              what this guest allows, and how to get more

Exit codes: 0 fine, 1 nothing observed, 2 failed. `run` passes on the exit code of the program (128 + signal if one ended it).")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Start a program under observation, print where its time went, keep it in a folder.
    Run(RunArguments),
    /// Observe processes, a control group or a container that run already.
    Attach(AttachArguments),
    /// Explain the slow requests of a run folder: causes, evidence, advice.
    Explain(ExplainArguments),
    /// Write a run folder in a form that others read, or send it to a collector.
    Export(ExportArguments),
    /// Tell what this guest allows, hook by hook, and how to enable what is missing.
    Doctor(DoctorArguments),
    /// Compare platforms by their run folders: which is slower, how sure that is, and why.
    Compare(CompareArguments),
    /// Write one page on run folders: verdict, charts, single requests, evidence.
    Report(ReportArguments),
}

/// Of `run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Phases come from the program's own marks (C, Rust, Python: `import guestscope` works as it is), and
without any from Python packages that serve, train and infer, and from NVTX (--sources).
Where none come the summary groups threads by name and by what they did.

Where BPF is refused (no root, gVisor, a container without privileges) the marks themselves carry
what the kernel tells each thread of itself: phases with the accounts cpu, runq and other, without
helpers and long waits (fidelity procfs). Of processes without marks only CMD has a row then.

Signals are passed on to CMD. If it goes on after SIGTERM (or SIGINT), a second one (SIGINT: within
3 s) stops observing as well: CMD is left alone a second later, and guestscope ends within two, with
whatever of the run is closed by then. A signal while the run is being closed does the same. The
folder stays readable.

Examples:
  sudo guestscope run -- python3 serve.py --port 8000
  sudo guestscope run --name nightly --output /var/lib/runs -- ./train --epochs 1
  sudo guestscope run --otlp http://localhost:4317 -- ./serve        and as traces to a collector or Jaeger
  sudo guestscope run --json -- ./serve > summary.json

Standard OTEL_EXPORTER_OTLP_* variables are honoured. Under sudo the program runs as the invoking user.")]
pub struct RunArguments {
    /// `full`: fail where BPF is refused; `procfs`: do without it [default: whichever can be had].
    #[arg(long, value_name = "MODE", value_parser = fidelity)]
    pub fidelity: Option<Fidelity>,
    /// Where phases come from beside the program's own marks: python, otel, nvtx, itt (the inside of oneDNN
    /// and others; itt:all with tasks below 20 us), separated by commas, or none [default: python,otel,nvtx].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = sources::wish)]
    pub sources: Option<Vec<Option<sources::Wish>>>,
    /// A Python function that is a phase: `package.module:function` or `package.module:Class.method`; may be
    /// repeated.
    #[arg(long, value_name = "MODULE:FUNCTION", value_parser = marked)]
    pub mark: Vec<String>,
    /// Call requests by their method alone, without the template of their route.
    #[arg(long)]
    pub no_routes: bool,
    /// How to observe.
    #[command(flatten)]
    pub observation: Observation,
    /// The program and its arguments, after `--`.
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Of `attach`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("target").required(true).args(["pid", "cgroup", "container"])))]
#[command(after_help = "\
Observes all threads of the target and what they start from now on, until the last of them has
ended, until Ctrl-C or SIGTERM, or for as long as --duration says. Children that a process has
already are processes of their own: give them as well, or their control group. The target goes
on as if nothing had been, and nothing is left in it. A phase that is open when this begins or
stops is cut there.

Examples:
  sudo guestscope attach --pid 4711                          one process
  sudo guestscope attach --pid 4711,4712 --duration 30s      two of them, for half a minute
  sudo guestscope attach --cgroup system.slice/web.service   a service, with what joins it later
  sudo guestscope attach --container web                     a container by name or number

Exit codes: 0 fine, 1 nothing observed, 2 failed.")]
pub struct AttachArguments {
    /// Processes, as they are numbered in the agent's PID namespace.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// All processes of a control group and of those below it: a directory, or a path in a mounted hierarchy.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// All processes of a container (Docker, podman, containerd, CRI-O, runc, crun): its number, its name, or how either
    /// begins.
    #[arg(long, value_name = "ID-OR-NAME")]
    pub container: Option<String>,
    /// Stop after this time, for instance 30s, 5m or 1h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// How to observe.
    #[command(flatten)]
    pub observation: Observation,
}

/// What all commands that observe take.
#[derive(Args, Clone, Debug)]
pub struct Observation {
    /// Name of the run and of the service [default: the program's or the container's].
    #[arg(long)]
    pub name: Option<String>,
    /// Keep the program's name alone: no argument of it goes into the folder, the traces or the summary. Without this,
    /// what looks like a password, a token or a key is masked there.
    #[arg(long)]
    pub no_args: bool,
    /// Folder in which the run folder is made.
    #[arg(long, default_value = "runs", value_name = "DIR")]
    pub output: PathBuf,
    /// Send every request as a trace to this OTLP endpoint (gRPC, or HTTP on port 4318).
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Print the summary as JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// Threads that can be tracked at once; each one takes about 1.5 KB of kernel memory.
    #[arg(long, default_value_t = guestscope_contract::SLOTS, value_name = "N",
          value_parser = clap::value_parser!(u32).range(8..=65_535))]
    pub max_threads: u32,
    /// Requests that may be open at once; of more the oldest is cut off. Each takes some 2 KB. All of them together have room for
    /// 20,480 phases, or twice this number if that is more.
    #[arg(long, default_value_t = crate::phase::OPEN_REQUESTS, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_open_requests: u32,
    /// Phases that are kept of one request; the time of more is added up in those around them. At most 20,000. Each takes 0.7 KB until
    /// its request ends. All open requests together have room for 20,480, or twice this number if that is more.
    #[arg(long, default_value_t = crate::phase::PHASES_PER_REQUEST, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::phase::MOST_PHASES_PER_REQUEST)))]
    pub max_phases_per_request: u32,
    /// Keep waits of at least this long, each with who had the CPU last; at most 4s, `off` for none.
    #[arg(long, default_value = "100us", value_name = "TIME", value_parser = wait_threshold)]
    pub wait_threshold: Duration,
    /// Requests by when connections receive and send, whatever serves: `port:8000`, `unix:/run/web.sock`.
    /// Nothing they say is read.
    #[arg(long, value_name = "WHERE", value_delimiter = ',', value_parser = Watched::parse)]
    pub requests: Vec<Watched>,
    /// Make calls of functions phases: NAME=LIB:SYMBOL[:argN] (`*` is any text; argN is the request's
    /// number), what lies between probes: NAME=usdt:LIB:PROVIDER:PROBE[:argN], or llama.cpp, onnxruntime,
    /// tensorflow, triton, loadgen.
    #[arg(long, value_name = "NAME=LIB:SYMBOL", value_parser = sources::function::parse)]
    pub phase: Vec<Asked>,
    /// BTF of exactly this kernel, for one that was built without (CONFIG_DEBUG_INFO_BTF).
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,
    /// Print the kernel side's own messages on standard error.
    #[arg(long, hide = true)]
    pub kernel_log: bool,
}

/// One that can be asked for.
fn fidelity(text: &str) -> Result<Fidelity, String> {
    let known = [Fidelity::Full, Fidelity::Procfs].into_iter().find(|one| one.name() == text);
    known.ok_or_else(|| "neither full nor procfs".to_owned())
}

impl RunArguments {
    /// What is said about sources.
    pub fn wishes(&self) -> sources::Wishes {
        let sources = self.sources.as_ref().map(|wishes| wishes.iter().flatten().cloned().collect());
        sources::Wishes { sources, marked: self.mark.clone(), routes: !self.no_routes }
    }
}

/// A module and a name in it, as Python writes them; commas part them in the environment.
fn marked(text: &str) -> Result<String, String> {
    let is_name = |name: &str| !name.is_empty() && !name.contains([' ', ',', ':']);
    let is_marked = text.split_once(':').is_some_and(|(a, b)| a.split('.').chain(b.split('.')).all(is_name));
    if is_marked { Ok(text.to_owned()) } else { Err("not of the form module:function".to_owned()) }
}

/// A whole number with a unit.
fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let ns_of_unit = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    Some(Duration::from_nanos(number.saturating_mul(ns_of_unit)))
}

/// A time that is no time at all would be a mistake.
fn duration(text: &str) -> Result<Duration, String> {
    let time = time(text).ok_or_else(|| "not a time such as 30s, 5m or 1h".to_owned())?;
    if time.is_zero() { Err("must be more than nothing".to_owned()) } else { Ok(time) }
}

/// A whole number with a unit, or `off`.
fn wait_threshold(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(4);
    if text == "off" {
        return Ok(Duration::ZERO);
    }
    let time = time(text).ok_or_else(|| "not a time such as 100us, 1ms or off".to_owned())?;
    if time.is_zero() || time > MOST {
        return Err("must lie between 1ns and 4s, or be off".to_owned());
    }
    Ok(time)
}

/// Of `explain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
A request is compared with the typical one of its kind, the mean of the middle half of the requests.
Its excess adds up over phases and causes, to the nanosecond; beside each part stands what waits,
counts and samples of exactly that phase say about it. Of a run that is still being written, or was
cut off, it explains what is there.

Examples:
  guestscope explain runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic
  guestscope explain runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --request 173
  guestscope explain runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --json | jq '.groups[0].advice'

Exit codes: 0 fine, 1 no request to explain, 2 failed.")]
pub struct ExplainArguments {
    /// A folder that `run` or `attach` made.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Explain so many of the slowest requests of each kind.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=10),
          conflicts_with = "request")]
    pub slowest: u8,
    /// Explain the request to which the program gave this number.
    #[arg(long, value_name = "N")]
    pub request: Option<u64>,
    /// Print JSON: all parts, all evidence.
    #[arg(long)]
    pub json: bool,
}

/// Of `export`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Each request is a trace, as a live export would have sent it, with its cause and tail by the whole
run. OTLP-JSON lines are what the OpenTelemetry file exporter writes: Jaeger's page takes the file
for upload, and the Collector's receiver otlpjsonfile reads it.

With --to otlp they go to a collector, as fast as it takes them, with the headers and the TLS of the
standard OTEL_EXPORTER_OTLP_* variables. Trace and span ids are those of the run: a collector that has
its live export already gets its spans a second time.

A trace for Perfetto has a track for each thread, with its phases and in them its long waits, tracks for
queues and for phases that were on no thread for a while, marks, and the guest's counters. Open the file at
https://ui.perfetto.dev: the page reads it where it lies and sends it nowhere.

Examples:
  guestscope export runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --to otlp-json --out ic.jsonl
  guestscope export runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --to perfetto --out ic.perfetto-trace
  guestscope export runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --to otlp --otlp http://localhost:4317

Exit codes: 0 fine, 1 nothing to export, 2 failed, or a collector did not take everything.")]
pub struct ExportArguments {
    /// A folder that `run` or `attach` made.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// The form.
    #[arg(long, value_name = "FORM", value_enum)]
    pub to: ExportForm,
    /// A new file to write to [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Of `--to otlp`: the endpoint (gRPC, or HTTP on port 4318) [default: as OTEL_EXPORTER_OTLP_ENDPOINT says].
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Of `--to otlp`: give up when the collector has taken nothing for so long [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub give_up: Option<Duration>,
}

/// Forms of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// OTLP-JSON lines: traces for files.
    OtlpJson,
    /// Traces to an OTLP collector or Jaeger.
    Otlp,
    /// A trace for <https://ui.perfetto.dev>, which reads it where it lies: threads, phases, waits, counters.
    Perfetto,
}

/// Of `doctor`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit codes: 0 the whole ledger can be seen, 1 less than that, or nothing.")]
pub struct DoctorArguments {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// BTF of exactly this kernel, for one that was built without (CONFIG_DEBUG_INFO_BTF).
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("100us", Some(100_000))]
    #[case("1ns", Some(1))]
    #[case("4s", Some(4_000_000_000))]
    #[case("250ms", Some(250_000_000))]
    #[case("off", Some(0))]
    #[case("0us", None)]
    #[case("5s", None)]
    #[case("100", None)]
    #[case("us", None)]
    #[case("-1us", None)]
    #[case("1.5ms", None)]
    #[case("99999999999999999999s", None)]
    #[case("18446744073709551615s", None)]
    #[case("", None)]
    #[case("1m", None)]
    fn thresholds(#[case] text: &str, #[case] ns: Option<u64>) {
        assert_eq!(wait_threshold(text).ok(), ns.map(Duration::from_nanos));
    }

    #[rstest]
    #[case("app:predict", true)]
    #[case("app.models:Model.predict", true)]
    #[case("app", false)]
    #[case(":predict", false)]
    #[case("app:", false)]
    #[case("a..b:c", false)]
    #[case("app:a,b:c", false)]
    fn functions_of_python(#[case] text: &str, #[case] is_one: bool) {
        assert_eq!(marked(text).is_ok(), is_one);
    }

    #[rstest]
    #[case("30s", Some(30))]
    #[case("5m", Some(300))]
    #[case("1h", Some(3600))]
    #[case("0s", None)]
    #[case("30", None)]
    #[case("s", None)]
    #[case("off", None)]
    #[case("-1s", None)]
    fn durations(#[case] text: &str, #[case] seconds: Option<u64>) {
        assert_eq!(duration(text).ok(), seconds.map(Duration::from_secs));
    }

    #[rstest]
    #[case(&["--pid", "1,2", "--pid", "3"], Some(vec![1, 2, 3]))]
    #[case(&["--pid", "1", "--cgroup", "a"], None)]
    #[case(&["--cgroup", "a", "--container", "b"], None)]
    #[case(&["--cgroup", "a"], Some(vec![]))]
    #[case(&["--pid", "0"], None)]
    #[case(&["--pid", "x"], None)]
    #[case(&["--pid", ""], None)]
    #[case(&[], None)]
    fn targets(#[case] words: &[&str], #[case] pids: Option<Vec<u32>>) {
        let words = ["guestscope", "attach"].iter().chain(words);
        let parsed = Cli::try_parse_from(words).ok().and_then(|cli| {
            if let Command::Attach(arguments) = cli.command { Some(arguments.pid) } else { None }
        });
        assert_eq!(parsed, pids);
    }
}
