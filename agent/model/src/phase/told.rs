//! What a program says about a phase or a source afterwards. Part of [`Pairing`].

use guestscope_contract::{EDGE_NAME_UNREADABLE, NAME_BYTES, Source};

use super::pairing::{Edge, Pairing};
use crate::untrusted::Untrusted;

impl Pairing {
    /// An open phase gets its final name, and how it came out.
    pub(super) fn rename(&mut self, edge: &Edge<'_>) {
        let [_, length, status, _] = edge.record.arguments;
        let found = self.target(edge).filter(|_| edge.record.token != 0);
        let Some((id, source)) = found.and_then(|id| Some((id, self.open.get(&id)?.phase.source))) else {
            self.losses.unmatched_ends += u64::from(!self.is_of_left_out(edge.record.token, edge));
            return;
        };
        let named = (Source::and_length(length).1 > 0).then(|| self.name(edge, source));
        let Some(open) = self.open.get_mut(&id) else { return };
        if let Some((name, is_damaged)) = named {
            open.phase.name = name;
            open.phase.name_damaged = is_damaged;
        }
        if status != 0 {
            open.phase.status = u32::try_from(status).ok();
        }
    }

    pub(super) fn tell(&mut self, edge: &Edge<'_>) {
        let (source, length) = Source::and_length(edge.record.arguments[1]);
        let length = usize::try_from(length).map_or(NAME_BYTES, |length| length.min(NAME_BYTES));
        if edge.record.header.flags & EDGE_NAME_UNREADABLE == 0 {
            self.sources.tell(source, Untrusted::of_bytes(&edge.record.name[..length]));
        }
    }
}
