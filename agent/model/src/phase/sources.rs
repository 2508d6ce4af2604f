//! Phases and messages of each source. Part of [`Pairing`].

use guestscope_contract::{SOURCES, Source};

use crate::untrusted::Untrusted;

/// Maximum number of different texts: a program may send anything.
const KEPT: usize = 256;

/// Counts of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Outermost phases.
    pub requests: u64,
    /// Phases within others.
    pub phases: u64,
    /// Details on threads that were inside nothing: no phases.
    pub alone: u64,
}

/// Something that a source said: what it found (`+`), or what it could not (`!`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which source.
    pub source: Source,
    /// Text of the message.
    pub text: Untrusted,
    /// How often it came: once in each process.
    pub times: u64,
}

/// The sources of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Counts, in the order of [`Source::ALL`].
    pub made: [Made; SOURCES],
    /// Messages, in the order of their first arrival.
    pub told: Vec<Told>,
    /// Said beyond what is kept.
    pub told_more: u64,
    /// A request has come: an outermost phase that was begun as one, that has a number, or that the program
    /// marked itself.
    pub has_requests: bool,
}

impl Sources {
    /// Counts of one source.
    pub fn made(&self, source: Source) -> Made {
        self.made[source as usize]
    }

    /// Whether anything was marked.
    pub fn has_come(&self) -> bool {
        self.made.iter().any(|made| *made != Made::default())
    }

    pub(super) fn begun(&mut self, source: Source, is_root: bool, is_request: bool) {
        // A library's call outside of every request is none.
        let is_a_librarys = match source {
            Source::Python | Source::Nvtx | Source::Itt => true,
            Source::Marker | Source::Otel | Source::Function | Source::Usdt | Source::Socket => false,
        };
        self.has_requests |= is_root && (is_request || !is_a_librarys);
        let made = &mut self.made[source as usize];
        if is_root {
            made.requests += 1;
        } else {
            made.phases += 1;
        }
    }

    /// Takes back a request of this source that was none.
    pub(super) fn was_none(&mut self, source: Source) {
        let made = &mut self.made[source as usize];
        made.requests = made.requests.saturating_sub(1);
    }

    pub(super) fn alone(&mut self, source: Source) {
        self.made[source as usize].alone += 1;
    }

    /// Takes a message about a source: `+` and what it found, or `!` and what it could not do.
    pub fn tell(&mut self, source: Source, text: Untrusted) {
        if let Some(known) = self.told.iter_mut().find(|told| told.source == source && told.text == text) {
            known.times += 1;
        } else if self.told.len() < KEPT {
            self.told.push(Told { source, text, times: 1 });
        } else {
            self.told_more += 1;
        }
    }
}
