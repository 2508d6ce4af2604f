//! The run folder as its users meet it: names, owners, manifests of other versions, failures.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

use std::{collections::HashSet, fs, os::unix::fs::PermissionsExt, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use guestscope::{
    folder::{ClockPair, Closed, CreateOptions, Error, Folder, Manifest, RunFolder, State, columns},
    phase::{
        Accounts, Counts, Ending, Helpers, Phase, PhaseKind, Quantity, Request, Thread, ThreadId, TraceIds,
        WARMUP,
    },
};
use hdrhistogram::{
    Histogram,
    serialization::{Serializer, V2Serializer},
};
use rstest::rstest;

mod disk_full;
mod foreign;
mod manifest;

const START: ClockPair = ClockPair { monotonic_ns: 5_000_000_000, wall_ns: 1_795_249_821_000_000_000 };

fn manifest() -> Manifest {
    let mut manifest = Manifest::new([0xab; 16], "ic", START);
    "MVM/2/VNL/CPU".clone_into(&mut manifest.scenario);
    manifest
}

fn create(parent: &Path, manifest: Manifest) -> RunFolder {
    RunFolder::create(&CreateOptions { parent: parent.to_owned(), owner: None }, manifest).unwrap()
}

fn close(folder: RunFolder) -> Closed {
    folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).unwrap()
}

/// A request of one phase with this id, name and duration.
fn request(id: u64, name: &str, duration_ns: u64) -> Request {
    let mut accounts = Accounts::default();
    accounts.0[0] = duration_ns;
    Request {
        phases: vec![Phase {
            id,
            parent: None,
            root: id,
            kind: PhaseKind::Request,
            name: name.into(),
            name_damaged: false,
            source: guestscope_contract::Source::Marker,
            status: None,
            request: id,
            thread: ThreadId { tid: 11, tgid: 10, born_ns: 1 },
            comm: "".into(),
            start_ns: id * 1_000_000,
            duration_ns,
            suspended_ns: 0,
            accounts,
            counts: Counts::default(),
            helpers: Helpers::default(),
            trace: TraceIds::default(),
            ending: Ending::Ended,
            edges_lost: 0,
            pause_ns: 0,
            holder: None,
        }],
    }
}

fn ids(path: &Path) -> Vec<u64> {
    Folder::open(path).unwrap().requests().unwrap().map(|request| request.unwrap().root().id).collect()
}

#[test]
fn columns_are_these() {
    // Every column in docs/metrics.md is in the table of phases, once.
    let table: HashSet<String> = Quantity::all().map(|quantity| quantity.row().column()).collect();
    let (of_table, others): (Vec<_>, Vec<_>) =
        columns().into_iter().partition(|column| table.contains(&column.name));
    let of_phases: Vec<_> = of_table.iter().filter(|column| column.table == "phases").collect();
    assert_eq!(of_phases.len(), table.len());
    assert!(of_table.iter().all(|column| column.data_type == "Int64" && !column.nullable));
    let lines = others.into_iter().map(|column| {
        let nullable = if column.nullable { "?" } else { "" };
        format!("{}.{}: {}{nullable} ({})\n", column.table, column.name, column.data_type, column.help)
    });
    insta::assert_snapshot!(lines.collect::<String>());
}

#[test]
fn the_closed_form_has_the_documented_columns() {
    let parent = tempfile::tempdir().unwrap();
    let closed = close(create(parent.path(), manifest()));
    for table in ["phases", "threads", "samples", "marks", "waits"] {
        let file = fs::File::open(closed.path.join(format!("{table}.parquet"))).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let found: Vec<_> = reader.schema().fields().iter().map(|field| field.name().clone()).collect();
        let documented =
            columns().into_iter().filter(|column| column.table == table).map(|column| column.name);
        assert_eq!(found, documented.collect::<Vec<_>>());
    }
}

#[rstest]
#[case::usual("MVM/2/VNL/CPU", "ic", "2026-11-21T08-30-21-MVM-2-VNL-CPU-ic")]
#[case::path("../..", "../../../etc/cron.d/x", "2026-11-21T08-30-21-unknown-etc-cron.d-x")]
#[case::control("VM\n/1", "\u{1b}]0;x\u{7}", "2026-11-21T08-30-21-VM-1-0-x")]
#[case::nothing("", "", "2026-11-21T08-30-21-unknown-run")]
fn hostile_names_stay_inside_the_parent(#[case] scenario: &str, #[case] name: &str, #[case] expected: &str) {
    let parent = tempfile::tempdir().unwrap();
    for expected in [expected.to_owned(), format!("{expected}-2")] {
        let mut manifest = Manifest::new([1; 16], name, START);
        scenario.clone_into(&mut manifest.scenario);
        let folder = create(&parent.path().join("runs"), manifest);
        assert_eq!(folder.path(), parent.path().join("runs").join(expected));
        // The manifest keeps the name exactly.
        assert_eq!(Folder::open(folder.path()).unwrap().manifest().name, name);
    }
}

