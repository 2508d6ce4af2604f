//! Requests that take longer for a known reason, so that what is said of them can be judged.

use std::{
    fs::OpenOptions,
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use guestscope_base::clock;

/// For so long.
const LENGTH: Duration = Duration::from_millis(80);

/// The reason, by the account that has the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Sleep,
    Cpu,
    Lock,
    Net,
}

const ALL: [Fault; 4] = [Fault::Sleep, Fault::Cpu, Fault::Lock, Fault::Net];

impl Fault {
    /// Any of them, by the time.
    pub(crate) fn any() -> Self {
        ALL[(clock::now_ns() / 1_000) as usize % ALL.len()]
    }

    /// Appends when it begins, CLOCK_MONOTONIC in ns, and its account to the file.
    pub(crate) fn note(self, file: &Path) -> io::Result<()> {
        let now_ns = clock::now_ns();
        let name = format!("{self:?}").to_lowercase();
        let mut notes = OpenOptions::new().create(true).append(true).open(file)?;
        notes.write_all(format!("{now_ns} {name}\n").as_bytes())
    }

    pub(crate) fn strike(self) -> io::Result<()> {
        match self {
            Fault::Sleep => thread::sleep(LENGTH),
            Fault::Cpu => compute(),
            Fault::Lock => wait_for_lock(),
            Fault::Net => wait_for_peer()?,
        }
        Ok(())
    }
}

fn compute() {
    let start = Instant::now();
    while start.elapsed() < LENGTH {
        std::hint::black_box((0..2_000).sum::<u64>());
    }
}

fn wait_for_lock() {
    let lock = Mutex::new(());
    let (is_held, held) = mpsc::channel();
    thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            let _guard = lock.lock();
            let _ = is_held.send(());
            thread::sleep(LENGTH);
        });
        let _ = held.recv();
        drop(lock.lock());
    });
}

fn wait_for_peer() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let peer = thread::spawn(move || -> io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        thread::sleep(LENGTH);
        stream.write_all(b"x")
    });
    TcpStream::connect(address)?.read_exact(&mut [0])?;
    peer.join().unwrap_or(Ok(()))
}
