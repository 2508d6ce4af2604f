//! Files that running programs have mapped: the marker, drivers of graphics processors, and libraries that
//! busy-wait.
//!
//! Takes a process ID and the marker's probe, and yields the problems, file by file. The process is
//! untrusted.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    time::{Duration, Instant},
};

use guestscope_contract::{COMPUTES, SpinCode};
use guestscope_model::analyze::spinners;
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, fstatfs};

use crate::{
    driver::Drivers,
    function::Functions,
    guarded,
    loader::{
        Marks,
        marks::{MarkError, MarkedFiles},
    },
    probes::phase::MarkerError,
    tasks::{self, Map, Stat},
    untrusted::{Shown as _, Untrusted},
};

/// Longest time spent on the files of one process in one go: a hostile file takes 40 ms, and a process may
/// map thousands. Files left out are looked at when the mappings change.
const LOOK: Duration = Duration::from_millis(500);

/// Findings in a process.
pub struct Looked {
    /// Busy-waiting code of the process.
    pub spin: SpinCode,
    /// Problems with its files.
    pub problems: Vec<Problem>,
}

/// A problem with a file or a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Text for people.
    pub text: String,
    /// Whether the agent itself lacks a permission or resource, which concerns every program. Otherwise the
    /// problem concerns this process only.
    pub is_ours: bool,
}

/// Most problems of one look that are described. A process may have mapped any number of damaged files.
const MOST_PROBLEMS: usize = 5;

/// Attaches the marker's probe to every file with the marker that a process has mapped executable, probes of
/// functions to files that have them, those of drivers to drivers, and finds code that busy-waits. The
/// process can make this wait for ever.
///
/// # Errors
/// It has ended, or its maps cannot be read.
pub fn look(
    pid: i32,
    marks: &Marks,
    functions: Option<&Functions>,
    drivers: Option<&Drivers>,
) -> io::Result<Looked> {
    let mut problems = Vec::new();
    let mut problem = |text, is_ours| problems.push(Problem { text, is_ours });
    let (maps, is_cut) = tasks::maps(pid)?;
    if is_cut {
        problem(format!("process {pid} has mapped too much to be read: the rest was not checked"), false);
    }
    let spin = spin_code(&maps);
    if maps.is_empty() {
        // The kernel shows an empty list to readers without permission.
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
            if let Some(drivers) = drivers.filter(|drivers| drivers.is_wanted(path)) {
                let told = drivers.attach(&file, path);
                problems.extend(told.map(|text| Problem { text, is_ours: false }));
            }
            Ok(marks.attach(&file)?)
        });
        let Err(error) = attached else { return true };
        match error.cause() {
            // This file is no longer mapped.
            Some(libc::ENOENT) => {}
            // Nothing is mapped any more: the process has ended.
            Some(libc::ESRCH) => return false,
            _ if problems.len() < MOST_PROBLEMS => {
                let text = format!("attaching to `{}`: {error}", name(relative));
                problems.push(Problem { text, is_ours: error.is_ours() });
            }
            _ => more += 1,
        }
        true
    });
    if left + more > 0 {
        let text = format!("{} more files of process {pid} could not be checked", left + more);
        problems.push(Problem { text, is_ours: false });
    }
    Ok(Looked { spin, problems })
}

/// Whether a process has mapped a file with the marker executable. The process can make this wait for ever.
pub fn is_marked(pid: i32, known: &MarkedFiles) -> bool {
    let Ok((maps, _)) = tasks::maps(pid) else { return false };
    let files: Vec<Map> = maps.into_iter().filter(|map| map.is_code && map.path.is_some()).collect();
    let mut is_marked = false;
    within(LOOK, files, |map| {
        let Some(path) = &map.path else { return true };
        let found = open(pid, &map, path.strip_prefix("/").unwrap_or(path));
        is_marked = found.is_ok_and(|file| known.has(&file).unwrap_or(false));
        !is_marked
    });
    is_marked
}

/// Calls `each` on the things until it returns false, and for at most this long. Returns how many were left
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

/// Code ranges of such libraries, those that only wait before those that compute as well; the first ones
/// where there are more than fit.
fn spin_code<'a>(maps: impl IntoIterator<Item = &'a Map>) -> SpinCode {
    let mut code = SpinCode::default();
    let of_map = |map: &Map| Some([map.start, map.end, spinner(map.path.as_ref().filter(|_| map.is_code)?)?]);
    let mut ranges: Vec<[u64; 3]> = maps.into_iter().filter_map(of_map).collect();
    ranges.sort_by_key(|range| range[2] & COMPUTES);
    for (range, mapped) in code.iter_mut().zip(ranges) {
        *range = mapped;
    }
    code
}

/// The number of the library with this file, as [`SpinCode`] has it.
fn spinner(path: &Path) -> Option<u64> {
    let (number, spinner) = spinners::of_file(path.file_name()?.to_str()?)?;
    Some(u64::from(number) | if spinner.computes { COMPUTES } else { 0 })
}

