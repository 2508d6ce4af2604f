//! Names of phases, each kept once. They come from other processes: bounded in number, repaired to UTF-8.

use crate::untrusted::Untrusted;
use std::collections::HashMap;

/// A program that makes up a name per request would fill the memory; from here on names are not kept.
const KEPT: usize = 4096;

/// The names met so far.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<Vec<u8>, (Untrusted, bool)>);

impl Names {
    /// The name of these bytes, and whether it had to be repaired.
    pub(crate) fn get(&mut self, bytes: &[u8]) -> (Untrusted, bool) {
        if let Some(known) = self.0.get(bytes) {
            return known.clone();
        }
        let name = (Untrusted::of_bytes(bytes), std::str::from_utf8(bytes).is_err());
        if self.0.len() < KEPT {
            self.0.insert(bytes.to_vec(), name.clone());
        }
        name
    }
}
