//! `perf bench sched pipe` pinned to one CPU: the time that observers add to a round trip (two switches, two
//! wakeups).
//!
//! Pinned, it varies by a few per cent; unpinned, too much to be measured. The other observers measure less
//! than we do: bpftrace and libbpf-tools' runqlat only measure run-queue latency here.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{
    Bench, Row,
    ratio::{Ratio, median},
};
use crate::{command, process};

/// Runs under one observer in a round, 0.2 s each.
const RUNS: &str = "for run in $(seq 15); do taskset -c 1 perf bench sched pipe -l 40000 || exit 1; done";
/// The last runs count, by their median: a neighbour that takes the CPU for a moment spoils one of them. In
/// the first 0.3 s threads have the sampler's clocks, and for a second after that the kernel still looks for
/// clocks at every switch: a round trip took 6.7 us in the first time, 6.2 in the second, and 6.0 from then
/// on.
const COUNTED: usize = 7;
/// A usual bpftrace script for run-queue latency.
const SCRIPT: &str = "
tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @q[args->pid] = nsecs; }
tracepoint:sched:sched_switch {
  if (args->prev_state == 0) { @q[args->prev_pid] = nsecs; }
  $t = @q[args->next_pid];
  if ($t) { @us = hist((nsecs - $t) / 1000); delete(@q[args->next_pid]); }
}
BEGIN { printf(\"ready\\n\"); }";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observer {
    Nothing,
    Empty,
    Untracked,
    /// Tracked, without the sampler's clock in each thread, which the kernel stops and starts at every
    /// switch.
    Unsampled,
    Tracked,
    Runqlat,
    Bpftrace,
}

impl Observer {
    fn label(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Empty => "empty programs",
            Self::Untracked => "agent, untracked",
            Self::Unsampled => "agent, tracked, no sampler",
            Self::Tracked => "agent, tracked",
            Self::Runqlat => "libbpf-tools runqlat",
            Self::Bpftrace => "bpftrace run-queue latency",
        }
    }

    /// Budget of its ratio.
    fn budget(self) -> &'static str {
        match self {
            Self::Tracked => "<= 2.6",
            Self::Untracked => "<= 1.3",
            Self::Nothing | Self::Empty | Self::Unsampled | Self::Runqlat | Self::Bpftrace => "",
        }
    }

    fn hold(self) -> &'static [&'static str] {
        match self {
            Self::Empty => &["empty"],
            Self::Untracked => &["ledger"],
            Self::Unsampled => &["ledger", "--track", "--unsampled"],
            Self::Tracked => &["ledger", "--track"],
            Self::Nothing | Self::Runqlat | Self::Bpftrace => &["none"],
        }
    }
}

/// Time added to a round trip.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let mut observers =
        vec![Observer::Nothing, Observer::Empty, Observer::Untracked, Observer::Unsampled, Observer::Tracked];
    for (observer, program) in [(Observer::Runqlat, "runqlat"), (Observer::Bpftrace, "bpftrace")] {
        if command::find(program).is_some() {
            observers.push(observer);
        }
    }
    let measured =
        bench.alternate("round trips of a pipe", &observers, |&observer| trip_ns(bench, observer))?;
    let of = |wanted: Observer| observers.iter().position(|&o| o == wanted).map(|index| &measured[index]);
    let bare = of(Observer::Nothing).context("no round trips without an observer")?;
    let added = |observer: Observer| -> Option<Vec<f64>> {
        Some(of(observer)?.iter().zip(bare).map(|(with, without)| with - without).collect())
    };
    let mut rows = Vec::new();
    let least = added(Observer::Empty).unwrap_or_default();
    for &observer in &observers {
        let measured = if observer == Observer::Nothing {
            format!("{:.0} ns", median(bare))
        } else {
            format!("+{:.0} ns", median(&added(observer).unwrap_or_default()))
        };
        let against_empty = observer != Observer::Nothing && observer != Observer::Empty;
        let ratio =
            if against_empty { Ratio::new(&added(observer).unwrap_or_default(), &least) } else { None };
        let what = format!("pipe round trip, {}", observer.label());
        rows.push(Row { what, measured, ratio, against: "of empty's", budget: observer.budget() });
    }
    if let Some(tracked) = of(Observer::Tracked) {
        rows.push(Row {
            what: "pipe round trips per second, agent, tracked".to_owned(),
            measured: String::new(),
            ratio: Ratio::new(bare, tracked),
            against: "of unobserved",
            budget: ">= 0.97",
        });
    }
    if let (Some(own), Some(peer)) = (added(Observer::Tracked), added(Observer::Runqlat)) {
        rows.push(Row {
            what: "pipe round trip, agent tracked against runqlat".to_owned(),
            measured: String::new(),
            ratio: Ratio::new(&own, &peer),
            against: "of runqlat's",
            budget: "<= 0.65",
        });
    }
    Ok(rows)
}

fn trip_ns(bench: &Bench<'_>, observer: Observer) -> Result<f64> {
    let peer = match observer {
        Observer::Runqlat => Some(start("runqlat", &["3600"], None)?),
        Observer::Bpftrace => Some(start("bpftrace", &["-e", SCRIPT], Some("ready"))?),
        Observer::Nothing
        | Observer::Empty
        | Observer::Untracked
        | Observer::Unsampled
        | Observer::Tracked => None,
    };
    let mut run = Command::new(&bench.hooks);
    run.args(observer.hold()).arg("--");
    run.args(["sh", "-c", RUNS]);
    let output = run.output().context("could not start the example `hooks`");
    if let Some(mut peer) = peer {
        process::end(peer.id());
        peer.wait()?;
    }
    let output = output?;
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines = text.lines().filter(|line| line.contains("usecs/op"));
    let us: Vec<f64> = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    if us.len() < COUNTED {
        bail!("too few runs of round trips: {}: {}", us.len(), command::tail(&text));
    }
    Ok(median(&us[us.len() - COUNTED..]) * 1000.0)
}

/// Starts an observer and waits until it is attached: until it says so, or for 2 s if it never does.
fn start(program: &str, arguments: &[&str], ready: Option<&str>) -> Result<Child> {
    let mut start = Command::new(program);
    start.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
    process::end_with_parent(&mut start);
    let mut child = start.spawn().with_context(|| format!("could not start: `{program}`"))?;
    match (ready, child.stdout.take()) {
        (Some(word), Some(output)) => {
            let mut lines = BufReader::new(output).lines();
            if !lines.any(|line| line.is_ok_and(|line| line.contains(word))) {
                bail!("`{program}` ended before it was attached");
            }
        }
        _ => std::thread::sleep(Duration::from_secs(2)),
    }
    Ok(child)
}
