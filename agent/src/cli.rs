//! The command line: commands, options, help texts and examples. Parsing only; nothing is done with them.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use crate::health::Fidelity;
use crate::sources::{self, function::Asked, socket::Watched};

mod compare;

pub use compare::{Choice, CompareArguments, CompareBy, FailOn, ReportArguments};

/// Account for every nanosecond of every phase of a program: CPU, run queue, locks, I/O and more.
#[derive(Clone, Debug, Parser)]
#[command(name = "guestscope", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  sudo guestscope run -- python3 serve.py        observe a program and summarise its phases
  sudo guestscope attach --pid 4711              observe a running process
  guestscope explain runs/FOLDER                 explain why requests were slow, with advice
  guestscope doctor                              check which probes work here, and how to get more

Exit codes: 0 success, 1 nothing observed, 2 failure. `run` exits with the program's own code (128 +
signal number if a signal ended it).")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Start a program, observe it, print a summary and write a run folder.
    Run(RunArguments),
    /// Observe running processes, a control group or a container.
    Attach(AttachArguments),
    /// Explain the slow requests of a run folder: causes, evidence, advice.
    Explain(ExplainArguments),
    /// Convert a run folder to OTLP-JSON or a Perfetto trace, or send it to an OTLP collector.
    Export(ExportArguments),
    /// Check which probes this kernel supports, and how to enable the missing ones.
    Doctor(DoctorArguments),
    /// Compare platforms by their run folders: which is slower, with what confidence, and why.
    Compare(CompareArguments),
    /// Write an HTML report on run folders: verdict, charts, single requests, evidence.
    Report(ReportArguments),
}

/// Arguments of `run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Phases come from marks in the program (C, Rust, or Python, where `import guestscope` just works) and
from --sources: Python web servers and machine-learning packages, OpenTelemetry spans, NVTX ranges.
Without any phase, the summary groups threads by name and by how they spent their time.

Where BPF is not permitted (no root, gVisor, an unprivileged container), each mark reads the
thread's own counters from /proc instead (fidelity procfs): phases have the accounts cpu, runq and
other, but no helper threads and no long waits. Without marks, only CMD itself has a row.

SIGTERM and SIGINT are passed on to CMD. If CMD keeps running, a second one (SIGINT: within 3 s), or
one while the run is being closed, ends the observation too: CMD is left running, and guestscope
exits within two seconds with as much of the run as could be closed. The folder stays readable.

Examples:
  sudo guestscope run -- python3 serve.py --port 8000
  sudo guestscope run --name nightly --output /var/lib/runs -- ./train --epochs 1
  sudo guestscope run --otlp http://localhost:4317 -- ./serve      send traces to Jaeger as well
  sudo guestscope run --json -- ./serve > summary.json

The standard OTEL_EXPORTER_OTLP_* variables apply. Under sudo, CMD runs as the user who called sudo.")]
pub struct RunArguments {
    /// `full` needs BPF and fails without it; `procfs` does not use BPF [default: full if permitted, else
    /// procfs].
    #[arg(long, value_name = "MODE", value_parser = fidelity)]
    pub fidelity: Option<Fidelity>,
    /// Sources of phases besides the program's own marks: python, otel, nvtx, itt (tasks inside oneDNN and
    /// others; itt:all includes those under 20 us), or none [default: python,otel,nvtx].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = sources::wish)]
    pub sources: Option<Vec<Option<sources::Wish>>>,
    /// Make each call of this Python function a phase: `package.module:function` or
    /// `package.module:Class.method`; may be repeated.
    #[arg(long, value_name = "MODULE:FUNCTION", value_parser = marked)]
    pub mark: Vec<String>,
    /// Name requests by their method only, without the route template.
    #[arg(long)]
    pub no_routes: bool,
    /// Options shared with `attach`.
    #[command(flatten)]
    pub observation: Observation,
    /// The program and its arguments, after `--`.
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Arguments of `attach`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("target").required(true).args(["pid", "cgroup", "container"])))]
#[command(after_help = "\
Observes all threads of the target, and all threads and processes that they start from now on, until
the last one ends, until Ctrl-C or SIGTERM, or until --duration has passed. Existing child processes
are not included: name them with --pid too, or use --cgroup. The target keeps running, and nothing
stays behind in it. A phase that is open when the observation starts or stops is cut there.

