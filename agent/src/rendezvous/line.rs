//! The line at the socket: admission is decided at once, before a task, a timer or a buffer is spent on
//! anybody.
//!
//! As many programs under observation are connected at a time as there are places, each with its own time to
//! send its line. Strangers are closed at once, and only so many in a tick: the others wait where the kernel
//! keeps them, at its cost and theirs.

use std::{
    collections::HashSet,
    io::{self, Read as _},
    os::unix::net,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use tokio::{
    io::{AsyncReadExt as _, unix::AsyncFd},
    net::UnixStream,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Instant,
};

use super::{
    peer::{Counts, Greeting, Peer},
    welcome::{self, Answer, Welcome},
};

/// A program that connects and sends nothing is closed: the library itself waits no longer.
const GREETING: Duration = Duration::from_secs(2);
/// Most bytes read of the line.
const LINE: usize = 16;
const TICK: Duration = Duration::from_millis(50);
/// Most that strangers may cost in a tick, in map lookups: with accepting and closing some microseconds each,
/// so 2 to 3 % of a CPU. A full line of 4,096 is through in 0.8 s, less than a program waits.
const MOST_IN_A_TICK: u32 = 256;

/// The task that accepts.
pub(super) struct Line {
    pub(super) listener: AsyncFd<net::UnixListener>,
    pub(super) sender: mpsc::Sender<Peer>,
    pub(super) welcome: Arc<Mutex<Welcome>>,
    pub(super) counts: Arc<Counts>,
    /// Programs connected to the agent at once.
    pub(super) places: usize,
}

/// The peer by the kernel's word, and its admission.
pub(super) fn look(stream: &net::UnixStream, welcome: &Mutex<Welcome>) -> (Answer, i32) {
    let Ok(peer) = getsockopt(stream, PeerCredentials) else {
        return (Answer { peer: welcome::Peer::Stranger, cost: 1 }, 0);
    };
    let mut welcome = welcome.lock().unwrap_or_else(PoisonError::into_inner);
    (welcome.is_for(peer.pid(), peer.uid()), peer.pid())
}

impl Line {
    /// Accepts connections one by one, for ever.
    pub(super) async fn run(self) {
        let places = Arc::new(Semaphore::new(self.places));
        let (mut tick, mut spent) = (Instant::now(), 0);
        let greeting = Arc::<Mutex<HashSet<i32>>>::default();
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Some(stream) = self.accept().await else {
                // No descriptor or memory is free.
                tokio::time::sleep(TICK).await;
                continue;
            };
            if tick.elapsed() >= TICK {
                (tick, spent) = (Instant::now(), 0);
                self.welcome.lock().unwrap_or_else(PoisonError::into_inner).tick();
            }
            let (answer, pid) = look(&stream, &self.welcome);
            self.counts.add(answer.peer);
            if answer.peer == welcome::Peer::Observed {
                let said = line_of(&stream);
                // A program sends its line at once. A process that does not holds one place, however often it
                // connects.
                let only = if said.is_some() { None } else { Only::take(&greeting, pid) };
                if said.is_some() || only.is_some() {
                    let sender = self.sender.clone();
                    let caller = Caller { stream, pid, said, place, only };
                    tokio::spawn(greet(caller, sender, Arc::clone(&self.counts)));
                } else {
                    self.counts.silent.fetch_add(1, Ordering::Relaxed);
                }
                continue;
            }
            drop(stream);
            spent += answer.cost;
            if spent >= MOST_IN_A_TICK {
                tokio::time::sleep_until(tick + TICK).await;
            }
        }
    }

    /// The next connection, unknown to the runtime: most of a flood are closed again. None on an error.
    async fn accept(&self) -> Option<net::UnixStream> {
        loop {
            let mut ready = self.listener.readable().await.ok()?;
            match ready.try_io(|listener| listener.get_ref().accept()) {
                Ok(Ok((stream, _))) => return Some(stream),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(_)) => return None,
                Err(_is_empty) => {}
            }
        }
    }
}

/// The only place of a process before it has sent its line.
struct Only {
    greeting: Arc<Mutex<HashSet<i32>>>,
    pid: i32,
}

impl Only {
    /// Returns none if the process has one already.
    fn take(greeting: &Arc<Mutex<HashSet<i32>>>, pid: i32) -> Option<Self> {
        let is_first = greeting.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
        is_first.then(|| Self { greeting: Arc::clone(greeting), pid })
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        self.greeting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid);
    }
}

/// The greeting in the line, if the program has sent it already.
fn line_of(mut stream: &net::UnixStream) -> Option<Greeting> {
    let mut line = [0_u8; LINE];
    stream.set_nonblocking(true).ok()?;
    stream.read(&mut line).ok().map(|bytes| Greeting::of(&line[..bytes]))
}

/// A process that has connected.
struct Caller {
    stream: net::UnixStream,
    pid: i32,
    /// Its greeting, if it has said anything.
    said: Option<Greeting>,
    place: OwnedSemaphorePermit,
    only: Option<Only>,
}

/// Passes on a program that sends its line in time.
async fn greet(caller: Caller, sender: mpsc::Sender<Peer>, counts: Arc<Counts>) {
    let Caller { stream, pid, said, place, only } = caller;
    let nonblocking = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
    let Ok(mut stream) = nonblocking else { return };
    let greeting = if let Some(greeting) = said {
        greeting
    } else {
        let mut line = [0_u8; LINE];
        let read = tokio::time::timeout(GREETING, stream.read(&mut line)).await;
        read.ok().and_then(Result::ok).map_or(Greeting::Other, |bytes| Greeting::of(&line[..bytes]))
    };
    drop(only);
    if greeting == Greeting::Other {
        counts.silent.fetch_add(1, Ordering::Relaxed);
    } else {
        let _ = sender.send(Peer { stream, pid, greeting, counts, place }).await;
    }
}