#[test]
fn a_folder_is_for_its_user_only() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    folder.append_request(&request(1, "infer", 2_000_000));
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    let check = |path: &Path| {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        for path in &names {
            assert_eq!(mode(path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        }
        names.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(mode(folder.path()), 0o700);
    let running = check(folder.path());
    assert_eq!(
        running,
        [
            "manifest.json",
            "marks.arrows",
            "phases.arrows",
            "samples.arrows",
            "threads.arrows",
            "waits.arrows"
        ]
    );
    let closed = close(folder);
    let names = check(&closed.path);
    assert_eq!(
        names,
        [
            "histograms",
            "manifest.json",
            "marks.parquet",
            "phases.parquet",
            "samples.parquet",
            "threads.parquet",
            "waits.parquet"
        ]
    );
    check(&closed.path.join("histograms"));
}

#[rstest]
#[case::missing("nowhere")]
#[case::empty(".")]
#[case::a_file("file")]
fn what_is_no_run_folder(#[case] name: &str) {
    let parent = tempfile::tempdir().unwrap();
    fs::write(parent.path().join("file"), "x").unwrap();
    let path = parent.path().join(name);
    let error = Folder::open(&path).unwrap_err();
    assert!(matches!(error, Error::NotARunFolder { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("not a run folder: {}", path.display()));
}

#[test]
fn what_waits_is_written_when_the_agent_ends_early() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    (1..=5).for_each(|id| folder.append_request(&request(id, "infer", id * 1_000_000)));
    let path = folder.path().to_owned();
    drop(folder);
    assert_eq!(ids(&path), [1, 2, 3, 4, 5]);
    assert_eq!(Folder::open(&path).unwrap().manifest().state, State::Running);
}

#[test]
fn a_removed_folder_is_told_and_stops_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    folder.append_request(&request(1, "infer", 1));
    folder.flush();
    assert_eq!(folder.health().rows.phases, 1);
    fs::remove_dir_all(folder.path()).unwrap();
    folder.append_request(&request(2, "infer", 1));
    folder.flush();
    folder.update_manifest(|_| {});
    folder.append_request(&request(3, "infer", 1));
    folder.flush();
    let health = folder.health();
    // Deleted files can be read as long as the folder is open, and no longer.
    assert_eq!((health.rows.phases, health.rows_lost.phases), (3, 0));
    assert!(health.last_error.is_some());
    assert_eq!(folder.requests().unwrap().count(), 3);
    let mut lost = 0;
    let finish = |manifest: &mut Manifest| lost = manifest.rows_lost.phases;
    folder.close(finish, &mut |_| (None, None), &mut |_, _| {}).unwrap_err();
    assert_eq!(lost, 3);
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn a_table_that_cannot_be_converted_stays_as_it_is() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    folder.append_request(&request(1, "infer", 1));
    // Directories under every name that the temporary file could have.
    for name in std::iter::once(String::new()).chain((2..=64).map(|number| format!("-{number}"))) {
        fs::create_dir(folder.path().join(format!("phases.parquet.tmp{name}"))).unwrap();
    }
    let closed = close(folder);
    assert_eq!(closed.errors.len(), 1, "{:?}", closed.errors);
    assert!(closed.manifest.health.folder_error.is_some());
    assert!(closed.path.join("phases.arrows").exists() && closed.path.join("threads.parquet").exists());
    assert_eq!(ids(&closed.path), [1]);
}

#[test]
fn histograms_leave_warm_ups_out_and_have_quantiles() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    folder.append_request(&request(1, WARMUP, 3_600_000_000_000));
    (2..=1_001).for_each(|id| folder.append_request(&request(id, "in/fer", (id - 1) * 1_000_000)));
    // Two names that give the same file name.
    folder.append_request(&request(1_002, "in?fer", 500));
    folder.append_request(&request(1_003, "forever", u64::MAX));
    let closed = close(folder);
    assert!(closed.errors.is_empty(), "{:?}", closed.errors);
    let folder = Folder::open(&closed.path).unwrap();
    let names: Vec<_> =
        folder.manifest().histograms.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["forever", "in/fer", "in?fer"]);
    let histogram = folder.histogram(PhaseKind::Request, "in/fer").unwrap().unwrap();
    assert_eq!(histogram.len(), 1_000);
    for (quantile, expected_ms) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1_000.0)] {
        let found = histogram.value_at_quantile(quantile) as f64 / 1e6;
        assert!((found / expected_ms - 1.0).abs() <= 0.001, "{quantile}: {found} ms");
    }
    let short = folder.histogram(PhaseKind::Request, "in?fer").unwrap().unwrap();
    assert_eq!((short.min(), short.max()), (500, 500), "ns, exactly");
    let day = folder.histogram(PhaseKind::Request, "forever").unwrap().unwrap().max() as f64;
    assert!((day / 86_400e9 - 1.0).abs() <= 0.001, "{day} ns");
    assert!(folder.histogram(PhaseKind::Phase, "in/fer").unwrap().is_none());
}

