//! What CUPTI has handed over and the agent has not got yet. CUPTI's own thread and this library's meet here.

use core::{
    cell::UnsafeCell,
    ffi::{c_char, c_void},
    hint,
    ptr::NonNull,
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Release},
    },
};

use guestscope_cupti::{Message, NAME_BYTES, Name as Said, Window, Work};

use super::{
    agent::{Agent, Letter},
    calls::Calls,
    cupti::Cupti,
    names::{Copied, Names},
    records::{self, Record},
    room, system,
};

/// Work that is kept until it is sent: a second of a decoder with 40,000 launches a second.
const WORKS: usize = 1 << 16;
/// Times that a thread looks whether the other one is done before it sleeps.
const SPINS: u32 = 1_000;

/// Work that waits for its call's record.
#[derive(Clone, Copy)]
struct Waiting {
    work: Work,
    correlation: u32,
    /// The record of its call had not come when the work was to be sent: it comes in another buffer.
    is_late: bool,
    name: Option<Copied>,
}

/// All of it.
pub(crate) struct Kept {
    calls: Calls,
    names: Names,
    works: NonNull<Waiting>,
    count: usize,
    losses: Window,
    /// The first call whose work had not ended, by its number.
    first_cut: Option<u32>,
}

struct Shared {
    is_held: AtomicBool,
    kept: UnsafeCell<Option<Kept>>,
}

// SAFETY: `locked` lets one thread in at a time.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared { is_held: AtomicBool::new(false), kept: UnsafeCell::new(None) };

/// Makes the room for it. False: there is no memory.
pub(crate) fn make() -> bool {
    let made = || {
        let works = system::memory(WORKS * size_of::<Waiting>())?.cast();
        Some(Kept {
            calls: Calls::make()?,
            names: Names::make()?,
            works,
            count: 0,
            losses: Window::default(),
            first_cut: None,
        })
    };
    locked(|kept| {
        if kept.is_none() {
            *kept = made();
        }
        kept.is_some()
    }) && room::make()
}

/// Nothing that is called in there waits for anything.
fn locked<T>(body: impl FnOnce(&mut Option<Kept>) -> T) -> T {
    let mut spins = 0;
    while SHARED.is_held.swap(true, Acquire) {
        spins += 1;
        if spins < SPINS {
            hint::spin_loop();
        } else {
            system::rest();
        }
    }
    // SAFETY: no other thread is here, see above.
    let result = body(unsafe { &mut *SHARED.kept.get() });
    SHARED.is_held.store(false, Release);
    result
}

fn with<T>(body: impl FnOnce(&mut Kept) -> T) -> Option<T> {
    locked(|kept| kept.as_mut().map(body))
}

/// CUPTI asks for a buffer.
pub(crate) extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    let (at, bytes) = room::take().unwrap_or((core::ptr::null_mut(), 0));
    // SAFETY: CUPTI's room for three words. No limit on the number of records.
    unsafe { (*buffer, *size, *most_records) = (at, bytes, 0) };
}

/// CUPTI hands over a buffer.
pub(crate) extern "C" fn complete(
    context: *mut c_void,
    stream: u32,
    buffer: *mut u8,
    _: usize,
    bytes: usize,
) {
    // A forked child may have a copy of the lock that nobody releases.
    if !Agent::is_own() || !room::has(buffer) {
        return;
    }
    if let Some(cupti) = Cupti::found() {
        // SAFETY: CUPTI says that so many bytes of this buffer are records.
        unsafe { take_in(cupti, buffer, bytes) };
        let dropped = cupti.dropped(context, stream);
        with(|kept| kept.losses.dropped += dropped);
    }
    room::give_back(buffer);
}

/// # Safety
/// CUPTI has handed over this buffer with so many bytes of records.
unsafe fn take_in(cupti: &Cupti, buffer: *mut u8, bytes: usize) {
    let mut record = core::ptr::null_mut();
    loop {
        // SAFETY: the caller's, and the last record.
        record = unsafe { cupti.next(buffer, bytes, record) };
        if record.is_null() {
            return;
        }
        // SAFETY: CUPTI's record, in a buffer that was not given back; its name is a C string of CUPTI's.
        match unsafe { records::read(record) } {
            Record::Work(work, correlation, name) => {
                with(|kept| unsafe { kept.add(work, correlation, name) });
            }
            Record::Call(call) => {
                with(|kept| kept.calls.add(call));
            }
            Record::Other => {}
        }
    }
}

