//! The command line of the load: names, defaults, help. Yields a plan, or an error for options that exclude
//! each other. It starts nothing.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, value_parser};

use super::{MOST_REQUESTS, Plan, Target, error::LoadError, scenario::Scenario};
use crate::{
    platform::{MachineOptions, TorchOptions},
    stall::size::Size,
};

/// LoadGen's bound for Server where none is set: 100 ms.
const TARGET_LATENCY_NS: u64 = 100_000_000;

/// Options of the load.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load, as in MLPerf's LoadGen")]
pub struct LoadOptions {
    /// How requests arrive
    #[arg(long, value_enum, ignore_case = true, default_value_t = Scenario::SingleStream)]
    pub scenario: Scenario,
    /// Minimum number of measured requests [default: 1000, with --duration 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MOST_REQUESTS))]
    requests: Option<u64>,
    /// Minimum time to start requests, such as 60s (a submission to MLPerf: 600s)
    #[arg(long, value_name = "TIME")]
    duration: Option<Time>,
    /// Requests before those, marked `warmup` and left out of all statistics [default: 10]
    #[arg(long, value_name = "K", value_parser = value_parser!(u64).range(0..=1_000_000))]
    warmup: Option<u64>,
    /// Samples per request [default: 1, multi-stream 8]
    #[arg(long, value_name = "B", value_parser = value_parser!(u64).range(1..=1024))]
    batch: Option<u64>,
    /// Server: requests that arrive per second, on average
    #[arg(long, value_name = "RATE")]
    qps: Option<Rate>,
    /// Server: the bound for latency, from the scheduled arrival to the end [default: 100ms]
    #[arg(long, value_name = "TIME")]
    target_latency: Option<Time>,
    /// The percentile that is judged [default: 90, multi-stream and server 99]
    #[arg(long, value_name = "PERCENT")]
    percentile: Option<Percentile>,
    /// Server and offline: threads that take requests, each with its own copy of the model [default: 1]
    #[arg(long, value_name = "W", value_parser = value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Server: look for the highest rate that holds the bound, beginning at --qps, then measure that
    #[arg(long)]
    find_peak: bool,
    /// Write an HDR histogram of the latencies: percentiles as text if FILE ends in .hgrm, else V2
    #[arg(long, value_name = "FILE")]
    pub histogram: Option<PathBuf>,
    /// Device and threads of libtorch.
    #[command(flatten)]
    pub torch: TorchOptions,
    /// CPUs, and a second job.
    #[command(flatten)]
    pub machine: MachineOptions,
}

/// A workload's defaults.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    pub requests: u64,
    pub warmup: u64,
}

impl LoadOptions {
    /// How many requests may run at once.
    pub fn workers(&self) -> u32 {
        self.workers.unwrap_or(1)
    }

    /// The plan. `progress` says whether a bar may be drawn.
    pub fn plan(&self, defaults: Defaults, seed: u64, progress: bool) -> Result<Plan, LoadError> {
        self.check()?;
        let defaults = match self.duration {
            Some(_) => Defaults { requests: 1, ..defaults },
            None => defaults,
        };
        let target = Target {
            percentile: self.percentile.map_or(self.scenario.percentile(), |percentile| percentile.0),
            latency_ns: self.target_latency.map_or(TARGET_LATENCY_NS, |time| time.ns),
        };
        Ok(Plan {
            scenario: self.scenario,
            requests: self.requests.unwrap_or(defaults.requests),
            duration_ns: self.duration.map_or(0, |time| time.ns),
            warmup: self.warmup.unwrap_or(defaults.warmup),
            workers: self.workers(),
            qps: self.qps.map(|rate| rate.0),
            target,
            find_peak: self.find_peak,
            seed,
            progress,
        })
    }

    /// Samples per request.
    pub fn batch(&self) -> u64 {
        self.batch.unwrap_or(self.scenario.batch())
    }

    fn check(&self) -> Result<(), LoadError> {
        let seconds = self.duration.map_or(0.0, |time| time.ns as f64 / 1e9);
        if let Some(Rate(qps)) = self.qps
            && qps * seconds > MOST_REQUESTS as f64
        {
            return Err(LoadError::TooMany { qps, seconds });
        }
        let scenario = self.scenario;
        if scenario == Scenario::Server {
            let has_rate = self.qps.is_some() || self.find_peak;
            return if has_rate { Ok(()) } else { Err(LoadError::NoRate) };
        }
        let of_server = [
            ("--qps", self.qps.is_some()),
            ("--target-latency", self.target_latency.is_some()),
            ("--find-peak", self.find_peak),
            ("--percentile", self.percentile.is_some() && scenario == Scenario::Offline),
        ];
        if let Some((option, _)) = of_server.into_iter().find(|(_, given)| *given) {
            return Err(LoadError::NotOfScenario { option, scenario: scenario.name() });
        }
        match self.workers {
            Some(workers @ 2..) if scenario.is_stream() => Err(LoadError::Workers { workers }),
            _ => Ok(()),
        }
    }
}

/// `60s`, `15ms`: 1 us to 30 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Nanoseconds.
    pub ns: u64,
}

