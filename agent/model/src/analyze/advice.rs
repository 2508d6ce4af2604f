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
mod tests {
    use rstest::rstest;

    use super::{super::Cause, *};

    /// Causes that `compare` makes of counts; those of an excess are all in [`Cause`].
    const OF_COUNTS: [&str; 1] = ["migration"];
    /// What limits that were hit are advised on by.
    const OF_LIMITS: [&str; 7] = [
        Kind::Memory.name(),
        Kind::Io.name(),
        Kind::Quota.name(),
        Kind::Cpus.name(),
        CROWDED_SET,
        MASK,
        CROWDED_MASK,
    ];
    /// Keys by whose processes had the CPU.
    const OF_USERS: [&str; 3] = ["runq.own", "runq.sibling", "runq.agent"];
    /// Those of what most waits of a cause were for.
    const OF_WAITS: [&str; 14] = [
        IN_FLIGHT,
        HELD_BACK,
        QUEUED,
        WRITES,
        HELD_UP,
        ADDRESS_SPACE,
        WITHOUT_READS,
        UNSEEN,
        OF_A_THREAD,
        ON_THE_WAY,
        BOTH_WAIT,
        PEER_QUEUED,
        FROM_OUTSIDE,
        INTERPRETER,
    ];
    /// Those with libraries that busy-wait.
    const OF_SPINNERS: [&str; 2] = [SPINNING, OWN_SPINNING];

    /// Those on a phase and on a system call with names of their own.
    const OF_NAMES: [&str; 3] = [COLLECTOR, YIELDS, SPINNING_AS_TOLD];
    /// Those on devices that are kept waiting.
    const OF_DEVICES: [&str; 2] = [LAUNCH, INPUT];
    /// Those on requests without an end.
    const OF_HUNG: [&str; 3] = [ALONE, FORKED, DEADLOCK];

    #[test]
    fn every_cause_has_advice_and_all_advice_has_a_cause() {
        let table = parse(TEXT).expect("the table is ours");
        let of_counts =
            OF_COUNTS.into_iter().chain(OF_LIMITS).chain(OF_USERS).chain(OF_WAITS).chain(OF_SPINNERS);
        let of_counts = of_counts.chain(STOPPED).chain(OF_NAMES).chain(OF_HUNG).chain(OF_DEVICES);
        let causes: Vec<&str> = Cause::all().map(Cause::name).chain(of_counts).collect();
        for cause in &causes {
            assert!(for_cause(cause).is_some(), "no advice for {cause}");
            let has_place = for_cause(cause).is_some_and(|advice| advice.text.contains(PLACE));
            let has_spinner = for_cause(cause).is_some_and(|advice| advice.text.contains(SPINNER));
            assert_eq!(has_spinner, OF_SPINNERS.contains(cause), "{cause}");
            assert_eq!(has_place, OF_LIMITS.contains(cause) && !cause.starts_with(MASK), "{cause}");
        }
        let unknown: Vec<&String> =
            table.keys().filter(|name| *name != ANY_HELPER && !causes.contains(&name.as_str())).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(table.contains_key(ANY_HELPER));
    }

    #[test]
    fn every_advice_is_short_and_says_who_says_so() {
        let known = [
            "kernel documentation: ",
            "measured: ",
            "MLPerf LoadGen, ",
            "Python documentation, ",
            "PyTorch's documentation, ",
        ];
        let authors: Vec<String> = STUDIES.iter().map(|(_, authors)| format!("{authors}: ")).collect();
        for (cause, Advice { text, source, .. }) in parse(TEXT).expect("the table is ours") {
            assert!(text.ends_with('.') && text.len() <= 220 && text.is_ascii(), "{cause}: {text}");
            assert!(!source.ends_with('.') && source.len() <= 220 && source.is_ascii(), "{cause}: {source}");
            let mut beginnings = known.iter().copied().chain(authors.iter().map(String::as_str));
            assert!(beginnings.any(|begin| source.starts_with(begin)), "{cause}: {source}");
        }
    }

    #[rstest]
    #[case::first_version(Kind::Quota, "cpu.cfs_quota_us", "/a", "raise cpu.cfs_quota_us of /a,")]
    #[case::second_version(Kind::Quota, "cpu.max", "/a/b", "raise cpu.max of /a/b,")]
    #[case::memory(Kind::Memory, "memory.limit_in_bytes", "/c", "raise memory.limit_in_bytes of /c,")]
    #[case::device(Kind::Io, "io.max", "/c", "raise io.max of /c,")]
    #[case::cpuset(Kind::Cpus, "cpuset.cpus", "/c", "were idle: widen cpuset.cpus of /c,")]
    #[case::mask(Kind::Cpus, "Cpus_allowed_list", "", "were idle: leave out the pinning")]
    fn advice_on_a_limit_names_its_file_and_its_group(
        #[case] kind: Kind,
        #[case] file: &str,
        #[case] group: &str,
        #[case] expected: &str,
    ) {
        let (file, group) = (file.to_owned(), group.to_owned());
        let limit = Limit { kind, file, group, ..Limit::default() };
        let text = for_limit(&limit, false).map(|advice| advice.text).unwrap_or_default();
        assert!(text.contains(expected) && !text.contains('{'), "{text}");
    }

