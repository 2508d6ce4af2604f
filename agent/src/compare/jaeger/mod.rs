//! Runs from Jaeger: traces of services in a time range, split into runs by the run ID in their resources.
//!
//! A search returns a limited number of traces and does not report whether there were more. So a time range
//! with a full answer is halved, until no answer is full. Nothing is changed in Jaeger or stored here.

mod answer;
mod bounded;
mod client;
mod error;
mod exchange;
mod rebuild;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashSet},
    convert::Infallible,
    fmt::Display,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub use self::error::JaegerError;
use self::{
    answer::{Found, MOST_ORIGINS, Origin, Span},
    bounded::{Bounded, with_room},
    client::Client,
    exchange::Answer,
};
use super::{read::ReadRun, sources::Source};
use crate::{
    analyze::compare::{RunDigest, Warmup},
    folder::{ClockPair, Manifest, RowCounts, State, Versions, rfc3339},
    percent,
    phase::Request,
    untrusted::{self, Untrusted},
};

/// Traces of one answer.
const PAGE: usize = 1_000;
/// Spans of a service: some 500 bytes each, 250,000 of them. Their requests take as much for a moment.
const MOST_SPAN_BYTES: usize = 128 << 20;
/// Spans of time that are not halved any more, ns.
const SHORTEST_NS: u64 = 1_000_000;
/// Clocks of machines differ: so far into the future it looks.
const AHEAD: Duration = Duration::from_mins(5);

/// A service, and its platform label if the caller gave one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Service {
    name: String,
    label: Option<String>,
}

impl Service {
    /// `[LABEL=]NAME`.
    fn parse(text: &str) -> Self {
        match text.split_once('=').filter(|(label, name)| !label.is_empty() && !name.is_empty()) {
            Some((label, name)) => Self { name: name.to_owned(), label: Some(label.to_owned()) },
            None => Self { name: text.to_owned(), label: None },
        }
    }
}

/// What to ask Jaeger for.
pub(super) struct Question<'a> {
    /// Address, as typed.
    pub(super) url: &'a str,
    /// Services, as typed.
    pub(super) services: &'a [String],
    /// How far back to search.
    pub(super) lookback: Duration,
    /// Which requests at the start of a run do not count.
    pub(super) warmup: Warmup,
}

/// All runs of the services; `progress` is called with the number of traces so far.
pub(super) fn read(question: &Question<'_>, progress: &dyn Fn(usize)) -> Result<Vec<ReadRun>, JaegerError> {
    let client = Client::new(question.url)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let [from_ns, to_ns] =
        [now.saturating_sub(question.lookback), now + AHEAD].map(|time| time.as_nanos() as u64);
    let known = services(&client)?;
    let mut runs = Vec::new();
    let mut before = 0;
    for service in question.services.iter().map(|text| Service::parse(text)) {
        if !known.contains(&service.name) {
            return Err(JaegerError::Service { name: service.name, known: untrusted::listed(known) });
        }
        let mut search = Search {
            client: &client,
            service: &service.name,
            traces: BTreeMap::new(),
            origins: Vec::new(),
            spans: 0,
            bytes: 0,
        };
        search.between(from_ns, to_ns, &|found| progress(before + found))?;
        before += search.traces.len();
        let found = search.runs(&service, question.warmup);
        if found.is_empty() {
            let lookback_s = question.lookback.as_secs();
            return Err(JaegerError::None { name: service.name, lookback_s });
        }
        runs.extend(found);
    }
    Ok(runs)
}

fn unusable(client: &Client, why: &impl Display) -> JaegerError {
    JaegerError::Answer { origin: client.origin.clone(), why: Untrusted::told(why) }
}

fn services(client: &Client) -> Result<Vec<String>, JaegerError> {
    #[derive(serde::Deserialize)]
    struct Services {
        #[serde(default)]
        services: Bounded<String>,
    }
    let Answer { status, body, is_cut } = client.get("/api/v3/services")?;
    if status != 200 || is_cut {
        return Err(unusable(client, &format!("status {status} for the list of services")));
    }
    let known: Services =
        with_room(|| serde_json::from_slice(&body)).map_err(|error| unusable(client, &error))?;
    Ok(known.services.into_iter().collect())
}

/// The traces of one service, as far as they are known.
struct Search<'a> {
    client: &'a Client,
    service: &'a str,
    /// Spans by trace, each trace once, however many answers have it.
    traces: BTreeMap<String, Vec<Span>>,
    origins: Vec<Origin>,
    spans: usize,
    /// Memory of the traces.
    bytes: usize,
}

