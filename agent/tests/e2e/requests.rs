//! `--requests`: servers in several languages, with this test as the client. Its measurements are the truth:
//! as many requests as it sent, each inside the interval that it measured.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use guestscope::phase::{PhaseKind, Request};
use rstest::rstest;

use crate::{
    folder::Seen,
    ground::{Ground, eventually, file, python},
    natives,
    running::{Done, Start},
};

/// Limit for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection of any kind.
trait Way: Read + Write {}
impl Way for TcpStream {}
impl Way for UnixStream {}

/// Address of a server.
#[derive(Clone)]
pub(crate) enum Address {
    Port(u16),
    Path(PathBuf),
}

impl Address {
    /// A port that is free at this moment.
    fn free() -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("the loopback device is up");
        Address::Port(listener.local_addr().expect("it is bound").port())
    }

    fn word(&self) -> String {
        match self {
            Address::Port(port) => port.to_string(),
            Address::Path(path) => path.display().to_string(),
        }
    }

    fn option(&self) -> String {
        match self {
            Address::Port(port) => format!("port:{port}"),
            Address::Path(path) => format!("unix:{}", path.display()),
        }
    }

    fn try_connect(&self) -> io::Result<Client> {
        let way: Box<dyn Way> = match self {
            Address::Port(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
            Address::Path(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
        };
        Ok(Client(way))
    }

    pub(crate) fn connect(&self) -> Client {
        eventually("the server listens", || self.try_connect().ok())
    }
}

/// A connection of this test.
pub(crate) struct Client(Box<dyn Way>);

impl Client {
    fn send(&mut self, path: &str) {
        let question = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.0.write_all(question.as_bytes()).expect("the server is there");
    }

    /// Reads one complete answer.
    fn receive(&mut self) {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            self.0.read_exact(&mut byte).expect("the server answers");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("it is text").to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.expect("it says how long it is").parse().expect("a number");
        self.0.read_exact(&mut vec![0; length]).expect("the server answers");
    }

    /// Sends a request; returns the time until the complete answer.
    pub(crate) fn ask(&mut self, path: &str) -> Duration {
        let begin = Instant::now();
        self.send(path);
        self.receive();
        begin.elapsed()
    }
}

/// Kind of server.
pub(crate) enum Server {
    Python(&'static str),
    Go,
    Java,
}

impl Server {
    /// The program and its first arguments; none, with a note on stdout, if this machine lacks it.
    fn words(&self, test: &str, ground: &Ground) -> Option<Vec<PathBuf>> {
        match self {
            Server::Python(kind) => {
                Some(vec![python(test)?, file("tests/data/e2e/servers/server.py"), kind.into()])
            }
            Server::Go => natives::go(test, ground, "server.go", &[]).map(|program| vec![program]),
            Server::Java => natives::java(test, ground),
        }
    }
}

/// Runs the server under the agent while `load` sends requests, then has it end. Returns the result of
/// `load`, and what the agent saw without the request `/quit`.
fn served<T>(
    test: &str,
    what: (&Server, impl FnOnce(&Ground) -> Address),
    load: impl FnOnce(&Address) -> T,
) -> Option<(T, Seen, Done)> {
    let served = served_with(test, &[], what, load);
    if let Some((_, _, done)) = &served {
        assert!(done.losses().is_empty(), "{:?}", done.losses());
    }
    served
}

/// As `served`, with further options of the agent, and without checking losses.
pub(crate) fn served_with<T>(
    test: &str,
    options: &[&str],
    (server, address): (&Server, impl FnOnce(&Ground) -> Address),
    load: impl FnOnce(&Address) -> T,
) -> Option<(T, Seen, Done)> {
    let ground = Ground::new(test)?;
    let words = server.words(test, &ground)?;
    let address = address(&ground);
    let mut start = ground.run().words(&["--requests", &address.option()]).words(options).program(&words[0]);
    for word in &words[1..] {
        start = start.word(word);
    }
    let running = Start::word(start, address.word()).spawn();
    let asked = load(&address);
    quit(&address);
    let done = running.finish().expect(0);
    let seen = done.seen();
    Some((asked, seen, done))
}

/// Asks each server that listens there to end.
fn quit(address: &Address) {
    let listens = || address.try_connect().is_ok();
    while listens() {
        let mut client = address.connect();
        // Of two servers that share a port, one may end while this client connects to it.
        let _ = client.0.write_all(b"GET /quit HTTP/1.1\r\nHost: x\r\n\r\n");
        let _ = client.0.read(&mut [0; 512]);
        let end = Instant::now() + Duration::from_secs(2);
        while listens() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub(crate) fn in_order(seen: &Seen) -> Vec<&Request> {
    let mut requests: Vec<&Request> = seen.requests.iter().collect();
    requests.sort_by_key(|request| request.root().start_ns);
    requests
}

fn queue_ns(request: &Request) -> u64 {
    let queues = request.phases.iter().filter(|phase| phase.kind == PhaseKind::Queue);
    queues.map(|phase| phase.duration_ns).sum()
}

fn unix(ground: &Ground) -> Address {
    Address::Path(ground.path("web.sock"))
}

pub(crate) fn port(_: &Ground) -> Address {
    Address::free()
}

/// Each request of the client is one of the agent's and at most as long as the client measured: the
/// difference is the network, and the client's own wakeup.
#[rstest]
#[case::threads("threads", Server::Python("threads"), port)]
#[case::an_event_loop("an_event_loop", Server::Python("loop"), port)]
#[case::a_unix_socket("a_unix_socket", Server::Python("loop"), unix)]
#[case::go("go", Server::Go, port)]
#[case::java("java", Server::Java, port)]
fn each_request_of_a_client_is_one(
    #[case] name: &str,
    #[case] server: Server,
    #[case] address: fn(&Ground) -> Address,
) {
    let test = format!("requests::each_request_of_a_client_is_one::{name}");
    let asked = served(&test, (&server, address), |address| {
        let mut client = address.connect();
        (0..20).map(|at| client.ask(if at % 2 == 0 { "/work/3" } else { "/sleep/3" })).collect::<Vec<_>>()
    });
    let Some((asked, seen, _)) = asked else { return };
    let requests = in_order(&seen);
    assert_eq!(requests.len(), asked.len() + 1, "and the one that ends it");
    for (request, asked) in requests.iter().zip(asked) {
        let took = Duration::from_nanos(request.root().duration_ns + queue_ns(request));
        assert!(request.root().duration_ns >= 3_000_000, "{:?}", request.root());
        // The last send is recorded after it has returned, which may be after the client has received the
        // answer.
        assert!(took <= asked + Duration::from_millis(50), "{took:?} of {asked:?}");
    }
}

#[test]
fn workers_that_share_a_port_and_connections_at_once_lose_none() {
    let test = "requests::workers_that_share_a_port_and_connections_at_once_lose_none";
    let server = Server::Python("workers");
    let asked = served(test, (&server, port), |address| {
        drop(address.connect());
        let ask = || (0..15).map(|_| address.connect().ask("/work/1")).collect::<Vec<_>>().len();
        let at_once = || {
            let mut client = address.connect();
            (0..15).map(|_| client.ask("/work/1")).count()
        };
        std::thread::scope(|scope| {
            let all = [scope.spawn(ask), scope.spawn(at_once), scope.spawn(at_once)];
            all.into_iter().map(|one| one.join().expect("it is answered")).sum::<usize>()
        })
    });
    let Some((asked, seen, _)) = asked else { return };
    let quits = seen.requests.len() - asked;
    assert!((1..=2).contains(&quits), "each worker is asked to end at most once: {quits}");
    let processes: std::collections::BTreeSet<u32> =
        seen.requests.iter().map(|request| request.root().thread.tgid).collect();
    assert_eq!(processes.len(), 2, "both have some");
}

/// The second request waits while the server is busy with the first; the wait is its queue.
#[test]
fn what_waits_for_a_busy_loop_has_a_queue() {
    let test = "requests::what_waits_for_a_busy_loop_has_a_queue";
    let asked = served(test, (&Server::Python("loop"), port), |address| {
        let (mut first, mut second) = (address.connect(), address.connect());
        second.ask("/work/0");
        first.send("/block/300");
        std::thread::sleep(Duration::from_millis(50));
        let took = second.ask("/work/0");
        first.receive();
        took
    });
    let Some((took, seen, _)) = asked else { return };
    let requests = in_order(&seen);
    assert_eq!(requests.len(), 4);
    let waited = requests.iter().map(|request| queue_ns(request)).max().expect("there are some");
    let waited = Duration::from_nanos(waited);
    // It was sent 50 ms after the start of work that takes 300 ms, or later on a busy machine.
    assert!(waited <= took, "{waited:?} of {took:?}");
    assert!(took.saturating_sub(waited) < Duration::from_millis(100), "{waited:?} of {took:?}");
}

/// Without `--requests`: a request that a source marks begins when it arrived, whichever connection the event
/// loop handles first.
#[test]
fn a_marked_request_has_waited_since_it_came_in() {
    let test = "requests::a_marked_request_has_waited_since_it_came_in";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let address = Address::free();
    let server = file("tests/data/e2e/servers/server.py");
    let running = ground.run().program(python).word(server).words(&["marked", &address.word()]).spawn();
    let mut clients = [(); 4].map(|()| address.connect());
    for client in &mut clients {
        client.ask("/work/0");
    }
    clients[0].send("/block/300");
    let mut sent = Vec::new();
    for client in &mut clients[1..] {
        std::thread::sleep(Duration::from_millis(50));
        sent.push(Instant::now());
        client.send("/work/0");
    }
    let mut took = Vec::new();
    for (client, sent) in clients[1..].iter_mut().zip(sent) {
        client.receive();
        took.push(sent.elapsed());
    }
    quit(&address);
    let done = running.finish().expect(0);
    let seen = done.seen();
    let requests = in_order(&seen);
    assert_eq!(requests.len(), 9, "{:?}", seen.endings());
    assert!(requests.iter().all(|request| request.root().name.stored() == "handler"));
    // Requests that waited for the busy loop follow it and the four before it, in the order in which they
    // were sent.
    for (request, took) in requests[5..8].iter().zip(&took) {
        let waited = Duration::from_nanos(queue_ns(request));
        assert!(waited <= *took, "{waited:?} of {took:?}");
        assert!(took.saturating_sub(waited) < Duration::from_millis(40), "{waited:?} of {took:?}");
    }
}

/// The last of ten sends is the end of the request.
#[test]
fn an_answer_in_parts_lasts_until_the_last_one() {
    let test = "requests::an_answer_in_parts_lasts_until_the_last_one";
    let asked = served(test, (&Server::Python("threads"), port), |address| {
        let mut client = address.connect();
        [client.ask("/stream/10"), client.ask("/stream/10")]
    });
    let Some((_, seen, _)) = asked else { return };
    let requests = in_order(&seen);
    assert_eq!(requests.len(), 3);
    for request in &requests[..2] {
        let root = request.root();
        assert!(root.duration_ns >= 100_000_000, "{root:?}");
        assert_eq!(root.suspended_ns, 0, "one thread sent all of it");
        assert!(root.accounts.get(guestscope_contract::Account::Sleep) >= 100_000_000, "{root:?}");
    }
}

/// Two requests in one packet count as one; a client that disconnects leaves no request that never ends.
#[test]
fn bursts_and_clients_that_go_away() {
    let test = "requests::bursts_and_clients_that_go_away";
    let asked = served(test, (&Server::Python("loop"), port), |address| {
        let mut client = address.connect();
        let two = "GET /work/0 HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2);
        client.0.write_all(two.as_bytes()).expect("the server is there");
        client.receive();
        client.receive();
        let mut gone = address.connect();
        gone.send("/sleep/100");
        drop(gone);
        drop(address.connect());
        client.ask("/work/0");
    });
    let Some(((), seen, _)) = asked else { return };
    let requests = in_order(&seen);
    assert_eq!(requests.len(), 4, "the burst, the one of who has gone, the last one, and the end");
    assert!(requests.iter().all(|request| request.root().ending.name() == "ended"), "{:?}", seen.endings());
}

/// Requests that the server itself sends are not counted, nor are those on other ports.
#[test]
fn other_ports_have_no_requests() {
    let test = "requests::other_ports_have_no_requests";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let (watched, served) = (Address::free(), Address::free());
    let running = ground
        .run()
        .words(&["--requests", &watched.option()])
        .program(python)
        .word(Path::new(&file("tests/data/e2e/servers/server.py")))
        .words(&["loop", &served.word()])
        .spawn();
    served.connect().ask("/work/0");
    quit(&served);
    let seen = running.finish().expect(0).seen();
    assert!(seen.requests.is_empty(), "{:?}", seen.endings());
}
