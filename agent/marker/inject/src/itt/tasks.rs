//! Tasks that nest on their thread, frames without an id, and markers. Yields phases and marks. It
//! deliberately ignores the times that some calls pass: an edge has the time of its call.

use core::{
    ffi::{c_int, c_void},
    sync::atomic::{AtomicU32, Ordering::SeqCst},
};

use super::{
    known::{Domain, StringHandle, known, name_of, name_of_kind},
    ours::{Id, Ours, shows_all},
};
use crate::{
    edges::{self, Name, Source, tell},
    gate::{Kind, Measured},
    ranges::{self, Begin},
    text::Text,
};

/// Functions, by their names in ITT.
#[rustfmt::skip]
pub(super) fn functions() -> &'static [(&'static str, Ours)] {
    &[
        ("task_begin", Ours(begin as *const c_void)), ("task_begin_ex", Ours(begin_ex as *const c_void)),
        ("task_begin_fn", Ours(begin_fn as *const c_void)),
        ("task_begin_fn_ex", Ours(begin_fn_ex as *const c_void)),
        ("task_end", Ours(end as *const c_void)), ("task_end_ex", Ours(end_ex as *const c_void)),
        ("marker", Ours(marker as *const c_void)), ("marker_ex", Ours(marker_ex as *const c_void)),
    ]
}

const FUNCTION: Name<'static> = Name { bytes: b"(function)", length: 10 };

/// # Safety
/// `domain` is null or ITT's.
unsafe fn begin_named(domain: *const Domain, name: Name<'_>, kind: Option<&Kind>) {
    // SAFETY: promised by the caller.
    let Some(known) = (unsafe { known(domain) }) else { return };
    let measured = match kind {
        _ if shows_all() => Measured::NOT,
        Some(kind) => kind.begin(known.is_doubtful),
        None => known.kind.begin(known.is_doubtful),
    };
    let is_detail = known.is_doubtful;
    if measured.is_shown() {
        let text = known.name(name);
        let begin = Begin { source: Source::Itt, name: text.name(), number: 0, measured, is_detail };
        ranges::push(known.key(), &begin);
    } else {
        ranges::push(known.key(), &Begin { source: Source::Itt, name, number: 0, measured, is_detail });
    }
}

extern "C" fn begin(domain: *const Domain, _id: Id, _parent: Id, name: *const StringHandle) {
    // SAFETY: ITT's structures, here and below.
    unsafe { begin_named(domain, name_of(name), name.as_ref().map(|name| &name.kind)) }
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

extern "C" fn begin_fn(domain: *const Domain, _id: Id, _parent: Id, _function: *const c_void) {
    // SAFETY: as above.
    unsafe { begin_named(domain, FUNCTION, None) }
}

extern "C" fn begin_fn_ex(
    domain: *const Domain,
    _clock: *const c_void,
    _time: u64,
    id: Id,
    parent: Id,
    function: *const c_void,
) {
    begin_fn(domain, id, parent, function);
}

pub(super) extern "C" fn end(domain: *const Domain) {
    // SAFETY: as above.
    let Some(known) = (unsafe { known(domain) }) else { return };
    if let Some(kind) = ranges::pop(known.key()).end() {
        say_too_short(kind);
    }
}

extern "C" fn end_ex(domain: *const Domain, _clock: *const c_void, _time: u64) {
    end(domain);
}

extern "C" fn marker(domain: *const Domain, _id: Id, name: *const StringHandle, _scope: c_int) {
    // SAFETY: as above.
    let (Some(known), name) = (unsafe { (known(domain), name_of(name)) }) else { return };
    edges::mark(known.name(name).name());
}

extern "C" fn marker_ex(
    domain: *const Domain,
    _clock: *const c_void,
    _time: u64,
    id: Id,
    name: *const StringHandle,
    scope: c_int,
) {
    marker(domain, id, name, scope);
}

/// Reports, for up to sixteen kinds, that a kind of tasks is left out from here on.
#[cold]
fn say_too_short(kind: *const Kind) {
    static SAID: AtomicU32 = AtomicU32::new(0);
    if SAID.fetch_add(1, SeqCst) >= 16 {
        return;
    }
    // SAFETY: the kind of a string or of a domain, and neither is ever freed.
    let name = unsafe { name_of_kind(kind) };
    let mut text = Text::new();
    text.add(b"!");
    text.add(&name.bytes[..name.bytes.len().min(32)]);
    text.add(b": under 20 us each, left out");
    tell(Source::Itt, text.name().bytes);
}
