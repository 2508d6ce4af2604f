//! Clients that keep their connections, and time each request.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const TIMEOUT: Duration = Duration::from_mins(1);
pub(crate) const CLIENTS: u64 = 4;

/// A request as its client saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// Trace and parent span that it sent.
    pub(crate) number: u64,
    pub(crate) duration_ns: u64,
}

/// So many requests, shared among clients that each wait for an answer before they ask again.
pub(crate) fn ask(port: u16, requests: u64) -> Vec<Answered> {
    let next = AtomicU64::new(1);
    let one = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        stream.set_nodelay(true).expect("it is TCP");
        let mut answered = Vec::new();
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number > requests {
                return answered;
            }
            let begin = Instant::now();
            exchange(&mut stream, number);
            answered.push(Answered { number, duration_ns: begin.elapsed().as_nanos() as u64 });
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(one)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no client fails")).collect()
    })
}

fn exchange(stream: &mut TcpStream, number: u64) {
    let head = format!(
        "GET /predict/{number} HTTP/1.1\r\nHost: localhost\r\ntraceparent: 00-{number:032x}-{number:016x}-01\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("the server reads");
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = stream.read(&mut part).expect("the server answers");
        assert!(read > 0, "the server hung up: {}", String::from_utf8_lossy(&answer));
        answer.extend(&part[..read]);
        if is_whole(&answer) {
            break;
        }
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length.is_some_and(|(_, length)| body.len() >= length.parse::<usize>().expect("a length is a number"))
}
