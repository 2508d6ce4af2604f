//! What the threads of a resident agent share: its configuration, its state, and what it was asked for.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::{seen::Seen, tables::Config, window::Window};
use crate::sinks::metrics::Metrics;

/// Most incidents that are listed: the last ones.
pub(super) const MOST_LISTED: usize = 256;

/// Most questions that wait to be obeyed: they are within a second.
const MOST_ASKED: usize = 64;

/// What is to be kept because somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The seconds around now.
    Now,
    /// A stretch of the recorder, wall times, ns since 1970.
    Stretch(u64, u64),
}

/// State of the agent.
#[derive(Debug)]
pub(super) struct Shared {
    config: Mutex<Arc<Config>>,
    asked: Mutex<Vec<Asked>>,
    status: Mutex<Status>,
    metrics: Mutex<Metrics>,
    window: Mutex<Window>,
    list: Mutex<List>,
    /// How many requests are handed over.
    pub(super) seen: Seen,
    /// The first incident is complete.
    pub(super) kept: Notify,
}

/// How the agent fares, as `ctl status --json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) version: String,
    pub(crate) name: String,
    pub(crate) scenario: String,
    pub(crate) fidelity: String,
    /// Since when it observes, RFC 3339.
    pub(crate) since: String,
    /// Observed processes.
    pub(crate) processes: u64,
    /// Requests and warm-ups so far.
    pub(crate) requests: u64,
    /// Those of them that were not looked at, so that the agent keeps to its share of CPU time.
    pub(crate) requests_unseen: u64,
    /// The part that is looked at now.
    pub(crate) seen_part: f64,
    /// Requests per second over the last ten seconds.
    pub(crate) requests_per_s: f64,
    /// Requests that are open for more than a second.
    pub(crate) open: u64,
    /// Segments of the flight recorder, and their bytes on disk.
    pub(crate) segments: u64,
    pub(crate) recorder_bytes: u64,
    /// Rows that were not written.
    pub(crate) rows_lost: u64,
    /// The part of the requests looked at whose rows are kept, so that the agent keeps to its share of CPU
    /// time.
    pub(crate) kept_part: f64,
    /// What was lost or not seen, by what it is, without zeros.
    pub(crate) losses: BTreeMap<String, u64>,
    /// Spans that the collector took, those that wait for it, and those that it never gets.
    pub(crate) spans_sent: u64,
    pub(crate) spans_waiting: u64,
    pub(crate) spans_lost: u64,
    /// Incidents that were kept, those that were only counted, and those that could not be kept.
    pub(crate) incidents: u64,
    pub(crate) incidents_alike: u64,
    pub(crate) incidents_too_many: u64,
    pub(crate) incidents_failed: u64,
    /// CPU time of the agent so far, ns.
    pub(crate) cpu_ns: u64,
    /// The same as part of one CPU, over the last ten seconds.
    pub(crate) cpu: f64,
    pub(crate) rss_bytes: u64,
    /// The last error, for people; empty if all went well.
    pub(crate) last_error: String,
}

/// An incident, as `ctl incidents --json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Listed {
    pub(crate) number: u64,
    /// RFC 3339.
    pub(crate) at: String,
    /// The same in ns since 1970; 0 by an agent that did not say it.
    pub(crate) at_ns: u64,
    pub(crate) trigger: String,
    /// Name of the request; empty if something else was noticed.
    pub(crate) request: String,
    pub(crate) duration_ns: u64,
    pub(crate) typical_ns: Option<u64>,
    /// The largest part of what it took longer; empty if unknown.
    pub(crate) cause: String,
    /// The run folder; empty while it is being made.
    pub(crate) folder: String,
    /// Why there is none, for people; empty if there is.
    pub(crate) error: String,
    /// Others alike, which were counted.
    pub(crate) alike: u64,
}

/// Incidents, and what was only counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct List {
    pub(super) next: u64,
    pub(super) too_many: u64,
    pub(super) incidents: VecDeque<Listed>,
}

impl Shared {
    pub(super) fn new(config: Config, status: Status, list: List) -> Arc<Self> {
        Arc::new(Self {
            config: Mutex::new(Arc::new(config)),
            asked: Mutex::default(),
            status: Mutex::new(status),
            metrics: Mutex::default(),
            window: Mutex::default(),
            list: Mutex::new(list),
            seen: Seen::default(),
            kept: Notify::new(),
        })
    }

    /// The configuration as it is now.
    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&locked(&self.config))
    }

    pub(super) fn take_over(&self, config: Config) {
        *locked(&self.config) = Arc::new(config);
    }

    /// Somebody asks for something to be kept. False if too many wait.
    pub(super) fn ask(&self, asked: Asked) -> bool {
        let mut all = locked(&self.asked);
        let has_room = all.len() < MOST_ASKED;
        if has_room {
            all.push(asked);
        }
        has_room
    }

    /// What was asked for since the last call.
    pub(super) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *locked(&self.asked))
    }

    pub(super) fn status(&self) -> MutexGuard<'_, Status> {
        locked(&self.status)
    }

    pub(super) fn metrics(&self) -> MutexGuard<'_, Metrics> {
        locked(&self.metrics)
    }

    pub(super) fn window(&self) -> MutexGuard<'_, Window> {
        locked(&self.window)
    }

    pub(super) fn list(&self) -> MutexGuard<'_, List> {
        locked(&self.list)
    }
}

impl List {
    /// Adds an incident. Returns its number.
    pub(super) fn add(&mut self, incident: Listed) -> u64 {
        let number = self.next;
        self.next += 1;
        self.incidents.push_back(Listed { number, ..incident });
        if self.incidents.len() > MOST_LISTED {
            self.incidents.pop_front();
        }
        number
    }

    /// The incident with this number, if it is still listed.
    pub(super) fn get(&mut self, number: u64) -> Option<&mut Listed> {
        self.incidents.iter_mut().find(|incident| incident.number == number)
    }
}

/// What a mutex holds, also after a thread panicked with it.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
