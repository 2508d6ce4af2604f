//! Attacks on a directory that the agent holds: each must end in an error or in nothing.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt as _, PermissionsExt as _, symlink},
        },
    },
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use nix::{
    fcntl::OFlag,
    sys::stat::Mode,
    unistd::{Uid, mkfifo},
};
use rstest::rstest;
use tempfile::{TempDir, tempdir};

use super::{
    opening::{open, step_by_step},
    *,
};

pub(super) const OWNER: Owner = Owner { uid: 12_345, gid: 23_456, groups: Vec::new() };

pub(super) fn make(parent: &Path, name: &str) -> (std::path::PathBuf, Directory) {
    create_unique(parent, name).unwrap_or_else(|(path, error)| panic!("{}: {error}", path.display()))
}

pub(super) fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Only root may take another user's rights.
#[expect(clippy::print_stdout, reason = "a test says what it skips")]
pub(super) fn is_root(test: &str) -> bool {
    let is_root = Uid::effective().is_root();
    if !is_root {
        println!("skipped: {test}: only root may take another user's rights");
    }
    is_root
}

/// A folder of another user.
pub(super) fn of_owner() -> TempDir {
    let folder = tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(OWNER.uid), Some(OWNER.gid)).unwrap();
    folder
}

fn owned(path: &Path) -> (u32, u32) {
    fs::symlink_metadata(path).map(|found| (found.uid(), found.gid())).unwrap()
}

#[test]
fn folders_are_private_and_unique() {
    let temporary = tempdir().unwrap();
    let parent = temporary.path().join("a/b");
    for expected in ["x", "x-2", "x-3"] {
        let (path, directory) = make(&parent, "x");
        assert_eq!(path, parent.join(expected));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        directory.create("file").unwrap();
        assert_eq!(fs::metadata(path.join("file")).unwrap().mode() & 0o7777, 0o600);
        directory.make("sub").unwrap().create("file").unwrap();
        assert_eq!(fs::metadata(path.join("sub")).unwrap().mode() & 0o7777, 0o700);
    }
}

#[test]
fn a_planted_link_is_never_followed() {
    let temporary = tempdir().unwrap();
    let victim = temporary.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let elsewhere = temporary.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, temporary.path().join("x")).unwrap();

    let (path, directory) = make(temporary.path(), "x");
    assert_eq!(path, temporary.path().join("x-2"));
    for name in ["m", "m.tmp", "s"] {
        symlink(&victim, path.join(name)).unwrap();
    }
    symlink(&elsewhere, path.join("sub")).unwrap();
    directory.create("s").unwrap_err();
    directory.read(Path::new("s"), &[0], 100).unwrap_err();
    directory.make("sub").unwrap().create("file").unwrap();
    directory.replace_with("m", b"mine").unwrap();
    assert_eq!(fs::read(path.join("m")).unwrap(), b"mine");
    assert!(!fs::symlink_metadata(path.join("m")).unwrap().is_symlink());
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(names(&elsewhere), [""; 0]);
    assert_eq!(names(&path.join("sub")), ["file"]);
}

