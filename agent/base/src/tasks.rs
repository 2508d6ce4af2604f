//! Facts from /proc about a process: its state, its numbers, its mappings. Read as bytes, since a process
//! chooses its name and the names of its files.
//!
//! Yields plain values. No library is used: the one tried takes a file named `/SYSVx` for shared memory, and
//! panics.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{FromRawFd as _, OwnedFd, RawFd},
        unix::ffi::OsStringExt as _,
    },
    path::{Path, PathBuf},
};

use crate::{guarded, untrusted::Untrusted};

/// Most bytes read of a process's maps: 65,530 lines, the most a process may have, of 128 bytes each. Paths
/// may be longer.
const MAPS_BYTES: u64 = 8 << 20;
/// Bound for any other file below `/proc/PID`: `status` of a process in 65,536 groups takes 700 kB.
const FILE_BYTES: u64 = 1 << 20;
/// Flag of a kernel thread, from the kernel's sched.h.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Fields of `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name by the kernel.
    pub comm: Vec<u8>,
    /// One letter: `S` sleeps, `Z` is a zombie.
    pub(crate) state: u8,
    /// Process number of the parent.
    pub parent: i32,
    /// Whether it is a kernel thread.
    pub is_kernels: bool,
    /// Start time, in ticks since boot.
    pub born: u64,
    /// Address of the program's code, if it may be known.
    pub code_at: u64,
}

impl Stat {
    /// # Errors
    /// There is no such process.
    pub fn read(pid: i32) -> io::Result<Self> {
        Self::read_at(format!("/proc/{pid}/stat").as_ref())
    }

    /// # Errors
    /// As above.
    pub fn read_at(path: &Path) -> io::Result<Self> {
        let text = guarded::read_begin(path, FILE_BYTES)?;
        Self::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether it has ended and was not waited for (zombie).
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// The second field, in parentheses, may hold anything, parentheses too.
    fn parse(text: &[u8]) -> Option<Self> {
        let (begin, end) =
            (text.iter().position(|&byte| byte == b'(')?, text.iter().rposition(|&byte| byte == b')')?);
        let comm = text.get(begin + 1..end)?.to_vec();
        let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            comm,
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            is_kernels: number(6)? & PF_KTHREAD != 0,
            born: number(19)?,
            code_at: number(23).unwrap_or(0),
        })
    }
}

/// `/proc/PID/status`, or that of a thread; bytes that are not UTF-8 are replaced.
///
/// # Errors
/// There is no such process.
pub fn status(path: &Path) -> io::Result<String> {
    let text = guarded::read_begin(&path.join("status"), FILE_BYTES)?;
    Ok(Untrusted::of_bytes(&text).stored().to_owned())
}

/// The value of a field of [`status`].
pub fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    // After the name, which cannot hold a line end.
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// One mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    pub start: u64,
    pub end: u64,
    /// Whether it is executable.
    pub is_code: bool,
    /// Major and minor number of the file's device.
    pub device: (u64, u64),
    pub inode: u64,
    /// Path of the file, as the process sees it; none for memory without a file.
    pub path: Option<PathBuf>,
}

/// Mappings of a process, as far as they are read, and whether there are more.
///
/// # Errors
/// There is no such process, or the agent may not look at it.
pub fn maps(pid: i32) -> io::Result<(Vec<Map>, bool)> {
    let mut text = guarded::read_begin(format!("/proc/{pid}/maps").as_ref(), MAPS_BYTES)?;
    let is_cut = text.len() as u64 == MAPS_BYTES;
    if is_cut {
        // The last line may be incomplete.
        text.truncate(text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
    }
    Ok((text.split(|&byte| byte == b'\n').filter_map(Map::parse).collect(), is_cut))
}

impl Map {
    /// `7f00-7f10 r-xp 00000000 08:01 1234     /usr/lib/x.so`. A line end in a path is written `\012`.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut rest = line;
        let mut field = || {
            let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
            let (field, after) = rest.split_at(end);
            rest = after.strip_prefix(b" ").unwrap_or(after);
            std::str::from_utf8(field).ok()
        };
        let (range, permissions, _offset, device, inode) = (field()?, field()?, field()?, field()?, field()?);
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        let (major, minor) = device.split_once(':')?;
        let path = rest.trim_ascii_start();
        Some(Self {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            is_code: permissions.contains('x'),
            device: (hexadecimal(major)?, hexadecimal(minor)?),
            inode: inode.parse().ok()?,
            path: path.starts_with(b"/").then(|| OsString::from_vec(path.to_vec()).into()),
        })
    }
}

