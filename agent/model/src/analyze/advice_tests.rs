//! The table of advice has a fitting entry for each cause, and no other.

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
const OF_WAITS: [&str; 15] = [
    IN_FLIGHT,
    OWN_WORK,
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
/// Those on graphics processors that are kept waiting, busy, shared or slow.
const OF_DEVICES: [&str; 8] = [
    LAUNCH,
    INPUT,
    GPU_BUSY,
    GPU_COPY,
    GPU_BUSY_LONGER,
    GPU_COPY_LONGER,
    Kind::GpuShared.name(),
    Kind::GpuClock.name(),
];
/// Those on requests without an end.
const OF_HUNG: [&str; 3] = [ALONE, FORKED, DEADLOCK];

#[test]
fn every_cause_has_advice_and_all_advice_has_a_cause() {
    let table = parse(TEXT).expect("the table is ours");
    let of_counts = OF_COUNTS.into_iter().chain(OF_LIMITS).chain(OF_USERS).chain(OF_WAITS).chain(OF_SPINNERS);
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
        "NVIDIA's documentation, ",
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
