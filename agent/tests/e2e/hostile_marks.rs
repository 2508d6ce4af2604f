//! Programs that mark without end: the agent stays within its documented memory, ends, and says what it left
//! out.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rstest::rstest;

use crate::{
    folder::{Seen, only_folder},
    ground::{Ground, LIMIT, eventually, subject},
    running::{Done, Running},
};

/// Limit of the agent's peak resident set beyond that of a run with hardly any marks, KiB: 32 MB of phases,
/// 16 MB on their way to the folder, and one batch.
const MOST_KIB: u64 = 64 << 10;

fn largest_kib(run: &Running) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", run.pid())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Waits for the end of the run; also returns the largest resident set that was seen.
fn watched(run: Running) -> (Done, u64) {
    let pid = run.pid();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let status = format!("/proc/{pid}/status");
    let watcher = std::thread::spawn(move || {
        let mut largest = 0;
        while stopped.recv_timeout(Duration::from_millis(20)).is_err() {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            largest = largest.max(kib.unwrap_or(0));
        }
        largest
    });
    let done = run.finish();
    let _ = stop.send(());
    (done, watcher.join().expect("it only reads"))
}

#[rstest]
#[case::open("open", 60_000, &["pairing_requests_cut"])]
#[case::uniq("uniq", 30_000, &[])]
#[case::onereq("onereq", 60_000, &["pairing_phases_left_out"])]
#[case::deepend("deepend", 40_000, &["pairing_phases_left_out"])]
#[case::deep("deep", 40_000, &["pairing_phases_left_out"])]
#[case::thr("thr", 300, &["pairing_unended_phases"])]
fn marks_without_end_are_bounded(#[case] mode: &str, #[case] marks: u64, #[case] said: &[&str]) {
    let Some(ground) = Ground::new(&format!("hostile_marks::marks_without_end_are_bounded::{mode}")) else {
        return;
    };
    let usual = Ground::with(ground.agent().to_owned());
    let (done, usual_kib) = watched(usual.run_subject(&["requests", "10", "1000", "20000"]).spawn());
    done.expect(0);
    let (done, kib) = watched(ground.run_subject(&["grow", mode, &marks.to_string()]).spawn());
    let done = done.expect(0);
    assert!(kib <= usual_kib + MOST_KIB, "{kib} KiB, and usually {usual_kib}");
    for loss in said {
        assert!(done.loss(loss) > 0, "{loss}: {:?}", done.losses());
    }
    // Reading the folder checks that what was kept adds up.
    let seen = done.seen();
    let phases: usize = seen.requests.iter().map(|request| request.phases.len()).sum();
    let left_out = done.loss("pairing_phases_left_out") + done.loss("rows_lost");
    let lost = done.loss("kernel_edges");
    let begun = marks + u64::from(matches!(mode, "onereq" | "deep" | "deepend"));
    assert!(phases as u64 + left_out + lost >= begun, "{phases} phases and {left_out} left out of {begun}");
}

#[test]
fn the_end_of_the_program_is_when_it_ended() {
    let Some(ground) = Ground::new("hostile_marks::the_end_of_the_program_is_when_it_ended") else { return };
    let done = ground.run_subject(&["grow", "deepend", "20000"]).finish().expect(0);
    let seen = done.seen();
    let process = &seen.processes[0];
    let wall_ns = done.summary()["wall_ns"].as_u64().expect("it is a number");
    // The process lived this long by the kernel's clock; the difference is its start and the notification of
    // its parent.
    let difference_ns = wall_ns.abs_diff(process.duration_ns);
    assert!(difference_ns < 1_000_000_000 + process.duration_ns / 10, "{difference_ns} of {wall_ns}");
}

/// Whether it ends matters, not when: the machine may be busy.
fn ends_soon(run: Running, signal: Signal, since: Instant) -> Done {
    let done = run.finish();
    let took = since.elapsed();
    assert!(took < LIMIT / 4, "{signal}: {took:?}");
    done
}