/// A descriptor that becomes readable when the process ends (pidfd_open, 5.3 and later).
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn stat(comm: &str) -> Vec<u8> {
        let rest = " S 42 1 1 0 -1 4194560 9 9 0 0 5 6 0 0 20 0 1 0 777 8192 99 18446744073709551615 94000 1";
        [b"7 (", comm.as_bytes(), b")", rest.as_bytes()].concat()
    }

    #[rstest]
    #[case::plain("sh")]
    #[case::parentheses("a) S 1 (b")]
    #[case::empty("")]
    #[case::lines("a\nb")]
    fn a_name_may_hold_anything(#[case] comm: &str) {
        let read = Stat::parse(&stat(comm)).expect("it is whole");
        assert_eq!((read.comm.as_slice(), read.state, read.parent), (comm.as_bytes(), b'S', 42));
        assert_eq!((read.is_kernels, read.born, read.code_at), (false, 777, 94_000));
    }

    #[test]
    fn a_name_that_is_no_text_hides_nothing() {
        let mut text = stat("x");
        text[3] = 0xff;
        assert_eq!(Stat::parse(&text).expect("it is whole").comm, [0xff]);
    }

    #[test]
    fn this_process_is_known_by_all_of_its_files() {
        let own = std::process::id().cast_signed();
        let read = Stat::read(own).expect("it runs");
        assert_eq!(read.parent, nix::unistd::getppid().as_raw());
        let status = status(format!("/proc/{own}").as_ref()).expect("it runs");
        assert_eq!(field(&status, "Pid"), Some(own.to_string().as_str()));
        let (maps, is_cut) = maps(own).expect("it may look at itself");
        let here = this_process_is_known_by_all_of_its_files as *const () as u64;
        let own = maps.iter().find(|map| (map.start..map.end).contains(&here)).expect("this code is mapped");
        assert!(own.is_code && !is_cut);
        assert_eq!(own.path.as_deref(), std::env::current_exe().ok().as_deref());
    }

    #[rstest]
    #[case::library(
        "7f00-7f10 r-xp 00000000 08:01 1234                       /usr/lib/x.so",
        Some("/usr/lib/x.so")
    )]
    #[case::of_its_name("7f00-7f10 r-xp 00000000 08:01 1234 /SYSVx", Some("/SYSVx"))]
    #[case::in_a_letter("7f00-7f10 r-xp 00000000 08:01 1234 /SYSV1234567ä", Some("/SYSV1234567ä"))]
    #[case::blanks("7f00-7f10 r-xp 00000000 08:01 1234 /a  b (deleted)", Some("/a  b (deleted)"))]
    #[case::stack("7f00-7f10 rwxp 00000000 08:01 1234 [stack]", None)]
    #[case::nothing("7f00-7f10 r-xp 00000000 08:01 1234", None)]
    fn a_mapping_is_a_line(#[case] line: &str, #[case] path: Option<&str>) {
        let map = Map::parse(line.as_bytes()).expect("it is whole");
        assert_eq!(map.path.as_deref(), path.map(Path::new));
        assert_eq!((map.start, map.end, map.is_code), (0x7f00, 0x7f10, true));
        assert_eq!((map.device, map.inode), ((8, 1), 1234));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_mapping_or_none(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (Map::parse(&line), Stat::parse(&line));
        }

        #[test]
        fn any_path_is_kept_as_it_is(name in prop::collection::vec(1_u8..=255, 1..40)) {
            prop_assume!(!name.contains(&b'\n'));
            let line = [b"1-2 r-xp 0 8:1 7 /", name.as_slice()].concat();
            let path = Map::parse(&line).and_then(|map| map.path).map(|path| path.into_os_string().into_vec());
            prop_assert_eq!(path, Some([b"/", name.as_slice()].concat()));
        }
    }
}
