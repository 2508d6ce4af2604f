//! Source `socket`: requests of any server, known by when its connections receive and send. No byte of what
//! they say is read.
//!
//! What is watched is told to the programs of family `socket`, which make the edges by themselves. It only
//! knows what was asked for, and what that is called.

mod watched;

pub use watched::{Watched, WatchedError};
