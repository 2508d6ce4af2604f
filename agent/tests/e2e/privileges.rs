//! What each thread of the agent may still do while it observes, seen from outside; and no secret of a
//! command line leaves the agent.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use nix::sys::signal::Signal;
use rstest::rstest;

use crate::{
    folder::only_folder,
    ground::{Ground, eventually, subject},
    resident_metrics::free_port,
    running::{Running, Start},
    watching::Resident,
};

/// Capabilities by number, as agent/base/src/privileges/capabilities.rs lists them: dac_read_search, kill,
/// ptrace, admin, perfmon, bpf.
const RUN: &[u32] = &[2, 5, 19, 21, 38, 39];
const ATTACH: &[u32] = &[2, 19, 21, 38, 39];
const WITHOUT_PROBES: &[u32] = &[2, 5, 19];
const KILL: u32 = 5;
/// Threads that compute, write, send and log: they need no capability.
const OTHERS: [&str; 4] = ["export", "limits", "otlp-export", "teller"];

/// Lines of `/proc/PID/task/TID/status` of each thread, by its name.
fn threads(pid: i32) -> BTreeMap<String, Vec<String>> {
    let mut threads = BTreeMap::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    for task in tasks.flatten() {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let (name, status) = (read("comm").trim().to_owned(), read("status"));
        if !status.is_empty() {
            threads.entry(name).or_insert_with(Vec::new).push(status);
        }
    }
    threads
}

fn field<'a>(status: &'a str, key: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_default().trim()
}

fn set(capabilities: &[u32]) -> String {
    format!("{:016x}", capabilities.iter().fold(0_u64, |set, capability| set | 1 << capability))
}

/// Every thread has exactly the expected capabilities and can gain none. `more`: further threads that need
/// none.
fn check(pid: i32, main: &[u32], more: &[&str]) {
    let threads = threads(pid);
    let mut wrong = Vec::new();
    for (name, statuses) in &threads {
        let kept = match name.as_str() {
            // This thread only forwards signals.
            "signals" => {
                set(&main.iter().copied().filter(|&capability| capability == KILL).collect::<Vec<_>>())
            }
            name if OTHERS.contains(&name) || more.contains(&name) => set(&[]),
            _ => set(main),
        };
        let none = set(&[]);
        let expected = [
            ("CapEff", &*kept),
            ("CapPrm", &kept),
            ("CapInh", &none),
            ("CapAmb", &none),
            ("CapBnd", &none),
            ("NoNewPrivs", "1"),
            ("Seccomp", "2"),
        ];
        for status in statuses {
            let differs = expected.iter().filter(|(key, value)| field(status, key) != *value);
            wrong.extend(
                differs.map(|(key, value)| format!("{name}: {key} is {}, not {value}", field(status, key))),
            );
        }
    }
    assert_eq!(wrong, [""; 0]);
    let named = OTHERS.into_iter().chain(["signals"]).chain(more.iter().copied());
    assert!(named.clone().all(|name| threads.contains_key(name)), "{:?}", threads.keys());
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("it is listed");
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}

/// With an OTLP address without a listener, so that all threads exist.
fn requests(start: Start) -> Start {
    start
        .words(&["--otlp", "http://127.0.0.1:9"])
        .program(subject())
        .words(&["requests", "1500", "100", "900"])
}

fn begun(ground: &Ground, run: Start) -> Running {
    let run = run.spawn();
    eventually("some requests", || (ground.book().lines().count() > 100).then_some(()));
    run
}

fn as_sudo_would(start: Start) -> Start {
    start.environment("SUDO_UID", "65534").environment("SUDO_GID", "65534")
}

