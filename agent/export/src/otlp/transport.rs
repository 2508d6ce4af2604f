//! One attempt to hand a batch to the collector, over gRPC or HTTP, and what came of it.
//!
//! Outcomes are sorted into those that a later attempt may change and those that it cannot (OTLP
//! specification 1.10, "Failures"). It keeps nothing and waits for nothing but the answer.

use std::{error::Error as _, time::Duration};

use opentelemetry_proto::tonic::collector::{
    metrics::v1::ExportMetricsServiceRequest,
    trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse},
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{
    ExportError, Protocol,
    bounded::Allowance,
    grpc::Grpc,
    http::{Http, Refusal, innermost},
    settings::Settings,
};

/// A collector's partial rejection of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    /// Rejected spans. Zero with a message is a warning.
    pub(super) spans: u64,
    /// The collector's words, without secrets.
    pub(super) message: String,
}

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

/// The client for a collector.
enum Client {
    Grpc(Box<Grpc>),
    Http(Box<Http>),
}

/// Transport to a collector, over one connection.
pub(super) struct Transport {
    client: Client,
    settings: Settings,
    allowance: Allowance,
}

impl Transport {
    /// Must be called inside the event loop that will send. Connects at the first attempt, not now.
    pub(super) fn new(settings: Settings) -> Result<Self, ExportError> {
        let allowance = Allowance::default();
        let client = match settings.protocol {
            Protocol::Grpc => Client::Grpc(Box::new(Grpc::new(&settings, allowance.clone())?)),
            Protocol::HttpProtobuf => Client::Http(Box::new(Http::new(&settings, allowance.clone())?)),
        };
        Ok(Self { client, settings, allowance })
    }

    /// Sends a request once.
    pub(super) async fn send(&self, request: &ExportTraceServiceRequest) -> Delivery {
        self.allowance.renew();
        let timeout = self.settings.timeout;
        let limit = match self.client {
            // Its own timeout begins once connected; a host that drops packets needs this one.
            Client::Grpc(_) => timeout + Duration::from_secs(1),
            Client::Http(_) => timeout,
        };
        let sent = tokio::time::timeout(limit, self.attempt(request)).await;
        sent.unwrap_or_else(|_| {
            let why = format!("no answer within {} ms", timeout.as_millis());
            Delivery::Later { after: None, suspect: false, why }
        })
    }

    /// Sends metrics once. Returns why they did not arrive, for people.
    pub(super) async fn send_metrics(&self, request: &ExportMetricsServiceRequest) -> Result<(), String> {
        self.allowance.renew();
        let timeout = self.settings.timeout;
        let attempt = async {
            match &self.client {
                Client::Grpc(grpc) => {
                    grpc.send_metrics(request).await.map_err(|status| match status.source() {
                        Some(cause) => innermost(cause),
                        None => format!("the collector answered {:?}", status.code()),
                    })
                }
                Client::Http(http) => {
                    http.send_any(request).await.map(drop).map_err(|refusal| match refusal {
                        Refusal::Status { code, .. } => format!("the collector answered {code}"),
                        Refusal::Nothing(why) => why,
                    })
                }
            }
        };
        let sent = tokio::time::timeout(timeout + Duration::from_secs(1), attempt).await;
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {} ms", timeout.as_millis())));
        sent.map_err(|why| self.settings.scrub(&why))
    }

    async fn attempt(&self, request: &ExportTraceServiceRequest) -> Delivery {
        let scrub = |text: &str| self.settings.scrub(text);
        match &self.client {
            Client::Grpc(grpc) => match grpc.send(request).await {
                Ok(response) => Delivery::Taken(rejection(response, scrub)),
                Err(status) => by_grpc_status(&status, scrub),
            },
            Client::Http(http) => match http.send(request).await {
                Ok(response) => Delivery::Taken(rejection(response, scrub)),
                Err(Refusal::Status { code, retry_after }) => by_http_status(code, retry_after),
                Err(Refusal::Nothing(why)) => {
                    Delivery::Later { after: None, suspect: false, why: scrub(&why) }
                }
            },
        }
    }
}

/// What a collector rejected of a request that it took, or its warning.
fn rejection(response: ExportTraceServiceResponse, scrub: impl Fn(&str) -> String) -> Option<Rejection> {
    let ExportTracePartialSuccess { rejected_spans, error_message } = response.partial_success?;
    let spans = u64::try_from(rejected_spans).unwrap_or(0);
    (spans > 0 || !error_message.is_empty()).then(|| Rejection { spans, message: scrub(&error_message) })
}

