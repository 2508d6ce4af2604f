//! One GET over plain HTTP/1.0 on the standard library, which is enough for a server on this machine.
//!
//! Yields status and body. No TLS, no redirects, no chunks (1.0 has none).

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

const TIMEOUT: Duration = Duration::from_secs(20);

/// `http://HOST:PORT` without its scheme.
pub(crate) fn authority(base: &str) -> &str {
    base.trim_end_matches('/').strip_prefix("http://").expect("an http:// address without a path")
}

/// Status and body.
pub(crate) fn get(base: &str, path: &str) -> std::io::Result<(u16, String)> {
    let host = authority(base);
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    Ok((status.unwrap_or(0), body.to_owned()))
}

/// Safe within a query.
pub(crate) fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
