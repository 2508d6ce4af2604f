//! Asynchronous phases, polled by hand so that the order is exact: begin at the first poll, leave after each,
//! enter before the next, end at completion or drop.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod breakpoint;
mod wire;

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::{Context, Poll, Waker},
};

use breakpoint::edges;
use guestscope_marker::{in_phase, in_request, mark, phase};
use wire::script;

/// Suspends the caller once.
async fn yield_once() {
    let mut again = false;
    poll_fn(|_| if std::mem::replace(&mut again, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

async fn two_steps() {
    mark("one");
    yield_once().await;
    mark("two");
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[test]
fn nothing_begins_before_the_first_poll() {
    assert_eq!(edges(|| drop(in_request("r", 1, two_steps()))), []);
}

#[test]
fn interleaved_requests_are_left_and_entered() {
    let edges = edges(|| {
        let (mut first, mut second) =
            (pin!(in_request("a", 1, two_steps())), pin!(in_request("b", 2, two_steps())));
        assert!(first.as_mut().poll(&mut context()).is_pending());
        assert!(second.as_mut().poll(&mut context()).is_pending());
        assert!(first.as_mut().poll(&mut context()).is_ready());
        assert!(second.as_mut().poll(&mut context()).is_ready());
    });
    let expected = [
        "request 1.0 a 1 0",
        "mark 0 one",
        "leave 1.0",
        "request 2.0 b 2 0",
        "mark 0 one",
        "leave 2.0",
        "enter 1.0",
        "mark 0 two",
        "end 1.0",
        "enter 2.0",
        "mark 0 two",
        "end 2.0",
    ];
    assert_eq!(script(&edges), expected);
}

#[test]
fn nested_futures_leave_from_within_and_enter_from_without() {
    let edges = edges(|| {
        let mut future = pin!(in_request("r", 1, in_phase(String::from("p"), two_steps())));
        assert!(future.as_mut().poll(&mut context()).is_pending());
        phase("another task's").end();
        assert!(future.as_mut().poll(&mut context()).is_ready());
    });
    let expected = [
        "request 1.0 r 1 0",
        "begin 1.1 p 0",
        "mark 0 one",
        "leave 1.1",
        "leave 1.0",
        "begin 2.0 another task's 0",
        "end 2.0",
        "enter 1.0",
        "enter 1.1",
        "mark 0 two",
        "end 1.1",
        "end 1.0",
    ];
    assert_eq!(script(&edges), expected);
}

#[test]
fn a_future_dropped_halfway_ends_inside_out() {
    let edges = edges(|| {
        let mut future = Box::pin(in_request("r", 1, in_phase("p", two_steps())));
        assert!(future.as_mut().poll(&mut context()).is_pending());
        drop(future);
    });
    assert_eq!(script(&edges)[5..], ["enter 1.0", "enter 1.1", "end 1.1", "end 1.0"]);
}

#[test]
fn a_future_that_panics_is_left_and_ends_when_dropped() {
    let edges = edges(|| {
        let panics = async {
            yield_once().await;
            std::panic::resume_unwind(Box::new("wanted"));
        };
        let mut future = Box::pin(in_phase("p", panics));
        assert!(future.as_mut().poll(&mut context()).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context()))).is_err());
        drop(future);
        phase("after").end();
    });
    let expected = [
        "begin 1.0 p 0",
        "leave 1.0",
        "enter 1.0",
        "leave 1.0",
        "enter 1.0",
        "end 1.0",
        "begin 2.0 after 0",
        "end 2.0",
    ];
    assert_eq!(script(&edges), expected);
}

#[test]
fn a_future_may_change_its_thread() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let before = edges(|| {
        let mut future = Box::pin(in_request("r", 1, two_steps()));
        assert!(future.as_mut().poll(&mut context()).is_pending());
        sender.send(future).expect("the receiver is alive");
    });
    let mut future = receiver.recv().expect("sent above");
    let after = edges(|| assert!(future.as_mut().poll(&mut context()).is_ready()));
    assert_eq!(script(&before), ["request 1.0 r 1 0", "mark 0 one", "leave 1.0"]);
    assert_eq!(script(&after), ["enter 1.0", "mark 0 two", "end 1.0"]);
    assert_eq!(before[0].token(), after[0].token());
}
