//! Which phases lie inside another one. Part of [`Pairing`].

use super::{limits::steps, open::Place, pairing::Pairing, table::Table};

impl Pairing {
    /// The phases inside this one on the same thread, the innermost first. A request that began within it, or
    /// another task's phase, is not inside.
    pub(super) fn inside(&self, id: u64) -> Vec<u64> {
        let mut inside = Vec::new();
        let Some(outer) = self.open.get(&id).filter(|outer| outer.children > 0) else { return inside };
        let Place::On(thread, _) = outer.place else { return inside };
        let Some(state) = self.threads.get(thread) else { return inside };
        // Each phase is asked about once, however many there are within it.
        let mut known: Table<u64, bool> = Table::default();
        let of_request = state.stack.above(outer.stands).filter(|entry| entry.root == outer.root);
        for entry in of_request.filter(|entry| entry.depth > outer.depth) {
            let mut way = Vec::new();
            let mut at = Some(entry.id);
            let is_inside = loop {
                steps::add(1);
                let Some(here) = at else { break false };
                if here == id {
                    break true;
                }
                if let Some(is_inside) = known.get(&here) {
                    break *is_inside;
                }
                let Some(open) = self.open.get(&here).filter(|open| open.depth > outer.depth) else {
                    break false;
                };
                way.push(here);
                at = open.phase.parent;
            };
            known.extend(way.into_iter().map(|passed| (passed, is_inside)));
            if is_inside {
                inside.push(entry.id);
            }
        }
        inside
    }
}
