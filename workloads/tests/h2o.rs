//! `h2o` as a program: the same seed gives the same data and results, coefficients agree with other
//! programs', memory stays bounded, a full disk leaves no half file, and each defect of a file has its own
//! error.

#[path = "common/memory_group.rs"]
mod memory_group;

use std::{
    fs, io,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Output},
    time::{Duration, SystemTime},
};

use rstest::rstest;
use serde_json::Value;

use memory_group::MemoryGroup;

/// Runs in `folder`, so that messages name files without a path; generated flights go there as well.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    command.arg("h2o").args(arguments).current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("GUESTSCOPE_WORKLOAD_FILE", folder.join("workload.json"));
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("cargo built the binary for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("all that is printed is UTF-8")
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(folder, &[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "nothing but data where no terminal looks");
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}

/// The busy thread of the study, kept on one CPU.
#[rstest]
#[case(&["glm", "--smoke", "--pin", "compact"])]
#[case(&["parse", "--smoke", "--pin", "spread"])]
fn what_has_one_thread_is_pinned_to_one_cpu(#[case] arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    json(folder.path(), arguments);
    let told = fs::read(folder.path().join("workload.json")).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert!(told["pinned_cpus"].as_str().unwrap().parse::<u32>().is_ok(), "{}", told["pinned_cpus"]);
}

fn generate(folder: &Path, rows: u64, seed: u64, file: &str) -> Value {
    json(folder, &["generate", "--rows", &rows.to_string(), "--seed", &seed.to_string(), file])
}

#[rstest]
#[case(&["parse", "--smoke"], 3, "append parse read")]
#[case(&["glm", "--smoke"], 3, "deviance gram solve")]
#[case(&["mlp", "--smoke"], 4, "backward data forward optimizer")]
#[case(&["mlp", "--smoke", "--size", "memory", "--hidden", "100,90,80"], 4, "backward data forward optimizer")]
fn a_seed_decides_the_output(#[case] arguments: &[&str], #[case] phases: usize, #[case] names: &str) {
    let folder = tempfile::tempdir().unwrap();
    let with = |seed: &str| json(folder.path(), &[arguments, &["--seed", seed]].concat());
    let (first, again, other) = (with("3"), with("3"), with("4"));
    for hash in ["output_hash", "work_hash"] {
        assert_eq!(first[hash], again[hash]);
        assert_ne!(first[hash], other[hash]);
    }
    let found: Vec<&str> = first["phases_ns"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((found.len(), found.join(" ").as_str()), (phases, names));
    let told: Value =
        serde_json::from_slice(&fs::read(folder.path().join("workload.json")).unwrap()).unwrap();
    for (name, value) in told.as_object().unwrap() {
        assert_eq!(*value, other[name], "{name}");
    }
    assert_eq!(told["name"], format!("h2o {}", arguments[0]));
}

#[test]
fn threads_are_the_platforms_and_not_the_works() {
    let folder = tempfile::tempdir().unwrap();
    let with = |threads: &str| json(folder.path(), &["mlp", "--smoke", "--threads", threads]);
    let (one, two) = (with("1"), with("2"));
    assert_eq!(one["work_hash"], two["work_hash"]);
    let warm = json(folder.path(), &["mlp", "--smoke", "--warmup", "2"]);
    assert_ne!(warm["work_hash"], one["work_hash"], "a step of the warm-up learns as well");
    assert_eq!((&one["threads"], &two["threads"]), (&1.into(), &2.into()));
}

/// The reference is made by `glm_reference.py`, which names the programs.
#[rstest]
#[case("3000", "1e-4", include_str!("glm_reference_l2.json"))]
#[case("12000", "0", include_str!("glm_reference.json"))]
fn coefficients_are_those_of_other_programs(#[case] rows: &str, #[case] l2: &str, #[case] reference: &str) {
    let folder = tempfile::tempdir().unwrap();
    let found = json(folder.path(), &["glm", "--rows", rows, "--seed", "7", "--l2", l2]);
    let expected: Value = serde_json::from_str(reference).unwrap();
    assert_eq!((&found["rows"], &found["converged"]), (&expected["rows"], &true.into()));
    let number = |value: &Value| value.as_f64().unwrap();
    assert!((number(&found["deviance"]) - number(&expected["deviance"])).abs() < 1e-5);
    let (found, expected) = (&found["coefficients"], expected["coefficients"].as_object().unwrap());
    assert_eq!(found.as_object().unwrap().len(), expected.len());
    for (name, expected) in expected {
        let (found, expected) = (number(&found[name]), number(expected));
        // Ours stops when a step changes the deviance by a 1e-8 part; others go on.
        assert!((found - expected).abs() < 1e-5, "{name}: {found} {expected}");
    }
}

#[test]
fn flights_are_made_on_the_cpu_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    json(folder.path(), &["generate", "--rows", "5", "--pin", "compact:1", "flights.csv"]);
    let told: Value =
        serde_json::from_slice(&fs::read(folder.path().join("workload.json")).unwrap()).unwrap();
    assert_eq!(told["pin"], "compact:1");
    assert!(told["pinned_cpus"].as_str().unwrap().parse::<u32>().is_ok(), "{}", told["pinned_cpus"]);
}

#[test]
fn memory_does_not_grow_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let peak = |rows: u64| {
        generate(folder.path(), rows, 1, "flights.csv");
        let parsed = json(folder.path(), &["parse", "--chunk", "64", "flights.csv"]);
        assert_eq!(parsed["rows"], rows);
        (parsed["bytes"].as_u64().unwrap(), parsed["peak_bytes"].as_u64().unwrap())
    };
    let ((few_bytes, few_peak), (many_bytes, many_peak)) = (peak(20_000), peak(300_000));
    assert!(many_bytes > few_bytes + 25_000_000);
    // Some tail numbers occur only in the larger file; 152 million flights have 5,000 of them, and no more.
    // The kernel's count varies by a few hundred kB.
    assert!(many_peak < few_peak + (3 << 20), "{few_peak} {many_peak}");
}

