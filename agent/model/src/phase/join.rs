//! Requests in a program's own traces: which trace, under which of its spans. Part of [`Pairing`].

use super::{
    open::OpenRequest,
    pairing::{Edge, Pairing},
};

impl Pairing {
    pub(super) fn context(&mut self, edge: &Edge<'_>) {
        let [high, low, parent, of_the_phase] = edge.record.arguments;
        let Some((id, request)) = self.request_of(edge) else { return };
        if of_the_phase == 0 {
            request.join(trace_id(high, low), parent.to_be_bytes());
        } else {
            request.adopt(id, trace_id(high, low), parent.to_be_bytes());
        }
    }

    pub(super) fn identity(&mut self, edge: &Edge<'_>) {
        let [high, low, span, _] = edge.record.arguments;
        if let Some((id, request)) = self.request_of(edge) {
            request.identify(id, trace_id(high, low), span.to_be_bytes());
        }
    }

    fn request_of(&mut self, edge: &Edge<'_>) -> Option<(u64, &mut OpenRequest)> {
        let Some(id) = self.target(edge) else {
            if !self.is_of_left_out(edge.record.token, edge) {
                self.losses.unmatched_ends += 1;
            }
            return None;
        };
        let root = self.open.get(&id)?.root;
        self.requests.get_mut(&root).map(|request| (id, request))
    }
}

fn trace_id(high: u64, low: u64) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}
