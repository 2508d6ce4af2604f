//! Requests that were cut off, so that what still comes of them is no request of its own.

use std::collections::VecDeque;

use super::{key::PhaseKey, table::Set};

/// Requests that were cut off and are remembered, so that what still comes of them is no request of its own.
pub(super) const CUT: usize = 4_096;

/// Requests that were cut off lately, by their keys.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub(super) known: Set<PhaseKey>,
    order: VecDeque<PhaseKey>,
}

impl Cut {
    pub(super) fn add(&mut self, key: PhaseKey) {
        if self.order.len() == CUT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(key);
        self.order.push_back(key);
    }

    pub(super) fn has(&self, key: PhaseKey) -> bool {
        !self.known.is_empty() && self.known.contains(&key)
    }
}
