//! Environments of the agent: namespaces, sudo, no tracefs, a closed pipe, another agent beside it. And the
//! program's environment: the same as without the agent.

use std::{collections::BTreeMap, os::unix::fs::MetadataExt as _, process::Stdio};

use guestscope::phase::Ending;

use crate::{
    folder::Seen,
    ground::{Ground, eventually, skipped, subject},
    mounts::{in_private_mounts, tiny_disk, uncover},
    running::{Done, Start},
};

const NOBODY: u32 = 65_534;
const ENDED: &str = "request:ended work:ended rest:ended";

fn check_whole(done: &Done, requests: usize) -> Seen {
    let seen = done.seen();
    assert_eq!(done.losses(), []);
    assert_eq!(seen.endings(), vec![ENDED; requests]);
    seen
}

pub(crate) fn has(test: &str, program: &str) -> bool {
    let found = guestscope::child::resolve(program).is_ok();
    if !found {
        skipped(test, &format!("no program {program}"));
    }
    found
}

#[test]
fn in_a_pid_namespace() {
    let test = "surroundings::in_a_pid_namespace";
    let Some(ground) = Ground::new(test) else { return };
    if !has(test, "unshare") {
        return;
    }
    // In this namespace the agent is number 1.
    let start = ground.run_subject(&["requests", "5", "100"]).through(&["unshare", "-fp", "--mount-proc"]);
    let seen = check_whole(&start.finish().expect(0), 5);
    assert_eq!((seen.processes.len(), seen.processes[0].ending), (1, Ending::Ended));

    // The agent is outside; the program is number 1.
    let ground = Ground::new(test).expect("it was there before");
    let start = ground.run().program("unshare").words(&["-fp", "--mount-proc"]).word(subject());
    check_whole(&start.words(&["requests", "5", "100"]).finish().expect(0), 5);
}

/// The agent may use all CPUs and the program pins itself: the scenario describes the program.
#[test]
fn the_scenario_is_that_of_the_program() {
    let test = "surroundings::the_scenario_is_that_of_the_program";
    let Some(ground) = Ground::new(test) else { return };
    if !has(test, "taskset") {
        return;
    }
    let scenario = |start: Start| {
        let done = start.words(&["requests", "3", "100"]).finish().expect(0);
        let words = done.summary()["scenario"].as_str().expect("a text").to_owned();
        words.split_once('/').expect("a platform first").1.to_owned()
    };
    let pinned = scenario(ground.run().program("taskset").words(&["-c", "0"]).word(subject()));
    assert_eq!(pinned, "1/PIN/CPU");
    let ground = Ground::new(test).expect("it was there before");
    let cpus = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("it can be asked for");
    let cpus = (0..nix::sched::CpuSet::count()).filter(|&cpu| cpus.is_set(cpu).unwrap_or(false)).count();
    let free = scenario(ground.run().program(subject()));
    assert_eq!(free, format!("{cpus}/VNL/CPU"));
}

/// The agent may raise its limit of open files; the program gets the limit that it would have without the
/// agent.
#[test]
fn the_limit_of_open_files_is_the_callers() {
    let Some(ground) = Ground::new("surroundings::the_limit_of_open_files_is_the_callers") else { return };
    let limited = ["sh", "-c", "ulimit -Sn 40; exec \"$@\"", "sh"];
    let start = ground.run().program("sh").words(&["-c", "test $(ulimit -Sn) = 40"]).through(&limited);
    start.finish().expect(0);
}

#[test]
fn in_other_namespaces() {
    let test = "surroundings::in_other_namespaces";
    let Some(ground) = Ground::new(test) else { return };
    if !has(test, "unshare") {
        return;
    }
    let all = ["unshare", "--mount", "--net", "--uts", "--ipc", "--cgroup"];
    check_whole(&ground.run_subject(&["requests", "5"]).through(&all).finish().expect(0), 5);
}

#[test]
fn without_tracefs() {
    let test = "surroundings::without_tracefs";
    let Some(ground) = Ground::new(test) else { return };
    in_private_mounts(test, || {
        uncover("/sys/kernel/tracing");
        tiny_disk("/sys/kernel/debug".as_ref(), 4096);
        assert!(!std::path::Path::new("/sys/kernel/tracing/events").exists());
        check_whole(&ground.run_subject(&["requests", "5"]).finish().expect(0), 5);
    });
}

