//! `attach` to programs that were started without the agent and run on undisturbed.

use std::{fs, io::Write as _, os::unix::fs::FileExt as _, path::PathBuf, process::Stdio};

use guestscope::phase::Ending;
use nix::sys::signal::Signal;
use rstest::rstest;

use crate::{
    folder::Seen,
    ground::{Ground, eventually, skipped, subject},
    groups::Group,
    hygiene::{assert_unloaded, held},
    running::{Done, Running, Start},
    surroundings::has,
};

const ENDED: &str = "request:ended work:ended rest:ended";
/// Losses that attaching and detaching in the middle of requests may cause.
const CUT: [&str; 3] = ["pairing_edges_before", "pairing_unmatched_ends", "pairing_unended_phases"];

/// The subject in this role, started without the agent; its notes go to the file `name`.
pub(crate) fn stranger(ground: &Ground, name: &str) -> Start {
    Start::new(&ground.path(""), &subject())
        .environment("E2E_BOOK", ground.path(name))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

fn lines(ground: &Ground, book: &str) -> usize {
    fs::read_to_string(ground.path(book)).map_or(0, |text| text.lines().count())
}

/// Waits until the subject has noted this many further requests.
pub(crate) fn wait_for_requests(ground: &Ground, book: &str, more: usize) {
    let before = lines(ground, book);
    eventually("requests", || (lines(ground, book) >= before + more).then_some(()));
}

pub(crate) fn attach(ground: &Ground, target: &[&str]) -> Start {
    ground.command(&["attach", "--json", "--output"]).word(ground.path("runs")).words(target)
}

/// Waits until the agent reports that it is attached.
fn attached(run: &Running) {
    eventually("attached", || run.stderr().contains("attached to ").then_some(()));
}

/// No losses except those of requests that attaching or detaching cut.
fn check_cut(done: &Done) -> Seen {
    let losses = done.losses();
    assert!(losses.iter().all(|(key, _)| CUT.contains(&key.as_str())), "{losses:?}");
    for key in &CUT[1..] {
        assert!(done.loss(key) <= 3, "{losses:?}");
    }
    let seen = done.seen();
    // A phase of a request whose start was not seen is not a request of its own.
    assert_eq!(seen.named("request").len(), seen.requests.len(), "{:?}", seen.endings());
    let whole = seen.endings().iter().filter(|endings| *endings == ENDED).count();
    assert!(whole + 3 >= seen.requests.len(), "{:?}", seen.endings());
    seen
}

/// The program's code in memory, and in its file.
fn code(pid: i32) -> (Vec<u8>, Vec<u8>) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let program = subject().display().to_string();
    let line = maps.lines().find(|line| line.contains("r-xp") && line.ends_with(&program));
    let line = line.expect("its code is mapped");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a hexadecimal number");
    let mut fields = line.split_whitespace();
    let (from, to) = fields.next().and_then(|range| range.split_once('-')).expect("a range");
    let (from, to, at) = (number(from), number(to), number(fields.nth(1).expect("an offset")));
    let read = |path: PathBuf, at: u64| {
        let mut bytes = vec![0; (to - from) as usize];
        let file = fs::File::open(path).expect("it can be read");
        let read = file.read_at(&mut bytes, at).expect("it can be read");
        bytes.truncate(read);
        bytes
    };
    let in_file = read(subject(), at);
    let mut in_memory = read(format!("/proc/{pid}/mem").into(), from);
    in_memory.truncate(in_file.len());
    (in_memory, in_file)
}

