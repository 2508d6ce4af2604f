//! What programs that run have mapped: the marker, and libraries that busy-wait.
//!
//! It is handed a process's number and the marker's probe, and yields what went wrong, file by file. Nothing
//! that the process says is believed.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    time::{Duration, Instant},
};

use guestscope_ebpf::SpinCode;
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, fstatfs};

use crate::{
    guarded,
    loader::{Marks, marks},
    sources::function::Functions,
    tasks::{self, Map, Stat},
    untrusted::{Shown as _, Untrusted},
};

/// Libraries whose threads busy-wait for each other, by the begins of their files' names: of GCC, LLVM, Intel, and TBB.
const SPINNERS: [&str; 4] = ["libgomp", "libomp", "libiomp5", "libtbb"];

/// How long the files of one process are looked at in one go: one that somebody has made for it takes 40 ms,
/// and a process may map thousands. What is left out is looked at when what is mapped changes.
const LOOK: Duration = Duration::from_millis(500);

/// What was found in a process.
pub struct Looked {
    /// Code in it that busy-waits.
    pub spin: SpinCode,
    /// What went wrong.
    pub problems: Vec<Problem>,
}

/// What went wrong with a file or a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// For people.
    pub text: String,
    /// The agent may not do this, or lacks something: it concerns every program. Else it is the process's own
    /// matter.
    pub is_ours: bool,
}

/// Problems of one look that are told in words. A process may have mapped any number of damaged files.
const MOST_PROBLEMS: usize = 5;

/// Attaches the probe to every file with the marker that a process has mapped to execute, those of functions
/// to files that have them, and finds the code there that busy-waits. The process can make this wait for
/// ever.
///
/// # Errors
/// It has ended, or its maps cannot be read.
pub fn look(pid: i32, marks: &Marks, functions: Option<&Functions>) -> io::Result<Looked> {
    let mut problems = Vec::new();
    let mut problem = |text, is_ours| problems.push(Problem { text, is_ours });
    let (maps, is_cut) = tasks::maps(pid)?;
    if is_cut {
        problem(format!("process {pid} has mapped too much to be read: the rest was not looked at"), false);
    }
    let spin = spin_code(&maps);
    if maps.is_empty() {
        // The kernel shows nothing to whom it does not allow to look.
        problem(format!("the maps of process {pid} may not be read"), true);
    }
    let files: Vec<Map> = maps.into_iter().filter(|map| map.is_code && map.path.is_some()).collect();
    let mut more = 0;
    let left = within(LOOK, files, |map| {
        let Some(path) = &map.path else { return true };
        let relative = path.strip_prefix("/").unwrap_or(path);
        let attached = open(pid, &map, relative).and_then(|file| {
            if let Some(functions) = functions.filter(|functions| functions.is_wanted(path)) {
                let told = functions.attach(&file, path);
                problems.extend(told.into_iter().map(|text| Problem { text, is_ours: false }));
            }
            marks.attach(&file)
        });
        let Err(error) = attached else { return true };
        match cause(&error) {
            // It is no longer mapped.
            Some(libc::ENOENT) => {}
            // Nor is anything else: the process has ended.
            Some(libc::ESRCH) => return false,
            _ if problems.len() < MOST_PROBLEMS => {
                let text = format!("attaching to `{}`: {error:#}", name(relative));
                let is_ours = marks::is_ours(&error) || error.is::<NoRight>();
                problems.push(Problem { text, is_ours });
            }
            _ => more += 1,
        }
        true
    });
    if left + more > 0 {
        let text = format!("{} more files of process {pid} could not be looked at", left + more);
        problems.push(Problem { text, is_ours: false });
    }
    Ok(Looked { spin, problems })
}

/// Does something with each until that says that it is enough, and for this long at most. How many were left
/// out for lack of time.
fn within<T>(most: Duration, things: Vec<T>, mut each: impl FnMut(T) -> bool) -> usize {
    let begun = Instant::now();
    let mut things = things.into_iter();
    while things.len() > 0 && begun.elapsed() < most {
        if things.next().is_some_and(|thing| !each(thing)) {
            return 0;
        }
    }
    things.len()
}