#[rstest]
#[case::run(false, &["--fidelity", "full"], RUN)]
#[case::run_under_sudo(true, &["--fidelity", "full"], RUN)]
#[case::without_probes(false, &["--fidelity", "procfs"], WITHOUT_PROBES)]
#[case::without_probes_under_sudo(true, &["--fidelity", "procfs"], WITHOUT_PROBES)]
fn every_thread_of_a_run_has_given_up_what_it_needs_no_more(
    #[case] sudo: bool,
    #[case] options: &[&str],
    #[case] kept: &[u32],
) {
    let test = "privileges::every_thread_of_a_run_has_given_up_what_it_needs_no_more";
    let Some(ground) = Ground::new(test) else { return };
    let book = ground.path("book");
    fs::write(&book, "").expect("the folder is ours");
    std::os::unix::fs::chown(&book, Some(65_534), None).expect("root may");
    // Under sudo no parent of a run folder is made with root's rights.
    fs::create_dir(ground.path("runs")).expect("the folder is ours");
    let start = ground.run().words(options);
    let run = begun(&ground, requests(if sudo { as_sudo_would(start) } else { start }));
    check(run.pid(), kept, &[]);
    let done = run.finish().expect(0);
    // It observes, writes and keeps everything as before.
    assert_eq!(done.seen().requests.len(), 1500);
    assert_eq!(done.loss("spans_dropped"), 0);
}

#[test]
fn every_thread_that_attaches_has_given_up_what_it_needs_no_more() {
    let test = "privileges::every_thread_that_attaches_has_given_up_what_it_needs_no_more";
    let Some(ground) = Ground::new(test) else { return };
    let program = Start::new(&ground.path(""), &subject()).environment("E2E_BOOK", ground.path("book"));
    let program = program.stdout(std::process::Stdio::null()).words(&["requests", "3000", "100", "900"]);
    let program = begun(&ground, program);
    let attach = ground.command(&["attach", "--json", "--otlp", "http://127.0.0.1:9", "--output"]);
    let run = attach.word(ground.path("runs")).words(&["--pid", &program.pid().to_string()]).spawn();
    eventually("attached", || run.stderr().contains("attached to ").then_some(()));
    eventually("all threads are there", || (threads(run.pid()).len() >= 3).then_some(()));
    eventually("the filter is there", || {
        let all = threads(run.pid());
        all.values().flatten().all(|status| field(status, "Seccomp") == "2").then_some(())
    });
    check(run.pid(), ATTACH, &[]);
    run.signal(Signal::SIGINT);
    run.finish().expect(0);
    drop(program);
}

/// If CPU time is short, the thread that reads records runs first; no other thread has a higher priority.
#[test]
fn every_thread_of_an_agent_that_stays_has_given_up_what_it_needs_no_more() {
    let test = "privileges::every_thread_of_an_agent_that_stays_has_given_up_what_it_needs_no_more";
    let Some(resident) = Resident::new(test) else { return };
    let collector = "otlp = 'http://127.0.0.1:9'\n";
    let listen = format!("listen = '127.0.0.1:{}'\n", free_port());
    resident.configure("*spikes*", &format!("[observe]\n{collector}[metrics]\n{collector}{listen}"));
    let program = resident.program("book");
    let agent = resident.watch("agent", &[]);
    resident.wait_until_seen(100);
    check(agent.pid(), ATTACH, &["incidents", "control", "metrics", "otlp-metrics"]);
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}

#[test]
fn the_thread_that_reads_records_comes_first_and_no_other() {
    let test = "privileges::the_thread_that_reads_records_comes_first_and_no_other";
    let Some(ground) = Ground::new(test) else { return };
    let run = begun(&ground, requests(ground.run()));
    // Field 19; field 2, in parentheses, may contain anything.
    let nice = |path: String| {
        let stat = fs::read_to_string(path).expect("it runs");
        let after = stat.rsplit_once(") ").expect("a name in parentheses").1.to_owned();
        after.split(' ').nth(16).expect("a field").to_owned()
    };
    let own = nice("/proc/self/stat".to_owned());
    let agent = run.pid();
    assert_eq!(nice(format!("/proc/{agent}/task/{agent}/stat")), "-5");
    let tasks = fs::read_dir(format!("/proc/{agent}/task")).expect("it runs").flatten();
    for task in tasks.filter(|task| *task.file_name() != *agent.to_string()) {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if OTHERS.contains(&name.trim()) {
            assert_eq!(nice(format!("{}/stat", task.path().display())), own, "{name}");
        }
    }
    let children = fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).expect("it runs");
    let program = children.split_whitespace().next().expect("it has started a program").to_owned();
    assert_eq!(nice(format!("/proc/{program}/stat")), own);
    run.finish().expect(0);
}

