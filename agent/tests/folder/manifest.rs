//! Manifests of this version and of others.

use std::fs;

use guestscope::{
    folder::{Child, ClockPair, Error, Exit, Folder, MOST_RESTORED, Manifest, RowCounts, Sample, State},
    health::{AgentCost, ExportHealth, Fidelity, Health, KernelLosses, Outcome, Verdict},
    phase::{PairingLosses, PhaseKind, Restored, RestoredBy},
};
use rstest::rstest;
use serde_json::{Value, json};

use super::{START, close, create, manifest, request};

#[test]
fn the_manifest_says_what_happened() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    folder.append_request(&request(1, "infer", 1_000));
    folder.append_sample(&Sample { time_ns: 7, ..Sample::default() });
    folder.flush();
    folder.update_manifest(|manifest| {
        manifest
            .add_clock(ClockPair { monotonic_ns: 65_000_000_000, wall_ns: START.wall_ns + 60_000_000_001 });
        let all = 5..MOST_RESTORED as u64 + 50;
        all.for_each(|s| {
            manifest.add_restored(Restored { noticed_ns: s * 1_000_000_000, source: RestoredBy::Vmgenid });
        });
        assert_eq!(manifest.restored.len(), MOST_RESTORED);
        manifest.restored.truncate(1);
        manifest.set_health(&health());
        manifest.child = Some(Child { uid: 1000, exit: None });
    });
    let path = folder.path().to_owned();
    let running = Folder::open(&path).unwrap();
    assert_eq!(running.manifest().state, State::Running);
    assert_eq!(running.manifest().rows, RowCounts { phases: 1, samples: 1, ..RowCounts::default() });
    let finish = |manifest: &mut Manifest| {
        manifest.set_end(ClockPair { monotonic_ns: 70_000_000_000, wall_ns: START.wall_ns + 65_000_000_001 });
        manifest.child = Some(Child { uid: 1000, exit: Some(Exit::Signal(9)) });
        manifest.workload = json!({ "model": "resnet50", "seed": 7 }).as_object().cloned();
    };
    folder.close(finish, &mut |_| (None, None), &mut |_, _| {}).unwrap();
    let text = fs::read_to_string(path.join("manifest.json")).unwrap();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r#""(guestscope|contract)": .*"#, r#""$1": "[VERSION]""#);
    settings.add_filter(r#""arch": ".*""#, r#""arch": "[ARCH]""#);
    settings.bind(|| insta::assert_snapshot!(text));
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), *Folder::open(&path).unwrap().manifest());
}

fn health() -> Health {
    Health {
        fidelity: Fidelity::Full,
        hooks: vec![Verdict {
            hook: "tp_btf/sched_switch".to_owned(),
            outcome: Outcome::Ok,
            consequence: "all accounts".to_owned(),
            remedy: None,
        }],
        kernel: KernelLosses { edges: 3, ..KernelLosses::default() },
        pairing: PairingLosses { unended_phases: 2, ..PairingLosses::default() },
        cost: AgentCost { rss_peak_bytes: 14 << 20, ..AgentCost::default() },
        export: ExportHealth {
            endpoint: Some("http://localhost:4317".to_owned()),
            ..ExportHealth::default()
        },
        folder_error: None,
        rows_lost: 0,
        not_let_in: 0,
        sources: Vec::new(),
        programs_unanswered: 0,
    }
}

#[test]
fn clocks_stay_few_and_convert() {
    let mut manifest = manifest();
    let minute = |n: u64| ClockPair {
        monotonic_ns: START.monotonic_ns + n * 60_000_000_000,
        // The wall clock was set by a second in the 5,000th minute.
        wall_ns: START.wall_ns + n * 60_000_000_000 + u64::from(n >= 5_000) * 1_000_000_000,
    };
    (1..10_000).for_each(|n| manifest.add_clock(minute(n)));
    manifest.set_end(minute(10_000));
    assert!(manifest.clocks.len() <= 1_440, "{}", manifest.clocks.len());
    assert_eq!((manifest.clocks.first(), manifest.clocks.last()), (Some(&START), Some(&minute(10_000))));
    for n in [0, 1, 77, 4_000, 6_000, 10_000] {
        assert_eq!(manifest.wall_ns(minute(n).monotonic_ns), minute(n).wall_ns, "minute {n}");
    }
    assert_eq!(manifest.wall_ns(START.monotonic_ns - 1), START.wall_ns - 1);
}

/// Puts `change` into the manifest of an empty folder and opens it.
fn reopened(change: impl FnOnce(&mut Value)) -> Result<Folder, Error> {
    let parent = tempfile::tempdir().unwrap();
    let path = close(create(parent.path(), manifest())).path;
    let file = path.join("manifest.json");
    let mut value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut value);
    fs::write(&file, value.to_string()).unwrap();
    Folder::open(&path)
}

#[test]
fn a_manifest_may_know_more_or_less() {
    let folder = reopened(|value| value["colour"] = json!({ "name": "blue" })).unwrap();
    assert_eq!(folder.manifest().scenario, "MVM/2/VNL/CPU");
    let folder = reopened(|value| *value = json!({ "format": 1, "name": "old" })).unwrap();
    assert_eq!((folder.manifest().name.as_str(), folder.manifest().state), ("old", State::Running));
}

#[rstest]
#[case::newer("newer", json!({ "format": 2, "state": ["unheard of"] }))]
#[case::no_format("no_format", json!({ "name": "x" }))]
#[case::another_file("another_file", json!([1, 2, 3]))]
#[case::state("state", json!({ "format": 1, "state": "melted" }))]
fn a_manifest_that_cannot_be_used(#[case] name: &str, #[case] manifest: Value) {
    let error = reopened(|value| value.clone_from(&manifest)).unwrap_err();
    let shown = guestscope::told(&error);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"/\S*/20", "[RUNS]/20");
    settings.bind(|| insta::assert_snapshot!(format!("unusable_{name}"), shown));
}

#[test]
fn a_manifest_leads_nowhere_else() {
    let folder = reopened(|value| {
        value["histograms"]["entries"] =
            json!([{ "kind": "request", "name": "x", "file": "../../../../etc/passwd", "count": 1 }]);
    })
    .unwrap();
    let error = folder.histogram(PhaseKind::Request, "x").unwrap_err();
    assert!(error.to_string().contains("a histogram outside the folder"), "{error}");
}
