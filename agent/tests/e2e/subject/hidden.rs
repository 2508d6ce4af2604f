//! Roles that leave something out of all numbers: requests without an end.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use guestscope_marker::phase;

use crate::{note, request};

/// What the parent holds while it forks.
static LOCK: Mutex<()> = Mutex::new(());

fn wait_to_go_on() {
    let path = std::env::var("E2E_GO_ON").expect("the test gives the name");
    while !std::path::Path::new(&path).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `hang`: a child is born while its parent holds a lock, and waits for that lock inside a request until it
/// is killed. Nobody in the child could give it back.
pub(crate) fn hang(_: &[String]) {
    (1..=5).for_each(|at| request("request", at, Duration::from_millis(1)));
    let held = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: there is one thread, so the child may do anything.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _request = guestscope_marker::request("serve", 1);
        let _phase = phase("tokenize");
        let _never = LOCK.lock();
        return;
    }
    wait_to_go_on();
    drop(held);
    let mut status = 0;
    // SAFETY: the status lives across the call.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &raw mut status, 0);
    }
}

/// `in-flight`: a child is inside a request like those before it when the program, and with it the
/// observation, ends.
pub(crate) fn in_flight(_: &[String]) {
    for at in 1..=2 {
        let _request = guestscope_marker::request("request", at);
        std::thread::sleep(Duration::from_secs(1));
    }
    // SAFETY: there is one thread, so the child may do anything.
    if unsafe { libc::fork() } == 0 {
        let _request = guestscope_marker::request("request", 3);
        let _phase = phase("work");
        note("inside");
        wait_to_go_on();
        return;
    }
    let book = std::env::var("E2E_BOOK").expect("the test gives the name");
    while !std::fs::read_to_string(&book).is_ok_and(|text| text.contains("inside")) {
        std::thread::sleep(Duration::from_millis(5));
    }
}
