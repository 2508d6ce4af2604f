//! Where a program with the marker library meets the agent before its first edge.
//!
//! The library connects to a socket that the environment names and waits, at most 2 s, for one byte. The agent looks
//! which of the peer's mapped files carry the marker, attaches its probe to them, and answers. It also unpacks what
//! must be a file of its own (the shared library, the Python module). Nothing that a peer says is believed but its
//! number, which the kernel vouches for.

mod place;

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsRawFd as _, BorrowedFd},
        unix::fs::{OpenOptionsExt as _, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
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
static PYTHON: &[u8] = include_bytes!("../../marker/python/guestscope.py");
/// What a workload says about itself is read up to here.
const WORKLOAD_BYTES: u64 = 64 << 10;
/// A peer that connects and says nothing is let go: the library itself waits no longer.
const GREETING: Duration = Duration::from_secs(2);
/// Between two attempts to accept somebody while there are no descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A folder that only lives as long as the run, with the socket and the unpacked files.
pub struct Rendezvous {
    folder: PathBuf,
    /// The program under observation, 0 before it is started.
    program: Arc<AtomicI32>,
    turned_away: Arc<AtomicU64>,
    /// Held as long as the folder is in use.
    _lock: File,
    met: mpsc::Receiver<Peer>,
}

/// A program that waits for its probe.
pub struct Peer {
    stream: UnixStream,
    pid: i32,
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
        write(&folder.join(place::PYTHON), PYTHON, 0o644)?;
        let workload = folder.join(place::WORKLOAD);
        write(&workload, b"", 0o600)?;
        if let Some(user) = run_as {
            std::os::unix::fs::chown(&workload, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        let socket = folder.join(place::SOCKET);
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666))?;
        let (sender, met) = mpsc::channel(64);
        let allowed = run_as.map_or_else(nix::unistd::geteuid, |user| user.uid).as_raw();
        let (program, turned_away) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicU64::new(0)));
        let welcome =
            Welcome { uid: allowed, program: Arc::clone(&program), turned_away: Arc::clone(&turned_away) };
        tokio::spawn(listen(listener, sender, welcome));
        Ok(Self { folder, met, program, turned_away, _lock: lock })
    }

    /// The program that was started: what descends from it is welcome, whatever user it becomes.
    pub fn expect(&self, program: u32) {
        self.program.store(program as i32, Ordering::Relaxed);
    }

    /// What the child needs to find all this.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut python = self.folder.clone().into_os_string();
        if let Some(path) = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty()) {
            python.push(":");
            python.push(path);
        }
        vec![
            ("GUESTSCOPE_NOTIFY", self.folder.join(place::SOCKET).into()),
            ("GUESTSCOPE_LIBRARY", self.folder.join(place::LIBRARY).into()),
            ("GUESTSCOPE_WORKLOAD_FILE", self.folder.join(place::WORKLOAD).into()),
            ("PYTHONPATH", python),
        ]
    }

    /// Programs that came and were not let in: strangers, or such as said nothing in time.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
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
        let _ = self.stream.write_all(b"\n").await;
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
        self.stream.async_io(tokio::io::Interest::WRITABLE, send).await.map(drop)
    }
}

/// Who may meet the agent. A stranger could make it open files that never answer.
#[derive(Clone)]
struct Welcome {
    /// The user that the program was started as.
    uid: u32,
    program: Arc<AtomicI32>,
    turned_away: Arc<AtomicU64>,
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
            let mut line = [0_u8; 16];
            let greeting = tokio::time::timeout(GREETING, stream.read(&mut line)).await;
            let has_greeted = matches!(greeting, Ok(Ok(bytes)) if line[..bytes].starts_with(b"marker "));
            match pid {
                Some(pid) if has_greeted => {
                    let _ = sender.send(Peer { stream, pid }).await;
                }
                Some(_) | None => {
                    welcome.turned_away.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(PermissionsExt::from_mode(mode))
}
