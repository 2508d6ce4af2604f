//! The rendezvous: the agent and a program with the marker library meet before the program's first edge.
//!
//! The library connects to a socket that the environment names and waits, at most 2 s, for one byte. The
//! agent finds the marker in the peer's mapped files, attaches its probe to them, and answers. It also
//! unpacks the files that sources give to the program. A peer is untrusted, except for its process ID, which
//! the kernel guarantees. A peer that continued without an answer is counted: by then it has closed its end
//! of the connection. Not counted are peers that could not even connect, because the queue of the socket was
//! full.

mod filters;
mod line;
mod peer;
mod place;
mod welcome;

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::unix::{
        fs::{OpenOptionsExt as _, PermissionsExt},
        net,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use tokio::{io::unix::AsyncFd, sync::mpsc};

pub use self::peer::Peer;
use self::{line::Line, peer::Counts, welcome::Welcome};
use crate::{
    child::RunAs,
    descriptors,
    guarded::{self, Directory},
    loader::Tracked,
    sources::Unpacked,
};

/// Maximum number of connections in the queue: the kernel's default limit (net.core.somaxconn).
const MOST_IN_LINE: u32 = 4096;
/// Most bytes read of a workload's own file: two histograms of 10 million latencies, all as different as
/// their three digits allow, make 160 kB in base64.
const WORKLOAD_BYTES: u64 = 512 << 10;
/// A folder that lives as long as the run, with the socket and the unpacked files.
pub struct Rendezvous {
    folder: PathBuf,
    /// The folder of the files in it.
    files: PathBuf,
    /// Path of the socket.
    address: PathBuf,
    /// The socket of the accepting task, which no longer runs at the end.
    listener: net::UnixListener,
    welcome: Arc<Mutex<Welcome>>,
    counts: Arc<Counts>,
    /// The workload's own file. It is open from the start, so that no process can take a lease on it.
    workload: File,
    /// Held as long as the folder is in use.
    _lock: File,
    met: mpsc::Receiver<Peer>,
}

impl Rendezvous {
    /// Makes the folder and listens. Needs a tokio runtime. Removes folders of killed agents.
    pub fn open(run_as: Option<&RunAs>, unpacked: &[Unpacked]) -> io::Result<Self> {
        place::clear_abandoned();
        let place = place::make(run_as.is_some())?;
        let folder = place.folder.clone();
        let rendezvous = Self::fill(place, run_as, unpacked);
        if rendezvous.is_err() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        rendezvous
    }

    fn fill(place: place::Place, run_as: Option<&RunAs>, unpacked: &[Unpacked]) -> io::Result<Self> {
        let place::Place { folder, files, lock } = place;
        for file in unpacked {
            unpack(&files, file)?;
        }
        let workload = write(&files.join(place::WORKLOAD), b"", 0o600)?;
        if let Some(user) = run_as {
            std::os::unix::fs::fchown(&workload, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        let (listener, address) = place::listen(&folder)?;
        let places = descriptors::places();
        let (sender, met) = mpsc::channel(places);
        let allowed = run_as.map_or_else(nix::unistd::geteuid, |user| user.uid).as_raw();
        let (welcome, counts) = (Arc::new(Mutex::new(Welcome::new(allowed))), Arc::<Counts>::default());
        // SAFETY: the value owns its descriptor, which stays open and the same as long as it is watched.
        let accepting = unsafe { AsyncFd::register(listener.try_clone()?) }?;
        let (theirs, counted) = (Arc::clone(&welcome), Arc::clone(&counts));
        let line = Line { listener: accepting, sender, welcome: theirs, counts: counted, places };
        tokio::spawn(line.run());
        Ok(Self { folder, files, address, listener, welcome, counts, workload, met, _lock: lock })
    }

    fn welcome(&self) -> std::sync::MutexGuard<'_, Welcome> {
        self.welcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits processes that the kernel side tracks.
    pub fn trust(&self, tracked: Option<Tracked>) {
        self.welcome().trust(tracked);
    }

    /// Admits the program that was started and its descendants, whatever user it becomes.
    pub fn expect(&self, program: u32) {
        place::list_users(&self.folder, &[program]);
        self.welcome().expect(program.cast_signed());
    }

    /// Leaves the files to these processes: as long as they live, they may start others that look for the
    /// library or the module.
    pub fn leave_to(&self, processes: &[u32]) {
        place::list_users(&self.folder, processes);
    }

    /// Variables by which the child finds the socket and the workload file.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("GUESTSCOPE_NOTIFY", self.address.clone().into()),
            ("GUESTSCOPE_FILTERS", filters::own().to_string().into()),
            ("GUESTSCOPE_WORKLOAD_FILE", self.files.join(place::WORKLOAD).into()),
        ]
    }

    /// The folder of unpacked files.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// LD_LIBRARY_PATH for a program that looks for the marker's library like any other: after the user's own
    /// folders.
    pub fn library_path(&self) -> (&'static str, OsString) {
        let theirs = std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
        let mut path = theirs.map_or_else(OsString::new, |mut theirs| {
            theirs.push(":");
            theirs
        });
        path.push(&self.files);
        ("LD_LIBRARY_PATH", path)
    }

    /// Connections of processes that are not observed, or sent nothing in time.
    pub fn not_let_in(&self) -> u64 {
        let Counts { strangers, silent, .. } = &*self.counts;
        [strangers, silent].map(|count| count.load(Ordering::Relaxed)).iter().sum()
    }

    /// Programs that continued before they were answered, or are still waiting: their first marks were not
    /// seen. Call it at the end: peers in the queue are no longer answered then.
    pub fn unanswered(&self) -> u64 {
        // Other programs may connect at the same time.
        for _ in 0..MOST_IN_LINE {
            let Ok((stream, _)) = self.listener.accept() else { break };
            let (answer, _) = line::look(&stream, &self.welcome);
            self.counts.add(answer.peer);
        }
        let Counts { arrived, answered, silent, .. } = &*self.counts;
        let known = [answered, silent].map(|count| count.load(Ordering::Relaxed));
        arrived.load(Ordering::Relaxed).saturating_sub(known.iter().sum())
    }

    /// The next program that waits.
    pub async fn next(&mut self) -> Option<Peer> {
        self.met.recv().await
    }

    /// The workload's own data, if it wrote any.
    ///
    /// # Errors
    /// It cannot be read, is longer than any real one, or is no JSON object.
    pub fn workload(&self) -> io::Result<Option<serde_json::Value>> {
        let folder = Directory::open(&self.files)?;
        let text = if folder.is_ours(place::WORKLOAD, &self.workload) {
            guarded::read_again(&self.workload, WORKLOAD_BYTES)?
        } else {
            // Only root, who may write here, can have replaced it.
            let name = Path::new(place::WORKLOAD);
            match folder.read(name, &[nix::unistd::geteuid().as_raw()], WORKLOAD_BYTES) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                read => read?,
            }
        };
        if text.is_empty() {
            return Ok(None);
        }
        let value: serde_json::Value = serde_json::from_slice(&text)?;
        if value.is_object() { Ok(Some(value)) } else { Err(io::Error::other("no JSON object")) }
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        // Frees its space, in case a process still holds the file open and made it large.
        self.workload.set_len(0).unwrap_or_default();
        place::leave(&self.folder);
    }
}

/// Makes a file and its folders. All may list those, whatever the umask, since Python lists them.
fn unpack(files: &Path, file: &Unpacked) -> io::Result<()> {
    let path = files.join(&*file.path);
    let inner: Vec<&Path> =
        path.ancestors().skip(1).take_while(|folder| *folder != files && !folder.exists()).collect();
    for folder in inner.into_iter().rev() {
        std::fs::create_dir(folder)?;
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755))?;
        write(&folder.join(place::NO_CACHE), b"", 0o444)?;
    }
    write(&path, &file.bytes, if file.is_library { 0o755 } else { 0o644 }).map(drop)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<File> {
    let mut file =
        std::fs::OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(PermissionsExt::from_mode(mode))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