#[test]
fn a_failed_replacement_leaves_the_old_file_and_nothing_else() {
    let temporary = tempdir().unwrap();
    let (path, directory) = make(temporary.path(), "x");
    directory.replace_with("m", b"old").unwrap();
    let failed = directory.replace("m", |mut file| {
        file.write_all(b"half of the ne")?;
        Err::<(), _>(io::Error::other("no space"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no space");
    assert_eq!(names(&path), ["m"]);
    assert_eq!(fs::read(path.join("m")).unwrap(), b"old");
}

#[test]
fn a_renamed_folder_is_still_written() {
    let temporary = tempdir().unwrap();
    let (path, directory) = make(temporary.path(), "x");
    fs::rename(&path, temporary.path().join("y")).unwrap();
    directory.replace_with("m", b"new").unwrap();
    assert_eq!(fs::read(temporary.path().join("y/m")).unwrap(), b"new");
    assert_eq!(directory.current_path().unwrap(), temporary.path().canonicalize().unwrap().join("y"));
    fs::remove_dir_all(temporary.path().join("y")).unwrap();
    assert_eq!(directory.current_path(), None);
}

#[test]
fn a_folder_gets_another_name_but_none_that_is_taken() {
    let temporary = tempdir().unwrap();
    let (path, directory) = make(temporary.path(), "x");
    fs::create_dir(temporary.path().join("taken")).unwrap();
    assert_eq!(directory.rename("taken").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    directory.rename("y").unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(directory.rename("z").unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(names(temporary.path()), ["taken", "x", "y"]);
}

/// Directories in the way: a file cannot take their place, and what is in them is not ours to remove.
#[rstest]
#[case::under_the_name_in_the_making(&["m.tmp"], false)]
#[case::with_something_in_it(&["m.tmp"], true)]
#[case::under_the_name(&["m"], false)]
#[case::both(&["m", "m.tmp"], true)]
fn directories_under_our_names_are_put_aside(#[case] planted: &[&str], #[case] filled: bool) {
    let temporary = tempdir().unwrap();
    let (path, directory) = make(temporary.path(), "x");
    for name in planted {
        fs::create_dir(path.join(name)).unwrap();
        if filled {
            fs::write(path.join(name).join("theirs"), "precious").unwrap();
        }
    }
    directory.replace_with("m", b"mine").unwrap();
    assert_eq!(fs::read(path.join("m")).unwrap(), b"mine");
    let theirs = names(&path).into_iter().filter(|name| path.join(name).join("theirs").exists());
    assert_eq!(theirs.count(), if filled { planted.len() } else { 0 });
    // The next time as well.
    directory.replace_with("m", b"newer").unwrap();
    assert_eq!(fs::read(path.join("m")).unwrap(), b"newer");
}

/// Plants what an attacker may put where a file is expected.
fn plant(kind: &str, at: &Path, victim: &Path) {
    match kind {
        "fifo" => mkfifo(at, Mode::S_IRWXU).unwrap(),
        "link" => symlink(victim, at).unwrap(),
        "device" => symlink("/dev/zero", at).unwrap(),
        "directory" => fs::create_dir(at).unwrap(),
        "endless" => File::create(at).unwrap().set_len(8 << 40).unwrap(),
        "other" => {
            fs::write(at, "not yours").unwrap();
            std::os::unix::fs::chown(at, Some(OWNER.uid), None).unwrap();
        }
        kind => panic!("{kind}"),
    }
}

#[rstest]
fn nothing_but_a_regular_file_of_its_owner_and_of_some_size_is_read(
    #[values("fifo", "link", "device", "directory", "endless", "other")] kind: &str,
) {
    if kind == "other" && !is_root("nothing_but_a_regular_file_of_its_owner_and_of_some_size_is_read") {
        return;
    }
    let temporary = tempdir().unwrap();
    let victim = temporary.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let (path, directory) = make(temporary.path(), "x");
    let own = Uid::effective().as_raw();
    plant(kind, &path.join("file"), &victim);
    directory.read(Path::new("file"), &[own], 100).unwrap_err();
    directory.create("mine").unwrap().write_all(b"content").unwrap();
    assert_eq!(directory.read(Path::new("mine"), &[own], 7).unwrap(), b"content");
    assert_eq!(directory.read(Path::new("mine"), &[own], 6).unwrap_err().to_string(), "larger than 6 bytes");
}

/// The kernel would wait 45 s for the holder of a lease, who may make the file grow meanwhile.
#[test]
fn a_leased_file_is_refused_at_once() {
    /// Missing in the libc crate.
    const F_SETSIG: i32 = 10;
    let temporary = tempdir().unwrap();
    let (path, directory) = make(temporary.path(), "x");
    fs::write(path.join("file"), "{}").unwrap();
    let leased = fs::OpenOptions::new().read(true).write(true).open(path.join("file")).unwrap();
    let set = |command, argument: i32| {
        // SAFETY: takes no pointers.
        unsafe { libc::fcntl(leased.as_raw_fd(), command, argument) }
    };
    // The signal that asks for the lease ends a process unless it is one of those that are ignored.
    assert_eq!(set(F_SETSIG, libc::SIGURG), 0);
    assert_eq!(set(libc::F_SETLEASE, libc::F_WRLCK), 0, "{}", io::Error::last_os_error());
    let own = Uid::effective().as_raw();
    let error = directory.read(Path::new("file"), &[own], 100).unwrap_err();
    assert_eq!(error.to_string(), "another program holds a lease on it");
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    // A process that has it open already is asked for nothing.
    assert_eq!(read_again(&leased, 100).unwrap(), b"{}");
}

#[test]
fn a_part_ends_where_it_ends_whatever_becomes_of_the_file() {
    let temporary = tempdir().unwrap();
    let (path, directory) = make(temporary.path(), "x");
    let mut file = directory.create("file").unwrap();
    file.write_all(b"ours").unwrap();
    let all = || {
        let mut bytes = Vec::new();
        Part::new(file.try_clone().unwrap(), 0, 4).read_to_end(&mut bytes).unwrap();
        bytes
    };
    fs::OpenOptions::new().append(true).open(path.join("file")).unwrap().write_all(b"theirs").unwrap();
    assert_eq!(all(), b"ours");
    file.set_len(8 << 40).unwrap();
    assert_eq!(all(), b"ours");
    fs::remove_file(path.join("file")).unwrap();
    symlink("/dev/zero", path.join("file")).unwrap();
    assert_eq!(all(), b"ours");
    assert!(!directory.is_ours("file", &file));
    directory.remove_ours("file", &file).unwrap();
    assert_eq!(names(&path), ["file"]);
    file.set_len(2).unwrap();
    assert_eq!(all(), b"ou");
}

/// The way for kernels before 5.6 gives the same answers.
#[rstest]
#[case::inside("a/b/file", true)]
#[case::directly("./top", true)]
#[case::above("a/../../victim", false)]
#[case::absolute("/etc/passwd", false)]
#[case::by_a_link("out/victim", false)]
#[case::by_a_link_that_stays_inside("in/file", false)]
#[case::a_link_itself("a/link", false)]
fn both_ways_of_opening_stay_below(#[case] path: &str, #[case] opens: bool) {
    let temporary = tempdir().unwrap();
    let top = temporary.path().join("top");
    fs::create_dir_all(top.join("a/b")).unwrap();
    for file in ["victim", "top/top", "top/a/b/file"] {
        fs::write(temporary.path().join(file), "").unwrap();
    }
    symlink("..", top.join("out")).unwrap();
    symlink("a/b", top.join("in")).unwrap();
    symlink("b/file", top.join("a/link")).unwrap();
    let held = File::open(&top).unwrap();
    let (path, flags) = (Path::new(path), OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC);
    assert_eq!(open(&held, path, flags, Mode::empty()).is_ok(), opens);
    let held = std::os::fd::AsFd::as_fd(&held);
    assert_eq!(step_by_step(held, path, flags, Mode::empty()).is_ok(), opens);
}

/// Somebody exchanges the directory for another one between its making and its opening, over and over.
#[test]
fn a_directory_that_is_exchanged_while_it_is_made_is_not_taken() {
    const ROUNDS: u64 = 3_000;
    let temporary = tempdir().unwrap();
    let (parent, victim) = (temporary.path(), temporary.path().join("victim"));
    fs::create_dir(&victim).unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(victim.join("precious"), "").unwrap();
    let (round, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let c = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut refused = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let made = c(&parent.join(format!("x{}", round.load(Ordering::Relaxed))));
                // SAFETY: both names live across the call. What it cannot exchange yet, it will.
                unsafe {
                    let (at, how) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
                    libc::syscall(libc::SYS_renameat2, at, c(&victim).as_ptr(), at, made.as_ptr(), how);
                }
            }
        });
        for number in 0..ROUNDS {
            round.store(number, Ordering::Relaxed);
            match create_unique(parent, &format!("x{number}")) {
                Ok((_, directory)) => drop(directory.create("mine").unwrap()),
                Err((_, error)) if error.kind() == io::ErrorKind::PermissionDenied => refused += 1,
                // The victim itself was under this name, and is of the wrong one now.
                Err((path, error)) => panic!("{}: {error}", path.display()),
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let precious: Vec<_> = names(parent)
        .into_iter()
        .map(|name| names(&parent.join(name)))
        .filter(|names| names.iter().any(|name| name == "precious"))
        .collect();
    assert_eq!(precious, [["precious"]], "{refused} were refused");
}

#[test]
fn what_is_made_with_a_users_rights_is_the_users() {
    if !is_root("what_is_made_with_a_users_rights_is_the_users") {
        return;
    }
    let temporary = of_owner();
    let rights = OWNER.assume().unwrap();
    let (path, directory) = make(&temporary.path().join("runs"), "x");
    directory.create("file").unwrap();
    directory.replace_with("whole", b"").unwrap();
    drop(rights);
    for path in [temporary.path().join("runs"), path.clone(), path.join("file"), path.join("whole")] {
        assert_eq!(owned(&path), (OWNER.uid, OWNER.gid), "{}", path.display());
    }
    // The rights are this process's again.
    fs::write(temporary.path().join("after"), "").unwrap();
    assert_eq!(owned(&temporary.path().join("after")).0, 0);
}

#[test]
fn with_a_users_rights_the_kernel_decides() {
    if !is_root("with_a_users_rights_the_kernel_decides") {
        return;
    }
    let temporary = tempdir().unwrap();
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(temporary.path().join("secret"), "").unwrap();
    fs::set_permissions(temporary.path().join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let rights = OWNER.assume().unwrap();
    let (_, error) = create_unique(temporary.path(), "x").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    fs::read(temporary.path().join("secret")).unwrap_err();
    // Threads that are started meanwhile have the same rights, others have their own.
    let secret = temporary.path().join("secret");
    let there = std::thread::spawn(move || fs::read(&secret).is_ok()).join().unwrap();
    assert!(!there);
    drop(rights);
    fs::read(temporary.path().join("secret")).unwrap();
}

#[test]
fn a_folder_that_was_made_for_nothing_leaves_what_is_not_ours() {
    let temporary = tempdir().unwrap();
    let (path, directory) = make(temporary.path(), "x");
    directory.create("a").unwrap();
    directory.discard(["a", "b"]);
    assert!(!path.exists());

    let (path, directory) = make(temporary.path(), "x");
    directory.create("a").unwrap();
    fs::write(path.join("theirs"), "").unwrap();
    directory.discard(["a"]);
    assert_eq!(names(&path), ["theirs"]);

    let (path, directory) = make(temporary.path(), "y");
    fs::rename(&path, temporary.path().join("z")).unwrap();
    fs::create_dir(&path).unwrap();
    directory.discard([]);
    assert!(path.exists() && temporary.path().join("z").exists());
}

/// A look at a file changes nothing, and finds no more than an open would.
#[test]
fn what_lies_below_can_be_looked_at() {
    let place = tempdir().expect("a folder can be made");
    fs::create_dir(place.path().join("inner")).expect("the place is ours");
    fs::write(place.path().join("inner/file"), "text").expect("the place is ours");
    symlink("inner", place.path().join("link")).expect("the place is ours");
    let held = Directory::open(place.path()).expect("it is there");
    let found = held.find(Path::new("inner/file")).expect("it is there");
    let mut text = String::new();
    open_found(&found).and_then(|mut file| file.read_to_string(&mut text)).expect("it can be read");
    assert_eq!(text, "text");
    for elsewhere in ["link/file", "../etc/passwd", "inner/absent"] {
        assert!(held.find(Path::new(elsewhere)).is_err(), "{elsewhere}");
    }
    mkfifo(&place.path().join("pipe"), Mode::S_IRWXU).expect("the place is ours");
    let pipe = held.find(Path::new("pipe")).expect("it is there");
    let error = open_found(&pipe).expect_err("nobody waits for it");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}
