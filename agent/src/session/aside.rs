//! Waits of requests that were not chosen: they are needed if the request turns out to be one to keep, which
//! is known when it ends.

use std::collections::{HashMap, VecDeque};

use crate::phase::Wait;

/// Most waits that are held, some 0.5 KB each; those of the oldest requests go first.
const MOST: usize = 4096;

/// Waits by the number of their request's outermost phase.
#[derive(Debug, Default)]
pub(super) struct Aside {
    by_root: HashMap<u64, Vec<Wait>>,
    /// Requests in the order of their first waits; some may be gone.
    order: VecDeque<u64>,
    count: usize,
}

impl Aside {
    /// Holds a wait.
    pub(super) fn hold(&mut self, root: u64, wait: Wait) {
        let waits = self.by_root.entry(root).or_default();
        if waits.is_empty() {
            self.order.push_back(root);
        }
        waits.push(wait);
        self.count += 1;
        while (self.count > MOST || self.order.len() > MOST)
            && let Some(oldest) = self.order.pop_front()
        {
            self.count -= self.by_root.remove(&oldest).map_or(0, |waits| waits.len());
        }
    }

    /// Those of a request that has ended.
    pub(super) fn take(&mut self, root: u64) -> Vec<Wait> {
        let waits = self.by_root.remove(&root).unwrap_or_default();
        self.count -= waits.len();
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_held_until_their_request_ends() {
        let mut aside = Aside::default();
        for start_ns in 0..3 {
            aside.hold(start_ns % 2, Wait { start_ns, ..Wait::default() });
        }
        let starts = |waits: Vec<Wait>| waits.iter().map(|wait| wait.start_ns).collect::<Vec<_>>();
        assert_eq!(starts(aside.take(0)), [0, 2]);
        assert_eq!(starts(aside.take(0)), [0; 0]);
        assert_eq!(starts(aside.take(1)), [1]);
        assert_eq!(aside.count, 0);
    }

    #[test]
    fn they_are_bounded() {
        let mut aside = Aside::default();
        for root in 0..100_000 {
            aside.hold(root, Wait::default());
        }
        assert_eq!((aside.by_root.len(), aside.order.len(), aside.count), (MOST, MOST, MOST));
        assert!(aside.take(0).is_empty() && aside.take(99_999).len() == 1);
        for _ in 0..100_000 {
            aside.hold(7, Wait::default());
        }
        assert!(aside.count <= MOST);
        for root in 0..100_000 {
            aside.hold(root, Wait::default());
            aside.take(root);
        }
        assert!(aside.order.len() <= MOST);
    }
}