/// Why a mapped file was not looked at.
#[derive(Debug, thiserror::Error)]
enum FileError {
    /// The agent may not look into the process.
    #[error(transparent)]
    NoRight(io::Error),
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] io::Error),
    /// The probe was not placed.
    #[error(transparent)]
    Mark(#[from] MarkError),
}

impl FileError {
    /// Whether it concerns every program.
    fn is_ours(&self) -> bool {
        match self {
            Self::NoRight(_) => true,
            Self::Open(_) => false,
            Self::Mark(error) => error.is_ours(),
        }
    }

    /// The kernel's error number, if that was all that went wrong.
    fn cause(&self) -> Option<i32> {
        let (Self::NoRight(error)
        | Self::Open(error)
        | Self::Mark(
            MarkError::Look(error)
            | MarkError::Kernel(error)
            | MarkError::Marker(MarkerError::Read { source: error, .. }),
        )) = self
        else {
            return None;
        };
        error.raw_os_error().or_else(|| (error.kind() == io::ErrorKind::NotFound).then_some(libc::ENOENT))
    }
}

/// Opens a mapped file by /proc/PID/map_files, which leads to that very file, deleted or in any mount
/// namespace; the kernel allows it to root of the initial user namespace. Where it refuses, by the process's
/// root and the path there: the process may have put anything there, so the file must be the one that is
/// mapped.
fn open(pid: i32, map: &Map, relative: &Path) -> Result<File, FileError> {
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
        if is_denied { FileError::NoRight(error) } else { FileError::Open(error) }
    })?;
    let found = root.find(relative)?;
    if is_mapped(&found, map)? { Ok(found) } else { Err(io::Error::from(io::ErrorKind::NotFound).into()) }
}

/// Whether this file is the mapped one, by its inode number and device. Mappings of files on btrfs, and on an
/// overlay before Linux 6.8, show another device than stat(2) does: there the inode number has to do.
fn is_mapped(found: &File, map: &Map) -> io::Result<bool> {
    let metadata = found.metadata()?;
    let device = (nix::sys::stat::major(metadata.dev()), nix::sys::stat::minor(metadata.dev()));
    let has_two_devices = || {
        let kind = fstatfs(found).map(|system| system.filesystem_type());
        kind.is_ok_and(|kind| [BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC].contains(&kind))
    };
    Ok(metadata.is_file() && metadata.ino() == map.inode && (device == map.device || has_two_devices()))
}

/// A path that a program chose.
fn name(path: &Path) -> Untrusted {
    path.shown()
}

/// Executable mappings of a process, from a cheap check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedCode {
    /// Size of the program's code and of libraries' code, kB.
    kib: (u64, u64),
    /// Address of the program's code: it changes with each exec, as long as addresses are randomized.
    at: u64,
    /// Start of the process, in the kernel's ticks: distinguishes it from a later one with the same ID.
    pub born: u64,
}

impl MappedCode {
    /// Whether this process still runs its parent's program: a forked child has everything mapped where its
    /// parent has it, until it executes another program.
    pub fn is_program_of(&self, parent: &Self) -> bool {
        self.at == parent.at
    }
}

/// Changes when a library is loaded or a program replaced, and costs a tenth of reading the maps.
pub fn mapped_code(pid: u32) -> Option<MappedCode> {
    let status = tasks::status(format!("/proc/{pid}").as_ref()).ok()?;
    let kibibytes =
        |name: &str| -> Option<u64> { tasks::field(&status, name)?.strip_suffix(" kB")?.trim().parse().ok() };
    let stat = Stat::read(pid.cast_signed()).ok()?;
    let kib = (kibibytes("VmExe")?, kibibytes("VmLib")?);
    Some(MappedCode { kib, at: stat.code_at, born: stat.born })
}

/// Most threads of a process that are asked for the processes they have forked.
const MOST_THREADS: usize = 64;

/// Bytes read of the list of a thread's children: some 30,000 of them.
const CHILDREN_BYTES: u64 = 256 << 10;

/// Child processes of this one, as far as they are listed.
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
    #[case::only_waits("/x/torch/lib/libgomp-98b21ff3.so.1", Some(false))]
    #[case::replaced("/x/libgomp.so.1 (deleted)", Some(false))]
    #[case::computes("/x/capi/onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so", Some(true))]
    #[case::folder("/libgomp.so/program", None)]
    #[case::not_text("/x/libc.so.6", None)]
    fn libraries_that_busy_wait_are_known_by_their_files(#[case] path: &str, #[case] computes: Option<bool>) {
        assert_eq!(spinner(Path::new(path)).map(|number| number & COMPUTES != 0), computes);
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

    /// A path may lead to anything by the time it is followed.
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
        maps.extend((3..8).map(|at| line(at, "r-xp", "/x/libggml-cpu.so")));
        maps.extend((8..13).map(|at| line(at, "r-xp", "/x/libgomp.so.1")));
        let begins = spin_code(&maps).map(|[start, end, number]| {
            assert_eq!(end, start + (1 << 12));
            (start >> 12, number & COMPUTES != 0)
        });
        let waits = (8..13).map(|at| (at, false));
        assert_eq!(begins.to_vec(), waits.chain((3..6).map(|at| (at, true))).collect::<Vec<_>>());
    }
}