    /// It does not speak of idle CPUs where there were hardly any.
    #[rstest]
    #[case::cpuset("/c", "on the CPUs of their set: widen cpuset.cpus of /c,")]
    #[case::mask("", "on the CPUs of their mask: widen it")]
    fn advice_on_crowded_cpus(#[case] group: &str, #[case] expected: &str) {
        let (file, group) = ("cpuset.cpus".to_owned(), group.to_owned());
        let limit = Limit { kind: Kind::Cpus, file, group, ..Limit::default() };
        let text = for_limit(&limit, true).map(|advice| advice.text).unwrap_or_default();
        assert!(text.contains(expected) && !text.contains("idle"), "{text}");
    }

    #[rstest]
    #[case::one(&[("libgomp", 9)], &["GCC's OpenMP (libgomp) spins while it waits for partners", "GOMP_SPINCOUNT=0"], "libonnxruntime")]
    #[case::the_most(&[("libgomp", 9), ("libonnxruntime", 90)], &["ONNX Runtime's pool (libonnxruntime)", "allow_spinning to 0"], "libgomp")]
    #[case::a_part(
        &[("libonnxruntime", 13), ("libgomp", 87)],
        &["allow_spinning to 0", "GOMP_SPINCOUNT=0"],
        "{"
    )]
    #[case::two(&[("libgomp", 30), ("libonnxruntime", 90)], &["allow_spinning to 0", "GOMP_SPINCOUNT=0"], "{")]
    #[case::the_driver(&[("libcuda", 5)], &["NVIDIA's driver (libcuda) spins while it waits for the GPU"], "libgomp")]
    fn who_busy_waits_is_told_with_what_stops_it(
        #[case] spun: &[(&'static str, u64)],
        #[case] expected: &[&str],
        #[case] absent: &str,
    ) {
        for key in OF_SPINNERS {
            let Advice { text, source, .. } = for_spinning(key, spun).expect("it is known");
            assert!(expected.iter().all(|words| text.contains(words)) && !text.contains(absent), "{text}");
            assert!(!source.is_empty() && text.ends_with('.') && text.len() < 500, "{text}");
        }
    }

    #[test]
    fn nothing_is_told_of_libraries_that_are_not_known() {
        assert_eq!(for_spinning(SPINNING, &[]), None);
        assert_eq!(for_spinning(SPINNING, &[("libgomp", 0), ("libc", 9)]), None);
    }

    /// A limit is called as in the version of control groups that has it.
    #[rstest]
    #[case("throttled", "raise it (cpu.max)", "raise it (cpu.cfs_quota_us)")]
    #[case("helper.throttled", "quota (cpu.max)", "quota (cpu.cfs_quota_us)")]
    #[case("fault", "(memory.max)", "(memory.limit_in_bytes)")]
    #[case(HELD_BACK, "(io.max)", "(blkio.throttle)")]
    fn versions_of_control_groups(#[case] cause: &str, #[case] second: &str, #[case] first: &str) {
        let both = for_cause(cause).expect("there is some");
        assert!(both.text.contains("version 1"), "{}", both.text);
        for (version, words) in [(Version::First, first), (Version::Second, second)] {
            let text = both.clone().of_version(version).text;
            assert!(text.contains(words) && !text.contains("version 1"), "{text}");
        }
    }

    #[rstest]
    #[case("cpu.cfs_quota_us", Some(Version::First))]
    #[case("memory.limit_in_bytes", Some(Version::First))]
    #[case("blkio.throttle.read_bps_device", Some(Version::First))]
    #[case("cpu.max", Some(Version::Second))]
    #[case("io.max", Some(Version::Second))]
    #[case("cpuset.cpus", None)]
    fn files_tell_the_version(#[case] file: &str, #[case] expected: Option<Version>) {
        assert_eq!(Version::of_file(file), expected);
    }

    #[test]
    fn helpers_without_an_entry_share_one() {
        assert_eq!(for_cause("helper.block_io"), for_cause("helper.lock"));
        assert_ne!(for_cause("helper.block_io"), for_cause("helper.runq"));
        assert_eq!(for_cause("residual"), None);
        assert_eq!(for_cause("helper"), None);
    }

    #[rstest]
    #[case(r#"{"runq": {"text": "a.", "source": "S1: b"}}"#, Ok("Samani & Salehi: b"))]
    #[case(r#"{"runq": {"text": "a."}}"#, Err("no source: runq"))]
    #[case(r#"{"runq": {"text": "", "source": "b"}}"#, Err("no text: runq"))]
    #[case(r#"{"runq": {"text": "a.", "source": "b", "hint": "c"}}"#, Err("unknown key: runq.hint"))]
    #[case(r#"{"runq": 1}"#, Err("no table: runq"))]
    fn tables(#[case] text: &str, #[case] expected: Result<&str, &str>) {
        let source = parse(text).map(|table| table["runq"].source.clone());
        assert_eq!(source.as_deref().map_err(String::as_str), expected);
    }
}
