//! Cases with helpers: threads beside the phase that work, sleep, start and end.
//!
//! Their time is the process's CPU clock minus the leader's, read on both sides of each edge.

use std::{
    fs,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use crate::{
    Case, Subject, burn, burn_until,
    clerk::{clock_ns, now_ns},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("pool", |subject| pool(subject, false)),
    ("comings", |subject| pool(subject, true)),
    ("leaders", leaders),
];

/// Helpers of `pool`.
const HELPERS: u64 = 3;
/// Length of a phase.
const PHASE: Duration = Duration::from_millis(300);
/// Least length of one helper's sleep.
const NAP: Duration = Duration::from_millis(2);
/// Requests of each leader.
const REQUESTS: u64 = 20;

/// CPU time of all other threads of the process.
fn others_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Time stolen from this guest so far, in whole ticks of 10 ms.
pub(crate) fn stolen_ns() -> u64 {
    let text = fs::read_to_string("/proc/stat").expect("/proc is mounted");
    let ticks = text.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    ticks.expect("the first line has the number") * 10_000_000
}

/// Time that all other threads of the process have waited for a CPU, by the kernel's counters.
fn delay_ns() -> u64 {
    let own = fs::read_link("/proc/thread-self").expect("/proc is mounted");
    let tasks = fs::read_dir("/proc/self/task").expect("/proc is mounted").flatten();
    let others = tasks.filter(|task| Some(task.file_name().as_os_str()) != own.file_name());
    let of = |text: String| text.split_whitespace().nth(1)?.parse::<u64>().ok();
    others.filter_map(|task| of(fs::read_to_string(task.path().join("schedstat")).ok()?)).sum()
}

/// One helper works, one works and sleeps, one waits for ever; with `comes_and_goes`, short-lived helpers do
/// the work.
fn pool(subject: &Subject, comes_and_goes: bool) {
    let done = AtomicBool::new(false);
    let naps = AtomicU64::new(0);
    let ready = Barrier::new(1 + HELPERS as usize);
    thread::scope(|scope| {
        scope.spawn(|| {
            ready.wait();
            if comes_and_goes {
                while !done.load(Relaxed) {
                    thread::scope(|scope| {
                        scope.spawn(|| burn(500_000));
                    });
                }
            } else {
                burn_until(&done);
            }
        });
        scope.spawn(|| {
            ready.wait();
            while !done.load(Relaxed) {
                burn(500_000);
                thread::sleep(NAP);
                naps.fetch_add(1, Relaxed);
            }
        });
        let waiter = scope.spawn(|| {
            ready.wait();
            thread::park();
        });
        guestscope_marker::mark("ready");
        ready.wait();
        thread::sleep(Duration::from_millis(20));
        let (stolen_before_ns, delay_before_ns) = (stolen_ns(), delay_ns());
        let before_ns = others_ns();
        let request = guestscope_marker::request("pool", 1);
        let begun_ns = others_ns();
        let naps_before = naps.load(Relaxed);
        thread::sleep(PHASE);
        // The first nap may have begun before the phase.
        let whole_naps = (naps.load(Relaxed) - naps_before).saturating_sub(1);
        let ending_ns = others_ns();
        request.end();
        let after_ns = others_ns();
        subject.fact("delay_ns", delay_ns() - delay_before_ns);
        subject.fact("stolen_ns", stolen_ns() - stolen_before_ns);
        done.store(true, Relaxed);
        waiter.thread().unpark();
        subject.fact("others_low_ns", ending_ns - begun_ns);
        subject.fact("others_high_ns", after_ns - before_ns);
        subject.fact("helpers", HELPERS);
        subject.fact("asleep_ns", whole_naps * NAP.as_nanos() as u64);
    });
}

/// Two threads serve requests without a pause; a third one works beside them.
fn leaders(subject: &Subject) {
    let done = AtomicBool::new(false);
    let (ready, over) = (Barrier::new(4), Barrier::new(4));
    guestscope_marker::mark("ready");
    thread::scope(|scope| {
        for leader in 0..2_u64 {
            let (ready, over) = (&ready, &over);
            scope.spawn(move || {
                guestscope_marker::mark("ready");
                ready.wait();
                for number in 0..REQUESTS {
                    let request = guestscope_marker::request("serve", leader * REQUESTS + number);
                    burn(2_000_000);
                    request.end();
                }
                over.wait();
            });
        }
        scope.spawn(|| {
            guestscope_marker::mark("ready");
            ready.wait();
            let (stolen_before_ns, start_ns) = (stolen_ns(), clock_ns(libc::CLOCK_THREAD_CPUTIME_ID));
            burn_until(&done);
            subject.fact("helper_ns", clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - start_ns);
            subject.fact("stolen_ns", stolen_ns() - stolen_before_ns);
            over.wait();
        });
        ready.wait();
        let start_ns = now_ns();
        // The main thread has no phase and is a helper, too: it sleeps until both leaders are done.
        while !done.load(Relaxed) {
            thread::sleep(Duration::from_millis(200));
            done.store(true, Relaxed);
        }
        over.wait();
        subject.fact("wall_ns", now_ns() - start_ns);
    });
}
