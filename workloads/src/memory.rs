//! How much memory this process may still take: what the system has, and what the limits of its cgroups
//! leave. Yields bytes, and has the kernel refuse more. It decides nothing.

use std::{fs, path::Path};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::stall::machine::hierarchy::{Hierarchy, Version};

/// Memory that a process takes beside its data, and that a limit on the data has to leave free: page tables
/// (2 bytes per 1,024), and what a program and its libraries write once at start (4 MB by libtorch). Without
/// it a program that kept asking for a little more was killed 0.1 MB below the limit of its group.
const KERNELS_BYTES: u64 = 8 << 20;
const KERNELS_PART: u64 = 256;

/// More memory was requested than may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory: {needed_bytes} bytes needed, {available_bytes} available")]
pub struct NoRoom {
    /// Bytes needed at once, beside those already taken.
    pub needed_bytes: u64,
    /// Bytes available, as far as known.
    pub available_bytes: u64,
}

/// Reports a shortage before the kernel kills the process in the middle of a step: with overcommit it refuses
/// nothing until then.
pub fn check(needed_bytes: u64) -> Result<(), NoRoom> {
    match available_bytes() {
        Some(available_bytes) if available_bytes < needed_bytes => {
            Err(NoRoom { needed_bytes, available_bytes })
        }
        Some(_) | None => Ok(()),
    }
}

/// `count` zeros. A shortage is an error here, while `vec!` would abort the process.
pub fn zeros<T: Copy + Default>(count: usize) -> Result<Vec<T>, NoRoom> {
    let mut values = room(count)?;
    values.resize(count, T::default());
    Ok(values)
}

/// Room for exactly `count` values.
pub fn room<T>(count: usize) -> Result<Vec<T>, NoRoom> {
    let mut values = Vec::new();
    reserve(&mut values, count)?;
    Ok(values)
}

/// Room for exactly `more` further values.
pub fn reserve<T>(values: &mut Vec<T>, more: usize) -> Result<(), NoRoom> {
    values.try_reserve_exact(more).map_err(|_| NoRoom {
        needed_bytes: (more as u64).saturating_mul(size_of::<T>() as u64),
        available_bytes: available_bytes().unwrap_or(0),
    })
}

/// From now on the kernel refuses this process and its children more than is available now: a library that
/// asks for more reports an error, where an overcommitting kernel kills the process at the first touch.
/// Memory that is requested and never touched counts too, as do thread stacks (`RLIMIT_DATA`, getrlimit(2));
/// so earlier requests that are still untouched (5 MB by libtorch) are subtracted. Nothing changes if the
/// available memory is unknown.
pub fn refuse_more_than_available() {
    let (Some(own), Some(available)) = (own_bytes(), available_bytes()) else { return };
    let untouched = own.saturating_sub(touched_bytes().unwrap_or(own));
    let more = available.saturating_sub(untouched + KERNELS_BYTES + available / KERNELS_PART);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_DATA) else { return };
    // The limit is only lowered; if that is refused, the kernel decides as always.
    let _ = setrlimit(Resource::RLIMIT_DATA, own.saturating_add(more).min(soft), hard);
}

/// The least that the system, the cgroups and the limit of this process leave; none if none is known.
pub fn available_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let swap = field_bytes(&meminfo, "SwapFree:").unwrap_or(0);
    let limits = Hierarchy::of("memory").and_then(|hierarchy| left_bytes(&hierarchy, swap));
    of_system(&meminfo).into_iter().chain(limits).chain(left_of_limit()).min()
}

/// What `RLIMIT_DATA` leaves; none without that limit.
fn left_of_limit() -> Option<u64> {
    let (soft, _) = getrlimit(Resource::RLIMIT_DATA).ok().filter(|(soft, _)| *soft != RLIM_INFINITY)?;
    Some(soft.saturating_sub(own_bytes()?))
}

/// Bytes that count against `RLIMIT_DATA`.
fn own_bytes() -> Option<u64> {
    field_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmData:")
}

/// Available memory of the system, including free swap.
fn of_system(meminfo: &str) -> Option<u64> {
    let available = field_bytes(meminfo, "MemAvailable:")?;
    Some(available + field_bytes(meminfo, "SwapFree:").unwrap_or(0))
}

