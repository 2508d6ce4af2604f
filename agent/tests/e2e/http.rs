//! One GET from a server on this machine.
//!
//! Yields status and body. No TLS, no redirects, no proxy.

use std::time::Duration;

/// Limit of each step: connecting, and reading the head and the body.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Far more than any answer here.
const MOST_BYTES: u64 = 1 << 30;

/// `http://HOST:PORT` without its scheme.
pub(crate) fn authority(base: &str) -> &str {
    base.trim_end_matches('/').strip_prefix("http://").expect("an http:// address without a path")
}

/// Status and body.
pub(crate) fn get(base: &str, path: &str) -> Result<(u16, String), ureq::Error> {
    let client = ureq::Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_connect(Some(TIMEOUT))
        .timeout_recv_response(Some(TIMEOUT))
        .timeout_recv_body(Some(TIMEOUT))
        .build()
        .new_agent();
    let url = format!("http://{}{path}", authority(base));
    let mut answer = client.get(&url).header("Accept", "application/json").call()?;
    let body = answer.body_mut().with_config().limit(MOST_BYTES).lossy_utf8(true).read_to_string()?;
    Ok((answer.status().as_u16(), body))
}
