//! Tables of the pairing, which looks into some ten of them for each edge.
//!
//! A fifth of the main thread's time in user space went into the standard hash function. This one is
//! seeded anew in each process as well, since programs choose some keys; entries are bounded besides.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

pub(crate) type Table<K, V> = HashMap<K, V, RandomState>;
pub(crate) type Set<K> = HashSet<K, RandomState>;
