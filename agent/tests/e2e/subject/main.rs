//! The program under observation: `e2e_subject ROLE [ARGUMENTS]` does known things in marked phases.
//!
//! It writes its notes to the file that E2E_BOOK names, one per line, so that its standard output stays
//! empty. [`ROLES`] has the roles by name. It judges nothing.

mod grow;
mod hidden;
mod hostile;
mod lives;
mod spikes;
mod view;
mod waits;
mod witness;

use std::{fs::OpenOptions, io::Write as _, time::Duration};

/// A role gets the arguments after its name.
type Role = fn(&[String]);

const ROLES: &[(&str, Role)] = &[
    ("requests", requests),
    ("unmarked", unmarked),
    ("exit-code", lives::exit_code),
    ("kill-self", lives::kill_self),
    ("await-sigterm", lives::await_sigterm),
    ("count-sigint", lives::count_sigint),
    ("thread-exit", lives::thread_exit),
    ("exec-leader", lives::exec_leader),
    ("exec-thread", lives::exec_thread),
    ("fork", lives::fork),
    ("in-front", lives::in_front),
    ("threads", lives::threads),
    ("marks-after", lives::marks_after),
    ("grow", grow::grow),
    ("stubborn", grow::stubborn),
    ("hang", hidden::hang),
    ("in-flight", hidden::in_flight),
    ("leave-behind", lives::leave_behind),
    ("wait-for-line", lives::wait_for_line),
    ("hostile", hostile::hostile),
    ("take-turns", hostile::take_turns),
    ("spikes", spikes::spikes),
    ("view", view::view),
    ("waits", waits::waits),
    ("witness", witness::witness),
    ("burst", witness::burst),
];

/// Adds a line to its notes.
fn note(line: &str) {
    let Some(path) = std::env::var_os("E2E_BOOK") else { return };
    let file = OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.expect("the book can be written");
}

/// A number among the arguments.
fn number(arguments: &[String], index: usize) -> u64 {
    let text = arguments.get(index).expect("the test gives the number");
    text.parse().expect("it is one")
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives across the call; the clocks that are asked for exist everywhere.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Uses this much CPU time of the calling thread.
fn burn(time: Duration) {
    let end_ns = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) + time.as_nanos() as u64;
    while clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) < end_ns {
        std::hint::spin_loop();
    }
}

/// One request: two phases, the first of which works.
fn request(name: &str, number: u64, work: Duration) {
    let _request = guestscope_marker::request(name, number);
    {
        let _phase = guestscope_marker::phase("work");
        burn(work);
    }
    let _phase = guestscope_marker::phase("rest");
}

/// `requests N [WORK_US [SLEEP_US]]`: requests from 1 to N, each noted with the time of its end.
fn requests(arguments: &[String]) {
    let optional = |index: usize| arguments.get(index).map_or(0, |_| number(arguments, index));
    let (work, sleep) = (Duration::from_micros(optional(1)), Duration::from_micros(optional(2)));
    for at in 1..=number(arguments, 0) {
        request("request", at, work);
        note(&format!("{at} {}", clock_ns(libc::CLOCK_MONOTONIC)));
        std::thread::sleep(sleep);
    }
    note("done");
}

/// `unmarked`: works without using the marker.
fn unmarked(_: &[String]) {
    burn(Duration::from_millis(20));
    note("done");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let role = arguments.first().expect("usage: e2e_subject ROLE [ARGUMENTS]");
    let (_, run) = ROLES.iter().find(|(name, _)| name == role).expect("a role of this name");
    run(&arguments[1..]);
}
