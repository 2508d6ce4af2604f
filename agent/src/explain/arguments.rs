//! What `explain` takes.

use std::path::PathBuf;

use clap::Args;

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
