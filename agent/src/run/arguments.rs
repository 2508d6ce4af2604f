//! What `run` takes.

use std::ffi::OsString;

use clap::Args;

use crate::{gpu::trace::Schedule, health::Fidelity, session::Observation, sources, values};

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
  sudo guestscope run --gpu-trace 200ms/10s -- python3 serve.py      see what its GPU did

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
    /// Record what runs on GPUs, with NVIDIA's CUPTI inside the program, in windows: `200ms/10s` records for
    /// 200 ms every 10 s; `trigger` after slow requests; `always` costs launch-bound programs 10 to 20 %.
    #[arg(long, value_name = "WINDOWS", value_parser = gpu_trace)]
    pub gpu_trace: Option<Schedule>,
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

/// Parses `--gpu-trace`.
fn gpu_trace(text: &str) -> Result<Schedule, String> {
    Schedule::parse(text, values::time)
}

/// Parses `--mark`. No commas: they separate functions in the environment variable that carries them.
fn marked(text: &str) -> Result<String, String> {
    let is_name = |name: &str| !name.is_empty() && !name.contains([' ', ',', ':']);
    let is_marked = text.split_once(':').is_some_and(|(a, b)| a.split('.').chain(b.split('.')).all(is_name));
    if is_marked { Ok(text.to_owned()) } else { Err("not of the form module:function".to_owned()) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

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
}
