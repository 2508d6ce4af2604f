//! Advice by cause, with its source: a table.
//!
//! Yields [`Advice`] by the name of a cause. The texts are in `advice.toml`, in one place where they can be
//! reviewed; the build converts them to JSON, which the agent parses anyway. No run is examined here.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::spinners::{self, Spinner};
use crate::{
    limits::{Kind, Limit},
    phase::Stopper,
};

/// The table, as the build script wrote it.
const TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/advice.json"));
/// Key of the advice on reads and writes that stood in queues.
pub const QUEUED: &str = "block_io.queued";
/// Key of the advice on writes that were waited for.
pub const WRITES: &str = "block_io.write";
/// Key of the advice on waits for a peer that waited for a socket itself.
pub const BOTH_WAIT: &str = "net.both_wait";
/// Key of the advice on waits for threads that had no CPU.
pub const PEER_QUEUED: &str = "wait.peer_queued";
/// Key of the advice on waits that ended as another thread did something.
pub const OF_A_THREAD: &str = "other.thread";
/// Key of the advice on calls of `sched_yield`.
pub const YIELDS: &str = "cpu.syscall.yield";
/// Key of the advice on waits for io_uring while reads or writes of a device are under way.
pub const IN_FLIGHT: &str = "poll.in_flight";
/// Key of the advice on waits for others while threads of the same process ran.
pub const OWN_WORK: &str = "poll.own_work";
/// Key of the advice on reads and writes that a control group's limit held back.
pub const HELD_BACK: &str = "block_io.held_back";
/// Key of the advice on page faults that waited for no device.
pub const WITHOUT_READS: &str = "fault.without_reads";
/// Key of the advice on waits for the lock of the address space.
pub const ADDRESS_SPACE: &str = "address_space";
/// Key of the advice on waits for that lock which a process outside held.
pub const FROM_OUTSIDE: &str = "address_space.outside";
/// Key of the advice on requests that hang while no thread of their process is alive to wake them.
pub const ALONE: &str = "hung.alone";
/// The same in a process that was forked.
pub const FORKED: &str = "hung.forked";
/// Key of the advice on waits for Python's interpreter lock.
pub const INTERPRETER: &str = "lock.interpreter";
/// Key of the advice on requests that hang while all threads of their process wait for locks.
pub const DEADLOCK: &str = "hung.deadlock";
/// Key of the advice on busy-waiting in libraries that other advice has named.
pub const SPINNING_AS_TOLD: &str = "cpu.spin.as_told";
/// Key of the advice on phases whose thread did other work while they were suspended.
pub const HELD_UP: &str = "suspended.held";
/// Key of the advice on other waits that were all too short to be recorded.
pub const UNSEEN: &str = "other.unseen";
/// Key of the advice on waits for sockets of which the way took much.
pub const ON_THE_WAY: &str = "net.way";
/// Keys of the advice on threads that a signal, a debugger or a freezer kept from running.
const STOPPED: [&str; 3] = ["stopped.signal", "stopped.debugger", "stopped.freezer"];
/// Key of the advice on collections of garbage.
pub const COLLECTOR: &str = "cpu.collector";
/// Key of the advice on graphics processors that wait for launches.
pub const LAUNCH: &str = "gpu.launch";
/// Key of the advice on those that are busy for most of the time.
pub const GPU_BUSY: &str = "gpu.busy";
/// Key of the advice on those that copy for much of the time.
pub const GPU_COPY: &str = "gpu.copy";
/// Key of the advice on kernels that take longer on one platform than on another.
pub const GPU_BUSY_LONGER: &str = "gpu.busy.longer";
/// The same on copies.
pub const GPU_COPY_LONGER: &str = "gpu.copy.longer";
/// Key of the advice on those that wait for input.
pub const INPUT: &str = "gpu.input";
/// Key of the advice on moves between caches.
pub const MIGRATION: &str = "migration";
/// Key of the advice on busy-waiting of the request's own threads, where the library is known.
pub const SPINNING: &str = "cpu.spin.known";
/// Key of the advice on waits for a CPU that the process's own threads had to busy-wait.
pub const OWN_SPINNING: &str = "runq.own.spinning";
/// Key for all accounts of helpers without a separate entry.
const ANY_HELPER: &str = "helper.*";
/// How a source begins in the table, and the text that replaces it.
const STUDIES: [(&str, &str); 4] = [
    ("S1", "Samani & Salehi"),
    ("S2", "Lin, Pai & Chou 2018"),
    ("S3", "VMware, H2O on metal and VM"),
    ("S5", "VMware, GPU virtualization 2"),
];

/// CPUs that threads may use by their own masks, and by no group.
const MASK: &str = "limit.mask";
/// The same where threads of the run were in each other's way there, and CPUs of a group's set then.
const CROWDED_MASK: &str = "limit.mask.crowded";
const CROWDED_SET: &str = "limit.cpus.crowded";
/// Replaced by the file and the group that have a limit.
const PLACE: &str = "{place}";
/// Replaced by the libraries that busy-wait, and what stops them.
const SPINNER: &str = "{spinner}";
/// A second library is told from this part of all samples of such libraries on, as in the summary.
const ALSO: f64 = 0.1;
/// Words on a limit in both versions of control groups, in the second one, and in the first one.
const VERSIONS: [[&str; 3]; 3] = [
    ["cpu.max, or cpu.cfs_quota_us in version 1", "cpu.max", "cpu.cfs_quota_us"],
    ["memory.max; version 1: memory.limit_in_bytes", "memory.max", "memory.limit_in_bytes"],
    ["io.max, in version 1 blkio.throttle", "io.max", "blkio.throttle"],
];