/// HTTP: 400 concerns these spans, 413 their number, everything else the collector or the way to it.
fn by_http_status(code: u16, after: Option<Duration>) -> Delivery {
    let why = format!("the collector answered {code}");
    match code {
        400 | 422 => Delivery::Refused(why),
        413 => Delivery::TooLarge(why),
        _ => Delivery::Later { after, suspect: code == 500, why },
    }
}

/// gRPC: a status with a cause is not the collector's, but that of the way to it.
fn by_grpc_status(status: &Status, scrub: impl Fn(&str) -> String) -> Delivery {
    if let Some(cause) = status.source() {
        return Delivery::Later { after: None, suspect: false, why: scrub(&innermost(cause)) };
    }
    let code = status.code();
    let why = format!("the collector answered {code:?}");
    let after = status.get_details_retry_info().and_then(|info| info.retry_delay);
    if code == Code::InvalidArgument {
        return Delivery::Refused(why);
    }
    // With a delay the collector is short of something that comes back.
    if code == Code::ResourceExhausted && after.is_none() {
        return Delivery::TooLarge(why);
    }
    Delivery::Later { after, suspect: matches!(code, Code::Internal | Code::Unknown), why }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

    /// A collector that says when it will have room is asked again then; one that does not say so wants less
    /// at once.
    #[rstest]
    #[case::overloaded(Code::ResourceExhausted, Some(7), "later 7")]
    #[case::too_large(Code::ResourceExhausted, None, "too large")]
    #[case::busy(Code::Unavailable, Some(7), "later 7")]
    #[case::away(Code::Unavailable, None, "later")]
    #[case::bad(Code::InvalidArgument, None, "refused")]
    #[case::failed(Code::Internal, None, "later suspect")]
    #[case::confused(Code::Unknown, None, "later suspect")]
    #[case::not_allowed(Code::PermissionDenied, None, "later")]
    fn statuses_say_what_to_do(#[case] code: Code, #[case] delay_s: Option<u64>, #[case] expected: &str) {
        let details = ErrorDetails::with_retry_info(delay_s.map(Duration::from_secs));
        let status = match delay_s {
            Some(_) => Status::with_error_details(code, "no", details),
            None => Status::new(code, "no"),
        };
        let said = match by_grpc_status(&status, str::to_owned) {
            Delivery::Taken(_) => "taken".to_owned(),
            Delivery::Refused(_) => "refused".to_owned(),
            Delivery::TooLarge(_) => "too large".to_owned(),
            Delivery::Later { after, suspect, why } => {
                assert_eq!(why, format!("the collector answered {code:?}"));
                let after = after.map(|after| format!(" {}", after.as_secs())).unwrap_or_default();
                format!("later{after}{}", if suspect { " suspect" } else { "" })
            }
        };
        assert_eq!(said, expected);
    }

    /// An error of the connection is never the fault of the spans, whatever its code.
    #[test]
    fn what_broke_on_the_way_is_tried_again() {
        let broken = std::io::Error::other("the line is cut");
        for code in [Code::InvalidArgument, Code::ResourceExhausted, Code::Internal] {
            let mut status = Status::new(code, "transport error");
            status.set_source(std::sync::Arc::new(std::io::Error::other(broken.to_string())));
            let expected = Delivery::Later { after: None, suspect: false, why: "the line is cut".to_owned() };
            assert_eq!(by_grpc_status(&status, str::to_owned), expected);
        }
    }

    #[rstest]
    #[case::all_taken(None, None)]
    #[case::nothing_said(Some((0, "")), None)]
    #[case::a_warning(Some((0, "slow down")), Some((0, "slow down")))]
    #[case::some_rejected(Some((3, "no quota")), Some((3, "no quota")))]
    #[case::nonsense(Some((-3, "no quota")), Some((0, "no quota")))]
    fn partial_success(#[case] said: Option<(i64, &str)>, #[case] expected: Option<(u64, &str)>) {
        let partial_success = said.map(|(rejected_spans, words)| ExportTracePartialSuccess {
            rejected_spans,
            error_message: words.to_owned(),
        });
        let found = rejection(ExportTraceServiceResponse { partial_success }, str::to_owned);
        let expected = expected.map(|(spans, words)| Rejection { spans, message: words.to_owned() });
        assert_eq!(found, expected);
    }
}
