//! Metrics over OTLP: pushed once a minute, cumulative or as differences, by a thread of its own.
//!
//! Nothing is kept for a collector that is away: cumulative numbers hold everything, and a difference that
//! was not taken is a part of the next one. Source: OpenTelemetry specification 1.60, metrics data model and
//! environment variables.

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{InstrumentationScope, KeyValue},
    metrics::v1::{
        AggregationTemporality, Exemplar as Example, ExponentialHistogram, ExponentialHistogramDataPoint,
        Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, exemplar,
        exponential_histogram_data_point, metric::Data, number_data_point,
    },
    resource::v1::Resource,
};

use super::{
    ExportError, SCHEMA_URL, Value, event_loop, message,
    service::Resources,
    settings::{Environment, Settings, Signal},
};
use crate::{
    clock::ClockPair,
    metrics::{Exemplar, Key, Kind, Metrics, Number, Row},
    privileges,
};

/// The default of the specification.
const EVERY: Duration = Duration::from_mins(1);
/// Time for the last push.
const LAST: Duration = Duration::from_secs(3);

/// Where metrics go, and what they are of.
#[derive(Clone, Debug, Default)]
pub struct MetricsConfig {
    /// Endpoint; none: OTEL_EXPORTER_OTLP_METRICS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT.
    pub endpoint: Option<String>,
    /// `service.name`.
    pub service_name: String,
    /// The other resource attributes.
    pub resource: Vec<(Cow<'static, str>, Value)>,
}

/// Metrics and the other numbers, as they are now.
pub(super) type Source = dyn Fn() -> (Metrics, Vec<Number>) + Send;

/// The thread that pushes.
pub struct MetricsExporter {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<Mutex<State>>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
struct State {
    sent: u64,
    failed: u64,
    last_error: Option<String>,
}

/// What makes a request.
struct Maker {
    resource: Resource,
    started_ns: u64,
    /// What the collector has, if it gets differences, and when that was.
    taken: Option<(Metrics, u64)>,
}

impl MetricsExporter {
    /// Starts pushing. The collector need not be there yet.
    ///
    /// # Errors
    /// The settings are wrong, or there can be no thread.
    pub fn start(config: MetricsConfig, source: Box<Source>) -> Result<Self, ExportError> {
        Self::start_in(config, source, &|name| std::env::var(name).ok())
    }

    fn start_in(
        config: MetricsConfig,
        source: Box<Source>,
        environment: Environment<'_>,
    ) -> Result<Self, ExportError> {
        let MetricsConfig { endpoint, service_name, resource } = config;
        let settings = Settings::resolve_for(Signal::Metrics, endpoint.as_deref(), None, environment)?;
        let every = environment("OTEL_METRIC_EXPORT_INTERVAL").and_then(|text| text.trim().parse().ok());
        let every = every.filter(|ms| *ms > 0).map_or(EVERY, Duration::from_millis);
        let preference = environment("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE").unwrap_or_default();
        let started_ns = ClockPair::now().wall_ns;
        let taken = preference.trim().eq_ignore_ascii_case("delta").then(|| (Metrics::default(), started_ns));
        let resource = Resources::new(&service_name, resource).program();
        let mut maker = Maker { resource, started_ns, taken };
        let state = Arc::new(Mutex::new(State::default()));
        let theirs = Arc::clone(&state);
        let (stop, stopped) = mpsc::channel::<()>();
        let (told, outcome) = mpsc::channel();
        let body = move || {
            let ready = event_loop(settings)
                .and_then(|ready| privileges::drop_all().map(|()| ready).map_err(ExportError::Thread));
            let (outcome, ready) = ready.map_or_else(|error| (Err(error), None), |it| (Ok(()), Some(it)));
            // Fails only if the caller is gone.
            let _ = told.send(outcome);
            let Some((runtime, transport)) = ready else { return };
            loop {
                let is_last = stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout);
                let (metrics, numbers) = source();
                // A clock that was set back makes no point end before it begins.
                let now_ns = ClockPair::now().wall_ns.max(maker.since_ns());
                let request = maker.request(&metrics, &numbers, now_ns);
                let push = async {
                    let sent = transport.send_metrics(&request);
                    if is_last {
                        tokio::time::timeout(LAST, sent).await.unwrap_or(Err(String::new()))
                    } else {
                        sent.await
                    }
                };
                let pushed = runtime.block_on(push);
                if pushed.is_ok() {
                    maker.was_taken(metrics, now_ns);
                }
                note(&theirs, pushed);
                if is_last {
                    break;
                }
            }
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("otlp-metrics".to_owned()).spawn(body);
        let thread = thread.map_err(ExportError::Thread)?;
        let outcome = outcome.recv();
        outcome.unwrap_or_else(|_| Err(ExportError::Thread(std::io::Error::other("it panicked"))))?;
        Ok(Self { stop: Some(stop), thread: Some(thread), state })
    }