/// The program has its own limits, not the agent's.
#[test]
fn the_program_is_as_dumpable_and_as_free_as_without_the_agent() {
    let test = "privileges::the_program_is_as_dumpable_and_as_free_as_without_the_agent";
    let Some(ground) = Ground::new(test) else { return };
    let script = "grep -e Seccomp: -e NoNewPrivs -e CapBnd /proc/self/status; ulimit -c";
    let outside =
        Start::new(&ground.path(""), Path::new("/bin/sh")).words(&["-c", script]).finish().expect(0);
    let done = ground.run().program("sh").words(&["-c", &format!("sleep 0.3; {script}")]).finish().expect(0);
    assert!(done.stdout.starts_with(&outside.stdout), "{} {}", done.stdout, outside.stdout);
}

/// The filter allows signals to the program only, whatever its user is by then.
#[test]
fn signals_reach_a_program_that_became_another_user() {
    let Some(ground) = Ground::new("privileges::signals_reach_a_program_that_became_another_user") else {
        return;
    };
    if guestscope::child::resolve("setpriv").is_err() {
        crate::ground::skipped("privileges::signals_reach_a_program_that_became_another_user", "no setpriv");
        return;
    }
    fs::write(ground.path("book"), "").expect("the folder is ours");
    std::os::unix::fs::chown(ground.path("book"), Some(65_534), None).expect("root may");
    fs::copy(subject(), ground.path("subject")).expect("the folder is ours");
    let run = ground.run().program("setpriv").words(&["--reuid", "65534", "--clear-groups"]);
    let run = run.word(ground.path("subject")).word("await-sigterm").spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    run.signal(Signal::SIGTERM);
    run.finish().expect(7);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it is there").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// In the folder, on a terminal, in a page, in a span that waits for a collector, or in exported data.
#[rstest]
#[case::masked(&[], "***")]
#[case::left_out(&["--no-args"], "program       sh: exited")]
fn no_secret_of_a_command_line_leaves_the_agent(#[case] options: &[&str], #[case] instead: &str) {
    const SECRET: &str = "hunter2hunter2";
    let test = "privileges::no_secret_of_a_command_line_leaves_the_agent";
    let Some(ground) = Ground::new(test) else { return };
    let run = ground.command(&["run", "--otlp", "http://127.0.0.1:9", "--output"]).word(ground.path("runs"));
    let words = ["-c", ": ; sleep 0.2", "--password=hunter2hunter2", "--token", SECRET];
    let run = run.words(options).program("sh").words(&words).words(&[
        "DB_PASSWORD=hunter2hunter2",
        "postgres://me:hunter2hunter2@db/x",
        "Authorization: Bearer hunter2hunter2",
    ]);
    let done = run.finish().expect(0);
    assert!(done.stdout.contains(instead), "{}", done.stdout);
    let folder = only_folder(&ground.path("runs"));
    let command = |words: &[&str]| ground.command(words).word(&folder).finish().expect(0).stdout;
    let mut told = vec![
        ("stdout".to_owned(), done.stdout.into_bytes()),
        ("stderr".to_owned(), done.stderr.into_bytes()),
        ("spans".to_owned(), command(&["export", "--to", "otlp-json"]).into_bytes()),
    ];
    assert!(folder.join("spill.otlp.jsonl").exists(), "spans wait for the collector");
    told.extend(files(&folder).into_iter().map(|path| {
        let bytes = fs::read(&path).expect("it is a file");
        (path.display().to_string(), bytes)
    }));
    let is_in = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    let leaks: Vec<&str> =
        told.iter().filter(|(_, bytes)| is_in(bytes)).map(|(name, _)| name.as_str()).collect();
    assert_eq!(leaks, [""; 0]);
}
