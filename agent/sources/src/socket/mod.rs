//! Source `socket`: requests of any server, by the times at which connections receive and send. Their content
//! is not read.
//!
//! The BPF programs of family `socket` get the list of watched addresses and make the edges. This module has
//! only that list, and the names of the requests.

pub use guestscope_kernel::watched::{Watched, WatchedError};