#[test]
fn under_sudo_the_program_is_the_users() {
    let test = "surroundings::under_sudo_the_program_is_the_users";
    let Some(ground) = Ground::new(test) else { return };
    let Ok(Some(user)) = nix::unistd::User::from_uid(NOBODY.into()) else {
        return skipped(test, "there is no user 65534");
    };
    let sudo = |start: Start| {
        start
            .environment("SUDO_UID", "65534")
            .environment("SUDO_GID", "65534")
            .environment("SUDO_USER", &user.name)
    };
    // The user may write the notes.
    std::fs::write(ground.path("book"), "").expect("the folder is ours");
    let give = |name: &str| std::os::unix::fs::chown(ground.path(name), Some(NOBODY), Some(NOBODY));
    give("book").expect("root may");
    // The user may make run folders here.
    std::fs::create_dir(ground.path("runs")).expect("the folder is ours");
    give("runs").expect("root may");
    let endpoint = "http://127.0.0.1:9";
    let start = ground.run().words(&["--otlp", endpoint]).program("sh");
    let script = format!("{0} view; exec {0} requests 3", subject().display());
    let done = sudo(start.words(&["-c", &script])).finish().expect(0);
    let book = ground.book();
    for line in [
        "status.Uid=65534 65534 65534 65534",
        "status.Gid=65534 65534 65534 65534",
        "status.CapEff=0000000000000000",
    ] {
        assert!(book.lines().any(|other| other == line), "{line}: {book}");
    }
    assert!(book.contains(&format!("env.HOME={}\n", user.dir.display())), "{book}");
    assert!(book.contains(&format!("env.USER={}\n", user.name)), "{book}");

    let seen = done.seen();
    assert_eq!(seen.endings(), [ENDED; 3]);
    assert_eq!(seen.manifest.child.map(|child| child.uid), Some(NOBODY));
    let own = |path: &std::path::Path| {
        let found = std::fs::symlink_metadata(path).expect("it is there");
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    assert_eq!(own(&seen.path), (NOBODY, NOBODY, 0o700));
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(&seen.path).expect("it can be listed").flatten() {
        let mode = if entry.path().is_dir() { 0o700 } else { 0o600 };
        files.insert(entry.file_name(), (own(&entry.path()), (NOBODY, NOBODY, mode)));
    }
    let wrong: Vec<_> = files.iter().filter(|(_, (found, expected))| found != expected).collect();
    assert!(files.len() >= 6 && wrong.is_empty(), "{wrong:?}");
}

/// `| head -1`, and a reader that is gone before anything is written.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let Some(ground) = Ground::new("surroundings::a_reader_that_goes_away_is_no_failure") else { return };
    let (reader, writer) = std::io::pipe().expect("descriptors are free");
    drop(reader);
    let done = ground.run_subject(&["requests", "3"]).stdout(Stdio::from(writer)).finish().expect(0);
    assert_eq!(done.seen().endings(), [ENDED; 3]);
    assert!(!done.stderr.contains("error"), "{}", done.stderr);
    let (reader, writer) = std::io::pipe().expect("descriptors are free");
    drop(reader);
    ground.command(&["doctor"]).stdout(Stdio::from(writer)).finish().expect(0);
}

/// `2>&1 | head -1`: banner, warnings and summary have no reader.
#[test]
fn readers_of_both_outputs_may_go_away() {
    let Some(ground) = Ground::new("surroundings::readers_of_both_outputs_may_go_away") else { return };
    let (reader, writer) = std::io::pipe().expect("descriptors are free");
    drop(reader);
    let other = writer.try_clone().expect("descriptors are free");
    let start = ground.run_subject(&["requests", "3"]).stdout(Stdio::from(writer)).stderr(Stdio::from(other));
    let done = start.finish().expect(0);
    assert_eq!(done.seen().endings(), [ENDED; 3]);
}

