//! Roles that mark without end, as broken and hostile programs do.
//!
//! Each pauses after some edges, so that not the ring but the agent is the bottleneck.

use std::time::Duration;

use guestscope_marker::call;

use crate::{note, number};

/// Edges between two pauses: a tenth of what the ring holds.
const AT_ONCE: u64 = 1_000;
const PAUSE: Duration = Duration::from_millis(20);

fn begin(name: &str) -> u64 {
    // SAFETY: the name lives across the call.
    unsafe { call::begin(name.as_ptr(), name.len(), 0) }
}

fn request(name: &str, number: u64) -> u64 {
    // SAFETY: the name lives across the call.
    unsafe { call::request(name.as_ptr(), name.len(), number, 0) }
}

fn pause(at: u64) {
    if at.is_multiple_of(AT_ONCE) {
        std::thread::sleep(PAUSE);
    }
}

/// `grow MODE N`: N marks of one kind; with a third argument it then waits for SIGTERM.
pub(crate) fn grow(arguments: &[String]) {
    let steps = 1..=number(arguments, 1);
    let mode = arguments[0].as_str();
    let outermost = if matches!(mode, "onereq" | "deep" | "deepend") { request(mode, 1) } else { 0 };
    for step in steps {
        match mode {
            "open" => _ = request("open", step),
            "uniq" => {
                call::end(request(&format!("name-{step}-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), step));
            }
            "onereq" => call::end(begin("p")),
            "deep" | "deepend" => _ = begin("d"),
            "thr" => leak(step),
            mode => panic!("no such mode: {mode}"),
        }
        pause(step);
    }
    if mode == "onereq" || mode == "deepend" {
        call::end(outermost);
    }
    note("done");
}

/// A process that ends inside a request.
fn leak(step: u64) {
    // SAFETY: this program has one thread; the child marks and ends at once.
    unsafe {
        if libc::fork() == 0 {
            request("leak", step);
            libc::_exit(0);
        }
        libc::wait(std::ptr::null_mut());
    }
}

/// `stubborn [MARKS]`: ignores SIGTERM and SIGINT for two minutes; with an argument it marks meanwhile.
pub(crate) fn stubborn(arguments: &[String]) {
    // SAFETY: no handler is given.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
    }
    call::end(request("request", 1));
    note("ready");
    let end = std::time::Instant::now() + Duration::from_mins(2);
    while std::time::Instant::now() < end {
        if arguments.is_empty() {
            std::thread::sleep(PAUSE);
        } else {
            let _ = request("flood", 2);
            call::end(begin("flooded"));
        }
    }
}
