//! Endpoint settings from the command line and the standard OTEL_EXPORTER_OTLP_* variables.
//!
//! The command line beats the variables for one signal, which beat those for all. A URL without a scheme
//! means plain HTTP, unless OTEL_EXPORTER_OTLP_INSECURE says false. A user and password in the URL become an
//! authorization header. It reads no file and opens no connection. Source: OpenTelemetry specification 1.60,
//! `protocol/exporter.md`.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header::AUTHORIZATION};

use super::{ExportError, Protocol, hidden, url::Url};
use crate::percent;

/// Looks up an environment variable.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The default of the specification.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is sent: each has variables and a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    /// Its word in the names of variables.
    const fn word(self) -> &'static str {
        match self {
            Signal::Traces => "TRACES",
            Signal::Metrics => "METRICS",
        }
    }

    /// Its path over HTTP.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
            Signal::Metrics => "/v1/metrics",
        }
    }
}

/// Settings for reaching the collector.
#[derive(Clone)]
pub(super) struct Settings {
    /// URL without user and password; with the path for HTTP.
    pub(super) url: Uri,
    /// Scheme, host and port: what people may see.
    pub(super) origin: String,
    /// Protocol.
    pub(super) protocol: Protocol,
    /// Headers of each request.
    pub(super) headers: BTreeMap<String, String>,
    /// Timeout of one attempt.
    pub(super) timeout: Duration,
    /// Compress with gzip.
    pub(super) gzip: bool,
    /// TLS files.
    pub(super) tls: TlsFiles,
}

/// PEM files for TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsFiles {
    /// Authorities to trust instead of the system's.
    pub(super) authorities: Option<PathBuf>,
    /// Client certificate.
    pub(super) certificate: Option<PathBuf>,
    /// Key of the client certificate.
    pub(super) key: Option<PathBuf>,
}

impl Settings {
    /// Puts the settings for traces together. An endpoint or a protocol that the caller gives comes first.
    pub(super) fn resolve(
        endpoint: Option<&str>,
        protocol: Option<Protocol>,
        environment: Environment<'_>,
    ) -> Result<Self, ExportError> {
        Self::resolve_for(Signal::Traces, endpoint, protocol, environment)
    }

    /// The same for any signal.
    pub(super) fn resolve_for(
        signal: Signal,
        endpoint: Option<&str>,
        protocol: Option<Protocol>,
        environment: Environment<'_>,
    ) -> Result<Self, ExportError> {
        let get = |name: &str| {
            let of_signal = format!("OTEL_EXPORTER_OTLP_{}_{name}", signal.word());
            variable(environment, &of_signal)
                .or_else(|| variable(environment, &format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let (given, source) = find_endpoint(signal, endpoint, environment)?;
        let secure = get("INSECURE").is_some_and(|value| value.eq_ignore_ascii_case("false"));
        let mut url = Url::parse(&given, secure)?;
        let named = get("PROTOCOL").as_deref().map(Protocol::from_name);
        let protocol = choose_protocol(protocol, &url, source, named)?;
        let mut headers = parse_headers(&get("HEADERS").unwrap_or_default())?;
        if let Some(credentials) = url.take_credentials() {
            let value = format!("Basic {}", BASE64_STANDARD.encode(credentials));
            headers.entry(AUTHORIZATION.to_string()).or_insert(value);
        }
        let timeout = get("TIMEOUT").and_then(|value| value.trim().parse().ok()).filter(|&ms| ms > 0);
        Ok(Self {
            url: url.uri(protocol, signal.path(), source == Source::SignalVariable)?,
            origin: url.origin(protocol),
            protocol,
            headers,
            timeout: timeout.map_or(TIMEOUT, Duration::from_millis),
            // The specification knows only gzip: with another algorithm the data go uncompressed.
            gzip: get("COMPRESSION").is_some_and(|value| value.eq_ignore_ascii_case("gzip")),
            tls: TlsFiles {
                authorities: get("CERTIFICATE").map(PathBuf::from),
                certificate: get("CLIENT_CERTIFICATE").map(PathBuf::from),
                key: get("CLIENT_KEY").map(PathBuf::from),
            },
        })
    }

    /// The headers as they are sent.
    pub(super) fn headers(&self) -> HeaderMap {
        let headers = self.headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::from_str(name).ok()?, HeaderValue::from_str(value).ok()?))
        });
        headers.collect()
    }

    /// Removes secrets and terminal control characters from foreign text.
    pub(super) fn scrub(&self, text: &str) -> String {
        let text = hidden::hide(text, &self.headers);
        text.chars()
            .map(|c| if crate::untrusted::is_unsafe(c) { ' ' } else { c })
            .take(MESSAGE_CHARACTERS)
            .collect()
    }
}

/// Most characters shown of a collector's message.
const MESSAGE_CHARACTERS: usize = 300;

/// Whether a collector is named.
pub(super) fn is_configured(endpoint: Option<&str>, environment: Environment<'_>) -> bool {
    find_endpoint(Signal::Traces, endpoint, environment).is_ok()
}

/// Where the endpoint was found: rules for paths and protocols differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    CommandLine,
    SignalVariable,
    Variable,
}

fn find_endpoint(
    signal: Signal,
    given: Option<&str>,
    environment: Environment<'_>,
) -> Result<(String, Source), ExportError> {
    let of_signal = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.word());
    let of = |name: &str, source| variable(environment, name).map(|value| (value, source));
    let given = given.map(|endpoint| (endpoint.to_owned(), Source::CommandLine));
    given
        .or_else(|| of(&of_signal, Source::SignalVariable))
        .or_else(|| of("OTEL_EXPORTER_OTLP_ENDPOINT", Source::Variable))
        .ok_or(ExportError::NoEndpoint)
}

/// An empty variable is an unset one, says the specification.
fn variable(environment: Environment<'_>, name: &str) -> Option<String> {
    environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// For an endpoint of the command line its OTLP port decides, before any variable; else the protocol's
/// variable.
fn choose_protocol(
    given: Option<Protocol>,
    url: &Url,
    source: Source,
    named: Option<Result<Protocol, ExportError>>,
) -> Result<Protocol, ExportError> {
    let by_url = url.protocol();
    match (given, source) {
        (Some(protocol), _) => Ok(protocol),
        (None, Source::CommandLine) => by_url.map(Ok).or(named).unwrap_or(Ok(Protocol::Grpc)),
        (None, _) => named.or(by_url.map(Ok)).unwrap_or(Ok(Protocol::Grpc)),
    }
}

/// `name=value,name=value`, percent-encoded (W3C Baggage without its properties).
fn parse_headers(list: &str) -> Result<BTreeMap<String, String>, ExportError> {
    let mut headers = BTreeMap::new();
    let entries = list.split(',').map(str::trim).enumerate().filter(|(_, entry)| !entry.is_empty());
    for (position, entry) in entries {
        let bad = ExportError::BadHeader { position: position + 1 };
        let Some((name, value)) = entry.split_once('=') else { return Err(bad) };
        let (name, value) = (name.trim().to_ascii_lowercase(), percent::decoded_text(value.trim()));
        let valid = HeaderName::from_str(&name).is_ok();
        match value {
            Some(value) if valid && HeaderValue::from_str(&value).is_ok() => headers.insert(name, value),
            Some(_) | None => return Err(bad),
        };
    }
    Ok(headers)
}