#[test]
fn a_file_that_cannot_become_larger_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("flights.csv"), "what was there before").unwrap();
    let mut command = command(folder.path(), &["generate", "--rows", "50000", "flights.csv"]);
    // SAFETY: both calls may be made between fork and exec, and touch only this child. The signal is ignored,
    // so that writing fails as on a full disk.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
            if libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(text(&output.stderr), @r"
    error: cannot write data: flights.csv (File too large (os error 27))

    hint: name a file in a folder that can be written to, on a disk with 106 MB for each million rows
    ");
    assert_eq!(fs::read_to_string(folder.path().join("flights.csv")).unwrap(), "what was there before");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file stays behind");
}

#[test]
fn flights_without_a_place_for_them_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path(), &["parse"]);
    let output = command.env_remove("XDG_CACHE_HOME").env_remove("HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(text(&output.stderr), @r"
    error: no place for generated flights: neither XDG_CACHE_HOME nor HOME is set

    hint: set XDG_CACHE_HOME to a folder that can be written to, or name a file of flights
    ");
}

/// A file last changed two hours ago.
fn abandon(path: &Path) -> io::Result<()> {
    fs::write(path, "half")?;
    let two_hours_ago = SystemTime::now() - Duration::from_hours(2);
    fs::File::options().write(true).open(path)?.set_modified(two_hours_ago)
}

#[test]
fn what_a_killed_run_left_in_the_cache_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache/guestscope");
    fs::create_dir_all(&cache).unwrap();
    abandon(&cache.join("partial-1-flights-1-1-5.csv")).unwrap();
    abandon(&cache.join("flights-of-mine.csv")).unwrap();
    fs::write(cache.join("partial-2-flights-1-1-6.csv"), "of a run that goes on").unwrap();
    json(folder.path(), &["parse", "--rows", "5"]);
    let mut names: Vec<String> = fs::read_dir(&cache)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[2], "partial-2-flights-1-1-6.csv");
}

#[test]
fn what_cannot_be_read_is_counted_and_named() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), 50, 1, "flights.csv");
    let path = folder.path().join("flights.csv");
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    lines[9] = lines[9].replacen(',', ",x", 1);
    lines[19] = "1987,10,14".to_owned();
    lines[50].truncate(40);
    fs::write(&path, lines.join("\n")).unwrap();
    let output = run(folder.path(), &["parse", "flights.csv", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(text(&output.stderr), @r"
    warning: not all could be read: rows left out 2, fields taken as missing 1
      line 10: `Month` cannot be read: x4
      line 20: 3 fields instead of 31
      line 51: 11 fields instead of 31, and the file ends there
    ");
    let parsed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&parsed["rows"], &parsed["bad_rows"], &parsed["bad_fields"]),
        (&48.into(), &2.into(), &1.into())
    );
    let fitted = run(folder.path(), &["glm", "--smoke", "flights.csv"]);
    assert_eq!(fitted.stderr, output.stderr, "training on it reports the same");
}