#[rstest]
#[case::quiet(&["stubborn"])]
#[case::flooding(&["stubborn", "marks"])]
fn a_second_sigterm_stops_observing_a_program_that_ignores_it(#[case] role: &[&str]) {
    let test = "hostile_marks::a_second_sigterm_stops_observing_a_program_that_ignores_it";
    let Some(ground) = Ground::new(test) else { return };
    let run = ground.run_subject(role).spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    run.signal(Signal::SIGTERM);
    // The agent forwards the first signal to the program and runs on.
    std::thread::sleep(Duration::from_millis(200));
    assert!(largest_kib(&run).is_some(), "it has ended at the first signal");
    run.signal(Signal::SIGTERM);
    let group = nix::unistd::Pid::from_raw(run.pid());
    let done = ends_soon(run, Signal::SIGTERM, Instant::now());
    // The program runs on without the agent, so the test ends it.
    nix::sys::signal::killpg(group, Signal::SIGKILL).expect("the program is still there");
    let code = done.code();
    assert!(code == 128 + 15 || code == 1000 + 15, "{code}\n{}", done.stderr);
    let seen = Seen::read(&only_folder(&ground.path("runs")));
    assert!(!seen.requests.is_empty(), "what was seen is kept");
}

/// A user who presses Ctrl-C twice wants the program to end, and gets a complete run if it does.
#[test]
fn a_run_is_closed_as_always_when_the_program_obeys_the_second_signal() {
    let test = "hostile_marks::a_run_is_closed_as_always_when_the_program_obeys_the_second_signal";
    let Some(ground) = Ground::new(test) else { return };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", silent.local_addr().expect("it is bound"));
    let script = "asked=0; trap 'asked=$((asked + 1)); echo $asked >>\"$E2E_BOOK\"; [ $asked = 2 ] && exit 7' TERM; \
                  \"$0\" requests 20 1000; while :; do sleep 0.05; done";
    let run = ground.run().words(&["--otlp", &url]).program("sh").words(&["-c", script]);
    let run = run.words(&[&subject().to_string_lossy()]).spawn();
    eventually("the program is ready", || ground.book().contains("done").then_some(()));
    run.signal(Signal::SIGTERM);
    eventually("it has the first one", || ground.book().ends_with("1\n").then_some(()));
    run.signal(Signal::SIGTERM);
    // The silent collector delays the end for longer than a shortened end would take.
    let done = run.finish().expect(7);
    assert_eq!(done.seen().requests.len(), 20);
    let manifest = only_folder(&ground.path("runs")).join("manifest.json");
    let text = std::fs::read_to_string(manifest).expect("it is there");
    assert!(text.contains("\"state\": \"closed\""), "{text}");
}

/// A collector that accepts connections and never answers delays the end of a run. A signal tells the agent
/// not to wait.
#[test]
fn a_signal_while_the_run_is_closed_ends_the_agent_and_keeps_what_was_seen() {
    let test = "hostile_marks::a_signal_while_the_run_is_closed_ends_the_agent_and_keeps_what_was_seen";
    let Some(ground) = Ground::new(test) else { return };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", silent.local_addr().expect("it is bound"));
    let run =
        ground.run().words(&["--otlp", &url]).program(subject()).words(&["requests", "20", "1000"]).spawn();
    eventually("the program is done", || ground.book().contains("done").then_some(()));
    let children = format!("/proc/{0}/task/{0}/children", run.pid());
    // The agent has waited for the program: from here on, signals are for the agent.
    eventually("the program has ended", || {
        std::fs::read_to_string(&children).ok().filter(|children| children.trim().is_empty())
    });
    run.signal(Signal::SIGTERM);
    let done = ends_soon(run, Signal::SIGTERM, Instant::now());
    assert_eq!(done.code(), 1000 + 15, "{}", done.stderr);
    let seen = Seen::read(&only_folder(&ground.path("runs")));
    assert_eq!(seen.requests.len(), 20, "all that was seen is kept");
}
