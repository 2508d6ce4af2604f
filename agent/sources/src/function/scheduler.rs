//! The probes on the scheduler of a Go program, which show where its goroutines run.

use std::fs::File;

use guestscope_contract::calls::{Argument, GO_EXECUTE, GO_EXIT, GO_SCHEDULE};

use super::{
    found::{Found, SymbolError},
    golang::{SCHEDULE, begin_of, entry},
    place::Place,
    symbols,
};
use crate::{
    loader::functions::{Carrier, Spot},
    untrusted::Untrusted,
};

/// Functions of the runtime that move goroutines, each by its names in different versions, with the event
/// that it reports. Behind a system call a thread that may not go on queues its goroutine, and may then sleep
/// before it looks for another one; the second name is that of 1.26.
pub(super) const SCHEDULER: [(&[&str], u64); 4] = [
    (&[SCHEDULE], GO_SCHEDULE),
    (&["runtime.exitsyscall0", "runtime.exitsyscallNoP"], GO_SCHEDULE),
    (&["runtime.execute"], GO_EXECUTE),
    (&["runtime.goexit0"], GO_EXIT),
];

/// The probes on this program's scheduler.
pub(super) fn scheduler(file: &File) -> Result<Place, SymbolError> {
    let mut begins = Vec::new();
    for (names, event) in SCHEDULER {
        for found in first_of(file, names)? {
            let begin = begin_of(file, found.offset, found.bytes);
            let begin = begin.map_err(|error| SymbolError::Read(error.kind()))?;
            begins.push(Spot { offset: entry(&begin, found.offset), event, ..Spot::default() });
        }
    }
    let name = Untrusted::from("goroutines");
    Ok(Place { name, begins, ends: Vec::new(), on: Carrier::Scheduler, argument: Argument::default() })
}

/// The function that has the first of these names that the file has.
pub(super) fn first_of(file: &File, names: &[&'static str]) -> Result<Vec<Found>, SymbolError> {
    for name in names {
        match symbols::find(file, name) {
            Err(SymbolError::NotThere(_)) => {}
            found => return found,
        }
    }
    Err(SymbolError::NoScheduler(names.first().copied().unwrap_or_default()))
}
