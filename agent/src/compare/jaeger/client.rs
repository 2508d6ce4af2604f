//! GET from an untrusted server: over HTTP/1.1, with or without TLS, bounded in time and in bytes.
//!
//! One request per connection, so that no answer can hold what belongs to another. No redirects.

use std::{io, net::ToSocketAddrs as _, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{Request, Uri, header, uri::Authority};
use http_body_util::Empty;
use hyper::body::Bytes;
use rustls::pki_types::ServerName;
use tokio::{net::TcpStream, runtime, time::timeout};
use tokio_rustls::TlsConnector;

use super::{
    error::JaegerError,
    exchange::{Answer, Deadline, Limited, exchange},
};
use crate::{percent, sinks::otlp};

/// Limit for a connection to one of its addresses.
const CONNECT: Duration = Duration::from_secs(10);
/// Limit for a whole answer, from the start of the connection on.
const ANSWER: Duration = Duration::from_mins(1);
/// Limit for all answers together: each of hundreds may take a few seconds.
const ALL_ANSWERS: Duration = Duration::from_mins(10);
/// The most that is read of an answer: 1,000 traces of ten spans are up to 40 MB, so such a span of time is
/// asked for in parts. Unpacked it takes three times as much memory and more.
pub(super) const MOST_BYTES: u64 = 16 << 20;
/// What TLS and the head add to an answer.
const MOST_BESIDE_BYTES: u64 = 1 << 20;
/// Where a Jaeger answers.
const PORT: u16 = 16_686;

/// A server.
pub(super) struct Client {
    /// Scheme, host and port: what people may see.
    pub(super) origin: String,
    host: String,
    port: u16,
    /// In front of all paths; without a slash at its end.
    base: String,
    authorization: Option<String>,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
    /// Limit for a whole answer.
    pub(super) patience: Duration,
    all: Deadline,
}

impl Client {
    /// A client for a URL such as `http://localhost:16686` or `https://user:password@host/jaeger`.
    pub(super) fn new(url: &str) -> Result<Self, JaegerError> {
        let bad = |why| JaegerError::Url { shown: without_credentials(url), why };
        let full = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = full.parse().map_err(|_| bad("not a URL"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad("the scheme is neither http nor https")),
        };
        let authority: &Authority = uri.authority().ok_or_else(|| bad("no host"))?;
        let host = authority.host().to_owned();
        if host.is_empty() || uri.query().is_some() {
            return Err(bad(if host.is_empty() { "no host" } else { "a query in it" }));
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { PORT });
        let credentials = authority.as_str().rsplit_once('@').map(|(credentials, _)| credentials);
        let config = secure.then(otlp::system_tls).transpose().map_err(JaegerError::Tls)?;
        Ok(Self {
            origin: format!("{}://{host}:{port}", if secure { "https" } else { "http" }),
            host,
            port,
            base: uri.path().trim_end_matches('/').to_owned(),
            authorization: credentials
                .map(|text| format!("Basic {}", BASE64_STANDARD.encode(percent::decoded(text)))),
            tls: config.map(Arc::new),
            patience: ANSWER,
            all: Deadline::after(ALL_ANSWERS),
        })
    }

    /// Asks once.
    pub(super) fn get(&self, path: &str) -> Result<Answer, JaegerError> {
        self.ask(path).map_err(|error| JaegerError::Ask { origin: self.origin.clone(), error })
    }

    fn ask(&self, path: &str) -> io::Result<Answer> {
        let request = self.request(path).map_err(io::Error::other)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.exchange(request))
    }

    async fn exchange(&self, request: Request<Empty<Bytes>>) -> io::Result<Answer> {
        let deadline = Deadline::after(self.all.left(self.patience)?);
        let stream = Limited::new(self.connect(&deadline).await?, MOST_BYTES + MOST_BESIDE_BYTES);
        let Some(config) = &self.tls else { return exchange(stream, request, &deadline, MOST_BYTES).await };
        let name = ServerName::try_from(self.bare_host().to_owned()).map_err(io::Error::other)?;
        let shaken = TlsConnector::from(Arc::clone(config)).connect(name, stream);
        exchange(deadline.hold(shaken).await??, request, &deadline, MOST_BYTES).await
    }

    /// Tries one address after the other.
    async fn connect(&self, deadline: &Deadline) -> io::Result<TcpStream> {
        let mut refused = io::Error::other("no address");
        for address in (self.bare_host(), self.port).to_socket_addrs()? {
            match timeout(deadline.left(CONNECT)?, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => refused = error,
                Err(_) => refused = io::Error::new(io::ErrorKind::TimedOut, "connection timed out"),
            }
        }
        Err(refused)
    }

    /// The host without the brackets of an IPv6 address.
    fn bare_host(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }

    fn request(&self, path: &str) -> http::Result<Request<Empty<Bytes>>> {
        let Self { host, port, base, authorization, .. } = self;
        let mut request = Request::get(format!("{base}{path}"))
            .header(header::HOST, format!("{host}:{port}"))
            .header(header::ACCEPT, "application/json")
            .header(header::CONNECTION, "close");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        request.body(Empty::new())
    }
}

/// The part of a URL before the path, without user and password.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let place = place.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{place}").chars().filter(|c| !crate::untrusted::is_unsafe(*c)).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_credentials_never_shown() {
        let client = Client::new("http://user:p%40ss@traces.example:8080/jaeger/").unwrap();
        assert_eq!((client.origin.as_str(), client.base.as_str()), ("http://traces.example:8080", "/jaeger"));
        assert_eq!(client.authorization.as_deref(), Some("Basic dXNlcjpwQHNz"));
        // What stands for no byte stays, what stands for no text is a byte.
        let broken = Client::new("http://user:%+f%zz%ff@host").unwrap();
        assert_eq!(broken.authorization.as_deref(), Some("Basic dXNlcjolK2Ylenr/"));
        assert_eq!(Client::new("localhost").unwrap().origin, "http://localhost:16686");
        for bad in ["ftp://user:secret@host", "http://", "http://user:secret@host:x y/", "http://host/?a=b"] {
            let error = Client::new(bad).map(|client| client.origin).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
