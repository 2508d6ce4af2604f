//! libcupti_stub.so: as much of CUPTI as the agent's library asks for, for machines without a GPU.
//!
//! It records the calls and the work of libcuda_stub.so, which says what "ran" (`stub_hook`), as records laid
//! out as those of CUPTI 12.1. STUB_CUPTI says how it behaves: `refuse:RESULT` (no kind can be enabled),
//! `taken` (another client is there), `hang` (a flush never returns), `drop` (each buffer after the first
//! with work is lost), `crash` (a flush ends the process). Names are those of CUPTI's documentation; nothing
//! is copied from NVIDIA's headers.

use std::{
    env,
    ffi::{c_char, c_void},
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

const MAX_LIMIT_REACHED: u32 = 12;
const INVALID_OPERATION: u32 = 7;
const MULTIPLE_SUBSCRIBERS: u32 = 39;
/// Bytes of records: kernels, copies, fills, graphs, calls.
const KERNEL: usize = 208;
const COPY: usize = 88;
const SET: usize = 88;
const GRAPH: usize = 48;
const CALL: usize = 40;

/// Something that libcuda_stub.so did; `kind` as CUPTI numbers kinds of records.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Done {
    /// 10 kernel, 1 copy, 2 fill, 51 graph, 5 call.
    pub kind: u32,
    /// Number that a call and its work share.
    pub correlation: u32,
    /// Stream, or thread of a call.
    pub place: u32,
    /// CUPTI's kind of the copy.
    pub copy: u32,
    /// Times by the clock that was registered, ns.
    pub start_ns: u64,
    /// End; for work that runs still it lies ahead.
    pub end_ns: u64,
    /// Bytes copied or filled.
    pub bytes: u64,
    /// The kernel's name, a C string for good.
    pub name: *const c_char,
}

// SAFETY: the name is never changed.
unsafe impl Send for Done {}

type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
type Hook = extern "C" fn(*const Done);

#[derive(Default)]
struct State {
    enabled: u64,
    client: Option<(Request, Complete)>,
    clock: Option<extern "C" fn() -> u64>,
    done: Vec<Done>,
    is_hooked: bool,
    dropped: usize,
    has_subscriber: bool,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// Buffers with work that were handed over.
static BUFFERS: AtomicU64 = AtomicU64::new(0);

fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    body(state.get_or_insert_default())
}

fn behaviour() -> String {
    env::var("STUB_CUPTI").unwrap_or_default()
}

fn bit(kind: u32) -> u64 {
    1 << kind.min(63)
}

/// libcuda_stub.so calls this for all that it does.
extern "C" fn note(done: *const Done) {
    // SAFETY: a structure of the caller's, which lives across the call.
    let done = unsafe { *done };
    with(|state| {
        if state.enabled & bit(done.kind) != 0 {
            state.done.push(done);
        }
    });
}

/// Asks libcuda_stub.so to call [`note`].
fn hook() {
    // SAFETY: a C string; the function's type is the other stub's.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"stub_hook".as_ptr()) };
    let found = if found.is_null() { loaded_privately() } else { found };
    if !found.is_null() {
        // SAFETY: as above.
        let stub_hook: extern "C" fn(Hook) = unsafe { std::mem::transmute(found) };
        stub_hook(note);
    }
}

/// The other stub's function where its names are not those of the whole program.
fn loaded_privately() -> *mut c_void {
    let Ok(path) = env::var("STUB_CUDA") else { return ptr::null_mut() };
    let Ok(path) = std::ffi::CString::new(path) else { return ptr::null_mut() };
    // SAFETY: C strings; the library is loaded already.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if library.is_null() { ptr::null_mut() } else { libc::dlsym(library, c"stub_hook".as_ptr()) }
    }
}

macro_rules! exported {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $body:block)*) => { $(
        /// As in CUPTI.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> u32 $body
    )* };
}

