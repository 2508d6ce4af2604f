//! What `watch` takes.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `watch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Stays, and observes the programs that a configuration selects, also those that start later. The last
minutes are kept in full detail (a flight recorder, bounded in time and bytes). A slow request, pressure,
SIGUSR1 or `guestscope ctl trigger` turns the seconds around it into an incident: a run folder that
explain, report and compare read. Incidents alike are counted instead of kept again.

A configuration that selects a Python server on port 8000, and keeps what took half a second:

  [[programs]]
  command = \"*uvicorn*\"
  [observe]
  requests = [\"port:8000\"]
  [[triggers]]
  slower_than = \"500ms\"

docs/watch.md describes every key. SIGHUP reads the file again: programs, triggers, incidents and
[agent] are taken over at once, the rest at the next start.

Examples:
  sudo guestscope watch --config watch.toml
  sudo guestscope watch --config watch.toml --check      check the file, and say what it means
  sudo guestscope ctl incidents                          what was kept

Exit codes: 0 success, 2 failure.")]
pub struct WatchArguments {
    /// The configuration.
    #[arg(short, long, value_name = "FILE", default_value = "/etc/guestscope/watch.toml")]
    pub config: PathBuf,
    /// Check the configuration, print what it means, and end.
    #[arg(long)]
    pub check: bool,
    /// End after the first incident.
    #[arg(long, conflicts_with = "check")]
    pub once: bool,
}
