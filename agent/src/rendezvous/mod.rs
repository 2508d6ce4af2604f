//! Where a program with the marker library meets the agent before its first edge.
//!
//! The library connects to a socket that the environment names and waits, at most 2 s, for one byte. The agent looks
//! which of the peer's mapped files carry the marker, attaches its probe to them, and answers. It also unpacks what
//! must be a file of its own (the shared library, the Python module). Nothing that a peer says is believed but its
//! number, which the kernel vouches for. Who went on without an answer is counted: by the time that it comes, the other end of
//! the connection is closed. Not counted is who could not even connect, with as many others waiting in line as the socket has room for.

mod filters;
mod place;

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsRawFd as _, BorrowedFd},
        unix::{
            fs::{OpenOptionsExt as _, PermissionsExt},
            net,
        },
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::sys::socket::{ControlMessage, MsgFlags, getsockopt, sendmsg, sockopt::PeerCredentials};
use procfs::process::Process;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    sync::mpsc,
};

use crate::child::RunAs;

/// The marker's shared library, for programs that do not link it.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libguestscope.so"));
/// The Python module.
static MODULE: &[u8] = include_bytes!("../../marker/python/guestscope.py");
/// Connections that may wait in line: the kernel's own bound (net.core.somaxconn) where nobody changed it.
const MOST_IN_LINE: u32 = 4096;
/// What a workload says about itself is read up to here: two histograms of 10 million latencies, all as different as their three
/// digits allow, make 160 kB in base64.
const WORKLOAD_BYTES: u64 = 512 << 10;
/// A peer that connects and says nothing is let go: the library itself waits no longer.
const GREETING: Duration = Duration::from_secs(2);
/// Between two attempts to accept somebody while there are no descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A folder that only lives as long as the run, with the socket and the unpacked files.
pub struct Rendezvous {
    folder: PathBuf,
    /// The same socket as that of the task that accepts, which runs no more at the end.
    listener: net::UnixListener,
    welcome: Welcome,
    /// Held as long as the folder is in use.
    _lock: File,
    met: mpsc::Receiver<Peer>,
}

/// A program that waits for its probe.
pub struct Peer {
    stream: UnixStream,
    pid: i32,
    counts: Arc<Counts>,
}

/// Of programs.
#[derive(Debug, Default)]
struct Counts {
    /// Of the programs that may meet the agent.
    arrived: AtomicU64,
    answered: AtomicU64,
    turned_away: AtomicU64,
    /// Of those, programs that may meet it but did not say what they are.
    silent: AtomicU64,
}

impl Rendezvous {
    /// Makes the folder and listens. Needs a tokio runtime. Clears what killed agents left behind.
    pub fn open(run_as: Option<&RunAs>) -> io::Result<Self> {
        place::clear_abandoned();
        let (folder, lock) = place::make()?;
        let rendezvous = Self::fill(folder.clone(), lock, run_as);
        if rendezvous.is_err() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        rendezvous
    }

    fn fill(folder: PathBuf, lock: File, run_as: Option<&RunAs>) -> io::Result<Self> {
        write(&folder.join(place::LIBRARY), LIBRARY, 0o755)?;
        directory(&folder.join(place::PYTHON))?;
        write(&folder.join(place::MODULE), MODULE, 0o644)?;
        write(&folder.join(place::NO_CACHE), b"", 0o444)?;
        let workload = folder.join(place::WORKLOAD);
        write(&workload, b"", 0o600)?;
        if let Some(user) = run_as {
            std::os::unix::fs::chown(&workload, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        let socket = folder.join(place::SOCKET);
        let listener = net::UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666))?;
        let (sender, met) = mpsc::channel(64);
        let allowed = run_as.map_or_else(nix::unistd::geteuid, |user| user.uid).as_raw();
        let welcome = Welcome { uid: allowed, program: Arc::default(), counts: Arc::default() };
        let accepting = UnixListener::from_std(listener.try_clone()?)?;
        tokio::spawn(listen(accepting, sender, welcome.clone()));
        Ok(Self { folder, listener, met, welcome, _lock: lock })
    }

    /// The program that was started: what descends from it is welcome, whatever user it becomes.
    pub fn expect(&self, program: u32) {
        self.welcome.program.store(program as i32, Ordering::Relaxed);
    }

