//! Functions of CUPTI, by the names and types of its documentation.

use core::{
    cell::UnsafeCell,
    ffi::{CStr, c_void},
    mem, ptr,
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Release},
    },
};

use super::{library::Library, system};

/// CUPTI's `CUptiResult`; 0 is success.
pub(crate) type Outcome = u32;
/// CUPTI_ERROR_UNKNOWN.
const UNKNOWN: Outcome = 999;
/// CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM: the kernel's number of a thread.
const OF_THE_KERNEL: u32 = 1;
/// CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT.
const BY_DEFAULT: u32 = 0;
/// CUPTI_ACTIVITY_FLAG_FLUSH_FORCED.
const FORCED: u32 = 1;

/// Asks for a buffer.
pub(crate) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Hands over a buffer: context, stream, buffer, its size, bytes of records in it.
pub(crate) type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// Kinds of records (`CUpti_ActivityKind`).
pub(crate) mod kind {
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const MEMSET: u32 = 2;
    pub(crate) const KERNEL: u32 = 3;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const CONCURRENT_KERNEL: u32 = 10;
    pub(crate) const MEMCPY_PEER: u32 = 22;
    pub(crate) const GRAPH: u32 = 51;
}

type Nothing = unsafe extern "C" fn();

/// The functions.
pub(crate) struct Cupti {
    library: Library,
    version: unsafe extern "C" fn(*mut u32) -> Outcome,
    subscribe: unsafe extern "C" fn(*mut *mut c_void, Nothing, *mut c_void) -> Outcome,
    unsubscribe: unsafe extern "C" fn(*mut c_void) -> Outcome,
    register: unsafe extern "C" fn(Request, Complete) -> Outcome,
    enable: unsafe extern "C" fn(u32) -> Outcome,
    disable: unsafe extern "C" fn(u32) -> Outcome,
    flush: unsafe extern "C" fn(u32) -> Outcome,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> Outcome,
    dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Outcome,
    timestamp: Option<unsafe extern "C" fn(extern "C" fn() -> u64) -> Outcome>,
    thread_ids: Option<unsafe extern "C" fn(u32) -> Outcome>,
}

/// The functions that were found.
struct Found {
    is_there: AtomicBool,
    cupti: UnsafeCell<Option<Cupti>>,
}

// SAFETY: written once, before the flag is set, and read afterwards.
unsafe impl Sync for Found {}

static FOUND: Found = Found { is_there: AtomicBool::new(false), cupti: UnsafeCell::new(None) };

/// A function of CUPTI of the type that its place asks for; returns none if it is missing.
macro_rules! function {
    ($library:expr, $name:literal) => {{
        let found = $library.function($name);
        if found.is_null() {
            return None;
        }
        // SAFETY: a function of this name has this type in all versions of CUPTI that are supported.
        unsafe { mem::transmute::<*mut c_void, _>(found) }
    }};
}
macro_rules! optional {
    ($library:expr, $name:literal) => {{
        let found = $library.function($name);
        // SAFETY: as above; null is none.
        unsafe { mem::transmute::<*mut c_void, Option<_>>(found) }
    }};
}

extern "C" fn now() -> u64 {
    system::now_ns()
}

/// The clock that CUPTI documents for those who register none.
extern "C" fn wall() -> u64 {
    system::wall_ns()
}

/// The subscriber's function, which is asked for nothing.
unsafe extern "C" fn nothing() {}