/// As servers do that start as root.
#[test]
fn the_program_may_become_another_user() {
    let test = "surroundings::the_program_may_become_another_user";
    let Some(ground) = Ground::new(test) else { return };
    if !has(test, "setpriv") {
        return;
    }
    std::fs::write(ground.path("book"), "").expect("the folder is ours");
    std::os::unix::fs::chown(ground.path("book"), Some(NOBODY), Some(NOBODY)).expect("root may");
    let start =
        ground.run().program("setpriv").words(&["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    check_whole(&start.word(subject()).words(&["requests", "3"]).finish().expect(0), 3);
}

#[test]
fn standard_error_may_be_closed_too() {
    let Some(ground) = Ground::new("surroundings::standard_error_may_be_closed_too") else { return };
    let start = ground.run_subject(&["requests", "3"]).before(|| {
        // SAFETY: takes no pointers.
        unsafe { libc::close(2) };
        Ok(())
    });
    let done = start.finish().expect(0);
    assert_eq!(done.seen().endings(), [ENDED; 3]);
}

#[test]
fn two_agents_at_once() {
    let test = "surroundings::two_agents_at_once";
    let (Some(first), Some(second)) = (Ground::new(test), Ground::new(test)) else { return };
    let runs = [&first, &second].map(|ground| ground.run_subject(&["requests", "200", "500", "500"]).spawn());
    for run in runs {
        check_whole(&run.finish().expect(0), 200);
    }
}

/// An agent that observes another agent: the inner one gets the marks, the outer one the processes.
#[test]
fn an_agent_under_an_agent() {
    let Some(ground) = Ground::new("surroundings::an_agent_under_an_agent") else { return };
    let inner = ground.path("inner");
    let start = ground
        .run()
        .program(ground.agent())
        .words(&["run", "--output"])
        .word(&inner)
        .word("--")
        .word(subject());
    let done = start.words(&["requests", "5"]).finish().expect(0);
    assert_eq!(done.losses(), []);
    assert!(done.seen().processes.len() >= 2);
    let inner = Seen::read(&crate::folder::only_folder(&inner));
    assert_eq!(inner.endings(), [ENDED; 5]);
}

/// Arguments and names on Linux are bytes.
#[test]
fn arguments_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let Some(ground) = Ground::new("surroundings::arguments_need_not_be_text") else { return };
    let odd = std::ffi::OsStr::from_bytes(b"a\xffb");
    let start = ground.run().program("sh").words(&["-c", "test \"$1\" = \"$(printf 'a\\377b')\"", "sh"]);
    start.word(odd).finish().expect(0);
}

/// The program finds the environment that it would find without the agent, except for the variables by which
/// markers and sources find the agent.
#[test]
fn the_program_finds_the_world_as_it_was() {
    let Some(ground) = Ground::new("surroundings::the_program_finds_the_world_as_it_was") else { return };
    let plain =
        Start::new(&ground.path(""), &subject()).word("view").environment("E2E_BOOK", ground.path("plain"));
    let prepare = |start: Start| {
        // These tests use a variable of this name themselves.
        start.without("GUESTSCOPE_PYTHON").environment("PYTHONPATH", "/theirs").before(|| {
            // Unusual settings that the program has to find again.
            nix::sys::stat::umask(nix::sys::stat::Mode::S_IWOTH);
            let signal = nix::sys::signal::Signal::SIGWINCH;
            // SAFETY: no handler is installed.
            unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigIgn) }?;
            Ok(())
        })
    };
    prepare(plain).finish().expect(0);
    prepare(ground.run_subject(&["view"])).finish().expect(0);
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let plain = lines(std::fs::read_to_string(ground.path("plain")).expect("it was written"));
    let observed = lines(ground.book());
    let only = |here: &[String], there: &[String]| -> Vec<String> {
        let names = here.iter().filter(|line| !there.contains(line) && !line.starts_with("env.E2E_BOOK="));
        names.map(|line| line.split('=').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(only(&plain, &observed), ["env.PYTHONPATH"]);
    assert_eq!(
        only(&observed, &plain),
        [
            "env.GUESTSCOPE_FILTERS",
            "env.GUESTSCOPE_LIBRARY",
            "env.GUESTSCOPE_NOTIFY",
            "env.GUESTSCOPE_OTEL",
            "env.GUESTSCOPE_PYTHON",
            "env.GUESTSCOPE_WORKLOAD_FILE",
            "env.NVTX_INJECTION64_PATH",
            "env.PYTHONPATH",
        ]
    );
    let path = observed.iter().find(|line| line.starts_with("env.PYTHONPATH=")).expect("it is set");
    assert!(path.ends_with(":/theirs"), "{path}");
}

/// The program, not the agent, reads standard input.
#[test]
fn the_program_reads_its_input() {
    use std::io::Write as _;
    let Some(ground) = Ground::new("surroundings::the_program_reads_its_input") else { return };
    let (reader, mut writer) = std::io::pipe().expect("descriptors are free");
    let run = ground.run().program("sh").words(&["-c", "read line; echo \"got $line\" >&2"]);
    let run = run.stdin(Stdio::from(reader)).spawn();
    writer.write_all(b"hello\n").expect("the pipe is open");
    eventually("the program's answer", || run.stderr().contains("got hello").then_some(()));
    run.finish().expect(0);
}
