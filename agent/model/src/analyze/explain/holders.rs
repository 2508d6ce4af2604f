//! What had the threads of suspended phases, as evidence for their time on no thread.

use std::collections::HashMap;

use super::{
    super::tree::{Located, PlaceId},
    counts::{self, Events},
    waits::Waits,
};
use crate::phase::{Metric, Request};

/// What had the threads of the phases at a place while these were suspended for `suspended_ns` in all. Of
/// phases that were suspended at once each has its own sum, and the request's time there is no sum.
pub(super) fn holders(
    request: &Request,
    located: &Located,
    place: PlaceId,
    own: &HashMap<PlaceId, Events>,
    suspended_ns: u64,
) -> Option<Waits> {
    let held_ns =
        own.get(&place).map_or(0, |own| counts::event(own, Metric::SuspendedHeld)).min(suspended_ns);
    let here = request.phases.iter().zip(&located.places).filter(|(_, of)| **of == place);
    let holders = here.filter_map(|(phase, _)| phase.holder.as_deref());
    (held_ns > 0).then(|| Waits::of_holders(held_ns, holders))
}