#[test]
fn a_program_goes_on_as_if_nothing_had_been() {
    let Some(ground) = Ground::new("attach::a_program_goes_on_as_if_nothing_had_been") else { return };
    let program = stranger(&ground, "book").words(&["requests", "1000000", "100", "900"]).spawn();
    wait_for_requests(&ground, "book", 10);
    let maps = || {
        let maps = fs::read_to_string(format!("/proc/{}/maps", program.pid())).expect("it lives");
        maps.lines()
            .map(|line| line.split_whitespace().last().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let (before, clean) = (maps(), code(program.pid()));
    assert_eq!(clean.0, clean.1);

    let run = attach(&ground, &["--pid", &program.pid().to_string()]).spawn();
    attached(&run);
    let held = held(run.pid());
    assert!(!held.is_empty());
    wait_for_requests(&ground, "book", 100);
    assert_ne!(code(program.pid()).0, clean.0, "the probe is in place");
    run.signal(Signal::SIGINT);
    let done = run.finish().expect(0);
    let seen = check_cut(&done);
    assert!(seen.requests.len() >= 90, "{} requests", seen.requests.len());
    let summary = done.summary();
    assert_eq!((summary["exit_code"].is_null(), summary["exit_signal"].is_null()), (true, true));
    assert_eq!(summary["service"], "e2e_subject");
    assert_eq!(seen.manifest.child, None);
    let [process] = &seen.processes[..] else { panic!("{:?}", seen.processes) };
    assert_eq!((process.name.stored(), process.ending), ("e2e_subject", Ending::ObservationStopped));

    assert_unloaded(&held);
    wait_for_requests(&ground, "book", 100);
    assert_eq!(maps(), before);
    eventually("the code is as it was", || (code(program.pid()) == clean).then_some(()));
    program.signal(Signal::SIGTERM);
    assert_eq!(program.finish().code(), 1000 + libc::SIGTERM);
}

/// The scenario follows from what the program's threads were allowed at the end, not when they were found.
#[test]
fn the_scenario_is_that_of_the_target() {
    let Some(ground) = Ground::new("attach::the_scenario_is_that_of_the_target") else { return };
    let program = stranger(&ground, "book").words(&["requests", "1000000", "100", "900"]).spawn();
    wait_for_requests(&ground, "book", 5);
    let run = attach(&ground, &["--pid", &program.pid().to_string()]).spawn();
    attached(&run);
    let mut first = nix::sched::CpuSet::new();
    first.set(0).expect("there is a CPU");
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(program.pid()), &first).expect("root may");
    run.signal(Signal::SIGINT);
    let done = run.finish().expect(0);
    let scenario = done.summary()["scenario"].as_str().expect("a text").to_owned();
    assert!(scenario.ends_with("/1/PIN/CPU"), "{scenario}");
    assert_eq!(done.seen().manifest.scenario, scenario);
    program.signal(Signal::SIGTERM);
    assert_eq!(program.finish().code(), 1000 + libc::SIGTERM);
}

/// Also for a program under another name that is inside a phase at both ends.
#[test]
fn it_ends_with_the_program() {
    let Some(ground) = Ground::new("attach::it_ends_with_the_program") else { return };
    let (reader, mut writer) = std::io::pipe().expect("descriptors are free");
    let program = stranger(&ground, "book").words(&["wait-for-line", "20"]).stdin(reader).spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    let run = attach(&ground, &["--name", "mine", "--pid", &program.pid().to_string()]).spawn();
    attached(&run);
    writer.write_all(b"\n").expect("the program reads");
    program.finish().expect(0);
    let done = run.finish().expect(0);
    assert_eq!(done.losses(), []);
    assert_eq!(done.summary()["service"], "mine");
    let seen = done.seen();
    assert_eq!(seen.endings(), vec![ENDED; 20]);
    assert_eq!(seen.processes.len(), 1);
    assert_eq!(seen.processes[0].ending, Ending::Ended);
    assert!(seen.threads.iter().all(|thread| thread.exited), "{:?}", seen.threads);
}

#[test]
fn it_stops_after_a_time() {
    let Some(ground) = Ground::new("attach::it_stops_after_a_time") else { return };
    let (reader, mut writer) = std::io::pipe().expect("descriptors are free");
    let program = stranger(&ground, "book").words(&["wait-for-line", "1"]).stdin(reader).spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    let target = ["--duration", "1s", "--pid", &program.pid().to_string()];
    let done = attach(&ground, &target).finish().expect(0);
    assert_eq!(done.losses(), []);
    // It read from a pipe all the time.
    let [process] = &done.seen().processes[..] else { panic!("one process") };
    let other_ns = process.accounts.get(guestscope_contract::Account::Other);
    assert!(other_ns == process.duration_ns && other_ns >= 900_000_000, "{process:?}");
    writer.write_all(b"\n").expect("the program reads");
    program.finish().expect(0);
}

/// A marker that a program maps later is found: here a whole new program, by exec.
#[test]
fn a_marker_that_comes_later() {
    let Some(ground) = Ground::new("attach::a_marker_that_comes_later") else { return };
    let (reader, mut writer) = std::io::pipe().expect("descriptors are free");
    let script = format!("read go; exec {} requests 1000000 100 900", subject().display());
    let shell = Start::new(&ground.path(""), "sh".as_ref()).words(&["-c", &script]).stdin(reader);
    let shell =
        shell.stdout(Stdio::null()).stderr(Stdio::null()).environment("E2E_BOOK", ground.path("book"));
    let program = shell.spawn();
    let run = attach(&ground, &["--pid", &program.pid().to_string()]).spawn();
    attached(&run);
    writer.write_all(b"\n").expect("the shell reads");
    // The agent looks for new maps every second; 3,000 requests take more than two seconds.
    wait_for_requests(&ground, "book", 3000);
    run.signal(Signal::SIGTERM);
    let done = run.finish().expect(0);
    assert!(!check_cut(&done).requests.is_empty());
    assert!(done.loss("pairing_edges_before") > 0, "edges from before are counted");
}

#[test]
fn a_group_with_one_below_and_one_who_joins() {
    let test = "attach::a_group_with_one_below_and_one_who_joins";
    let Some(ground) = Ground::new(test) else { return };
    let Some(group) = Group::new(test, "group") else { return };
    let start = |book: &str| stranger(&ground, book).words(&["requests", "1000000", "100", "900"]).spawn();
    let programs = ["own", "below", "late", "outside"].map(|book| {
        let program = start(book);
        wait_for_requests(&ground, book, 1);
        program
    });
    group.take("", programs[0].pid());
    group.take("inner/innermost", programs[1].pid());
    let run = attach(&ground, &["--cgroup", &group.path()]).spawn();
    attached(&run);
    assert!(run.stderr().contains("attached to 2 processes, 2 threads"), "{}", run.stderr());
    wait_for_requests(&ground, "own", 20);
    group.take("", programs[2].pid());
    wait_for_requests(&ground, "late", 3000);
    run.signal(Signal::SIGINT);
    let done = run.finish().expect(0);
    assert!(done.stderr.contains("1 more process"), "{}", done.stderr);
    let seen = check_groups(&done);
    let pids: std::collections::BTreeSet<u32> =
        seen.requests.iter().map(|request| request.root().thread.tgid).collect();
    if fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]") {
        assert_eq!(pids, programs[..3].iter().map(|program| program.pid() as u32).collect());
    }
    assert_eq!(pids.len(), 3);
    assert_eq!(done.summary()["service"], "group");
}

