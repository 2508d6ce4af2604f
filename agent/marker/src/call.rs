//! The calls, shared by the C ABI and the Rust API: pointers and tokens in, edges out. Implements what
//! `guestscope.h` documents. It deliberately does not check arguments: a wrong token is passed on, and the
//! agent counts it.

use crate::{
    edge::{self, Operation},
    ids::{self, HEADER_BYTES, TraceId},
    joined::{JOINED, TOLD},
    process, thread, token,
};

/// The source number of a program's own marks.
const MARKER: u8 = 0;

/// A phase begins on this thread; returns its token, which is never 0. `request` is a number to show, 0 for
/// none.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[inline]
pub unsafe fn begin(name: *const u8, len: usize, request: u64) -> u64 {
    // SAFETY: promised by the caller.
    unsafe { begin_from(MARKER, name, len, request) }
}

/// The same for the source with this number.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[inline]
pub unsafe fn begin_from(source: u8, name: *const u8, len: usize, request: u64) -> u64 {
    // SAFETY: promised by the caller.
    let len = edge::with_source(source, unsafe { edge::touch(name, len) });
    thread::with(|thread| {
        let token = thread.begin();
        thread.fire(Operation::Begin, [token, name as u64, len, request, 0]);
        token
    })
}

/// The same for a detail, which is no phase where the thread is inside none: the inside of a library, on its
/// own threads as well.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[doc(hidden)]
#[inline]
pub unsafe fn begin_detail(source: u8, name: *const u8, len: usize, request: u64) -> u64 {
    // SAFETY: promised by the caller.
    let len = edge::with_source(source, unsafe { edge::touch(name, len) }) | edge::DETAIL;
    thread::with(|thread| {
        let token = thread.begin();
        thread.fire(Operation::Begin, [token, name as u64, len, request, 0]);
        token
    })
}

/// A request begins on this thread: always a root. `scheduled_ns` is its scheduled start on
/// `CLOCK_MONOTONIC`, 0 where there is no schedule.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[inline]
pub unsafe fn request(name: *const u8, len: usize, request: u64, scheduled_ns: u64) -> u64 {
    // SAFETY: promised by the caller.
    unsafe { request_from(MARKER, name, len, request, scheduled_ns) }
}

/// The same for the source with this number.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[inline]
pub unsafe fn request_from(source: u8, name: *const u8, len: usize, request: u64, scheduled_ns: u64) -> u64 {
    // SAFETY: promised by the caller.
    let len = edge::with_source(source, unsafe { edge::touch(name, len) });
    thread::with(|thread| {
        let token = thread.begin_root();
        thread.fire(Operation::Request, [token, name as u64, len, request, scheduled_ns]);
        token
    })
}

/// The phase of `token` ends; 0 is the innermost of this thread.
#[inline]
pub fn end(token: u64) {
    thread::with(|thread| {
        let outside = thread.close(token);
        thread.fire(Operation::End, [token, outside, 0, 0, 0]);
    });
    forget(token);
}

/// The phase of `token`, which was left, ends: this thread is not inside it. 0 does nothing.
#[cfg(feature = "tracing")]
pub(crate) fn end_left(token: u64) {
    if token != 0 {
        thread::with(|thread| thread.fire(Operation::End, [token, edge::AS_BEFORE, 0, 0, 0]));
        forget(token);
    }
}

/// Forgets the trace of a root that has ended.
#[inline]
fn forget(token: u64) {
    if token::is_root(token) {
        JOINED.remove(token);
    }
}

/// The first phase of the request `root` begins, at the instant at which the request did. If the request has
/// had a phase before, has been left since, or is not the innermost root of this thread, the phase begins
/// now.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[inline]
pub unsafe fn first(root: u64, name: *const u8, len: usize) -> u64 {
    // SAFETY: promised by the caller.
    let len = edge::with_source(MARKER, unsafe { edge::touch(name, len) });
    thread::with(|thread| {
        let joined = if thread.is_untouched(root) { root } else { 0 };
        let token = thread.begin();
        thread.fire(Operation::Begin, [token, name as u64, len, 0, joined]);
        token
    })
}

/// The phase of `token` ends, and another one begins at the same instant. An outermost phase is a separate
/// trace, and the innermost phase (0) is unknown here: for these the end is a separate edge.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[inline]
pub unsafe fn next(token: u64, name: *const u8, len: usize) -> u64 {
    if token == 0 || token::is_root(token) {
        end(token);
        // SAFETY: promised by the caller.
        return unsafe { begin(name, len, 0) };
    }
    // SAFETY: promised by the caller.
    let len = edge::with_source(MARKER, unsafe { edge::touch(name, len) });
    thread::with(|thread| {
        let outside = thread.close(token);
        let joined = if thread.root() == token::root(token) {
            token
        } else {
            // The phase around belongs to another request, and an edge is about one.
            thread.fire(Operation::End, [token, outside, 0, 0, 0]);
            0
        };
        let begun = thread.begin();
        thread.fire(Operation::Begin, [begun, name as u64, len, 0, joined]);
        begun
    })
}

