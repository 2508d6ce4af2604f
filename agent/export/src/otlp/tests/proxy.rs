//! A proxy that cuts connections in the middle of a message, for any protocol over TCP.
//!
//! It reads nothing of what it forwards.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// A proxy that cuts every connection after so many bytes from the client, until it is told to stop that.
pub(super) struct Proxy {
    address: SocketAddr,
    cut_after: Arc<AtomicU64>,
}

impl Proxy {
    pub(super) fn start(to: SocketAddr, cut_after: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let cut_after = Arc::new(AtomicU64::new(cut_after));
        let shared = Arc::clone(&cut_after);
        // Lives as long as the test process: it only waits.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(to) else { continue };
                let (Ok(from), Ok(back)) = (client.try_clone(), server.try_clone()) else { continue };
                let shared = Arc::clone(&shared);
                thread::spawn(move || forward(from, server, &shared));
                thread::spawn(move || forward(back, client, &AtomicU64::new(u64::MAX)));
            }
        });
        Self { address, cut_after }
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.address.port())
    }

    pub(super) fn stop_cutting(&self) {
        self.cut_after.store(u64::MAX, Ordering::Relaxed);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, cut_after: &AtomicU64) {
    let (mut total, mut buffer) = (0, [0; 4_096]);
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        total += read as u64;
        if total > cut_after.load(Ordering::Relaxed) || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
