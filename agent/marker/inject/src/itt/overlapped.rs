//! Ranges ended by id, on any thread: overlapped tasks, regions, frames.
//! Yields phases, like NVTX's ranges with explicit begin and end. It deliberately keeps 1,024 ids at a time:
//! ranges without room are no phases, which is reported.

use core::{
    ffi::c_void,
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use super::{
    known::{Domain, Known, StringHandle, known, name_of},
    ours::{Id, Ours, shows_all},
    tasks,
};
use crate::{
    edges::{Name, Source, tell},
    gate::Measured,
    ranges::{self, Begin},
};

/// See `tasks`.
#[rustfmt::skip]
pub(super) fn functions() -> &'static [(&'static str, Ours)] {
    &[
        ("task_begin_overlapped", Ours(begin as *const c_void)),
        ("task_begin_overlapped_ex", Ours(begin_ex as *const c_void)),
        ("task_end_overlapped", Ours(end as *const c_void)),
        ("task_end_overlapped_ex", Ours(end_ex as *const c_void)),
        ("region_begin", Ours(begin as *const c_void)), ("region_end", Ours(end as *const c_void)),
        ("frame_begin_v3", Ours(frame_begin as *const c_void)),
        ("frame_end_v3", Ours(frame_end as *const c_void)),
    ]
}

const MOST: usize = 1_024;
/// Most places searched for an id.
const REACH: u64 = 8;

/// An open range: a hash of domain and id, 0 for none, and the token.
struct Place {
    key: AtomicU64,
    token: AtomicU64,
}

static OPEN: [Place; MOST] = [const { Place { key: AtomicU64::new(0), token: AtomicU64::new(0) } }; MOST];

fn mixed(known: &Known, id: Id) -> u64 {
    let fold = |sum: u64, part: u64| (sum.rotate_left(23) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    id.parts.iter().fold(known.key(), |sum, part| fold(sum, *part)) | 1
}

fn places(mixed: u64) -> impl Iterator<Item = &'static Place> {
    (0..REACH).filter_map(move |step| OPEN.get(((mixed >> 32).wrapping_add(step) % MOST as u64) as usize))
}

/// # Safety
/// `domain` is null or ITT's.
unsafe fn begin_named(domain: *const Domain, id: Id, name: Name<'_>) {
    // SAFETY: promised by the caller.
    let Some(known) = (unsafe { known(domain) }) else { return };
    let mixed = mixed(known, id);
    let is_free = |place: &&Place| place.key.compare_exchange(0, mixed, AcqRel, Relaxed).is_ok();
    let Some(place) = places(mixed).find(is_free) else { return say_full() };
    let text = known.name(name);
    let begin = Begin {
        source: Source::Itt,
        name: text.name(),
        number: 0,
        measured: Measured::NOT,
        is_detail: known.is_doubtful,
    };
    place.token.store(ranges::start(&begin), Release);
}

#[cold]
fn say_full() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Relaxed) {
        tell(Source::Itt, b"!more than 1,024 tasks with ids are open: the rest left out");
    }
}

extern "C" fn begin(domain: *const Domain, id: Id, _parent: Id, name: *const StringHandle) {
    // SAFETY: ITT's structures, here and below.
    unsafe { begin_named(domain, id, name_of(name)) }
}

extern "C" fn begin_ex(
    domain: *const Domain,
    _clock: *const c_void,
    _time: u64,
    id: Id,
    parent: Id,
    name: *const StringHandle,
) {
    begin(domain, id, parent, name);
}

extern "C" fn end(domain: *const Domain, id: Id) {
    // SAFETY: as above.
    let Some(known) = (unsafe { known(domain) }) else { return };
    let mixed = mixed(known, id);
    if let Some(place) = places(mixed).find(|place| place.key.load(Acquire) == mixed) {
        let token = place.token.swap(0, AcqRel);
        place.key.store(0, Release);
        ranges::stop(token);
    }
}

extern "C" fn end_ex(domain: *const Domain, _clock: *const c_void, _time: u64, id: Id) {
    end(domain, id);
}

const FRAME: Name<'static> = Name { bytes: b"frame", length: 5 };

/// A frame without an id belongs to its thread.
extern "C" fn frame_begin(domain: *const Domain, id: *const Id) {
    // SAFETY: ITT's structures, or null.
    let (Some(known), id) = (unsafe { (known(domain), id.as_ref()) }) else { return };
    let Some(id) = id else {
        let measured = if shows_all() { Measured::NOT } else { known.kind.begin(known.is_doubtful) };
        let text = known.name(FRAME);
        let begin = Begin {
            source: Source::Itt,
            name: text.name(),
            number: 0,
            measured,
            is_detail: known.is_doubtful,
        };
        return ranges::push(known.key(), &begin);
    };
    // SAFETY: as above.
    unsafe { begin_named(domain, *id, FRAME) }
}

extern "C" fn frame_end(domain: *const Domain, id: *const Id) {
    // SAFETY: null, or an id.
    match unsafe { id.as_ref() } {
        Some(id) => end(domain, *id),
        None => tasks::end(domain),
    }
}