/// Observation cuts requests of three programs, not of one.
fn check_groups(done: &Done) -> Seen {
    let losses = done.losses();
    assert!(losses.iter().all(|(key, _)| CUT.contains(&key.as_str())), "{losses:?}");
    done.seen()
}

/// Only the group's name, as a container engine would make it, tells that this is a container.
#[test]
fn a_container_by_the_begin_of_its_number() {
    let test = "attach::a_container_by_the_begin_of_its_number";
    let Some(ground) = Ground::new(test) else { return };
    let id = format!("{:064x}", 0xe2e_0000_0000_u64 + u64::from(std::process::id()));
    let id = format!("e2e{}", &id[3..]);
    let Some(group) = Group::new(test, &format!("docker/{id}")) else { return };
    let program = stranger(&ground, "book").words(&["requests", "1000000", "100", "900"]).spawn();
    wait_for_requests(&ground, "book", 1);
    group.take("", program.pid());
    let run = attach(&ground, &["--container", &id[..12]]).spawn();
    attached(&run);
    wait_for_requests(&ground, "book", 50);
    run.signal(Signal::SIGINT);
    let done = run.finish().expect(0);
    assert!(check_cut(&done).requests.len() >= 40);
    assert_eq!(done.summary()["service"], id[..12]);
    assert!(group.directory().exists());
}

/// The children of a process.
fn child_of(pid: i32) -> i32 {
    eventually("a child", || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    })
}

