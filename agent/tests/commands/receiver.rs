//! A collector for tests: takes OTLP over HTTP on this machine and answers as the test chooses.
//!
//! One connection at a time, kept open, bodies by Content-Length: all that the agent's client needs.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
    },
    trace::v1::TracesData,
};
use prost::Message as _;

/// The answer to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Accepted: 200.
    Take,
    /// Busy: 503; the sender must try again.
    Busy,
    /// Refused for good: 400.
    Refuse,
    /// Accepted, but this many spans were rejected.
    Reject(i64),
}

/// Requests received so far.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Batches that were accepted, completely or except for some spans.
    pub(crate) taken: Vec<TracesData>,
    /// Number of requests.
    pub(crate) attempts: usize,
    /// The header `x-tenant` of the last request.
    pub(crate) tenant: Option<String>,
}

/// A running collector, by its address.
pub(crate) struct Receiver {
    pub(crate) endpoint: String,
    pub(crate) heard: Arc<Mutex<Heard>>,
}

impl Receiver {
    /// Answers request number n, from 0, by `answer(n)`. Ends with the test's process.
    pub(crate) fn start(answer: fn(usize) -> Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Heard::default()));
        let theirs = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), answer, &theirs);
            }
        });
        Self { endpoint, heard }
    }
}

/// Serves one connection until the client closes it.
fn serve(stream: TcpStream, answer: fn(usize) -> Answer, heard: &Mutex<Heard>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((tenant, body)) = request(&mut reader) {
        let data = ExportTraceServiceRequest::decode(&*body).unwrap();
        let mut heard = heard.lock().unwrap();
        let answer = answer(heard.attempts);
        heard.attempts += 1;
        heard.tenant = tenant;
        let (status, rejected) = match answer {
            Answer::Take => ("200 OK", 0),
            Answer::Reject(spans) => ("200 OK", spans),
            Answer::Busy => ("503 Service Unavailable", 0),
            Answer::Refuse => ("400 Bad Request", 0),
        };
        if status == "200 OK" {
            heard.taken.push(TracesData { resource_spans: data.resource_spans });
        }
        drop(heard);
        let words = "over the limit of its tenant".to_owned();
        let partial = ExportTracePartialSuccess { rejected_spans: rejected, error_message: words };
        let partial_success = (rejected > 0).then_some(partial);
        let body = ExportTraceServiceResponse { partial_success }.encode_to_vec();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
    }
}

/// The header `x-tenant` and the body; none at the end of the connection.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(Option<String>, Vec<u8>)> {
    let (mut length, mut tenant) = (0, None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.trim().split_once(':') else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "x-tenant" => tenant = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Some((tenant, body))
}
