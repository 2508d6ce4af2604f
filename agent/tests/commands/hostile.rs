//! A folder whose texts all contain terminal control sequences, through every command: none of them reaches a
//! reader.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use guestscope::{
    folder::{CreateOptions, HookRecord, Manifest, RunFolder},
    phase::{Mark, Phase, PhaseKind, Request, Thread, ThreadId, Wait, WaitedIo},
    untrusted::is_unsafe,
};
use guestscope_contract::Account;
use tempfile::TempDir;

use super::{START, agent, request, wait};

/// A terminal title, clear screen, C1, DEL, bidirectional overrides, zero-width and tag characters, forged
/// lines of ours.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{7f}\u{8}\u{202e}x\u{2066}\u{61c}\u{200b}\u{2028}\u{e0041}\r\nhint: obey\t";

fn hostile(place: &str) -> String {
    format!("{place}{HOSTILE}")
}

/// A folder in which every text that a program, its neighbours or its guest can choose is hostile.
fn folder(parent: &Path, scenario: &str) -> PathBuf {
    let mut manifest = Manifest::new([scenario.len() as u8; 16], &hostile("name"), START);
    manifest.scenario = hostile(scenario);
    "full".clone_into(&mut manifest.fidelity);
    manifest.command = vec![hostile("/bin/program"), hostile("argument")];
    (manifest.kernel, manifest.cpu_model) = (hostile("kernel"), hostile("model"));
    (manifest.hypervisor, manifest.container_runtime) = (hostile("hypervisor"), hostile("runtime"));
    (manifest.cpu_quota_group, manifest.platform) = (hostile("quota"), hostile("platform"));
    manifest.limits.cpu_quota_ns = Some(50_000_000);
    manifest.limits.cpu_period_ns = Some(100_000_000);
    manifest.health.folder_error = Some(hostile("folder error"));
    manifest.health.export.endpoint = Some(hostile("endpoint"));
    manifest.health.export.last_error = Some(hostile("message"));
    manifest.health.hooks = vec![HookRecord {
        hook: hostile("hook"),
        outcome: "broken".to_owned(),
        consequence: hostile("consequence"),
        remedy: Some(hostile("remedy")),
    }];
    let word = |key: &str| (hostile(key), serde_json::Value::String(hostile(key)));
    manifest.workload = Some(["work_hash", "seed"].map(word).into_iter().collect());
    let options = CreateOptions { parent: parent.to_owned(), owner: None };
    let mut folder = RunFolder::create(&options, manifest).unwrap();
    for number in 0..120 {
        let request = requested(number);
        folder.append_request(&request);
        for wait in waits(&request) {
            folder.append_wait(&wait);
        }
    }
    let mut process = request(1_000, &hostile("process"), 0);
    process.phases[0].kind = PhaseKind::Process;
    folder.append_request(&process);
    let id = ThreadId { tid: 11, tgid: 10, born_ns: 1 };
    let root = process.root();
    let (accounts, counts) = (root.accounts, root.counts);
    let comm = hostile("thread").into();
    folder.append_thread(&Thread {
        id,
        comm,
        end_ns: 9,
        accounts,
        inside: accounts,
        counts,
        phases: 1,
        exited: true,
    });
    folder.append_mark(&Mark {
        thread: id,
        name: hostile("mark").into(),
        time_ns: 1_000_000_001,
        phase: None,
    });
    folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).unwrap().path
}

/// A request with one phase inside.
fn requested(number: u64) -> Request {
    let locked_ns = if number % 10 == 4 { 30_000_000 } else { 0 };
    let mut request = request(2 * number, &hostile("request"), locked_ns);
    let root = request.phases[0].clone();
    let (id, name) = (root.id + 1, hostile("phase").into());
    request.phases.push(Phase { id, parent: Some(root.id), kind: PhaseKind::Phase, name, ..root });
    request
}

/// Waits behind other threads, in a control group, and for a device.
fn waits(request: &Request) -> Vec<Wait> {
    let root = request.root();
    let locked_ns = root.accounts.get(Account::Lock);
    if locked_ns == 0 {
        return Vec::new();
    }
    let part_ns = locked_ns / 5;
    let one = |index: u64, account: Account, parts: [u64; 2]| Wait {
        phase: Some(root.id + 1),
        start_ns: root.start_ns + 1_000_000 + index * part_ns,
        duration_ns: part_ns,
        account,
        blocked_ns: parts[0],
        throttled_ns: parts[1],
        ran_before_tid: 991,
        ran_before_tgid: 990,
        ran_before_comm: hostile("neighbour").into(),
        cgroup: Some(hostile("/group").into()),
        io: (account == Account::BlockIo).then(|| WaitedIo {
            device: "7:0".into(),
            name: hostile("device").into(),
            is_write: true,
            ..WaitedIo::default()
        }),
        ..wait(request)
    };
    vec![
        one(0, Account::Runq, [0, 0]),
        one(1, Account::Lock, [0, part_ns]),
        one(2, Account::BlockIo, [part_ns, 0]),
        one(3, Account::Lock, [part_ns, 0]),
    ]
}

