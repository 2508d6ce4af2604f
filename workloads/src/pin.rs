//! The CPUs on which this process's threads may run: a list, or chosen by shared cores, caches and sockets.
//! Yields the set that the kernel then reports. Threads may still move inside it, as in a container with a
//! cpuset.

use std::{fmt, fs, io, path::Path, str::FromStr};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

/// The kernel's description of its CPUs.
const SYSTEM: &str = "/sys/devices/system/cpu";
/// Limit of a list, so that a typing mistake causes no long loop.
const MOST_CPUS: usize = 8192;

/// Errors of pinning.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    #[error("this process may not use a CPU of --pin: {cpu} (it may use {allowed})")]
    NotAllowed { cpu: usize, allowed: Cpus },
    #[error("cannot pin threads to CPUs {cpus}: {source}")]
    Set { cpus: Cpus, source: io::Error },
    #[error("CPUs {found} instead of {asked} are what the kernel gave")]
    Changed { found: Cpus, asked: Cpus },
    #[error("cannot say which CPUs may be used: {0}")]
    Get(io::Error),
}

impl PinError {
    /// The next action for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotAllowed { .. } | Self::Changed { .. } => {
                "name CPUs inside the container's or service's own set, or take --pin spread"
            }
            Self::Set { .. } | Self::Get(_) => "this system refuses to pin threads: leave --pin out",
        }
    }
}

/// Numbers of CPUs, ascending; as text `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(Vec<usize>);

/// The choice of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Exactly these.
    List(Cpus),
    /// That many, or as many as threads, as far apart as possible: other sockets, other caches, other cores
    /// first.
    Spread(Option<u32>),
    /// As close together as possible: threads of one core, cores of one cache first.
    Compact(Option<u32>),
}

/// The text is not a set of CPUs.
#[derive(Debug, thiserror::Error)]
#[error("CPUs are a list like 0-3,8, or spread, or compact, or so many of them like spread:4")]
pub struct NoPin;

impl FromStr for Cpus {
    type Err = NoPin;

