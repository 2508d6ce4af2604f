//! Which of several processes came last to what all of them do together: the collectives of distributed
//! training.
//!
//! Every process calls the same collectives in the same order, so one call of each process belongs to one
//! call of all others (`matching`). Yields how late each process came to them, whether one of them mostly
//! came last ([`Verdict`]), and by which accounts its steps differ from the others' ([`Steps`]). A call asks
//! for a collective: when the device began it, and how long it took there, is not known from it.

mod arrivals;
mod collect;
mod findings;
mod matching;
mod process;
mod steps;

#[cfg(test)]
mod tests;

pub use self::{
    collect::Ranks,
    findings::{
        Arrival, COLLECTIVES, Collective, Difference, Judged, LEAST_CALLS, LEAST_NS, MUCH, Mismatch, OFTEN,
        Observed, Rank, Steps, Straggler, Terms, Verdict,
    },
};
