//! Cases about starts and ends: descendants, processes that replace their program, ends inside a phase.

use std::{
    os::unix::process::CommandExt as _,
    process::Command,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use nix::{
    sched::{CloneFlags, unshare},
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, fork},
};

use crate::{Case, Subject, burn, clerk, clerk::now_ns};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("descend", descend),
    ("leaf", note),
    ("exec_leader", exec_leader),
    ("exec_thread", exec_thread),
    ("after_exec", after_exec),
    ("leave_thread", leave_thread),
    ("fork_inside", fork_inside),
    ("killed", killed),
    ("reuse", reuse),
    ("namespace", namespace),
    ("renamed", renamed),
];

/// A little work, so that a phase has some CPU time.
const WORK_NS: u64 = 3_000_000;

/// Notes this thread's number.
fn note(subject: &Subject) {
    subject.fact("tid", clerk::tid());
}

/// Runs `body` in a forked child and does not wait for it.
fn fork_child(body: impl FnOnce()) -> Pid {
    // SAFETY: no other thread of this program holds a lock of the allocator here: those that run were all
    // started by the caller, and wait.
    match unsafe { fork() }.expect("processes are left") {
        ForkResult::Child => leave_after(body),
        ForkResult::Parent { child } => child,
    }
}

/// Ends a forked child without the exit handlers that the parent registered.
fn leave_after(body: impl FnOnce()) -> ! {
    body();
    // SAFETY: ends the process; takes an integer.
    unsafe { libc::_exit(0) }
}

fn wait_for(child: Pid) {
    let status = waitpid(child, None).expect("the child is ours");
    assert!(matches!(status, nix::sys::wait::WaitStatus::Exited(_, 0)), "{status:?}");
}

/// This program with another case and the same notes.
pub(crate) fn myself(subject: &Subject, case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
    command.arg(case).arg(&subject.book);
    command
}

/// Threads, processes forked by the leader and by a thread, threads of forked processes, a spawned program
/// (vfork).
fn descend(subject: &Subject) {
    note(subject);
    let root = fork_child(|| {
        note(subject);
        let threads: Vec<_> = (0..4).collect();
        thread::scope(|scope| {
            for _ in threads {
                scope.spawn(|| note(subject));
            }
        });
        wait_for(fork_child(|| {
            note(subject);
            thread::scope(|scope| {
                scope.spawn(|| note(subject));
            });
        }));
        thread::scope(|scope| {
            scope.spawn(|| {
                note(subject);
                wait_for(fork_child(|| note(subject)));
            });
        });
        for _ in 0..3 {
            assert!(myself(subject, "leaf").status().expect("this program can be started").success());
        }
    });
    books_of_the_dead(subject, root);
}

/// Waits for a child, and notes the kernel's sums for it and for all that it waited for.
pub(crate) fn books_of_the_dead(subject: &Subject, child: Pid) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure lives across the call, and all zeros are a value of it.
    let usage = unsafe {
        assert_eq!(libc::wait4(child.as_raw(), std::ptr::null_mut(), 0, usage.as_mut_ptr()), child.as_raw());
        usage.assume_init()
    };
    subject.fact("child", child.as_raw() as u64);
    subject.fact("voluntary", usage.ru_nvcsw as u64);
    subject.fact("involuntary", usage.ru_nivcsw as u64);
    subject.fact("minor", usage.ru_minflt as u64);
    subject.fact("major", usage.ru_majflt as u64);
}

fn exec(subject: &Subject) -> ! {
    let error = myself(subject, "after_exec").exec();
    panic!("this program can be started again: {error}");
}

/// Replaces the program by exec inside a phase that has another one inside it.
fn exec_leader(subject: &Subject) {
    subject.fact("before_ns", now_ns());
    let request = guestscope_marker::request("replaced", 1);
    let inner = guestscope_marker::phase("inner");
    subject.fact("begun_ns", now_ns());
    burn(WORK_NS);
    subject.fact("ending_ns", now_ns());
    std::mem::forget((inner, request));
    exec(subject);
}

/// A thread that is not the leader replaces the program, while the leader waits inside its own phase.
fn exec_thread(subject: &Subject) {
    subject.fact("leader_before_ns", now_ns());
    let request = guestscope_marker::request("leader", 2);
    thread::scope(|scope| {
        scope.spawn(|| {
            subject.fact("thread", clerk::tid());
            subject.fact("before_ns", now_ns());
            let request = guestscope_marker::request("replaced", 1);
            subject.fact("begun_ns", now_ns());
            burn(WORK_NS);
            subject.fact("ending_ns", now_ns());
            std::mem::forget(request);
            exec(subject);
        });
    });
    drop(request);
}

/// The case of the program after exec.
fn after_exec(subject: &Subject) {
    subject.clerk(|clerk| clerk.book("after", 3, || burn(WORK_NS)));
}