/// Where such libraries lie; of more than there is room for the first.
fn spin_code<'a>(maps: impl IntoIterator<Item = &'a Map>) -> SpinCode {
    let mut code = SpinCode::default();
    let spins = |map: &&Map| map.is_code && map.path.as_ref().is_some_and(|path| spins(path));
    for (range, map) in code.iter_mut().zip(maps.into_iter().filter(spins)) {
        *range = [map.start, map.end];
    }
    code
}

/// `libgomp.so.1`, `libgomp-98b21ff3.so.1`, and not `libompsomething.so`.
fn spins(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let after = |begin: &&str| name.strip_prefix(*begin).and_then(|rest| rest.chars().next());
    SPINNERS.iter().filter_map(after).any(|next| !next.is_alphanumeric())
}

/// The agent may not look into the process.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct NoRight(io::Error);

/// By the mapping itself, which leads to the very file, deleted or in whatever mount namespace; the kernel
/// allows it to root of the initial user namespace. Where it does not, by the process's root, under the path
/// that it knows the file by: the process may have put anything there, so it has to be the file that is
/// mapped.
fn open(pid: i32, map: &Map, relative: &Path) -> anyhow::Result<File> {
    let Map { start, end, .. } = map;
    let mut to_look = OpenOptions::new();
    to_look.read(true).custom_flags(libc::O_PATH);
    match to_look.open(format!("/proc/{pid}/map_files/{start:x}-{end:x}")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        opened => return Ok(opened?),
    }
    let root = guarded::Directory::open(format!("/proc/{pid}/root").as_ref());
    let root = root.map_err(|error| {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        if is_denied { anyhow::Error::from(NoRight(error)) } else { error.into() }
    })?;
    let found = root.find(relative)?;
    if is_mapped(&found, map)? { Ok(found) } else { Err(io::Error::from(io::ErrorKind::NotFound).into()) }
}

/// Whether this file is what was mapped, by its number on its device. Mappings of files on btrfs, and on an
/// overlay before Linux 6.8, show another device than stat(2) does: the number has to do there.
fn is_mapped(found: &File, map: &Map) -> io::Result<bool> {
    let metadata = found.metadata()?;
    let device = (nix::sys::stat::major(metadata.dev()), nix::sys::stat::minor(metadata.dev()));
    let has_two_devices = || {
        let kind = fstatfs(found).map(|system| system.filesystem_type());
        kind.is_ok_and(|kind| [BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC].contains(&kind))
    };
    Ok(metadata.is_file() && metadata.ino() == map.inode && (device == map.device || has_two_devices()))
}

/// The kernel's number for what went wrong, if that was all.
fn cause(error: &anyhow::Error) -> Option<i32> {
    error.chain().find_map(|cause| {
        let error = cause.downcast_ref::<io::Error>()?;
        error.raw_os_error().or_else(|| (error.kind() == io::ErrorKind::NotFound).then_some(libc::ENOENT))
    })
}

/// A path that somebody else chose.
fn name(path: &Path) -> Untrusted {
    path.shown()
}

/// What a process has mapped to execute, as far as a cheap look tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedCode {
    /// Of its program and of libraries, kB.
    kib: (u64, u64),
    /// Where its program lies: elsewhere after each exec, as long as addresses are random.
    at: u64,
    /// When the process began, in the kernel's ticks: by that another one with its number is known.
    pub born: u64,
}

impl MappedCode {
    /// A child that was forked has everything mapped where its parent has it, until it begins another
    /// program.
    pub fn is_program_of(&self, parent: &Self) -> bool {
        self.at == parent.at
    }
}

