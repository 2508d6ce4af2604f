//! Cases with many threads: thousands one after the other, and more at once than slots.

use std::{sync::Barrier, thread, time::Duration};

use nix::unistd::{ForkResult, fork};

use crate::{Case, Subject, burn, lives::books_of_the_dead};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[("churn", churn), ("churn_unread", churn_unread), ("crowd", crowd)];

/// Threads that live at a time in `churn`.
const AT_ONCE: u64 = 8;
/// Rounds whose starts and ends fit into the ring of events, of which they take a third.
const ROUNDS_IN_RING: u64 = 64;

/// A forked child starts and joins as many threads as the first argument says, each with one phase. The test
/// reads starts and ends in between.
fn churn(subject: &Subject) {
    come_and_go(subject, true);
}

/// As `churn`, while nobody reads until the child has ended.
fn churn_unread(subject: &Subject) {
    come_and_go(subject, false);
}

fn come_and_go(subject: &Subject, is_read: bool) {
    let threads = subject.argument(0);
    // SAFETY: this program has one thread, so the child may do what it likes.
    match unsafe { fork() }.expect("processes are left") {
        ForkResult::Child => {
            for round in 0..threads / AT_ONCE {
                thread::scope(|scope| {
                    for thread in 0..AT_ONCE {
                        scope.spawn(move || {
                            guestscope_marker::request("short", round * AT_ONCE + thread + 1).end();
                        });
                    }
                });
                if is_read && round % ROUNDS_IN_RING == ROUNDS_IN_RING - 1 {
                    subject.fact("rounds", round + 1);
                    subject.wait_until_read();
                }
            }
            // SAFETY: ends the child without running what the parent registered for its own end.
            unsafe { libc::_exit(0) };
        }
        ForkResult::Parent { child } => books_of_the_dead(subject, child),
    }
}

/// As many threads as the first argument says, all at once, each with one phase; then one more phase of the
/// leader, which existed before them.
fn crowd(subject: &Subject) {
    let threads = subject.argument(0);
    guestscope_marker::request("leader", 1).end();
    let ready = Barrier::new(threads as usize);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                ready.wait();
                let request = guestscope_marker::request("one of many", 2);
                burn(100_000);
                request.end();
                ready.wait();
            });
        }
    });
    // A slot is free after its thread's last switch, a little after the join.
    thread::sleep(Duration::from_millis(50));
    subject.clerk(|clerk| clerk.book("leader", 3, || burn(1_000_000)));
    thread::scope(|scope| {
        scope.spawn(|| guestscope_marker::request("late", 4).end());
    });
}