impl Search<'_> {
    /// Fetches all traces that began in this span of time.
    fn between(&mut self, from_ns: u64, to_ns: u64, progress: &dyn Fn(usize)) -> Result<(), JaegerError> {
        let mut open = vec![(from_ns, to_ns)];
        while let Some((from_ns, to_ns)) = open.pop() {
            let is_full = self.page(from_ns, to_ns)?;
            progress(self.traces.len());
            if self.bytes > MOST_SPAN_BYTES {
                let mib = MOST_SPAN_BYTES >> 20;
                return Err(JaegerError::TooMany(format!(
                    "more than {mib} MiB of spans ({} spans)",
                    self.spans
                )));
            }
            if self.origins.len() > MOST_ORIGINS {
                return Err(JaegerError::TooMany(format!("of more than {MOST_ORIGINS} runs")));
            }
            if is_full {
                if to_ns - from_ns <= SHORTEST_NS {
                    return Err(JaegerError::TooMany(format!("{PAGE} in a millisecond")));
                }
                let middle_ns = from_ns + (to_ns - from_ns) / 2;
                open.extend([(middle_ns, to_ns), (from_ns, middle_ns)]);
            }
        }
        Ok(())
    }

    /// Fetches one answer; returns whether there may be more.
    fn page(&mut self, from_ns: u64, to_ns: u64) -> Result<bool, JaegerError> {
        let [from, to] = [from_ns, to_ns].map(|time_ns| percent::encoded(&rfc3339(time_ns)));
        let path = format!(
            "/api/v3/traces?query.service_name={}&query.start_time_min={from}&query.start_time_max={to}\
             &query.num_traces={PAGE}&query.search_depth={PAGE}&query.raw_traces=true",
            percent::encoded(self.service)
        );
        let Answer { status, body, is_cut } = self.client.get(&path)?;
        match status {
            // The first half of a JSON is none: smaller spans of time have smaller answers.
            _ if is_cut => return Ok(true),
            200 => {}
            // Jaeger's answer when it has none.
            404 => return Ok(false),
            _ => return Err(unusable(self.client, &format!("status {status} for a search"))),
        }
        let found = answer::read(&body, self.service).map_err(|error| unusable(self.client, &error))?;
        let is_full = found.traces >= PAGE;
        self.add(found);
        Ok(is_full)
    }

    fn add(&mut self, Found { origins, spans, traces: _ }: Found) {
        let places: Vec<usize> = origins
            .into_iter()
            .map(|origin| {
                let at = self.origins.iter().position(|known| *known == origin);
                at.unwrap_or_else(|| {
                    self.origins.push(origin);
                    self.origins.len() - 1
                })
            })
            .collect();
        let new = spans.iter().map(|span| &span.trace).filter(|trace| !self.traces.contains_key(*trace));
        let new: HashSet<String> = new.cloned().collect();
        for mut span in spans.into_iter().filter(|span| new.contains(&span.trace)) {
            span.origin = places[span.origin];
            self.spans += 1;
            self.bytes += span.bytes();
            self.traces.entry(span.trace.clone()).or_default().push(span);
        }
    }

    /// Deals them out to runs, in the order in which these began.
    fn runs(self, service: &Service, warmup: Warmup) -> Vec<ReadRun> {
        let mut by_run: BTreeMap<String, (usize, Vec<Request>)> = BTreeMap::new();
        let (mut next_id, mut astray) = (1, 0);
        // Spans go as requests come.
        for spans in self.traces.into_values() {
            let (requests, lost) = rebuild::requests(&spans, &mut next_id);
            astray += lost;
            for (root, request) in requests {
                let origin = spans[root].origin;
                let run = &self.origins[origin].run_id;
                let (_, all) = by_run.entry(run.clone()).or_insert_with(|| (origin, Vec::new()));
                all.push(request);
            }
        }
        let mut runs: Vec<ReadRun> = by_run
            .into_values()
            .map(|(origin, requests)| run(service, &self.origins[origin], requests, warmup))
            .collect();
        runs.sort_by_key(|run| run.manifest.clocks[0].wall_ns);
        if astray > 0
            && let Some(first) = runs.first_mut()
        {
            first.notes.push(format!("{astray} spans of {} belong to no request that arrived", service.name));
        }
        runs
    }
}

/// Boils one down.
fn run(service: &Service, origin: &Origin, mut requests: Vec<Request>, warmup: Warmup) -> ReadRun {
    let end_ns = |request: &Request| request.root().start_ns.saturating_add(request.root().duration_ns);
    // In the order of a run folder: by the ends of the requests.
    requests.sort_by_key(|request| (end_ns(request), request.root().id));
    let start_ns = requests.iter().map(|request| request.root().start_ns).min().unwrap_or(0);
    let rows = requests.iter().map(|request| request.phases.len() as u64).sum();
    let phases = requests.into_iter().map(Ok::<_, Infallible>);
    let digest = RunDigest::read(phases, rows, warmup).unwrap_or_else(|never| match never {});
    let Origin { run_id, scenario, platform, fidelity, work_hash, kernel, cpu_model, version } =
        origin.clone();
    let workload = work_hash.map(|hash| {
        let mut workload = serde_json::Map::new();
        workload.insert("work_hash".to_owned(), hash.into());
        workload
    });
    let path = format!("{}@{}", service.name, run_id.chars().take(8).collect::<String>());
    let manifest = Manifest {
        state: State::Closed,
        run_id,
        name: service.name.clone(),
        start: rfc3339(start_ns),
        clocks: vec![ClockPair { monotonic_ns: start_ns, wall_ns: start_ns }],
        scenario,
        platform,
        fidelity,
        kernel,
        cpu_model,
        workload,
        versions: Versions { guestscope: version, ..Versions::default() },
        rows: RowCounts { phases: rows, ..RowCounts::default() },
        ..Manifest::default()
    };
    let source =
        Source { path: path.into(), label: service.label.clone(), argument: service.name.clone().into() };
    ReadRun {
        source,
        manifest: Arc::new(manifest),
        stepped_ns: None,
        digest,
        is_torn: false,
        notes: Vec::new(),
    }
}
