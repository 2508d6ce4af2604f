//! What only looks like a pause of the guest: the agent is stopped, or has no CPU, while the machine and the
//! program run on.

use std::{
    io::Write as _,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::{
    folder::Seen,
    ground::{Ground, eventually},
};

/// Far longer than the shortest pause.
const STOPPED: Duration = Duration::from_secs(10);
/// Requests; the program runs for longer than the agent is stopped.
const COUNT: usize = 1_200;
/// The role's arguments: requests of 2 ms each, with 8 ms between them.
const REQUESTS: [&str; 4] = ["requests", "1200", "2000", "8000"];
/// A host may stop all CPUs of a guest for 10 ms without accounting for it, which is a pause. It does not do
/// so every time.
const ATTEMPTS: u32 = 3;

#[test]
fn an_agent_that_is_stopped_sees_no_pause() {
    for attempt in 1..=ATTEMPTS {
        let Some(seen) = seen_by_a_stopped_agent() else { return };
        assert_eq!(seen.named("request").len(), COUNT, "what happened meanwhile was kept for it");
        let phases = seen.requests.iter().flat_map(|request| &request.phases).chain(&seen.processes);
        let paused: Vec<_> = phases.filter(|phase| phase.pause_ns > 0).collect();
        if paused.is_empty() {
            return;
        }
        assert!(attempt < ATTEMPTS, "every time, the last: {paused:?}");
        let _ = writeln!(std::io::stdout(), "again: {} phases were stopped", paused.len());
    }
}

/// All CPUs are busy, and the agent is stopped for a while.
fn seen_by_a_stopped_agent() -> Option<Seen> {
    let ground = Ground::new("pauses::an_agent_that_is_stopped_sees_no_pause")?;
    let is_over = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..2 * cpus {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    std::hint::spin_loop();
                }
            });
        }
        let over = Over(&is_over);
        let running = ground.run_subject(&REQUESTS).spawn();
        eventually("the program has begun", || (ground.book().lines().count() > 2).then_some(()));
        running.signal(Signal::SIGSTOP);
        thread::sleep(STOPPED);
        running.signal(Signal::SIGCONT);
        let done = running.finish();
        drop(over);
        done
    });
    Some(done.expect(0).seen())
}

/// Ends the busy threads, also if this thread fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
