//! What a reading of requests needs of them: the run is read several times, and most of what there is to
//! unpack matters once.

use guestscope_contract::metrics::Quantity;

use super::split::Split;

/// What is needed; the rest may be blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// What divides the time of requests, and what tells them and their phases apart: [`Needs::has`].
    Times,
    /// All but the ids of traces and spans.
    Numbers,
    /// All but the ids of spans.
    Traces,
}

impl Needs {
    /// Whether this quantity is needed.
    pub fn has(self, quantity: Quantity) -> bool {
        self != Needs::Times || Split::takes(quantity)
    }
}
