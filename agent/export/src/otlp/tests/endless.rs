//! Collectors that send without end: a connection ends after so many bytes, over any protocol.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use rstest::rstest;
use tempfile::tempdir;

use super::{
    collector::{Act, Collector},
    delivery::assert_balance,
    exporter, offer,
    trouble::into,
};
use crate::otlp::{FINISH, Protocol};

/// The kernel's buffers of a connection hold some MiB. A client that takes more than this reads for ever.
const ENDLESS: u64 = 64 << 20;

/// A collector that sends `first` and then `piece` over and over. Reports the bytes sent on each connection.
fn start(first: Vec<u8>, piece: &[u8]) -> (String, Receiver<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (counts, counted) = mpsc::channel();
    let pieces = piece.repeat((64 << 10) / piece.len());
    // Lives as long as the test process: it only waits.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (first, pieces, counts) = (first.clone(), pieces.clone(), counts.clone());
            thread::spawn(move || send(stream, &first, &pieces, &counts));
        }
    });
    (format!("http://{address}"), counted)
}

fn send(mut stream: TcpStream, first: &[u8], pieces: &[u8], counts: &Sender<u64>) {
    let mut request = [0; 24];
    if stream.read_exact(&mut request).is_err() {
        return;
    }
    let hearing = stream.try_clone().expect("a socket");
    // The client's bytes must not fill the other direction.
    thread::spawn(move || std::io::copy(&mut { hearing }, &mut std::io::sink()));
    let mut sent = 0;
    let mut more = stream.write_all(first).is_ok();
    while more && sent < ENDLESS {
        more = stream.write_all(pieces).is_ok();
        sent += pieces.len() as u64;
    }
    // The test may be over.
    let _ = counts.send(sent);
    let _ = stream.shutdown(Shutdown::Both);
}

/// A frame of HTTP/2 on a stream.
fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, 0], &stream.to_be_bytes(), payload].concat()
}

#[rstest]
#[case::interim_answers(
    Protocol::HttpProtobuf,
    vec![],
    b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n".to_vec()
)]
#[case::a_body(
    Protocol::HttpProtobuf,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
    b"1\r\nz\r\n".to_vec()
)]
#[case::frames_of_no_known_type(Protocol::Grpc, frame(4, 0, &[]), frame(0xfa, 0, &[0; 8]))]
#[case::priorities(Protocol::Grpc, frame(4, 0, &[]), frame(2, 1, &[0, 0, 0, 0, 1]))]
#[case::pings(Protocol::Grpc, frame(4, 0, &[]), frame(6, 0, &[0; 8]))]
#[case::settings(Protocol::Grpc, frame(4, 0, &[]), frame(4, 0, &[]))]
fn a_collector_that_sends_without_end_is_left(
    #[case] protocol: Protocol,
    #[case] first: Vec<u8>,
    #[case] piece: Vec<u8>,
) {
    let folder = tempdir().expect("a folder");
    let (endpoint, counted) = start(first, &piece);
    let exporter = exporter(&endpoint, &[], into(folder.path(), protocol));
    let offered = offer(&exporter, 1..3, 4);
    let sent = counted.recv_timeout(Duration::from_secs(30)).expect("a connection that ends");
    assert!(sent < ENDLESS, "all of {sent} bytes were read");
    let health = exporter.finish(FINISH);
    assert_balance(&health, offered);
    assert_eq!(health.spans_sent, 0, "{health:?}");
    let error = health.last_error.expect("an error");
    assert!(error.contains("sent more than 1024 KiB for one request"), "{error}");
}

/// Bytes of one request do not count for the next one on the same connection.
#[rstest]
fn many_short_answers_are_no_endless_one(
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
) {
    let collector = Collector::start(protocol);
    let words = "no ".repeat(50 << 10);
    collector.judge(move |_| Act::Reject(1, words.clone()));
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        config.protocol = Some(protocol);
        config.limits.batch_spans = 4;
    });
    let offered = offer(&exporter, 1..21, 4);
    let health = exporter.finish(FINISH);
    assert_balance(&health, offered);
    // 20 answers of 150 kB each.
    assert_eq!((health.spans_sent, health.spans_rejected), (offered, 20), "{health:?}");
}
