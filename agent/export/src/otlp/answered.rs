//! Requests that came over a network, by OpenTelemetry's conventions: what was asked for and how it was
//! answered.
//!
//! Nothing but the name and the status code is known of one: `GET /items/{id}` for HTTP,
//! `/package.Service/Method` for gRPC.

use guestscope_contract::Source;
use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    trace::v1::{Status, status::StatusCode},
};

use super::message::{integer, text};
use crate::phase::{Phase, PhaseKind};

/// Methods of HTTP (RFC 9110, and PATCH of RFC 5789). Other words before a blank are not methods.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
/// First status code of server errors; a client error is no error of the server's span.
const SERVER_ERROR: u32 = 500;

/// Contents of a request's name.
enum Asked<'a> {
    Http { method: &'a str, route: Option<&'a str> },
    Rpc { service: &'a str, method: &'a str },
}

fn asked(name: &str) -> Option<Asked<'_>> {
    if let Some((service, method)) = name.strip_prefix('/').and_then(|name| name.rsplit_once('/')) {
        return Some(Asked::Rpc { service, method });
    }
    let (method, route) = name.split_once(' ').map_or((name, None), |(method, route)| (method, Some(route)));
    METHODS.contains(&method).then_some(Asked::Http { method, route })
}

/// Method, route and status code of a request that was answered.
pub(super) fn attributes(phase: &Phase) -> Vec<KeyValue> {
    if phase.kind != PhaseKind::Request || phase.source == Source::Marker {
        return Vec::new();
    }
    let code = |key: &str| phase.status.map(|status| integer(key, u64::from(status)));
    match asked(&phase.name.to_string()) {
        Some(Asked::Http { method, route }) => {
            let known = [route.map(|route| text("http.route", route)), code("http.response.status_code")];
            [text("http.request.method", method)].into_iter().chain(known.into_iter().flatten()).collect()
        }
        Some(Asked::Rpc { service, method }) => {
            let known =
                [text("rpc.system", "grpc"), text("rpc.service", service), text("rpc.method", method)];
            known.into_iter().chain(code("rpc.grpc.status_code")).collect()
        }
        None => Vec::new(),
    }
}

/// An error where the server failed: for gRPC the conventions call most codes server errors, but not all.
pub(super) fn status(phase: &Phase) -> Status {
    match (phase.status, asked(&phase.name.to_string())) {
        (Some(status), Some(Asked::Http { .. })) if status >= SERVER_ERROR => {
            Status { code: StatusCode::Error as i32, message: format!("status {status}") }
        }
        _ => Status::default(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::otlp::tests::{phase, shown};

    #[rstest]
    #[case::http(
        "GET /items/{id}",
        Some(200),
        "http.request.method=GET http.route=/items/{id} http.response.status_code=200",
        false
    )]
    #[case::without_a_route("GET", Some(503), "http.request.method=GET http.response.status_code=503", true)]
    #[case::a_clients_fault(
        "POST /x",
        Some(404),
        "http.request.method=POST http.route=/x http.response.status_code=404",
        false
    )]
    #[case::hung_up("GET", None, "http.request.method=GET", false)]
    #[case::grpc(
        "/infer.Models/Predict",
        None,
        "rpc.system=grpc rpc.service=infer.Models rpc.method=Predict",
        false
    )]
    #[case::something_else("forward ResNet", None, "", false)]
    #[case::a_name_with_orders(
        "GET /\u{1b}[2J",
        Some(200),
        "http.request.method=GET http.route=/\u{fffd}[2J http.response.status_code=200",
        false
    )]
    fn what_was_asked_for_stands_under_its_conventions(
        #[case] name: &str,
        #[case] status: Option<u32>,
        #[case] expected: &str,
        #[case] is_error: bool,
    ) {
        let asked = Phase { source: Source::Python, status, ..phase(1, 1, None, name) };
        let words: Vec<String> = attributes(&asked).iter().map(shown).collect();
        assert_eq!(words.join(" "), expected);
        assert_eq!(super::status(&asked).code() == StatusCode::Error, is_error);
        assert!(attributes(&Phase { source: Source::Marker, ..asked }).is_empty(), "the program's own word");
    }
}