/// The program is number 1 of its PID namespace, and its file is on a mount that only it sees.
#[test]
fn a_program_in_namespaces_of_its_own() {
    let test = "attach::a_program_in_namespaces_of_its_own";
    let Some(ground) = Ground::new(test) else { return };
    if !has(test, "unshare") {
        return;
    }
    let disk = ground.path("disk");
    fs::create_dir(&disk).expect("the folder is ours");
    let script = format!(
        "mount -t tmpfs none {disk} && cp {} {disk}/hidden && exec {disk}/hidden requests 1000000 100 900",
        subject().display(),
        disk = disk.display()
    );
    let program = Start::new(&ground.path(""), "unshare".as_ref())
        .words(&["-fpm", "--mount-proc", "--kill-child", "sh", "-c", &script])
        .environment("E2E_BOOK", ground.path("book"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    wait_for_requests(&ground, "book", 10);
    assert!(!disk.join("hidden").exists());
    let run = attach(&ground, &["--pid", &child_of(program.pid()).to_string()]).spawn();
    attached(&run);
    wait_for_requests(&ground, "book", 100);
    run.signal(Signal::SIGINT);
    let done = run.finish().expect(0);
    assert!(check_cut(&done).requests.len() >= 90);
    assert_eq!(done.summary()["service"], "hidden");
}

/// The agent is in a PID namespace whose numbers differ from those outside.
#[test]
fn an_agent_in_a_pid_namespace() {
    let test = "attach::an_agent_in_a_pid_namespace";
    let Some(ground) = Ground::new(test) else { return };
    if !has(test, "unshare") {
        return;
    }
    let script = format!(
        "{} requests 1000000 100 900 >&- 2>&- & test $! -lt 10 && {} attach --json --output {} --duration 2s --pid $!",
        subject().display(),
        ground.agent().display(),
        ground.path("runs").display(),
    );
    let inside = Start::new(&ground.path(""), "unshare".as_ref())
        .words(&["-fp", "--mount-proc", "--kill-child", "sh", "-c", &script])
        .environment("E2E_BOOK", ground.path("book"));
    let done = inside.finish().expect(0);
    assert!(done.stderr.contains("attached to 1 process, 1 thread"), "{}", done.stderr);
    assert!(check_cut(&done).requests.len() >= 100, "{}", done.stdout);
}

/// A new PID namespace with the old /proc: its process IDs belong to another namespace.
#[test]
fn a_proc_of_another_namespace_is_refused() {
    let test = "attach::a_proc_of_another_namespace_is_refused";
    let Some(ground) = Ground::new(test) else { return };
    if !has(test, "unshare") {
        return;
    }
    let start = ground.command(&["attach", "--pid", "1"]).through(&["unshare", "-fp"]);
    let done = start.finish().expect(2);
    assert!(done.stderr.starts_with("error: /proc shows another PID namespace"), "{}", done.stderr);
    assert!(done.stderr.contains("\nhint: "), "{}", done.stderr);
}

#[rstest]
#[case::nobody(&["--pid", "4194303"], "error: no such process: 4194303\n")]
#[case::of_the_kernel(&["--pid", "2"], "error: a thread of the kernel has no program to observe: 2\n")]
#[case::no_group(&["--cgroup", "never/made"], "error: no such control group: never/made\n")]
#[case::no_container(&["--container", "never-made"], "error: no such container: never-made")]
fn what_is_not_there(#[case] target: &[&str], #[case] says: &str) {
    let Some(ground) = Ground::new("attach::what_is_not_there") else { return };
    if target[1] == "2" && !fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        return skipped("attach::what_is_not_there", "the kernel's own threads have no number here");
    }
    let done = attach(&ground, target).finish().expect(2);
    assert!(done.stderr.starts_with(says), "{}", done.stderr);
    assert!(done.stderr.contains("\nhint: "), "{}", done.stderr);
    assert!(!ground.path("runs").exists(), "nothing is left behind");
}

#[test]
fn what_cannot_be_observed() {
    let test = "attach::what_cannot_be_observed";
    let Some(ground) = Ground::new(test) else { return };
    let refused = |target: &[&str], says: &str| {
        let done = attach(&ground, target).finish().expect(2);
        assert_eq!(done.stderr.lines().next(), Some(says), "{}", done.stderr);
        assert!(done.stderr.contains("\nhint: "), "{}", done.stderr);
    };
    // A zombie: it has ended, and its parent has not waited for it.
    let mut zombie = std::process::Command::new("true").spawn().expect("it can be started");
    let stat = format!("/proc/{}/stat", zombie.id());
    eventually("its end", || {
        fs::read_to_string(&stat).expect("it is not waited for").contains(") Z ").then_some(())
    });
    let number = zombie.id().to_string();
    refused(&["--pid", &number], &format!("error: the process has ended and waits for its parent: {number}"));
    zombie.wait().expect("it is ours");

    // The number of a thread that is not its process's first one.
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(nix::unistd::gettid()).expect("the test waits");
        let _ = ended.recv();
    });
    let number = told.recv().expect("the thread tells");
    refused(&["--pid", &number.to_string()], &format!("error: not a process but a thread of one: {number}"));
    drop(end);
    thread.join().expect("it does not panic");
}