    fn from_str(text: &str) -> Result<Self, NoPin> {
        let number = |text: &str| text.parse::<usize>().ok().filter(|cpu| *cpu < MOST_CPUS).ok_or(NoPin);
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(NoPin);
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

impl FromStr for Pin {
    type Err = NoPin;

    fn from_str(text: &str) -> Result<Self, NoPin> {
        let (name, count) = match text.split_once(':') {
            Some((name, count)) => (name, Some(count.parse().ok().filter(|count| *count > 0).ok_or(NoPin)?)),
            None => (text, None),
        };
        match name {
            "spread" => Ok(Self::Spread(count)),
            "compact" => Ok(Self::Compact(count)),
            _ => text.parse().map(Self::List),
        }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, run) in self.0.chunk_by(|one, next| one + 1 == *next).enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match run {
                [cpu] => write!(f, "{comma}{cpu}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(cpus) => cpus.fmt(f),
            Self::Spread(None) => f.write_str("spread"),
            Self::Spread(Some(count)) => write!(f, "spread:{count}"),
            Self::Compact(None) => f.write_str("compact"),
            Self::Compact(Some(count)) => write!(f, "compact:{count}"),
        }
    }
}

/// Position of a CPU. What the kernel does not report counts as shared by all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    cpu: usize,
    socket: usize,
    /// The first CPU that shares its last-level cache.
    cache: usize,
    /// The first CPU of its core.
    core: usize,
}

/// Pins all threads of this process, `threads` if their number is known. Gives the CPUs that it then has.
pub fn apply(pin: &Pin, threads: Option<u32>) -> Result<Cpus, PinError> {
    let allowed = current()?;
    let cpus = match pin {
        Pin::List(cpus) => match cpus.0.iter().find(|cpu| !allowed.0.contains(cpu)) {
            Some(cpu) => return Err(PinError::NotAllowed { cpu: *cpu, allowed }),
            None => cpus.clone(),
        },
        Pin::Spread(count) | Pin::Compact(count) => {
            let count = count.or(threads);
            let places: Vec<Place> = allowed.0.iter().map(|cpu| place(Path::new(SYSTEM), *cpu)).collect();
            let mut chosen = order(&places, matches!(pin, Pin::Spread(_)));
            chosen.truncate(count.map_or(usize::MAX, |count| count as usize).max(1));
            chosen.sort_unstable();
            Cpus(chosen)
        }
    };
    set(&cpus).map_err(|source| PinError::Set { cpus: cpus.clone(), source })?;
    let found = current()?;
    if found == cpus { Ok(found) } else { Err(PinError::Changed { found, asked: cpus }) }
}

/// The CPUs that the calling thread may use.
fn current() -> Result<Cpus, PinError> {
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(|error| PinError::Get(error.into()))?;
    Ok(Cpus((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()))
}

/// Sets the affinity of every existing thread; threads that they start inherit it.
fn set(cpus: &Cpus) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in &cpus.0 {
        set.set(*cpu)?;
    }
    for thread in fs::read_dir("/proc/self/task")? {
        let Ok(thread) = thread?.file_name().to_string_lossy().parse::<i32>() else { continue };
        sched_setaffinity(Pid::from_raw(thread), &set)?;
    }
    Ok(())
}

fn place(system: &Path, cpu: usize) -> Place {
    let own = system.join(format!("cpu{cpu}"));
    let text = |name: &str| fs::read_to_string(own.join(name)).ok();
    let first = |name: &str| text(name).and_then(|list| list.parse::<Cpus>().ok()?.0.first().copied());
    let socket = text("topology/physical_package_id").and_then(|id| id.trim().parse().ok()).unwrap_or(0);
    // Caches are numbered from the first level up; machines have four at most.
    let cache = (0..8).rev().find_map(|index| first(&format!("cache/index{index}/shared_cpu_list")));
    let core = first("topology/thread_siblings_list").unwrap_or(cpu);
    Place { cpu, socket, cache: cache.unwrap_or(socket), core }
}

/// The CPUs in order of choice.
fn order(places: &[Place], is_spread: bool) -> Vec<usize> {
    let mut places = places.to_vec();
    places.sort_by_key(|place| (place.socket, place.cache, place.core, place.cpu));
    if is_spread {
        // Ranks of a CPU's thread in its core, its core in its cache, its cache in its socket: the first ones
        // first.
        let rank = |own: &Place, group: fn(&Place) -> usize, part: fn(&Place) -> usize| {
            let mut parts: Vec<usize> =
                places.iter().filter(|other| group(other) == group(own)).map(part).collect();
            parts.dedup();
            parts.iter().position(|other| *other == part(own)).unwrap_or(0)
        };
        let mut ranked: Vec<_> = places
            .iter()
            .map(|own| {
                let thread = rank(own, |place| place.core, |place| place.cpu);
                let core = rank(own, |place| place.cache, |place| place.core);
                let cache = rank(own, |place| place.socket, |place| place.cache);
                ((thread, core, cache, own.socket), own.cpu)
            })
            .collect();
        ranked.sort_unstable();
        return ranked.into_iter().map(|(_, cpu)| cpu).collect();
    }
    places.into_iter().map(|place| place.cpu).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::{Cpus, Pin, Place, order, place};

    /// Two sockets of two caches of two cores of two threads, numbered as on many servers: the second threads
    /// come last.
    fn server() -> Vec<Place> {
        (0..16)
            .map(|cpu| {
                let core = cpu % 8;
                Place { cpu, socket: core / 4, cache: core / 2 * 2, core }
            })
            .collect()
    }

    #[test]
    fn compact_fills_a_core_and_a_cache_first() {
        assert_eq!(order(&server(), false)[..8], [0, 8, 1, 9, 2, 10, 3, 11]);
    }

    #[test]
    fn spread_takes_other_sockets_and_caches_first() {
        let spread = order(&server(), true);
        assert_eq!(spread[..4], [0, 4, 2, 6], "a cache each");
        assert_eq!(spread[4..8], [1, 5, 3, 7], "a core each");
        assert_eq!(spread[8..], [8, 12, 10, 14, 9, 13, 11, 15], "and only then second threads");
    }

    #[test]
    fn a_machine_that_says_nothing_has_cpus_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let places: Vec<Place> = (0..4).map(|cpu| place(folder.path(), cpu)).collect();
        assert_eq!((order(&places, true), order(&places, false)), (vec![0, 1, 2, 3], vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_place_is_read_as_the_kernel_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("cpu5/topology/physical_package_id", "1\n"),
            ("cpu5/topology/thread_siblings_list", "1,5\n"),
            ("cpu5/cache/index0/shared_cpu_list", "1,5\n"),
            ("cpu5/cache/index3/shared_cpu_list", "0-7\n"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        assert_eq!(place(folder.path(), 5), Place { cpu: 5, socket: 1, cache: 0, core: 1 });
    }

    #[rstest]
    #[case("0", Some("0"))]
    #[case("3,0-1,1", Some("0-1,3"))]
    #[case("8,9,10,12", Some("8-10,12"))]
    #[case("spread", Some("spread"))]
    #[case("compact:4", Some("compact:4"))]
    #[case("spread:0", None)]
    #[case("0-1:4", None)]
    #[case("3-1", None)]
    #[case("", None)]
    #[case("0-99999999999", None)]
    #[case("a", None)]
    fn a_list_is_written_as_usual(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(text.parse::<Pin>().ok().map(|pin| pin.to_string()).as_deref(), expected);
        if let (Ok(cpus), Some(expected)) = (text.parse::<Cpus>(), expected) {
            assert_eq!(cpus.to_string(), expected);
        }
    }
}
