//! Names of phases, each kept once. They come from other processes: bounded in number, repaired to UTF-8.

use guestscope_contract::{SOURCES, Source};

use super::table::Table;
use crate::untrusted::Untrusted;

/// Names of one source. A program that makes up a name per request would fill the memory, and every table
/// that goes by names: from here on all others are one name.
pub(super) const KEPT: usize = 1_000;
/// Name that stands for all further names.
const OTHERS: &[u8] = b"(other names)";

/// A name as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: Untrusted,
    /// Whether it had to be repaired.
    pub(crate) is_repaired: bool,
    /// Whether it was beyond the limit and became the one name for all of these.
    pub(crate) is_left_out: bool,
}

/// The names met so far, by source.
#[derive(Debug, Default)]
pub(crate) struct Names([Table<Vec<u8>, (Untrusted, bool)>; SOURCES]);

impl Names {
    /// The name of these bytes.
    pub(crate) fn get(&mut self, source: Source, bytes: &[u8]) -> Named {
        let known = &mut self.0[source as usize];
        if let Some((name, is_repaired)) = known.get(bytes) {
            return Named { name: name.clone(), is_repaired: *is_repaired, is_left_out: false };
        }
        if known.len() >= KEPT {
            return Named { name: Untrusted::of_bytes(OTHERS), is_repaired: false, is_left_out: true };
        }
        let (name, is_repaired) = (Untrusted::of_bytes(bytes), std::str::from_utf8(bytes).is_err());
        known.insert(bytes.to_vec(), (name.clone(), is_repaired));
        Named { name, is_repaired, is_left_out: false }
    }
}
