//! Asks a Jaeger over its query API (v3) whether it is there and how many traces it holds.
//!
//! Yields plain answers. It does not follow redirects, speaks no TLS, and asks no proxy.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail, ensure};
use chrono::{DateTime, SecondsFormat, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;

/// Limit of connecting and of waiting for the head of an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of reading its body.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);
/// More than any answer to a verb.
const MOST_BYTES: u64 = 1 << 30;
/// More than any verb sends.
const MOST_TRACES: u32 = 100_000;
/// All but letters, digits and what RFC 3986 leaves as it is everywhere.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The body of a successful GET.
fn get(base: &str, path: &str) -> Result<String> {
    let base = base.trim_end_matches('/');
    ensure!(base.starts_with("http://"), "not an http:// address");
    let client = ureq::Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_connect(Some(TIMEOUT))
        .timeout_recv_response(Some(TIMEOUT))
        .timeout_recv_body(Some(BODY_TIMEOUT))
        .build()
        .new_agent();
    let mut answer = client.get(format!("{base}{path}")).header("Accept", "application/json").call()?;
    match answer.status().as_u16() {
        200 => Ok(answer.body_mut().with_config().limit(MOST_BYTES).lossy_utf8(true).read_to_string()?),
        status => bail!("HTTP status {status}"),
    }
}

/// Whether a Jaeger answers there.
pub(crate) fn answers(base: &str) -> bool {
    get(base, "/api/v3/services").is_ok_and(|text| {
        // An empty one says `{}`.
        serde_json::from_str::<Value>(&text).is_ok_and(|value| {
            value.as_object().is_some_and(|fields| fields.is_empty() || fields.contains_key("services"))
        })
    })
}

/// Whether its page is the real one: a Jaeger that was built from its Go module has the API only.
pub(crate) fn has_page(base: &str) -> bool {
    get(base, "/").is_ok_and(|page| page.contains("jaeger-ui-root"))
}

/// How many traces of a service that hold an operation began since a time.
pub(crate) fn count_traces(base: &str, service: &str, operation: &str, since: SystemTime) -> Result<usize> {
    let until = SystemTime::now() + Duration::from_mins(1);
    let path = format!(
        "/api/v3/traces?query.service_name={}&query.operation_name={}&query.start_time_min={}&query.start_time_max={}\
         &query.num_traces={MOST_TRACES}&query.search_depth={MOST_TRACES}",
        percent_encoded(service),
        percent_encoded(operation),
        rfc3339(since),
        rfc3339(until),
    );
    match get(base, &path) {
        Ok(text) => count_trace_ids(&text),
        // Jaeger's answer when it has no traces at all.
        Err(error) if error.to_string() == "HTTP status 404" => Ok(0),
        Err(error) => Err(error.context(format!("Jaeger's query API: {base}"))),
    }
}

/// Distinct trace ids in an answer, which may be one JSON value or several.
fn count_trace_ids(text: &str) -> Result<usize> {
    let mut ids = HashSet::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.context("Jaeger's answer is not JSON")?;
        let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
        for resource in list(&value["result"], "resourceSpans") {
            for scope in list(&resource, "scopeSpans") {
                ids.extend(
                    list(&scope, "spans")
                        .iter()
                        .filter_map(|span| Some(span["traceId"].as_str()?.to_owned())),
                );
            }
        }
    }
    Ok(ids.len())
}

fn percent_encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

/// A time in UTC with seconds, as the query API wants it.
fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
        time::{Duration, UNIX_EPOCH},
    };

    use rstest::rstest;

    use super::{count_trace_ids, get, percent_encoded, rfc3339};

    #[rstest]
    #[case(0, "1970-01-01T00:00:00Z")]
    #[case(68_169_599, "1972-02-28T23:59:59Z")]
    #[case(68_169_600, "1972-02-29T00:00:00Z")]
    #[case(951_782_400, "2000-02-29T00:00:00Z")]
    #[case(1_795_252_811, "2026-11-21T09:20:11Z")]
    #[case(1_798_761_599, "2026-12-31T23:59:59Z")]
    fn times_are_in_utc(#[case] seconds: u64, #[case] expected: &str) {
        assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
    }

    #[rstest]
    #[case::none("{}", 0)]
    #[case::no_text("", 0)]
    #[case::two_spans_of_one(
        r#"{"result":{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"a"},{"traceId":"a"}]}]}]}}"#,
        1
    )]
    #[case::two_values(
        r#"{"result":{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"a"}]}]}]}}
           {"result":{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"b"}]}]}]}}"#,
        2
    )]
    fn traces_are_counted_once(#[case] text: &str, #[case] expected: usize) {
        assert_eq!(count_trace_ids(text).unwrap(), expected);
    }

    #[test]
    fn an_answer_that_is_not_json_is_an_error() {
        assert!(count_trace_ids("<html>").is_err());
    }

    /// What comes of a server that hears one request and answers so.
    fn heard(answer: &'static str) -> anyhow::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            drop(stream.read(&mut [0; 1024]));
            drop(stream.write_all(answer.as_bytes()));
        });
        get(&base, "/api/v3/services")
    }

    #[rstest]
    #[case::to_its_end("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}", Some("{}"))]
    #[case::with_a_length("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", Some("{}"))]
    #[case::in_pieces(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        Some("{}")
    )]
    #[case::cut_off("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", None)]
    #[case::no_end_of_the_head("HTTP/1.0 200 OK", None)]
    #[case::nothing("", None)]
    #[case::elsewhere(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 2\r\n\r\n{}",
        None
    )]
    fn only_a_whole_success_has_a_body(#[case] answer: &'static str, #[case] expected: Option<&str>) {
        assert_eq!(heard(answer).ok().as_deref(), expected);
    }

    /// Jaeger says so when it has no traces.
    #[test]
    fn a_status_is_told() {
        let error = heard("HTTP/1.0 404 Not Found\r\n\r\nno").unwrap_err();
        assert_eq!(error.to_string(), "HTTP status 404");
    }

    #[test]
    fn service_names_may_hold_anything() {
        assert_eq!(percent_encoded("a b&c=ü").to_string(), "a%20b%26c%3D%C3%BC");
    }
}
