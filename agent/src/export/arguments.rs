//! What `export` takes.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use crate::values::duration;

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
  guestscope export runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --to otlp-json --output ic.jsonl
  guestscope export runs/2026-11-21T08-10-21-MVM-2-VNL-CPU-ic --to perfetto --output ic.perfetto-trace
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
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
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