Examples:
  sudo guestscope attach --pid 4711                          one process
  sudo guestscope attach --pid 4711,4712 --duration 30s      two processes, for 30 seconds
  sudo guestscope attach --cgroup system.slice/web.service   a service and processes that join it
  sudo guestscope attach --container web                     a container

Exit codes: 0 success, 1 nothing observed, 2 failure.")]
pub struct AttachArguments {
    /// Process IDs, as seen in guestscope's own PID namespace; separated by commas.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// All processes of a control group and its descendants: a directory, or a path below the cgroup mount.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// All processes of a container (Docker, podman, containerd, CRI-O, runc, crun): ID, name, or a prefix.
    #[arg(long, value_name = "ID-OR-NAME")]
    pub container: Option<String>,
    /// Stop after this time, for example 30s, 5m or 1h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Options shared with `run`.
    #[command(flatten)]
    pub observation: Observation,
}

/// Options that `run` and `attach` share.
#[derive(Args, Clone, Debug)]
pub struct Observation {
    /// Name of the run, and service name of its traces [default: name of the program or container].
    #[arg(long)]
    pub name: Option<String>,
    /// Do not record the program's arguments in the run folder, the traces or the summary. Without this
    /// option they are recorded, with what looks like a password, token or key masked.
    #[arg(long)]
    pub no_args: bool,
    /// Directory in which to create the run folder.
    #[arg(long, default_value = "runs", value_name = "DIR")]
    pub output: PathBuf,
    /// Send every request as a trace to this OTLP endpoint (gRPC, or HTTP on port 4318).
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Print the summary as JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// Maximum number of threads tracked at the same time; each takes about 1.5 KB of kernel memory.
    #[arg(long, default_value_t = guestscope_contract::SLOTS, value_name = "N",
          value_parser = clap::value_parser!(u32).range(8..=65_535))]
    pub max_threads: u32,
    /// Maximum number of requests open at the same time, about 2 KB each; beyond it, the oldest is cut off.
    /// All open requests share room for 20,480 phases, or for twice this number if that is more.
    #[arg(long, default_value_t = crate::phase::OPEN_REQUESTS, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_open_requests: u32,
    /// Maximum number of phases kept per request, at most 20,000, 0.7 KB each until the request ends; the
    /// time of further phases counts in the phases around them. All open requests share room for 20,480
    /// phases, or for twice this number if that is more.
    #[arg(long, default_value_t = crate::phase::PHASES_PER_REQUEST, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::phase::MOST_PHASES_PER_REQUEST)))]
    pub max_phases_per_request: u32,
    /// Record each wait of at least this length, with the previous thread on its CPU; at most 4s, or `off`.
    #[arg(long, default_value = "100us", value_name = "TIME", value_parser = wait_threshold)]
    pub wait_threshold: Duration,
    /// Derive requests of any server from when its connections receive and send: `port:8000` or
    /// `unix:/run/web.sock`. Content is not read.
    #[arg(long, value_name = "WHERE", value_delimiter = ',', value_parser = Watched::parse)]
    pub requests: Vec<Watched>,
    /// Make each call of a function a phase: NAME=LIB:SYMBOL[:argN] (`*` matches any text; argN holds the
    /// request number). Or the time between two USDT probes: NAME=usdt:LIB:PROVIDER:PROBE[:argN]. Or a
    /// preset: llama.cpp, onnxruntime, tensorflow, triton, loadgen.
    #[arg(long, value_name = "NAME=LIB:SYMBOL", value_parser = sources::function::parse)]
    pub phase: Vec<Asked>,
    /// BTF file for this kernel, if built without CONFIG_DEBUG_INFO_BTF.
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,
    /// Print log messages of the BPF programs on standard error.
    #[arg(long, hide = true)]
    pub kernel_log: bool,
}

/// Parses `--fidelity`.
fn fidelity(text: &str) -> Result<Fidelity, String> {
    let known = [Fidelity::Full, Fidelity::Procfs].into_iter().find(|one| one.name() == text);
    known.ok_or_else(|| "neither full nor procfs".to_owned())
}