exported! {
    fn cuptiGetVersion(version: *mut u32) {
        // SAFETY: the caller's room.
        unsafe { *version = 18 };
        0
    }
    fn cuptiSubscribe(subscriber: *mut *mut c_void, _callback: *const c_void, _data: *mut c_void) {
        if behaviour() == "taken" {
            return MULTIPLE_SUBSCRIBERS;
        }
        // SAFETY: the caller's room; the handle means nothing.
        unsafe { *subscriber = ptr::without_provenance_mut(8) };
        with(|state| if std::mem::replace(&mut state.has_subscriber, true) { MULTIPLE_SUBSCRIBERS } else { 0 })
    }
    fn cuptiUnsubscribe(_subscriber: *mut c_void) {
        with(|state| state.has_subscriber = false);
        0
    }
    fn cuptiSetThreadIdType(kind: u32) {
        u32::from(kind > 1)
    }
    fn cuptiActivityRegisterTimestampCallback(clock: extern "C" fn() -> u64) {
        with(|state| state.clock = Some(clock));
        0
    }
    fn cuptiActivityRegisterCallbacks(request: Request, complete: Complete) {
        with(|state| state.client = Some((request, complete)));
        0
    }
    fn cuptiActivityEnable(kind: u32) {
        if let Some(result) = behaviour().strip_prefix("refuse:") {
            return result.parse().unwrap_or(INVALID_OPERATION);
        }
        let is_first = with(|state| {
            state.enabled |= bit(kind);
            !std::mem::replace(&mut state.is_hooked, true)
        });
        if is_first {
            hook();
        }
        0
    }
    fn cuptiActivityDisable(kind: u32) {
        with(|state| state.enabled &= !bit(kind));
        0
    }
    fn cuptiActivityFlushAll(flags: u32) {
        match behaviour().as_str() {
            "hang" => loop {
                thread::sleep(Duration::from_secs(1));
            },
            "crash" if flags == 0 => std::process::abort(),
            _ => {}
        }
        let (done, client) = with(|state| {
            let now_ns = state.clock.map_or(u64::MAX, |clock| clock());
            // What runs still stays, or has no end where it must go.
            let (over, running): (Vec<Done>, _) =
                state.done.drain(..).partition(|done| flags != 0 || done.end_ns <= now_ns);
            state.done = running;
            let over = over.into_iter().map(|done| Done {
                end_ns: if done.end_ns <= now_ns { done.end_ns } else { 0 },
                ..done
            });
            (over.collect::<Vec<_>>(), state.client)
        });
        client.map_or(INVALID_OPERATION, |client| {
            hand_over(&done, client);
            0
        })
    }
    fn cuptiActivityGetNextRecord(buffer: *mut u8, bytes: usize, record: *mut *mut u8) {
        // SAFETY: the caller passes a buffer of ours with so many bytes of records, and a record in it.
        unsafe {
            let next = if (*record).is_null() { buffer } else { (*record).add(size(*record)) };
            if next.addr() - buffer.addr() >= bytes {
                return MAX_LIMIT_REACHED;
            }
            *record = next;
        }
        0
    }
    fn cuptiActivityGetNumDroppedRecords(_context: *mut c_void, _stream: u32, count: *mut usize) {
        // SAFETY: the caller's room.
        unsafe { *count = with(|state| std::mem::take(&mut state.dropped)) };
        0
    }
}

/// # Safety
/// A record of ours.
unsafe fn size(record: *const u8) -> usize {
    // SAFETY: every record begins with its kind.
    match unsafe { record.cast::<u32>().read_unaligned() } {
        10 => KERNEL,
        1 => COPY,
        2 => SET,
        51 => GRAPH,
        _ => CALL,
    }
}

/// Fills the client's buffers. Work before the calls that asked for it: CUPTI promises no order.
fn hand_over(done: &[Done], (request, complete): (Request, Complete)) {
    let (calls, works): (Vec<&Done>, Vec<&Done>) = done.iter().partition(|done| done.kind == 5);
    let has_work = !works.is_empty();
    let mut records = works.into_iter().chain(calls).map(record).peekable();
    while records.peek().is_some() {
        let (mut buffer, mut bytes, mut most) = (ptr::null_mut(), 0, 0);
        request(&raw mut buffer, &raw mut bytes, &raw mut most);
        let is_lost = behaviour() == "drop" && BUFFERS.load(Relaxed) > 0;
        if buffer.is_null() || is_lost {
            let lost = records.by_ref().count();
            with(|state| state.dropped += lost);
            if !buffer.is_null() {
                complete(ptr::null_mut(), 0, buffer, bytes, 0);
            }
            return;
        }
        let mut used = 0;
        while let Some(record) = records.next_if(|record| used + record.len() <= bytes) {
            // SAFETY: inside the client's buffer.
            unsafe { buffer.add(used).copy_from_nonoverlapping(record.as_ptr(), record.len()) };
            used += record.len();
        }
        complete(ptr::null_mut(), 0, buffer, bytes, used);
        // The first time may be between a call and the end of its work.
        BUFFERS.fetch_add(u64::from(has_work), Relaxed);
    }
}

/// A record as CUPTI 12.1 lays it out.
fn record(done: &Done) -> Vec<u8> {
    let words = |size: usize, small: &[(usize, u32)], large: &[(usize, u64)]| {
        let mut bytes = vec![0; size];
        for (at, word) in small.iter().chain(&[(0, done.kind)]) {
            bytes[*at..*at + 4].copy_from_slice(&word.to_le_bytes());
        }
        for (at, word) in large {
            bytes[*at..*at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    };
    let Done { correlation, place, start_ns, end_ns, bytes, .. } = *done;
    match done.kind {
        10 => words(
            KERNEL,
            &[(44, 1), (48, place), (92, correlation)],
            &[(16, start_ns), (24, end_ns), (104, done.name.addr() as u64)],
        ),
        1 | 2 => words(
            if done.kind == 1 { COPY } else { SET },
            &[(4, done.copy), (36, 1), (40, place), (44, correlation)],
            &[(8, bytes), (16, start_ns), (24, end_ns)],
        ),
        51 => words(GRAPH, &[(4, correlation), (32, 1), (36, place)], &[(8, start_ns), (16, end_ns)]),
        _ => words(
            CALL,
            &[(24, std::process::id()), (28, place), (32, correlation)],
            &[(8, start_ns), (16, end_ns)],
        ),
    }
}