/// Parsed once. The text is part of the program and its test reads it: an error cannot get here.
static TABLE: LazyLock<BTreeMap<String, Advice>> = LazyLock::new(|| parse(TEXT).unwrap_or_default());

/// Advice on a cause, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Its key in the table.
    pub key: String,
    /// One or two plain sentences.
    pub text: String,
    /// A study with what it claims, the kernel's documentation, or what was measured.
    pub source: String,
}

/// Returns the advice for a cause, by its name in reports: account, overlay, `migration`, or a helper's
/// account.
pub fn for_cause(name: &str) -> Option<Advice> {
    let any_helper = || name.starts_with("helper.").then(|| TABLE.get(ANY_HELPER)).flatten();
    TABLE.get(name).or_else(any_helper).cloned()
}

/// The key of the advice on threads that this kept from running.
pub const fn of_stops(by: Stopper) -> &'static str {
    STOPPED[by as usize]
}

/// Returns the advice for a limit that was hit; it names the file and the group that have it. `is_crowded` is
/// that of [`Limited`](super::Limited::crowded).
pub fn for_limit(limit: &Limit, is_crowded: bool) -> Option<Advice> {
    let is_mask = limit.kind == Kind::Cpus && limit.group.is_empty();
    let advice = TABLE.get(match (is_mask, is_crowded) {
        (true, true) => CROWDED_MASK,
        (true, false) => MASK,
        (false, true) => CROWDED_SET,
        (false, false) => limit.kind.name(),
    })?;
    let place = format!("{} of {}", limit.file, limit.group);
    Some(Advice { text: advice.text.replace(PLACE, &place), ..advice.clone() })
}

/// Returns the advice on busy-waiting in these libraries, by their samples; none if no library is known.
pub fn for_spinning(key: &str, spun: &[(&'static str, u64)]) -> Option<Advice> {
    let mut known: Vec<(u64, &'static str, &'static Spinner)> =
        spun.iter().filter_map(|&(name, samples)| Some((samples, name, spinners::by_name(name)?))).collect();
    known.sort_by_key(|&(samples, name, _)| (std::cmp::Reverse(samples), name));
    let &(_, _, first) = known.first().filter(|first| first.0 > 0)?;
    let all = known.iter().map(|known| known.0).fold(0, u64::saturating_add);
    known.retain(|&(samples, ..)| samples as f64 >= all as f64 * ALSO);
    let words = |(_, name, one): &(u64, &str, &Spinner)| {
        format!("{} ({name}) spins while it waits for {}; {}", one.what, one.waits_for, one.stop)
    };
    let words = known.iter().take(2).map(words).collect::<Vec<_>>().join(". ");
    let advice = TABLE.get(key)?;
    Some(Advice {
        text: advice.text.replace(SPINNER, &words),
        source: first.source.clone(),
        ..advice.clone()
    })
}

/// The two versions of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// With a hierarchy for each controller.
    First,
    /// With one for all.
    Second,
}

impl Version {
    /// The version that has a file of this name; none if both have.
    pub fn of_file(file: &str) -> Option<Self> {
        let is_of = |names: &str| file.starts_with(names);
        match () {
            () if VERSIONS.iter().any(|[_, _, first]| is_of(first)) => Some(Self::First),
            () if VERSIONS.iter().any(|[_, second, _]| is_of(second)) => Some(Self::Second),
            () => None,
        }
    }
}

impl Advice {
    /// The same in the words of one version of control groups alone.
    #[must_use]
    pub fn of_version(mut self, version: Version) -> Self {
        for [both, second, first] in VERSIONS {
            let one = if version == Version::First { first } else { second };
            self.text = self.text.replace(both, one);
        }
        self
    }
}

fn parse(text: &str) -> Result<BTreeMap<String, Advice>, String> {
    let table: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    table.into_iter().map(|(cause, entry)| advice(&cause, &entry).map(|advice| (cause, advice))).collect()
}

fn advice(cause: &str, entry: &Value) -> Result<Advice, String> {
    let entry = entry.as_object().ok_or_else(|| format!("no table: {cause}"))?;
    let word = |key: &str| {
        let text = entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| format!("no {key}: {cause}"))
    };
    if let Some(unknown) = entry.keys().find(|key| !["text", "source"].contains(&key.as_str())) {
        return Err(format!("unknown key: {cause}.{unknown}"));
    }
    Ok(Advice { key: cause.to_owned(), text: word("text")?, source: cite(&word("source")?) })
}

/// Studies by their authors instead of by our numbers.
fn cite(source: &str) -> String {
    STUDIES.iter().fold(source.to_owned(), |source, (number, authors)| {
        source.replace(&format!("{number}: "), &format!("{authors}: "))
    })
}

#[cfg(test)]
#[path = "advice_tests.rs"]
mod tests;
