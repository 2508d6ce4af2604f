//! Phases of asynchronous code: a future that enters its phase at every poll and leaves it after. Yields
//! futures for any executor; tasks that take turns on a thread, or move between threads, are each charged
//! their own time. Nothing begins before the first poll. A phase deliberately ends at completion or drop,
//! whichever is first: the time from completion to the drop is not part of it.

use core::{
    mem::ManuallyDrop,
    pin::Pin,
    task::{Context, Poll},
};

use crate::call;

/// Makes `future` a phase called `name`: inside the phase that is open at its first poll, if any.
pub fn in_phase<F: Future>(name: impl AsRef<str>, future: F) -> impl Future<Output = F::Output> {
    // SAFETY: pointer and length are those of a string slice.
    InPhase::new(name, |name| unsafe { call::begin(name.as_ptr(), name.len(), 0) }, future)
}

/// Makes `future` a request called `name`: the outermost phase of its own trace.
pub fn in_request<F: Future>(
    name: impl AsRef<str>,
    number: u64,
    future: F,
) -> impl Future<Output = F::Output> {
    // SAFETY: pointer and length are those of a string slice.
    InPhase::new(name, move |name| unsafe { call::request(name.as_ptr(), name.len(), number, 0) }, future)
}

struct InPhase<N, B, F> {
    name: N,
    begin: B,
    stage: Stage,
    future: ManuallyDrop<F>,
}

#[derive(Clone, Copy)]
enum Stage {
    Unpolled,
    Left(u64),
    Ended,
}

/// Leaves the phase when the poll is over, also when it panics.
struct Inside(u64);

impl Drop for Inside {
    fn drop(&mut self) {
        call::leave(self.0);
    }
}

impl<N: AsRef<str>, B: Fn(&str) -> u64, F: Future> InPhase<N, B, F> {
    fn new(name: N, begin: B, future: F) -> Self {
        Self { name, begin, stage: Stage::Unpolled, future: ManuallyDrop::new(future) }
    }
}

impl<N: AsRef<str>, B: Fn(&str) -> u64, F: Future> Future for InPhase<N, B, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is never moved out of its place: it is polled below and dropped in place by
        // `drop`.
        let Self { name, begin, stage, future } = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above; `ManuallyDrop` is transparent to the address of what it holds.
        let future = unsafe { Pin::new_unchecked(&mut **future) };
        let token = match *stage {
            Stage::Unpolled => begin(name.as_ref()),
            Stage::Left(token) => {
                call::enter(token);
                token
            }
            Stage::Ended => return future.poll(context),
        };
        *stage = Stage::Left(token);
        let inside = Inside(token);
        let result = future.poll(context);
        if result.is_ready() {
            core::mem::forget(inside);
            *stage = Stage::Ended;
            call::end(token);
        }
        result
    }
}

impl<N, B, F> Drop for InPhase<N, B, F> {
    fn drop(&mut self) {
        // A future that is dropped half-way (a timeout, a lost race) may contain phases that end now, inside
        // this one, so it is entered once more and dropped before the end.
        if let Stage::Left(token) = self.stage {
            call::enter(token);
        }
        // SAFETY: nothing touches the future after this, and it was not dropped before.
        unsafe { ManuallyDrop::drop(&mut self.future) };
        if let Stage::Left(token) = self.stage {
            call::end(token);
        }
    }
}
