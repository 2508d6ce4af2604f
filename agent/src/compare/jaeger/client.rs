//! GET from a server that nobody vouches for: over HTTP/1.0, with or without TLS, bounded in time and in bytes.
//!
//! One request to a connection, so that an answer ends with it and never comes in chunks. It follows no redirect.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{Uri, uri::Authority};
use rustls::{ClientConnection, StreamOwned, pki_types::ServerName};

use super::JaegerError;
use crate::sinks::otlp;

/// For a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Without a byte.
const SILENCE: Duration = Duration::from_mins(1);
/// Of an answer: 1,000 traces of ten spans with all their attributes are 40 MB.
pub(super) const MOST_BYTES: u64 = 128 << 20;
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
}

/// Status and body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// It would have gone on.
    pub(super) is_cut: bool,
}

impl Client {
    /// Of a URL such as `http://localhost:16686` or `https://user:password@host/jaeger`.
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
        })
    }

    /// Asks once.
    pub(super) fn get(&self, path: &str) -> Result<Answer, JaegerError> {
        self.ask(path).map_err(|error| JaegerError::Ask { origin: self.origin.clone(), error })
    }

    fn ask(&self, path: &str) -> io::Result<Answer> {
        let host = self.host.trim_matches(['[', ']']);
        let mut refused = io::Error::other("no address");
        let addresses = (host, self.port).to_socket_addrs()?;
        let connected =
            addresses.into_iter().find_map(|address| match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => Some(stream),
                Err(error) => {
                    refused = error;
                    None
                }
            });
        let stream = connected.ok_or(refused)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let Some(config) = &self.tls else { return self.exchange(stream, path) };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        self.exchange(StreamOwned::new(connection, stream), path)
    }

    fn exchange(&self, mut stream: impl Read + Write, path: &str) -> io::Result<Answer> {
        let Self { host, port, base, authorization, .. } = self;
        let mut request =
            format!("GET {base}{path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n");
        if let Some(authorization) = authorization {
            request = format!("{request}Authorization: {authorization}\r\n");
        }
        stream.write_all(format!("{request}\r\n").as_bytes())?;
        stream.flush()?;
        let mut answer = Vec::new();
        match stream.take(MOST_BYTES).read_to_end(&mut answer) {
            // A server that closes without a word of TLS has still said all if the length is right.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => {}
            outcome => drop(outcome?),
        }
        parse(answer)
    }
}

fn parse(mut answer: Vec<u8>) -> io::Result<Answer> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let is_cut = answer.len() as u64 >= MOST_BYTES;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or_else(|| invalid("not an answer of HTTP"))?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.split_whitespace().nth(1));
    let status = status.and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| invalid("not an answer of HTTP"))?;
    answer.drain(..end + 4);
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<u64>().ok())?
    });
    if !is_cut && length.is_some_and(|length| (answer.len() as u64) < length) {
        return Err(invalid("the answer was cut off"));
    }
    Ok(Answer { status, body: answer, is_cut })
}

/// Of a URL: what stands before the path, without user and password.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let place = place.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{place}").chars().filter(|c| !c.is_control()).take(100).collect()
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

/// Safe within a query.
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

    #[test]
    fn what_is_no_whole_answer_is_refused() {
        let parsed = |text: &str| parse(text.as_bytes().to_vec());
        assert_eq!(parsed("HTTP/1.0 404 Not Found\r\nX: y\r\n\r\nno").unwrap().status, 404);
        assert_eq!(parsed("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno").unwrap().body, b"no");
        for bad in
            ["", "SSH-2.0\r\n\r\n", "HTTP/1.1 many\r\n\r\n", "HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nno"]
        {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
