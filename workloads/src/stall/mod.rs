//! Faults of known kind and size: requests that do the same work each time, some of them with a fault. Yields
//! a log of the injected faults, measured by the injector: the reference for judging an observer.
//!
//! A kind is one file in `kinds/`. It does not know requests, schedules or logs, and nothing here knows a
//! kind.

pub mod error;
mod kind;
pub mod kinds;
pub mod log;
pub mod machine;
pub mod options;
pub mod report;
pub mod run;
pub mod schedule;
pub mod size;

pub use kind::{Fault, Injected, Kind, Peer, Setup, Wait};

/// The kind of that name.
pub fn find(name: &str) -> Option<&'static Kind> {
    kinds::KINDS.iter().copied().find(|kind| kind.name == name)
}
