//! Phases of synchronous code: a guard that ends its phase when it is dropped. Yields the Rust API except for
//! futures, which have their own file. A guard deliberately cannot be sent to another thread: `in_phase` is
//! for phases that move or await.

use core::{marker::PhantomData, mem::ManuallyDrop};

use crate::{call, ids::HEADER_BYTES};

/// An open phase or request. It ends when dropped.
#[derive(Debug)]
#[must_use = "the phase ends when the guard is dropped"]
pub struct Guard {
    token: u64,
    /// Nesting is counted per thread, so the end belongs on the thread of the beginning.
    stays_on_its_thread: PhantomData<*const ()>,
}

/// Begins a request: the outermost phase of its own trace, whatever is open on this thread.
#[inline]
pub fn request(name: &str, number: u64) -> Guard {
    request_scheduled(name, number, 0)
}

/// Begins a request that an open-loop load generator had scheduled for `scheduled_ns` on `CLOCK_MONOTONIC`
/// (0: not scheduled). The time between that and now is the request's phase `queue`.
#[inline]
pub fn request_scheduled(name: &str, number: u64, scheduled_ns: u64) -> Guard {
    // SAFETY: pointer and length are those of a string slice.
    Guard::new(unsafe { call::request(name.as_ptr(), name.len(), number, scheduled_ns) })
}

/// Begins a phase, inside the open phase of this thread, if any.
#[inline]
pub fn phase(name: &str) -> Guard {
    // SAFETY: pointer and length are those of a string slice.
    Guard::new(unsafe { call::begin(name.as_ptr(), name.len(), 0) })
}

/// Marks an event on this thread, inside its open phase, if any.
#[inline]
pub fn mark(name: &str) {
    // SAFETY: pointer and length are those of a string slice.
    unsafe { call::mark(name.as_ptr(), name.len()) }
}

/// The W3C `traceparent` header of the request (or outermost phase) that this thread is inside.
pub fn traceparent() -> Option<String> {
    call::traceparent(0).map(text)
}

/// The request (or outermost phase) that this thread is inside joins a trace of the program's own, under the
/// span `parent`. Ids are in the byte order of the header.
pub fn context(trace_id: [u8; 16], parent: [u8; 8]) {
    call::context(0, trace_id, parent);
}

fn text(header: [u8; HEADER_BYTES]) -> String {
    header.into_iter().map(char::from).collect()
}

impl Guard {
    fn new(token: u64) -> Self {
        Self { token, stays_on_its_thread: PhantomData }
    }

    /// Ends the phase, as dropping does.
    pub fn end(self) {}

    /// Begins the first phase of this request, at the very instant at which the request began. If the request
    /// has had a phase before, has been left since, or is not the innermost request of this thread, this is
    /// [`phase`]. The phase must end before the request.
    #[inline]
    pub fn first(&self, name: &str) -> Guard {
        // SAFETY: pointer and length are those of a string slice.
        Guard::new(unsafe { call::first(self.token, name.as_ptr(), name.len()) })
    }

    /// Ends this phase and begins the next one at the same instant: no time passes between the two, and one
    /// edge reports both. Outermost phases are separate traces: there it is two edges, an end and a begin.
    #[inline]
    pub fn next(self, name: &str) -> Guard {
        let token = ManuallyDrop::new(self).token;
        // SAFETY: pointer and length are those of a string slice.
        Guard::new(unsafe { call::next(token, name.as_ptr(), name.len()) })
    }

    /// Ends this phase and the one around it at the same instant.
    #[inline]
    pub fn end_with(self, outer: Guard) {
        call::end_both(ManuallyDrop::new(self).token, ManuallyDrop::new(outer).token);
    }

    /// Gives this phase another name, which is final.
    pub fn rename(&self, name: &str) {
        // SAFETY: pointer and length are those of a string slice.
        unsafe { call::rename(self.token, name.as_ptr(), name.len(), 0) };
    }

    /// The token of the phase, for `guestscope.h`'s functions in the same process. Never 0.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The W3C `traceparent` header that makes the callee's spans children of this phase.
    pub fn traceparent(&self) -> String {
        call::traceparent(self.token).map(text).unwrap_or_default()
    }

    /// This phase's request joins a trace of the program's own, under the span `parent`. Ids are in the byte
    /// order of the header. Call it before `traceparent`, whose ids it changes.
    pub fn context(&self, trace_id: [u8; 16], parent: [u8; 8]) {
        call::context(self.token, trace_id, parent);
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        call::end(self.token);
    }
}