    /// Pushes that were taken and that failed, and the last error, for people.
    pub fn so_far(&self) -> (u64, u64, Option<String>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (state.sent, state.failed, state.last_error)
    }

    /// Pushes a last time and ends.
    pub fn finish(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told.
            let _ = thread.join();
        }
    }
}

impl Drop for MetricsExporter {
    fn drop(&mut self) {
        self.finish();
    }
}

fn note(state: &Mutex<State>, pushed: Result<(), String>) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    match pushed {
        Ok(()) => (state.sent, state.last_error) = (state.sent + 1, None),
        Err(error) => (state.failed, state.last_error) = (state.failed + 1, Some(error)),
    }
}

/// Begin and end of what points are of, wall times, ns.
type Span = (u64, u64);

impl Maker {
    /// Begin of the next points, ns since 1970.
    fn since_ns(&self) -> u64 {
        self.taken.as_ref().map_or(self.started_ns, |(_, at_ns)| (*at_ns).max(self.started_ns))
    }

    fn was_taken(&mut self, metrics: Metrics, now_ns: u64) {
        if let Some(taken) = &mut self.taken {
            *taken = (metrics, now_ns);
        }
    }

    fn request(&self, metrics: &Metrics, numbers: &[Number], now_ns: u64) -> ExportMetricsServiceRequest {
        let (metrics, span, temporality) = match &self.taken {
            None => (Cow::Borrowed(metrics), (self.started_ns, now_ns), AggregationTemporality::Cumulative),
            Some((taken, at_ns)) => {
                (Cow::Owned(metrics.since(taken)), (*at_ns, now_ns), AggregationTemporality::Delta)
            }
        };
        let mut all = vec![
            histograms(&metrics, span, temporality),
            times(&metrics, span, temporality),
            slow(&metrics, span, temporality),
        ];
        all.extend(plain(numbers, (self.started_ns, now_ns)));
        let scope = InstrumentationScope {
            name: "guestscope".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope = ScopeMetrics { scope: Some(scope), metrics: all, schema_url: String::new() };
        ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![scope],
                schema_url: SCHEMA_URL.to_owned(),
            }],
        }
    }
}

/// Attributes of a row; that of a whole request has no phase.
fn attributes(key: &Key) -> Vec<KeyValue> {
    let named = [("guestscope.request", &key.request), ("guestscope.phase", &key.phase)];
    named.into_iter().filter(|(_, name)| !name.is_empty()).map(|(of, name)| message::text(of, name)).collect()
}

