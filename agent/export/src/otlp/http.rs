//! OTLP over HTTP: protobuf in a POST, by hyper over rustls, on one connection.
//!
//! It sends once and waits for nothing but the answer. It follows no redirect: a collector behind one is
//! named in the error instead.

use std::{
    error::Error,
    io::{self, Write as _},
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{
    HeaderMap, HeaderValue, Request, StatusCode, Uri,
    header::{self, RETRY_AFTER},
};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;

use super::{
    ExportError,
    bounded::{Allowance, Connector},
    protocol::USER_AGENT,
    settings::Settings,
    tls,
};

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The answer says so.
    Status {
        /// HTTP status code.
        code: u16,
        /// Delay that the collector asks for.
        retry_after: Option<Duration>,
    },
    /// No answer: the reason, for people.
    Nothing(String),
}

/// A client for one collector.
pub(super) struct Http {
    client: Client<HttpsConnector<Connector>, Full<Bytes>>,
    url: Uri,
    headers: HeaderMap,
    gzip: bool,
}

impl Http {
    /// A client for `http` and `https`. Connects at the first attempt, not now.
    pub(super) fn new(settings: &Settings, allowance: Allowance) -> Result<Self, ExportError> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::for_http(&settings.tls)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector::new(allowance));
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        if settings.gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        headers.extend(settings.headers());
        Ok(Self { client, url: settings.url.clone(), headers, gzip: settings.gzip })
    }

    /// Sends once.
    pub(super) async fn send(
        &self,
        request: &ExportTraceServiceRequest,
    ) -> Result<ExportTraceServiceResponse, Refusal> {
        // A collector that took the spans may say so in words that are no OTLP.
        let taken = |body| ExportTraceServiceResponse::decode(body).unwrap_or_default();
        self.send_any(request).await.map(taken)
    }

    /// Sends any message once. Returns what the collector answered.
    pub(super) async fn send_any(&self, message: &impl prost::Message) -> Result<Bytes, Refusal> {
        let request = self.post(message).map_err(|error| Refusal::Nothing(error.to_string()))?;
        let nothing = |error: &(dyn Error + 'static)| Refusal::Nothing(innermost(error));
        let response = self.client.request(request).await.map_err(|error| nothing(&error))?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| nothing(&error))?.to_bytes();
        if head.status.is_success() {
            return Ok(body);
        }
        Err(refusal(head.status, &head.headers))
    }

    fn post(&self, request: &impl prost::Message) -> io::Result<Request<Full<Bytes>>> {
        let mut body = request.encode_to_vec();
        if self.gzip {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&body)?;
            body = encoder.finish()?;
        }
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers.clone();
        Ok(request)
    }
}

fn refusal(status: StatusCode, headers: &HeaderMap) -> Refusal {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    // The other form, a date, would need synchronous clocks.
    let retry_after = seconds.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    Refusal::Status { code: status.as_u16(), retry_after }
}

/// The innermost cause says most: `Connection refused` below `client error (Connect)`.
pub(super) fn innermost(mut error: &(dyn Error + 'static)) -> String {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
