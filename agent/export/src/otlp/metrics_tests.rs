//! Pushed metrics, as a collector gets them.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
};

use prost::Message as _;

use super::*;
use crate::analyze::samples;

/// A collector over HTTP that hands on what it gets, and answers the first requests with these codes.
fn collector(codes: &'static [u16]) -> (String, Receiver<(String, ExportMetricsServiceRequest)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it has one"));
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut codes = codes.iter();
        for stream in listener.incoming() {
            let mut stream = stream.expect("somebody comes");
            while let Some((path, body)) = request(&mut stream) {
                let code = codes.next().copied().unwrap_or(200);
                let answer = format!("HTTP/1.1 {code} x\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).expect("it reads");
                let message = ExportMetricsServiceRequest::decode(&*body).expect("it is OTLP");
                if send.send((path, message)).is_err() {
                    return;
                }
            }
        }
    });
    (url, receive)
}

/// Path and body of the next request of a connection.
fn request(stream: &mut std::net::TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        let length: usize = length.trim().parse().ok()?;
        if bytes.len() >= head + 4 + length {
            let path = text.split_whitespace().nth(1)?.to_owned();
            return Some((path, bytes[head + 4..].to_vec()));
        }
    }
}

fn counts(message: &ExportMetricsServiceRequest) -> (u64, i32, Vec<(u64, u64)>) {
    let metrics = &message.resource_metrics[0].scope_metrics[0].metrics;
    let duration = metrics.iter().find(|one| one.name == "guestscope.phase.duration").expect("it is there");
    let Some(Data::ExponentialHistogram(data)) = &duration.data else { panic!("{duration:?}") };
    let spans = data.data_points.iter().map(|point| (point.start_time_unix_nano, point.time_unix_nano));
    let count = data.data_points.iter().map(|point| {
        let buckets = point.positive.as_ref().map_or(0, |buckets| buckets.bucket_counts.iter().sum());
        assert_eq!(point.count, buckets + point.zero_count);
        point.count
    });
    (count.sum(), data.aggregation_temporality, spans.collect())
}

fn exporter(url: &str, preference: &'static str, source: Box<Source>) -> MetricsExporter {
    let config = MetricsConfig { service_name: "llm".to_owned(), ..MetricsConfig::default() };
    let endpoint = url.to_owned();
    let environment = move |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(endpoint.clone()),
        "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("http/protobuf".to_owned()),
        "OTEL_METRIC_EXPORT_INTERVAL" => Some("50".to_owned()),
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE" => Some(preference.to_owned()),
        _ => None,
    };
    MetricsExporter::start_in(config, source, &environment).expect("it starts")
}

/// A source that has ten more requests at each push.
fn growing() -> Box<Source> {
    let requests = samples::inference(10);
    let metrics = Mutex::new(Metrics::default());
    Box::new(move || {
        let mut metrics = metrics.lock().expect("one thread");
        for request in &requests {
            metrics.observe(request, None, 0);
        }
        (metrics.clone(), Vec::new())
    })
}

#[test]
fn cumulative_numbers_grow() {
    let (url, got) = collector(&[503]);
    let mut exporter = exporter(&url, "", growing());
    let (path, first) = got.recv().expect("it comes");
    assert_eq!(path, "/v1/metrics");
    let (_, second) = got.recv().expect("it comes");
    let (first, second) = (counts(&first), counts(&second));
    assert_eq!((second.0, second.1), (2 * first.0, AggregationTemporality::Cumulative as i32));
    assert_eq!(first.2[0].0, second.2[0].0, "the same begin");
    exporter.finish();
    let (sent, failed, error) = exporter.so_far();
    assert!(sent > 0 && failed == 1 && error.is_none(), "{sent} {failed} {error:?}");
}

#[test]
fn a_difference_that_was_not_taken_is_part_of_the_next() {
    let (url, got) = collector(&[200, 503]);
    let mut exporter = exporter(&url, "delta", growing());
    let three: Vec<_> = (0..3).map(|_| counts(&got.recv().expect("it comes").1)).collect();
    exporter.finish();
    let one = three[0].0;
    assert_eq!(three.iter().map(|counts| counts.0).collect::<Vec<_>>(), [one, one, 2 * one]);
    assert_eq!(three[0].1, AggregationTemporality::Delta as i32);
    assert_eq!(three[2].2[0].0, three[0].2[0].1, "from the last that was taken");
}