/// In the form in which a workload passes it: V2 in base64.
fn told(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(histogram, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_workload_hands_over_its_own_histograms() {
    let mut latency = Histogram::<u64>::new_with_bounds(1, 86_400_000_000_000, 3).unwrap();
    (1..=500).for_each(|ms| latency.record(ms * 1_000_000).unwrap());
    let good = told(&latency);
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        STANDARD.encode(bytes)
    };
    let mut described = serde_json::json!({
        "latency": STANDARD.encode(&good),
        "../etc/x": STANDARD.encode(&good),
        // Sizes that would make the reader allocate gigabytes, and bytes that are no histogram.
        "digits": changed(12, &5_u32.to_be_bytes()),
        "high": changed(24, &u64::MAX.to_be_bytes()),
        "length": changed(4, &u32::MAX.to_be_bytes()),
        "compressed": changed(0, &0x1c84_9314_u32.to_be_bytes()),
        "text": "no histogram",
        "number": 7,
    });
    let close = |described: &serde_json::Value| {
        let parent = tempfile::tempdir().unwrap();
        let workload = serde_json::json!({ "name": "ic", "histograms": described });
        let finish = |manifest: &mut Manifest| manifest.workload = workload.as_object().cloned();
        let closed = create(parent.path(), manifest()).close(finish, &mut |_| (None, None), &mut |_, _| {});
        (closed.unwrap(), parent)
    };
    let (closed, _parent) = close(&described);
    assert!(closed.errors.is_empty(), "{:?}", closed.errors);
    let folder = Folder::open(&closed.path).unwrap();
    for name in ["latency", "../etc/x"] {
        assert_eq!(folder.workload_histogram(name).unwrap().unwrap(), latency);
    }
    let files: Vec<_> = fs::read_dir(closed.path.join("histograms")).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(folder.manifest().histograms.entries[1].count, 500);
    // Histograms that were not accepted are reported.
    for taken in ["latency", "../etc/x"] {
        described.as_object_mut().unwrap().remove(taken);
    }
    assert_eq!(folder.manifest().workload.as_ref().unwrap()["histograms"], described);

    let (closed, _parent) = close(&serde_json::json!({ "latency": STANDARD.encode(&good) }));
    let workload = Folder::open(&closed.path).unwrap().manifest().workload.clone().unwrap();
    assert_eq!(serde_json::Value::from(workload), serde_json::json!({ "name": "ic" }));
}

#[test]
fn too_many_names_are_counted() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    (1..=1_200)
        .for_each(|id| folder.append_request(&request(id, &format!("name-{}", id % 1_100), 1_000_000)));
    let histograms = close(folder).manifest.histograms;
    assert_eq!((histograms.entries.len(), histograms.others), (1_000, 100));
    assert_eq!(histograms.entries.iter().map(|entry| entry.count).sum::<u64>(), 1_100);
}

#[test]
fn threads_come_back_also_when_nothing_else_was_seen() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    let thread = Thread {
        id: ThreadId { tid: u32::MAX, tgid: 1, born_ns: 2 },
        comm: "omp".into(),
        end_ns: 3,
        accounts: Accounts::default(),
        inside: Accounts::default(),
        counts: Counts::default(),
        phases: 0,
        exited: true,
    };
    folder.append_thread(&thread);
    let closed = close(folder);
    let folder = Folder::open(&closed.path).unwrap();
    assert_eq!(folder.threads().unwrap().map(Result::unwrap).collect::<Vec<_>>(), [thread]);
    assert_eq!(folder.requests().unwrap().count(), 0);
}
