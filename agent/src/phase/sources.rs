//! What each source has made, and what it said of itself. Part of [`Pairing`](super::pairing::Pairing).

use guestscope_ebpf::{SOURCES, Source};

use crate::untrusted::Untrusted;

/// Different texts that are kept: a program may say anything.
const KEPT: usize = 256;

/// What came of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Outermost phases.
    pub requests: u64,
    /// Phases within others.
    pub phases: u64,
}

/// Something that a source said: what it found (`+`), or what it could not (`!`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which source.
    pub source: Source,
    /// Its words.
    pub text: Untrusted,
    /// How often it said so: once in each process.
    pub times: u64,
}

/// The sources of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// In the order of [`Source::ALL`].
    pub made: [Made; SOURCES],
    /// In the order in which they said it first.
    pub told: Vec<Told>,
    /// Said beyond what is kept.
    pub told_more: u64,
}

impl Sources {
    /// What came of one.
    pub fn made(&self, source: Source) -> Made {
        self.made[source as usize]
    }

    pub(super) fn begun(&mut self, source: Source, is_root: bool) {
        let made = &mut self.made[source as usize];
        if is_root {
            made.requests += 1;
        } else {
            made.phases += 1;
        }
    }

    pub(super) fn tell(&mut self, source: Source, text: Untrusted) {
        if let Some(known) = self.told.iter_mut().find(|told| told.source == source && told.text == text) {
            known.times += 1;
        } else if self.told.len() < KEPT {
            self.told.push(Told { source, text, times: 1 });
        } else {
            self.told_more += 1;
        }
    }
}
