//! The folder of a rendezvous: its place, and how to recognise folders that killed agents left behind.
//!
//! The user of a folder holds a lock on it, which the kernel releases when that process ends, in whatever
//! way. A process ID would not do: it may be of another PID namespace, or reused.

use std::{
    ffi::OsStr,
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read as _},
    os::unix::{
        fs::{
            DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
        },
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use crate::{guarded, tasks::Stat};
use nix::{
    sys::statvfs::{FsFlags, statvfs},
    unistd::geteuid,
};

/// Candidate places in order of preference: emptied by a restart, and a library may be mapped executable
/// there. The last one is for machines that forbid execution in all others.
const PLACES: [&str; 4] = ["/run", "/tmp", "/dev/shm", "/var/lib"];
/// The same where the program is another user's, who can fill the place through the workload file: places
/// that every user may write anyway come first.
const PLACES_OF_USERS: [&str; 4] = ["/dev/shm", "/tmp", "/run", "/var/lib"];
/// Most entries of such a place searched for what killed agents left behind: 4 us each.
const MOST_ENTRIES: usize = 10_000;
const PREFIX: &str = "guestscope-";
/// Files of a rendezvous: the socket, unpacked files, the workload's own file. The socket's name goes on
/// after this.
pub(super) const SOCKET: &str = "notify";
pub(super) const WORKLOAD: &str = "workload.json";
/// An empty file where Python would make a folder for compiled modules: root's Python could make it, since
/// root may write anywhere.
pub(super) const NO_CACHE: &str = "__pycache__";
/// File beside the socket: processes that may load the library or the module, one line each, with number and
/// start time. They keep both when the agent ends before them.
const USERS: &str = "users";
/// Most processes listed.
const MOST_USERS: usize = 4096;
/// Most bytes read of the list.
const USERS_BYTES: u64 = 256 << 10;

/// The folder of a rendezvous.
#[derive(Debug)]
pub(super) struct Place {
    /// Path of the folder with the socket.
    pub(super) folder: PathBuf,
    /// The folder in it with all files; its name is secret.
    pub(super) files: PathBuf,
    /// Held as long as the folder is in use.
    pub(super) lock: File,
}

/// Creates a folder in the first place where a library may be mapped executable and a socket can be created.
/// All users may search it, since the program may run as another user, and change it; only the owner may list
/// or write it.
///
/// The files are in a subfolder with a secret name. Before the kernel puts a probe into a file, it takes a
/// lock of every process that has mapped the file, and all forks of the machine wait for that: so no
/// unrelated process may map our files.
pub(super) fn make(is_users: bool) -> io::Result<Place> {
    let places = if is_users { PLACES_OF_USERS } else { PLACES };
    let mut last = io::Error::other(format!("all of {} are mounted noexec", places.join(", ")));
    let is_usable =
        |place: &&&str| !statvfs(**place).is_ok_and(|mount| mount.flags().contains(FsFlags::ST_NOEXEC));
    for place in places.iter().filter(is_usable) {
        match make_in(Path::new(place)) {
            Ok((folder, lock)) => {
                let files = folder.join(secret()?);
                make_folder(&files)?;
                return Ok(Place { folder, files, lock });
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Creates a folder that all users may search and only the owner may list, whatever the umask is.
fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o711).create(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o711))
}

/// A name that cannot be guessed.
fn secret() -> io::Result<String> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(random)))
}

fn is_secret(name: &OsStr) -> bool {
    name.len() == 32 && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
}

