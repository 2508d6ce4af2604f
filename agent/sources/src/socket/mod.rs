//! Source `socket`: requests of any server, by the times at which connections receive and send. None of their
//! bytes is read.
//!
//! The BPF programs of family `socket` get the list of watched addresses and make the edges by themselves.
//! This module knows only that list, and the names of the requests.

pub use guestscope_kernel::watched::{Watched, WatchedError};
