//! What `ctl` takes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{clock::ClockPair, values};

/// Arguments of `ctl`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sudo guestscope ctl status               how the agent fares
  sudo guestscope ctl incidents            what it kept, the newest first
  sudo guestscope ctl trigger              keep what was seen around now
  sudo guestscope ctl keep --from 20m --to 10m      keep what the recorder has from 20 to 10 minutes ago
  sudo guestscope ctl incidents --json | jq -r '.[0].folder' | xargs guestscope explain

Exit codes: 0 success, 2 failure.")]
pub struct CtlArguments {
    /// What to ask.
    #[arg(value_enum)]
    pub what: What,
    /// The agent's control socket, as `socket` in its configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/guestscope/watch.sock")]
    pub socket: PathBuf,
    /// With `keep`: begin of the stretch, as a time ago (20m) or a time of RFC 3339.
    #[arg(long, value_name = "TIME", value_parser = moment, required_if_eq("what", "keep"))]
    pub from: Option<u64>,
    /// With `keep`: its end [default: now].
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub to: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What a resident agent is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// How it fares: processes, requests, recorder, incidents, its own cost.
    Status,
    /// What it kept, the newest first.
    Incidents,
    /// Keep what was seen around now.
    Trigger,
    /// Keep a stretch of what was recorded, for instance to compare the time before and after a change.
    Keep,
}

/// Parses a time ago, or a time of RFC 3339. Yields wall time, ns since 1970.
fn moment(text: &str) -> Result<u64, String> {
    if let Some(ago) = values::time(text) {
        let ago = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
        return Ok(ClockPair::now().wall_ns.saturating_sub(ago));
    }
    let time = chrono::DateTime::parse_from_rfc3339(text).ok();
    let ns = time.and_then(|time| time.timestamp_nanos_opt()).and_then(|ns| u64::try_from(ns).ok());
    ns.ok_or_else(|| "neither a time ago such as 20m, nor a time such as 2026-11-29T14:05:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2026-11-29T14:05:00Z", Some(1_795_961_100_000_000_000))]
    #[case("2026-11-29T15:05:00+01:00", Some(1_795_961_100_000_000_000))]
    #[case("14:05", None)]
    #[case("yesterday", None)]
    fn moments(#[case] text: &str, #[case] ns: Option<u64>) {
        assert_eq!(moment(text).ok(), ns);
    }

    #[test]
    fn a_time_ago_is_before_now() {
        let now = ClockPair::now().wall_ns;
        let ago = now.abs_diff(moment("20m").expect("it is one"));
        assert!(ago.abs_diff(1_200_000_000_000) < 60_000_000_000, "{ago}");
    }
}
