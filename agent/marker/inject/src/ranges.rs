//! Open ranges of each thread, and their ends. Phases of the marker nest; ranges of two domains, and those
//! with explicit begin and end, need not: ranges above one that ends are left and entered again, so that they
//! continue. Yields edges in an order that the contract allows, whatever the program does: an end without a
//! begin fires nothing. It deliberately keeps 128 open ranges per thread. Deeper ones are counted, and do not
//! become phases.

use core::cell::Cell;

use guestscope_marker::call;

use crate::{
    crossing,
    edges::{self, Name, Source},
    gate::Measured,
    text,
};

const DEEPEST: usize = 128;

/// A range that is open on this thread.
#[derive(Clone, Copy)]
struct Open {
    /// Token; 0: it is no phase.
    token: u64,
    /// Domain whose next end ends it; 0: an end that names its token does.
    domain: u64,
    measured: Measured,
}

const NONE: Open = Open { token: 0, domain: 0, measured: Measured::NOT };

impl Open {
    fn is_named(&self, token: u64) -> bool {
        self.domain == 0 && self.token == token
    }
}

/// The open ranges of a thread, the outermost first. Only that thread touches them.
struct Ranges {
    /// The process in which they began: a forked child is inside none.
    process: Cell<u32>,
    count: Cell<usize>,
    /// Number of nested ranges without room.
    deeper: Cell<u64>,
    open: [Cell<Open>; DEEPEST],
}

#[thread_local]
static RANGES: Ranges = Ranges {
    process: Cell::new(0),
    count: Cell::new(0),
    deeper: Cell::new(0),
    open: [const { Cell::new(NONE) }; DEEPEST],
};

/// A range that begins.
pub(crate) struct Begin<'a> {
    pub(crate) source: Source,
    pub(crate) name: Name<'a>,
    /// Number to show, 0 for none.
    pub(crate) number: u64,
    /// Measurement of its kind, as long as that is undecided or too short.
    pub(crate) measured: Measured,
    /// Whether it is a library's: a detail of an open phase.
    pub(crate) is_detail: bool,
}

impl Begin<'_> {
    fn fire(&self) -> u64 {
        if !self.measured.is_shown() {
            return 0;
        }
        if self.is_detail {
            return edges::begin_detail(self.source, self.name);
        }
        edges::begin(self.source, self.name, self.number)
    }
}

/// Begins a range that the next end of its domain ends, on the same thread.
#[inline]
pub(crate) fn push(domain: u64, begin: &Begin<'_>) {
    let ranges = here();
    if ranges.count.get() >= DEEPEST && !ranges.forget_named() {
        return ranges.sink(begin.source);
    }
    ranges.add(Open { token: begin.fire(), domain, measured: begin.measured });
}

/// Ends the innermost range of the domain and returns its measurement. Nothing happens if none is open.
#[inline]
pub(crate) fn pop(domain: u64) -> Measured {
    let ranges = here();
    if ranges.deeper.get() > 0 {
        ranges.deeper.set(ranges.deeper.get() - 1);
        return Measured::NOT;
    }
    ranges.find(|open| open.domain == domain).map_or(Measured::NOT, |at| ranges.end(at))
}

/// Begins a range that any thread may end by its number, which is never 0.
pub(crate) fn start(begin: &Begin<'_>) -> u64 {
    let ranges = here();
    let name = text::hash(begin.name);
    let token = begin.fire();
    if token == 0 {
        return 0;
    }
    if crossing::crosses(name) || (ranges.count.get() >= DEEPEST && !ranges.forget_named()) {
        // From now on it is on no thread, until a thread ends it.
        call::leave(token);
    } else {
        crossing::begun(token, name);
        ranges.add(Open { token, domain: 0, measured: Measured::NOT });
    }
    token
}

/// Ends the range with this number.
pub(crate) fn stop(token: u64) {
    if token == 0 {
        return;
    }
    let ranges = here();
    if let Some(at) = ranges.find(|open| open.is_named(token)) {
        ranges.end(at);
        return;
    }
    crossing::ended_elsewhere(token);
    // It leaves its thread, if it is on one; phases begun inside it continue there.
    call::enter(token);
    call::end(token);
}

#[inline]
fn here() -> &'static Ranges {
    let process = call::process();
    let ranges = &raw const RANGES;
    // SAFETY: a thread outlives its calls into this library, and the reference is dropped within each; no
    // other thread gets it.
    let ranges: &'static Ranges = unsafe { &*ranges };
    if ranges.process.get() != process {
        ranges.process.set(process);
        ranges.count.set(0);
        ranges.deeper.set(0);
    }
    ranges
}

impl Ranges {
    #[inline]
    fn add(&self, open: Open) {
        let count = self.count.get();
        if let Some(place) = self.open.get(count) {
            place.set(open);
            self.count.set(count + 1);
        }
    }

    /// The innermost range that matches.
    #[inline]
    fn find(&self, is_meant: impl Fn(&Open) -> bool) -> Option<usize> {
        (0..self.count.get()).rev().find(|at| self.open.get(*at).is_some_and(|open| is_meant(&open.get())))
    }

    fn remove(&self, at: usize) {
        let last = self.count.get().saturating_sub(1);
        for place in at..last {
            if let (Some(to), Some(from)) = (self.open.get(place), self.open.get(place + 1)) {
                to.set(from.get());
            }
        }
        self.count.set(last);
    }

    /// Ends the range at this place; ranges inside it continue.
    #[inline]
    fn end(&self, at: usize) -> Measured {
        let open = self.open.get(at).map_or(NONE, Cell::get);
        if at + 1 == self.count.get() {
            self.count.set(at);
            if open.token != 0 {
                call::end(open.token);
            }
        } else {
            self.end_around(at, open.token);
        }
        open.measured
    }

    #[cold]
    fn end_around(&self, at: usize, token: u64) {
        self.forget_ended(at + 1);
        let inner = |place: usize| self.open.get(place).map_or(0, |open| open.get().token);
        if token != 0 {
            // Nothing is fired for the token 0, which is no phase.
            (at + 1..self.count.get()).rev().for_each(|place| call::leave(inner(place)));
            call::end(token);
            (at + 1..self.count.get()).for_each(|place| call::enter(inner(place)));
        }
        self.remove(at);
    }

    /// Removes ranges from this place on that other threads have ended.
    fn forget_ended(&self, from: usize) {
        let mut place = from;
        while place < self.count.get() {
            match self.open.get(place).map(Cell::get) {
                Some(open) if open.domain == 0 && crossing::has_ended_elsewhere(open.token) => {
                    self.remove(place);
                }
                _ => place += 1,
            }
        }
    }

    /// Makes room: the outermost range with an explicit end continues without a place here, as if another
    /// thread were to end it.
    #[cold]
    fn forget_named(&self) -> bool {
        let is_named = |at: &usize| self.open.get(*at).is_some_and(|open| open.get().domain == 0);
        let Some(at) = (0..self.count.get()).find(is_named) else { return false };
        self.remove(at);
        true
    }

    #[cold]
    fn sink(&self, source: Source) {
        self.deeper.set(self.deeper.get() + 1);
        edges::tell(source, b"!more than 128 open ranges in a thread: the rest left out");
    }
}
