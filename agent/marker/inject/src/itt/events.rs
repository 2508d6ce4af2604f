//! The older events: a start with or without an end. Yields a mark for a start, and phases from the first end
//! of an event on. It deliberately does not treat a start as a begin before that: without an end it would
//! stay open.

use core::{
    ffi::{c_char, c_int, c_void},
    ptr,
    sync::atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use super::ours::Ours;
use crate::{
    edges::{self, Name, Source},
    gate::Measured,
    kept,
    ranges::{self, Begin},
    text,
};

/// See `tasks`.
#[rustfmt::skip]
pub(super) fn functions() -> &'static [(&'static str, Ours)] {
    &[
        ("event_create", Ours(create as *const c_void)),
        ("event_start", Ours(start as *const c_void)), ("event_end", Ours(end as *const c_void)),
    ]
}

struct Event {
    name: AtomicUsize,
    has_ends: AtomicBool,
}

/// Events by number, from 1 on. The last one stands for all that do not fit.
static EVENTS: [Event; 256] =
    [const { Event { name: AtomicUsize::new(0), has_ends: AtomicBool::new(false) } }; 256];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns an event's number; the same name is the same event.
extern "C" fn create(name: *const c_char, _length: c_int) -> c_int {
    // SAFETY: a C string.
    let name = unsafe { text::borrowed(name) };
    let made = COUNT.load(Acquire).min(EVENTS.len() - 2);
    let is_it = |number: &usize| name_of(*number).is_some_and(|known| known.bytes == name.bytes);
    if let Some(number) = (1..=made).find(is_it) {
        return number as c_int;
    }
    let number = COUNT.fetch_add(1, AcqRel).saturating_add(1).min(EVENTS.len() - 1);
    if let Some(event) = EVENTS.get(number).filter(|_| number < EVENTS.len() - 1) {
        event.name.store(kept::keep(Source::Itt, name) as usize, Release);
    }
    number as c_int
}

fn name_of(number: usize) -> Option<Name<'static>> {
    kept::get(ptr::with_exposed_provenance(EVENTS.get(number)?.name.load(Acquire)))
}

/// A key that is lower than any domain's address.
fn key(number: usize) -> u64 {
    16 + number as u64
}

fn event(number: c_int) -> Option<(&'static Event, usize)> {
    let number = usize::try_from(number).ok().filter(|number| *number > 0)?;
    Some((EVENTS.get(number)?, number))
}

extern "C" fn start(number: c_int) -> c_int {
    if let Some((event, number)) = event(number) {
        let name = name_of(number).unwrap_or(Name { bytes: b"(other events)", length: 14 });
        if event.has_ends.load(Relaxed) {
            ranges::push(
                key(number),
                &Begin { source: Source::Itt, name, number: 0, measured: Measured::NOT, is_detail: false },
            );
        } else {
            edges::mark(name);
        }
    }
    0
}

extern "C" fn end(number: c_int) -> c_int {
    if let Some((event, number)) = event(number) {
        event.has_ends.store(true, Relaxed);
        let _ = ranges::pop(key(number));
    }
    0
}
