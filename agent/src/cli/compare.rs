//! What can be typed after `guestscope compare`.

use std::{path::PathBuf, time::Duration};

use clap::{Arg, Args, ValueEnum};

use crate::analyze::compare::Metric;

/// Of `compare`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
A run is one value: what counts is how much runs of one platform differ among themselves. Ten
runs of each are good, five the fewest for a verdict; let platforms take turns, so that a change
of the machine hits both alike. The verdict needs a margin that was fixed before: 2 % for mean,
p50 and throughput, 5 % for tails, unless --margin says otherwise.

  slower, faster   surely different, and by more than the margin
  negligible       surely different, and surely by less
  equivalent       surely not different by more than the margin
  inconclusive     none of these; how many runs would settle it is told

Runs belong to the same platform if they have the same label, or without labels the same
scenario; if there is only one scenario, the same name, or came by the same argument. Where each
argument is a directory of runs of one scenario (or name), each is a platform. What differs
between runs of one platform (machine, kernel, CPU, limits, directory) is told.

Examples:
  guestscope compare runs                            all scenarios in a directory
  guestscope compare before=runs/a after=runs/b      two sets of runs of one machine
  guestscope compare runs --baseline BM/4/PIN/CPU    against this platform
  guestscope compare old=a new=b --fail-on slower    for CI: exit code 1 if new is slower
  guestscope compare runs --self-test                are halves of one platform alike?
  guestscope compare --jaeger http://localhost:16686 --service bm=ic-bm --service vm=ic-vm
                                                     the same of traces that went to Jaeger

Exit codes: 0 fine, 1 a verdict that --fail-on names (or a failed self-test), 2 failed.")]
pub struct CompareArguments {
    /// What to compare, and by what.
    #[command(flatten)]
    pub choice: Choice,
    /// Exit with 1 if any platform is this, compared with the baseline.
    #[arg(long, value_enum, value_name = "VERDICT")]
    pub fail_on: Option<FailOn>,
    /// Deal the runs of each platform to two halves, a thousand times: they must not be called different.
    #[arg(long, conflicts_with_all = ["baseline", "fail_on"])]
    pub self_test: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Of `report`.
#[derive(Args, Clone, Debug)]
#[command(mut_args(of_folders))]
#[command(after_help = "\
One file that needs nothing but a browser: no script in it, nothing fetched, the numbers of bars
and curves in tables. The verdict of `compare` first, then where time goes by platform, phase and
cause, what a difference is made of, latencies by quantile, single requests over time with their
waits, moves between CPUs, and what all of it rests on. Runs of one platform alone are reported
without a verdict.

Examples:
  guestscope report runs --out report.html
  guestscope report before=runs/a after=runs/b --out change.html
  guestscope report runs --out report.html --jaeger-ui http://localhost:16686     links to traces

Exit codes: 0 fine, 2 failed.")]
pub struct ReportArguments {
    /// What to report on.
    #[command(flatten)]
    pub choice: Choice,
    /// A new file to write to [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Address of Jaeger's pages, for links to traces.
    #[arg(long, value_name = "URL", value_parser = address)]
    pub jaeger_ui: Option<String>,
}

/// Which runs, what tells their platforms apart, and what they are judged by.
#[derive(Args, Clone, Debug)]
pub struct Choice {
    /// Run folders, or directories that hold some; a label may stand before each: LABEL=DIR.
    #[arg(required_unless_present = "jaeger", value_name = "[LABEL=]DIR")]
    pub folders: Vec<PathBuf>,
    /// Read runs out of the Jaeger whose query API answers here: each run id of the services is a run.
    #[arg(long, value_name = "URL", requires = "service")]
    pub jaeger: Option<String>,
    /// Of `--jaeger`: the name of a service, which is the name of its runs; may be given several times.
    #[arg(long, value_name = "[LABEL=]NAME", requires = "jaeger")]
    pub service: Vec<String>,
    /// Of `--jaeger`: traces that began so long ago or less.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = super::duration)]
    pub lookback: Duration,
    /// What tells platforms apart, where no label does.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Option<CompareBy>,
    /// Label of the platform that others are compared with [default: the one on bare metal, else the first].
    #[arg(long, value_name = "LABEL")]
    pub baseline: Option<String>,
    /// Which requests, by the name of their outermost phase [default: those that take most of the time].
    #[arg(long, value_name = "NAME")]
    pub request: Option<String>,
    /// What to judge by: mean, throughput, or any percentile, like p95 or p99.9, for which each run has 10 requests beyond it [default: mean, p50, and of p99 and p90 the highest that has them].
    #[arg(long, value_name = "METRIC", value_delimiter = ',', value_parser = metric)]
    pub metric: Vec<Metric>,
    /// The difference that matters, in percent: of all metrics (3%) or of one (p99=10%).
    #[arg(long, value_name = "[METRIC=]PERCENT", value_delimiter = ',', value_parser = margin)]
    pub margin: Vec<(Option<Metric>, f64)>,
    /// Requests to leave out at the begin of each run [default: 2 % of 50 and more, if the program marked no warm-up].
    #[arg(long, value_name = "REQUESTS")]
    pub warmup: Option<u64>,
    /// Compare runs of different work, too.
    #[arg(long)]
    pub allow_unequal_work: bool,
    /// Give a verdict although latencies change from the begin to the end of the runs.
    #[arg(long)]
    pub allow_drift: bool,
}

/// What tells platforms apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareBy {
    /// Platform, cores, pinning and processor, as each run found them.
    Scenario,
    /// The name of the run.
    Name,
    /// The argument that a run came by.
    Argument,
}

impl CompareBy {
    /// The word for people and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            CompareBy::Scenario => "scenario",
            CompareBy::Name => "name",
            CompareBy::Argument => "argument",
        }
    }
}

/// Verdicts to fail on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Slower by any metric.
    Slower,
    /// Slower or faster by any metric.
    Different,
    /// Anything but equivalent, negligible or faster: also what could not be settled.
    NotEquivalent,
}

/// A report is of folders: what [`Choice`] has for traces is not offered.
fn of_folders(argument: Arg) -> Arg {
    let is_of_traces = ["jaeger", "service", "lookback"].contains(&argument.get_id().as_str());
    argument.hide(is_of_traces)
}

/// A page's address is followed when someone clicks on it, so it may not be a script.
fn address(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some(("http" | "https", _)) => Ok(text.to_owned()),
        _ => Err("must begin with http:// or https://".to_owned()),
    }
}

fn metric(text: &str) -> Result<Metric, String> {
    let must = "must be mean, throughput or a percentile like p95 or p99.9";
    Metric::by_name(text).ok_or_else(|| must.to_owned())
}

/// `3%` or `p99=10%`.
fn margin(text: &str) -> Result<(Option<Metric>, f64), String> {
    let (of, number) = match text.split_once('=') {
        Some((name, number)) => (Some(metric(name)?), number),
        None => (None, text),
    };
    let percent: f64 =
        number.trim_end_matches('%').trim().parse().map_err(|_| "not a number of percent".to_owned())?;
    if percent > 0.0 && percent <= 100.0 {
        Ok((of, percent / 100.0))
    } else {
        Err("must be more than 0 and at most 100 percent".to_owned())
    }
}
