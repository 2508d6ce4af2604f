//! The agent is killed during a run: the program is not affected, and what was written stays readable.

use guestscope::{clock, folder::State};
use nix::sys::signal::Signal;

use crate::{
    folder::{Seen, only_folder},
    ground::{Ground, eventually},
};

/// Rows are written every second; one more interval and a busy disk may be added.
const MOST_LOST_NS: u64 = 2_000_000_000;

#[test]
fn a_killed_agent_leaves_the_program_and_what_it_saw() {
    let Some(ground) = Ground::new("crash::a_killed_agent_leaves_the_program_and_what_it_saw") else {
        return;
    };
    // 600 requests of 1 ms and 7 ms of sleep: 5 s or more.
    let run = ground.run_subject(&["requests", "600", "1000", "7000"]).spawn();
    let begin_ns =
        eventually("the first request", || noted(&ground.book()).first().map(|&(_, end_ns)| end_ns));
    eventually("3.5 s of requests", || {
        noted(&ground.book()).last().filter(|(_, end_ns)| end_ns - begin_ns > 3_500_000_000).map(|_| ())
    });
    run.signal(Signal::SIGKILL);
    let killed_ns = clock::now_ns();
    eventually("the program ends by itself", || ground.book().contains("done").then_some(()));
    run.finish().expect(1000 + Signal::SIGKILL as i32);

    let all = noted(&ground.book());
    assert_eq!(all.len(), 600);
    assert!(all.last().is_some_and(|&(_, end_ns)| end_ns > killed_ns));
    let seen = Seen::read(&only_folder(&ground.path("runs")));
    assert_eq!((seen.manifest.state, seen.manifest.end.is_empty()), (State::Running, true));
    assert!(seen.manifest.child.is_some_and(|child| child.exit.is_none()));
    let must = all.iter().filter(|&&(_, end_ns)| end_ns + MOST_LOST_NS < killed_ns).count();
    assert!(must > 50, "{must} requests ended 2 s before the end");
    let numbers: Vec<u64> = seen.requests.iter().map(|request| request.root().request).collect();
    assert!(numbers.len() >= must, "{} of {must} requests are left", numbers.len());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    for (request, (_, end_ns)) in seen.requests.iter().zip(all) {
        assert!(request.root().start_ns + request.root().duration_ns <= end_ns, "{request:#?}");
    }
}

/// Number and end time of each request that the program has noted.
fn noted(book: &str) -> Vec<(u64, u64)> {
    let pair = |line: &str| {
        let (number, end_ns) = line.split_once(' ')?;
        Some((number.parse().ok()?, end_ns.parse().ok()?))
    };
    // The last line may be half written.
    book.lines().filter(|_| book.ends_with('\n')).filter_map(pair).collect()
}

/// Agent and program are killed together, as on a machine that runs out of memory.
#[test]
fn a_run_that_is_killed_as_a_whole_is_readable() {
    let Some(ground) = Ground::new("crash::a_run_that_is_killed_as_a_whole_is_readable") else { return };
    let run = ground.run_subject(&["requests", "100000", "500", "500"]).spawn();
    eventually("some requests", || (noted(&ground.book()).len() > 100).then_some(()));
    let group = nix::unistd::Pid::from_raw(run.pid());
    nix::sys::signal::killpg(group, Signal::SIGKILL).expect("it is our group");
    run.finish().expect(1000 + Signal::SIGKILL as i32);
    let seen = Seen::read(&only_folder(&ground.path("runs")));
    assert_eq!(seen.manifest.state, State::Running);
    assert!(seen.processes.is_empty());
}
