//! Evidence for a finding: the longest wait inside each of the slowest requests.
//!
//! The parts of an excess contain this wait already; it names the thread behind it.

use std::collections::HashMap;

use super::Summary;
use crate::phase::Wait;

impl Summary {
    /// Reads the waits of the run, in any order, and keeps the longest of each of the slowest requests.
    ///
    /// # Errors
    /// The first error of the reading.
    pub fn add_waits<E>(&mut self, waits: impl Iterator<Item = Result<Wait, E>>) -> Result<(), E> {
        let slow = self.groups.iter_mut().flat_map(|group| &mut group.slowest);
        let mut slow: HashMap<u64, &mut Option<Wait>> =
            slow.map(|slow| (slow.id, &mut slow.longest_wait)).collect();
        for wait in waits {
            let wait = wait?;
            let Some(longest) = wait.root.and_then(|root| slow.get_mut(&root)) else { continue };
            // Among equals the first one, so that the order within a millisecond does not matter.
            if longest.as_ref().is_none_or(|longest| longest.duration_ns < wait.duration_ns) {
                **longest = Some(wait);
            }
        }
        Ok(())
    }
}