/// In a group of 256 MB: 30 million flights take 570, as does a file of that length that is mostly a hole.
/// Both are refused before any flight is made or read.
#[test]
fn more_flights_than_memory_are_refused_before_they_are_read() {
    let Some(group) = MemoryGroup::of("h2o.memory", 256 << 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), 2_000, 1, "flights.csv");
    let file = fs::File::options().write(true).open(folder.path().join("flights.csv")).unwrap();
    let run = |words: &[&str]| {
        let mut command = group.program();
        command.arg("h2o").args(words).current_dir(folder.path());
        let output = command.env("XDG_CACHE_HOME", folder.path().join("cache")).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(run(&["glm", "--smoke", "flights.csv"]), (Some(0), String::new()));
    file.set_len(1 << 36).unwrap();
    for step in ["glm", "mlp"] {
        for flights in [&["--rows", "30000000"][..], &["flights.csv"]] {
            let (code, error) = run(&[&[step], flights].concat());
            assert_eq!(code, Some(2), "{error}");
            assert!(error.starts_with("error: not enough memory for so many flights: "), "{error}");
            assert!(error.contains("\n\nhint: take fewer flights"), "{error}");
        }
    }
    let (code, error) = run(&["mlp", "--hidden", "65536,65536"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.starts_with("error: not enough memory: "), "{error}");
    assert!(!folder.path().join("cache").exists(), "no flights were made");
}

/// Refused on any machine.
#[test]
fn more_flights_than_any_machine_holds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["glm", "--rows", "100000000000"]);
    assert_eq!(output.status.code(), Some(2));
    insta::with_settings!({ filters => vec![(r"\d+ available", "N available")] }, {
        insta::assert_snapshot!(text(&output.stderr), @r"
        error: not enough memory for so many flights: 100000000000 (1900016777216 bytes needed, N available)

        hint: take fewer flights (--rows, or a part of the file); of `h2o mlp` also a smaller --batch or --hidden
        ");
    });
}

#[rstest]
#[case::absent_file("h2o_absent_file", &["parse", "absent.csv"])]
#[case::folder("h2o_folder", &["glm", "."])]
#[case::empty_file("h2o_empty_file", &["parse", "empty.csv"])]
#[case::other_columns("h2o_other_columns", &["parse", "other.csv"])]
#[case::fewer_columns("h2o_fewer_columns", &["mlp", "fewer.csv"])]
#[case::no_rows("h2o_no_rows", &["glm", "header.csv"])]
#[case::one_outcome("h2o_one_outcome", &["glm", "same.csv"])]
#[case::no_folder("h2o_no_folder", &["generate", "no/such/flights.csv"])]
#[case::unknown("h2o_unknown", &["gml"])]
#[case::unknown_size("h2o_unknown_size", &["mlp", "--size", "memry"])]
#[case::negative_l2("h2o_negative_l2", &["glm", "--l2=-1"])]
#[case::rows_of_a_file("h2o_rows_of_a_file", &["parse", "flights.csv", "--rows", "5"])]
fn says_what_is_wrong(#[case] snapshot: &str, #[case] arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    generate(folder.path(), 1, 1, "flights.csv");
    fs::remove_file(at("workload.json")).unwrap();
    let whole = fs::read_to_string(at("flights.csv")).unwrap();
    let header = whole.lines().next().unwrap();
    fs::write(at("empty.csv"), "").unwrap();
    fs::write(at("other.csv"), whole.replacen("UniqueCarrier", "Carrier", 1)).unwrap();
    fs::write(at("fewer.csv"), "Year,Month,DayofMonth\n1987,10,14\n").unwrap();
    fs::write(at("header.csv"), header).unwrap();
    fs::write(at("same.csv"), &whole).unwrap();
    let output = run(folder.path(), arguments);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    assert!(!at("workload.json").exists(), "nothing is told of a run that failed");
    insta::assert_snapshot!(snapshot, text(&output.stderr));
}
