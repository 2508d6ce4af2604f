//! What `compare` takes, and the choice of runs that `report` takes too.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use crate::{analyze::compare::Metric, values::duration};

/// Arguments of `compare`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Each run counts as one sample; the verdict rests on the spread between runs of one platform. Take
ten runs per platform (at least five for a verdict), and alternate the platforms, so that changes of
the machine affect both alike. The margin is the smallest difference that matters: 5 % for
percentiles above p50, 2 % for all other metrics, unless --margin is given.

  slower, faster   significantly different, by more than the margin
  negligible       significantly different, by less than the margin
  equivalent       significantly within the margin
  inconclusive     none of these; the output says how many runs would settle it

Runs with the same label form a platform; without labels, runs with the same scenario (platform,
cores, pinning, processor). If there is only one scenario, runs are grouped by name, or else by the
argument that they were found under. If each argument is a directory with runs of one scenario (or
name), each argument is a platform. Differences between runs of one platform (machine, kernel, CPU,
limits, directory) are listed.

Examples:
  guestscope compare runs                            all scenarios in a directory
  guestscope compare before=runs/a after=runs/b      two sets of runs of one machine
  guestscope compare runs --baseline BM/4/PIN/CPU    choose the baseline platform
  guestscope compare old=a new=b --fail-on slower    for CI: exit code 1 if new is slower
  guestscope compare runs --self-test                check for false differences
  guestscope compare --jaeger http://localhost:16686 --service bm=ic-bm --service vm=ic-vm
                                                     compare traces stored in Jaeger

Exit codes: 0 success, 1 a verdict matched --fail-on or the self-test failed, 2 failure.")]
pub struct CompareArguments {
    /// Options shared with `report`.
    #[command(flatten)]
    pub choice: Choice,
    /// Exit with code 1 if any platform has this verdict against the baseline.
    #[arg(long, value_enum, value_name = "VERDICT")]
    pub fail_on: Option<FailOn>,
    /// Split each platform's runs in half 1,000 times; halves must not differ.
    #[arg(long, conflicts_with_all = ["baseline", "fail_on"])]
    pub self_test: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options that `compare` and `report` share: which runs, how they form platforms, and the metrics.
#[derive(Args, Clone, Debug)]
pub struct Choice {
    /// Run folders, or directories of run folders; LABEL=DIR names the platform.
    #[arg(required_unless_present = "jaeger", value_name = "[LABEL=]DIR")]
    pub folders: Vec<PathBuf>,
    /// Read runs from Jaeger's query API at this address; each run ID of the services is a run.
    #[arg(long, value_name = "URL", requires = "service")]
    pub jaeger: Option<String>,
    /// With `--jaeger`: service name of the runs, as given to `run --name`; may be repeated.
    #[arg(long, value_name = "[LABEL=]NAME", requires = "jaeger")]
    pub service: Vec<String>,
    /// With `--jaeger`: how far back to look for traces.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    pub lookback: Duration,
    /// How to group runs without labels into platforms.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Option<CompareBy>,
    /// Label of the baseline platform [default: the one on bare metal, else the first].
    #[arg(long, value_name = "LABEL")]
    pub baseline: Option<String>,
    /// Name of the requests to compare [default: the name with the largest total time].
    #[arg(long, value_name = "NAME")]
    pub request: Option<String>,
    /// Metrics to compare: mean, throughput, or a percentile such as p95 or p99.9, with at least 10 requests
    /// beyond it in each run [default: mean, p50, and p99, or p90 if there are too few requests].
    #[arg(long, value_name = "METRIC", value_delimiter = ',', value_parser = metric)]
    pub metric: Vec<Metric>,
    /// Smallest difference that matters, in percent: for all metrics (3%) or for one (p99=10%).
    #[arg(long, value_name = "[METRIC=]PERCENT", value_delimiter = ',', value_parser = margin)]
    pub margin: Vec<(Option<Metric>, f64)>,
    /// Requests to leave out at the start of each run, besides those marked as warm-up [default: the first 2
    /// % of each name, or 0 if the program marked any].
    #[arg(long, value_name = "REQUESTS")]
    pub warmup: Option<u64>,
    /// Compare the runs even if they did different work.
    #[arg(long)]
    pub allow_unequal_work: bool,
    /// Give a verdict even if latencies drift between the start and the end of the runs.
    #[arg(long)]
    pub allow_drift: bool,
}

/// How runs without labels are grouped into platforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareBy {
    /// Platform, cores, pinning and processor, as detected in each run.
    Scenario,
    /// Name of the run.
    Name,
    /// Command-line argument under which the run was found.
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

/// Verdicts that make `compare` exit with code 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Slower in any metric.
    Slower,
    /// Slower or faster in any metric.
    Different,
    /// Anything but equivalent, negligible or faster; this includes inconclusive.
    NotEquivalent,
}

fn metric(text: &str) -> Result<Metric, String> {
    let must = "must be mean, throughput or a percentile like p95 or p99.9";
    Metric::by_name(text).ok_or_else(|| must.to_owned())
}

/// Parses `--margin`: `3%` or `p99=10%`.
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