fn metric(name: &str, description: &str, unit: &str, data: Data) -> Metric {
    Metric {
        name: name.to_owned(),
        description: description.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn histograms(metrics: &Metrics, span: Span, temporality: AggregationTemporality) -> Metric {
    let points = metrics.rows().map(|(key, row)| histogram(key, row, span)).collect();
    let data = ExponentialHistogram { data_points: points, aggregation_temporality: temporality.into() };
    let help = "Durations of requests, and of phases in them.";
    metric("guestscope.phase.duration", help, "ns", Data::ExponentialHistogram(data))
}

fn histogram(key: &Key, row: &Row, (from_ns, to_ns): Span) -> ExponentialHistogramDataPoint {
    let (scale, offset, counts, zeros) = row.durations.buckets();
    ExponentialHistogramDataPoint {
        attributes: attributes(key),
        start_time_unix_nano: from_ns,
        time_unix_nano: to_ns,
        count: row.durations.count(),
        sum: Some(row.durations.sum_ns() as f64),
        scale: scale.cast_signed(),
        zero_count: zeros,
        positive: Some(exponential_histogram_data_point::Buckets { offset, bucket_counts: counts.to_vec() }),
        exemplars: row.exemplars().filter(|one| one.ended_ns >= from_ns).map(example).collect(),
        ..ExponentialHistogramDataPoint::default()
    }
}

fn example(exemplar: &Exemplar) -> Example {
    Example {
        time_unix_nano: exemplar.ended_ns,
        trace_id: exemplar.trace_id.to_vec(),
        value: Some(exemplar::Value::AsInt(i64::try_from(exemplar.duration_ns).unwrap_or(i64::MAX))),
        ..Example::default()
    }
}

fn point(attributes: Vec<KeyValue>, value: u128, (from_ns, to_ns): Span) -> NumberDataPoint {
    NumberDataPoint {
        attributes,
        start_time_unix_nano: from_ns,
        time_unix_nano: to_ns,
        value: Some(number_data_point::Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX))),
        ..NumberDataPoint::default()
    }
}

fn sum(points: Vec<NumberDataPoint>, temporality: AggregationTemporality) -> Data {
    Data::Sum(Sum { data_points: points, aggregation_temporality: temporality.into(), is_monotonic: true })
}

fn times(metrics: &Metrics, span: Span, temporality: AggregationTemporality) -> Metric {
    let mut points = Vec::new();
    for (key, row) in metrics.rows() {
        for (cause, ns) in row.time().filter(|(_, ns)| *ns > 0) {
            let account = [message::text("guestscope.account", cause.name())];
            points.push(point([attributes(key), account.to_vec()].concat(), ns, span));
        }
    }
    let help = "Where the time of requests and phases went; a phase has the time of those in it.";
    metric("guestscope.phase.time", help, "ns", sum(points, temporality))
}

fn slow(metrics: &Metrics, span: Span, temporality: AggregationTemporality) -> Metric {
    let mut points = Vec::new();
    for (key, row) in metrics.rows() {
        for ((tail, cause), count) in row.slow.iter().filter(|(_, count)| **count > 0) {
            let more = [message::text("guestscope.tail", *tail), message::text("guestscope.cause", *cause)];
            points.push(point([attributes(key), more.to_vec()].concat(), (*count).into(), span));
        }
    }
    let help = "Requests slower than a quantile of those before them, by cause.";
    metric("guestscope.requests.slow", help, "{request}", sum(points, temporality))
}

/// The other numbers, always cumulative; those of one name are one metric.
fn plain(numbers: &[Number], (from_ns, to_ns): Span) -> Vec<Metric> {
    let of = |number: &Number| NumberDataPoint {
        attributes: number
            .labels
            .iter()
            .map(|(key, value)| message::text(format!("guestscope.{key}"), value))
            .collect(),
        start_time_unix_nano: from_ns,
        time_unix_nano: to_ns,
        value: Some(number_data_point::Value::AsDouble(number.value)),
        ..NumberDataPoint::default()
    };
    let groups = numbers.chunk_by(|a, b| a.name == b.name);
    let told = groups.filter_map(|group| {
        let first = group.first()?;
        let points: Vec<NumberDataPoint> = group.iter().map(of).collect();
        let data = match first.kind {
            Kind::Counter => sum(points, AggregationTemporality::Cumulative),
            Kind::Gauge => Data::Gauge(Gauge { data_points: points }),
            // The resource says it.
            Kind::Info => return None,
        };
        let unit = ["seconds", "bytes"].into_iter().find(|unit| first.name.ends_with(unit));
        let unit = unit.map_or("1", |unit| if unit == "seconds" { "s" } else { "By" });
        Some(metric(&format!("guestscope.{}", first.name), first.help, unit, data))
    });
    told.collect()
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