impl RunArguments {
    /// The options that choose sources: `--sources`, `--mark`, `--no-routes`.
    pub fn wishes(&self) -> sources::Wishes {
        let sources = self.sources.as_ref().map(|wishes| wishes.iter().flatten().cloned().collect());
        sources::Wishes { sources, marked: self.mark.clone(), routes: !self.no_routes }
    }
}

/// Parses `--mark`. No commas: they separate functions in the environment variable that carries them.
fn marked(text: &str) -> Result<String, String> {
    let is_name = |name: &str| !name.is_empty() && !name.contains([' ', ',', ':']);
    let is_marked = text.split_once(':').is_some_and(|(a, b)| a.split('.').chain(b.split('.')).all(is_name));
    if is_marked { Ok(text.to_owned()) } else { Err("not of the form module:function".to_owned()) }
}

/// Parses a whole number with a unit.
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

/// Parses a time that is not zero.
fn duration(text: &str) -> Result<Duration, String> {
    let time = time(text).ok_or_else(|| "not a time such as 30s, 5m or 1h".to_owned())?;
    if time.is_zero() { Err("must be more than nothing".to_owned()) } else { Ok(time) }
}

/// Parses `--wait-threshold`: a whole number with a unit, or `off`, which is zero.
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

/// Arguments of `explain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Each request is compared with the typical request of the same name: the mean of the requests between
the 25th and 75th percentile of duration. The difference is split by phase and cause, and the parts
add up to the nanosecond. Each part is shown with its evidence: waits, counts and CPU samples of
that phase. Run folders that are still being written or were cut off can be explained too.

Examples:
  guestscope explain runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic
  guestscope explain runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --request 173
  guestscope explain runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --json | jq '.groups[0].advice'

Exit codes: 0 success, 1 no request to explain, 2 failure.")]
pub struct ExplainArguments {
    /// Run folder written by `run` or `attach`.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// How many of the slowest requests of each name to explain.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=10),
          conflicts_with = "request")]
    pub slowest: u8,
    /// Explain the request with this number, as the program numbered it.
    #[arg(long, value_name = "N")]
    pub request: Option<u64>,
    /// Print JSON, with all parts and all evidence.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `export`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
otlp-json: each request is a trace, as with `run --otlp`, but with cause and tail computed from the
whole run. The lines have the format of the OpenTelemetry file exporter: upload the file to Jaeger's
page, or read it with the Collector's receiver otlpjsonfile.

otlp: sends the same traces to a collector as fast as it accepts them. Headers and TLS come from the
standard OTEL_EXPORTER_OTLP_* variables. Trace and span IDs are those of the run: a collector that
already received the live export gets every span a second time.

perfetto: one track per thread with its phases and their long waits, tracks for queues and for
phases that were off all threads for a while, marks, and the guest's counters. Open the file at
https://ui.perfetto.dev; the page reads it locally and does not upload it.

Examples:
  guestscope export runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --to otlp-json --out ic.jsonl
  guestscope export runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --to perfetto --out ic.perfetto-trace
  guestscope export runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --to otlp --otlp http://localhost:4317

Exit codes: 0 success, 1 nothing to export, 2 failure, or the collector did not accept everything.")]
pub struct ExportArguments {
    /// Run folder written by `run` or `attach`.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Output format.
    #[arg(long, value_name = "FORM", value_enum)]
    pub to: ExportForm,
    /// File to write; it must not exist yet [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// With `--to otlp`: endpoint (gRPC, or HTTP on port 4318) [default: OTEL_EXPORTER_OTLP_ENDPOINT].
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// With `--to otlp`: give up after the collector has accepted nothing for this time [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub give_up: Option<Duration>,
}

/// Output formats of `export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// Traces as a file of OTLP-JSON lines.
    OtlpJson,
    /// Traces sent to an OTLP collector or Jaeger.
    Otlp,
    /// A trace file for <https://ui.perfetto.dev>: threads, phases, waits, counters.
    Perfetto,
}

/// Arguments of `doctor`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit codes: 0 all accounts can be measured, 1 only some or none.")]
pub struct DoctorArguments {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// BTF file for this kernel, if built without CONFIG_DEBUG_INFO_BTF.
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
