//! Other tools on a run folder: pyarrow and DuckDB must read it, and find that the accounts add up.
//!
//! Needs GUESTSCOPE_PYTHON, an interpreter that has both packages; without it the test reports that it was
//! skipped.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop at once, and says what it skips"
)]

use std::{path::Path, process::Command};

use guestscope::{
    folder::{ClockPair, CreateOptions, Manifest, RunFolder},
    phase::{Accounts, Counts, Ending, Helpers, Phase, PhaseKind, Request, Thread, ThreadId, TraceIds},
};
use guestscope_contract::{ACCOUNTS, Account, Source};
use serde_json::{Value, json};

const REQUESTS: u64 = 3_000;
const THREAD: ThreadId = ThreadId { tid: 4_711, tgid: 4_700, born_ns: 99 };

/// A request with a queue and two phases, whose numbers differ from request to request.
fn request(number: u64) -> Request {
    let root = 4 * number + 1;
    let phase = |offset: u64, kind, name: &str| {
        let mut accounts = Accounts::default();
        let mut suspended_ns = 0;
        if kind != PhaseKind::Queue {
            accounts
                .0
                .iter_mut()
                .zip(1..)
                .for_each(|(ns, index)| *ns = (root * 7_919 * index + offset) % 1_000_003);
            suspended_ns = root % 17;
        }
        let duration_ns = if kind == PhaseKind::Queue { 55 } else { accounts.total_ns() + suspended_ns };
        Phase {
            id: root + offset,
            parent: (offset > 0).then_some(root),
            root,
            kind,
            name: name.into(),
            name_damaged: false,
            source: Source::Marker,
            status: None,
            // Programs may use all 64 bits.
            request: u64::MAX - number,
            thread: THREAD,
            comm: "".into(),
            start_ns: root * 1_000_000,
            duration_ns,
            suspended_ns,
            accounts,
            counts: Counts { wakeup: number, ..Counts::default() },
            helpers: Helpers::default(),
            trace: TraceIds {
                trace_id: u128::from(root).to_be_bytes(),
                span_id: (root + offset).to_be_bytes(),
                parent_span_id: (offset > 0).then(|| root.to_be_bytes()),
                parent_is_remote: false,
            },
            ending: Ending::Ended,
            edges_lost: 0,
            pause_ns: 0,
            holder: None,
        }
    };
    Request {
        phases: vec![
            phase(0, PhaseKind::Request, "infer"),
            phase(1, PhaseKind::Queue, "queue"),
            phase(2, PhaseKind::Phase, "inférence"),
            phase(3, PhaseKind::Phase, "postprocess"),
        ],
    }
}

fn folder(parent: &Path, requests: &[Request]) -> RunFolder {
    let start = ClockPair { monotonic_ns: 1, wall_ns: 1_795_249_821_000_000_000 };
    let options = CreateOptions { parent: parent.to_owned(), owner: None };
    let mut folder = RunFolder::create(&options, Manifest::new([0; 16], "python", start)).unwrap();
    for (index, request) in requests.iter().enumerate() {
        folder.append_request(request);
        if index % 700 == 0 {
            folder.flush();
        }
    }
    folder.append_thread(&Thread {
        id: THREAD,
        comm: "python".into(),
        end_ns: 1,
        accounts: Accounts::default(),
        inside: Accounts::default(),
        counts: Counts::default(),
        phases: REQUESTS,
        exited: true,
    });
    folder.flush();
    folder
}

#[test]
fn pyarrow_and_duckdb_find_that_the_accounts_add_up() {
    let Some(python) = std::env::var_os("GUESTSCOPE_PYTHON") else {
        println!("skipped: pyarrow_and_duckdb_find_that_the_accounts_add_up: GUESTSCOPE_PYTHON is not set");
        return;
    };
    let parent = tempfile::tempdir().unwrap();
    let requests: Vec<_> = (0..REQUESTS).map(request).collect();
    let running = folder(parent.path(), &requests);
    let closed = folder(parent.path(), &requests);
    let mut explain = |phase: &Phase| ((phase.id % 4 == 3).then_some("throttled".into()), Some("p50".into()));
    let closed = closed.close(|_| {}, &mut explain, &mut |_, _| {}).unwrap();
    assert!(closed.errors.is_empty(), "{:?}", closed.errors);

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/folder_python.py");
    let output = Command::new(python).arg(script).arg(&closed.path).arg(running.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();

    let phases = requests.iter().flat_map(|request| &request.phases);
    let duration_ns: u64 = phases.map(|phase| phase.duration_ns).sum();
    assert_eq!(Account::ALL.len(), ACCOUNTS);
    let expected = json!({
        "rows": 4 * REQUESTS,
        "accounts": ACCOUNTS + 1,
        "pyarrow_wrong_sums": 0,
        "pyarrow_duration_ns": duration_ns,
        "duckdb_wrong_sums": 0,
        "duckdb_duration_ns": duration_ns,
        "traces": REQUESTS,
        "causes": REQUESTS,
        "largest_request": u64::MAX.to_string(),
        "children_of_first_root": 3,
        "rows_joined_with_threads": 4 * REQUESTS,
        "stream_differs_in": [],
        "only_closed": ["cause", "tail"],
    });
    assert_eq!(found, expected);
}