    /// What the child needs to find all this.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut python = self.folder.join(place::PYTHON).into_os_string();
        if let Some(path) = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty()) {
            python.push(":");
            python.push(path);
        }
        vec![
            ("GUESTSCOPE_NOTIFY", self.folder.join(place::SOCKET).into()),
            ("GUESTSCOPE_FILTERS", filters::own().to_string().into()),
            ("GUESTSCOPE_LIBRARY", self.folder.join(place::LIBRARY).into()),
            ("GUESTSCOPE_WORKLOAD_FILE", self.folder.join(place::WORKLOAD).into()),
            ("PYTHONPATH", python),
        ]
    }

    /// Programs that came and were not let in: strangers, or such as said nothing in time.
    pub fn turned_away(&self) -> u64 {
        self.welcome.counts.turned_away.load(Ordering::Relaxed)
    }

    /// Programs that went on before they were answered, or wait still: what they marked first was not seen. To be asked at the
    /// end, since nobody who is in line then is answered any more.
    pub fn unanswered(&self) -> u64 {
        // Others may go on connecting while this is asked.
        for _ in 0..MOST_IN_LINE {
            let Ok((stream, _)) = self.listener.accept() else { break };
            let peer = getsockopt(&stream, PeerCredentials).ok();
            if peer.is_some_and(|peer| self.welcome.is_for(peer.pid(), peer.uid())) {
                self.welcome.counts.arrived.fetch_add(1, Ordering::Relaxed);
            }
        }
        let Counts { arrived, answered, silent, .. } = &*self.welcome.counts;
        let known = [answered, silent].map(|count| count.load(Ordering::Relaxed));
        arrived.load(Ordering::Relaxed).saturating_sub(known.iter().sum())
    }

    /// The next program that waits.
    pub async fn next(&mut self) -> Option<Peer> {
        self.met.recv().await
    }

    /// What the workload said about itself, if it is an object of a sane size.
    pub fn workload(&self) -> Option<serde_json::Value> {
        let path = self.folder.join(place::WORKLOAD);
        let metadata = std::fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() == 0 || metadata.len() > WORKLOAD_BYTES {
            return None;
        }
        let value: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        value.is_object().then_some(value)
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Peer {
    /// The number of its process, which the kernel vouches for.
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// It goes on.
    pub async fn let_go(mut self) {
        if self.stream.write_all(b"\n").await.is_ok() {
            self.counts.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Hands it the descriptor of a ring, then lets it go on: its edges come that way.
    pub async fn hand_over(self, ring: BorrowedFd<'_>) -> io::Result<()> {
        let ring = [ring.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&ring)];
        let answer = [io::IoSlice::new(b"\n")];
        let send = || {
            let socket = self.stream.as_raw_fd();
            Ok(sendmsg::<()>(socket, &answer, &rights, MsgFlags::MSG_NOSIGNAL, None)?)
        };
        self.stream.async_io(tokio::io::Interest::WRITABLE, send).await?;
        self.counts.answered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Who may meet the agent. A stranger could make it open files that never answer.
#[derive(Clone)]
struct Welcome {
    /// The user that the program was started as.
    uid: u32,
    /// The program under observation, 0 before it is started.
    program: Arc<AtomicI32>,
    counts: Arc<Counts>,
}

impl Welcome {
    /// Root, the program's user, and what descends from the program: it may have become somebody else.
    fn is_for(&self, pid: i32, uid: u32) -> bool {
        /// Generations that are climbed.
        const MOST: usize = 256;
        let parent =
            |pid: &i32| Process::new(*pid).and_then(|process| process.stat()).map(|stat| stat.ppid).ok();
        let ancestors = std::iter::successors(Some(pid), parent).take(MOST);
        let program = self.program.load(Ordering::Relaxed);
        uid == 0 || uid == self.uid || ancestors.take_while(|&pid| pid > 0).any(|pid| pid == program)
    }
}

/// Takes peers one by one; each has its own time to say its line.
async fn listen(listener: UnixListener, sender: mpsc::Sender<Peer>, welcome: Welcome) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let (sender, welcome) = (sender.clone(), welcome.clone());
        tokio::spawn(async move {
            let peer = stream.peer_cred().ok().and_then(|peer| Some((peer.pid()?, peer.uid())));
            let pid = peer.filter(|&(pid, uid)| welcome.is_for(pid, uid)).map(|(pid, _)| pid);
            welcome.counts.arrived.fetch_add(u64::from(pid.is_some()), Ordering::Relaxed);
            let mut line = [0_u8; 16];
            let greeting = tokio::time::timeout(GREETING, stream.read(&mut line)).await;
            let has_greeted = matches!(greeting, Ok(Ok(bytes)) if line[..bytes].starts_with(b"marker "));
            match pid {
                Some(pid) if has_greeted => {
                    let _ = sender.send(Peer { stream, pid, counts: welcome.counts }).await;
                }
                Some(_) | None => {
                    welcome.counts.turned_away.fetch_add(1, Ordering::Relaxed);
                    welcome.counts.silent.fetch_add(u64::from(pid.is_some()), Ordering::Relaxed);
                }
            }
        });
    }
}

/// For all to list, whatever the umask.
fn directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(PermissionsExt::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(rendezvous: &Rendezvous) -> OsString {
        let (_, socket) = rendezvous.environment().swap_remove(0);
        socket
    }

    fn greet(rendezvous: &Rendezvous) -> net::UnixStream {
        let mut program = net::UnixStream::connect(socket(rendezvous)).expect("the agent listens");
        program.write_all(b"marker 1\n").expect("the agent listens");
        program
    }

    /// One is answered in time, one has gone on by then, one is with the agent when all is over, one in line.
    #[tokio::test]
    async fn whoever_goes_on_without_an_answer_is_counted() {
        let mut rendezvous = Rendezvous::open(None).expect("a folder can be made");
        assert_eq!(rendezvous.unanswered(), 0);
        let _in_time = greet(&rendezvous);
        rendezvous.next().await.expect("it has greeted").let_go().await;
        assert_eq!(rendezvous.unanswered(), 0);
        let late = greet(&rendezvous);
        let peer = rendezvous.next().await.expect("it has greeted");
        drop(late);
        peer.let_go().await;
        assert_eq!(rendezvous.unanswered(), 1);
        let _with_the_agent = greet(&rendezvous);
        let _peer = rendezvous.next().await.expect("it has greeted");
        assert_eq!(rendezvous.unanswered(), 2);
        // The task that accepts does not run before the next await.
        let _in_line = greet(&rendezvous);
        assert_eq!([rendezvous.unanswered(), rendezvous.unanswered()], [3, 3]);
    }

    #[tokio::test]
    async fn who_says_nothing_is_turned_away_and_nobody_who_was_not_answered() {
        let mut rendezvous = Rendezvous::open(None).expect("a folder can be made");
        drop(net::UnixStream::connect(socket(&rendezvous)).expect("the agent listens"));
        let _behind_it = greet(&rendezvous);
        rendezvous.next().await.expect("it has greeted").let_go().await;
        assert_eq!((rendezvous.turned_away(), rendezvous.unanswered()), (1, 0));
    }
}
