//! The device that does not exist: streams, on each of which one piece of work follows the other.
//!
//! What is called and what "runs" is told to the stub of CUPTI, if that asked for it (`stub_hook`).

use std::{
    ffi::{CString, c_char, c_void},
    ptr,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use crate::waiting::clock_ns;

/// Kinds of records, as CUPTI numbers them.
pub(crate) const COPY: u32 = 1;
pub(crate) const GRAPH: u32 = 51;
const KERNEL: u32 = 10;
const CALL: u32 = 5;
const STREAMS: usize = 16;
/// From a call to the start of its work on an idle stream, ns.
const DISPATCH_NS: u64 = 5_000;

/// As the stub of CUPTI has it.
#[repr(C)]
pub struct Done {
    kind: u32,
    correlation: u32,
    place: u32,
    copy: u32,
    start_ns: u64,
    end_ns: u64,
    bytes: u64,
    name: *const c_char,
}

pub(crate) type Hook = extern "C" fn(*const Done);

static HOOK: OnceLock<Hook> = OnceLock::new();
static CORRELATION: AtomicU32 = AtomicU32::new(1);
/// When the last work of each stream ends, ns.
static ENDS: Mutex<[u64; STREAMS]> = Mutex::new([0; STREAMS]);

/// A kernel: its name, and how long it runs. None: as long as its first parameter says, ns.
struct Kernel {
    name: CString,
    ns: Option<u64>,
}

/// Work that a call asks for.
pub(crate) struct Asked {
    pub(crate) kind: u32,
    pub(crate) stream: usize,
    pub(crate) ns: u64,
    /// Kind of a copy, and its bytes.
    pub(crate) copy: (u32, u64),
    pub(crate) name: *const c_char,
}

/// Runs a call that asks for work, and tells both.
pub(crate) fn call(asked: &Asked, body: impl FnOnce()) {
    let begin_ns = clock_ns(libc::CLOCK_MONOTONIC);
    body();
    let start_ns = begin_ns + DISPATCH_NS;
    let (start_ns, end_ns) = {
        let mut ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
        let end_ns = &mut ends[asked.stream % STREAMS];
        let start_ns = start_ns.max(*end_ns);
        *end_ns = start_ns + asked.ns;
        (start_ns, *end_ns)
    };
    let Some(hook) = HOOK.get() else { return };
    let correlation = CORRELATION.fetch_add(1, Relaxed);
    // SAFETY: takes nothing.
    let place = unsafe { libc::gettid() } as u32;
    let end = clock_ns(libc::CLOCK_MONOTONIC);
    let (kind, copy, bytes, name) = (CALL, 0, 0, ptr::null());
    hook(&Done { kind, correlation, place, copy, start_ns: begin_ns, end_ns: end, bytes, name });
    let ((copy, bytes), kind) = (asked.copy, asked.kind);
    let place = 7 + (asked.stream % STREAMS) as u32;
    hook(&Done { kind, correlation, place, copy, start_ns, end_ns, bytes, name: asked.name });
}

/// When the last work of a stream ends.
pub(crate) fn end_ns(stream: usize) -> u64 {
    ENDS.lock().unwrap_or_else(PoisonError::into_inner)[stream % STREAMS]
}

/// The stream that a handle means: its number above the low three bits.
pub(crate) fn stream(handle: *const c_void) -> usize {
    handle.addr() >> 3
}

/// Launches a kernel.
///
/// # Safety
/// `kernel` is one of [`kernel`]; `parameters` is null, or the first of its pointers points to 8 bytes.
pub(crate) unsafe fn launch(kernel: *const c_void, handle: *const c_void, parameters: *const *const u64) {
    // SAFETY: the caller's; kernels are never freed.
    let kernel = unsafe { &*kernel.cast::<Kernel>() };
    let first = || {
        // SAFETY: the caller's; the bytes may lie anywhere.
        if parameters.is_null() { 0 } else { unsafe { (*parameters).read_unaligned() } }
    };
    let asked = Asked {
        kind: KERNEL,
        stream: stream(handle),
        ns: kernel.ns.unwrap_or_else(first),
        copy: (0, 0),
        name: kernel.name.as_ptr(),
    };
    call(&asked, || ());
}

/// Makes a kernel that runs so long, or as long as its first parameter says; it is never freed.
pub(crate) fn kernel(name: CString, ns: Option<u64>) -> *const c_void {
    ptr::from_ref(Box::leak(Box::new(Kernel { name, ns }))).cast()
}

/// From now on `hook` is called for each call and each piece of work.
pub(crate) fn tell(hook: Hook) {
    let _ = HOOK.set(hook);
}
