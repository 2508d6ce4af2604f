//! Details inside a library, on threads that are outside all phases: they come from the library's own threads
//! too, and are no request there. They are counted, and no phases. Part of [`Pairing`].

use guestscope_contract::{Operation, Source, is_root_token};

use super::pairing::{Edge, Pairing};

/// Such details that are open on a thread at a time; of more, the ends of those that came first are counted
/// as unmatched.
pub(super) const MOST: usize = 64;

impl Pairing {
    /// A detail outside all phases begins.
    pub(super) fn begin_alone(&mut self, edge: &Edge<'_>, source: Source) {
        self.sources.alone(source);
        let Some(state) = self.threads.get_mut(edge.thread) else { return };
        let (alone, own) = (&mut state.alone, (edge.instance, edge.record.token));
        if is_root_token(own.1) {
            // The library has nothing else open on this thread.
            alone.retain(|(instance, _)| *instance != own.0);
        }
        if alone.len() == MOST {
            alone.remove(0);
        }
        alone.push(own);
    }

    /// Whether an edge is about such a detail; an end removes it.
    pub(super) fn is_alone(&mut self, edge: &Edge<'_>, operation: Operation) -> bool {
        let Some(state) = self.threads.get_mut(edge.thread) else { return false };
        let own = (edge.instance, edge.record.token);
        let Some(at) = state.alone.iter().rposition(|alone| *alone == own) else { return false };
        if operation == Operation::End {
            state.alone.remove(at);
        }
        true
    }
}