fn make_in(place: &Path) -> io::Result<(PathBuf, File)> {
    // Another agent may take the folder for abandoned before it is locked; then another folder is made.
    for _ in 0..8 {
        let name = format!("{PREFIX}{}-{}", std::process::id(), crate::clock::now_ns());
        let folder = place.join(name);
        DirBuilder::new().mode(0o711).create(&folder)?;
        let lock = open(&folder)?;
        if lock.try_lock().is_ok() && lock.metadata()?.nlink() > 0 {
            // The umask may have taken the others' search permission.
            lock.set_permissions(Permissions::from_mode(0o711))?;
            return Ok((folder, lock));
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Listens at a secret name. The kernel shows all users the name to which a socket was bound, but not its
/// name after a rename. So only processes that got the name can connect: the program, its children, and
/// processes that may read their environment.
pub(super) fn listen(folder: &Path) -> io::Result<(UnixListener, PathBuf)> {
    let bound = folder.join(SOCKET);
    let listener = UnixListener::bind(&bound)?;
    listener.set_nonblocking(true)?;
    let secret = folder.join(format!("{SOCKET}-{}", secret()?));
    // If a socket cannot be renamed (in the file systems of some sandboxes), unrelated processes can connect,
    // but get no further.
    let address = if std::fs::rename(&bound, &secret).is_ok() { secret } else { bound };
    // For any user that the program changes to.
    std::fs::set_permissions(&address, Permissions::from_mode(0o666))?;
    Ok((listener, address))
}

fn open(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder)
}

/// Removes the folders of killed agents. Folders that cannot be removed stay and do no harm.
pub(super) fn clear_abandoned() {
    for place in PLACES {
        clear_in(Path::new(place));
    }
}

fn clear_in(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    // Everybody may put things there.
    for entry in entries.flatten().take(MOST_ENTRIES) {
        let folder = entry.path();
        if is_name(&entry.file_name()) && is_abandoned(&folder) && !has_users(&folder) {
            // Only folders that contain nothing but the files of a `Rendezvous`: others with such a name
            // stay.
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                if is_secret(&entry.file_name()) {
                    remove_unpacked(&entry.path());
                }
            }
            std::fs::remove_file(folder.join(USERS)).unwrap_or_default();
            // Older agents kept them beside the socket.
            remove_files(&folder);
        }
    }
}

/// Lists the processes that use the folder's files. If that fails, they may miss files that they load later.
pub(super) fn list_users(folder: &Path, processes: &[u32]) {
    let line = |pid: &u32| Some(format!("{pid} {}\n", Stat::read(pid.cast_signed()).ok()?.born));
    let lines: String = processes.iter().take(MOST_USERS).filter_map(line).collect();
    std::fs::write(folder.join(USERS), lines).unwrap_or_default();
}

/// Whether a listed process still lives.
fn has_users(folder: &Path) -> bool {
    let lives = |line: &str| {
        let (pid, born) = line.split_once(' ')?;
        let stat = Stat::read(pid.parse().ok()?).ok()?;
        Some(stat.born.to_string() == born && !stat.has_ended())
    };
    let list = guarded::read_list(&folder.join(USERS), USERS_BYTES).unwrap_or_default();
    list.lines().any(|line| lives(line) == Some(true))
}

/// The agent is done with the folder. Processes that use its files keep them, until another agent finds that
/// none does.
pub(super) fn leave(folder: &Path) {
    if has_users(folder) {
        remove_socket(folder);
    } else {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Removes the files, and the folder that they are in if it is empty then. Older agents kept them beside the
/// socket.
fn remove_files(folder: &Path) {
    for file in ["libguestscope.so.1", WORKLOAD, "python/guestscope.py", "python/__pycache__"] {
        std::fs::remove_file(folder.join(file)).unwrap_or_default();
    }
    remove_socket(folder);
    std::fs::remove_dir(folder.join("python")).unwrap_or_default();
    std::fs::remove_dir(folder).unwrap_or_default();
}

/// Removes a folder with a secret name and all unpacked files there: only root could add anything.
fn remove_unpacked(folder: &Path) {
    let is_ours = |found: std::fs::Metadata| found.is_dir() && found.uid() == geteuid().as_raw();
    if std::fs::symlink_metadata(folder).is_ok_and(is_ours) {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Removes the socket, whatever its name is by now.
fn remove_socket(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_it = entry.file_name().to_str().is_some_and(|name| name.starts_with(SOCKET));
        if is_it && entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            std::fs::remove_file(entry.path()).unwrap_or_default();
        }
    }
}

/// Whether the name is `guestscope-NUMBER-NUMBER`.
fn is_name(name: &OsStr) -> bool {
    let numbers = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, time)| is_number(process) && is_number(time))
}

/// Whether the folder belongs to us, and no process holds its lock.
fn is_abandoned(folder: &Path) -> bool {
    let Ok(opened) = open(folder) else { return false };
    opened.metadata().is_ok_and(|folder| folder.uid() == geteuid().as_raw()) && opened.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_stays_and_an_abandoned_one_goes() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let (used, _lock) = make_in(place.path()).expect("the place is ours");
        let (abandoned, lock) = make_in(place.path()).expect("the place is ours");
        listen(&abandoned).expect("the folder is ours");
        let files = abandoned.join(secret().expect("there is a source of random numbers"));
        make_folder(&files).expect("the folder is ours");
        std::fs::write(files.join("libguestscope.so.1"), "").expect("the folder is ours");
        std::fs::write(place.path().join("guestscope-1-1"), "").expect("the place is ours");
        // Unrelated folders, and one with such a name that contains something else.
        let theirs = ["other", "guestscope-main", "guestscope-1-2-3", "guestscope--1", "guestscope-1-2"];
        for name in theirs {
            std::fs::create_dir(place.path().join(name)).expect("the place is ours");
            std::fs::write(place.path().join(name).join("precious"), "").expect("the folder is ours");
        }
        drop(lock);
        clear_in(place.path());
        assert!(used.exists() && !abandoned.exists() && place.path().join("guestscope-1-1").exists());
        for name in theirs {
            assert!(place.path().join(name).join("precious").exists(), "{name}");
        }
    }

    /// A worker that starts later finds the module where its parent did, whatever happened to the agent.
    #[test]
    fn who_uses_the_files_keeps_them() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let mut program = std::process::Command::new("sleep").arg("1000").spawn().expect("there is sleep");
        let made = || {
            let (folder, lock) = make_in(place.path()).expect("the place is ours");
            let files = folder.join(secret().expect("there is a source of random numbers"));
            make_folder(&files).expect("the folder is ours");
            std::fs::write(files.join("libguestscope.so.1"), "").expect("the folder is ours");
            listen(&folder).expect("the folder is ours");
            list_users(&folder, &[program.id()]);
            (folder, files, lock)
        };
        let ((left, its_files, lock), (killed, its_too, its_lock)) = (made(), made());
        leave(&left);
        // Both agents have ended.
        drop((lock, its_lock));
        clear_in(place.path());
        assert!(its_files.join("libguestscope.so.1").exists() && its_too.join("libguestscope.so.1").exists());
        let has_socket = |folder: &Path| {
            let entries = std::fs::read_dir(folder).expect("it is there").flatten();
            entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(SOCKET))
        };
        assert_eq!([&left, &killed].map(|folder| has_socket(folder)), [false, true]);
        program.kill().and_then(|()| program.wait()).expect("it is ours");
        clear_in(place.path());
        assert!(!left.exists() && !killed.exists());
    }

    /// Strangers cannot list the socket's name or the place of the library.
    #[test]
    fn files_have_a_place_that_cannot_be_listed_or_guessed() {
        for is_users in [false, true] {
            let Place { folder, files, lock } = make(is_users).expect("a folder can be made");
            let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
            let modes = [mode(&folder), mode(&files)];
            let name = files.file_name().expect("it has a name").to_owned();
            let is_inside = files.parent() == Some(&folder);
            remove_unpacked(&files);
            remove_files(&folder);
            drop(lock);
            assert_eq!(modes, [0o711; 2]);
            assert!(is_secret(&name) && is_inside && !folder.exists(), "{}", files.display());
        }
    }
}