/// Error: the text is no time between these bounds.
#[derive(Debug, thiserror::Error)]
#[error("a time is like 60s, 15ms or 1.5s, from 1us to 2592000s")]
pub struct NotATime;

impl FromStr for Time {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        match text.parse() {
            Ok(Size::Time { ns: ns @ 1_000..=2_592_000_000_000_000 }) => Ok(Self { ns }),
            _ => Err(NotATime),
        }
    }
}

/// Requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate(f64);

#[derive(Debug, thiserror::Error)]
#[error("a rate is a number of requests per second, from 0.001 to 1000000")]
struct NotARate;

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let rate = text.parse().map_err(|_| NotARate)?;
        if (0.001..=1e6).contains(&rate) { Ok(Self(rate)) } else { Err(NotARate) }
    }
}

/// Latencies of all requests.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Percentile(f64);

#[derive(Debug, thiserror::Error)]
#[error("a percentile is a number from 50 to 99.99")]
struct NotAPercentile;

impl FromStr for Percentile {
    type Err = NotAPercentile;

    fn from_str(text: &str) -> Result<Self, NotAPercentile> {
        let percent = text.parse().map_err(|_| NotAPercentile)?;
        if (50.0..=99.99).contains(&percent) { Ok(Self(percent)) } else { Err(NotAPercentile) }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::{Defaults, LoadOptions, Percentile, Rate, Time};
    use crate::load::{Plan, Target, scenario::Scenario};

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        load: LoadOptions,
    }

    fn options(arguments: &[&str]) -> LoadOptions {
        Typed::try_parse_from([&["x"], arguments].concat()).unwrap().load
    }

    fn plan(arguments: &[&str]) -> Result<Plan, String> {
        let defaults = Defaults { requests: 1000, warmup: 10 };
        options(arguments).plan(defaults, 7, false).map_err(|error| error.to_string())
    }

    #[test]
    fn a_scenario_brings_its_own_defaults() {
        let single = plan(&[]).unwrap();
        let expected = Plan {
            scenario: Scenario::SingleStream,
            requests: 1000,
            duration_ns: 0,
            warmup: 10,
            workers: 1,
            qps: None,
            target: Target { percentile: 90.0, latency_ns: 100_000_000 },
            find_peak: false,
            seed: 7,
            progress: false,
        };
        assert_eq!(single, expected);
        assert_eq!(options(&[]).batch(), 1);
        assert_eq!(options(&["--scenario", "multi-stream"]).batch(), 8);
        let judged = Target { percentile: 99.0, latency_ns: 100_000_000 };
        assert_eq!(plan(&["--scenario", "MultiStream"]).unwrap().target, judged);
        let server = plan(&["--scenario", "server", "--qps", "20", "--duration", "1.5s"]).unwrap();
        assert_eq!((server.requests, server.duration_ns, server.qps), (1, 1_500_000_000, Some(20.0)));
        assert_eq!(server.target, judged);
    }

    #[rstest]
    #[case(&["--scenario", "server", "--qps", "1e5", "--duration", "101s"], "more requests than are kept: 100000 per second for 101 s")]
    #[case(&["--scenario", "server"], "no rate of arrivals given: --scenario server")]
    #[case(&["--qps", "3"], "--qps has no meaning for a scenario: SingleStream")]
    #[case(&["--find-peak"], "--find-peak has no meaning for a scenario: SingleStream")]
    #[case(&["--scenario", "offline", "--target-latency", "3ms"], "--target-latency has no meaning for a scenario: Offline")]
    #[case(&["--scenario", "offline", "--percentile", "90"], "--percentile has no meaning for a scenario: Offline")]
    #[case(&["--workers", "2"], "a single stream has one worker, and --workers is: 2")]
    fn what_does_not_go_together_is_refused(#[case] arguments: &[&str], #[case] expected: &str) {
        assert_eq!(plan(arguments).unwrap_err(), expected);
    }

    #[rstest]
    #[case("0", false)]
    #[case("0.001", true)]
    #[case("1e6", true)]
    #[case("1000001", false)]
    #[case("NaN", false)]
    #[case("-1", false)]
    #[case("many", false)]
    fn a_rate_is_a_sane_number(#[case] text: &str, #[case] accepted: bool) {
        assert_eq!(text.parse::<Rate>().is_ok(), accepted);
    }

    #[rstest]
    #[case("49.9", false)]
    #[case("99.9", true)]
    #[case("100", false)]
    #[case("NaN", false)]
    fn a_percentile_is_a_tail(#[case] text: &str, #[case] accepted: bool) {
        assert_eq!(text.parse::<Percentile>().is_ok(), accepted);
    }

    #[rstest]
    #[case("15ms", Some(15_000_000))]
    #[case("15", None)]
    #[case("999ns", None)]
    #[case("2592001s", None)]
    #[case("4KiB", None)]
    fn a_time_has_a_unit(#[case] text: &str, #[case] expected: Option<u64>) {
        assert_eq!(text.parse::<Time>().ok().map(|time| time.ns), expected);
    }
}
