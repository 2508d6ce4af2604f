//! A connection to a collector that can be cut: forwards bytes until it is stopped.
//!
//! Yields an address. After the cut nobody listens and all connections are closed, as after the death of a
//! collector. It does not look into the bytes.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

#[derive(Default)]
struct State {
    cut: AtomicBool,
    /// Bytes from the agent to the collector.
    bytes: AtomicU64,
    connections: Mutex<Vec<TcpStream>>,
}

/// The proxy.
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    listening: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy to a collector at `HOST:PORT`.
    pub(crate) fn to(collector: &str) -> Self {
        Self::at("127.0.0.1:0", collector)
    }

    /// A proxy to that collector at a given address, which must be free.
    pub(crate) fn at(address: &str, collector: &str) -> Self {
        let listener = TcpListener::bind(address).expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a socket can be set");
        let (state, collector) = (Arc::new(State::default()), collector.to_owned());
        let shared = Arc::clone(&state);
        let listening = std::thread::spawn(move || {
            while !shared.cut.load(Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => pass(&stream, &collector, &shared),
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Self { address, state, listening: Some(listening) }
    }

    /// URL for the agent.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Bytes that went to the collector.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.bytes.load(Relaxed)
    }

    /// Stops listening and closes all connections.
    pub(crate) fn cut(&mut self) {
        self.state.cut.store(true, Relaxed);
        if let Some(listening) = self.listening.take() {
            listening.join().expect("it does not panic");
        }
        for stream in self.state.connections.lock().expect("nobody panicked").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Forwards in both directions, each on a thread that ends with the connection.
fn pass(agent: &TcpStream, collector: &str, state: &Arc<State>) {
    let Ok(collector) = TcpStream::connect(collector) else { return };
    agent.set_nonblocking(false).expect("a socket can be set");
    let mut connections = state.connections.lock().expect("nobody panicked");
    for (from, to, counts) in [(agent, &collector, true), (&collector, agent, false)] {
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor is free");
        connections.push(clone(from));
        let (mut from, mut to, state) = (clone(from), clone(to), Arc::clone(state));
        std::thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                if counts {
                    state.bytes.fetch_add(bytes as u64, Relaxed);
                }
                if to.write_all(&buffer[..bytes]).is_err() {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}
