//! One attempt to hand a batch to the collector, over gRPC or HTTP, and what came of it.
//!
//! Sending is opentelemetry-otlp's `SpanExporter`; this module sorts its outcomes into those that a later
//! attempt may change and those that it cannot (OTLP specification 1.10, "Failures"). It keeps nothing and
//! waits for nothing but the answer.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_otlp::{
    Compression, Protocol as Wire, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
    WithTonicConfig, tonic_types::metadata::MetadataMap,
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    trace::{SpanData, SpanExporter as _},
};
use tokio::sync::Mutex;
use tonic::transport::Endpoint;

use super::{
    ExportError, Protocol,
    bounded::{Allowance, Connector},
    http::{Answer, LastAnswer, NotingClient},
    rejections::{Rejection, Rejections},
    service::{PerService, Service},
    settings::Settings,
    tls,
};

/// Outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Taken, though some spans may be rejected.
    Taken(Option<Rejection>),
    /// To be sent again later.
    Later {
        /// Delay that the collector asks for.
        after: Option<Duration>,
        /// The collector failed internally, perhaps because of these spans.
        suspect: bool,
        /// Reason, for people.
        why: String,
    },
    /// The batch is too large.
    TooLarge(String),
    /// These spans will never be taken.
    Refused(String),
}

/// Transport to a collector for the program's and the kernel's spans: one connection, one service at a time.
pub(super) struct Transport {
    /// The exporter, with the service whose resource is set.
    exporter: Mutex<(SpanExporter, Service)>,
    resources: PerService<Resource>,
    settings: Settings,
    last: LastAnswer,
    allowance: Allowance,
    rejections: Rejections,
}

impl Transport {
    /// Must be called inside the event loop that will send. Connects at the first attempt, not now.
    pub(super) fn new(
        settings: Settings,
        resources: PerService<Resource>,
        rejections: Rejections,
    ) -> Result<Self, ExportError> {
        let (last, allowance) = (LastAnswer::default(), Allowance::default());
        let built = match settings.protocol {
            Protocol::Grpc => grpc(&settings, allowance.clone())?,
            Protocol::HttpProtobuf => http(&settings, &last, allowance.clone())?,
        };
        let mut exporter = built.map_err(|error| ExportError::Build(settings.scrub(&error.to_string())))?;
        exporter.set_resource(resources.get(Service::Program));
        let exporter = Mutex::new((exporter, Service::Program));
        Ok(Self { exporter, resources, settings, last, allowance, rejections })
    }

    /// Sends a batch once. Its spans are all of one service.
    pub(super) async fn send(&self, spans: Vec<SpanData>) -> Delivery {
        self.rejections.take();
        self.allowance.renew();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // The library's timeout begins once connected; a host that drops packets needs this one.
        let limit = self.settings.timeout + Duration::from_secs(1);
        let Ok(outcome) = tokio::time::timeout(limit, self.export(spans)).await else {
            let why = format!("no answer within {} ms", self.settings.timeout.as_millis());
            return Delivery::Later { after: None, suspect: false, why };
        };
        let answer = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (outcome, answer) {
            (Ok(()), _) => Delivery::Taken(self.rejections.take().map(|rejection| self.scrubbed(&rejection))),
            (Err(_), Some(Answer::Status { code, retry_after })) => by_status(code, retry_after),
            (Err(_), Some(Answer::Nothing(why))) => {
                Delivery::Later { after: None, suspect: false, why: self.settings.scrub(&why) }
            }
            (Err(error), None) => by_grpc_code(&self.settings.scrub(&words(error))),
        }
    }

    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let service = spans.first().map_or(Service::Program, Service::of);
        let mut exporter = self.exporter.lock().await;
        let (exporter, current) = &mut *exporter;
        if *current != service {
            exporter.set_resource(self.resources.get(service));
            *current = service;
        }
        exporter.export(spans).await
    }

    fn scrubbed(&self, rejection: &Rejection) -> Rejection {
        Rejection { message: self.settings.scrub(&rejection.message), spans: rejection.spans }
    }
}

fn words(error: OTelSdkError) -> String {
    match error {
        OTelSdkError::InternalFailure(words) => words,
        OTelSdkError::AlreadyShutdown => "the exporter was shut down".to_owned(),
        OTelSdkError::Timeout(after) => format!("no answer within {} ms", after.as_millis()),
    }
}

type Built = Result<SpanExporter, opentelemetry_otlp::ExporterBuildError>;

fn grpc(settings: &Settings, allowance: Allowance) -> Result<Built, ExportError> {
    let headers = settings.headers.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    });
    let mut endpoint = Endpoint::from(settings.url.clone()).timeout(settings.timeout);
    if settings.url.scheme_str() == Some("https") {
        endpoint = endpoint
            .tls_config(tls::for_grpc(&settings.tls)?)
            .map_err(|error| ExportError::Build(settings.scrub(&error.to_string())))?;
    }
    let mut builder = SpanExporter::builder()
        .with_tonic()
        .with_channel(endpoint.connect_with_connector_lazy(Connector::new(allowance)))
        .with_timeout(settings.timeout)
        .with_metadata(MetadataMap::from_headers(headers.collect::<HeaderMap>()))
        // One retry inside, because only the library sees the collector's RetryInfo.
        .with_retry_policy(RetryPolicy::recommended().with_max_retries(1));
    if settings.gzip {
        builder = builder.with_compression(Compression::Gzip);
    }
    Ok(builder.build())
}

fn http(settings: &Settings, last: &LastAnswer, allowance: Allowance) -> Result<Built, ExportError> {
    let client = NotingClient::new(settings, Arc::clone(last), allowance)?;
    let mut builder = SpanExporter::builder()
        .with_http()
        .with_protocol(Wire::HttpBinary)
        .with_http_client(client)
        .with_endpoint(settings.url.to_string())
        .with_timeout(settings.timeout)
        .with_headers(settings.headers.clone().into_iter().collect::<HashMap<_, _>>())
        .with_retry_policy(RetryPolicy::disabled());
    if settings.gzip {
        builder = builder.with_compression(Compression::Gzip);
    }
    Ok(builder.build())
}

/// HTTP: 400 concerns these spans, 413 their number, everything else the collector or the way to it.
fn by_status(code: u16, after: Option<Duration>) -> Delivery {
    let why = format!("the collector answered {code}");
    match code {
        400 | 422 => Delivery::Refused(why),
        413 => Delivery::TooLarge(why),
        _ => Delivery::Later { after, suspect: code == 500, why },
    }
}

/// gRPC: the library says `... failed with gRPC code: CODE`, followed by `: CAUSE` if it was not the
/// collector.
fn by_grpc_code(words: &str) -> Delivery {
    let rest = words.split_once("gRPC code: ").map_or(words, |(_, rest)| rest);
    let (code, cause) = rest.split_once(": ").map_or((rest, None), |(code, cause)| (code, Some(cause)));
    let why = match cause {
        // The innermost cause says most.
        Some(cause) => cause.rsplit(": ").next().unwrap_or(cause).to_owned(),
        None => format!("the collector answered {code}"),
    };
    match code {
        "InvalidArgument" if cause.is_none() => Delivery::Refused(why),
        "ResourceExhausted" if cause.is_none() => Delivery::TooLarge(why),
        "Internal" | "Unknown" => Delivery::Later { after: None, suspect: cause.is_none(), why },
        _ => Delivery::Later { after: None, suspect: false, why },
    }
}
