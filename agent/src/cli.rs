//! What can be typed: commands, options, their help and examples. It does nothing with them.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

/// Charges every nanosecond of every phase of a program to what the kernel did with it.
#[derive(Clone, Debug, Parser)]
#[command(name = "guestscope", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  sudo guestscope run -- python3 serve.py        observe a program, explain its phases
  guestscope doctor                              what this guest allows, and how to get more

Exit codes: 0 fine, 2 failed. `run` passes on the exit code of the program (128 + signal if one ended it).")]
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
    /// Tell what this guest allows, hook by hook, and how to enable what is missing.
    Doctor(DoctorArguments),
}

/// Of `run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The program marks its phases with the marker library (C, Rust, Python: `import guestscope` works as it is);
without any mark the summary has one row per process.

Examples:
  sudo guestscope run -- python3 serve.py --port 8000
  sudo guestscope run --name nightly --output /var/lib/runs -- ./train --epochs 1
  sudo guestscope run --otlp http://localhost:4317 -- ./serve        and as traces to a collector or Jaeger
  sudo guestscope run --json -- ./serve > summary.json

Standard OTEL_EXPORTER_OTLP_* variables are honoured. Under sudo the program runs as the invoking user.")]
pub struct RunArguments {
    /// Name of the run and of the service [default: the program's file name].
    #[arg(long)]
    pub name: Option<String>,
    /// Folder in which the run folder is made.
    #[arg(long, default_value = "runs", value_name = "DIR")]
    pub output: PathBuf,
    /// Send every request as a trace to this OTLP endpoint (gRPC, or HTTP on port 4318).
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Print the summary as JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// Threads that can be tracked at once; each one takes about 700 bytes of kernel memory.
    #[arg(long, default_value_t = guestscope_ebpf::SLOTS, value_name = "N",
          value_parser = clap::value_parser!(u32).range(8..=65_535))]
    pub max_threads: u32,
    /// Keep waits of at least this long, each with who had the CPU last; at most 4s, `off` for none.
    #[arg(long, default_value = "100us", value_name = "TIME", value_parser = wait_threshold)]
    pub wait_threshold: Duration,
    /// Print the kernel side's own messages on standard error.
    #[arg(long, hide = true)]
    pub kernel_log: bool,
    /// The program and its arguments, after `--`.
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// A whole number with a unit, or `off`.
fn wait_threshold(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(4);
    if text == "off" {
        return Ok(Duration::ZERO);
    }
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let ns_of_unit = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err("not a time such as 100us, 1ms or off".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "not a whole number and a unit".to_owned())?;
    let time = Duration::from_nanos(number.saturating_mul(ns_of_unit));
    if time.is_zero() || time > MOST {
        return Err("must lie between 1ns and 4s, or be off".to_owned());
    }
    Ok(time)
}

/// Of `doctor`.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "Exit codes: 0 the whole ledger can be seen, 1 nothing can be observed here.")]
pub struct DoctorArguments {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
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
    fn thresholds(#[case] text: &str, #[case] ns: Option<u64>) {
        assert_eq!(wait_threshold(text).ok(), ns.map(Duration::from_nanos));
    }
}
