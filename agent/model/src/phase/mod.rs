//! Phases, the meaning of a program's edges, as plain data. Pure: no I/O, no clock, no async.
//!
//! [`pairing`] turns edges into the values below. Sinks turn those into rows, spans and text.

mod accounts;
mod alone;
mod begin;
mod beside;
mod blame;
mod charged;
mod connection;
mod cut;
mod early;
mod ender;
mod flight;
mod gpu;
mod gpu_work;
mod helped;
mod helper_waits;
mod helpers;
mod ids;
mod inside;
mod io;
mod ios;
mod join;
mod key;
mod limits;
mod lives;
mod moves;
mod names;
mod neighbours;
mod occupied;
mod open;
mod output;
pub mod pairing;
mod pause;
mod pauses;
mod quantities;
mod queue;
mod restored;
mod room;
mod snapshot;
mod sources;
mod stack;
mod stopper;
mod table;
mod thread;
mod thread_id;
mod threads;
mod told;
mod turns;
mod unended;
mod unfinished;
mod values;
mod wait;
mod waited;
mod waited_io;
mod within;

pub use guestscope_contract::metrics::{COUNTS, Counts, KEPT, Metric, Quantity};

pub use self::{
    accounts::Accounts,
    ender::waits_for_address_space,
    gpu::{GpuError, GpuMemory, GpuProcesses, GpuReading, GpuReadings, GpuTally, GpuUse},
    gpu_work::{GpuWork, GpuWorkKind},
    helped::{HelperWait, Helpers},
    limits::{Limits, MOST_PHASES_PER_REQUEST, OPEN_REQUESTS, PHASES_PER_REQUEST},
    pause::Pause,
    pauses::{LEAST_NS as LEAST_PAUSE_NS, Pauses},
    queue::{LISTED, QueueUser, QueueUsers},
    restored::{Restored, RestoredBy},
    sources::{Made, Sources, Told},
    stopper::Stopper,
    thread_id::ThreadId,
    unfinished::{AllUnfinished, Doing, Fate, Looked, OpenWait, Others, ReadLedger, UNFINISHED, Unfinished},
    values::{Ending, Holder, Mark, PairingLosses, Phase, PhaseKind, Request, Thread, TraceIds, WARMUP},
    wait::{Blame, InFlight, Wait, WaitedIo},
};

#[cfg(test)]
mod tests;
