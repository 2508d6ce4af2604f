//! Asks a Jaeger over its query API (v3) whether it is there and how many traces it holds.
//!
//! Yields plain answers from plain HTTP/1.0 on the standard library, which is enough for a server on this
//! machine. It does not follow redirects and does not speak TLS.

use std::{
    collections::HashSet,
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(10);
/// More than any verb sends.
const MOST_TRACES: u32 = 100_000;

/// The body of a successful GET.
fn get(base: &str, path: &str) -> Result<String> {
    let address = base.trim_end_matches('/').strip_prefix("http://").context("not an http:// address")?;
    let socket =
        address.to_socket_addrs().ok().and_then(|mut a| a.next()).context("not an address with a port")?;
    let mut stream = TcpStream::connect_timeout(&socket, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // 1.0, so that the answer ends with the connection and never comes in chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    body(&String::from_utf8_lossy(&answer))
}

fn body(answer: &str) -> Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the HTTP header")?;
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_owned()),
        Some(status) => bail!("HTTP status {status}"),
        None => bail!("no HTTP status"),
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

fn percent_encoded(text: &str) -> String {
    let keep = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// A time in UTC with seconds, as the query API wants it.
fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Year, month and day of a number of days since 1970, by counting whole years and months.
fn civil(mut days: u64) -> (u64, usize, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use rstest::rstest;

    use super::{body, count_trace_ids, percent_encoded, rfc3339};

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

    #[rstest]
    #[case("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}", Some("{}"))]
    #[case("HTTP/1.0 404 Not Found\r\n\r\nno", None)]
    #[case("HTTP/1.0 200 OK", None)]
    fn only_a_whole_success_has_a_body(#[case] answer: &str, #[case] expected: Option<&str>) {
        assert_eq!(body(answer).ok().as_deref(), expected);
    }

    #[test]
    fn service_names_may_hold_anything() {
        assert_eq!(percent_encoded("a b&c=ü"), "a%20b%26c%3D%C3%BC");
    }
}