impl Cupti {
    /// Finds it, for all later calls of [`Self::found`]. Call it once.
    pub(crate) fn find() -> Option<&'static Self> {
        let cupti = Self::of(Library::find()?)?;
        // SAFETY: nobody reads it before the flag is set, and nothing is written afterwards.
        unsafe { *FOUND.cupti.get() = Some(cupti) };
        FOUND.is_there.store(true, Release);
        Self::found()
    }

    /// The one that was found.
    pub(crate) fn found() -> Option<&'static Self> {
        if !FOUND.is_there.load(Acquire) {
            return None;
        }
        // SAFETY: written for good before the flag was set.
        unsafe { (*FOUND.cupti.get()).as_ref() }
    }

    fn of(library: Library) -> Option<Self> {
        Some(Self {
            library,
            version: function!(library, c"cuptiGetVersion"),
            subscribe: function!(library, c"cuptiSubscribe"),
            unsubscribe: function!(library, c"cuptiUnsubscribe"),
            register: function!(library, c"cuptiActivityRegisterCallbacks"),
            enable: function!(library, c"cuptiActivityEnable"),
            disable: function!(library, c"cuptiActivityDisable"),
            flush: function!(library, c"cuptiActivityFlushAll"),
            next: function!(library, c"cuptiActivityGetNextRecord"),
            dropped: function!(library, c"cuptiActivityGetNumDroppedRecords"),
            timestamp: optional!(library, c"cuptiActivityRegisterTimestampCallback"),
            thread_ids: optional!(library, c"cuptiSetThreadIdType"),
        })
    }

    /// Name by which the library was found.
    pub(crate) fn name(&self) -> &'static CStr {
        self.library.name
    }

    /// CUPTI's version; 0 if it does not say.
    pub(crate) fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: room for the number.
        unsafe { (self.version)(&raw mut version) };
        version
    }

    /// Becomes the only client. The handle is for [`Self::unsubscribe`].
    pub(crate) fn subscribe(&self) -> Result<*mut c_void, Outcome> {
        let mut subscriber = ptr::null_mut();
        // SAFETY: room for the handle. The function is called for no event, since none is enabled.
        let outcome = unsafe { (self.subscribe)(&raw mut subscriber, nothing, ptr::null_mut()) };
        if outcome == 0 { Ok(subscriber) } else { Err(outcome) }
    }

    /// Makes room for another client.
    pub(crate) fn unsubscribe(&self, subscriber: *mut c_void) {
        // SAFETY: a handle of `subscribe`.
        unsafe { (self.unsubscribe)(subscriber) };
    }

    /// Sets the functions for buffers, the clock, and the kind of numbers of threads.
    pub(crate) fn register(&self, request: Request, complete: Complete) -> Result<(), Outcome> {
        // The clock must be known before anything is recorded.
        let Some(timestamp) = self.timestamp else { return Err(UNKNOWN) };
        // SAFETY: functions of the types that CUPTI documents, which stay loaded.
        let outcomes = unsafe { [timestamp(now), (self.register)(request, complete)] };
        if let Some(thread_ids) = self.thread_ids {
            // SAFETY: an integer.
            unsafe { thread_ids(OF_THE_KERNEL) };
        }
        outcomes.into_iter().find(|outcome| *outcome != 0).map_or(Ok(()), Err)
    }

    /// Sets clock and numbers of threads back: other clients expect CUPTI's own.
    pub(crate) fn set_back(&self) {
        if let Some(timestamp) = self.timestamp {
            // SAFETY: a function of the type that CUPTI documents, which stays loaded.
            unsafe { timestamp(wall) };
        }
        if let Some(thread_ids) = self.thread_ids {
            // SAFETY: an integer.
            unsafe { thread_ids(BY_DEFAULT) };
        }
    }

    /// Records this kind from now on.
    pub(crate) fn enable(&self, kind: u32) -> Result<(), Outcome> {
        // SAFETY: an integer.
        match unsafe { (self.enable)(kind) } {
            0 => Ok(()),
            outcome => Err(outcome),
        }
    }

    /// Records it no more.
    pub(crate) fn disable(&self, kind: u32) {
        // SAFETY: an integer.
        unsafe { (self.disable)(kind) };
    }

    /// Hands over buffers; `is_last`: also those with records of work that has not ended.
    pub(crate) fn flush(&self, is_last: bool) -> Result<(), Outcome> {
        // SAFETY: an integer.
        match unsafe { (self.flush)(if is_last { FORCED } else { 0 }) } {
            0 => Ok(()),
            outcome => Err(outcome),
        }
    }

    /// The record of a buffer behind this one; the first one behind null, null behind the last one.
    ///
    /// # Safety
    /// The buffer is one that CUPTI has handed over, with so many bytes of records, and `record` lies in it.
    pub(crate) unsafe fn next(&self, buffer: *mut u8, bytes: usize, record: *mut u8) -> *mut u8 {
        let mut record = record;
        // SAFETY: the caller's.
        let outcome = unsafe { (self.next)(buffer, bytes, &raw mut record) };
        if outcome == 0 { record } else { ptr::null_mut() }
    }

    /// Records that CUPTI has dropped since it was last asked.
    pub(crate) fn dropped(&self, context: *mut c_void, stream: u32) -> u64 {
        let mut count = 0;
        // SAFETY: what CUPTI itself passed with a buffer, and room for the number.
        let outcome = unsafe { (self.dropped)(context, stream, &raw mut count) };
        if outcome == 0 { count as u64 } else { 0 }
    }
}
