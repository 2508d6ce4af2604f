//! URL of a collector: what may be shown, what is secret, and which protocol its port speaks.
//!
//! It knows `http` and `https` only. Paths follow the specification: a base URL gets `/v1/traces`, the
//! variable for traces is taken as it stands.

use http::Uri;

use super::{ExportError, Protocol, settings::Signal};
use crate::percent;

/// A parsed URL.
pub(super) struct Url {
    secure: bool,
    /// Whether the scheme was given.
    has_scheme: bool,
    host: String,
    port: Option<u16>,
    /// Path with the query; empty or begins with a slash.
    path: String,
    credentials: Option<String>,
}

impl Url {
    /// Parses a URL. Without a scheme it is `https` if `secure`, else `http`.
    pub(super) fn parse(given: &str, secure: bool) -> Result<Self, ExportError> {
        let bad = |why| ExportError::BadEndpoint { shown: shown(given), why };
        let scheme_end = given.find("://").filter(|&end| !given[..end].contains(['/', '?', '#', '@']));
        let (secure, rest) =
            match scheme_end.map(|end| (given[..end].to_ascii_lowercase(), &given[end + 3..])) {
                None => (secure, given),
                Some((scheme, rest)) if scheme == "http" => (false, rest),
                Some((scheme, rest)) if scheme == "https" => (true, rest),
                Some(_) => return Err(bad("the scheme is neither http nor https")),
            };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, authority),
        };
        // A slash that was not encoded cuts a password in two, and its end would be taken for the host.
        if path.split(['?', '#']).next().is_some_and(|path| path.contains('@')) {
            return Err(bad("an @ in the path"));
        }
        let parsed: http::uri::Authority = place.parse().map_err(|_| bad("no valid host"))?;
        if parsed.host().is_empty() {
            return Err(bad("no host"));
        }
        // `Uri` accepts any text after the colon as a port.
        let port = place[parsed.host().len()..].strip_prefix(':').map(str::parse::<u16>);
        let port = port.transpose().map_err(|_| bad("no valid port"))?;
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        Ok(Self {
            secure,
            has_scheme: scheme_end.is_some(),
            host: parsed.host().to_owned(),
            port,
            path,
            credentials: credentials.and_then(percent::decoded_text).filter(|text| !text.is_empty()),
        })
    }

    /// Takes `user:password` out.
    pub(super) fn take_credentials(&mut self) -> Option<String> {
        self.credentials.take()
    }

    /// Protocol by port or path.
    pub(super) fn protocol(&self) -> Option<Protocol> {
        match self.port {
            Some(4317) => Some(Protocol::Grpc),
            Some(4318) => Some(Protocol::HttpProtobuf),
            Some(_) | None => self.path.starts_with("/v1/").then_some(Protocol::HttpProtobuf),
        }
    }

    /// Scheme, host and port. A URL with a scheme means that scheme's port, a bare host the port of the
    /// protocol.
    pub(super) fn origin(&self, protocol: Protocol) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let host = &self.host;
        match self.port.or_else(|| (!self.has_scheme).then_some(protocol.port())) {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }
    }

    /// The URL to send to: over HTTP with the signal's path, unless the given one is to be taken as it
    /// stands.
    pub(super) fn uri(&self, protocol: Protocol, path: &str, verbatim: bool) -> Result<Uri, ExportError> {
        let path = match protocol {
            Protocol::Grpc => String::new(),
            Protocol::HttpProtobuf if verbatim => self.path.clone(),
            Protocol::HttpProtobuf => with_path(&self.path, path),
        };
        let origin = self.origin(protocol);
        format!("{origin}{path}")
            .parse()
            .map_err(|_| ExportError::BadEndpoint { shown: origin, why: "no valid path" })
    }
}

/// A base URL's path with the signal's path appended, unless it is there already; the query stays at the end.
fn with_path(base: &str, own: &str) -> String {
    let (path, query) = base.split_at(base.find('?').unwrap_or(base.len()));
    let path = path.trim_end_matches('/');
    // One endpoint may be given for traces and metrics alike.
    let others = [own, Signal::Traces.path(), Signal::Metrics.path()];
    let path = others.into_iter().find_map(|other| path.strip_suffix(other)).unwrap_or(path);
    format!("{path}{own}{query}")
}

/// The part of an unparsable URL before its path, without user and password.
fn shown(given: &str) -> String {
    let (scheme, rest) = given.split_once("://").map_or(("", given), |(scheme, rest)| (scheme, rest));
    let authority = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}{authority}")
        .chars()
        .filter(|c| !crate::untrusted::is_unsafe(*c))
        .take(100)
        .collect()
}
