//! GET from an untrusted server: over HTTP/1.0, with or without TLS, bounded in time and in bytes.
//!
//! One request per connection, so that an answer ends with it and never comes in chunks. No redirects.

use std::{
    io,
    net::{TcpStream, ToSocketAddrs as _},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{Uri, uri::Authority};
use rustls::{ClientConnection, StreamOwned, pki_types::ServerName};

use super::{
    JaegerError,
    exchange::{Answer, Deadline, Timed, exchange},
};
use crate::sinks::otlp;

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
    tls: Option<Arc<rustls::ClientConfig>>,
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
            authorization: credentials.map(|text| format!("Basic {}", BASE64_STANDARD.encode(decoded(text)))),
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
        let deadline = Deadline::after(self.all.left(self.patience)?);
        let host = self.host.trim_matches(['[', ']']);
        let mut refused = io::Error::other("no address");
        let mut connected = None;
        for address in (host, self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, deadline.left(CONNECT)?) {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(error) => refused = error,
            }
        }
        let mut stream = Timed::new(connected.ok_or(refused)?, deadline, MOST_BYTES + MOST_BESIDE_BYTES);
        let request = self.request(path);
        let Some(config) = &self.tls else { return exchange(&mut stream, &request, MOST_BYTES) };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        exchange(&mut StreamOwned::new(connection, stream), &request, MOST_BYTES)
    }

    fn request(&self, path: &str) -> String {
        let Self { host, port, base, authorization, .. } = self;
        let authorization =
            authorization.as_ref().map_or_else(String::new, |it| format!("Authorization: {it}\r\n"));
        format!(
            "GET {base}{path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n{authorization}\r\n"
        )
    }
}

/// The part of a URL before the path, without user and password.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let place = place.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{place}").chars().filter(|c| !crate::untrusted::is_unsafe(*c)).take(100).collect()
}

/// Percent signs undone, as a URL's user and password have them.
fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut all = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        let decoded = hex.filter(|_| byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        all.push(decoded.unwrap_or(byte));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    all
}

/// Percent-encoded for use within a query.
pub(super) fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_credentials_never_shown() {
        let client = Client::new("http://user:p%40ss@traces.example:8080/jaeger/").unwrap();
        assert_eq!((client.origin.as_str(), client.base.as_str()), ("http://traces.example:8080", "/jaeger"));
        assert_eq!(client.authorization.as_deref(), Some("Basic dXNlcjpwQHNz"));
        assert_eq!(Client::new("localhost").unwrap().origin, "http://localhost:16686");
        for bad in ["ftp://user:secret@host", "http://", "http://user:secret@host:x y/", "http://host/?a=b"] {
            let error = Client::new(bad).map(|client| client.origin).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