/// Touched bytes of `VmData`, including the few that were written once and are read-only since.
fn touched_bytes() -> Option<u64> {
    field_bytes(&fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")
}

fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The least that the cgroup of this process and its visible ancestors leave: each may have a limit. `swap`
/// is the system's free swap.
fn left_bytes(hierarchy: &Hierarchy, swap: u64) -> Option<u64> {
    let Hierarchy { version, mount, home } = hierarchy;
    let groups = home.ancestors().take_while(|group| group.starts_with(mount));
    groups.filter_map(|group| Some(left_in(group, *version)? + swap_left_in(group, *version, swap))).min()
}

/// Bytes that the limit leaves, including cached files, which the kernel reclaims first; none without a
/// limit.
fn left_in(group: &Path, version: Version) -> Option<u64> {
    let (limit, usage, cached) = match version {
        Version::One => {
            ("memory.limit_in_bytes", "memory.usage_in_bytes", ["total_active_file ", "total_inactive_file "])
        }
        Version::Two => ("memory.max", "memory.current", ["active_file ", "inactive_file "]),
    };
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (limit_bytes, usage_bytes) = (number(&read(limit)?)?, number(&read(usage)?)?);
    let stat = read("memory.stat").unwrap_or_default();
    let of_line = |line: &str| cached.iter().find_map(|name| number(line.strip_prefix(name)?));
    let cached_bytes: u64 = stat.lines().filter_map(of_line).sum();
    Some(limit_bytes.saturating_sub(usage_bytes.saturating_sub(cached_bytes)))
}

/// Free swap that a group may still take; all of `swap` if there is no limit or count.
fn swap_left_in(group: &Path, version: Version, swap: u64) -> u64 {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let left = || match version {
        // These two files count memory too.
        Version::One => {
            let limit =
                number("memory.memsw.limit_in_bytes")?.checked_sub(number("memory.limit_in_bytes")?)?;
            let usage =
                number("memory.memsw.usage_in_bytes")?.checked_sub(number("memory.usage_in_bytes")?)?;
            Some(limit.saturating_sub(usage))
        }
        Version::Two => Some(number("memory.swap.max")?.saturating_sub(number("memory.swap.current")?)),
    };
    left().unwrap_or(swap).min(swap)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rstest::rstest;

    use super::{available_bytes, check, left_bytes, of_system, room, zeros};
    use crate::stall::machine::hierarchy::{Hierarchy, Version};

    #[test]
    fn what_the_system_has_is_read() {
        assert_eq!(of_system("MemTotal: 9 kB\nMemAvailable:    3 kB\n"), Some(3072));
        assert_eq!(of_system("MemAvailable: 3 kB\nSwapFree: 2 kB\n"), Some(5120));
        assert_eq!(of_system("MemTotal: 9 kB\nSwapFree: 2 kB\n"), None);
        assert!(available_bytes().is_some_and(|bytes| bytes > 0));
        let error = check(1 << 60).unwrap_err();
        assert_eq!(error.needed_bytes, 1 << 60);
        check(1).unwrap();
    }

    #[test]
    fn room_that_nobody_has_is_an_error() {
        assert_eq!(zeros::<u16>(3), Ok(vec![0; 3]));
        // More than the address space: no kernel promises that.
        let error = zeros::<f32>(1 << 60).unwrap_err();
        assert_eq!(error.needed_bytes, 1 << 62);
        assert_eq!(room::<u8>(7).map(|values| values.capacity()), Ok(7));
    }

    fn group(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    #[rstest]
    #[case(Version::Two, ["memory.max", "memory.current"], "max", "")]
    #[case(Version::One, ["memory.limit_in_bytes", "memory.usage_in_bytes"], "9223372036854771712", "total_")]
    fn the_tightest_group_counts(
        #[case] version: Version,
        #[case] files: [&str; 2],
        #[case] unlimited: &str,
        #[case] prefix: &str,
    ) {
        let [limit, usage] = files;
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().join("mount");
        let home = mount.join("outer/inner");
        let with = |swap| left_bytes(&Hierarchy { version, mount: mount.clone(), home: home.clone() }, swap);
        let left = || with(0);
        // A folder above the mount is not a group.
        group(root.path(), &[(limit, "10"), (usage, "10")]);
        group(&home, &[(limit, unlimited), (usage, "4096\n")]);
        assert!(left().is_none_or(|bytes| bytes > 1 << 60), "{:?}", left());
        let stat =
            format!("anon 5000\n{prefix}inactive_file 300\n{prefix}active_file 40\nworkingset_file 7\n");
        group(&mount.join("outer"), &[(limit, "9000\n"), (usage, "6000\n"), ("memory.stat", &stat)]);
        assert_eq!(left(), Some(3340));
        assert_eq!(with(100), Some(3440), "nobody limits it");
        let swap = match version {
            Version::One => {
                [("memory.memsw.limit_in_bytes", "9050"), ("memory.memsw.usage_in_bytes", "6010")]
            }
            Version::Two => [("memory.swap.max", "50"), ("memory.swap.current", "10")],
        };
        group(&mount.join("outer"), &swap);
        assert_eq!([with(100), with(7)], [Some(3380), Some(3347)]);
        group(&home, &[(limit, "4000")]);
        assert_eq!(left(), Some(0), "above its limit already");
    }
}
