//! Where a program with the marker library meets the agent before its first edge.
//!
//! The library connects to a socket that the environment names and waits, at most 2 s, for one byte. The agent looks
//! which of the peer's mapped files carry the marker, attaches its probe to them, and answers. It also unpacks what
//! must be a file of its own (the shared library, the Python module). Nothing that a peer says is believed but its
//! number, which the kernel vouches for.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use procfs::process::{MMPermissions, MMapPath, Process};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    sync::mpsc,
};

use crate::{child::RunAs, loader::Loaded};

/// The marker's shared library, for programs that do not link it.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libguestscope.so"));
/// The library's soname, so that a program linked against it can be pointed here by LD_LIBRARY_PATH too.
const LIBRARY_NAME: &str = "libguestscope.so.1";
/// The Python module.
static PYTHON: &[u8] = include_bytes!("../marker/python/guestscope.py");
/// What a workload says about itself is read up to here.
const WORKLOAD_BYTES: u64 = 64 << 10;
/// A peer that connects and says nothing is let go.
const GREETING: Duration = Duration::from_millis(500);

/// A folder that only lives as long as the run, with the socket and the unpacked files.
pub struct Rendezvous {
    folder: PathBuf,
    met: mpsc::Receiver<Peer>,
}

/// A program that waits for its probe.
pub struct Peer {
    stream: UnixStream,
    pid: i32,
}

impl Rendezvous {
    /// Makes the folder and listens. Needs a tokio runtime.
    pub fn open(run_as: Option<&RunAs>) -> io::Result<Self> {
        let folder = make_folder()?;
        let rendezvous = Self::fill(folder.clone(), run_as);
        if rendezvous.is_err() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        rendezvous
    }

    fn fill(folder: PathBuf, run_as: Option<&RunAs>) -> io::Result<Self> {
        write(&folder.join(LIBRARY_NAME), LIBRARY, 0o755)?;
        write(&folder.join("guestscope.py"), PYTHON, 0o644)?;
        let workload = folder.join("workload.json");
        write(&workload, b"", 0o600)?;
        if let Some(user) = run_as {
            std::os::unix::fs::chown(&workload, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        let socket = folder.join("notify");
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666))?;
        let (sender, met) = mpsc::channel(64);
        let allowed = run_as.map_or(0, |user| user.uid.as_raw());
        tokio::spawn(listen(listener, sender, allowed));
        Ok(Self { folder, met })
    }

    /// What the child needs to find all this.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut python = self.folder.clone().into_os_string();
        if let Some(path) = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty()) {
            python.push(":");
            python.push(path);
        }
        vec![
            ("GUESTSCOPE_NOTIFY", self.folder.join("notify").into()),
            ("GUESTSCOPE_LIBRARY", self.folder.join(LIBRARY_NAME).into()),
            ("GUESTSCOPE_WORKLOAD_FILE", self.folder.join("workload.json").into()),
            ("PYTHONPATH", python),
        ]
    }

    /// The next program that waits.
    pub async fn next(&mut self) -> Option<Peer> {
        self.met.recv().await
    }

    /// What the workload said about itself, if it is an object of a sane size.
    pub fn workload(&self) -> Option<serde_json::Value> {
        let path = self.folder.join("workload.json");
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
    /// Attaches the probe to what the peer has mapped, then lets it go on. What went wrong is returned for people.
    pub async fn attach(mut self, loaded: &mut Loaded) -> Vec<String> {
        let errors = attach_mapped(self.pid, loaded);
        let _ = self.stream.write_all(b"\n").await;
        errors
    }
}

/// Attaches the probe to every file with the marker that a process has mapped to execute.
pub fn attach_mapped(pid: i32, loaded: &mut Loaded) -> Vec<String> {
    let mut errors = Vec::new();
    let maps = match Process::new(pid).and_then(|process| process.maps()) {
        Ok(maps) => maps,
        Err(error) => return vec![format!("reading the maps of process {pid}: {error}")],
    };
    for map in maps {
        let MMapPath::Path(path) = map.pathname else { continue };
        if !map.perms.contains(MMPermissions::EXECUTE) {
            continue;
        }
        // The peer may live in another mount namespace: its root is the way to its files.
        let relative = path.strip_prefix("/").unwrap_or(&path);
        let path = PathBuf::from(format!("/proc/{pid}/root")).join(relative);
        match loaded.attach_marker(&path) {
            Ok(_) => {}
            Err(error) if error.downcast_ref::<io::Error>().is_some() => {}
            Err(error) => errors.push(format!("attaching to `{}`: {error:#}", relative.display())),
        }
    }
    errors
}

/// Takes peers one by one; each has its own time to say its line.
async fn listen(listener: UnixListener, sender: mpsc::Sender<Peer>, allowed: u32) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let sender = sender.clone();
        tokio::spawn(async move {
            let Ok(peer) = stream.peer_cred() else { return };
            let Some(pid) = peer.pid().filter(|_| peer.uid() == 0 || peer.uid() == allowed) else { return };
            let mut line = [0_u8; 16];
            let greeting = tokio::time::timeout(GREETING, stream.read(&mut line)).await;
            if matches!(greeting, Ok(Ok(bytes)) if line[..bytes].starts_with(b"marker ")) {
                let _ = sender.send(Peer { stream, pid }).await;
            }
        });
    }
}

/// In the first place where a library may be mapped to execute and a socket may live. World-searchable, since the
/// child may be another user; nobody else may write.
fn make_folder() -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in ["/run", "/tmp", "/dev/shm"] {
        if nix::sys::statvfs::statvfs(place)
            .is_ok_and(|mount| mount.flags().contains(nix::sys::statvfs::FsFlags::ST_NOEXEC))
        {
            continue;
        }
        let folder =
            Path::new(place).join(format!("guestscope-{}-{}", std::process::id(), crate::clock::now_ns()));
        match std::fs::DirBuilder::new().mode(0o711).create(&folder) {
            Ok(()) => {
                // The umask may have taken the others' search permission.
                std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o711))?;
                return Ok(folder);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(PermissionsExt::from_mode(mode))
}
