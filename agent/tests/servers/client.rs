//! Clients that keep their connections open and time each request.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::fd::AsRawFd as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use guestscope::clock;

const TIMEOUT: Duration = Duration::from_mins(1);

/// A request as its client saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// Trace and parent span that it sent.
    pub(crate) number: u64,
    /// CLOCK_MONOTONIC, ns.
    pub(crate) begin_ns: u64,
    pub(crate) duration_ns: u64,
}

/// Shares this many requests among clients, each of which waits for an answer before its next request.
pub(crate) fn ask(port: u16, clients: u64, requests: u64) -> Vec<Answered> {
    let next = AtomicU64::new(1);
    let one = || {
        ahead_of_all_others();
        let mut stream = connect(port);
        let mut answered = Vec::new();
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number > requests {
                return answered;
            }
            let begin_ns = clock::now_ns();
            let is_kept = exchange(&mut stream, number);
            answered.push(Answered { number, begin_ns, duration_ns: clock::now_ns() - begin_ns });
            if !is_kept {
                stream = connect(port);
            }
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no client fails")).collect()
    })
}

/// Real-time priority for the client: the server cannot know of time that a client waits for a CPU.
fn ahead_of_all_others() {
    // SAFETY: numbers alone, of which musl has more; for the calling thread, and as long as the call lasts.
    // Where it is refused the client is one thread among others.
    unsafe {
        let mut first: libc::sched_param = std::mem::zeroed();
        first.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first);
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
    stream.set_nodelay(true).expect("it is TCP");
    stream
}

/// Whether the server keeps the connection.
fn exchange(stream: &mut TcpStream, number: u64) -> bool {
    let head = format!(
        "GET /predict/{number} HTTP/1.1\r\nHost: localhost\r\ntraceparent: 00-{number:032x}-{number:016x}-01\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("the server reads");
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        acknowledge_at_once(stream);
        let read = stream.read(&mut part).expect("the server answers");
        assert!(read > 0, "the server hung up: {}", String::from_utf8_lossy(&answer));
        answer.extend(&part[..read]);
        if is_whole(&answer) {
            break;
        }
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    !String::from_utf8_lossy(&answer).to_lowercase().contains("\r\nconnection: close\r\n")
}

/// Without this, a server that sends an answer in two parts may wait 40 ms for the acknowledgement of the
/// first (Nagle's algorithm), which is network time. The kernel resets this option by itself.
fn acknowledge_at_once(stream: &TcpStream) {
    let (on, size) = (1_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: a descriptor of ours, and an option of the size that is said.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUICKACK,
            (&raw const on).cast(),
            size,
        )
    };
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length.is_some_and(|(_, length)| body.len() >= length.parse::<usize>().expect("a length is a number"))
}