/// It changes when a library is loaded or a program replaced, and costs a tenth of reading what is mapped.
pub fn mapped_code(pid: u32) -> Option<MappedCode> {
    let status = tasks::status(format!("/proc/{pid}").as_ref()).ok()?;
    let kibibytes =
        |name: &str| -> Option<u64> { tasks::field(&status, name)?.strip_suffix(" kB")?.trim().parse().ok() };
    let stat = Stat::read(pid.cast_signed()).ok()?;
    let kib = (kibibytes("VmExe")?, kibibytes("VmLib")?);
    Some(MappedCode { kib, at: stat.code_at, born: stat.born })
}

/// Threads of a process that are asked for the processes that they have forked.
const MOST_THREADS: usize = 64;

/// What is read of the list of a thread's children: some 30,000 of them.
const CHILDREN_BYTES: u64 = 256 << 10;

/// Processes that this one has started, as far as they are listed.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().take(MOST_THREADS);
    let lists =
        lists.filter_map(|thread| guarded::read_list(&thread.path().join("children"), CHILDREN_BYTES).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|one| one.parse().ok()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::system("/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0", true)]
    #[case::wheel("/x/torch/lib/libgomp-98b21ff3.so.1", true)]
    #[case::llvm("/x/libomp.so", true)]
    #[case::intel("/x/libiomp5.so", true)]
    #[case::replaced("/x/libgomp.so.1 (deleted)", true)]
    #[case::other_name("/x/libompstub.so", false)]
    #[case::folder("/libgomp.so/program", false)]
    #[case::begin("/x/libgomp", false)]
    fn libraries_that_busy_wait_are_known_by_their_names(#[case] path: &str, #[case] expected: bool) {
        assert_eq!(spins(Path::new(path)), expected);
    }

    #[test]
    fn what_takes_too_long_is_left_out_and_counted() {
        let run = |most, enough| {
            let mut done = 0;
            let left = within(most, vec![1, 2, 4, 8], |thing| {
                done += thing;
                thing < enough
            });
            (done, left)
        };
        assert_eq!(run(Duration::ZERO, 9), (0, 4));
        assert_eq!(run(Duration::from_hours(1), 9), (15, 0));
        assert_eq!(run(Duration::from_hours(1), 4), (7, 0), "the rest is gone");
    }

    /// A path may lead to anything by the time that it is followed.
    #[test]
    fn only_the_file_that_is_mapped_is_taken_by_its_path() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let (mapped, other) = (place.path().join("mapped"), place.path().join("other"));
        for path in [&mapped, &other] {
            std::fs::write(path, "x").expect("the place is ours");
        }
        let metadata = mapped.metadata().expect("it is there");
        let (major, minor) = (nix::sys::stat::major(metadata.dev()), nix::sys::stat::minor(metadata.dev()));
        let line = |minor: u64, inode: u64| {
            let text = format!("1000-2000 r-xp 00000000 {major:x}:{minor:x} {inode} {}", mapped.display());
            Map::parse(text.as_bytes()).expect("it is whole")
        };
        let is = |path: &Path, map: &Map| {
            is_mapped(&File::open(path).expect("it is there"), map).expect("it can be looked at")
        };
        let map = line(minor, metadata.ino());
        assert!(is(&mapped, &map));
        assert!(!is(&other, &map), "another file");
        assert!(
            !is(place.path(), &line(minor, place.path().metadata().expect("there").ino())),
            "a directory"
        );
        assert!(!is(&mapped, &line(minor + 1, metadata.ino())), "the same number on another device");
    }

    #[test]
    fn only_code_counts_and_no_more_than_there_is_room_for() {
        let line = |at: u64, perms: &str, path: &str| {
            let text = format!("{:x}-{:x} {perms} 00000000 08:01 1 {path}", at << 12, (at + 1) << 12);
            Map::parse(text.as_bytes()).expect("it is whole")
        };
        let mut maps = vec![line(1, "r-xp", "/bin/program"), line(2, "r--p", "/x/libgomp.so.1")];
        maps.extend((3..9).map(|at| line(at, "r-xp", "/x/libgomp.so.1")));
        assert_eq!(spin_code(&maps), [3_u64, 4, 5, 6].map(|at| [at << 12, (at + 1) << 12]));
    }
}
