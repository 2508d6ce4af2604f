//! Roles about starts and ends: exits, signals, exec, fork, many threads, and processes that outlive the
//! program.
//!
//! Guards that must never end are forgotten, as in a program that crashes. Nothing here waits for long.

#![expect(clippy::exit, reason = "how a program ends is what these roles are about")]

use std::{
    io::Read as _,
    os::unix::process::CommandExt as _,
    process::Command,
    sync::{Arc, Barrier},
    time::Duration,
};

use guestscope_marker::phase;

use crate::{burn, note, number, request};

const WORK: Duration = Duration::from_millis(5);

/// `exit-code CODE`: one request, then this code.
pub(crate) fn exit_code(arguments: &[String]) {
    request("request", 1, WORK);
    std::process::exit(number(arguments, 0) as i32);
}

/// `kill-self`: SIGKILL inside a phase of a request.
pub(crate) fn kill_self(_: &[String]) {
    request("request", 1, WORK);
    let _request = guestscope_marker::request("request", 2);
    let _phase = phase("work");
    burn(WORK);
    // SAFETY: no pointers are passed.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// Blocks a signal, notes that it may be sent, and waits for it. Returns whether it came.
fn signalled(signal: libc::c_int, seconds: i64) -> bool {
    let limit = libc::timespec { tv_sec: seconds, tv_nsec: 0 };
    // SAFETY: the set and the limit live across the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        note("ready");
        libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const limit) == signal
    }
}

/// `await-sigterm`: code 7 when the signal comes, a failure if it never does.
pub(crate) fn await_sigterm(_: &[String]) {
    request("request", 1, WORK);
    std::process::exit(if signalled(libc::SIGTERM, 60) { 7 } else { 1 });
}

/// `count-sigint`: exits with the number of signals, once a second passes without one.
pub(crate) fn count_sigint(_: &[String]) {
    let mut count = 0;
    let mut patience = 60;
    while signalled(libc::SIGINT, patience) {
        count += 1;
        patience = 1;
    }
    std::process::exit(count);
}

/// `thread-exit`: a thread returns inside a phase of its request.
pub(crate) fn thread_exit(_: &[String]) {
    let thread = std::thread::spawn(|| {
        std::mem::forget(guestscope_marker::request("request", 1));
        std::mem::forget(phase("work"));
        burn(WORK);
    });
    thread.join().expect("it does not panic");
    request("request", 2, WORK);
}

fn exec_requests() -> ! {
    let program = std::env::current_exe().expect("a running program has a path");
    let error = Command::new(program).args(["requests", "2", "1000"]).exec();
    panic!("exec: {error}");
}

/// `exec-leader`: becomes another program inside a phase.
pub(crate) fn exec_leader(_: &[String]) {
    let _request = guestscope_marker::request("before", 1);
    let _phase = phase("work");
    burn(WORK);
    exec_requests();
}

/// `exec-thread`: the same in another thread, while the main thread is inside a phase as well.
pub(crate) fn exec_thread(_: &[String]) {
    let both = Arc::new(Barrier::new(2));
    let other = Arc::clone(&both);
    std::thread::spawn(move || {
        let _request = guestscope_marker::request("thread", 1);
        let _phase = phase("work");
        other.wait();
        burn(WORK);
        exec_requests();
    });
    let _request = guestscope_marker::request("leader", 2);
    both.wait();
    std::thread::sleep(Duration::from_secs(30));
}

/// `fork`: forks a child inside a phase; the child ends what it inherited, and makes a request of its own.
pub(crate) fn fork(_: &[String]) {
    let parent = guestscope_marker::request("parent", 1);
    let inside = phase("work");
    // SAFETY: there is one thread, so the child may do anything.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(inside);
        drop(parent);
        request("child", 2, WORK);
        std::process::exit(0);
    }
    burn(WORK);
    let mut status = 0;
    // SAFETY: the status lives across the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}

/// `threads N`: N threads at once, each with a request.
pub(crate) fn threads(arguments: &[String]) {
    let count = number(arguments, 0);
    let all = Barrier::new(count as usize);
    std::thread::scope(|scope| {
        for at in 1..=count {
            let all = &all;
            scope.spawn(move || {
                all.wait();
                request("request", at, Duration::from_millis(1));
                all.wait();
            });
        }
    });
    note("done");
}

/// `marks-after N`: two threads mark a request every 200 us until they are killed. They are born after N
/// others, which do nothing.
pub(crate) fn marks_after(arguments: &[String]) {
    let (idle, pause) = (number(arguments, 0), Duration::from_micros(200));
    std::thread::scope(|scope| {
        for _ in 0..idle {
            scope.spawn(std::thread::park);
        }
        for thread in 1..=2 {
            scope.spawn(move || {
                for at in 1.. {
                    drop(guestscope_marker::request("request", thread << 32 | at));
                    std::thread::sleep(pause);
                }
            });
        }
        note("marking");
    });
}

/// `leave-behind`: ends at once; a child lives on and marks even after the agent has ended.
pub(crate) fn leave_behind(_: &[String]) {
    request("request", 1, WORK);
    // SAFETY: there is one thread, so the child may do anything.
    if unsafe { libc::fork() } == 0 {
        request("behind", 2, WORK);
        note("behind");
        let path = std::env::var("E2E_GO_ON").expect("the test gives the name");
        while !std::path::Path::new(&path).exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        (0..1000).for_each(|at| request("after", at, Duration::ZERO));
        note("done");
        return;
    }
    let book = std::env::var("E2E_BOOK").expect("the test gives the name");
    while !std::fs::read_to_string(&book).is_ok_and(|text| text.contains("behind")) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `wait-for-line N`: notes that it is ready, reads a byte of standard input, and only then makes N requests.
pub(crate) fn wait_for_line(arguments: &[String]) {
    note("ready");
    let mut byte = [0];
    std::io::stdin().read_exact(&mut byte).expect("the test sends a byte");
    (1..=number(arguments, 0)).for_each(|at| request("request", at, Duration::ZERO));
    note("done");
}

/// `in-front MS`: makes itself the foreground process group of its terminal, with the setting that stops
/// background processes that write; then makes a request after MS.
pub(crate) fn in_front(arguments: &[String]) {
    use nix::{
        sys::{
            signal::{SigHandler, Signal, signal},
            termios::{LocalFlags, SetArg, tcgetattr, tcsetattr},
        },
        unistd::{Pid, getpid, setpgid, tcsetpgrp},
    };
    use std::io::stdin;
    setpgid(Pid::from_raw(0), Pid::from_raw(0)).expect("it leads nobody");
    // In the background this call would stop it, too.
    // SAFETY: no handler is set.
    unsafe { signal(Signal::SIGTTOU, SigHandler::SigIgn) }.expect("it may be ignored");
    tcsetpgrp(stdin(), getpid()).expect("it is its terminal");
    let mut terminal = tcgetattr(stdin()).expect("it is a terminal");
    terminal.local_flags |= LocalFlags::TOSTOP;
    tcsetattr(stdin(), SetArg::TCSANOW, &terminal).expect("it is in front");
    std::thread::sleep(Duration::from_millis(number(arguments, 0)));
    request("request", 1, Duration::from_micros(100));
}