#[track_caller]
fn assert_plain(what: &str, text: &str) {
    let found: BTreeSet<char> = text.chars().filter(|c| *c != '\n' && is_unsafe(*c)).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
    // HTML treats any white space as one blank, also at the end of a line.
    let is_page = text.starts_with("<!DOCTYPE");
    let forged = text.lines().find(|line| !is_page && line.starts_with("hint: obey"));
    assert_eq!(forged, None, "{what}: {text}");
}

fn texts(output: Output) -> [String; 2] {
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
}

fn runs() -> (TempDir, PathBuf, PathBuf) {
    let parent = tempfile::Builder::new().prefix("hostile\u{1b}[2J\n\u{202e}").tempdir().unwrap();
    let [one, other] = ["VM/2/VNL/CPU", "MVM/2/VNL/CPU"].map(|scenario| folder(parent.path(), scenario));
    (parent, one, other)
}

/// Every command on such folders, as text and as JSON.
#[test]
fn no_command_passes_orders_on_to_a_terminal() {
    let (_parent, one, other) = runs();
    let pair = other.to_str().unwrap();
    let file = one.parent().unwrap().join("page\u{1b}[2J.html");
    let file = file.to_str().unwrap();
    let many: &[(&str, &[&str], i32)] = &[
        ("explain", &[], 0),
        ("explain", &["--json"], 0),
        ("explain", &["--request", "8"], 0),
        ("explain", &["--request", "7777"], 2),
        ("explain", &["--no-such\u{1b}[2J\u{202e}"], 2),
        ("compare", &[pair, "--allow-unequal-work"], 0),
        ("compare", &[pair, "--allow-unequal-work", "--json"], 0),
        ("compare", &[pair], 0),
        ("compare", &[pair, "--request", HOSTILE, "--allow-unequal-work"], 2),
        ("compare", &[pair, "--baseline", HOSTILE, "--allow-unequal-work"], 2),
        ("report", &[pair, "--allow-unequal-work"], 0),
        ("report", &[pair, "--allow-unequal-work", "--output", file], 0),
        ("report", &[pair, "--allow-unequal-work", "--output", file], 2),
        ("ranks", &[pair], 2),
        ("ranks", &["--clocks", HOSTILE], 2),
        ("export", &["--to", "otlp-json"], 0),
        ("export", &["--to", "otlp", "--otlp", "http://x\u{1b}[2J\u{202e}"], 2),
    ];
    let mut others = Vec::new();
    for (command, words, code) in many {
        let output = agent(command, &one, words);
        let status = output.status.code();
        let [out, err] = texts(output);
        let what = format!("{command} {words:?}");
        if status != Some(*code) {
            others.push((what.clone(), status, err.clone()));
        }
        assert_plain(&what, &out);
        assert_plain(&what, &err);
    }
    assert!(others.is_empty(), "{others:#?}");
    assert_plain("page", &fs::read_to_string(file).unwrap());
}

/// Tables and JSON keep names exactly, since programs read them.
#[test]
fn tables_and_json_keep_the_names_as_they_were() {
    let (_parent, one, _) = runs();
    let [out, _] = texts(agent("explain", &one, &["--json"]));
    let explained: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(out.contains("\\u001b]0;owned") && out.contains("\\u202e"), "{out}");
    assert_eq!(explained["groups"][0]["name"], hostile("request"));
    let seen = guestscope::folder::Folder::open(&one).unwrap();
    let read: Vec<Request> = seen.requests().unwrap().map(Result::unwrap).collect();
    assert_eq!(read[0].root().name.stored(), hostile("request"));
    let wait = seen.waits().unwrap().next().unwrap().unwrap();
    assert_eq!(wait.cgroup.unwrap().stored(), hostile("/group"));
    assert_plain("manifest.json", &fs::read_to_string(one.join("manifest.json")).unwrap());
    assert_eq!(seen.manifest().command[1], hostile("argument"));
}

/// A Perfetto trace has texts between numbers: none of them is an unescaped name.
#[test]
fn a_trace_for_perfetto_has_no_orders() {
    let (_parent, one, _) = runs();
    let output = agent("export", &one, &["--to", "perfetto"]);
    assert_eq!(output.status.code(), Some(0));
    let has = |bytes: &[u8]| output.stdout.windows(bytes.len()).any(|window| window == bytes);
    assert!(has(b"hint: obey"), "the names are in it");
    assert!(!has(b"\x1b]0;") && !has(b"\x1b[2J") && !has("\u{202e}".as_bytes()));
}

/// Errors about broken files quote their content.
#[test]
fn errors_that_quote_a_file_give_no_orders() {
    for manifest in [
        format!("{{\"format\": \"{}\"}}", "\\u001b[2J\\u202e\\nhint: obey"),
        "{\"format\": 1, \"state\": \"\\u001b[2J\\u202e\"}".to_owned(),
        "{\"format\": 99, \"versions\": {\"guestscope\": \"\\u001b[2J\"}}".to_owned(),
        "\u{1b}[2J{".to_owned(),
    ] {
        let (_parent, one, _) = runs();
        fs::write(one.join("manifest.json"), &manifest).unwrap();
        for command in ["explain", "compare", "report", "export"] {
            let words: &[&str] = if command == "export" { &["--to", "otlp-json"] } else { &[] };
            let output = agent(command, &one, words);
            assert_eq!(output.status.code(), Some(2), "{command} {manifest:?}");
            let [out, err] = texts(output);
            assert_plain(&format!("{command} {manifest:?}"), &(out + &err));
        }
    }
}
