//! The HTTP client below the OTLP exporter: hyper over rustls, one connection, and a note of what was
//! answered.
//!
//! The exporter library tells its caller of a failure in words only. The note keeps the status and
//! Retry-After as numbers. It follows no redirect: a collector behind one is named in the error instead.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use http::header::RETRY_AFTER;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};

use super::{
    ExportError,
    bounded::{Allowance, Connector},
    settings::Settings,
    tls,
};

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A response.
    Status {
        /// HTTP status code.
        code: u16,
        /// Delay that the collector asks for.
        retry_after: Option<Duration>,
    },
    /// No response: the reason, for people.
    Nothing(String),
}

/// The last answer, written by the client and read by the transport.
pub(super) type LastAnswer = Arc<Mutex<Option<Answer>>>;

/// A client that notes answers.
#[derive(Debug)]
pub(super) struct NotingClient {
    inner: HyperClient<HttpsConnector<Connector>>,
    last: LastAnswer,
}

impl NotingClient {
    /// A client for `http` and `https`.
    pub(super) fn new(
        settings: &Settings,
        last: LastAnswer,
        allowance: Allowance,
    ) -> Result<Self, ExportError> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::for_http(&settings.tls)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector::new(allowance));
        Ok(Self { inner: HyperClient::new(connector, settings.timeout, None), last })
    }
}

#[async_trait]
impl HttpClient for NotingClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let outcome = self.inner.send_bytes(request).await;
        let answer = match &outcome {
            Ok(response) => {
                let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                // The other form, a date, would need synchronous clocks.
                let retry_after = seconds.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
                Answer::Status { code: response.status().as_u16(), retry_after }
            }
            Err(error) => Answer::Nothing(reason(error.as_ref())),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        outcome
    }
}

/// The innermost cause says most: `Connection refused` below `client error (Connect)`.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error).to_string()
}
