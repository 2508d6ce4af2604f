//! The tables of a configuration, as they are written, and what holds where nothing is written.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::Deserialize;

use super::{trigger::Trigger, values::Time};
use crate::values::Bytes;

/// What a resident agent observes and keeps.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    /// Service name of traces, and a part of the names of folders.
    pub(super) name: String,
    /// Where everything is kept; for root alone.
    pub(super) directory: PathBuf,
    /// The socket of `guestscope ctl`.
    pub(super) socket: PathBuf,
    /// Programs that are observed: those that fit any of these.
    pub(super) programs: Vec<Program>,
    pub(super) observe: Observe,
    pub(super) recorder: Recorder,
    /// What makes an incident.
    pub(super) triggers: Vec<Trigger>,
    pub(super) incidents: Incidents,
    pub(super) metrics: Exposed,
    pub(super) agent: Own,
}

/// What the agent itself may use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Own {
    /// Part of the guest's CPU time, percent.
    pub(super) cpu_percent: f64,
    /// All requests are looked at, whatever that takes.
    pub(super) see_all: bool,
}

/// Where metrics are given out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Exposed {
    /// Address for `GET /metrics`; none: they are not given out.
    pub(super) listen: Option<SocketAddr>,
    /// OTLP endpoint to which they are pushed; none: they are not.
    pub(super) otlp: Option<String>,
}

/// A choice of programs: all that is given must fit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Program {
    /// Pattern for the path of the program's file.
    pub(super) executable: Option<String>,
    /// Pattern for the command line, its words separated by spaces.
    pub(super) command: Option<String>,
    /// Pattern for the path of the control group; groups below it are included.
    pub(super) cgroup: Option<String>,
    /// ID or name of a container, or a prefix of either.
    pub(super) container: Option<String>,
    /// A TCP port on which it listens.
    pub(super) port: Option<u16>,
    /// It has mapped a file that carries the marker.
    pub(super) marked: bool,
}

/// How programs are observed: the options of `attach` of the same meaning.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Observe {
    /// As `--requests`.
    pub(super) requests: Vec<String>,
    /// As `--phase`.
    pub(super) phases: Vec<String>,
    /// As `--wait-threshold`.
    pub(super) wait_threshold: Option<Time>,
    /// As `--max-threads`.
    pub(super) max_threads: Option<u32>,
    /// As `--otlp`.
    pub(super) otlp: Option<String>,
    /// As `--btf`.
    pub(super) btf: Option<PathBuf>,
}

/// The flight recorder.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Recorder {
    /// Rows are kept; otherwise there are metrics and no incidents.
    pub(super) rows: bool,
    /// Age at which what was seen is removed.
    pub(super) window: Time,
    /// Length of a segment, the unit in which it is removed.
    pub(super) segment: Time,
    /// Most bytes on disk.
    pub(super) keep: Bytes,
}

/// Incidents, and how many of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Incidents {
    /// What is kept before the begin of what was noticed.
    pub(super) before: Time,
    /// What is kept after its end.
    pub(super) after: Time,
    /// Most incidents an hour; further ones are counted.
    pub(super) per_hour: u32,
    /// For so long, others of the same request and cause are counted instead of kept.
    pub(super) alike_for: Time,
    /// Most bytes on disk: the oldest are removed.
    pub(super) keep: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "guest".to_owned(),
            directory: PathBuf::from("/var/lib/guestscope"),
            socket: PathBuf::from("/run/guestscope/watch.sock"),
            programs: Vec::new(),
            observe: Observe::default(),
            recorder: Recorder::default(),
            triggers: Vec::new(),
            incidents: Incidents::default(),
            metrics: Exposed::default(),
            agent: Own::default(),
        }
    }
}

impl Default for Own {
    fn default() -> Self {
        Self { cpu_percent: 1.0, see_all: false }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        let (window, segment) = (Duration::from_mins(5), Duration::from_secs(10));
        Self { rows: true, window: Time(window), segment: Time(segment), keep: Bytes(1 << 30) }
    }
}

impl Default for Incidents {
    fn default() -> Self {
        Self {
            before: Time(Duration::from_secs(20)),
            after: Time(Duration::from_secs(5)),
            per_hour: 6,
            alike_for: Time(Duration::from_mins(10)),
            keep: Bytes(1 << 30),
        }
    }
}