/// Sends what is there, and a window of these times. `is_last`: nothing more comes of it. False: the agent is
/// gone.
pub(crate) fn send(agent: &Agent, (begin_ns, end_ns): (u64, u64), cpu_ns: u64, is_last: bool) -> bool {
    let (mut at, mut letter) = (Walk::default(), Letter::new(agent));
    let mut text = [0; NAME_BYTES];
    loop {
        // One at a time: CUPTI's thread must not wait for the agent.
        let next = with(|kept| kept.next(&mut at, is_last, &mut text)).flatten();
        let Some((work, name)) = next else { break };
        if let Some((id, length)) = name {
            let said = Said { id, name: text.get(..length).unwrap_or_default() };
            if !letter.add(&Message::Name(said)) {
                return false;
            }
        }
        if !letter.add(&Message::Work(work)) {
            return false;
        }
    }
    let losses = with(Kept::take_losses);
    let (losses, cut_ns) = losses.unwrap_or_default();
    // What was asked for from then on had not ended: the window that is whole ends before.
    let end_ns = cut_ns.map_or(end_ns, |cut_ns| cut_ns.clamp(begin_ns, end_ns));
    let window = Window { begin_ns, end_ns, cpu_ns, ..losses };
    letter.add(&Message::Window(window)) && letter.send()
}

/// How far the work has been sent.
#[derive(Default)]
struct Walk {
    at: usize,
    /// Work that stays for the next time.
    left: usize,
}

impl Kept {
    /// # Safety
    /// The name is null or a C string.
    unsafe fn add(&mut self, work: Work, correlation: u32, name: *const c_char) {
        if work.start_ns == 0 || work.end_ns < work.start_ns {
            self.losses.cut += 1;
            let first = self.first_cut.unwrap_or(correlation);
            self.first_cut = Some(first.min(correlation));
        } else if self.count == WORKS {
            self.losses.unsent += 1;
        } else {
            // SAFETY: the caller's.
            let (id, name) = unsafe { self.names.meet(name) };
            let work = Work { name: id, ..work };
            // SAFETY: below the number of entries that there is memory for.
            unsafe { self.works.add(self.count).write(Waiting { work, correlation, is_late: false, name }) };
            self.count += 1;
        }
    }

    /// The next work that is to be sent, with the name that has to be said before, whose bytes are in `text`.
    /// None behind the last one: only what stays is there then.
    fn next(
        &mut self,
        walk: &mut Walk,
        is_last: bool,
        text: &mut [u8; NAME_BYTES],
    ) -> Option<(Work, Option<(u64, usize)>)> {
        while walk.at < self.count {
            // SAFETY: below the number of entries that were written.
            let mut waiting = unsafe { self.works.add(walk.at).read() };
            walk.at += 1;
            let call = self.calls.of(waiting.correlation);
            if call.is_none() && !waiting.is_late && !is_last {
                waiting.is_late = true;
                // SAFETY: as above; entries before it have been read.
                unsafe { self.works.add(walk.left).write(waiting) };
                walk.left += 1;
                continue;
            }
            let Waiting { mut work, name, .. } = waiting;
            if let Some(call) = call {
                (work.thread, work.called_ns, work.returned_ns) = (call.thread, call.begin_ns, call.end_ns);
            }
            return Some((work, name.map(|name| (name.id, self.names.bytes(name, text)))));
        }
        self.count = walk.left;
        if self.count == 0 {
            self.names.sent();
        }
        None
    }

    /// The losses since the last time, and when the first work was asked for that had not ended.
    fn take_losses(&mut self) -> (Window, Option<u64>) {
        let call = self.first_cut.take().and_then(|correlation| self.calls.of(correlation));
        let mut losses = core::mem::take(&mut self.losses);
        if call.is_some() {
            losses.cut = 0;
        }
        (losses, call.map(|call| call.begin_ns))
    }
}