/// The phases of both tokens end at the same instant, `inner` within `outer`. Where one is 0, the innermost
/// phase, each end is a separate edge: only the reader of edges can tell which phase that is, and only for
/// one at a time. So it is where they belong to different requests.
#[inline]
pub fn end_both(inner: u64, outer: u64) {
    if inner == 0 || outer == 0 || token::root(inner) != token::root(outer) {
        end(inner);
        return end(outer);
    }
    thread::with(|thread| {
        thread.close(inner);
        let outside = thread.close(outer);
        thread.fire(Operation::End, [outer, outside, inner, 0, 0]);
    });
    forget(inner);
    forget(outer);
}

/// The phase of `token` is suspended, or about to move to another thread. 0 does nothing.
#[inline]
pub fn leave(token: u64) {
    if token != 0 {
        thread::with(|thread| {
            let outside = thread.close(token);
            thread.fire(Operation::Leave, [token, outside, 0, 0, 0]);
        });
    }
}

/// The phase of `token`, which was left, continues here. 0 does nothing.
#[inline]
pub fn enter(token: u64) {
    if token != 0 {
        thread::with(|thread| {
            thread.enter(token);
            thread.fire(Operation::Enter, [token, 0, 0, 0, 0]);
        });
    }
}

/// The root of `token` joins the trace `trace_id` under the span `parent`; 0 is the root that this thread is
/// inside. Nothing happens outside all roots, or for a trace id of zeros, which W3C Trace Context forbids.
pub fn context(token: u64, trace_id: [u8; 16], parent: [u8; 8]) {
    let whole = u128::from_be_bytes(trace_id);
    let trace = TraceId { high: (whole >> 64) as u64, low: whole as u64 };
    thread::with(|thread| {
        let token = if token == 0 { thread.root() } else { token };
        if token != 0 && trace.is_valid() {
            JOINED.insert(token::root(token), trace);
            thread.fire(Operation::Context, [token, trace.high, trace.low, u64::from_be_bytes(parent), 0]);
        }
    });
}

/// The phase of `token` is a child of the program's own span `span`, in the trace `trace_id`. Its request
/// joins that trace if it is in none. Nothing happens for the token 0, or for a trace id of zeros.
pub fn parent(token: u64, trace_id: [u8; 16], span: [u8; 8]) {
    let whole = u128::from_be_bytes(trace_id);
    if token != 0 && whole != 0 {
        let arguments =
            [token, (whole >> 64) as u64, whole as u64, u64::from_be_bytes(span), edge::OF_THE_PHASE];
        thread::with(|thread| thread.fire(Operation::Context, arguments));
    }
}

/// The `traceparent` header of `token`; 0 is the root that this thread is inside. None outside all roots.
pub fn traceparent(token: u64) -> Option<[u8; HEADER_BYTES]> {
    thread::with(|thread| {
        let token = if token == 0 { thread.root() } else { token };
        if token == 0 {
            return None;
        }
        let seed = process::seed();
        let root = token::root(token);
        let trace = JOINED.get(root).unwrap_or_else(|| ids::derived_trace(seed, root));
        let span = ids::span(seed, token);
        if TOLD.is_new(token, trace) {
            thread.fire(Operation::Identity, [token, trace.high, trace.low, span, 0]);
        }
        Some(ids::header(trace, span))
    })
}

/// Something happened on this thread.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[inline]
pub unsafe fn mark(name: *const u8, len: usize) {
    // SAFETY: promised by the caller.
    let len = edge::with_source(MARKER, unsafe { edge::touch(name, len) });
    thread::with(|thread| thread.fire(Operation::Mark, [0, name as u64, len, 0, 0]));
}

/// The open phase of `token` gets its final name (a length of 0: it keeps its own), and a status code, 0 for
/// none. The token 0 does nothing.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[inline]
pub unsafe fn rename(token: u64, name: *const u8, len: usize, status: u64) {
    if token == 0 {
        return;
    }
    // SAFETY: promised by the caller.
    let len = edge::with_source(MARKER, unsafe { edge::touch(name, len) });
    thread::with(|thread| thread.fire(Operation::Rename, [token, name as u64, len, status, 0]));
}

/// A message of a source: `+` and what it found, or `!` and what it could not, and why. At most 64 bytes are
/// read.
///
/// # Safety
/// `text` is null or points to `len` readable bytes.
pub unsafe fn tell(source: u8, text: *const u8, len: usize) {
    // SAFETY: promised by the caller.
    let len = edge::with_source(source, unsafe { edge::touch(text, len) });
    thread::with(|thread| thread.fire(Operation::Tell, [0, text as u64, len, 0, 0]));
}

/// A number, never 0, that differs between a process and its forked children. For libraries that keep their
/// own open ranges.
#[doc(hidden)]
#[inline]
pub fn process() -> u32 {
    thread::with(thread::Thread::process)
}
