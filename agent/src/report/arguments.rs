//! What `report` takes.

use std::path::PathBuf;

use clap::{Arg, Args};

use crate::compare::Choice;

/// Arguments of `report`.
#[derive(Args, Clone, Debug)]
#[command(mut_args(of_folders))]
#[command(after_help = "\
Writes one HTML file without scripts or external content; the numbers behind each chart are in
tables. It shows the verdict of `compare`, time by platform, phase and cause, the parts of the
difference, latency by quantile, timelines of single requests with their waits and CPU migrations,
and the evidence. Runs of a single platform are reported without a verdict.

Examples:
  guestscope report runs --output report.html
  guestscope report before=runs/a after=runs/b --output change.html
  guestscope report runs --output report.html --jaeger-ui http://localhost:16686     links to traces

Exit codes: 0 success, 2 failure.")]
pub struct ReportArguments {
    /// Options shared with `compare`.
    #[command(flatten)]
    pub choice: Choice,
    /// File to write; it must not exist yet [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Address of Jaeger's web page, to link requests to their traces.
    #[arg(long, value_name = "URL", value_parser = address)]
    pub jaeger_ui: Option<String>,
}

/// Hides the Jaeger options of [`Choice`] from `report`, which reads folders only.
fn of_folders(argument: Arg) -> Arg {
    let is_of_traces = ["jaeger", "service", "lookback"].contains(&argument.get_id().as_str());
    argument.hide(is_of_traces)
}

/// Parses `--jaeger-ui`. Only http and https: the report links to it, and a `javascript:` link would run
/// code.
fn address(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some(("http" | "https", _)) => Ok(text.to_owned()),
        _ => Err("must begin with http:// or https://".to_owned()),
    }
}