/// A thread ends inside a phase, which has another one inside it.
fn leave_thread(subject: &Subject) {
    thread::scope(|scope| {
        scope.spawn(|| {
            subject.fact("before_ns", now_ns());
            let request = guestscope_marker::request("left", 1);
            let inner = guestscope_marker::phase("inner");
            subject.fact("begun_ns", now_ns());
            burn(WORK_NS);
            std::mem::forget((inner, request));
            subject.fact("ending_ns", now_ns());
        });
    });
    subject.clerk(|clerk| clerk.book("after", 3, || burn(WORK_NS)));
}

/// Forks a child inside a phase: the child has phases of its own and ends before the parent's phase.
fn fork_inside(subject: &Subject) {
    subject.clerk(|clerk| {
        clerk.book("parent", 1, || {
            burn(WORK_NS);
            wait_for(fork_child(|| {
                subject.clerk(|clerk| clerk.book("child", 2, || burn(WORK_NS)));
                // A phase of the child that never ends, beside the parent's.
                std::mem::forget(guestscope_marker::request("left", 3));
            }));
        });
    });
}

/// A child with two threads is killed while both are inside phases, one spinning and one asleep.
fn killed(subject: &Subject) {
    let (mut reader, writer) = std::io::pipe().expect("descriptors are left");
    let child = fork_child(|| {
        let ready = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _request = guestscope_marker::request("asleep", 1);
                ready.wait();
                thread::sleep(Duration::from_mins(1));
            });
            ready.wait();
            let _request = guestscope_marker::request("spinning", 2);
            let _inner = guestscope_marker::phase("inner");
            subject.fact("begun_ns", now_ns());
            drop(writer);
            burn(u64::MAX);
        });
    });
    // The end of file comes when the child has closed its end of the pipe; ours was moved into the child's
    // closure and dropped.
    let _ = std::io::Read::read(&mut reader, &mut [0]);
    thread::sleep(Duration::from_millis(60));
    subject.fact("killing_ns", now_ns());
    kill(child, Signal::SIGKILL).expect("it is ours");
    books_of_the_dead(subject, child);
}

/// Arguments of clone3 that are used here (the kernel's `struct clone_args`, second version).
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_bytes: u64,
    tls: u64,
    set_tid: u64,
    set_tid_count: u64,
}

/// Forks a process with a chosen number. None if this is refused.
fn fork_as(number: Pid, body: impl FnOnce()) -> Option<Pid> {
    let number = number.as_raw();
    let arguments = CloneArguments {
        exit_signal: libc::SIGCHLD as u64,
        set_tid: &raw const number as u64,
        set_tid_count: 1,
        ..CloneArguments::default()
    };
    // SAFETY: the structure lives across the call; without flags this is a fork, and this program has one
    // thread.
    let child = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
    match child {
        0 => leave_after(body),
        child if child > 0 => Some(Pid::from_raw(child as i32)),
        _ => None,
    }
}

/// Two processes, one after the other, with the same number. Notes `refused` if the kernel does not allow it.
fn reuse(subject: &Subject) {
    let work = |number| move || subject.clerk(|clerk| clerk.book("work", number, || burn(WORK_NS)));
    let first = fork_child(work(1));
    wait_for(first);
    // A process can be waited for before its last switch; then its number is free, and its slot not yet.
    thread::sleep(Duration::from_millis(50));
    match fork_as(first, work(2)) {
        Some(second) => wait_for(second),
        None => subject.fact("refused", u64::from(std::io::Error::last_os_error().raw_os_error() != Some(0))),
    }
}

/// A child that is number 1 of a new PID namespace, with a thread and a child of its own.
fn namespace(subject: &Subject) {
    if unshare(CloneFlags::CLONE_NEWPID).is_err() {
        return subject.fact("refused", 1);
    }
    wait_for(fork_child(|| {
        note(subject);
        subject.fact("inner", u64::from(std::process::id()));
        subject.clerk(|clerk| clerk.book("first", 1, || burn(WORK_NS)));
        thread::scope(|scope| {
            scope.spawn(|| {
                note(subject);
                subject.clerk(|clerk| clerk.book("thread", 2, || burn(WORK_NS)));
            });
        });
        wait_for(fork_child(|| {
            note(subject);
            subject.clerk(|clerk| clerk.book("second", 3, || burn(WORK_NS)));
        }));
    }));
}

/// A thread marks a request, gives itself a name, and marks another one; then this thread renames it.
fn renamed(_: &Subject) {
    let (barrier, other) = (Barrier::new(2), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(guestscope_marker::request("before", 1));
            // SAFETY: a text that ends with a zero byte; the call copies it.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"a name of its own, too long".as_ptr()) };
            drop(guestscope_marker::request("after", 2));
            other.store(clerk::tid(), Relaxed);
            barrier.wait();
            barrier.wait();
            drop(guestscope_marker::request("by another", 3));
        });
        barrier.wait();
        let name = format!("/proc/self/task/{}/comm", other.load(Relaxed));
        std::fs::write(name, "given").expect("it is this process's");
        barrier.wait();
    });
}
