//! What `run` and `attach` take alike.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{
    sources::{self, function::Asked, socket::Watched},
    values::{self, Bytes},
};

/// Options that `run` and `attach` share.
#[derive(Args, Clone, Debug)]
pub struct Observation {
    /// Name of the run, and service name of its traces [default: OTEL_SERVICE_NAME, else the name of the
    /// program or container].
    #[arg(long)]
    pub name: Option<String>,
    /// Do not record the program's arguments in the run folder, the traces or the summary. Without this
    /// option they are recorded, with what looks like a password, token or key masked.
    #[arg(long)]
    pub no_args: bool,
    /// Directory in which to create the run folder.
    #[arg(short, long, default_value = "runs", value_name = "DIR")]
    pub output: PathBuf,
    /// Send every request as a trace to this OTLP endpoint (gRPC, or HTTP on port 4318).
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Keep and send only this part of the requests, chosen at random: `1/100`, `1%` or `0.01`. The live
    /// line and metrics count all.
    #[arg(long, value_name = "PART", value_parser = values::part)]
    pub sample: Option<f64>,
    /// Keep at most so many bytes of rows: the oldest go first. At the end, while they become tables, they
    /// take up to twice as much.
    #[arg(long, value_name = "BYTES", value_parser = keep)]
    pub keep: Option<Bytes>,
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
    /// preset: llama.cpp, onnxruntime, tensorflow, triton, loadgen, nccl.
    #[arg(long, value_name = "NAME=LIB:SYMBOL", value_parser = sources::function::parse)]
    pub phase: Vec<Asked>,
    /// BTF file for this kernel, if built without CONFIG_DEBUG_INFO_BTF.
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,
    /// Print log messages of the BPF programs on standard error.
    #[arg(long, hide = true)]
    pub kernel_log: bool,
}

/// Least budget of `--keep`: each of the segments it is divided into takes some 60 KB when it is empty.
const LEAST_KEPT: Bytes = Bytes(2 << 20);

/// Parses `--keep`.
fn keep(text: &str) -> Result<Bytes, String> {
    let bytes = Bytes::try_from(text.to_owned())?;
    if bytes < LEAST_KEPT { Err(format!("must be at least {LEAST_KEPT}")) } else { Ok(bytes) }
}

/// Parses `--wait-threshold`: a whole number with a unit, or `off`, which is zero.
fn wait_threshold(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(4);
    if text == "off" {
        return Ok(Duration::ZERO);
    }
    let time = values::time(text).ok_or_else(|| "not a time such as 100us, 1ms or off".to_owned())?;
    if time.is_zero() || time > MOST {
        return Err("must lie between 1ns and 4s, or be off".to_owned());
    }
    Ok(time)
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
}
